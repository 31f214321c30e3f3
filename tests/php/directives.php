<?php
// A worker whose requests change one directive each, wait, and return the outcome. Other requests, beside and after them,
// read the directives by ini_get() and by their effects.
$told = [];
// Every request sets another handler above this one: it runs only for errors outside of requests.
set_error_handler(function (int $level, string $message) use (&$told) {
    $told[] = $message;
    throw new ErrorException($message);
});
$pair = stream_socket_pair(STREAM_PF_UNIX, STREAM_SOCK_STREAM, 0);

const VALUES = [
    'date.timezone' => ['Asia/Tokyo'],
    'error_log' => ['/nowhere/log'],
    'fiber.stack_size' => ['1M'],
    'max_execution_time' => ['77'],
    'memory_limit' => ['300M'],
    // Before PHP 8.4, threads treat a JIT that is off as on, and look for its symbols.
    'opcache.jit_debug' => PHP_VERSION_ID < 80400 ? [] : ['1'],
    'open_basedir' => [__DIR__],
    'session.name' => ['OTHER'],
    'unserialize_callback_func' => ['unknown'],
    'url_rewriter.tags' => ['a=href,form='],
    'zend.assertions' => ['0', '1'],
];
const GUESSES = ['1', '0', '7', '30', '64K', 'UTF-8', 'ISO-8859-1', 'EUC-JP', 'Japanese', 'none', 'a=href', '/tmp', 'x'];

/** Gives the directive another value, if it accepts one. */
function change(string $name): ?string
{
    $now = ini_get($name);
    foreach (VALUES[$name] ?? GUESSES as $value) {
        if ($value !== (string) $now && @ini_set($name, $value) !== false && ini_get($name) !== $now) {
            return ini_get($name);
        }
    }
    return null;
}

/** The effects of directives. */
function effects(): array
{
    $trace = (fn (string $text) => (new Exception())->getTraceAsString())(str_repeat('x', 99));
    preg_match('/(?:\D+|<\d+>)*[!?]/', 'foobar foobar foobar');
    try {
        // It would end the request.
        $assertion = ini_get('assert.bail') ? null : @assert(false);
    } catch (Error $error) {
        $assertion = $error->getMessage();
    }
    return [
        'text' => [(string) (1 / 3), var_export(1 / 3, true), substr_count($trace, 'x') > 20, http_build_query(['a' => 1, 'b' => 2])],
        'time' => [date_default_timezone_get(), date('Y-m-d H', 0)],
        'mb' => [mb_internal_encoding(), mb_http_output(), mb_language(), mb_substitute_character(), mb_detect_order(),
            mb_regex_encoding(), mb_strlen("\xc3\xa4"), mb_convert_encoding("\xff", 'UTF-8', 'UTF-8')],
        'iconv' => @iconv_get_encoding(),
        'charset' => [htmlspecialchars_decode(htmlentities("\xe4")), iconv_strlen('a')],
        'pcre' => preg_last_error(),
        'assert' => [$assertion, @assert_options(ASSERT_CALLBACK), @assert_options(ASSERT_ACTIVE), @assert_options(ASSERT_BAIL)],
        'session' => [session_name(), session_save_path(), session_module_name(), session_cache_limiter(), session_cache_expire(),
            session_get_cookie_params(), strlen(session_create_id())],
        'engine' => [gc_enabled(), error_reporting(), get_include_path(), bcscale(), Locale::getDefault()],
        'files' => [@is_dir('/etc'), @is_dir(__DIR__)],
        'syntax' => highlight_string('<?php $a = "b"; # c', true),
        'unserialized' => @unserialize('a:1:{i:0;a:1:{i:0;a:1:{i:0;a:1:{i:0;a:1:{i:0;a:1:{i:0;a:1:{i:0;a:0:{}}}}}}}}'),
    ];
}

Svc\Worker::serve(function () use (&$told, $pair) {
    set_error_handler(fn () => true);
    switch ($_GET['do']) {
        case 'names':
            echo implode(' ', array_keys(ini_get_all()));
            return;
        case 'look':
            echo json_encode([ini_get_all(), effects(), error_get_last(), $told], JSON_PARTIAL_OUTPUT_ON_ERROR | JSON_PRETTY_PRINT);
            return;
        case 'go':
            fwrite($pair[1], '.');
            return;
        case 'change':
            $values = $before = [];
            foreach (explode(' ', $_GET['names']) as $name) {
                $value = change($name);
                if ($value !== null) {
                    $values[$name] = $value;
                }
            }
            $all = ini_get_all();
            $before = effects();
            error_clear_last();
            for ($i = 0; $i < 3; $i++) {
                // Three times: a lost reference does not show at once.
                Svc\sleep(0);
            }
            Svc\wait_readable($pair[0]);
            fread($pair[0], 1);
            $error = error_get_last();
            $after = effects();
            $same = $all === ini_get_all() && $before === $after && $error === null;
            echo count($values), ' ', $same ? 'same' : json_encode([$values, $error, array_filter($before, fn ($key) => $before[$key] !== $after[$key],
                ARRAY_FILTER_USE_KEY), $after], JSON_PARTIAL_OUTPUT_ON_ERROR | JSON_PRETTY_PRINT);
    }
});
