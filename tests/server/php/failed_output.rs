//! Output of scripts that fail before anything was sent: the response has the status of a failure, and is whole.

use svc_testing::Svc;
use svc_testing::http2::Http2Client;

/// Output of about `size` bytes, and then a failure.
const HANDLER: &str = r"
function nested(): array { for ($list = [], $n = 0; $n < 120000; $n++) { $list = [$list]; } return $list; }
function fail(string $how): void
{
    match ($how) {
        'exception' => throw new RuntimeException('thrown'),
        'error' => no_such_function(),
        'memory' => str_repeat('x', PHP_INT_MAX >> 4),
        'user' => trigger_error('raised', E_USER_ERROR),
        'stack' => (new Fiber(static fn () => mb_convert_encoding(nested(), 'UTF-8')))->start(),
    };
}
function handle(): void
{
    if (!isset($_GET['size'])) { return; }
    $text = str_repeat('x', (int) $_GET['size']);
    if ($_GET['status'] !== '0') { http_response_code((int) $_GET['status']); }
    if (isset($_GET['field'])) { header('Status: ' . $_GET['field']); }
    header('X-Script: 1');
    switch ($_GET['where']) {
        case 'buffer': ob_start(); echo $text; break;
        case 'callback': ob_start(static fn ($text) => $text); echo $text; break;
        case 'both': echo substr($text, 0, 50000); ob_start(); echo substr($text, 50000); break;
        case 'shutdown': register_shutdown_function(static function () use ($text) { echo $text; }); break;
        case 'flush': register_shutdown_function(static function () use ($text) { echo $text; flush(); }); break;
        case 'status': register_shutdown_function(static function () use ($text) { http_response_code(200); echo $text; }); break;
        case 'line': register_shutdown_function(static function () use ($text) { header('HTTP/1.1 422 Not Quite'); echo $text; }); break;
        case 'again': register_shutdown_function(static function () { http_response_code(422); throw new Error('again'); }); break;
        case 'redirect': register_shutdown_function(static fn () => header('Location: /error')); break;
        case 'other': register_shutdown_function(static fn () => header('Location: /error', true, 307)); break;
        case 'length': header('Content-Length: 5'); ob_start(); echo $text; break;
        case 'sent': echo $text; ob_flush(); flush(); break;
    }
    fail($_GET['how']);
}
";

const ENTRIES: [(&str, &str); 1 + 2 * cfg!(feature = "worker") as usize] = [
    ("classic", "handle();"),
    #[cfg(feature = "worker")]
    ("serve", "Svc\\Worker::serve(handle(...));"),
    #[cfg(feature = "worker")]
    ("loop", "while (frankenphp_handle_request(handle(...))) { }"),
];

/// The larger ones do not fit in a response that is sent in one piece.
const SIZES: [usize; 4] = [0, 100, 100_000, 400_000];

fn start(mode: &str, entry: &str) -> Svc {
    let script = format!("<?php {HANDLER} {entry}");
    let settings = [
        ("PHP_WORKERS", "1"),
        ("ENTRY_FILE", "index.php"),
        ("WORKER_MODE_ENABLED", if mode == "classic" { "false" } else { "true" }),
    ];
    Svc::start_with(&[("index.php", &script)], &settings, &["memory_limit=256M", "display_errors=0"])
}

#[test]
fn a_failure_before_the_head_is_a_whole_500_of_any_length() {
    for (mode, entry) in ENTRIES {
        let svc = start(mode, entry);
        for how in ["exception", "error", "memory", "user", "stack"] {
            for place in ["buffer", "callback", "both", "shutdown", "flush", "length"] {
                let mut dropped = Vec::new();
                for (size, status) in SIZES.into_iter().zip([0, 418, 503, 0]) {
                    let path = format!("/?how={how}&where={place}&size={size}&status={status}");
                    let before = svc.metric("svc_dropped_requests_total");
                    let over_http1 = svc.get(&path);
                    let over_http2 = Http2Client::connect(svc.main()).get(&path);
                    for response in [over_http1, over_http2] {
                        assert!(response.is_whole, "{mode} {path} is cut");
                        assert_eq!(response.status, status.max(500), "{mode} {path}");
                        assert_eq!(response.field("x-script"), Some("1"), "{mode} {path}");
                        // PHP discards its buffers if memory has run out; the server explains an empty 500.
                        let is_kept = size > 0 && how != "memory";
                        let length = response.body.len();
                        assert!(!is_kept || length == size, "{mode} {path}: {length} bytes");
                    }
                    dropped.push(svc.metric("svc_dropped_requests_total") - before);
                }
                assert!(
                    dropped.iter().all(|count| *count == dropped[0]),
                    "{mode} {how} {place}: {dropped:?}"
                );
            }
        }
        let path = "/?how=exception&where=sent&size=100&status=0";
        let response = svc.get(path);
        assert_eq!((response.status, response.is_whole), (200, false), "{mode} {path}");
    }
}

