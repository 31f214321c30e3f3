<?php
// A worker whose requests change everything that a request can change (/dirty), and print everything that another request
// could have changed (/look).
final class LeftBehind
{
    public $context;
    public function stream_open(): bool
    {
        return false;
    }
}
final class LeftFilter extends php_user_filter
{
}

// Each request starts with the boot script's state.
putenv('SVC_BOOT=boot');
$_ENV['SVC_BOOT'] = 'boot';
ini_set('precision', '11');
date_default_timezone_set('Europe/Berlin');
mb_internal_encoding('UTF-8');
set_error_handler(fn () => false, E_USER_DEPRECATED);
session_name('BOOTED');
session_save_path(__DIR__);

function dirty(): void
{
    $_ENV['SVC_TEST'] = $_GET['left'] = $_POST['left'] = $_COOKIE['left'] = $_SERVER['left'] = $_REQUEST['left'] = 'dirty';
    putenv('SVC_TEST=dirty');
    putenv('PATH=/nowhere');
    putenv('TZ=Asia/Tokyo');
    setlocale(LC_ALL, 'C.UTF-8', 'C.utf8');
    chdir('/');
    umask(0o777);
    foreach (['precision' => '3', 'memory_limit' => '64M', 'include_path' => '/nowhere', 'error_reporting' => '0',
        'user_agent' => 'dirty', 'default_charset' => 'iso-8859-1', 'arg_separator.output' => ';', 'serialize_precision' => '2',
        'zend.assertions' => '0', 'pcre.backtrack_limit' => '1000', 'session.name' => 'DIRTY', 'display_errors' => '0',
        'session.gc_maxlifetime' => '7', 'max_execution_time' => '7'] as $name => $value) {
        ini_set($name, $value) !== false || throw new LogicException("$name cannot be set");
    }
    date_default_timezone_set('Asia/Tokyo');
    mb_internal_encoding('ISO-8859-1');
    mb_language('Japanese');
    mb_substitute_character(0x3f3f);
    mb_http_output('EUC-JP');
    mb_detect_order(['EUC-JP', 'SJIS']);
    Locale::setDefault('tr_TR');
    libxml_use_internal_errors(true);
    simplexml_load_string('<broken');
    bcscale(7);
    gc_disable();
    mt_srand(4711);
    ignore_user_abort(true);
    set_time_limit(9);
    stream_wrapper_register('left', LeftBehind::class);
    stream_wrapper_unregister('data');
    stream_filter_register('left.behind', LeftFilter::class);
    stream_context_set_default(['http' => ['user_agent' => 'dirty']]);
    set_error_handler(fn () => true);
    @trigger_error('left behind', E_USER_NOTICE);
    restore_error_handler();
    @trigger_error('the last error', E_USER_WARNING);
    set_error_handler(fn () => false);
    set_exception_handler(fn (Throwable $thrown) => print($thrown->getMessage()));
    header('X-Left: behind');
    setcookie('left', 'behind');
    http_response_code(201);
    json_decode('{');
    preg_match('/\xff/u', "\xff");
    strtok('a b c', ' ');
    register_shutdown_function(function () {
        echo ' bye';
    });
    session_id('dirty-' . ($_GET['stay'] ?? 'alone'));
    session_start();
    $_SESSION['left'] = 'dirty';
    ob_start(fn (string $text) => "[$text]");
}

/** The changes of dirty(), as the request sees them. */
function changed(): array
{
    return [getenv('SVC_TEST'), getenv('PATH'), getenv('TZ'), setlocale(LC_ALL, 0), getcwd(), umask(), ini_get('precision'),
        date_default_timezone_get(), mb_internal_encoding(), mb_detect_order(), bcscale(), error_get_last()['message'],
        libxml_use_internal_errors(), count(libxml_get_errors()), ignore_user_abort(), stream_get_wrappers(),
        in_array('left.behind', stream_get_filters()), stream_context_get_options(stream_context_get_default()),
        headers_list(), http_response_code(), json_last_error(), preg_last_error(), session_id(), $_SESSION, $_GET, $_POST,
        $_COOKIE, $_REQUEST, $_ENV, $_SERVER['left'], ob_get_level(), error_reporting(), gc_enabled(), Locale::getDefault(),
        ini_get_all(null, false), ini_get('max_execution_time')];
}

