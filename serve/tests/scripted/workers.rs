//! Persistent workers in a real server, with an engine that takes its commands from the path.

use svc_core::admission::ShedReason;
use svc_core::limits::{LINGERING_MIN, REQUEST_FIBERS_MAX};
use svc_core::pool::{RecycleReason, SlotPhase, SlotReading};

use crate::support::Site;
use svc_testing::client::{Client, eventually};

fn start(settings: &[(&str, &str)]) -> Site {
    let mode = [("WORKER_MODE_ENABLED", "true"), ("INTERNAL_ADDR", "127.0.0.1:0")];
    let site = Site::start(&mode.iter().chain(settings).copied().collect::<Vec<_>>());
    let workers = site.shared().backend.workers().unwrap();
    eventually("all have booted", || workers.booted_total() == workers.facts().min as u64);
    site
}

/// Sends a request on a new connection.
fn ask(site: &Site, path: &str) -> Client {
    let mut client = site.client();
    client.send(format!("GET {path} HTTP/1.1\r\nHost: x\r\n\r\n"));
    client
}

fn parked(site: &Site, place: &str) -> Client {
    let client = ask(site, &format!("/park/{place}"));
    site.until_inside(place);
    client
}

/// Returns the value of a series on the operations port.
fn reading(site: &Site, series: &str) -> f64 {
    let page = site.ops("/metrics").text();
    let value = page.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' '));
    value.unwrap_or_else(|| panic!("no {series} in\n{page}")).parse().unwrap()
}

fn current(site: &Site) -> usize {
    site.shared().pool_facts().current
}

fn recycled(site: &Site) -> [u64; 3] {
    RecycleReason::ALL.map(|reason| site.metrics().workers_recycled.value(reason))
}

#[test]
fn one_thread_serves_others_while_requests_wait() {
    let site = start(&[("PHP_WORKERS", "1")]);
    let (mut first, mut second) = (parked(&site, "a"), parked(&site, "b"));
    assert_eq!(site.client().get("/hello").text(), "hello");
    let facts = site.shared().pool_facts();
    assert_eq!((facts.busy, facts.carrying, facts.current), (1, 1, 1));
    assert!((reading(&site, "svc_worker_request_fibers_active{worker=\"0\"}") - 2.0).abs() < 0.1);
    site.switches.open("b");
    assert_eq!(second.response().text(), "b");
    site.switches.open("a");
    assert_eq!(first.response().text(), "a");
    drop((first, second));
    site.check_books();
    assert!(reading(&site, "svc_worker_request_fibers_active{worker=\"0\"}") < 0.1);
    assert!((reading(&site, "svc_worker_requests_count{worker=\"0\"}") - 3.0).abs() < 0.1);
    assert!((reading(&site, "svc_worker_requests_handled_total") - 3.0).abs() < 0.1);
}

#[test]
fn a_worker_that_carries_something_leaves_work_to_an_idle_one() {
    let site = start(&[("PHP_WORKERS", "2")]);
    let mut waiting = parked(&site, "a");
    let slots = || site.shared().backend.workers().unwrap().slots(svc_core::time::now());
    let carrying = slots().iter().find(|slot| slot.fibers > 0).unwrap().slot;
    let is_idle = |slot: &SlotReading| slot.phase == SlotPhase::Serving && !slot.is_busy;
    let mut taken = 0;
    for _ in 0..50 {
        eventually("the other one has booted, and has nothing to do", || {
            slots().iter().any(|slot| slot.slot != carrying && is_idle(slot))
        });
        taken += usize::from(site.client().get("/slot").text() == carrying.to_string());
    }
    // A worker is idle shortly before it waits for work.
    assert!(taken <= 5, "{taken} of 50");
    site.switches.open("a");
    assert_eq!(waiting.response().text(), "a");
}

#[test]
fn a_request_running_after_its_answer_is_not_busy_and_ends_before_the_server() {
    let mut site = start(&[("PHP_WORKERS", "1")]);
    assert_eq!(site.client().get("/linger/a").text(), "answered");
    eventually("it is not busy", || site.shared().pool_facts().busy == 0);
    assert_eq!(site.shared().pool_facts().carrying, 1);
    assert_eq!(site.client().get("/hello").text(), "hello");
    // A worker owns a request until its last part is done, which may be shortly after the response.
    eventually("nothing runs", || {
        reading(&site, "svc_worker_request_age_seconds{worker_id=\"0\"}").abs() < 1e-9
    });
    site.drain();
    eventually("the gate is closed", || {
        let facts = site.shared().gate_facts().unwrap();
        facts.slots_available == facts.capacity && site.shared().lifecycle.is_closing()
    });
    assert_eq!(site.shared().pool_facts().carrying, 1, "the drain waits for it");
    site.switches.open("a");
    assert!(site.wait());
}

