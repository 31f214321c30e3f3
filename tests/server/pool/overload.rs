//! Overload, from outside: more requests arrive than the pool can serve, and the metrics agree with the clients' responses.
#![cfg(feature = "php")]

use std::time::Duration;

use svc_testing::Svc;
use svc_testing::books::check_books;
use svc_testing::client::{Client, eventually};
use svc_testing::load::{Load, Sample};

/// Waits as a call to a database would.
const SLEEPS: &str = "<?php usleep(20000); echo 'ok';";

const WORKERS: &str = "4";

/// The capacity of the pool with [`SLEEPS`], in requests per second.
const CAPACITY: f64 = 200.0;

fn overloaded(times: f64, patience: Option<Duration>, settings: &[(&str, &str)]) -> (Svc, Vec<Sample>) {
    let own = [("PHP_WORKERS", WORKERS), ("QUEUE_WAIT_TIMEOUT_MS", "1000")];
    let all: Vec<_> = own.into_iter().chain(settings.iter().copied()).collect();
    let svc = Svc::start(&[("index.php", SLEEPS)], &all);
    let load = Load {
        addr: svc.main(),
        path: "/index.php",
        rate: CAPACITY * times,
        duration: Duration::from_secs(3),
        patience,
    };
    let samples = load.run();
    eventually("all is answered", || {
        svc.metric("svc_pending_requests") == 0.0 && svc.metric("svc_busy_workers") == 0.0
    });
    (svc, samples)
}

fn count(samples: &[Sample], status: u16) -> f64 {
    samples.iter().filter(|sample| sample.status == status).count() as f64
}

#[test]
fn ten_times_the_load_causes_only_refusals() {
    let (svc, samples) = overloaded(10.0, None, &[]);
    let (served, refused) = (count(&samples, 200), count(&samples, 529));
    assert_eq!(served + refused, samples.len() as f64, "an answer is 200 or 529");
    assert!(served > 0.0 && refused > served);
    svc.assert_metric("svc_responses_by_status_total{status=\"2xx\"}", served);
    let reasons = ["wait_timeout", "waiting_full", "waiting_bytes", "queue_full"];
    let of = |reason: &str| svc.metric(&format!("svc_admission_refused_total{{reason=\"{reason}\"}}"));
    assert_eq!(reasons.map(of).iter().sum::<f64>(), refused);
    assert!(of("queue_full") == 0.0, "the queue is not the bound while requests may wait");
    check_books(&svc);
    svc.log().expect("PHP admission has started shedding requests under overload");
    let hint =
        "this setting and the number of PHP_WORKERS determine when the server starts shedding requests";
    assert!(svc.log().expect(hint)["fields"]["setting"].is_string());
    assert_eq!(svc.ask("/readyz").status, 200, "load is not a fault");
}

#[test]
fn fail_fast_mode_refuses_at_once_when_the_queue_is_full() {
    let (svc, samples) = overloaded(5.0, None, &[("QUEUE_WAIT_TIMEOUT_MS", "0"), ("QUEUE_CAPACITY", "8")]);
    let refused = count(&samples, 529);
    assert!(refused > 0.0);
    svc.assert_metric("svc_admission_refused_total{reason=\"queue_full\"}", refused);
    svc.assert_metric("svc_admission_wait_budget_us", 0.0);
    check_books(&svc);
}

#[test]
fn clients_that_leave_are_499_and_lower_the_budget() {
    let (svc, samples) = overloaded(3.0, Some(Duration::from_millis(200)), &[]);
    let left = count(&samples, 0);
    assert!(left > 0.0);
    let latest = samples.iter().map(|sample| sample.due).max();
    assert!(latest > Some(Duration::from_secs(2)), "arrivals did not wait for answers");
    assert!(samples.iter().all(|sample| sample.status != 0 || sample.latency >= Duration::from_millis(200)));
    eventually("all departures are seen", || {
        svc.metric("svc_request_cancelled_total{reason=\"client_abort\"}") >= 1.0
    });
    check_books(&svc);
    svc.assert_metric("svc_admission_wait_budget_ceiling_us", 1_000_000.0);
}

/// Answers when a file with the requested name appears beside it.
const STAYS: &str = r#"<?php
set_time_limit(0);
touch(__DIR__ . "/inside-{$_GET['n']}");
while (!file_exists(__DIR__ . "/go-{$_GET['n']}")) { usleep(2000); clearstatcache(); }
echo 'stayed';"#;

fn one_worker(settings: &[(&str, &str)]) -> Svc {
    Svc::start(&[("index.php", STAYS)], &[settings, &[("PHP_WORKERS", "1")]].concat())
}

fn stay(svc: &Svc, name: &str) -> Client {
    let mut client = svc.client();
    client.send(format!("GET /?n={name} HTTP/1.1\r\nHost: x\r\n\r\n"));
    client
}

fn until_inside(svc: &Svc, name: &str) {
    eventually("it is inside", || svc.root().join(format!("inside-{name}")).exists());
}

fn go(svc: &Svc, name: &str) {
    std::fs::write(svc.root().join(format!("go-{name}")), "").unwrap();
}

#[test]
fn work_without_clients_halves_the_budget() {
    let svc = one_worker(&[]);
    let mut running = stay(&svc, "a");
    until_inside(&svc, "a");
    for number in 1..=10 {
        let leaving = stay(&svc, "left");
        svc.assert_metric("svc_queue_depth", f64::from(number));
        drop(leaving);
        svc.assert_metric("svc_request_cancelled_total{reason=\"client_abort\"}", f64::from(number));
    }
    let mut next = stay(&svc, "b");
    svc.assert_metric("svc_queue_depth", 11.0);
    // While a request waits, the budget does not grow again.
    let mut last = stay(&svc, "c");
    svc.assert_metric("svc_queue_depth", 12.0);
    svc.assert_metric("svc_admission_wait_budget_us", 60_000_000.0);
    go(&svc, "a");
    assert_eq!(running.response().text(), "stayed");
    svc.assert_metric("svc_abandoned_work_total", 10.0);
    svc.assert_metric("svc_admission_wait_budget_us", 30_000_000.0);
    svc.assert_metric("svc_admission_wait_budget_ceiling_us", 60_000_000.0);
    go(&svc, "b");
    go(&svc, "c");
    assert_eq!((next.response().text(), last.response().text()), ("stayed".into(), "stayed".into()));
    assert!(!svc.root().join("inside-left").exists(), "no script ran for departed clients");
    drop((running, next, last));
    check_books(&svc);
}

#[test]
fn an_entry_that_was_answered_529_counts_until_a_worker_takes_it() {
    let svc = one_worker(&[("QUEUE_WAIT_TIMEOUT_MS", "2000")]);
    let mut running = stay(&svc, "a");
    until_inside(&svc, "a");
    for number in 1..=3 {
        assert_eq!(stay(&svc, "refused").response().status, 529);
        assert_eq!(svc.metric("svc_queue_depth"), f64::from(number));
        assert_eq!(svc.metric("svc_pending_requests"), 1.0, "the one that runs");
    }
    go(&svc, "a");
    assert_eq!(running.response().text(), "stayed");
    svc.assert_metric("svc_queue_depth", 0.0);
    assert_eq!(svc.metric("svc_abandoned_work_total"), 0.0, "refused work is not abandoned");
    drop(running);
    check_books(&svc);
}
