//! The metrics of persistent workers: work after a response, garbage that a worker keeps, the reasons of its restarts.

use svc_testing::Svc;
use svc_testing::books::check_books;
use svc_testing::client::eventually;
use svc_testing::http2::Http2Client;

const WORKER: &str = r#"<?php
final class Late
{
    public function __construct(private string $name, private bool $parks) {}
    public function __destruct() { stay($this->name, $this->parks); }
}
final class Garbage
{
    private mixed $self;
    public function __construct(private ?string $name) { $this->self = $this; }
    public function __destruct() { if ($this->name !== null) { stay($this->name, false); } }
}
function stay(string $name, bool $parks): void
{
    touch(__DIR__ . "/inside-$name");
    while (!file_exists(__DIR__ . "/go-$name")) {
        $parks ? Svc\sleep(0.002) : time_nanosleep(0, 2000000);
        clearstatcache();
    }
}
Svc\Worker::serve(function () {
    $parks = isset($_GET['parks']);
    switch (ltrim(strtok($_SERVER['REQUEST_URI'], '?'), '/')) {
        case 'late':
            // It exists until the request's variables are freed.
            $_GET['late'] = new Late($_GET['name'], $parks);
            break;
        case 'early':
            echo 'early';
            svc_finish_request();
            stay($_GET['name'], $parks);
            return;
        case 'exception':
            throw new LogicException('not caught');
        case 'memory':
            str_repeat('x', PHP_INT_MAX >> 4);
            // No break: never reached.
        case 'stream':
            echo 'begun';
            flush();
            stay($_GET['name'], false);
            str_repeat('x', PHP_INT_MAX >> 4);
            // No break: never reached.
        case 'garbage':
            // More than the worker keeps for later: it is freed without a current request.
            for ($i = 0; $i < 20000; $i++) { new Garbage($i === 0 ? $_GET['name'] : null); }
            break;
        case 'exit':
            Svc\Worker::scheduleExit();
            break;
    }
    echo 'done';
});"#;

fn start(settings: &[(&str, &str)]) -> Svc {
    let own = [("PHP_WORKERS", "1"), ("WORKER_MODE_ENABLED", "true"), ("ENTRY_FILE", "worker.php")];
    Svc::start(&[("worker.php", WORKER)], &[&own[..], settings].concat())
}

fn until_inside(svc: &Svc, name: &str) {
    eventually("it is inside", || svc.root().join(format!("inside-{name}")).exists());
}

fn go(svc: &Svc, name: &str) {
    std::fs::write(svc.root().join(format!("go-{name}")), "").unwrap();
}

/// Returns the counts of busy workers, fibers, handled requests, and requests with a recorded duration.
fn carried(svc: &Svc) -> [f64; 4] {
    [
        "svc_busy_workers",
        r#"svc_worker_request_fibers_active{worker="0"}"#,
        "svc_worker_requests_handled_total",
        "svc_worker_request_duration_us_count",
    ]
    .map(|series| svc.metric(series))
}