#[test]
fn a_worker_with_all_the_fibers_it_may_carry_takes_nothing_until_one_ends() {
    let site = start(&[("PHP_WORKERS", "1")]);
    let mut client = site.client();
    for _ in 0..REQUEST_FIBERS_MAX {
        assert_eq!(client.get("/linger/a").text(), "answered");
    }
    client.send("GET /hello HTTP/1.1\r\nHost: x\r\n\r\n");
    eventually("it waits", || site.shared().gate_facts().unwrap().depth == 1);
    assert_eq!((site.shared().pool_facts().busy, site.shared().pool_facts().carrying), (0, 1));
    site.switches.open("a");
    assert_eq!(client.response().text(), "hello");
    drop(client);
    site.check_books();
}

#[test]
fn a_drain_that_is_over_ends_workers_whatever_they_carry() {
    let mut site = start(&[("PHP_WORKERS", "1"), ("DRAIN_TIMEOUT_SECONDS", "0")]);
    let mut client = site.client();
    for _ in 0..REQUEST_FIBERS_MAX {
        assert_eq!(client.get("/linger/a").text(), "answered");
    }
    client.send("GET /hello HTTP/1.1\r\nHost: x\r\n\r\n");
    eventually("it waits", || site.shared().gate_facts().unwrap().depth == 1);
    site.drain();
    assert_eq!(client.response().status, 503);
    assert!(site.wait(), "every thread has ended");
}

#[test]
fn a_worker_that_asks_for_it_is_replaced_in_its_slot_without_a_gap() {
    let site = start(&[("PHP_WORKERS", "1")]);
    let mut client = site.client();
    for (index, reason) in RecycleReason::ALL.into_iter().enumerate() {
        assert_eq!(client.get(&format!("/recycle/{}", reason.as_str())).text(), "recycled");
        assert_eq!(client.get("/hello").text(), "hello");
        assert_eq!(client.get("/slot").text(), "0");
        eventually("it is counted", || recycled(&site)[index] == 1);
        eventually("another one has its slot", || {
            let facts = site.shared().pool_facts();
            (facts.current, facts.spawned) == (1, 2 + index as u64)
        });
    }
    drop(client);
    site.check_books();
    assert_eq!(site.metrics().refused.total(), 0);
    assert_eq!(site.metrics().workers_retired.value(), 0);
    assert!((reading(&site, "svc_worker_recycles_total") - 3.0).abs() < 0.1);
}

#[test]
fn a_replaced_worker_ends_its_requests_while_another_serves() {
    let site = start(&[("PHP_WORKERS", "1")]);
    let mut waiting = parked(&site, "a");
    assert_eq!(site.client().get("/recycle/error").text(), "recycled");
    for _ in 0..3 {
        assert_eq!(site.client().get("/slot").text(), "1", "another one serves");
    }
    assert_eq!(recycled(&site), [0, 0, 0], "it has not ended");
    eventually("only what is parked makes one busy", || {
        let facts = site.shared().pool_facts();
        (facts.current, facts.busy, facts.lingering, facts.max) == (2, 1, 1, 1)
    });
    assert!((reading(&site, "svc_workers_lingering") - 1.0).abs() < 0.1);
    assert!((reading(&site, "svc_worker_request_fibers_active{worker=\"0\"}") - 1.0).abs() < 0.1);
    site.switches.open("a");
    assert_eq!(waiting.response().text(), "a");
    eventually("it is counted", || recycled(&site) == [0, 0, 1]);
    eventually("it has ended", || current(&site) == 1);
    assert_eq!(site.shared().pool_facts().lingering, 0);
    drop(waiting);
    site.check_books();
    assert_eq!((site.metrics().refused.total(), site.metrics().workers_retired.value()), (0, 0));
    assert_eq!(site.shared().pool_facts().spawned, 2);
}

/// Leaves a request in a worker that wants to be replaced; returns its client once another worker serves.
fn left_behind(site: &Site, place: &str) -> Client {
    let client = parked(site, place);
    assert_eq!(site.client().get("/recycle/error").text(), "recycled");
    client
}

