//! Calls in progress belong to the stack that makes them: a script's fiber is suspended inside a call, and then resumed,
//! thrown into, dropped or destroyed, by its request, by the next request, between requests, or with its thread. Afterwards
//! the server runs, and shared objects are usable.

use std::net::TcpListener;

use rustix::process::Signal;
use serde_json::{Value, json};

use svc_testing::client::eventually;
use svc_testing::databases::{self, Database, PASSWORD, USER};
use svc_testing::tasks::{Mode, TaskServer, TaskSvc};
use svc_testing::turns::server_with;

const CODE: &str = concat!(include_str!("../../php/ended_fibers.php"), include_str!("../../php/stacks.php"));

/// The calls of the next request after one has left its fibers.
const AFTERWARDS: [&str; 5] = ["next_resume", "next_throw", "next_drop", "next_cycle", "none"];

fn server(constants: &Value) -> TaskServer {
    server_with(CODE, constants).set("ASYNC_WORKERS", "1").entry("Held::open();")
}

/// Calls `function` with this argument.
#[track_caller]
fn tell(server: &TaskSvc, place: &str, function: &str, kind: &str) -> String {
    let path = format!("/?do={function}&n={kind}{place}");
    let response = server.svc.get(&path);
    assert_eq!(response.status, 200, "{path}: {}", response.text());
    response.text()
}

/// Calls a function that leaves fibers. Their end may fail the request, so any status will do.
fn leave(server: &TaskSvc, place: &str, function: &str, kind: &str) {
    let _ = server.svc.get(&format!("/?do={function}&n={kind}{place}"));
}

/// Leaves each kind of call in each way, and ends it in the next request in each way.
#[track_caller]
fn survives(server: &TaskSvc, place: &str, expected: &str) {
    let kinds: usize = tell(server, place, "count_calls", "").parse().unwrap();
    assert!(kinds > 0);
    let all: Vec<_> = (0..kinds).map(|kind| kind.to_string()).chain([String::new()]).collect();
    for kind in &all {
        for function in ["same_resume", "same_throw", "same_drop", "same_cycle"] {
            tell(server, place, function, kind);
            tell(server, place, "collect", "");
            assert_eq!(tell(server, place, "usable", ""), expected, "{function} {kind}");
        }
        for left in ["leave", "leave_resumed_once", "leave_garbage", "leave_in_trace"] {
            for next in AFTERWARDS {
                leave(server, place, left, kind);
                tell(server, place, next, "");
                tell(server, place, "next_drop", "");
                tell(server, place, "collect", "");
                assert_eq!(tell(server, place, "usable", ""), expected, "{left} {next} {kind}");
            }
        }
    }
}

/// Ends the thread while fibers are suspended: at SIGHUP, and at the end of the server.
fn ends_with_its_thread(server: &mut TaskSvc, place: &str, expected: &str) {
    leave(server, place, "leave", "");
    let boots = server.lines("booted").len();
    server.svc.signal(Signal::HUP);
    eventually("all threads have booted", || server.lines("booted").len() >= boots * 2);
    eventually("another thread serves", || tell(server, place, "usable", "") == expected);
    leave(server, place, "leave", "");
    server.svc.signal(Signal::TERM);
    assert_eq!(server.svc.wait(), Some(0));
}

const LOCAL: &str = "[3,false,3,100000]";

#[test]
fn a_suspended_call_may_end_in_any_request() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let server = server(&json!({"LISTENER": listener.local_addr().unwrap().to_string()}));
    for (mode, place) in [(Mode::Worker, ""), (Mode::Worker, "&task"), (Mode::Classic, "&task")] {
        println!("{mode:?} {place}");
        let boot = if mode == Mode::Worker { "Held::open();" } else { "" };
        let mut running = server.start_with(mode, boot);
        survives(&running, place, LOCAL);
        tell(&running, place, "crossed", "");
        assert_eq!(tell(&running, place, "usable", ""), LOCAL);
        ends_with_its_thread(&mut running, place, LOCAL);
    }
}

