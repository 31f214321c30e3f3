//! Each request starts with the state that the boot script has set up; changes made in place stay private to the request.

use serde_json::Value;

use svc_testing::Svc;
use svc_testing::client::{Response, eventually};

const WORKER: &str = include_str!("../../php/starting_point.php");

/// Starts a server with a boot script that has set everything up, or only called a function of streams.
fn start(full: bool) -> Svc {
    start_script(WORKER, full)
}

fn start_script(worker: &str, full: bool) -> Svc {
    let files = [("worker.php", worker), ("sub/x", ""), (if full { "full" } else { "spare" }, "")];
    let settings = [("PHP_WORKERS", "1"), ("WORKER_MODE_ENABLED", "true"), ("ENTRY_FILE", "worker.php")];
    Svc::start_with(&files, &settings, &["zend.assertions=1", "assert.exception=0", "assert.warning=0"])
}

fn text(svc: &Svc, path: &str) -> String {
    let response = svc.get(path);
    assert_eq!(response.status, 200, "{path}: {}", response.text());
    response.text()
}

#[test]
fn values_changed_in_place_belong_to_the_request() {
    for full in [false, true] {
        let mut svc = start(full);
        let neutral = text(&svc, "/?do=look");
        assert_eq!(neutral.contains("X-Boot: 1"), full, "{neutral}");
        assert_eq!(neutral.contains("boot_notified"), full, "{neutral}");
        assert_eq!(neutral.contains("\"TEXT\""), full, "{neutral}");
        assert_eq!(neutral.contains("\"fixed\""), full, "{neutral}");
        assert_eq!(neutral.contains("\"asserted\": 1"), full, "{neutral}");
        assert!(!neutral.contains("secret"), "{neutral}");
        assert_eq!(text(&svc, "/?do=look"), neutral, "after one that looks");
        for round in 0..4 {
            let stay = |svc: &Svc| {
                let mut client = svc.client();
                client.send("GET /?do=change&stay HTTP/1.1\r\nHost: x\r\n\r\n");
                client
            };
            let mut first = stay(&svc);
            assert_eq!(text(&svc, "/?do=look"), neutral, "beside one, {round}");
            let mut second = stay(&svc);
            assert_eq!(text(&svc, "/?do=look"), neutral, "beside two, {round}");
            assert_eq!(text(&svc, "/?do=change"), "same", "{round}");
            text(&svc, "/?do=go");
            for client in [&mut first, &mut second] {
                let response = client.response();
                assert_eq!((response.status, response.text().as_str()), (200, "same"), "{round}");
            }
            assert_eq!(text(&svc, "/?do=look"), neutral, "after them, {round}");
        }
        let said = svc.whole_log().of("svc");
        assert!(!said.is_empty() && said.iter().all(|record| record["level"] != "ERROR"), "{said:?}");
    }
}

#[test]
fn a_custom_loop_starts_each_request_there_too() {
    let in_loop = WORKER.replace("Svc\\Worker::serve(function", "$handler = (function");
    let in_loop = format!("{in_loop} while (frankenphp_handle_request($handler)) {{ }}");
    for full in [false, true] {
        let svc = start_script(&in_loop, full);
        // All except wrappers and filters, which stay registered (registered.rs).
        let look = || {
            let mut seen: Value = serde_json::from_str(&text(&svc, "/?do=look")).unwrap();
            let members = seen.as_object_mut().unwrap();
            assert!(members.remove("wrappers").is_some() && members.remove("filters").is_some());
            seen
        };
        let neutral = look();
        for _ in 0..3 {
            assert_eq!(text(&svc, "/?do=change"), "same");
            assert_eq!(look(), neutral);
        }
    }
}

/// The context's notification callback reports itself in the response's head.
const NOTIFIED: &str = r"<?php
function notify(string $whose): void
{
    $told = fn () => header('Told: ' . $whose);
    stream_context_set_params(stream_context_get_default(), ['notification' => $told]);
}
notify('boot');
Svc\Worker::serve(function () {
    if (isset($_GET['own'])) { notify($_GET['own']); }
    if (isset($_GET['stay'])) {
        touch(__DIR__ . '/inside-' . $_GET['own']);
        while (!file_exists(__DIR__ . '/go')) { Svc\sleep(0.001); clearstatcache(); }
    }
    echo file_get_contents('http://127.0.0.1:' . $_SERVER['SERVER_PORT'] . '/fixed.txt');
});";

#[test]
fn a_context_notifies_whom_its_own_request_has_named() {
    let files = [("worker.php", NOTIFIED), ("fixed.txt", "fixed")];
    let settings = [("PHP_WORKERS", "1"), ("WORKER_MODE_ENABLED", "true"), ("ENTRY_FILE", "worker.php")];
    let svc = Svc::start(&files, &settings);
    let assert_told = |response: &Response, whom: &str| {
        assert_eq!((response.status, response.text().as_str()), (200, "fixed"));
        assert_eq!(response.field("told"), Some(whom));
    };
    let mut waiting: Vec<_> = ["one", "two"]
        .into_iter()
        .map(|name| {
            let mut client = svc.client();
            client.send(format!("GET /?stay&own={name} HTTP/1.1\r\nHost: x\r\n\r\n"));
            eventually("it is inside", || svc.root().join(format!("inside-{name}")).exists());
            (name, client)
        })
        .collect();
    for round in 0..3 {
        assert_told(&svc.get("/"), "boot");
        let own = format!("own-{round}");
        assert_told(&svc.get(&format!("/?own={own}")), &own);
    }
    std::fs::write(svc.root().join("go"), "").unwrap();
    for (name, client) in &mut waiting {
        assert_told(&client.response(), name);
    }
    assert_told(&svc.get("/"), "boot");
}

#[test]
fn registrations_of_a_request_are_freed_with_it() {
    let svc = start(true);
    let used = || text(&svc, "/?do=memory").parse::<i64>().unwrap();
    let many = |count: usize| {
        for _ in 0..count {
            assert_eq!(text(&svc, "/?do=change"), "same");
        }
    };
    many(20);
    let before = used();
    many(200);
    let per_request = (used() - before) / 200;
    assert!(per_request < 8, "{per_request} bytes for each request");
}

#[test]
fn forms_are_rewritten_with_the_value_of_the_request() {
    for full in [false, true] {
        let svc = start(full);
        for length in [1, 2000, 1, 500, 2000] {
            let expected =
                format!(r#"<form><input type="hidden" name="own" value="{}" /></form>"#, "x".repeat(length));
            assert_eq!(text(&svc, &format!("/?do=rewrite&length={length}")), expected);
        }
    }
}

#[test]
fn a_stream_outlives_the_wrapper_of_its_request() {
    let svc = start(true);
    for _ in 0..3 {
        text(&svc, "/?do=keep");
        text(&svc, "/?do=look");
        assert_eq!(text(&svc, "/?do=kept"), "fixed");
    }
}