#[test]
fn no_more_workers_linger_than_may_and_the_next_one_keeps_its_place() {
    let site = start(&[("PHP_WORKERS", "1"), ("QUEUE_WAIT_TIMEOUT_MS", "2000")]);
    let places: Vec<_> = (0..=LINGERING_MIN).map(|number| format!("p{number}")).collect();
    let mut waiting: Vec<_> = places
        .iter()
        .map(|place| {
            eventually("a worker serves", || site.client().get("/hello").status == 200);
            left_behind(&site, place)
        })
        .collect();
    eventually("as many linger as may", || site.shared().pool_facts().lingering == LINGERING_MIN);
    assert_eq!(site.client().get("/hello").status, 529, "the last one keeps its place");
    let spawned = site.shared().pool_facts().spawned;
    assert_eq!((current(&site), spawned), (LINGERING_MIN + 1, LINGERING_MIN as u64 + 1));
    assert_eq!(site.ops("/readyz").status, 200, "as under overload");
    site.switches.open("p0");
    assert_eq!(waiting[0].response().text(), "p0");
    eventually("there is room for one more", || site.client().get("/hello").status == 200);
    for (place, client) in places.iter().zip(&mut waiting).skip(1) {
        site.switches.open(place);
        assert_eq!(client.response().text(), *place);
    }
    eventually("all are counted", || recycled(&site) == [0, 0, LINGERING_MIN as u64 + 1]);
    eventually("one is left", || current(&site) == 1);
    drop(waiting);
    site.check_books();
}

#[test]
fn all_workers_of_a_pool_may_linger_at_once() {
    let site = start(&[("PHP_WORKERS", "6")]);
    let mut waiting: Vec<_> = (0..6).map(|number| parked(&site, &format!("p{number}"))).collect();
    // Each worker has only its request: an idle one takes the next.
    for _ in 0..6 {
        assert_eq!(site.client().get("/recycle/scheduled").text(), "recycled");
    }
    assert_eq!(site.client().get("/hello").text(), "hello");
    assert!(site.restart_workers());
    assert_eq!(site.client().get("/hello").text(), "hello");
    for (number, client) in waiting.iter_mut().enumerate() {
        site.switches.open(&format!("p{number}"));
        assert_eq!(client.response().text(), format!("p{number}"));
    }
    eventually("the pool is as large as it was", || current(&site) == 6);
    eventually("no worker lingers", || site.shared().pool_facts().lingering == 0);
    drop(waiting);
    site.check_books();
    assert_eq!((site.metrics().refused.total(), site.metrics().dropped.value()), (0, 0));
}

#[test]
fn without_a_replacement_that_boots_a_lingering_worker_is_none_to_count_on() {
    let site = start(&[("PHP_WORKERS", "1")]);
    let mut waiting = parked(&site, "a");
    site.switches.refuse_boots(true);
    assert_eq!(site.client().get("/recycle/error").text(), "recycled");
    eventually("no worker takes requests", || site.client().get("/hello").status == 500);
    assert_eq!([site.ops("/readyz").status, site.ops("/healthz").status], [503, 200]);
    assert_eq!(site.shared().pool_facts().lingering, 1);
    let boots = site.switches.boots();
    eventually("it is tried again", || site.switches.boots() > boots + 1);
    site.switches.refuse_boots(false);
    eventually("one serves", || site.client().get("/hello").status == 200);
    assert_eq!(site.ops("/readyz").status, 200);
    site.switches.open("a");
    assert_eq!(waiting.response().text(), "a");
    drop(waiting);
    site.check_books();
}

#[test]
fn a_drain_waits_for_lingering_workers() {
    let mut site = start(&[("PHP_WORKERS", "1")]);
    let mut waiting = left_behind(&site, "a");
    eventually("it lingers", || site.shared().pool_facts().lingering == 1);
    site.drain();
    eventually("the gate is closed", || site.shared().lifecycle.is_closing());
    site.switches.open("a");
    assert_eq!(waiting.response().text(), "a");
    assert!(site.wait());
}

#[test]
fn the_heap_of_a_slot_is_the_last_that_was_measured() {
    let site = start(&[("PHP_WORKERS", "1")]);
    let heap = || reading(&site, "svc_worker_memory_bytes{worker=\"0\"}") as u64;
    assert_eq!(heap(), 0);
    site.client().get("/heap/4096");
    eventually("it is measured", || heap() == 4096);
    site.client().get("/recycle/max_memory");
    eventually("there is another one", || site.shared().pool_facts().spawned == 2);
    assert_eq!(heap(), 4096);
    site.client().get("/heap/512");
    eventually("it is measured again", || heap() == 512);
    eventually("so are the resets", || site.metrics().soft_resets.value() == 2);
}

