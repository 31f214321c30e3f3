<?php
// Prints as JSON everything that an earlier or concurrent request could have changed.
header('Content-Type: application/json');
$error = error_get_last();
$handler = set_error_handler(null);
restore_error_handler();
$exception = set_exception_handler(null);
restore_exception_handler();
echo json_encode([
    'environment' => ['SVC_TEST' => getenv('SVC_TEST'), 'all' => getenv()['SVC_TEST'] ?? false, 'PATH' => getenv('PATH'),
        'TZ' => getenv('TZ'), 'global' => $_ENV['SVC_TEST'] ?? false],
    'locale' => [setlocale(LC_ALL, 0), sprintf('%.1f', 1.5), strtoupper('ä'), localeconv()['decimal_point']],
    'directory' => getcwd(),
    'umask' => umask(),
    'ini' => ['precision' => ini_get('precision')] + array_diff_key(ini_get_all(null, false), ['precision' => 1]),
    'timezone' => date_default_timezone_get(),
    'error' => $error,
    'handlers' => [$handler, $exception],
    'buffers' => ob_get_level(),
    'headers' => headers_list(),
    'status' => http_response_code(),
    'abort' => [ignore_user_abort(), connection_status()],
    'symbols' => [function_exists('left_behind'), class_exists('LeftBehind', false), defined('LEFT_BEHIND'),
        isset($GLOBALS['leftBehind'])],
    'files' => array_map('basename', get_included_files()),
    'autoload' => spl_autoload_functions(),
    'wrappers' => stream_get_wrappers(),
    'filters' => in_array('left.behind', stream_get_filters(), true),
    'context' => stream_context_get_options(stream_context_get_default()),
    'gc' => gc_enabled(),
    'mb' => [mb_internal_encoding(), mb_language(), mb_substitute_character(), mb_regex_encoding_or_none(), mb_http_output()],
    'libxml' => [libxml_use_internal_errors(), count(libxml_get_errors())],
    'bcscale' => bcscale(),
    'session' => [session_status(), session_name(), session_id()],
    'superglobals' => [$_GET, $_POST, $_COOKIE, $_FILES, $_REQUEST, isset($_SESSION)],
    'random' => has_seed_of_another(),
    'time limit' => ini_get('max_execution_time'),
    'assertions' => ini_get('zend.assertions'),
    'locale of intl' => Locale::getDefault(),
]);

function mb_regex_encoding_or_none(): mixed
{
    return function_exists('mb_regex_encoding') ? mb_regex_encoding() : null;
}

/** Whether the generator continues the sequence that dirty.php seeded. */
function has_seed_of_another(): bool
{
    $next = mt_rand();
    mt_srand(4711);
    for ($i = 0; $i < 3; $i++) {
        if (mt_rand() === $next) {
            return true;
        }
    }
    return false;
}