fn age(svc: &Svc) -> f64 {
    svc.metric(r#"svc_worker_request_age_seconds{worker_id="0"}"#)
}

#[test]
fn a_destructor_that_runs_after_the_answer_keeps_its_worker_busy() {
    let svc = start(&[]);
    assert_eq!(svc.get("/late?name=a").text(), "done");
    until_inside(&svc, "a");
    assert_eq!(carried(&svc), [1.0, 1.0, 1.0, 1.0], "the handler has ended");
    assert!(age(&svc) > 0.0 && svc.metric("svc_workers_idle") == 0.0);
    go(&svc, "a");
    eventually("nothing is left", || carried(&svc) == [0.0, 0.0, 1.0, 1.0] && age(&svc) == 0.0);
    check_books(&svc);
}

#[test]
fn a_destructor_that_waits_is_one_of_the_fibers_of_its_worker() {
    let svc = start(&[]);
    assert_eq!(svc.get("/late?name=a&parks").text(), "done");
    until_inside(&svc, "a");
    if !svc.destructors_park() {
        assert_eq!(carried(&svc), [1.0, 1.0, 1.0, 1.0]);
        go(&svc, "a");
        eventually("nothing is left", || carried(&svc) == [0.0, 0.0, 1.0, 1.0]);
        return check_books(&svc);
    }
    eventually("it waits", || carried(&svc) == [0.0, 1.0, 1.0, 1.0]);
    assert_eq!(svc.get("/").text(), "done", "its thread is free for others");
    eventually("that one has ended", || carried(&svc) == [0.0, 1.0, 2.0, 2.0]);
    go(&svc, "a");
    eventually("nothing is left", || carried(&svc) == [0.0, 0.0, 2.0, 2.0]);
    check_books(&svc);
}

#[test]
fn garbage_freed_between_requests_keeps_its_worker_busy() {
    let svc = start(&[]);
    assert_eq!(svc.get("/garbage?name=a").text(), "done");
    until_inside(&svc, "a");
    assert_eq!(carried(&svc), [1.0, 0.0, 1.0, 1.0]);
    assert!(age(&svc) > 0.0);
    go(&svc, "a");
    eventually("nothing is left", || carried(&svc) == [0.0, 0.0, 1.0, 1.0] && age(&svc) == 0.0);
    check_books(&svc);
}

#[test]
fn destructors_that_wait_count_towards_the_most_that_a_worker_carries() {
    let svc = start(&[]);
    if !svc.destructors_park() {
        // Each destructor blocks its worker.
        return;
    }
    let mut client = svc.client();
    for _ in 0..256 {
        assert_eq!(client.get("/late?name=a&parks").text(), "done");
    }
    eventually("all wait", || carried(&svc)[1] == 256.0);
    client.send("GET / HTTP/1.1\r\nHost: x\r\n\r\n");
    eventually("the next one is not taken", || svc.metric("svc_queue_depth") == 1.0);
    assert_eq!(carried(&svc)[1], 256.0);
    go(&svc, "a");
    assert_eq!(client.response().text(), "done");
    eventually("nothing is left", || carried(&svc) == [0.0, 0.0, 257.0, 257.0]);
    drop(client);
    check_books(&svc);
}

#[test]
fn the_time_of_a_handler_does_not_end_with_an_early_answer() {
    for path in ["/early?name=a", "/early?name=b&parks"] {
        let svc = start(&[]);
        assert_eq!(svc.get(path).text(), "early");
        let name = if path.contains("parks") { "b" } else { "a" };
        until_inside(&svc, name);
        let [_, fibers, handled, timed] = carried(&svc);
        assert_eq!([fibers, handled, timed], [1.0, 0.0, 0.0], "{path}");
        assert_eq!(svc.metric(r#"svc_worker_requests_count{worker="0"}"#), 0.0, "{path}");
        let began = std::time::Instant::now();
        svc.assert_metric("svc_requests_total", 1.0);
        let shown_us = began.elapsed().as_secs_f64() * 1e6;
        go(&svc, name);
        eventually("it has ended", || carried(&svc) == [0.0, 0.0, 1.0, 1.0]);
        assert!(svc.metric("svc_worker_request_duration_us_sum") >= shown_us, "{path}");
        check_books(&svc);
    }
}

/// Sends a request in one of the protocols; once the head has arrived, a waiting script continues. Returns the status, and
/// whether the response was complete.
fn outcome(svc: &Svc, is_http2: bool, path: &str) -> (u16, bool) {
    let name = path.split_once("name=").map_or("nobody", |(_, name)| name);
    let response = if is_http2 {
        let mut client = Http2Client::connect(svc.main());
        let id = client.ask(path);
        client.until(|client| client.heard(id).status != 0);
        go(svc, name);
        client.response(id)
    } else {
        let mut client = svc.client();
        client.send(format!("GET {path} HTTP/1.1\r\nHost: x\r\n\r\n"));
        let head = client.head_only();
        go(svc, name);
        client.body_of(head)
    };
    (response.status, response.is_whole)
}

#[test]
fn a_fatal_error_that_ends_the_worker_drops_its_unanswered_request() {
    for (mode, is_http2) in [("true", false), ("true", true), ("false", false), ("false", true)] {
        let costs_the_worker = mode == "true";
        let script = if costs_the_worker {
            WORKER
        } else {
            &WORKER.replace("Svc\\Worker::serve(", "(fn ($handler) => $handler())(")
        };
        let settings = [("PHP_WORKERS", "1"), ("WORKER_MODE_ENABLED", mode), ("ENTRY_FILE", "worker.php")];
        let svc = Svc::start(&[("worker.php", script)], &settings);
        // Dropped requests; 2xx and 5xx responses; workers replaced after an error.
        let mut expected = [0.0; 4];
        let case = format!("worker mode {mode}, HTTP/2 {is_http2}");
        for (path, answer, counts) in [
            ("/", (200, true), [0.0, 1.0, 0.0, 0.0]),
            ("/exception", (500, true), [0.0, 0.0, 1.0, 0.0]),
            ("/memory", (500, true), [1.0, 0.0, 1.0, 1.0]),
            ("/stream?name=a", (200, false), [0.0, 1.0, 0.0, 1.0]),
            ("/memory", (500, true), [1.0, 0.0, 1.0, 1.0]),
        ] {
            assert_eq!(outcome(&svc, is_http2, path), answer, "{case} {path}");
            for (expected, count) in expected.iter_mut().zip(counts) {
                *expected += count;
            }
            // Without a persistent worker, the script fails and no worker is lost.
            let [dropped, good, bad, replaced] = expected;
            svc.assert_metric("svc_dropped_requests_total", if costs_the_worker { dropped } else { 0.0 });
            svc.assert_metric(r#"svc_responses_by_status_total{status="2xx"}"#, good);
            svc.assert_metric(r#"svc_responses_by_status_total{status="5xx"}"#, bad);
            if costs_the_worker {
                svc.assert_metric(r#"svc_worker_recycles_by_reason_total{reason="error"}"#, replaced);
            }
        }
        svc.assert_metric("svc_requests_total", 5.0);
        svc.assert_metric("svc_pending_requests", 0.0);
        for series in ["svc_admission_refused_total{reason=\"pool_unavailable\"}", "svc_abandoned_work_total"]
        {
            svc.assert_metric(series, 0.0);
        }
        for reason in ["client_abort", "timeout", "shutdown"] {
            svc.assert_metric(&format!(r#"svc_request_cancelled_total{{reason="{reason}"}}"#), 0.0);
        }
    }
}

#[test]
fn a_worker_continues_after_a_reset() {
    let svc = start(&[]);
    let counts = || {
        ["svc_worker_requests_handled_total", "svc_worker_soft_resets_total", "svc_worker_recycles_total"]
            .map(|series| svc.metric(series))
    };
    for number in 1..=3 {
        assert_eq!(svc.get("/").text(), "done");
        eventually("it was reset", || counts() == [f64::from(number), f64::from(number), 0.0]);
    }
    assert_eq!(svc.get("/exit").text(), "done");
    eventually("it was replaced instead", || counts() == [4.0, 3.0, 1.0]);
    assert_eq!(svc.get("/").text(), "done");
    eventually("the next one was reset", || counts() == [5.0, 4.0, 1.0]);
    check_books(&svc);
}
