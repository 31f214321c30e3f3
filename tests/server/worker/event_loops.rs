//! Event loops in PHP code: each request and each task is {main} to them, and has separate loops.

use svc_testing::Svc;
use svc_testing::client::{Client, eventually};

/// Loops that switch fibers like those of Revolt, Amp and React.
const LOOPS: &str = include_str!("../../php/event_loops.inc.php");

const CASES: &str = r#"<?php
require_once __DIR__ . '/event_loops.inc.php';
use Revolt\EventLoop;
use React\EventLoop\Loop;

final class Told { public static ?EventLoop\FiberLocal $local = null; }

function number(): string { return $_GET['n'] ?? $GLOBALS['number']; }

function loops(string $case, string $n): string
{
    switch ($case) {
        case 'current':
            try { Fiber::suspend(); } catch (FiberError) { return json_encode(Fiber::getCurrent()) . " $n"; }
            return 'suspended';
        case 'suspend':
            $suspension = EventLoop::getSuspension();
            EventLoop::delay(0.01, fn () => $suspension->resume(number()));
            return $suspension->suspend();
        case 'again':
            $seen = '';
            for ($i = 0; $i < 3; $i++) { Amp\delay(0.002); $seen = number(); }
            return $seen;
        case 'run':
            $seen = [];
            EventLoop::delay(0.01, function () use (&$seen) { $seen[] = number(); EventLoop::queue(function () use (&$seen) { $seen[] = number(); }); });
            EventLoop::run();
            return implode(' ', array_unique($seen));
        case 'futures':
            $one = fn () => Amp\async(function () { Amp\delay(0.005); return number(); });
            return implode(' ', array_unique(array_map(fn ($future) => $future->await(), [$one(), $one(), $one()])));
        case 'throws':
            try { Amp\async(fn () => Amp\delay(0.001) ?? throw new Exception(number()))->await(); } catch (Exception $e) { return $e->getMessage(); }
            return 'returned';
        case 'stream':
            [$left, $right] = stream_socket_pair(STREAM_PF_UNIX, STREAM_SOCK_STREAM, 0);
            $suspension = EventLoop::getSuspension();
            $id = EventLoop::onReadable($left, function () use ($left, $suspension, &$id) { EventLoop::cancel($id); $suspension->resume(fread($left, 100)); });
            EventLoop::delay(0.005, fn () => fwrite($right, number()));
            return $suspension->suspend();
        case 'local':
            Told::$local ??= new EventLoop\FiberLocal();
            $before = Told::$local->get();
            Told::$local->set($n);
            Amp\delay(0.01);
            return json_encode($before) . ' ' . Told::$local->get();
        case 'parks':
            // Not through the loop: the request gives up its thread in the middle of a callback.
            return Amp\async(function () { Svc\sleep(0.01); return number(); })->await();
        case 'await':
            return React\Async\await(fn ($resolve) => Loop::addTimer(0.01, fn () => $resolve(number())));
        case 'async':
            $seen = '';
            React\Async\async(function () use (&$seen) { $seen = React\Async\await(fn ($resolve) => Loop::addTimer(0.005, fn () => $resolve(number()))); });
            React\Async\await(fn ($resolve) => Loop::addTimer(0.02, fn () => $resolve(null)));
            return $seen;
        case 'fiber':
            $fiber = new Fiber(function () { $got = Fiber::suspend(number()); usleep(2000); return $got . json_encode(Fiber::getCurrent() instanceof Fiber); });
            $n = $fiber->start();
            $fiber->resume('');
            return $n . ($fiber->getReturn() === 'true' ? '' : ' no fiber');
        case 'repeats':
            EventLoop::delay(0, fn () => file_put_contents(__DIR__ . '/repeated', "$n\n", FILE_APPEND), 0.001);
            Amp\delay(0.01);
            return $n;
        case 'suspended':
            Amp\async(function () use ($n) { try { Amp\delay(60); } finally { file_put_contents(__DIR__ . '/finally', "$n\n", FILE_APPEND); } });
            Amp\delay(0.001);
            return $n;
    }
}

function answer(): void
{
    [, $where, $case] = explode('/', strtok($_SERVER['REQUEST_URI'], '?'));
    if ($where === 'end') {
        // React's loop runs at the end of the request, unless it has run before.
        Loop::addTimer(0.01, function () { echo number(); });
        return;
    }
    if ($where === 'task') {
        echo Svc\async(static function (string $case, string $n) { $GLOBALS['number'] = $n; return loops($case, $n); }, $case, number())->await();
        return;
    }
    echo loops($case, number());
}
"#;

const SAME: [&str; 10] =
    ["suspend", "again", "run", "futures", "throws", "stream", "parks", "await", "async", "fiber"];

const SERVE: &str = "<?php require __DIR__ . '/cases.inc.php'; Svc\\Worker::serve(answer(...));";
const FRANKENPHP: &str =
    "<?php require __DIR__ . '/cases.inc.php'; while (frankenphp_handle_request(answer(...))) { }";
const CLASSIC: &str = "<?php require __DIR__ . '/cases.inc.php'; answer();";

fn start(entry: &str, is_worker: bool, hooks: &str) -> Svc {
    let root = tempfile::tempdir().unwrap();
    let files =
        [("index.php", entry), ("cases.inc.php", CASES), ("event_loops.inc.php", LOOPS), ("boot.php", BOOT)];
    for (name, text) in files {
        std::fs::write(root.path().join(name), text).unwrap();
    }
    let paths = ["", "boot.php"].map(|name| root.path().join(name).to_str().unwrap().to_owned());
    let settings = [
        ("DOCUMENT_ROOT", paths[0].as_str()),
        ("ENTRY_FILE", "index.php"),
        ("PHP_WORKERS", "1"),
        ("WORKER_MODE_ENABLED", if is_worker { "true" } else { "false" }),
        ("RUNTIME_HOOKS", hooks),
        ("ASYNC_WORKERS", "1"),
        ("ASYNC_ENTRY_FILE", paths[1].as_str()),
    ];
    Svc::launch(root, &settings, &[])
}

