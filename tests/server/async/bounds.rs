//! The limits of the async pool: its queue, the tasks in flight, and a pool without threads.

use svc_testing::client::eventually;
use svc_testing::tasks::{MODES, TaskAccounting, TaskServer, assert_like};

const CODE: &str = r"
/** Keeps the only thread inside a C call, even beyond this request. */
function block(string $n) { $GLOBALS['blocks'] = Svc\async(gate(...), $n)->detach(); until('at-' . $n); return 1; }
/** Counts the accepted tasks before the first refusal, and returns the refusal's message. */
function fill(string $n) {
    for ($taken = 0; $taken < 100; $taken++) {
        try { $tasks[] = Svc\async(fn ($n) => until('go-' . $n), $n); }
        catch (Svc\Async\RejectedException $e) { mark('go-' . $n); return [$taken, $e->getMessage()]; }
    }
}
function fill_and_go(string $n) {
    $filled = [];
    try { for (;;) { $filled[] = Svc\async(fn ($n, $i) => [until('full-' . $n), $i][1], $n, count($filled)); } } catch (Svc\Async\RejectedException) { }
    mark('full-' . $n);
    return Svc\await_all($filled) === range(0, count($filled) - 1);
}
function more(string $n) { return Svc\async(fn () => 'more')->await(); }
/** A cancelled task counts against the limit until it has left its thread. */
function holds(string $n) {
    $task = Svc\async(gate(...), $n)->detach();
    until('at-' . $n);
    return [$task->cancel(), strtok(tried(fn () => Svc\async(fn () => 1)), ':')];
}";

#[test]
fn a_full_queue_refuses_at_once_and_names_itself() {
    let server = TaskServer::new(CODE).set("ASYNC_WORKERS", "1").set("ASYNC_QUEUE_CAPACITY", "3");
    server.in_each_mode(|server| {
        let n = server.another().to_string();
        server.close_gate(&n);
        assert_eq!(server.send("block", &n).response().text(), "1");
        assert_like(&server.tell("fill"), r#"[3,"*ASYNC_QUEUE_CAPACITY*"]"#);
        server.open_gate(&n);
        let books = TaskAccounting::at_rest(&server.svc);
        assert_eq!((books.dispatched, books.rejected), (4.0, 1.0), "{books:?}");
        assert_eq!(server.tell("more"), r#""more""#);
    });
}

#[test]
fn the_queue_is_one_and_first_come_first_served() {
    let code = CODE.to_owned()
        + r"
        function in_order(string $n) {
            Svc\async(gate(...), $n)->detach();
            until('at-' . $n);
            $tasks = array_map(fn ($i) => Svc\async(fn ($n, $i) => mark('order-' . $n, (string) $i), $n, $i), range(1, 30));
            mark('queued-' . $n);
            Svc\await_all($tasks);
            return array_map(intval(...), file(DIR . '/order-' . $n)) === range(1, 30);
        }";
    let server = TaskServer::new(&code).set("ASYNC_WORKERS", "1");
    server.in_each_mode(|server| {
        let n = server.another().to_string();
        server.close_gate(&n);
        let mut in_order = server.send("in_order", &n);
        server.until(&format!("queued-{n}"));
        server.open_gate(&n);
        assert_eq!(in_order.response().text(), "true");
    });
    // All threads share the queue: an idle thread takes the next task while another one is blocked.
    server.set("ASYNC_WORKERS", "3").in_each_mode(|server| {
        let n = server.another().to_string();
        server.close_gate(&n);
        server.send("block", &n).response();
        for _ in 0..10 {
            assert_eq!(server.tell("more"), r#""more""#);
        }
        server.open_gate(&n);
    });
}

#[test]
fn the_cap_of_those_in_flight_refuses_at_once_and_names_itself() {
    let server = TaskServer::new(CODE).set("ASYNC_WORKERS", "2").set("ASYNC_MAX_FIBERS", "3");
    server.in_each_mode(|server| {
        assert_eq!(TaskAccounting::read(&server.svc).limit as u64, 6);
        assert_like(&server.tell("fill"), r#"[6,"*ASYNC_MAX_FIBERS*"]"#);
        let books = TaskAccounting::at_rest(&server.svc);
        assert_eq!((books.dispatched, books.rejected), (6.0, 1.0), "{books:?}");
        assert_eq!(server.tell("more"), r#""more""#, "their places are free again");
        assert_eq!(server.tell("fill_and_go"), "true", "what was taken ends well");
    });
}

#[test]
fn a_task_holds_its_place_until_it_has_left_its_thread() {
    let server = TaskServer::new(CODE).set("ASYNC_WORKERS", "1").set("ASYNC_MAX_FIBERS", "1");
    server.in_each_mode(|server| {
        let n = server.another().to_string();
        server.close_gate(&n);
        let text = server.send("holds", &n).response().text();
        assert_eq!(text, r#"[true,"Svc\\Async\\RejectedException"]"#);
        server.open_gate(&n);
        eventually("its place is free", || server.tell("more") == r#""more""#);
    });
}

#[test]
fn without_threads_the_functions_refuse_and_the_metrics_are_absent() {
    let code = r"
        function refused() { return Svc\async(fn () => 1); }
        function there() { return [function_exists('Svc\await_all'), function_exists('Svc\await_any'), function_exists('Svc\await_race'), class_exists('Svc\Task'), class_exists('Svc\Async\AggregateException')]; }";
    for mode in MODES {
        let server = TaskServer::new(code).set("ASYNC_WORKERS", "0").set("ASYNC_ENTRY_FILE", "").start(mode);
        assert_like(&server.tell("refused"), r"Svc\Async\RejectedException: *ASYNC_WORKERS*");
        assert_eq!(server.tell("there"), "[true,true,true,true,true]");
        assert!(!server.svc.ask("/metrics").text().contains("svc_async_"));
    }
}

#[test]
fn refusals_for_other_reasons_are_not_counted() {
    let code = r"
        function transfers() { return [strtok(tried(fn () => Svc\async(fn ($x) => 1, fopen('php://memory', 'r'))), ':'), Svc\async(fn () => 1)->await()]; }";
    let server = TaskServer::new(code).entry("mark('entry', tried(fn () => Svc\\async(fn () => 1)));");
    server.in_each_mode(|server| {
        assert_eq!(server.tell("transfers"), r#"["Svc\\Async\\TransferException",1]"#);
        assert!(!server.lines("entry").is_empty());
        let books = TaskAccounting::at_rest(&server.svc);
        assert_eq!((books.dispatched, books.rejected), (1.0, 0.0), "{books:?}");
    });
}
