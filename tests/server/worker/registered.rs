//! Registrations that code makes once, on first use: which requests see them, in each kind of worker.

use svc_testing::Svc;

const CLOSURES: &str = include_str!("../../php/closure_stream.php");

fn start(script: &str, directives: &[&str]) -> Svc {
    let settings = [("PHP_WORKERS", "1"), ("WORKER_MODE_ENABLED", "true"), ("ENTRY_FILE", "worker.php")];
    Svc::start_with(&[("worker.php", script)], &settings, directives)
}

const OWN_LOOP: &str = "while (frankenphp_handle_request(handle(...))) { }";
const SERVE: &str = "Svc\\Worker::serve(handle(...));";

#[test]
fn a_wrapper_that_was_registered_in_a_request_stays_in_the_script_s_own_loop() {
    let handle =
        r#"function handle() { echo unserialized_closure('fn () => ' . (int) $_GET['n'] . ' + 1')(); }"#;
    let svc = start(&format!("{CLOSURES}{handle} {OWN_LOOP}"), &[]);
    for n in 0..6 {
        let response = svc.get(&format!("/?n={n}"));
        assert_eq!((response.status, response.text()), (200, (n + 1).to_string()));
    }
}

/// Registers on demand, and prints the registered names.
const TABLES: &str = r#"
final class Rot extends php_user_filter
{
    public function filter($in, $out, &$consumed, bool $closing): int
    {
        while ($bucket = stream_bucket_make_writeable($in)) {
            $bucket->data = str_rot13($bucket->data);
            $consumed += $bucket->datalen;
            stream_bucket_append($out, $bucket);
        }
        return PSFS_PASS_ON;
    }
}
final class Word
{
    public $context;
    private bool $read = false;
    public function stream_open(): bool { return true; }
    public function stream_read(): string
    {
        $text = $this->read ? '' : self::class;
        $this->read = true;
        return $text;
    }
    public function stream_eof(): bool { return $this->read; }
    public function stream_stat(): array { return ['size' => 4]; }
}
function text(callable $what): string
{
    try { return (string) @$what(); } catch (Throwable $e) { return $e::class; }
}
function rotated(string $name): string
{
    $stream = fopen('php://temp', 'r+');
    fwrite($stream, 'nop');
    rewind($stream);
    return @stream_filter_append($stream, $name, STREAM_FILTER_READ) ? stream_get_contents($stream) : 'none';
}
function handle(): void
{
    foreach (explode(',', $_GET['do'] ?? '') as $do) {
        match ($do) {
            '' => null,
            'wrapper' => stream_wrapper_register('word', Word::class),
            'filter' => stream_filter_register('late.rot', Rot::class),
            'wildcard' => stream_filter_register('any.*', Rot::class),
            'unregister' => stream_wrapper_unregister('data'),
            'replace' => stream_wrapper_unregister('data') && stream_wrapper_register('data', Word::class),
            'restore' => stream_wrapper_restore('data'),
            'remove' => stream_wrapper_unregister('word'),
            'boot' => stream_wrapper_unregister('boot'),
            'keep' => $GLOBALS['kept'][] = fopen('word://x', 'r'),
            'read' => print(implode(array_map(fn ($kept) => fread($kept, 9), $GLOBALS['kept'])) . ':'),
            'exception' => throw new LogicException('as the test wants it'),
            'exit' => exit('left'),
        };
    }
    echo json_encode([text(fn () => file_get_contents('word://x')), text(fn () => file_get_contents('data:,plain')),
        text(fn () => file_get_contents('boot://x')), rotated('late.rot'), rotated('any.thing'), rotated('boot.rot')]);
}
stream_wrapper_register('boot', Word::class);
stream_filter_register('boot.rot', Rot::class);
"#;

/// The registered names after the boot.
const CLEAN: &str = r#"["","plain","Word","none","none","abc"]"#;

