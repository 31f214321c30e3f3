<?php
// A must-use plugin for WordPress: visitors get pages from svc's response cache, and new content is visible at once. Copy it
// to wp-content/mu-plugins/.

add_action('template_redirect', function () {
    if (is_user_logged_in() || is_preview() || is_404() || post_password_required() || headers_sent()) {
        return;
    }
    header('SVC-Cache-Control: max-age=600, stale-while-revalidate=60, stale-if-error=86400');
    header('Cache-Tag: ' . (is_singular() ? 'post-' . get_queried_object_id() : 'lists'));
});

function svc_purge_post(int $id): void
{
    if (function_exists('Svc\Cache\purge_tags') && !wp_is_post_revision($id)) {
        Svc\Cache\purge_tags("post-$id", 'lists');
    }
}

add_action('save_post', 'svc_purge_post');
add_action('deleted_post', 'svc_purge_post');
add_action('clean_post_cache', 'svc_purge_post');
add_action('switch_theme', fn () => function_exists('Svc\Cache\clear') && Svc\Cache\clear());
add_action('comment_post', fn ($id) => svc_purge_post((int) get_comment($id)->comment_post_ID));
add_action('wp_set_comment_status', fn ($id) => svc_purge_post((int) get_comment($id)->comment_post_ID));