#[test]
fn a_new_worker_in_the_place_of_one_that_is_gone_has_no_heap_to_show() {
    let site = start(&[("PHP_WORKERS", "1")]);
    let heap = || reading(&site, "svc_worker_memory_bytes{worker=\"0\"}") as u64;
    site.client().get("/heap/4096");
    eventually("it is measured", || heap() == 4096);
    assert_eq!(site.client().get("/panic").status, 500);
    eventually("there is another one", || {
        let facts = site.shared().pool_facts();
        (facts.current, facts.spawned) == (1, 2)
    });
    assert_eq!(heap(), 0, "it has served no request, and replaces no worker");
}

#[test]
fn a_worker_that_dies_loses_its_requests_and_is_replaced() {
    let site = start(&[("PHP_WORKERS", "1")]);
    let mut waiting = parked(&site, "a");
    assert_eq!(site.client().get("/panic").status, 500);
    assert_eq!(waiting.response().status, 500);
    eventually("another one serves", || site.client().get("/hello").status == 200);
    assert_eq!(site.metrics().dropped.value(), 2);
    eventually("it is logged", || site.log().contains("PHP worker thread was lost"));
    drop(waiting);
    site.check_books();
}

#[test]
fn a_request_that_is_let_go_without_an_answer_is_dropped() {
    let site = start(&[]);
    assert_eq!(site.client().get("/silent").status, 500);
    site.check_books();
    assert_eq!(site.metrics().dropped.value(), 1);
}

#[test]
fn a_pool_that_does_not_boot_is_unavailable_and_tried_again_until_it_does() {
    let site = start(&[("PHP_WORKERS", "2")]);
    site.switches.refuse_boots(true);
    let mut client = site.client();
    eventually("both workers are gone", || {
        client.get("/recycle/error");
        current(&site) == 0
    });
    assert_eq!(client.get("/hello").status, 500);
    assert!(site.metrics().refused.value(ShedReason::PoolUnavailable) > 0);
    let probe = |path| site.ops(path).status;
    assert_eq!([probe("/readyz"), probe("/startupz"), probe("/healthz")], [503, 503, 200]);
    assert!(site.ops("/health").text().contains("\"executor_healthy\":false"));
    let (before, boots) = (site.log().matches("PHP worker failed to boot").count(), site.switches.boots());
    eventually("it is tried again", || site.switches.boots() > boots + 1);
    let (lines, tried) = (site.log().matches("PHP worker failed to boot").count(), site.switches.boots());
    assert!(lines as u64 <= tried - boots + before as u64 + 1, "{lines} lines for {tried} attempts");
    assert_eq!(current(&site), 0, "one on probation is not current");
    site.switches.refuse_boots(false);
    eventually("both are back", || current(&site) == 2);
    assert_eq!(client.get("/hello").status, 200);
    assert_eq!(probe("/readyz"), 200);
    eventually("it is logged", || site.log().contains("PHP workers are booting again"));
    assert!(site.shared().pool_facts().spawned >= tried);
}

#[test]
fn all_workers_are_replaced_on_demand_each_after_another_has_booted() {
    let site = start(&[("PHP_WORKERS", "2")]);
    let mut waiting = parked(&site, "a");
    site.switches.hold_boots();
    assert!(site.restart_workers());
    site.until_inside("boot");
    for _ in 0..20 {
        assert_eq!(site.client().get("/hello").text(), "hello", "the old ones serve");
    }
    assert_eq!(recycled(&site), [0, 0, 0]);
    site.switches.open("boot");
    let mut client = site.client();
    eventually("one that carries nothing is replaced", || {
        assert_eq!(client.get("/hello").text(), "hello");
        recycled(&site) == [1, 0, 0] && current(&site) == 3
    });
    site.switches.open("a");
    assert_eq!(waiting.response().text(), "a");
    eventually("all are replaced", || recycled(&site) == [2, 0, 0]);
    eventually("it is logged", || site.log().contains("rolling restart of PHP workers finished"));
    let facts = site.shared().pool_facts();
    assert_eq!((facts.current, facts.spawned, facts.max), (2, 4, 2));
    drop((client, waiting));
    site.check_books();
    assert_eq!((site.metrics().refused.total(), site.metrics().dropped.value()), (0, 0));
}

#[test]
fn a_replacement_that_does_not_boot_leaves_the_old_ones_in_place() {
    let site = start(&[("PHP_WORKERS", "2")]);
    site.switches.refuse_boots(true);
    assert!(site.restart_workers());
    eventually("it is logged", || site.log().contains("rolling restart of PHP workers stopped"));
    assert_eq!(site.client().get("/hello").text(), "hello");
    assert_eq!((current(&site), recycled(&site)), (2, [0, 0, 0]));
    let log = site.log();
    assert!(log.contains("no boot allowed") && !log.contains("\"ERROR\""), "{log}");
    site.switches.refuse_boots(false);
    assert!(site.restart_workers());
    eventually("another attempt succeeds", || recycled(&site) == [2, 0, 0]);
}

