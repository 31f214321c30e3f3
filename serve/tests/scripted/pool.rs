//! A pool of variable size in a real server.

use std::time::Duration;

use crate::support::Site;
use svc_testing::client::{Client, eventually};

fn start(settings: &[(&str, &str)]) -> Site {
    Site::start(&[&[("PHP_WORKERS", "1:4")], settings].concat())
}

/// Sends requests that each hold a worker at a separate place.
fn burst(site: &Site, names: &[&str]) -> Vec<Client> {
    let send = |name: &&str| {
        let mut client = site.client();
        client.send(format!("GET /wait/{name} HTTP/1.1\r\nHost: x\r\n\r\n"));
        client
    };
    names.iter().map(send).collect()
}

/// Waits until `workers` are busy: the order of requests on different connections is undefined.
fn until_busy(site: &Site, workers: usize) {
    eventually("so many workers run a request", || site.shared().pool_facts().busy == workers);
}

fn until_queued(site: &Site, requests: usize) {
    eventually("so many requests are queued", || site.shared().gate_facts().unwrap().depth == requests);
}

fn current(site: &Site) -> usize {
    site.shared().pool_facts().current
}

#[test]
fn a_burst_brings_as_many_workers_as_it_needs_and_may_have() {
    let site = start(&[]);
    assert_eq!(current(&site), 1);
    let clients = burst(&site, &["a", "b", "c"]);
    ["a", "b", "c"].iter().for_each(|name| site.until_inside(name));
    assert_eq!(current(&site), 3);
    let more = burst(&site, &["d", "e", "f"]);
    until_busy(&site, 4);
    let facts = site.shared().pool_facts();
    assert_eq!((facts.current, facts.busy, facts.min, facts.max, facts.spawned), (4, 4, 1, 4, 4));
    until_queued(&site, 2);
    site.switches.open_all();
    for mut client in clients.into_iter().chain(more) {
        assert_eq!(client.response().status, 200);
    }
    site.check_books();
    assert_eq!(site.metrics().refused.total(), 0);
}

#[test]
fn workers_that_are_not_needed_retire_and_come_back() {
    let site = start(&[("PHP_WORKERS_IDLE_SECONDS", "1")]);
    for round in 1..=2 {
        let names = ["a", "b", "c", "d"].map(|name| format!("{name}{round}"));
        let names: Vec<_> = names.iter().map(String::as_str).collect();
        let clients = burst(&site, &names);
        names.iter().for_each(|name| site.until_inside(name));
        names.iter().for_each(|name| site.switches.open(name));
        for mut client in clients {
            assert_eq!(client.response().status, 200);
        }
        eventually("all but one have retired", || {
            current(&site) == 1 && site.metrics().workers_retired.value() == 3 * round
        });
        assert_eq!(site.shared().pool_facts().spawned, 1 + 3 * round);
    }
    assert_eq!(site.client().get("/hello").text(), "hello");
    site.check_books();
}

#[test]
fn a_worker_in_use_does_not_retire() {
    let site = start(&[("PHP_WORKERS_IDLE_SECONDS", "1")]);
    let mut clients = burst(&site, &["a", "b", "c"]);
    ["a", "b", "c"].iter().for_each(|name| site.until_inside(name));
    site.switches.open("a");
    site.switches.open("c");
    eventually("the others have retired", || {
        current(&site) <= 2 && site.metrics().workers_retired.value() > 0
    });
    site.switches.open("b");
    clients.iter_mut().for_each(|client| assert_eq!(client.response().status, 200));
}

#[test]
fn a_drain_in_the_middle_of_a_burst_answers_it() {
    let mut site = start(&[]);
    let clients = burst(&site, &["a", "b", "c", "d", "e", "f"]);
    until_busy(&site, 4);
    // A drain refuses requests that have not arrived yet.
    until_queued(&site, 2);
    site.drain();
    site.switches.open_all();
    for mut client in clients {
        assert_eq!(client.response().status, 200);
    }
    assert!(site.wait(), "every thread has ended");
    assert_eq!(site.metrics().refused.total(), 0);
}

#[test]
fn a_drain_ends_an_unused_pool() {
    let mut site = start(&[("PHP_WORKERS_IDLE_SECONDS", "1")]);
    let clients = burst(&site, &["a", "b"]);
    site.until_inside("b");
    site.switches.open_all();
    for mut client in clients {
        assert_eq!(client.response().status, 200);
    }
    site.drain();
    let begin = svc_core::time::now();
    assert!(site.wait());
    assert!(begin.elapsed() < Duration::from_secs(5));
}

#[test]
fn a_pool_of_fixed_size_stays_as_it_is() {
    let site = Site::start(&[("PHP_WORKERS_IDLE_SECONDS", "1")]);
    let clients = burst(&site, &["a", "b", "c"]);
    until_queued(&site, 1);
    site.switches.open_all();
    clients.into_iter().for_each(|mut client| assert_eq!(client.response().status, 200));
    let facts = site.shared().pool_facts();
    assert_eq!((facts.current, facts.min, facts.max, facts.spawned), (2, 2, 2, 2));
    assert!(!site.restart_workers(), "classic workers are not replaced on demand");
}
