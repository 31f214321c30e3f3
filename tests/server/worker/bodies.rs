//! php://input that outlives its request: it reads no data of another request, and its memory stays valid.

use serde_json::{Value, json};

use svc_testing::Svc;
use svc_testing::client::{Client, eventually};

/// Objects that hold a php://input beyond its request, and code that reads it then.
const HOLDERS: &str = r#"<?php
final class Kept
{
    public static array $all = [];
}
final class Message
{
    public self $self;
    public function __construct(public mixed $body) { $this->self = $this; }
}
final class Closing
{
    public self $self;
    public function __construct(public mixed $body) { $this->self = $this; }
    public function __destruct() { is_resource($this->body) && fclose($this->body); }
}
final class Reading
{
    public self $self;
    public function __construct(public mixed $body) { $this->self = $this; }
    public function __destruct() { Kept::$all[] = [fopen('php://memory', 'r'), contents($this->body)]; }
}
final class Late extends php_user_filter
{
    public function filter($in, $out, &$consumed, bool $closing): int
    {
        while ($bucket = stream_bucket_make_writeable($in)) {
            $consumed += $bucket->datalen;
            stream_bucket_append($out, $bucket);
        }
        return PSFS_PASS_ON;
    }
    public function onClose(): void { Kept::$all[] = fopen('php://input', 'r'); }
}
function input(): mixed
{
    return fopen('php://input', 'r');
}
function held(string $how): mixed
{
    switch ($how) {
        case 'bare': return input();
        case 'read': $in = input(); fread($in, 4); return $in;
        case 'five': return array_map(input(...), range(1, 5));
        case 'closed': $in = input(); fclose($in); return $in;
        case 'file': $file = new SplFileObject('php://input', 'r'); $file->fgets(); return $file;
        case 'rewound': $file = new SplFileObject('php://input', 'r'); $file->fread(2); return $file;
        case 'filtered': return fopen('php://filter/read=string.rot13/resource=php://input', 'r');
        case 'late':
            in_array('late', stream_get_filters(), true) || stream_filter_register('late', Late::class);
            $in = input();
            stream_filter_append($in, 'late', STREAM_FILTER_READ);
            return $in;
        case 'resources': input(); return get_resources('stream');
        case 'curl':
            $handle = curl_init('http://127.0.0.1:1/');
            curl_setopt_array($handle, [CURLOPT_INFILE => input(), CURLOPT_INFILESIZE => 4, CURLOPT_UPLOAD => true, CURLOPT_RETURNTRANSFER => true]);
            curl_exec($handle);
            return $handle;
        case 'closure': $in = input(); return fn () => $in;
        case 'generator': $read = (function ($in) { for (;;) { yield fread($in, 3); } })(input()); $read->current(); return $read;
        case 'fiber': $fiber = new Fiber(function ($in) { for (;;) { Fiber::suspend(fread($in, 3)); } }); $fiber->start(input()); return $fiber;
        case 'context': return fopen('php://input', 'r', false, stream_context_create(['http' => ['x' => 1]]));
        case 'reader':
            if (!class_exists(XMLReader::class)) { return input(); }
            $reader = new XMLReader();
            $reader->open('php://input');
            return $reader;
        case 'cycles': for ($i = 0; $i < 40; $i++) { new Message(input()); } return null;
        case 'closing': for ($i = 0; $i < 40; $i++) { new Closing(input()); } return null;
        case 'reading': for ($i = 0; $i < 40; $i++) { new Reading(input()); } return null;
        case 'copies': for ($i = 0; $i < 40; $i++) { new Message(new SplFileObject('php://input', 'r')); } return null;
    }
    throw new LogicException($how);
}
/** The readable contents. */
function contents(mixed $held): string
{
    try {
        return match (true) {
            is_string($held) => $held,
            is_array($held) => implode(array_map(contents(...), $held)),
            is_resource($held) => (string) @stream_get_contents($held) . (string) @stream_get_contents($held, -1, 0),
            $held instanceof SplFileObject => (string) @$held->fread(1 << 16) . contents_from_start($held),
            $held instanceof CurlHandle => (string) @curl_exec($held),
            $held instanceof Generator => (@$held->next() ?? '') . (string) $held->current(),
            $held instanceof Fiber => $held->isTerminated() ? '' : (string) @$held->resume(),
            $held instanceof XMLReader => @$held->read() ? $held->name : '',
            $held instanceof Closure => contents($held()),
            default => '',
        };
    } catch (TypeError $closed) {
        return '';
    }
}
function contents_from_start(SplFileObject $file): string
{
    try {
        @$file->rewind();
        return (string) @$file->fread(1 << 16);
    } catch (RuntimeException) {
        return '';
    }
}
function handle(): void
{
    $how = $_GET['how'];
    $seen = array_map(contents(...), Kept::$all);
    isset($_GET['collect']) && gc_collect_cycles();
    Kept::$all = array_slice([...Kept::$all, held($how)], -24);
    echo json_encode([file_get_contents('php://input'), implode($seen)]);
}
"#;

const HOWS: [&str; 19] = [
    "bare",
    "read",
    "five",
    "closed",
    "file",
    "rewound",
    "filtered",
    "late",
    "resources",
    "curl",
    "closure",
    "generator",
    "fiber",
    "context",
    "reader",
    "cycles",
    "closing",
    "reading",
    "copies",
];

const LOOPS: [(&str, &str); 2] = [
    ("serve", "Svc\\Worker::serve(handle(...));"),
    ("own loop", "while (frankenphp_handle_request(handle(...))) { }"),
];

