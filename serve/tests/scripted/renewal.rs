//! Renewal of a cache that persistent workers share, while they serve.

use svc_core::pool::OpcacheFacts;

use crate::support::Site;
use svc_testing::client::{Client, eventually};

fn start(workers: &str) -> Site {
    let site = Site::start(&[
        ("WORKER_MODE_ENABLED", "true"),
        ("INTERNAL_ADDR", "127.0.0.1:0"),
        ("PHP_WORKERS", workers),
    ]);
    let pool = site.shared().backend.workers().unwrap();
    eventually("all have booted", || pool.booted_total() == pool.facts().min as u64);
    site
}

fn parked(site: &Site, place: &str) -> Client {
    let mut client = site.client();
    client.send(format!("GET /park/{place} HTTP/1.1\r\nHost: x\r\n\r\n"));
    site.until_inside(place);
    client
}

fn spoil(site: &Site) {
    site.switches.cache.spoil();
    site.shared().backend.workers().unwrap().call_supervisor();
}

fn facts(site: &Site) -> OpcacheFacts {
    site.switches.cache.facts().unwrap()
}

fn until_renewed(site: &Site, workers: usize) {
    eventually("all use the new one", || {
        facts(site) == OpcacheFacts { users: workers, ..OpcacheFacts::default() }
            && site.shared().pool_facts().lingering == 0
            && site.shared().pool_facts().current == workers
    });
}

#[test]
fn all_workers_are_replaced_twice_without_interruption() {
    for workers in [1, 3] {
        let site = start(&workers.to_string());
        spoil(&site);
        for _ in 0..20 {
            assert_eq!(site.client().get("/hello").text(), "hello");
        }
        until_renewed(&site, workers);
        assert_eq!(site.switches.cache.renewals(), 1);
        assert_eq!(site.shared().pool_facts().spawned, 3 * workers as u64);
        assert_eq!((site.metrics().refused.total(), site.metrics().dropped.value()), (0, 0));
    }
}

#[test]
fn an_old_worker_that_lingers_delays_the_new_cache_and_nothing_else() {
    let site = start("2");
    let mut waiting = parked(&site, "a");
    spoil(&site);
    eventually("it is logged", || site.log().contains("waiting for old PHP workers to end"));
    assert_eq!(facts(&site), OpcacheFacts { is_stale: true, users: 1, is_occupied: false });
    assert!(site.metrics().opcache_restart_delayed.is_set());
    for place in ["/cache", "/cache", "/cache"] {
        assert_eq!(site.client().get(place).text(), "uncached");
    }
    assert_eq!(site.ops("/readyz").status, 200);
    site.switches.open("a");
    assert_eq!(waiting.response().text(), "a");
    until_renewed(&site, 2);
    assert_eq!(site.client().get("/cache").text(), "user");
    drop(waiting);
    site.check_books();
}

#[test]
fn a_worker_recycled_meanwhile_delays_no_restart() {
    let site = start("2");
    let mut waiting = parked(&site, "a");
    spoil(&site);
    eventually("the old one is alone", || {
        facts(&site).users == 1 && site.shared().pool_facts().lingering == 1
    });
    for _ in 0..4 {
        assert_eq!(site.client().get("/recycle/error").text(), "recycled");
        assert_eq!(site.client().get("/cache").text(), "uncached");
    }
    assert_eq!(facts(&site), OpcacheFacts { is_stale: true, users: 1, is_occupied: false });
    site.switches.open("a");
    assert_eq!(waiting.response().text(), "a");
    until_renewed(&site, 2);
}

#[test]
fn workers_that_do_not_boot_leave_the_old_ones_and_the_operator_tries_again() {
    let site = start("2");
    site.switches.refuse_boots(true);
    spoil(&site);
    eventually("it is logged", || site.log().contains("rolling restart of PHP workers stopped"));
    assert_eq!(site.client().get("/cache").text(), "user");
    let boots = site.switches.boots();
    site.shared().backend.workers().unwrap().call_supervisor();
    assert_eq!(site.client().get("/hello").text(), "hello");
    assert_eq!(site.switches.boots(), boots, "not at once");
    site.switches.refuse_boots(false);
    assert!(site.restart_workers());
    until_renewed(&site, 2);
}
