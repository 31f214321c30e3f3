//! HTTP through the real binary: PHP's answers on the wire, streaming, overload, hang-ups, the access log.

use std::collections::BTreeSet;
use std::io::Write;
use std::net::TcpStream;

use svc_testing::Svc;
use svc_testing::client::eventually;

/// Reports that it runs, then waits for a file.
const WAITING: &str = r#"<?php
function pause(string $name) {
    touch(__DIR__ . "/inside-$name");
    while (!file_exists(__DIR__ . "/go-$name")) { usleep(2000); clearstatcache(); }
}
"#;

fn inside(svc: &Svc, name: &str) {
    eventually("the script runs", || svc.root().join(format!("inside-{name}")).exists());
}

fn go(svc: &Svc, name: &str) {
    std::fs::write(svc.root().join(format!("go-{name}")), "").unwrap();
}

#[test]
fn php_answers_on_a_kept_connection() {
    let svc = Svc::start(&[("index.php", "<?php echo 'Hello, World!';")], &[]);
    let mut client = svc.client();
    for _ in 0..3 {
        let response = client.get("/");
        assert_eq!((response.status, response.text().as_str()), (200, "Hello, World!"));
        assert_eq!(response.field("content-length"), Some("13"));
        assert_eq!(response.field("content-type"), Some("text/html; charset=UTF-8"));
        assert_eq!(response.field("server"), Some("svc"));
        assert!(response.field("date").unwrap().ends_with(" GMT"));
    }
    svc.assert_metric("svc_requests_total", 3.0);
    svc.assert_metric("svc_responses_by_status_total{status=\"2xx\"}", 3.0);
    svc.assert_metric("svc_active_connections", 1.0);
}

#[test]
fn the_request_id_is_the_same_everywhere() {
    let settings = [("ACCESS_LOG", "all")];
    let svc = Svc::start(&[("index.php", "<?php echo svc_request_id();")], &settings);
    let response = svc
        .client()
        .request("GET /?q HTTP/1.1\r\nHost: x\r\nX-Request-ID: given.1\r\nUser-Agent: t\"x\r\nReferer: r");
    assert_eq!(response.text(), "given.1");
    assert_eq!(response.field("x-request-id"), Some("given.1"));
    let response = svc.get("/");
    assert_eq!(response.text().len(), 32);
    assert_eq!(response.field("x-request-id"), Some(response.text().as_str()));
    eventually("both are logged", || svc.log().of("access").len() == 2);
    let records = svc.log().of("access");
    let fields = records.iter().map(|record| &record["fields"]).find(|it| it["referer"] == "r");
    let fields = fields.expect("the record of the first request");
    for (name, value) in [
        ("method", "GET"),
        ("path", "/"),
        ("client", "127.0.0.1"),
        ("user_agent", "t\"x"),
        ("referer", "r"),
        ("protocol", "HTTP/1.1"),
        ("request_id", "given.1"),
    ] {
        assert_eq!(fields[name], value, "{name}");
    }
    assert_eq!((&fields["status"], &fields["bytes"]), (&200.into(), &7.into()));
    assert!(
        fields["duration_us"].is_u64() && fields["queue_wait_us"].is_u64() && fields["trace_id"].is_null()
    );
}

#[test]
fn the_access_log_can_show_errors_only() {
    let svc = Svc::start(
        &[("index.php", "<?php http_response_code((int) $_GET['s']);")],
        &[("ACCESS_LOG", "error")],
    );
    for status in [200, 302, 404, 500] {
        assert_eq!(svc.get(&format!("/?s={status}")).status, status);
    }
    eventually("errors are logged", || svc.log().of("access").len() == 2);
    // Connections are on several threads, whose records come in any order.
    let statuses: BTreeSet<_> =
        svc.log().of("access").iter().map(|record| record["fields"]["status"].as_u64()).collect();
    assert_eq!(statuses, BTreeSet::from([Some(404), Some(500)]));
}

#[test]
fn flush_reaches_the_client_while_the_script_runs() {
    let script = format!(
        "{WAITING} echo 'one'; ob_end_flush(); flush(); pause('a'); echo 'two'; ob_start(); echo 'three';"
    );
    let svc = Svc::start(&[("stream.php", &script)], &[]);
    let mut client = svc.client();
    client.send("GET /stream.php HTTP/1.1\r\nHost: x\r\n\r\n");
    let response = client.head_only();
    assert_eq!(response.field("transfer-encoding"), Some("chunked"));
    assert_eq!(client.chunk().unwrap(), b"one");
    inside(&svc, "a");
    go(&svc, "a");
    let mut rest = Vec::new();
    while let Some(chunk) = client.chunk().filter(|chunk| !chunk.is_empty()) {
        rest.extend_from_slice(&chunk);
    }
    assert_eq!(rest, b"twothree");
    assert_eq!(client.get("/none").status, 404, "the connection was lost");
}

