<?php
// Changes everything that a request can change, ends in the requested way, and restores nothing.
function left_behind(): void
{
}
class LeftBehind
{
    public static array $kept = [];
    public $context;
    public function stream_open(): bool
    {
        return false;
    }
}
class LeftFilter extends php_user_filter
{
}
define('LEFT_BEHIND', 1);
$leftBehind = LeftBehind::$kept[] = new LeftBehind();
$_ENV['SVC_TEST'] = $_GET['left'] = $_SERVER['left'] = 'dirty';
putenv('SVC_TEST=dirty');
putenv('PATH=/nowhere');
putenv('TZ=Asia/Tokyo');
setlocale(LC_ALL, 'C.UTF-8', 'C.utf8');
chdir('/');
umask(0o777);
foreach (['precision' => '3', 'memory_limit' => '64M', 'include_path' => '/nowhere', 'error_reporting' => '0', 'user_agent' => 'dirty',
    'default_charset' => 'iso-8859-1', 'arg_separator.output' => ';', 'serialize_precision' => '2', 'zend.assertions' => '0',
    'pcre.backtrack_limit' => '1000', 'session.name' => 'DIRTY', 'display_errors' => '0', 'max_execution_time' => '700'] as $name => $value) {
    ini_set($name, $value) !== false || throw new LogicException("$name cannot be set");
}
date_default_timezone_set('Asia/Tokyo');
mb_internal_encoding('ISO-8859-1');
mb_language('Japanese');
mb_substitute_character(0x3f3f);
mb_http_output('EUC-JP');
Locale::setDefault('tr_TR');
libxml_use_internal_errors(true);
simplexml_load_string('<broken');
bcscale(7);
gc_disable();
mt_srand(4711);
ignore_user_abort(true);
set_time_limit(900);
stream_wrapper_register('left', LeftBehind::class);
stream_wrapper_unregister('data');
stream_filter_register('left.behind', LeftFilter::class);
stream_context_set_default(['http' => ['user_agent' => 'dirty']]);
spl_autoload_register(fn (string $class) => null);
set_error_handler(fn () => true);
@trigger_error('left behind', E_USER_NOTICE);
restore_error_handler();
@trigger_error('the last error', E_USER_WARNING);
set_error_handler(fn () => false);
set_exception_handler(null);
header('X-Left: behind');
session_id('dirty');

$root = $_SERVER['DOCUMENT_ROOT'];
if (isset($_GET['stay'])) {
    touch("$root/inside-{$_GET['stay']}") && chmod("$root/inside-{$_GET['stay']}", 0o600);
    while (!file_exists("$root/go-{$_GET['stay']}")) {
        usleep(1000);
        clearstatcache();
    }
}
$is = [getenv('SVC_TEST'), getenv('PATH'), getenv('TZ'), setlocale(LC_ALL, 0), getcwd(), umask(), ini_get('precision'),
    date_default_timezone_get(), mb_internal_encoding(), bcscale(), error_get_last()['message']];
$should = ['dirty', '/nowhere', 'Asia/Tokyo', 'C.UTF-8', '/', 0o777, '3', 'Asia/Tokyo', 'ISO-8859-1', 7, 'the last error'];
switch ($_GET['end'] ?? '') {
    case 'exit':
        exit;
    case 'exception':
        throw new Exception();
    case 'fatal':
        require '/nonexistent';
        // No break: never reached.
    case 'memory':
        str_repeat('x', PHP_INT_MAX >> 4);
        // No break: never reached.
    case 'recursion':
        (function () {
            (new ReflectionFunction(recur(...)))->invoke();
        })();
        // No break: never reached.
    case 'buffers':
        ob_start();
        ob_start(fn (string $text) => $text);
        echo 'in a buffer';
        break;
    default:
        echo $is === $should ? 'still dirty' : json_encode([$is, $should]);
}

function recur(): void
{
    array_map(recur(...), [1]);
}
