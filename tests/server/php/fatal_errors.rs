//! Code of a script that runs while PHP reports a fatal error, or after it.

use svc_testing::client::eventually;
use svc_testing::tasks::{MODES, Mode, PLACES, TaskServer, TaskSvc};

/// Returns a server with one worker, which the next request finds as the error has left it.
fn server(code: &str) -> TaskServer {
    TaskServer::new(code).set("PHP_WORKERS", "1").directive("memory_limit=64M")
}

#[track_caller]
fn serves_again(running: &TaskSvc) {
    eventually("the server serves again", || running.send("strrev", "abc").response().text() == "\"cba\"");
}

#[test]
fn output_callbacks_after_endless_recursion_see_no_frames_of_it() {
    const CODE: &str = r"
function recurse(): void { (fn ($again) => $again($again))(fn ($again) => $again($again)); }
function deep(string $kind): void
{
    ob_start(function () use ($kind) {
        $trace = match ($kind) {
            'exception' => (new Exception())->getTrace(),
            'error' => (fn () => (new Error())->getTrace())(),
            'debug' => debug_backtrace(),
            'warning' => (function () {
                set_error_handler(function () use (&$trace) { $trace = debug_backtrace(); return true; });
                trigger_error('one', E_USER_WARNING);
                restore_error_handler();
                return $trace;
            })(),
            'fiber' => (function () {
                $fiber = new Fiber(fn () => Fiber::suspend(debug_backtrace()));
                return $fiber->start();
            })(),
        };
        mark('frames', $kind . ' ' . count($trace) . ' ' . (error_get_last()['message'] ?? 'none'));
        return '';
    });
    recurse();
}
";
    server(CODE).in_each_mode(|running| {
        for kind in ["exception", "error", "debug", "warning", "fiber"] {
            for place in PLACES {
                let response = running.send(&format!("deep{place}"), kind).response();
                assert_eq!(response.status, 500, "{kind}{place}: {response:?}");
                serves_again(running);
            }
        }
        let seen = running.lines("frames");
        for line in &seen {
            let (frames, error) = line.split_once(' ').unwrap().1.split_once(' ').unwrap();
            assert!(frames.parse::<u32>().unwrap() < 10, "{line}");
            assert!(error.starts_with("Allowed memory size"), "{line}");
        }
        assert_eq!(seen.len(), 5 * PLACES.len());
    });
}

#[test]
fn memory_that_soap_exhausts_is_a_fault_that_scripts_catch() {
    const CODE: &str = r#"
class Local extends SoapClient
{
    public function __construct(private int $items) { parent::__construct(null, ['location' => 'http://x/', 'uri' => 'u']); }
    public function __doRequest($request, $location, $action, $version, $oneWay = false): ?string
    {
        return '<?xml version="1.0"?><e:Envelope xmlns:e="http://schemas.xmlsoap.org/soap/envelope/"><e:Body><r xmlns="u"><l>'
            . str_repeat('<i>some text</i>', $this->items) . '</l></r></e:Body></e:Envelope>';
    }
}
final class Service { public function f() { return str_repeat('x', PHP_INT_MAX >> 4); } }
function called(int $items): string
{
    try {
        (new Local($items))->f();
        return 'returned';
    } catch (SoapFault $fault) {
        return strtok($fault->getMessage(), '(') . basename($fault->getFile()) . ' ' . (count($fault->getTrace()) > 0 ? 'trace' : '');
    }
}
function client(): string { return called(1000000); }
function server(): string
{
    $server = new SoapServer(null, ['uri' => 'u']);
    $server->setClass('Service');
    $server->handle('<?xml version="1.0"?><e:Envelope xmlns:e="http://schemas.xmlsoap.org/soap/envelope/"><e:Body>'
        . '<f xmlns="u"/></e:Body></e:Envelope>');
    return 'returned';
}
function recursion(): string
{
    ob_start(function () { mark('callback', called(1000000)); return ''; });
    (function ($again) { $again($again); })(fn ($again) => $again($again));
}
"#;
    for mode in MODES {
        let running = &server(CODE).start(mode);
        for place in PLACES {
            let response = running.send(&format!("client{place}"), "").response();
            // Worker mode takes the bailout, which SoapClient ends, for the end of the request.
            let status = if mode == Mode::Classic || place == "&task" { 200 } else { 500 };
            assert_eq!(response.status, status, "{mode:?} client{place}: {response:?}");
            let text = response.text();
            assert!(
                text.contains("Allowed memory size of ") && text.contains(" trace"),
                "client{place}: {text}"
            );
            for code in ["server", "recursion"] {
                let response = running.send(&format!("{code}{place}"), "").response();
                assert!(response.status >= 500, "{code}{place}: {response:?}");
                serves_again(running);
            }
        }
        let seen = running.lines("callback");
        // No memory limit applies there.
        assert!(!seen.is_empty() && seen.iter().all(|line| line == "returned"), "{seen:?}");
    }
}

#[test]
fn a_collection_after_a_fatal_error_leaves_suspended_fibers_alone() {
    const CODE: &str = r"
/** A cycle with a fiber that is suspended inside a generator, which is also referenced elsewhere. */
final class Cycle
{
    public static array $generators = [];
    public Fiber $fiber;
    public function __construct() { $this->fiber = new Fiber([$this, 'iterate']); $this->fiber->start(); }
    public function iterate(): void
    {
        $generator = (function () { foreach ([1, 2] as $n) { Fiber::suspend(); yield $n; } })();
        self::$generators[] = $generator;
        foreach ($generator as $_) { }
    }
}
final class Wrapper
{
    public $context;
    public function stream_open(): bool { return true; }
    public function stream_write(string $text): int { return strlen($text); }
    public function stream_flush(): bool { collect('flush'); return true; }
    public function stream_close(): void { collect('close'); }
}
function collect(string $where): void
{
    mark('collected', $where);
    gc_collect_cycles();
    // Takes the place of whatever was freed.
    for ($n = 0; $n < 4000; $n++) { $GLOBALS['filler'][] = str_repeat(chr(255), 200 + $n % 250); }
}
function fail(string $end): void
{
    for ($n = 0; $n < 50; $n++) { new Cycle(); }
    in_array('wrap', stream_get_wrappers()) || stream_wrapper_register('wrap', 'Wrapper');
    $GLOBALS['stream'] = fopen('wrap://', 'w');
    fwrite($GLOBALS['stream'], 'x');
    register_shutdown_function(fn () => collect('shutdown'));
    match ($end) {
        'memory' => str_repeat('x', PHP_INT_MAX >> 4),
        'compile' => eval('function strlen() {}'),
        'user' => trigger_error('one', E_USER_ERROR),
        'limit' => (function () { set_time_limit(1); for (;;); })(),
    };
}
";
    server(CODE).in_each_mode(|running| {
        for end in ["memory", "compile", "user", "limit"] {
            for place in PLACES {
                let status = running.send(&format!("fail{place}"), end).response().status;
                assert!([500, 504].contains(&status), "{end}{place}: {status}");
                serves_again(running);
            }
        }
        let collected = running.lines("collected");
        for place in ["shutdown", "flush", "close"] {
            assert!(collected.iter().any(|line| line == place), "{place}: {collected:?}");
        }
    });
}
