//! Waiting for a set of descriptors, a time and completions, and wake-ups by other threads.
//!
//! An extension of the test calls the shim's functions for sets directly.

use std::process::Command;
use std::sync::OnceLock;

use rustix::process::Signal;

use svc_testing::client::{Client, eventually};
use svc_testing::{Svc, c};

const WORKER: &str = r#"<?php
const IN = 1, OUT = 4;
function open(): array
{
    $pair = stream_socket_pair(STREAM_PF_UNIX, STREAM_SOCK_STREAM, 0);
    array_map(fn ($end) => stream_set_blocking($end, false), $pair);
    return $pair;
}
function in_us(int $duration): int { return hrtime(true) + $duration * 1000; }
[$a, $b] = [open(), open()];
$jobs = array_map(fn () => test_make(), range(0, 7));
Svc\Worker::serve(function () use (&$a, &$b, &$jobs) {
    CASES
});"#;

/// Starts a server whose worker does what its requests ask for: `cases` are the cases of a `switch`.
fn start_with(cases: &str, settings: &[(&str, &str)]) -> Svc {
    static LIBRARY: OnceLock<String> = OnceLock::new();
    let extension = LIBRARY.get_or_init(|| {
        let library = std::env::temp_dir().join(format!("svc-completions-{}.so", std::process::id()));
        let defines = ["shim_host", "shim_park"].map(define).concat();
        c::extension(&(defines + include_str!("../../php/completions.c")), &library);
        format!("extension={}", library.display())
    });
    let script = WORKER.replace("CASES", &format!("switch ($_GET['do']) {{ case 'look': return; {cases} }}"));
    let worker = [("PHP_WORKERS", "1"), ("WORKER_MODE_ENABLED", "true"), ("ENTRY_FILE", "worker.php")];
    Svc::start_with(&[("worker.php", &script)], &[&worker, settings].concat(), &[extension])
}

fn start(cases: &str) -> Svc {
    start_with(cases, &[])
}

/// Returns the define for the address of a symbol that the server does not export.
fn define(name: &str) -> String {
    let symbols = Command::new("nm").arg(env!("CARGO_BIN_EXE_svc")).output().expect("nm is there").stdout;
    let symbols = String::from_utf8(symbols).unwrap();
    let line = symbols.lines().find(|line| line.ends_with(&format!(" {name}"))).expect(name);
    let address = line.split(' ').next().unwrap();
    format!("#define {} 0x{address}\n", name.to_uppercase())
}

fn tell(svc: &Svc, what: &str) -> String {
    let response = svc.get(&format!("/?do={what}"));
    assert_eq!(response.status, 200, "{what}: {}", response.text());
    response.text()
}

fn send(svc: &Svc, what: &str) -> Client {
    let mut client = svc.client();
    client.send(format!("GET /?do={what} HTTP/1.1\r\nHost: x\r\n\r\n"));
    client
}

const ACTIVE: &str = r#"svc_worker_request_fibers_active{worker="0"}"#;

/// Sends a request and asserts that it is the `count`th that waits.
fn waits(svc: &Svc, what: &str, count: f64) -> Client {
    let client = send(svc, what);
    tell(svc, "look");
    svc.assert_metric(ACTIVE, count);
    client
}

const SET: &str = r#"
    case 'wait':
        $timeout = isset($_GET['timeout']) ? (float) $_GET['timeout'] : null;
        echo json_encode(test_park([[$a[0], IN], [$b[0], IN]], $timeout, [$jobs[0][0], $jobs[1][0]]));
        return;
    case 'send':
        fwrite(${$_GET['to']}[1], 'x');
        return;
    case 'take':
        fread(${$_GET['from']}[0], 1);
        return;
    case 'complete':
        test_complete($jobs[$_GET['job']][1], '', isset($_GET['delay']) ? in_us($_GET['delay']) : 0);
        return;
    case 'renew':
        test_drop($jobs[$_GET['job']][0]);
        $jobs[$_GET['job']] = test_make();
        return;
    case 'close':
        fclose(${$_GET['which']}[0]);
        return;
"#;

