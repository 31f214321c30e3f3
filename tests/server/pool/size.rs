//! The pool of the real binary: how it grows and shrinks, and the effect of a hang-up.

use rustix::process::Signal;
use svc_testing::Svc;
use svc_testing::client::{Client, eventually};

/// A script that reports that it runs, and answers when a file appears beside it.
const WAITING: &str = r#"<?php
set_time_limit(0);
touch(__DIR__ . '/inside-' . $_GET['name']);
while (!file_exists(__DIR__ . '/go')) { usleep(2000); clearstatcache(); }
echo $_GET['name'];
"#;

/// Starts this many waiting requests; waits until `inside` of them run.
fn burst(svc: &Svc, count: usize, inside: usize) -> Vec<Client> {
    let ask = |number: usize| {
        let mut client = svc.client();
        client.send(format!("GET /wait.php?name={number} HTTP/1.1\r\nHost: x\r\n\r\n"));
        client
    };
    let clients = (0..count).map(ask).collect();
    let running = || (0..count).filter(|number| svc.root().join(format!("inside-{number}")).exists()).count();
    eventually("they run", || running() == inside);
    clients
}

fn release(svc: &Svc, clients: Vec<Client>) {
    std::fs::write(svc.root().join("go"), "").unwrap();
    for (number, mut client) in clients.into_iter().enumerate() {
        assert_eq!(client.response().text(), number.to_string());
    }
}

#[test]
fn a_pool_grows_with_the_work_and_shrinks_when_it_is_done() {
    let settings = [("PHP_WORKERS", "1:3"), ("PHP_WORKERS_IDLE_SECONDS", "1")];
    let mut svc = Svc::start(&[("wait.php", WAITING)], &settings);
    let config: serde_json::Value = serde_json::from_str(&svc.ask("/config").text()).unwrap();
    assert_eq!(config["php_workers"], "1:3");
    let pool = || {
        ["svc_workers_min", "svc_workers_current", "svc_workers_max", "svc_busy_workers"]
            .map(|name| svc.metric(name) as u32)
    };
    assert_eq!(pool(), [1, 1, 3, 0]);
    let clients = burst(&svc, 5, 3);
    assert_eq!(pool(), [1, 3, 3, 3]);
    assert!(svc.metric("svc_worker_request_age_seconds{worker_id=\"2\"}") > 0.0);
    release(&svc, clients);
    eventually("it shrinks", || pool() == [1, 1, 3, 0]);
    let counted =
        ["svc_workers_spawned_total", "svc_workers_retired_total"].map(|name| svc.metric(name) as u32);
    assert_eq!(counted, [3, 2]);
    assert_eq!(svc.get("/wait.php?name=again").text(), "again");
    svc.stop();
}

#[test]
fn a_signal_to_stop_finds_its_way_through_a_growing_pool() {
    let mut svc = Svc::start(&[("wait.php", WAITING)], &[("PHP_WORKERS", "1:8")]);
    let clients = burst(&svc, 8, 8);
    svc.signal(Signal::TERM);
    release(&svc, clients);
    assert_eq!(svc.wait(), Some(0));
}

#[test]
fn a_hang_up_does_nothing_to_classic_workers() {
    let svc = Svc::start(&[("index.php", "<?php echo 'hello';")], &[]);
    svc.signal(Signal::HUP);
    let notes = ["SIGHUP received; nothing to reload", "reload finished"];
    eventually("it is noted", || notes.iter().any(|note| svc.log().find(note).is_some()));
    assert!(svc.log().find("rolling restart of PHP workers started").is_none());
    assert_eq!(svc.get("/").text(), "hello");
    assert_eq!(svc.metric("svc_workers_spawned_total") as u32, 2);
}