fn start(rest: &str) -> Svc {
    let settings = [("PHP_WORKERS", "1"), ("WORKER_MODE_ENABLED", "true"), ("ENTRY_FILE", "worker.php")];
    Svc::start(&[("worker.php", &format!("{HOLDERS}{rest}"))], &settings)
}

fn send(client: &mut Client, method: &str, target: &str, kind: &str, body: &str) {
    client.send(format!(
        "{method} {target} HTTP/1.1\r\nHost: x\r\nContent-Type: {kind}\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    ));
}

#[test]
fn whatever_holds_it_reads_nothing_of_another_request() {
    for (name, serve) in LOOPS {
        for how in HOWS {
            let mut svc = start(serve);
            let mut client = svc.client();
            for number in 0..24 {
                // PHP reads the body of a form at once, and that of a PUT on demand.
                let (method, kind) = [
                    ("POST", "application/json"),
                    ("PUT", "text/xml"),
                    ("POST", "application/x-www-form-urlencoded"),
                ][number % 3];
                let collect = if number % 4 == 3 { "&collect" } else { "" };
                let body = format!("<b>{}</b>", "secret".repeat(1 + number * number * 100));
                send(&mut client, method, &format!("/?how={how}{collect}"), kind, &body);
                let response = client.response();
                let what = format!("{name}, {how}, request {number}");
                assert_eq!(response.status, 200, "{what}: {}", response.text());
                let answer: Value = serde_json::from_str(&response.text()).unwrap();
                assert!(!answer[1].as_str().unwrap().contains("secret"), "{what}: {}", answer[1]);
                if how != "resources" {
                    assert_eq!(answer[0], body.as_str(), "{what}");
                }
            }
            assert_eq!(svc.metric("svc_workers_spawned_total"), 1.0, "{name}, {how}");
            drop(client);
            svc.stop();
        }
    }
}

/// A request that waits, and others that read the stream that it has opened.
const SHARED: &str = r"
$shared = null;
Svc\Worker::serve(function () use (&$shared) {
    switch (ltrim(strtok($_SERVER['REQUEST_URI'], '?'), '/')) {
        case 'stay':
            $shared = [input(), new SplFileObject('php://input', 'r')];
            touch(__DIR__ . '/inside');
            while (!file_exists(__DIR__ . '/go')) { Svc\sleep(0.002); clearstatcache(); }
            echo stream_get_contents($shared[0]), '|', $shared[1]->fread(100), '|', file_get_contents('php://input');
            return;
        case 'other':
            $seen = contents($shared);
            echo json_encode([$seen, file_get_contents('php://input')]);
            return;
    }
});";

#[test]
fn a_request_that_waits_keeps_its_body() {
    for kind in ["text/plain", "application/x-www-form-urlencoded"] {
        let svc = start(SHARED);
        let mut stays = svc.client();
        send(&mut stays, "PUT", "/stay", kind, "mine");
        eventually("it is inside", || svc.root().join("inside").exists());
        for number in 0..3 {
            let mut other = svc.client();
            let body = format!("other{number}");
            send(&mut other, "PUT", "/other", kind, &body);
            let answer: Value = serde_json::from_str(&other.response().text()).unwrap();
            assert_eq!(answer, json!(["", body]), "what another one has opened is its own");
        }
        std::fs::write(svc.root().join("go"), "").unwrap();
        assert_eq!(stays.response().text(), "mine|mine|mine");
    }
}

#[test]
fn streams_of_the_boot_script_read_no_request() {
    for (name, serve) in LOOPS {
        let boot = r"
            Kept::$all = [input(), new SplFileObject('php://input', 'r')];
            function handle_boot() { echo json_encode([contents(Kept::$all), file_get_contents('php://input')]); }
        ";
        let svc = start(&format!("{boot}{}", serve.replace("handle(...)", "handle_boot(...)")));
        for (method, body) in [("PUT", "first"), ("POST", "second"), ("PUT", "third")] {
            let mut client = svc.client();
            send(&mut client, method, "/", "text/plain", body);
            let answer: Value = serde_json::from_str(&client.response().text()).unwrap();
            assert_eq!(answer, json!(["", body]), "{name}");
        }
    }
}

#[test]
fn reading_the_body_of_another_request_warns() {
    let svc = start(&LOOPS[0].1.replace(
        "handle(...)",
        r"function () {
        static $kept;
        echo $kept?->fread(10), '.';
        $kept ??= new SplFileObject('php://input', 'r');
    }",
    ));
    assert_eq!(svc.get("/").text(), ".");
    assert_eq!(svc.get("/").text(), ".");
    svc.log().expect("SplFileObject::fread(): php://input was opened by another request; open it in the request that reads it");
}

#[cfg(feature = "async")]
#[test]
fn tasks_hold_it_too() {
    let hows = HOWS.map(|how| format!("'{how}'")).join(",");
    let script = format!(
        r"<?php
        foreach ([{hows}] as $how) {{
            for ($i = 0; $i < 12; $i++) {{
                Svc\async(static function (string $how, bool $collects) {{
                    array_map(contents(...), Kept::$all);
                    $collects && gc_collect_cycles();
                    Kept::$all = array_slice([...Kept::$all, held($how)], -24);
                }}, $how, $i % 4 === 3)->await();
            }}
        }}
        echo 'fine';"
    );
    let root = tempfile::tempdir().unwrap();
    std::fs::write(root.path().join("entry.inc"), HOLDERS).unwrap();
    std::fs::write(root.path().join("index.php"), script).unwrap();
    let path = root.path().join("entry.inc").display().to_string();
    let mut svc = Svc::start_in(root, &[("ASYNC_WORKERS", "1"), ("ASYNC_ENTRY_FILE", &path)]);
    assert_eq!(svc.get("/").text(), "fine");
    svc.stop();
}