#[test]
fn replacing_all_continues_while_one_is_slow() {
    let site = start(&[("PHP_WORKERS", "3")]);
    let mut waiting = parked(&site, "a");
    assert!(site.restart_workers());
    eventually("the others are replaced", || recycled(&site)[0] == 2);
    eventually("it is logged", || site.log().contains("rolling restart of PHP workers finished"));
    assert_eq!(current(&site), 4, "the one that carries something is still there");
    site.switches.open("a");
    assert_eq!(waiting.response().text(), "a");
    eventually("and then it goes", || current(&site) == 3);
}

#[test]
fn a_pool_of_changing_size_brings_persistent_workers_when_the_present_ones_are_full() {
    let site = start(&[("PHP_WORKERS", "1:2")]);
    let mut client = site.client();
    for _ in 0..REQUEST_FIBERS_MAX {
        client.get("/linger/a");
    }
    assert_eq!(client.get("/hello").text(), "hello");
    assert_eq!(current(&site), 2);
    site.switches.open("a");
    drop(client);
    site.check_books();
}

#[test]
fn files_are_sent_and_no_other_script_is_run() {
    let site = start(&[]);
    std::fs::write(site.root.path().join("a.css"), "body {}").unwrap();
    std::fs::write(site.root.path().join("other.php"), "secret").unwrap();
    assert_eq!(site.client().get("/a.css").text(), "body {}");
    for path in ["/other.php", "/index.php", "/OTHER.PHP"] {
        let response = site.client().get(path);
        assert_eq!((response.status, response.text().contains("secret")), (404, false), "the worker says so");
    }
    site.check_books();
    assert_eq!(site.metrics().worker_request_duration.snapshot().count(), 3);
}

#[test]
fn a_running_request_without_its_client_still_occupies_its_worker() {
    let site = start(&[("PHP_WORKERS", "1")]);
    let mut client = ask(&site, "/block/a");
    site.until_inside("a");
    let age = || reading(&site, "svc_worker_request_age_seconds{worker_id=\"0\"}");
    assert!(age() > 0.0);
    drop(std::mem::replace(&mut client, site.client()));
    eventually("its leaving is counted", || site.metrics().abandoned_total() == 1);
    assert!(age() > 0.0 && site.shared().pool_facts().busy == 1);
    site.switches.open("a");
    eventually("it ends", || age() < 1e-9);
    assert_eq!(client.get("/hello").text(), "hello");
}

#[test]
fn a_request_is_handled_when_its_handler_has_ended_however_early_it_answers() {
    let site = start(&[("PHP_WORKERS", "1")]);
    let metrics = site.metrics();
    assert_eq!(site.client().get("/linger/a").text(), "answered");
    let counted = || (metrics.work_finished_total(), metrics.worker_request_duration.snapshot().count());
    assert_eq!(counted(), (0, 0), "its handler goes on");
    assert!(reading(&site, "svc_worker_requests_count{worker=\"0\"}").abs() < 0.1);
    assert!((reading(&site, "svc_worker_request_fibers_active{worker=\"0\"}") - 1.0).abs() < 0.1);
    let began = svc_core::time::now();
    assert_eq!(site.client().get("/hello").text(), "hello");
    eventually("the other one was handled", || counted() == (1, 1));
    let before = metrics.worker_request_duration.snapshot().sum;
    let lingered = u64::try_from(began.elapsed().as_micros()).unwrap();
    site.switches.open("a");
    eventually("both were", || counted() == (2, 2));
    let took = metrics.worker_request_duration.snapshot().sum - before;
    assert!(took >= lingered, "its time runs to the end of its handler: {took} of {lingered}");
    site.check_books();
}

#[test]
fn requests_of_a_dying_worker_are_neither_handled_nor_finished() {
    let site = start(&[("PHP_WORKERS", "1")]);
    let mut waiting = [parked(&site, "a"), parked(&site, "b")];
    assert_eq!(site.client().get("/panic").status, 500);
    for client in &mut waiting {
        assert_eq!(client.response().status, 500);
    }
    eventually("another one serves", || site.shared().pool_facts().spawned == 2);
    let metrics = site.metrics();
    assert_eq!((metrics.work_finished_total(), metrics.dropped.value()), (0, 3));
    drop(waiting);
    site.check_books();
    assert_eq!((metrics.work_finished_total(), metrics.worker_request_duration.snapshot().count()), (0, 0));
}
