//! Overload, from outside: more arrives than the pool can take, and the books agree with what clients got.
#![cfg(feature = "php")]

#[expect(dead_code, reason = "each test file uses a part of it")]
mod support;

use std::time::Duration;

use support::Svc;
use support::books::check_books;
use support::client::eventually;
use support::load::{Load, Sample};

/// Waits as a call to a database would.
const SLEEPS: &str = "<?php usleep(20000); echo 'ok';";

const WORKERS: &str = "4";

/// What the pool can take with [`SLEEPS`], a second.
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
fn ten_times_the_load_costs_nothing_but_refusals() {
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
    assert!(svc.log().find("PHP admission has started shedding requests under overload").is_some());
    let hint = "when the shedding of requests begins is decided by this setting, and by how many PHP_WORKERS there are";
    eventually("the setting is named", || svc.log().find(hint).is_some());
    assert!(svc.log().find(hint).unwrap()["fields"]["setting"].is_string());
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
