<?php
// A must-use plugin for WordPress: visitors get pages from svc's response cache, and new content is visible at once. Copy it
// to wp-content/mu-plugins/.

add_action('template_redirect', function () {
    $is_private = is_user_logged_in() || is_preview() || is_404() || post_password_required() || headers_sent()
        || (defined('DONOTCACHEPAGE') && DONOTCACHEPAGE) || preg_grep('/^Cache-Control:/i', headers_list());
    if (!$is_private) {
        // Without svc's own PHP (EXECUTOR=fastcgi), nothing can be purged.
        $seconds = function_exists('Svc\Cache\clear') ? 600 : 10;
        header("SVC-Cache-Control: max-age=$seconds, stale-while-revalidate=60, stale-if-error=86400");
        header('Cache-Tag: ' . (is_singular() ? 'post-' . get_queried_object_id() : 'lists'));
    }
}, PHP_INT_MAX);

function svc_purge(?int $post = null): void
{
    $shapes_all = in_array(get_post_type($post), ['wp_template', 'wp_template_part', 'wp_navigation', 'wp_block', 'nav_menu_item'], true);
    if (function_exists('Svc\Cache\clear') && !wp_is_post_revision((int) $post)) {
        $post === null || $shapes_all ? Svc\Cache\clear() : Svc\Cache\purge_tags("post-$post", 'lists');
    }
}

foreach (['save_post', 'deleted_post', 'clean_post_cache'] as $hook) {
    add_action($hook, fn ($id) => svc_purge((int) $id));
}
foreach (['comment_post', 'edit_comment', 'delete_comment', 'wp_set_comment_status'] as $hook) {
    add_action($hook, fn ($id) => svc_purge((int) get_comment($id)?->comment_post_ID));
}
$shaping = ['switch_theme', 'customize_save_after', 'wp_update_nav_menu', 'edited_term', 'delete_term', 'deleted_user', 'activated_plugin',
    'deactivated_plugin', 'upgrader_process_complete'];
foreach ($shaping as $hook) {
    add_action($hook, fn () => svc_purge());
}
add_action('profile_update', fn ($id) => count_user_posts((int) $id) && svc_purge());
add_action('updated_option', function ($name) {
    if (preg_match('/^(blog|date_format|page_|permalink_|posts_per_page|show_on_front|sidebars_|sticky_|theme_mods_|time_format|widget_)/', $name)) {
        svc_purge();
    }
});
