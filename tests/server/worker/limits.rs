//! Limits of a worker: the time limit of each request, the worker's memory, and its number of concurrent requests.

use std::time::{Duration, Instant};

use svc_testing::Svc;
use svc_testing::client::{Client, eventually};

const WORKER: &str = r#"<?php
$active = $most = 0;
$kept = '';
Svc\Worker::serve(function () use (&$active, &$most, &$kept) {
    $most = max($most, ++$active);
    try {
        set_time_limit((int) ($_GET['limit'] ?? 30));
        if (isset($_GET['stay'])) {
            touch(__DIR__ . '/inside-' . $_GET['stay']);
            while (!file_exists(__DIR__ . '/go-' . $_GET['stay'])) {
                Svc\sleep(0.01);
                clearstatcache();
            }
        }
        if (isset($_GET['sleep'])) {
            set_time_limit((int) $_GET['then']);
            Svc\sleep((float) $_GET['sleep']);
        }
        while (isset($_GET['loop'])) {
        }
        if (isset($_GET['keep'])) {
            $kept .= str_repeat('x', (int) $_GET['keep']);
        }
        echo json_encode([ini_get('max_execution_time'), $most]);
    } finally {
        $active--;
    }
});"#;

fn start_with(settings: &[(&str, &str)], directives: &[&str]) -> Svc {
    let base = [("PHP_WORKERS", "1"), ("WORKER_MODE_ENABLED", "true"), ("ENTRY_FILE", "worker.php")];
    Svc::start_with(&[("worker.php", WORKER)], &[&base, settings].concat(), directives)
}

fn send(svc: &Svc, path: &str) -> Client {
    let mut client = svc.client();
    client.send(format!("GET {path} HTTP/1.1\r\nHost: x\r\n\r\n"));
    client
}

/// Starts a request that stays until `go`.
fn stay(svc: &Svc, name: &str, query: &str) -> Client {
    let client = send(svc, &format!("/?stay={name}{query}"));
    eventually("it runs", || svc.root().join(format!("inside-{name}")).exists());
    client
}

fn go(svc: &Svc, name: &str) {
    std::fs::write(svc.root().join(format!("go-{name}")), "").unwrap();
}