#[test]
fn wrappers_and_filters_stay_in_the_script_s_own_loop() {
    for boot in ["", "file_get_contents('boot://x'); gc_collect_cycles();"] {
        let svc = start(&format!("<?php {TABLES} {boot} {OWN_LOOP}"), &[]);
        let ask = |what: &str| svc.get(&format!("/?do={what}")).text();
        for (what, expected) in [
            ("", CLEAN),
            ("wrapper", r#"["Word","plain","Word","none","none","abc"]"#),
            ("keep", r#"["Word","plain","Word","none","none","abc"]"#),
            ("filter", r#"["Word","plain","Word","abc","none","abc"]"#),
            ("unregister", r#"["Word","","Word","abc","none","abc"]"#),
            ("restore,wildcard", r#"["Word","plain","Word","abc","abc","abc"]"#),
            ("replace", r#"["Word","Word","Word","abc","abc","abc"]"#),
            ("restore", r#"["Word","plain","Word","abc","abc","abc"]"#),
            ("exit", "left"),
            ("remove", r#"["","plain","Word","abc","abc","abc"]"#),
            // The stream outlives its wrapper.
            ("read", r#"Word:["","plain","Word","abc","abc","abc"]"#),
            ("boot", r#"["","plain","","abc","abc","abc"]"#),
            ("", r#"["","plain","","abc","abc","abc"]"#),
            ("wrapper", r#"["Word","plain","","abc","abc","abc"]"#),
        ] {
            assert_eq!(ask(what), expected, "{what}");
            assert_eq!(ask(""), expected_next(what, expected), "after {what}");
        }
        assert_eq!(svc.get("/?do=replace,exception").status, 500);
        assert_eq!(ask(""), r#"["Word","Word","","abc","abc","abc"]"#);
        assert_eq!(svc.metric("svc_workers_spawned_total"), 1.0);
    }
}

/// Returns the names that the next request finds, which registers nothing.
fn expected_next<'a>(what: &str, expected: &'a str) -> &'a str {
    match what {
        "exit" => r#"["Word","plain","Word","abc","abc","abc"]"#,
        "read" => expected.strip_prefix("Word:").unwrap(),
        _ => expected,
    }
}

#[test]
fn they_end_with_their_request_where_requests_run_side_by_side() {
    let svc = start(&format!("<?php {TABLES} {SERVE}"), &[]);
    for what in ["wrapper", "filter,wildcard", "unregister", "replace", "boot", "wrapper,keep", "read"] {
        assert_eq!(svc.get(&format!("/?do={what}")).status, 200, "{what}");
        assert_eq!(svc.get("/").text(), CLEAN, "after {what}");
    }
}

/// State that a request in the script's own loop leaves to the next one; the table in docs/php.md lists it.
const OTHERS: &str = r#"
final class Late { public static int $count = 0; }
function handle(): void
{
    if (isset($_GET['first'])) {
        spl_autoload_register(fn (string $class) => $class === 'Loaded' && class_alias(Late::class, 'Loaded'));
        set_error_handler(fn () => true);
        set_exception_handler(fn () => null);
        register_shutdown_function(fn () => Late::$count++);
        ini_set('precision', '3');
        putenv('LEFT=1');
        setlocale(LC_ALL, 'C.UTF-8', 'C.utf8');
        date_default_timezone_set('Asia/Tokyo');
        chdir('/');
        stream_context_set_default(['http' => ['user_agent' => 'left']]);
        libxml_use_internal_errors(true);
        define('LEFT', true);
        header_register_callback(fn () => header('X-Left: 1'));
    }
    $handler = set_error_handler(null);
    restore_error_handler();
    $exceptions = set_exception_handler(null);
    restore_exception_handler();
    echo json_encode(['autoload' => class_exists('Loaded'), 'errors' => $handler !== null, 'exceptions' => $exceptions !== null,
        'shutdown' => Late::$count, 'ini' => ini_get('precision'), 'environment' => getenv('LEFT'), 'zone' => date_default_timezone_get(),
        'directory' => getcwd() === '/', 'context' => stream_context_get_options(stream_context_get_default()) !== [],
        'libxml' => libxml_use_internal_errors(), 'constant' => defined('LEFT')]);
}
"#;

#[test]
fn the_rest_begins_where_the_script_has_left_it() {
    // Otherwise the first request counts as the boot of the application.
    let boot = "set_error_handler(fn () => false); set_exception_handler(fn () => null);";
    for serve in [OWN_LOOP, SERVE] {
        let svc = start(&format!("<?php {OTHERS} {boot} {serve}"), &["date.timezone=UTC"]);
        assert_eq!(svc.get("/?first").field("x-left"), Some("1"));
        for _ in 0..2 {
            let response = svc.get("/");
            assert_eq!(
                response.text(),
                concat!(
                    r#"{"autoload":true,"errors":true,"exceptions":true,"shutdown":1,"ini":"14","environment":false,"zone":"UTC","#,
                    r#""directory":false,"context":false,"libxml":false,"constant":true}"#
                ),
                "{serve}"
            );
            assert_eq!(response.field("x-left"), None);
        }
    }
}