/// The boot uses a loop that requests do not share.
const BOOT: &str = r"<?php
require_once __DIR__ . '/cases.inc.php';
Revolt\EventLoop::delay(0, fn () => file_put_contents(__DIR__ . '/boot-repeated', 'x', FILE_APPEND), 0.001);
Amp\delay(0.003);
React\Async\await(fn ($resolve) => React\EventLoop\Loop::addTimer(0.001, fn () => $resolve(null)));
unlink(__DIR__ . '/boot-repeated');
";

fn send(svc: &Svc, path: &str) -> Client {
    let mut client = svc.client();
    client.send(format!("GET {path} HTTP/1.1\r\nHost: x\r\n\r\n"));
    client
}

/// Sends all kinds of requests at once, several times: `n` differs for each.
fn all_answer_for_themselves(svc: &Svc, kind: &str) {
    let mut number = 0;
    // With a loop of the script's own, static properties last from request to request.
    let is_shared = kind == "frankenphp";
    for round in 0..3 {
        let mut sent = Vec::new();
        for place in ["request", "task"] {
            for case in SAME.into_iter().chain(["current", "local"]) {
                number += 1;
                let own = format!("{number}");
                let expected = match case {
                    "current" | "local" => format!("null {own}"),
                    _ => own.clone(),
                };
                if case == "local" && place == "request" && is_shared {
                    continue;
                }
                sent.push((
                    send(svc, &format!("/{place}/{case}?n={own}")),
                    expected,
                    format!("{place} {case}"),
                ));
            }
        }
        if !is_shared {
            number += 1;
            sent.push((send(svc, &format!("/end/x?n={number}")), number.to_string(), "end".to_owned()));
        }
        for (mut client, expected, what) in sent {
            let response = client.response();
            assert_eq!((response.status, response.text()), (200, expected), "{kind}, round {round}: {what}");
        }
    }
    assert!(
        !svc.root().join("boot-repeated").exists(),
        "{kind}: a request runs what the boot script has left"
    );
}

#[test]
fn a_request_and_a_task_are_outside_of_a_fiber_to_event_loops() {
    let modes = [("serve", SERVE, true), ("frankenphp", FRANKENPHP, true), ("classic", CLASSIC, false)];
    for (kind, entry, is_worker) in modes {
        for hooks in ["none", "all"] {
            let svc = start(entry, is_worker, hooks);
            all_answer_for_themselves(&svc, kind);
        }
    }
}

#[test]
fn a_boot_script_has_separate_loops() {
    let entry = r"<?php require __DIR__ . '/boot.php';
        $driver = Revolt\EventLoop::getDriver();
        Svc\Worker::serve(function () {
            if ($_GET['n'] === 'last') { Svc\Worker::current()->scheduleExit(); }
            answer();
        });
        Amp\delay(0.003);
        file_put_contents(__DIR__ . '/after', json_encode([$driver === Revolt\EventLoop::getDriver(), file_exists(__DIR__ . '/boot-repeated')]));
        unlink(__DIR__ . '/boot-repeated');";
    let svc = start(entry, true, "all");
    all_answer_for_themselves(&svc, "boot");
    assert_eq!(svc.get("/request/suspend?n=last").text(), "last");
    let after = svc.root().join("after");
    eventually("the script continues", || {
        std::fs::read_to_string(&after).is_ok_and(|text| text == "[true,true]")
    });
}

#[test]
fn objects_in_the_loop_of_a_request_end_with_it() {
    let svc = start(SERVE, true, "all");
    for place in ["request", "task"] {
        for n in 0..3 {
            assert_eq!(svc.get(&format!("/{place}/suspended?n={n}")).text(), n.to_string());
        }
        // Without another request.
        let ended = svc.root().join("finally");
        eventually("they end", || std::fs::read_to_string(&ended).is_ok_and(|text| text == "0\n1\n2\n"));
        std::fs::remove_file(&ended).unwrap();
        assert_eq!(svc.get(&format!("/{place}/repeats?n=3")).text(), "3");
        let repeated = svc.root().join("repeated");
        std::fs::remove_file(&repeated).unwrap();
        assert_eq!(svc.get(&format!("/{place}/run?n=4")).text(), "4");
        assert!(!repeated.exists(), "{place}: it has run the timer of another one");
    }
}

#[test]
fn a_fatal_error_in_a_loop_ends_its_request_alone() {
    let entry = r"<?php require __DIR__ . '/cases.inc.php';
        Svc\Worker::serve(function () {
            if (isset($_GET['fatal'])) {
                Amp\async(function () { Amp\delay(0.005); if ($_GET['fatal'] === 'exit') { exit('left'); } str_repeat('x', PHP_INT_MAX >> 8); });
                Amp\delay(60);
            }
            answer();
        });";
    let svc = start(entry, true, "all");
    for n in 0..3 {
        let mut exits = send(&svc, "/request/run?fatal=exit&n=x");
        let mut fails = send(&svc, "/request/run?fatal=memory&n=x");
        let mut beside: Vec<_> = SAME.map(|case| send(&svc, &format!("/request/{case}?n={n}"))).into();
        assert_eq!(exits.response().text(), "left");
        assert_eq!(fails.response().status, 500);
        for client in &mut beside {
            assert_eq!(client.response().text(), n.to_string());
        }
    }
}
