//! Scripts that end inside a callback of libcurl, in the middle of a transfer.

use svc_testing::client::eventually;
use svc_testing::{IS_WORKER, Svc};

/// `file.txt` comes from the server itself; its I/O threads serve it while the only worker waits for it.
const SCRIPT: &str = r#"<?php
final class Part
{
    public static Closure $end;
    public $context;
    public function stream_open(string $path): bool { return true; }
    public function stream_stat(): array { return ['size' => 3]; }
    public function stream_read(int $count): string { (self::$end)(); return 'abc'; }
    public function stream_seek(int $offset): bool { return true; }
    public function stream_tell(): int { return 0; }
    public function stream_eof(): bool { return false; }
    public function stream_close(): void {}
}
$handler = function () {
    $end = function () {
        if (isset($_GET['limit'])) {
            set_time_limit(1);
            while (true);
        }
        $_GET['end'] === 'fatal' ? str_repeat('x', PHP_INT_MAX >> 4) : throw new Exception('thrown');
    };
    $transfer = curl_init("http://127.0.0.1:{$_SERVER['SERVER_PORT']}/file.txt");
    curl_setopt($transfer, CURLOPT_RETURNTRANSFER, true);
    curl_setopt($transfer, CURLOPT_NOPROGRESS, !in_array($_GET['in'], ['progress', 'facts']));
    if ($_GET['in'] === 'part') {
        Part::$end = $end;
        in_array('part', stream_get_wrappers()) || stream_wrapper_register('part', Part::class);
    }
    $calls = 0;
    $callback = function () use ($end, &$calls) { $calls++; $end(); };
    match ($_GET['in']) {
        'body' => curl_setopt($transfer, CURLOPT_WRITEFUNCTION, $callback),
        'head' => curl_setopt($transfer, CURLOPT_HEADERFUNCTION, $callback),
        'progress' => curl_setopt($transfer, CURLOPT_PROGRESSFUNCTION, $callback),
        'facts' => curl_setopt($transfer, CURLOPT_XFERINFOFUNCTION, $callback),
        'upload' => curl_setopt_array($transfer, [
            CURLOPT_URL => 'file://' . __DIR__ . '/uploaded', CURLOPT_UPLOAD => true, CURLOPT_READFUNCTION => $callback,
        ]),
        // The only worker is busy: libcurl reads the part before there is a response.
        'part' => curl_setopt_array($transfer, [
            CURLOPT_URL => "http://127.0.0.1:{$_SERVER['SERVER_PORT']}/index.php?in=nothing", CURLOPT_POSTFIELDS => ['file' => new CURLFile('part://x')],
        ]),
        'nothing' => null,
    };
    if (isset($_GET['many'])) {
        $many = curl_multi_init();
        curl_multi_add_handle($many, $transfer);
        do {
            curl_multi_exec($many, $running);
        } while ($running && curl_multi_select($many) >= 0);
        echo curl_multi_getcontent($transfer);
        return;
    }
    echo curl_exec($transfer);
};
IS_WORKER ? Svc\Worker::serve($handler) : $handler();
"#;

/// The number of requests that end in each callback.
const ENDS: usize = 6;
/// More descriptors than stay open by themselves (a persistent connection, a spool), and fewer than the ends of all
/// callbacks.
const MORE: f64 = 15.0;

fn start(is_worker: bool) -> Svc {
    let mut settings = vec![("PHP_WORKERS", "1")];
    if is_worker {
        settings.extend([("WORKER_MODE_ENABLED", "true"), ("ENTRY_FILE", "worker.php")]);
    }
    let script = SCRIPT.replace("IS_WORKER", if is_worker { "true" } else { "false" });
    Svc::start(&[("index.php", &script), ("worker.php", &script), ("file.txt", "the file")], &settings)
}

#[test]
fn a_jump_out_of_a_transfer_leaves_nothing_open() {
    for is_worker in IS_WORKER {
        for end in ["fatal", "exception"] {
            let svc = start(is_worker);
            assert_eq!(svc.get("/index.php?in=nothing").text(), "the file");
            let before = svc.metric("process_open_fds");
            for callback in [
                "body",
                "head",
                "progress",
                "facts",
                "upload",
                "part",
                "body&many",
                "facts&many",
                "part&many",
            ] {
                for _ in 0..ENDS {
                    let response = svc.get(&format!("/index.php?in={callback}&end={end}"));
                    assert_eq!(response.status, 500, "{callback} {end} {is_worker}: {}", response.text());
                }
            }
            eventually("all is closed", || svc.metric("process_open_fds") < before + MORE);
            assert_eq!(svc.get("/index.php?in=nothing").text(), "the file");
            assert_eq!(svc.get("/index.php?in=nothing&many").text(), "the file");
        }
    }
}

#[test]
fn a_time_limit_ends_a_script_in_a_transfer() {
    for is_worker in IS_WORKER {
        let svc = start(is_worker);
        assert_eq!(svc.get("/index.php?in=nothing").text(), "the file");
        let response = svc.get("/index.php?in=body&limit");
        assert_eq!(response.status, 504, "{}", response.text());
        assert_eq!(svc.get("/index.php?in=nothing").text(), "the file");
    }
}
