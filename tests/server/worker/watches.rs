//! Waiting for streams: several requests on one descriptor, and bytes that a TLS session buffers.

use svc_testing::Svc;
use svc_testing::client::Client;
use svc_testing::tls::Certificates;

const WORKER: &str = r#"<?php
function open(): array
{
    $pair = stream_socket_pair(STREAM_PF_UNIX, STREAM_SOCK_STREAM, 0);
    array_map(fn ($end) => stream_set_blocking($end, false), $pair);
    return $pair;
}
$pair = open();
Svc\Worker::serve(function () use (&$pair) {
    $timeout = isset($_GET['timeout']) ? (float) $_GET['timeout'] : null;
    switch ($_GET['do']) {
        case 'read':
            echo json_encode(Svc\wait_readable($pair[0], $timeout));
            return;
        case 'write':
            echo json_encode(Svc\wait_writable($pair[0], $timeout));
            return;
        case 'fibers':
            // Fibers of the script make their request wait: one after the other, for the same descriptor.
            $answers = [];
            for ($i = 0; $i < 2; $i++) {
                $fiber = new Fiber(function () use ($pair, &$answers) { $answers[] = Svc\wait_readable($pair[0]); });
                $fiber->start();
            }
            echo json_encode($answers);
            return;
        case 'send':
            fwrite($pair[1], 'x');
            return;
        case 'take':
            fread($pair[0], 1);
            return;
        case 'fill':
            while (@fwrite($pair[0], str_repeat('x', 65536)) > 0) {
            }
            return;
        case 'drain':
            while (fread($pair[1], 65536) != '') {
            }
            return;
        case 'close':
            fclose($pair[0]);
            return;
        case 'open':
            fclose($pair[1]);
            $pair = open();
            return;
        case 'look':
            return;
    }
});"#;

fn start(worker: &str) -> Svc {
    let settings = [("PHP_WORKERS", "1"), ("WORKER_MODE_ENABLED", "true"), ("ENTRY_FILE", "worker.php")];
    Svc::start(&[("worker.php", worker)], &settings)
}

fn tell(svc: &Svc, what: &str) -> String {
    let response = svc.get(&format!("/?do={what}"));
    assert_eq!(response.status, 200, "{what}: {}", response.text());
    response.text()
}

const ACTIVE: &str = r#"svc_worker_request_fibers_active{worker="0"}"#;

/// Sends a request and asserts that it is the `count`th that waits.
fn waits(svc: &Svc, what: &str, count: f64) -> Client {
    let mut client = svc.client();
    client.send(format!("GET /?do={what} HTTP/1.1\r\nHost: x\r\n\r\n"));
    assert_waiting(svc, count);
    client
}

/// Asserts that the worker is idle and has this many waiting requests.
fn assert_waiting(svc: &Svc, count: f64) {
    tell(svc, "look");
    svc.assert_metric(ACTIVE, count);
}

#[test]
fn several_requests_wait_for_one_descriptor() {
    let svc = start(WORKER);
    let mut clients: Vec<_> = (1..=4).map(|count| waits(&svc, "read", f64::from(count))).collect();
    tell(&svc, "send");
    for client in &mut clients {
        assert_eq!(client.response().text(), "true");
    }
    tell(&svc, "take");
    // They come and go in any order.
    let mut long = waits(&svc, "read", 1.0);
    let mut fibers = waits(&svc, "fibers", 2.0);
    assert_eq!(tell(&svc, "read&timeout=0.01"), "false");
    let mut late = waits(&svc, "read", 3.0);
    tell(&svc, "send");
    for (client, text) in [(&mut long, "true"), (&mut late, "true"), (&mut fibers, "[true,true]")] {
        assert_eq!(client.response().text(), text);
    }
    tell(&svc, "take");
    // The first to arrive is the first to leave.
    let mut first = svc.client();
    first.send("GET /?do=read&timeout=0.3 HTTP/1.1\r\nHost: x\r\n\r\n");
    tell(&svc, "look");
    let mut second = svc.client();
    second.send("GET /?do=read HTTP/1.1\r\nHost: x\r\n\r\n");
    assert_eq!(first.response().text(), "false");
    let mut third = waits(&svc, "read", 2.0);
    tell(&svc, "send");
    assert_eq!(second.response().text(), "true");
    assert_eq!(third.response().text(), "true");
}