#[test]
fn a_status_field_that_is_set_before_a_failure_does_not_count() {
    for (mode, entry) in ENTRIES {
        let svc = start(mode, entry);
        for how in ["exception", "error", "memory"] {
            for place in ["buffer", "flush", "again"] {
                for (field, expected) in [("200%20OK", 500), ("302%20Found", 500), ("404", 500), ("503", 503)]
                {
                    for size in [100, 100_000] {
                        let path = format!("/?how={how}&where={place}&size={size}&status=0&field={field}");
                        let response = svc.get(&path);
                        assert_eq!((response.status, response.is_whole), (expected, true), "{mode} {path}");
                    }
                }
            }
        }
    }
}

/// As under php-fpm: a friendly page, a redirect, or an answer that its client understands.
#[test]
fn a_status_that_is_set_after_a_failure_counts() {
    for (mode, entry) in ENTRIES {
        let svc = start(mode, entry);
        for how in ["exception", "error", "memory", "user", "stack"] {
            for (place, expected, reason) in [
                ("status", 200, "OK"),
                ("line", 422, "Not Quite"),
                ("redirect", 302, "Found"),
                ("other", 307, "Temporary Redirect"),
            ] {
                for before in [0, 404, 503] {
                    let path = format!("/?how={how}&where={place}&size=100&status={before}");
                    let response = svc.get(&path);
                    let seen = (response.status, response.reason.as_str(), response.is_whole);
                    assert_eq!(seen, (expected, reason, true), "{mode} {path}");
                    let is_redirect = response.field("location") == Some("/error");
                    assert!(is_redirect || response.body.len() == 100, "{mode} {path}");
                    assert_eq!(Http2Client::connect(svc.main()).get(&path).status, expected, "{mode} {path}");
                }
            }
        }
    }
}

#[test]
fn head_has_the_fields_of_a_failure_that_get_has() {
    for (mode, entry) in ENTRIES {
        let svc = start(mode, entry);
        for how in ["exception", "error", "memory", "user", "stack"] {
            for place in ["buffer", "callback", "shutdown", "status", "redirect", "length"] {
                for (size, status, coding) in
                    [(0, 0, ""), (100, 418, ""), (100, 503, "gzip"), (1000, 0, "gzip"), (1000, 0, "")]
                {
                    let path = format!("/?how={how}&where={place}&size={size}&status={status}");
                    let ask = format!("{path} HTTP/1.1\r\nHost: x\r\nAccept-Encoding: {coding}\r\n\r\n");
                    let mut client = svc.client();
                    client.send(format!("GET {ask}"));
                    let get = client.response();
                    client.send(format!("HEAD {ask}"));
                    let head = client.head_only();
                    assert_eq!(head.status, get.status, "{mode} {path}");
                    for name in ["content-type", "content-encoding", "location", "x-script"] {
                        assert_eq!(head.field(name), get.field(name), "{mode} {path} {name}");
                    }
                    let length = head.field("content-length");
                    assert!(length.is_none() || length == get.field("content-length"), "{mode} {path}");
                }
            }
        }
    }
}

/// Output of about `size` bytes, and a limit that expires after the end of the script.
const LATE: &str = r"
class AtEnd { public function __destruct() { while (true) { } } }
function handle(): void
{
    if (!isset($_GET['size'])) { return; }
    http_response_code((int) $_GET['status']);
    ob_start();
    echo str_repeat('x', (int) $_GET['size']);
    switch ($_GET['where']) {
        case 'shutdown': register_shutdown_function(static function () { set_time_limit(1); while (true) { } }); break;
        case 'destructor': register_shutdown_function(static function () { set_time_limit(1); new AtEnd(); }); break;
        case 'callback': ob_start(static function () { set_time_limit(1); while (true) { } }); break;
    }
}
";

#[test]
fn a_limit_that_expires_after_the_script_is_a_whole_504_of_any_length() {
    for (mode, entry) in ENTRIES {
        let script = format!("<?php {LATE} {entry}");
        let settings = [
            ("PHP_WORKERS", "1"),
            ("ENTRY_FILE", "index.php"),
            ("WORKER_MODE_ENABLED", if mode == "classic" { "false" } else { "true" }),
        ];
        let svc = Svc::start_with(&[("index.php", &script)], &settings, &["display_errors=0"]);
        for place in ["shutdown", "destructor", "callback"] {
            for (size, status) in [(0, 200), (100, 418), (100_000, 200)] {
                let path = format!("/?where={place}&size={size}&status={status}");
                for response in [svc.get(&path), Http2Client::connect(svc.main()).get(&path)] {
                    assert_eq!((response.status, response.is_whole), (504, true), "{mode} {path}");
                }
            }
        }
        svc.assert_metric("svc_request_cancelled_total{reason=\"timeout\"}", 18.0);
        svc.assert_metric("svc_dropped_requests_total", 0.0);
    }
}