#[test]
fn it_may_end_with_a_request_of_classic_mode() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let server = server(&json!({"LISTENER": listener.local_addr().unwrap().to_string()}));
    let running = server.start_with(Mode::Classic, "Held::open();");
    for function in
        ["same_resume", "same_drop", "same_cycle", "leave", "leave_garbage", "leave_in_trace", "crossed"]
    {
        // PHP destroys the fibers at the end of the script, which may fail the script.
        let _ = running.svc.get(&format!("/?do={function}&n="));
        assert_eq!(tell(&running, "", "usable", ""), LOCAL);
    }
}

fn with_databases(test: impl Fn(&Database, TaskServer, &str)) {
    for database in [databases::mariadb(), databases::postgres()].into_iter().flatten() {
        println!("{}", database.dsn());
        database.query("CREATE TABLE money (amount INTEGER)");
        let constants = json!({"DSN": database.dsn(), "USER": USER, "PASSWORD": PASSWORD, "NAME": database.name(),
            "PORT": database.address().port()});
        test(&database, server(&constants), "[0,false,0]");
    }
}

#[test]
fn connections_to_servers_are_usable_after_it() {
    with_databases(|database, server, expected| {
        let mut running = server.start_with(Mode::Worker, "Held::open();");
        for place in ["", "&task"] {
            survives_on_servers(&running, place, expected);
        }
        assert_eq!(database.query("SELECT count(*) FROM money"), json!([[0]]));
        ends_with_its_thread(&mut running, "", expected);
    });
}

/// Checks one kind at a time: they use the same connections. The leftovers of a request are undone with it.
#[track_caller]
fn survives_on_servers(server: &TaskSvc, place: &str, expected: &str) {
    let kinds: usize = tell(server, place, "count_calls", "").parse().unwrap();
    for kind in 0..kinds {
        for left in
            ["same_resume", "same_drop", "leave", "leave_resumed_once", "leave_garbage", "leave_in_trace"]
        {
            for next in AFTERWARDS {
                leave(server, place, left, &kind.to_string());
                tell(server, place, next, "");
                assert_eq!(tell(server, place, "usable", ""), expected, "{left} {next} {kind}");
            }
        }
    }
}

/// With every kind of end, at every place.
#[test]
fn a_request_that_fails_leaves_its_calls_too() {
    let server = server(&json!({"LISTENER": ""})).start_with(Mode::Worker, "Held::open();");
    for (function, status) in
        [("leave_exit", 200), ("leave_fatal", 500), ("leave_limit", 504), ("fatal_inside", 500)]
    {
        for kind in ["", "0", "3", "5", "6", "8", "10"] {
            println!("{function} {kind}");
            // Ending the call makes SQLite3 throw, and the script does not catch that.
            let is_thrown = function == "leave_exit" && matches!(kind, "" | "10");
            let expected = if is_thrown { 500 } else { status };
            assert_eq!(server.svc.get(&format!("/?do={function}&n={kind}")).status, expected);
            tell(&server, "", "next_resume", "");
            assert_eq!(tell(&server, "", "usable", ""), LOCAL, "{function} {kind}");
        }
    }
}

/// The boot script creates the iterator and begins a step outside any request; a request ends both.
#[test]
fn an_iterator_of_the_boot_script_ends_in_a_request() {
    let boot = "Held::open(); \
        function rows() { foreach (Held::$pdo->query('SELECT a FROM t') as $row) { yield $row['a']; } } \
        Held::$db = rows(); Held::$db->current(); \
        Held::$fibers[] = new Fiber(function () { foreach (Held::$pdo->query('SELECT a FROM t', PDO::FETCH_CLASS, Row::class) as $row) { mark('row'); } }); \
        Held::$fibers[0]->start();";
    let code = "function go_on() { $rows = []; foreach (take() as $fiber) { while ($fiber->isSuspended()) { $fiber->resume(); } } while (Held::$db->valid()) { $rows[] = Held::$db->current(); Held::$db->next(); } Held::$db = null; return $rows; }";
    let server = server_with(&format!("{CODE}\n{code}"), &json!({})).entry("Held::open();");
    let running = server.start_with(Mode::Worker, boot);
    assert_eq!(running.tell("go_on"), "[1,2,3]");
    assert_eq!(running.lines("row").len(), 3);
    for _ in 0..20 {
        assert_eq!(tell(&running, "", "usable", ""), LOCAL);
    }
}