#[test]
fn any_member_of_a_set_ends_the_wait_and_the_request_learns_which() {
    let svc = start(SET);
    let ends = [
        ("send&to=a", r#"["descriptor",0]"#, "take&from=a"),
        ("send&to=b", r#"["descriptor",1]"#, "take&from=b"),
        ("complete&job=1", r#"["completion",1]"#, "renew&job=1"),
        ("complete&job=0", r#"["completion",0]"#, "renew&job=0"),
        // While the thread sleeps: only the completion wakes it.
        ("complete&job=0&delay=50000", r#"["completion",0]"#, "renew&job=0"),
    ];
    for round in 0..3 {
        for (end, expected, after) in ends {
            let mut client = waits(&svc, "wait", 1.0);
            tell(&svc, end);
            assert_eq!(client.response().text(), expected, "{round}: {end}");
            tell(&svc, after);
        }
        assert_eq!(tell(&svc, "wait&timeout=0.01"), r#"["time",0]"#);
    }
    let mut client = waits(&svc, "wait", 1.0);
    tell(&svc, "close&which=b");
    assert_eq!(client.response().text(), r#"["close",1]"#);
    svc.assert_metric(ACTIVE, 0.0);
}

#[test]
fn members_that_are_ready_at_once_are_not_lost() {
    let svc = start(SET);
    for what in ["complete&job=1", "send&to=b", "send&to=a"] {
        tell(&svc, what);
    }
    assert_eq!(tell(&svc, "wait"), r#"["completion",1]"#);
    assert_eq!(tell(&svc, "wait"), r#"["completion",1]"#, "it stays complete");
    tell(&svc, "renew&job=1");
    let first = tell(&svc, "wait");
    let (first, second) = if first == r#"["descriptor",0]"# {
        ("a", r#"["descriptor",1]"#)
    } else {
        ("b", r#"["descriptor",0]"#)
    };
    tell(&svc, &format!("take&from={first}"));
    assert_eq!(tell(&svc, "wait"), second);
}

#[test]
fn a_request_that_has_given_up_waiting_is_not_woken() {
    let svc = start(SET);
    for _ in 0..3 {
        assert_eq!(tell(&svc, "wait&timeout=0.001"), r#"["time",0]"#);
        // The first wait is over, and the next one waits for the same completion.
        assert_eq!(tell(&svc, "wait&timeout=0.001"), r#"["time",0]"#);
        // No request waits for it when it completes; by then another wait has the number of this one.
        tell(&svc, "complete&job=0&delay=2000000");
        assert_eq!(tell(&svc, "wait&timeout=0.001"), r#"["time",0]"#);
        tell(&svc, "renew&job=0");
        let mut client = waits(&svc, "wait&timeout=60", 1.0);
        tell(&svc, "complete&job=1&delay=4000000");
        assert_eq!(client.response().text(), r#"["completion",1]"#);
        tell(&svc, "renew&job=1");
    }
}

#[test]
fn the_same_descriptor_in_a_set_twice_and_in_two_sets() {
    let svc = start(
        r"case 'twice':
            echo json_encode(test_park([[$a[0], IN], [$b[0], IN], [$a[0], IN]], null, []));
            return;
        case 'both':
            echo json_encode(test_park([[$a[0], IN], [$a[0], OUT]], null, []));
            return;
        case 'send':
            fwrite(${$_GET['to']}[1], 'x');
            return;
        case 'close':
            fclose($a[0]);
            return;",
    );
    let mut clients: Vec<_> = (1..=3).map(|count| waits(&svc, "twice", f64::from(count))).collect();
    assert_eq!(tell(&svc, "both"), r#"["descriptor",1]"#, "there is room to write");
    svc.assert_metric(ACTIVE, 3.0);
    tell(&svc, "send&to=a");
    for client in &mut clients {
        let text = client.response().text();
        assert!([r#"["descriptor",0]"#, r#"["descriptor",2]"#].contains(&text.as_str()), "{text}");
    }
    let svc = start(
        r"case 'twice':
            echo json_encode(test_park([[$a[0], IN], [$b[0], IN], [$a[0], IN]], null, []));
            return;
        case 'close':
            fclose($a[0]);
            return;",
    );
    let mut clients: Vec<_> = (1..=3).map(|count| waits(&svc, "twice", f64::from(count))).collect();
    tell(&svc, "close");
    for client in &mut clients {
        let text = client.response().text();
        assert!([r#"["close",0]"#, r#"["close",2]"#].contains(&text.as_str()), "{text}");
    }
    svc.assert_metric(ACTIVE, 0.0);
}

#[test]
fn members_that_cannot_be_waited_for_end_the_wait_at_once() {
    let svc = start(
        r"case 'file':
            // epoll does not accept files, which are always ready.
            echo json_encode(test_park([[$a[0], IN], [fopen(__FILE__, 'r'), IN]], 60.0, [$jobs[0][0]]));
            return;
        case 'closed':
            echo json_encode(test_park([[$a[0], IN], [1000, IN], [$b[0], IN]], 60.0, [$jobs[0][0]]));
            return;
        case 'negative':
            echo json_encode(test_park([[-1, IN], [$a[0], OUT]], 60.0, []));
            return;
        case 'empty':
            echo json_encode([test_park([], null, []), test_park([[-1, IN]], null, [])]);
            return;
        case 'time':
            echo json_encode(test_park([[-1, IN]], 0.001, []));
            return;
        case 'buffer':
            // In a place where the engine does not allow a switch.
            ob_start(function () use ($jobs) { return json_encode(test_park([], 60.0, [$jobs[0][0]])); });
            echo 'x';
            ob_end_flush();
            return;
        case 'complete':
            test_complete($jobs[0][1]);
            echo json_encode(test_is_complete($jobs[0][0]));
            return;",
    );
    for (what, expected) in [
        ("file", r#"["descriptor",1]"#),
        ("closed", r#"["close",1]"#),
        ("negative", r#"["descriptor",1]"#),
        ("empty", r#"[["never",0],["never",0]]"#),
        ("time", r#"["time",0]"#),
        ("buffer", r#"["never",0]"#),
        // No request is left waiting.
        ("complete", "true"),
    ] {
        assert_eq!(tell(&svc, what), expected, "{what}");
    }
    svc.assert_metric(ACTIVE, 0.0);
}

/// Requests that wait for completions, which come once the file `go` exists.
const ENDINGS: &str = r"
    case 'wait':
        echo json_encode(test_park([[$a[0], IN], [$b[0], IN]], null, [$jobs[$_GET['job']][0]]));
        return;
    case 'fiber':
        $fiber = new Fiber(function () use ($jobs) { return test_park([], null, [$jobs[1][0]]); });
        $fiber->start();
        echo json_encode($fiber->getReturn());
        return;
    case 'exit':
        test_park([[$a[0], IN]], null, [$jobs[2][0]]);
        exit('exited');
    case 'limit':
        set_time_limit(1);
        test_park([[$a[0], IN]], null, [$jobs[3][0]]);
        for (;;) { }
    case 'fatal':
        str_repeat('x', PHP_INT_MAX >> 4);
        return;
    case 'job':
        test_complete($jobs[$_GET['job']][1], __DIR__ . '/go');
        return;
    case 'leave':
        test_drop($jobs[$_GET['job']][0]);
        Svc\Worker::scheduleExit();
        return;
    case 'completed':
        echo test_completed();
        return;
";

fn go(svc: &Svc) {
    std::fs::write(svc.root().join("go"), "").unwrap();
}

fn fibers(svc: &Svc) -> f64 {
    let page = svc.ask("/metrics").text();
    let carried = page.lines().filter_map(|line| line.strip_prefix("svc_worker_request_fibers_active{"));
    carried.filter_map(|rest| rest.split(' ').next_back()?.parse::<f64>().ok()).sum()
}

#[test]
fn completing_is_safe_however_the_request_ends() {
    let mut svc = start(ENDINGS);
    for job in 0..5 {
        tell(&svc, &format!("job&job={job}"));
    }
    let mut waiting = waits(&svc, "wait&job=0", 1.0);
    let mut fiber = waits(&svc, "fiber", 2.0);
    let mut exits = waits(&svc, "exit", 3.0);
    let leaving = waits(&svc, "wait&job=4", 4.0);
    // The time limit ends the wait, and the completion comes later.
    assert_eq!(send(&svc, "limit").response().status, 504);
    // Its client leaves.
    drop(leaving);
    svc.assert_metric(r#"svc_request_cancelled_total{reason="client_abort"}"#, 1.0);
    // Beside them a request ends by a bailout.
    assert_eq!(send(&svc, "fatal").response().status, 500);
    go(&svc);
    assert_eq!(waiting.response().text(), r#"["completion",0]"#);
    assert_eq!(fiber.response().text(), r#"["completion",0]"#);
    assert_eq!(exits.response().text(), "exited");
    eventually("all continue, also the one without a client", || fibers(&svc) == 0.0);
    eventually("all jobs end", || tell(&svc, "completed") == "5");
    svc.stop();
}

#[test]
fn a_completion_outlives_the_thread_that_waited_for_it() {
    let mut svc = start(ENDINGS);
    for job in 0..2 {
        tell(&svc, &format!("job&job={job}"));
    }
    // One completion that was abandoned, and one that is never returned.
    tell(&svc, "leave&job=0");
    svc.assert_metric("svc_worker_recycles_by_reason_total{reason=\"scheduled\"}", 1.0);
    tell(&svc, "look");
    go(&svc);
    eventually("both end", || tell(&svc, "completed") == "2");
    svc.stop();
}

#[test]
fn the_drain_waits_for_completions_until_its_deadline() {
    let mut svc = start(ENDINGS);
    tell(&svc, "job&job=0");
    let mut waiting = waits(&svc, "wait&job=0", 1.0);
    svc.signal(Signal::TERM);
    eventually("it drains", || svc.ask("/readyz").status == 503);
    go(&svc);
    assert_eq!(waiting.response().text(), r#"["completion",0]"#);
    assert_eq!(svc.wait(), Some(0));

    let mut svc = start_with(ENDINGS, &[("DRAIN_TIMEOUT_SECONDS", "1")]);
    tell(&svc, "job&job=0");
    let _waiting = waits(&svc, "wait&job=0", 1.0);
    svc.signal(Signal::TERM);
    assert_eq!(svc.wait(), Some(0));
}

#[test]
fn threads_complete_while_requests_begin_to_wait_and_give_up() {
    let svc = start(
        r"case 'race':
            $seen = [];
            for ($i = 0; $i < 20; $i++) {
                $own = [test_make(), test_make(), test_make()];
                foreach ($own as $job) {
                    test_complete($job[1], '', in_us(random_int(1, 1500)));
                }
                [$why, $which] = test_park([[$a[0], IN]], random_int(1, 1500) / 1e6, array_column($own, 0));
                if ($why === 'completion' && !test_is_complete($own[$which][0])) {
                    $why = 'wrong';
                }
                $seen[$why] = true;
                if ($why === 'time') {
                    // Without a timeout, so that a lost wake-up is noticed.
                    $why = test_park([], null, [$own[0][0]])[0];
                    $seen[$why] = true;
                }
                array_map(test_drop(...), array_column($own, 0));
            }
            ksort($seen);
            echo json_encode(array_keys($seen));
            return;
        case 'completed':
            echo test_completed();
            return;",
    );
    let clients: Vec<_> = (0..48).map(|_| send(&svc, "race")).collect();
    for mut client in clients {
        let text = client.response().text();
        assert!([r#"["completion","time"]"#, r#"["completion"]"#].contains(&text.as_str()), "{text}");
    }
    eventually("all threads end", || tell(&svc, "completed") == (48 * 20 * 3).to_string());
    svc.assert_metric(ACTIVE, 0.0);
}

#[test]
fn a_completion_at_any_moment_of_a_wait_is_not_lost() {
    let svc = start(
        r"case 'wait':
            // With such a request, the worker checks epoll before it sleeps.
            test_park([[$a[0], IN]], null, []);
            return;
        case 'late':
            [$completion, $completer] = test_make();
            // The completing thread already runs when this request starts to wait.
            $moment = in_us(200);
            test_complete($completer, '', $moment + (int) $_GET['delay']);
            while (hrtime(true) < $moment) { }
            echo json_encode(test_park([], null, [$completion]));
            test_drop($completion);
            return;
        case 'send':
            fwrite($a[1], 'x');
            return;",
    );
    let mut waiting = waits(&svc, "wait", 1.0);
    let mut client = svc.client();
    for round in 0..1000 {
        // No other request can hide a lost wake-up.
        let text = client.get(&format!("/?do=late&delay={}", round % 200 * 100)).text();
        assert_eq!(text, r#"["completion",0]"#, "{round}");
    }
    tell(&svc, "send");
    assert_eq!(waiting.response().status, 200);
}
