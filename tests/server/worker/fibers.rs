//! Concurrent requests: how scripts tell them apart, how they use their own fibers, and their wake-ups.

use std::time::{Duration, Instant};

use svc_testing::Svc;
use svc_testing::client::{Client, eventually};

const WORKER: &str = r#"<?php
$requests = new WeakMap();
$shared = null;
[$left, $right] = stream_socket_pair(STREAM_PF_UNIX, STREAM_SOCK_STREAM, 0);
Svc\Worker::serve(function () use ($requests, &$shared, &$left, &$right) {
    $own = Svc\Request::current();
    switch (ltrim(strtok($_SERVER['REQUEST_URI'], '?'), '/')) {
        case 'identity':
            $requests[$own] = $_GET['n'];
            Svc\sleep(0.05);
            echo json_encode([$requests[Svc\Request::current()] === $_GET['n'], Fiber::getCurrent()]);
            return;
        case 'own':
            // Fibers of the request: one yields, one waits, and the request waits inside it.
            $log = [];
            $first = new Fiber(function () use (&$log) {
                $log[] = 'first';
                $log[] = Fiber::suspend('yielded');
                Svc\sleep(0.05);
                $log[] = Fiber::getCurrent() !== null;
                return $_GET['n'];
            });
            $log[] = $first->start();
            $first->resume('resumed');
            echo json_encode([$log, $first->getReturn(), Fiber::getCurrent()]);
            return;
        case 'suspend':
            try {
                Fiber::suspend();
            } catch (FiberError $error) {
                echo $error->getMessage();
            }
            return;
        case 'hold':
            $shared = new Fiber(function () { Svc\sleep(0.3); });
            $shared->start();
            echo 'held';
            return;
        case 'disturb':
            try {
                $shared?->resume();
            } catch (FiberError $error) {
                echo $error->getMessage();
            }
            return;
        case 'wait':
            $began = microtime(true);
            $ready = Svc\wait_readable($left, isset($_GET['timeout']) ? (float) $_GET['timeout'] : null);
            echo json_encode([$ready, $ready ? fread($left, 100) : null, microtime(true) - $began < 5]);
            return;
        case 'write':
            fwrite($right, $_GET['text']);
            echo json_encode(Svc\wait_writable($right, 1));
            return;
        case 'close':
            fclose($left);
            [$left, $right] = stream_socket_pair(STREAM_PF_UNIX, STREAM_SOCK_STREAM, 0);
            return;
        case 'blocked':
            // An output callback cannot switch: the wait blocks.
            $began = hrtime(true);
            ob_start(function (string $text) { Svc\sleep(0.05); return $text; });
            echo 'x';
            ob_end_flush();
            echo hrtime(true) - $began >= 50_000_000 ? ' waited' : ' did not wait';
            return;
        case 'invalid':
            foreach ([fn () => Svc\sleep(-1), fn () => Svc\sleep(NAN), fn () => Svc\wait_readable($left, -1.0)] as $call) {
                try {
                    $call();
                    echo 'accepted ';
                } catch (ValueError) {
                    echo 'refused ';
                }
            }
            return;
        case 'ended':
            echo count($requests);
            return;
        case 'sleep':
            Svc\sleep((float) $_GET['s']);
            echo $_GET['n'];
            return;
        case 'serve':
            try {
                Svc\Worker::serve(fn () => null);
            } catch (Error $error) {
                echo $error->getMessage();
            }
            return;
    }
});"#;

fn start() -> Svc {
    let settings = [("PHP_WORKERS", "1"), ("WORKER_MODE_ENABLED", "true"), ("ENTRY_FILE", "worker.php")];
    Svc::start(&[("worker.php", WORKER)], &settings)
}

fn send(svc: &Svc, path: &str) -> Client {
    let mut client = svc.client();
    client.send(format!("GET {path} HTTP/1.1\r\nHost: x\r\n\r\n"));
    client
}

#[test]
fn each_request_has_an_identity_and_is_outside_of_a_fiber() {
    let svc = start();
    let mut clients: Vec<_> = (0..5).map(|n| send(&svc, &format!("/identity?n={n}"))).collect();
    for client in &mut clients {
        assert_eq!(client.response().text(), "[true,null]");
    }
    assert_eq!(svc.get("/ended").text(), "0", "and takes with it what is stored under it");
}