#[test]
fn a_response_that_ends_in_an_error_looks_like_one() {
    let files = [
        ("fatal.php", "<?php nothing();"),
        ("late.php", "<?php echo 'part'; flush(); nothing();"),
        ("status.php", "<?php header('HTTP/1.1 418 Short and stout');"),
        ("empty.php", "<?php http_response_code(204); echo 'no';"),
        ("length.php", "<?php header('Content-Length: 3'); echo 'abcdef';"),
    ];
    let svc = Svc::start(&files, &[]);
    let mut client = svc.client();
    assert_eq!(client.get("/fatal.php").status, 500);
    let response = client.get("/late.php");
    assert_eq!((response.status, response.text().as_str()), (200, "part"));
    assert!(!response.is_whole, "a broken reply looks whole");
    let mut client = svc.client();
    let response = client.get("/status.php");
    assert_eq!((response.status, response.reason.as_str()), (418, "Short and stout"));
    assert_eq!(client.get("/empty.php").status, 204);
    assert_eq!(client.get("/length.php").text(), "abc");
    assert_eq!(client.get("/fatal.php").status, 500);
}

#[test]
fn overload_is_529_while_probes_and_files_are_served() {
    let script = format!("{WAITING} pause('a'); echo 'done';");
    let settings = [("PHP_WORKERS", "1"), ("QUEUE_CAPACITY", "1"), ("QUEUE_WAIT_TIMEOUT_MS", "0")];
    let svc = Svc::start(&[("wait.php", &script), ("a.txt", "text")], &settings);
    let (mut running, mut queued) = (svc.client(), svc.client());
    running.send("GET /wait.php HTTP/1.1\r\nHost: x\r\n\r\n");
    inside(&svc, "a");
    queued.send("GET /wait.php HTTP/1.1\r\nHost: x\r\n\r\n");
    eventually("one is queued", || svc.metric("svc_queue_depth") == 1.0);
    let response = svc.get("/wait.php");
    assert_eq!((response.status, response.reason.as_str()), (529, "Site is overloaded"));
    assert_eq!((response.text().as_str(), response.field("retry-after")), ("Site is overloaded", Some("1")));
    assert_eq!(svc.get("/a.txt").text(), "text");
    assert_eq!(svc.ask("/readyz").status, 200, "load is no fault");
    svc.assert_metric("svc_pending_requests", 2.0);
    svc.assert_metric("svc_busy_workers", 1.0);
    svc.assert_metric("svc_admission_refused_total{reason=\"queue_full\"}", 1.0);
    go(&svc, "a");
    assert_eq!((running.response().text(), queued.response().text()), ("done".into(), "done".into()));
    svc.assert_metric("svc_pending_requests", 0.0);
    svc.assert_metric("svc_queue_depth", 0.0);
}

#[test]
fn a_client_that_leaves_is_499_and_its_script_learns_it() {
    let script = format!(
        "{WAITING} ignore_user_abort(true); pause('a');
        while (!connection_aborted()) {{ echo 'x'; ob_flush(); flush(); usleep(1000); }}
        file_put_contents(__DIR__ . '/told', connection_aborted());"
    );
    let svc = Svc::start(&[("wait.php", &script)], &[("ACCESS_LOG", "error")]);
    let mut leaving = svc.client();
    leaving.send("GET /wait.php HTTP/1.1\r\nHost: x\r\n\r\n");
    inside(&svc, "a");
    drop(leaving);
    eventually("it is counted", || svc.metric("svc_request_cancelled_total{reason=\"client_abort\"}") == 1.0);
    go(&svc, "a");
    eventually("the script has noticed", || {
        std::fs::read_to_string(svc.root().join("told")).is_ok_and(|told| told == "1")
    });
    svc.assert_metric("svc_responses_by_status_total{status=\"4xx\"}", 1.0);
    svc.assert_metric("svc_abandoned_work_total", 1.0);
    eventually("it is logged", || {
        svc.log().of("access").first().is_some_and(|it| it["fields"]["status"] == 499)
    });
}