#[test]
fn a_timeout_that_is_over_before_the_wait_begins_ends_it_where_the_thread_blocks() {
    let worker = r#"<?php
    class Slow
    {
        public $context;
        private array $pair;
        public function stream_open() { $this->pair = stream_socket_pair(STREAM_PF_UNIX, STREAM_SOCK_STREAM, 0); return true; }
        public function stream_cast() { usleep(5000); return $this->pair[0]; }
    }
    stream_wrapper_register('slow', Slow::class);
    Svc\Worker::serve(function () {
        $stream = fopen('slow://', 'r');
        // An output handler cannot be suspended.
        ob_start(fn () => json_encode(Svc\wait_readable($stream, 0.001)));
        ob_end_flush();
    });"#;
    assert_eq!(start(worker).get("/").text(), "false");
}

#[test]
fn one_reads_and_another_one_writes() {
    let svc = start(WORKER);
    for reader_is_first in [true, false] {
        tell(&svc, "fill");
        let mut first = waits(&svc, if reader_is_first { "read" } else { "write" }, 1.0);
        let mut second = waits(&svc, if reader_is_first { "write" } else { "read" }, 2.0);
        let (reader, writer) =
            if reader_is_first { (&mut first, &mut second) } else { (&mut second, &mut first) };
        tell(&svc, "send");
        assert_eq!(reader.response().text(), "true");
        tell(&svc, "take");
        let mut again = waits(&svc, "read", 2.0);
        tell(&svc, "drain");
        assert_eq!(writer.response().text(), "true");
        assert_waiting(&svc, 1.0);
        tell(&svc, "send");
        assert_eq!(again.response().text(), "true");
        tell(&svc, "take");
        assert_waiting(&svc, 0.0);
    }
}

#[test]
fn all_hear_of_the_end_of_a_descriptor() {
    let svc = start(WORKER);
    for _ in 0..3 {
        tell(&svc, "fill");
        let mut clients =
            [("read", 1.0), ("write", 2.0), ("read", 3.0)].map(|(what, count)| waits(&svc, what, count));
        assert_eq!(tell(&svc, "read&timeout=0.01"), "false");
        tell(&svc, "close");
        for client in &mut clients {
            assert_eq!(client.response().text(), "false", "another request has closed it");
        }
        tell(&svc, "open");
    }
}

const TLS: &str = r#"<?php
Svc\Worker::serve(function () {
    $context = stream_context_create(['ssl' => ['verify_peer' => false, 'verify_peer_name' => false]]);
    $stream = stream_socket_client("tls://127.0.0.1:$_GET[port]", $error, $message, 5, STREAM_CLIENT_CONNECT, $context);
    stream_set_chunk_size($stream, (int) $_GET['chunk']);
    fwrite($stream, "GET /page.txt HTTP/1.1\r\nHost: a.example\r\n\r\n");
    // Some versions of PHP read on after the buffered bytes, which would wait on a blocking stream.
    stream_set_blocking($stream, false);
    $text = '';
    // The connection stays open: after the last byte nothing more arrives.
    while (!str_ends_with($text, 'the end')) {
        if (!Svc\wait_readable($stream, 3)) {
            exit('nothing after ' . strlen($text) . ' bytes');
        }
        $text .= fread($stream, (int) $_GET['chunk']);
    }
    echo json_encode([strlen($text) > 30000, Svc\wait_readable($stream, 0)]);
});"#;

#[test]
fn bytes_that_are_decrypted_already_are_readable() {
    let certificates = Certificates::new(&[&["a.example"]]);
    let pairs = certificates.settings(1);
    let own = pairs.iter().map(|(name, value)| (*name, value.as_str()));
    let page = format!("{}the end", "x".repeat(30000));
    let peer = Svc::start(&[("page.txt", &page)], &own.collect::<Vec<_>>());
    let svc = start(TLS);
    for chunk in [8192, 100, 3000, 1] {
        let path = format!("/?port={}&chunk={chunk}", peer.main().port());
        assert_eq!(svc.get(&path).text(), "[true,false]", "{chunk} bytes at a time");
    }
}