#[test]
fn requests_use_fibers_and_wait_in_them() {
    let svc = start();
    let mut clients: Vec<_> = (0..3).map(|n| send(&svc, &format!("/own?n={n}"))).collect();
    for (n, client) in clients.iter_mut().enumerate() {
        assert_eq!(client.response().text(), format!(r#"[["first","yielded","resumed",true],"{n}",null]"#));
    }
}

#[test]
fn a_waiting_fiber_cannot_be_switched_by_another_request() {
    let svc = start();
    let refused = svc.get("/suspend").text();
    assert!(refused.starts_with("Cannot suspend outside of"), "{refused}");
    let mut held = send(&svc, "/hold");
    eventually("another one is refused to resume it", || {
        svc.get("/disturb").text() == "Cannot resume a fiber that is not suspended"
    });
    assert_eq!(held.response().text(), "held");
    let refused = svc.get("/serve").text();
    assert!(refused.starts_with("Svc\\Worker::serve() can"), "{refused}");
}

#[test]
fn a_request_waits_for_a_stream() {
    let svc = start();
    assert_eq!(svc.get("/wait?timeout=0.02").text(), "[false,null,true]");
    let mut waits = send(&svc, "/wait");
    assert_eq!(svc.get("/write?text=hello").text(), "true");
    assert_eq!(waits.response().text(), r#"[true,"hello",true]"#);
    assert_eq!(svc.get("/write?text=there").text(), "true");
    assert_eq!(svc.get("/wait").text(), r#"[true,"there",true]"#, "it is there already");
    assert_eq!(svc.get("/invalid").text(), "refused refused refused ");
}

#[test]
fn a_waiting_request_notices_the_end_of_its_stream() {
    let svc = start();
    let carried = |count: f64| {
        eventually("so many wait", || svc.metric(r#"svc_worker_request_fibers_active{worker="0"}"#) == count);
    };
    let mut first = send(&svc, "/wait");
    carried(1.0);
    let mut second = send(&svc, "/wait?timeout=30");
    carried(2.0);
    svc.get("/close");
    assert_eq!(first.response().text(), "[false,null,true]", "another request has closed it");
    assert_eq!(second.response().text(), "[false,null,true]");
    // The next stream has the number of the closed one.
    let mut third = send(&svc, "/wait");
    carried(1.0);
    svc.get("/write?text=again");
    assert_eq!(third.response().text(), r#"[true,"again",true]"#);
}

#[test]
fn where_nothing_can_switch_it_blocks() {
    let svc = start();
    assert_eq!(svc.get("/blocked").text(), "x waited");
}

#[test]
fn all_due_requests_wake_up() {
    let svc = start();
    let began = Instant::now();
    let mut clients: Vec<_> = (0..200).map(|n| send(&svc, &format!("/sleep?s=0.3&n={n}"))).collect();
    for (n, client) in clients.iter_mut().enumerate() {
        assert_eq!(client.response().text(), n.to_string());
    }
    assert!(began.elapsed() < Duration::from_secs(5), "they slept at the same time");
    let mut late = send(&svc, "/sleep?s=0.3&n=late");
    let mut early = send(&svc, "/sleep?s=0.1&n=early");
    assert_eq!(early.response().text(), "early");
    assert_eq!(late.response().text(), "late");
}

/// The marks have names that svc does not serve.
const MATCHING: &str = r#"<?php
class Text
{
    public function __construct(private string $text, private ?Closure $before = null) {}

    public function __toString(): string
    {
        $this->before?->__invoke();
        return $this->text;
    }
}

function settle(Fiber $fiber): string
{
    while (!$fiber->isTerminated()) {
        $fiber->isStarted() ? $fiber->resume() : $fiber->start();
        Svc\sleep(0.05);
    }
    return $fiber->getReturn();
}

Svc\Worker::serve(function () {
    $path = $_SERVER['REQUEST_URI'];
    $inside = false;
    $tell = function () use (&$inside, $path): void {
        $inside || file_put_contents(__DIR__ . "$path.inside", "");
        $inside = true;
    };
    $wait = function () use ($tell): void {
        $tell();
        Svc\sleep(0.05);
    };
    $replace = function (array $match) use ($wait): string {
        $wait();
        return "<$match[1]>";
    };
    $large = '/' . str_repeat('(a)?', 40) . 'x/';
    switch ($path) {
        case '/large':
            echo preg_replace_callback($large, $replace, 'ax ax');
            return;
        case '/table':
            echo preg_replace_callback_array([$large => $replace], 'ax ax');
            return;
        case '/text':
            echo preg_replace_callback([new Text($large)], $replace, 'ax ax');
            return;
        case '/grep':
            echo implode(' ', preg_grep($large, [new Text('bx', $wait), new Text('ax', $wait), new Text('b', $wait)]));
            return;
        case '/fiber':
            $replace = function (array $match) use ($tell): string {
                $tell();
                Fiber::suspend();
                return "<$match[1]>";
            };
            echo settle(new Fiber(fn () => preg_replace_callback($large, $replace, 'ax ax')));
            return;
        case '/throw':
            try {
                preg_replace_callback($large, fn () => $wait() ?? throw new Exception('thrown'), 'ax ax');
            } catch (Exception $exception) {
                echo $exception->getMessage();
            }
            return;
        case '/exit':
            preg_replace_callback($large, fn () => $wait() ?? exit('left'), 'ax ax');
            return;
        case '/jump':
            preg_replace_callback($large, fn () => $wait() ?? eval('class Text {}'), 'ax ax');
            return;
        case '/small':
            echo preg_replace_callback('/b(.)/', $replace, 'b1 b2 b3 b4');
            return;
    }
    $tell();
    for ($i = 0; $i < 100; $i++) {
        preg_match('/(zz)(z)/', str_repeat(' ', 5000) . 'zzz', $match);
        Svc\sleep(0.002);
    }
    echo $match[2];
});"#;

#[test]
fn callbacks_of_replacements_may_wait_whatever_their_expressions() {
    let settings = [("PHP_WORKERS", "1"), ("WORKER_MODE_ENABLED", "true"), ("ENTRY_FILE", "worker.php")];
    let svc = Svc::start_with(&[("worker.php", MATCHING)], &settings, &[]);
    let replaced = [("large", "<a> <a>"), ("table", "<a> <a>"), ("text", "<a> <a>"), ("grep", "bx ax")];
    let left = [
        ("fiber", "<a> <a>"),
        ("throw", "thrown"),
        ("exit", "left"),
        ("jump", "500 Internal Server Error\n"),
    ];
    for (first, expected) in replaced.into_iter().chain(left) {
        // Each request is inside before the next one is sent.
        let mut clients = [first, "small", "match"].map(|path| {
            let mut client = svc.client();
            client.send(format!("GET /{path} HTTP/1.1\r\nHost: x\r\n\r\n"));
            let mark = svc.root().join(format!("{path}.inside"));
            eventually("it is inside", || std::fs::remove_file(&mark).is_ok());
            client
        });
        let texts = clients.each_mut().map(|client| client.response().text());
        assert_eq!(texts, [expected, "<1> <2> <3> <4>", "z"], "{first}");
    }
}

#[test]
fn a_fiber_that_waits_in_an_included_file_leaks_no_object() {
    let worker = r#"<?php
final class Told {
    public static int $gone = 0;
    public ?Told $self = null;
    public function __destruct() { self::$gone++; }
}
function included(Told $told, Closure $run) { include __DIR__ . '/run.inc'; }
function again(Told $told, Closure $run) { included($told, $run); }
Svc\Worker::serve(function () {
    $told = new Told();
    $told->self = $told;
    $fiber = new Fiber(again(...));
    $fiber->start($told, fn () => Fiber::suspend());
    // The fiber is garbage; the test's object was only its argument.
    $cycle = new stdClass();
    $cycle->fiber = [$fiber, $cycle];
    unset($cycle, $fiber);
    gc_collect_cycles();
    $before = Told::$gone;
    $told->self = null;
    unset($told);
    echo json_encode([$before, Told::$gone]);
    Told::$gone = 0;
});"#;
    let settings = [("PHP_WORKERS", "1"), ("WORKER_MODE_ENABLED", "true"), ("ENTRY_FILE", "worker.php")];
    let svc = Svc::start_with(&[("worker.php", worker), ("run.inc", "<?php $run();")], &settings, &[]);
    for _ in 0..3 {
        assert_eq!(svc.get("/").text(), "[0,1]");
    }
}