function look(): array
{
    $error = error_get_last();
    $handler = set_error_handler(null);
    restore_error_handler();
    $exception = set_exception_handler(null);
    restore_exception_handler();
    return [
        'environment' => [getenv('SVC_BOOT'), getenv('SVC_TEST'), getenv()['SVC_TEST'] ?? false, getenv('PATH'), getenv('TZ'), $_ENV],
        'locale' => [setlocale(LC_ALL, 0), sprintf('%.1f', 1.5), strtoupper('ä'), localeconv()['decimal_point']],
        'directory' => getcwd(),
        'umask' => umask(),
        'ini' => ini_get_all(null, false),
        'timezone' => date_default_timezone_get(),
        'error' => [$error, json_last_error(), preg_last_error(), error_reporting()],
        'handlers' => [$handler !== null, $exception],
        'buffers' => ob_get_level(),
        'headers' => headers_list(),
        'status' => http_response_code(),
        'abort' => [ignore_user_abort(), connection_status()],
        'wrappers' => stream_get_wrappers(),
        'filters' => in_array('left.behind', stream_get_filters(), true),
        'context' => stream_context_get_options(stream_context_get_default()),
        'gc' => gc_enabled(),
        'mb' => [mb_internal_encoding(), mb_substitute_character(), mb_http_output(), mb_detect_order()],
        'libxml' => [libxml_use_internal_errors(), count(libxml_get_errors())],
        'bcscale' => bcscale(),
        'session' => [session_status(), session_name(), session_id(), isset($_SESSION)],
        'superglobals' => [$_GET, $_POST, $_COOKIE, $_FILES, $_REQUEST, isset($_SERVER['left'])],
        'filtered' => [filter_input(INPUT_GET, 'stay'), filter_input(INPUT_COOKIE, 'left')],
        'strtok' => @strtok(' '),
        'random' => is_seeded_by_another(),
        'locale of intl' => Locale::getDefault(),
    ];
}

/** Whether the generator continues the sequence that dirty() seeded. */
function is_seeded_by_another(): bool
{
    $next = mt_rand();
    mt_srand(4711);
    return in_array($next, [mt_rand(), mt_rand(), mt_rand()], true);
}

function stay(string $name): void
{
    touch(__DIR__ . "/inside-$name");
    while (!file_exists(__DIR__ . "/go-$name")) {
        Svc\sleep(0.002);
        clearstatcache();
    }
}

Svc\Worker::serve(function () {
    if (strtok($_SERVER['REQUEST_URI'], '?') === '/look') {
        header('Content-Type: application/json');
        echo json_encode(look());
        return;
    }
    $name = $_GET['stay'] ?? null;
    dirty();
    $before = changed();
    if ($name !== null) {
        // The mask forbids everything.
        umask(0);
        $mask = array_search(0o777, $before, true);
        $before[$mask] = 0;
        stay($name);
    }
    $after = changed();
    $next = mt_rand();
    mt_srand(4711);
    $same = $after === $before && $next === mt_rand();
    switch ($_GET['end'] ?? '') {
        case 'exit':
            exit;
        case 'exception':
            throw new Exception('as the test wants it');
        case 'buffers':
            ob_start();
            echo 'in a buffer';
            break;
        default:
            echo $same ? 'still dirty' : 'changed: ' . print_r(array_filter($after, fn ($key) => $after[$key] !== $before[$key], ARRAY_FILTER_USE_KEY), true);
    }
});