#[test]
fn a_time_limit_ends_its_own_request() {
    let svc = start_with(&[], &[]);
    let mut patient = stay(&svc, "a", "&limit=40");
    let began = Instant::now();
    let response = svc.get("/?loop&limit=1");
    assert_eq!(response.status, 504);
    assert!(began.elapsed() >= Duration::from_millis(900) && began.elapsed() < Duration::from_secs(12));
    go(&svc, "a");
    assert_eq!(patient.response().text(), r#"["40",2]"#, "the limit was not this one's");
    assert_eq!(svc.get("/").text(), r#"["30",1]"#, "a new boot");
}

#[test]
fn a_limit_ends_a_request_that_waits() {
    let svc = start_with(&[], &[]);
    let mut waits = stay(&svc, "a", "&sleep=30&then=1");
    assert_eq!(svc.get("/?limit=20").text(), r#"["20",2]"#, "another one has its own limit");
    let began = Instant::now();
    go(&svc, "a");
    assert_eq!(waits.response().status, 504);
    assert!(began.elapsed() < Duration::from_secs(12));
}

#[test]
fn the_limit_of_the_boot_ends_with_the_boot() {
    let svc = start_with(&[], &["max_execution_time=1"]);
    assert_eq!(svc.get("/?limit=20").text(), r#"["20",1]"#);
    assert_eq!(svc.get("/?sleep=1.5&then=20").text(), r#"["20",1]"#);
    assert_eq!(svc.get("/?limit=1&loop").status, 504);
}

#[test]
fn a_worker_carries_so_many_requests_and_no_more() {
    let svc = start_with(&[("QUEUE_WAIT_TIMEOUT_MS", "60000"), ("QUEUE_CAPACITY", "400")], &[]);
    let clients: Vec<_> = (0..300).map(|_| send(&svc, "/?stay=all&limit=60")).collect();
    eventually("the others are queued", || svc.metric("svc_queue_depth") == 300.0 - 256.0);
    go(&svc, "all");
    let mut most = 0;
    for mut client in clients {
        let response = client.response();
        assert_eq!(response.status, 200, "{}", response.text());
        let text = response.text();
        let count = text.trim_end_matches(']').rsplit(',').next().unwrap().parse::<u32>().unwrap();
        most = most.max(count);
    }
    assert_eq!(most, 256);
}

#[test]
fn a_worker_above_its_memory_boots_anew() {
    let svc = start_with(&[("WORKER_MAX_MEMORY_MIB", "16")], &[]);
    assert_eq!(svc.get("/?keep=4000000").text(), r#"["30",1]"#);
    let mut waits = stay(&svc, "a", "");
    assert_eq!(svc.get("/?keep=14000000").text(), r#"["30",2]"#);
    go(&svc, "a");
    assert_eq!(waits.response().text(), r#"["30",2]"#, "those that it carries end first");
    assert_eq!(svc.get("/").text(), r#"["30",1]"#, "a new boot");
}

const EVERYTHING: &str = r#"<?php
session_save_path(__DIR__);
$kept = null;
Svc\Worker::serve(function () use (&$kept) {
    if (isset($_GET['heap'])) {
        gc_collect_cycles();
        echo Svc\Worker::current()->memoryUsage();
        return;
    }
    session_start();
    $_SESSION['n'] = ($_SESSION['n'] ?? 0) + 1;
    ini_set('precision', '5');
    putenv('A=1');
    setlocale(LC_ALL, 'C.UTF-8');
    date_default_timezone_set('Asia/Tokyo');
    mb_detect_order(['EUC-JP', 'SJIS']);
    mb_convert_encoding('x', 'EUC-JP', 'UTF-8');
    chdir('/');
    set_error_handler(fn () => true);
    set_exception_handler(fn () => null);
    libxml_use_internal_errors(true);
    simplexml_load_string('<broken');
    stream_context_set_default(['http' => ['user_agent' => 'x']]);
    stream_filter_register('kept', php_user_filter::class);
    output_add_rewrite_var('a', 'b');
    trigger_error('x');
    parse_ini_string("[a]\nb=1\n[c]\nd=2", true);
    strtok('a b', ' ');
    register_shutdown_function(fn () => null);
    header('X-A: 1');
    $request = Svc\Request::current();
    $kept = $request->body;
    $input = fopen('php://input', 'r');
    array_map(fn ($stream) => @fclose($stream), get_resources('stream'));
    ob_start();
    echo '<a href="/x">x</a>';
    if (isset($_GET['wait'])) {
        Svc\sleep(0.001);
    }
    if (isset($_GET['exception'])) {
        throw new Exception('x');
    }
});"#;

#[test]
fn requests_leave_no_memory_behind() {
    let svc = Svc::start(
        &[("worker.php", EVERYTHING)],
        &[("PHP_WORKERS", "1"), ("WORKER_MODE_ENABLED", "true"), ("ENTRY_FILE", "worker.php")],
    );
    let mut client = svc.client();
    let form = "x".repeat(3000);
    let mut round = |count: usize| {
        for n in 0..count {
            let query = ["", "?wait", "?exception", "?wait&exception"][n % 4];
            let kind = if n % 8 < 4 { "application/x-www-form-urlencoded" } else { "application/json" };
            client.send(format!(
                "POST /{query} HTTP/1.1\r\nHost: x\r\nCookie: PHPSESSID=abc\r\nContent-Type: {kind}\r\nContent-Length: 3000\r\n\r\n{form}"
            ));
            client.response();
        }
        client.get("/?heap").text().parse::<i64>().unwrap()
    };
    round(100);
    let before = round(100);
    let after = round(400);
    assert!(after - before < 8192, "{} bytes more after four hundred requests", after - before);
}
