//! The metrics of the async pool: when each appears, what each counts, and that they agree at any time.

use svc_core::sync::counter::Flag;

use svc_testing::books::check_books;
use svc_testing::client::eventually;
use svc_testing::exposition::{self, Dialect};
use svc_testing::tasks::{COUNTERS, MODES, TaskAccounting, TaskServer, assert_laws};

const CODE: &str = r"
function completes() { return Svc\async(fn () => 1)->await(); }
function fails() { return tried(fn () => Svc\async(fn () => throw new Exception('no'))->await()); }
function cancels() { Svc\async(never(...)); return 1; }
function times_out() { return tried(fn () => Svc\await_any([Svc\async(fn ($x) => never(), 1)], 0.005)); }
function refused() { return tried(fn () => Svc\async(fn ($x) => 1, fopen('php://memory', 'r'))); }
function busy(string $n) { $all = array_map(fn () => Svc\async(fn ($n) => until('go-' . $n), $n), range(1, 5)); mark('dispatched'); Svc\await_all($all); return 1; }
function mixed_up(string $n) {
    mt_srand((int) $n);
    for ($i = 0; $i < 12; $i++) {
        try {
            $tasks[] = $task = match (mt_rand(0, 5)) {
                0 => Svc\async(fn () => 1),
                1 => Svc\async(fn () => throw new Exception('no')),
                2 => Svc\async(never(...)),
                3 => Svc\async(fn () => usleep(500)),
                4 => Svc\async(fn () => Svc\async(fn () => Svc\sleep(0.002))->await()),
                5 => Svc\async(fn () => Svc\sleep(0.001)),
            };
            match (mt_rand(0, 3)) { 0 => $task->cancel(), 1 => $task->await(0.003), 2 => Svc\await_race($tasks, 0.001), 3 => null };
        } catch (Svc\Async\Exception) { }
    }
    return 1;
}";

#[test]
fn each_family_appears_with_its_reason() {
    for mode in MODES {
        let server = TaskServer::new(CODE).set("ASYNC_MAX_FIBERS", "10").start(mode);
        let page = server.svc.ask("/metrics").text();
        assert!(page.contains("\nsvc_async_tasks_in_flight 0\n"), "{page}");
        assert!(page.contains("\nsvc_async_tasks_in_flight_limit 20\n"), "{page}");
        for counter in COUNTERS {
            assert!(
                !page.contains(&format!("svc_async_tasks_{counter}_total")),
                "{counter}: nothing was dispatched"
            );
        }
        assert!(!page.contains("svc_async_output_discarded_bytes_total"));
        // A task that could not be transferred was neither dispatched nor rejected by a limit.
        server.tell("refused");
        assert!(!server.svc.ask("/metrics").text().contains("svc_async_tasks_dispatched_total"));
        server.tell("completes");
        assert_eq!(TaskAccounting::at_rest(&server.svc).dispatched as u64, 1);
        let page = server.svc.ask("/metrics").text();
        for counter in COUNTERS {
            assert!(page.contains(&format!("\n# TYPE svc_async_tasks_{counter}_total counter\n")), "{page}");
        }
        for gauge in ["in_flight", "in_flight_limit"] {
            assert!(page.contains(&format!("\n# TYPE svc_async_tasks_{gauge} gauge\n")), "{page}");
        }
        exposition::read(page.as_bytes(), Dialect::Text).unwrap();
        check_books(&server.svc);
    }
}

#[test]
fn each_end_is_counted_once() {
    TaskServer::new(CODE).in_each_mode(|server| {
        let counts = |server: &svc_testing::tasks::TaskSvc| {
            let books = TaskAccounting::at_rest(&server.svc);
            [books.dispatched, books.completed, books.failed, books.cancelled, books.rejected]
                .map(|n| n as u64)
        };
        for (function, expected) in [
            ("completes", [1, 1, 0, 0, 0]),
            ("fails", [2, 1, 1, 0, 0]),
            ("cancels", [3, 1, 1, 1, 0]),
            ("times_out", [4, 1, 1, 2, 0]),
            ("refused", [4, 1, 1, 2, 0]),
        ] {
            server.tell(function);
            assert_eq!(counts(server), expected, "{function}");
        }
    });
}