#[test]
fn webhooks_run_without_a_waiting_client() {
    let hook = "<?php echo 'so'; usleep(2000);
        file_put_contents(__DIR__ . '/ran', file_get_contents('php://input') . \"\\n\", FILE_APPEND | LOCK_EX);
        echo ' it ran';";
    let settings = [("PHP_WORKERS", "1"), ("QUEUE_WAIT_TIMEOUT_MS", "60000")];
    let svc = Svc::start(&[("hook.php", hook)], &settings);
    const HOOKS: usize = 60;
    for hook in 0..HOOKS {
        let body = format!("{hook:03}");
        let head = format!("POST /hook.php HTTP/1.1\r\nHost: x\r\nContent-Length: {}\r\n\r\n", body.len());
        let mut client = TcpStream::connect(svc.main()).unwrap();
        client.write_all((head + &body).as_bytes()).unwrap();
        // The client closes at once; the server can still read the bytes that have arrived.
    }
    let ran = || std::fs::read_to_string(svc.root().join("ran")).unwrap_or_default();
    eventually("all have run", || ran().lines().count() == HOOKS);
    let mut hooks: Vec<_> = ran().lines().map(str::to_owned).collect();
    hooks.sort_unstable();
    hooks.dedup();
    assert_eq!(hooks.len(), HOOKS, "each once");
    eventually("they are answered", || {
        svc.metric("svc_responses_by_status_total{status=\"4xx\"}") == HOOKS as f64
    });
    svc.assert_metric("svc_request_cancelled_total{reason=\"client_abort\"}", HOOKS as f64);
    svc.assert_metric("svc_pending_requests", 0.0);
    eventually("they are counted", || svc.metric("svc_abandoned_work_total") == HOOKS as f64);
    svc.assert_metric("svc_dropped_requests_total", 0.0);
}

#[test]
fn an_answer_may_precede_the_end_of_the_script() {
    let script =
        format!("{WAITING} echo 'early'; svc_finish_request(); pause('a'); touch(__DIR__ . '/finished');");
    let svc = Svc::start(&[("early.php", &script)], &[]);
    let mut client = svc.client();
    assert_eq!(client.get("/early.php").text(), "early");
    inside(&svc, "a");
    assert_eq!(client.get("/none").status, 404);
    go(&svc, "a");
    eventually("the script ran on", || svc.root().join("finished").exists());
}

#[test]
fn a_connection_beyond_the_budget_waits_while_probes_answer() {
    let svc = Svc::start(&[("index.php", "<?php echo 'hello';")], &[("MAX_CONNECTIONS", "1")]);
    let mut first = svc.client();
    assert_eq!(first.get("/").status, 200);
    let mut second = svc.client();
    second.send("GET / HTTP/1.1\r\nHost: x\r\n\r\n");
    eventually("the accept loop is parked", || svc.metric("svc_accept_stalled") == 1.0);
    assert_eq!(svc.ask("/healthz").status, 200);
    svc.assert_metric("svc_active_connections", 1.0);
    drop(first);
    assert_eq!(second.response().text(), "hello");
    svc.assert_metric("svc_accept_stalls_total", 1.0);
    eventually("the accept loop runs", || svc.metric("svc_accept_stalled") == 0.0);
}

#[test]
fn the_server_runs_without_php_on_request() {
    let svc =
        Svc::start(&[("a.txt", "text"), ("index.php", "<?php echo 'source';")], &[("EXECUTOR", "stub")]);
    let mut client = svc.client();
    assert_eq!(client.get("/a.txt").text(), "text");
    for path in ["/", "/index.php", "/anything"] {
        let response = client.get(path);
        assert_eq!(response.status, 200);
        assert!(response.text().contains("without PHP") && !response.text().contains("source"));
    }
    assert_eq!(svc.ask("/readyz").status, 200);
    assert!(!svc.ask("/metrics").text().contains("svc_queue_depth"), "the stub has no queue");
}

#[test]
fn connections_leave_the_low_descriptors_to_scripts() {
    let svc = Svc::start(&[("index.php", "<?php echo 'hello';")], &[]);
    let low = || {
        let names = std::fs::read_dir(format!("/proc/{}/fd", svc.pid().as_raw_nonzero())).unwrap();
        let numbers =
            names.map(|name| name.unwrap().file_name().into_string().unwrap().parse::<u32>().unwrap());
        let (low, high): (Vec<_>, Vec<_>) = numbers.partition(|number| *number < 1024);
        (low.len(), high.len())
    };
    let mut clients: Vec<_> = (0..1).map(|_| svc.client()).collect();
    assert_eq!(clients[0].get("/").status, 200);
    let (low_before, high_before) = low();
    clients.extend((0..20).map(|_| svc.client()));
    for client in &mut clients {
        assert_eq!(client.get("/").status, 200);
    }
    let (low_after, high_after) = low();
    assert_eq!((low_after, high_after), (low_before, high_before + 20));
}

#[test]
fn a_script_that_was_deleted_is_missed_once_at_most() {
    let svc = Svc::start(&[("a.php", "<?php echo 'here';")], &[("IO_WORKERS", "1")]);
    let mut client = svc.client();
    assert_eq!(client.get("/a.php").text(), "here");
    std::fs::remove_file(svc.root().join("a.php")).unwrap();
    let first = client.get("/a.php").status;
    assert!(matches!(first, 404 | 500), "{first}");
    assert_eq!(client.get("/a.php").status, 404);
}
