//! The runtime hook `sleep`: PHP's own pauses leave their thread to other requests.

use serde_json::json;

use svc_testing::Svc;
use svc_testing::client::eventually;
use svc_testing::tasks::{Mode, TaskServer, TaskSvc, assert_like};

const CODE: &str = r#"
const PAUSES = ['sleep', 'usleep', 'time_nanosleep', 'time_sleep_until'];
function pause(string $with): mixed
{
    return match ($with) {
        'sleep' => sleep(1),
        'usleep' => usleep(1000),
        'time_nanosleep' => time_nanosleep(0, 1000000),
        'time_sleep_until' => time_sleep_until(microtime(true) + 0.001),
    };
}
/** Pauses until the test marks its name. */
function pauses(string $n, string $with): mixed
{
    mark('in', $with);
    do { $result = pause($with); } while (!marked('go'));
    return $result;
}
function with_sleep($n) { return pauses($n, 'sleep'); }
function with_usleep($n) { return pauses($n, 'usleep'); }
function with_time_nanosleep($n) { return pauses($n, 'time_nanosleep'); }
function with_time_sleep_until($n) { return pauses($n, 'time_sleep_until'); }
/** PHP's results for arguments of all kinds. */
function arguments()
{
    $calls = [
        fn () => sleep(0), fn () => sleep(-1), fn () => sleep('x'), fn () => sleep(), fn () => sleep(1, 2),
        fn () => usleep(0), fn () => usleep(-1), fn () => usleep('7'), fn () => usleep([]),
        fn () => time_nanosleep(0, 0), fn () => time_nanosleep(-1, 0), fn () => time_nanosleep(0, -1),
        fn () => time_nanosleep(0, 1000000000), fn () => time_nanosleep(0, 1),
        fn () => @time_sleep_until(1), fn () => time_sleep_until('x'), fn () => @time_sleep_until(0.5),
    ];
    return array_map(tried(...), $calls);
}
function in_output_handler()
{
    ob_start(function (string $output) { usleep(1000); return strtoupper($output); });
    echo 'output';
    return ob_end_flush();
}
class Sleeper { public $self; function __destruct() { usleep(1000); mark('destroyed'); } }
function in_collector()
{
    $cycle = new Sleeper;
    $cycle->self = $cycle;
    unset($cycle);
    return gc_collect_cycles();
}
function in_autoloader()
{
    spl_autoload_register(function (string $class) { usleep(1000); eval("class $class {}"); });
    return (new Loaded)::class;
}
function over()
{
    register_shutdown_function(function () { mark('shutdown'); usleep(1000); mark('slept'); });
    set_time_limit(1);
    sleep(3600);
    mark('went on');
}
function cancelled()
{
    $task = Svc\async(function () {
        mark('task');
        try { sleep(3600); } catch (Svc\Async\CancelledException $e) { mark('caught'); sleep(3600); }
    })->detach();
    until('task');
    $cancelled = $task->cancel();
    until('caught');
    return $cancelled;
}
"#;

fn server() -> TaskServer {
    TaskServer::new(CODE).set("RUNTIME_HOOKS", "sleep").set("PHP_WORKERS", "1").set("ASYNC_WORKERS", "1")
}

fn blocked(server: &TaskSvc, reason: &str) -> f64 {
    server.svc.metric(&format!(r#"svc_hook_blocked_total{{hook="sleep",reason="{reason}"}}"#))
}

#[test]
fn one_thread_pauses_for_many_requests() {
    let server = server().start(Mode::Worker);
    let ways = [("sleep", "0"), ("usleep", "null"), ("time_nanosleep", "true"), ("time_sleep_until", "true")];
    let mut clients: Vec<_> = ways
        .iter()
        .flat_map(|(way, result)| (0..4).map(move |_| (way, result)))
        .map(|(way, result)| (server.send(&format!("with_{way}"), "1"), *result))
        .collect();
    eventually("all of them pause", || server.lines("in").len() == clients.len());
    assert_eq!(server.tell("strrev"), "\"1\"", "their thread serves others");
    server.mark("go");
    for (client, result) in &mut clients {
        assert_eq!(client.response().text(), **result);
    }
    assert!(!String::from_utf8(server.svc.ask("/metrics").body).unwrap().contains("svc_hook_blocked_total{"));
}

#[test]
fn tasks_pause_in_the_same_way() {
    let server = server().start(Mode::Classic);
    let clients: Vec<_> = (0..4)
        .map(|_| {
            let mut client = server.svc.client();
            client.send("GET /?do=with_usleep&task HTTP/1.1\r\nHost: x\r\n\r\n");
            client
        })
        .collect();
    // Classic mode itself blocks: one request at a time.
    eventually("the first one pauses", || !server.lines("in").is_empty());
    server.mark("go");
    for mut client in clients {
        assert_eq!(client.response().text(), "null");
    }
}

#[test]
fn arguments_have_the_meaning_of_php() {
    let plain = server().set("RUNTIME_HOOKS", "none").start(Mode::Worker).tell("arguments");
    let hooked = server().start(Mode::Worker);
    assert_eq!(hooked.tell("arguments"), plain);
    assert_eq!(hooked.tell_in_task("arguments"), plain);
    assert!(plain.contains("ValueError") && plain.contains("TypeError"), "{plain}");
}

#[test]
fn where_php_cannot_switch_the_thread_blocks_and_it_is_counted() {
    let server = server().start(Mode::Worker);
    for (function, answer, reason) in [
        ("in_output_handler", "OUTPUTtrue", "output_handler"),
        ("in_collector", "1", "gc"),
        ("in_autoloader", "\"Loaded\"", "loading"),
    ] {
        assert_eq!(server.tell(function), answer);
        assert_eq!(blocked(&server, reason), 1.0, "{function}");
    }
    assert!(server.marked("destroyed"));
}

#[test]
fn a_time_limit_ends_a_pause() {
    let server = server().start(Mode::Worker);
    let response = server.send("over", "1").response();
    assert_eq!(response.status, 504, "{}", response.text());
    server.until("slept");
    assert!(server.marked("shutdown") && !server.marked("went on"));
    assert_eq!(server.tell("strrev"), "\"1\"");
}

#[test]
fn a_cancelled_task_wakes_with_an_exception() {
    server().in_each_mode(|server| assert_eq!(server.tell("cancelled"), "true"));
}

#[test]
fn the_report_names_the_hooks_in_effect() {
    let hooks = |svc: &Svc| {
        let report: serde_json::Value = serde_json::from_slice(&svc.ask("/config").body).unwrap();
        report["runtime_hooks"].clone()
    };
    const IDLE: &str = "RUNTIME_HOOKS has no effect: neither WORKER_MODE_ENABLED nor ASYNC_WORKERS is set";
    let mut of_tasks = server().set("RUNTIME_HOOKS", "process,sleep").start(Mode::Classic);
    assert_eq!(hooks(&of_tasks.svc), json!(["sleep", "process"]));
    assert!(of_tasks.svc.whole_log().find(IDLE).is_none());
    let mut idle = Svc::start(&[("index.php", "<?php usleep(1); echo 'x';")], &[("RUNTIME_HOOKS", "all")]);
    assert_eq!((hooks(&idle), idle.get("/index.php").text()), (json!([]), "x".to_owned()));
    assert_eq!(idle.whole_log().expect(IDLE)["level"], "WARN");
    assert_like(
        &server().set("RUNTIME_HOOKS", "none").start(Mode::Worker).tell("in_autoloader"),
        "\"Loaded\"",
    );
}