#[test]
fn in_flight_counts_queued_and_running_tasks() {
    let server = TaskServer::new(CODE).set("ASYNC_WORKERS", "1");
    server.in_each_mode(|server| {
        let mut busy = server.send("busy", "a");
        server.until("dispatched");
        assert_eq!(TaskAccounting::read(&server.svc).in_flight as u64, 5);
        server.mark("go-a");
        busy.response();
        assert_eq!(TaskAccounting::at_rest(&server.svc).completed as u64, 5);
        std::fs::remove_file(server.path("dispatched")).unwrap();
    });
}

#[test]
fn async_threads_are_no_workers() {
    for mode in MODES {
        let settings = TaskServer::new(CODE).set("ASYNC_WORKERS", "3").set("PHP_WORKERS", "2");
        let server = settings.start(mode);
        let mut busy = server.send("busy", "a");
        server.until("dispatched");
        assert_eq!(server.svc.metric("svc_workers_current") as u64, 2);
        assert_eq!(server.svc.metric("svc_busy_workers") as u64, 1, "{mode:?}");
        let page = server.svc.ask("/metrics").text();
        let labels: Vec<_> = page.lines().filter(|line| line.contains("worker=\"2\"")).collect();
        assert!(labels.is_empty(), "{labels:?}");
        server.mark("go-a");
        busy.response();
        drop(busy);
        check_books(&server.svc);
        assert_laws(&server.svc);
    }
}

#[test]
fn the_laws_hold_at_any_time_and_whatever_is_done() {
    let server = TaskServer::new(CODE).set("ASYNC_MAX_FIBERS", "8").set("ASYNC_QUEUE_CAPACITY", "6");
    server.in_each_mode(|server| {
        let done = Flag::new();
        std::thread::scope(|scope| {
            let scraper = scope.spawn(|| {
                let mut before = TaskAccounting::read(&server.svc);
                while !done.is_set() {
                    // Reading asserts the relations that hold at any time; and counters never fall.
                    let books = TaskAccounting::read(&server.svc);
                    assert!(books.dispatched >= before.dispatched && books.cancelled >= before.cancelled);
                    assert!(books.completed >= before.completed && books.failed >= before.failed);
                    before = books;
                }
            });
            let clients: Vec<_> = (0..3)
                .map(|_| {
                    scope.spawn(|| {
                        for _ in 0..15 {
                            assert_eq!(server.tell("mixed_up"), "1");
                        }
                    })
                })
                .collect();
            for client in clients {
                client.join().unwrap();
            }
            done.set();
            scraper.join().unwrap();
        });
        let books = TaskAccounting::at_rest(&server.svc);
        assert!(books.completed > 0.0 && books.failed > 0.0 && books.cancelled > 0.0, "{books:?}");
        eventually("all requests have ended", || server.svc.metric("svc_busy_workers") == 0.0);
    });
}

#[test]
fn the_settings_are_in_the_report() {
    let server = TaskServer::new(CODE)
        .set("ASYNC_WORKERS", "3")
        .set("ASYNC_MAX_FIBERS", "7")
        .set("ASYNC_QUEUE_CAPACITY", "11")
        .start(MODES[0]);
    let report: serde_json::Value = serde_json::from_slice(&server.svc.ask("/config").body).unwrap();
    let text = report.to_string();
    for expected in [
        r#""async_workers":3"#,
        r#""async_max_fibers":7"#,
        r#""async_queue_capacity":11"#,
        r#""async_in_flight_cap":21"#,
    ] {
        assert!(text.contains(expected), "{expected} is not in {text}");
    }
    assert_eq!(server.svc.ask("/health").status, 200);
}
