//! Garbage that requests leave: an idle worker collects it, so that no later request has to.

use rustix::process::Signal;

use svc_testing::client::eventually;
use svc_testing::tasks::{Mode, TaskServer, TaskSvc};

const CODE: &str = r#"
class Litter
{
    public $self;
    public function __construct(public string $name) { $this->self = $this; }
    public function __destruct() { echo 'printed'; $_SESSION['left'] = 1; mark('destructed', $this->name); }
}
function litter(string $n): bool { new Litter($n); return true; }
function collect(): array { $_SESSION = []; ob_start(); $count = gc_collect_cycles(); return [$count, ob_get_clean(), $_SESSION]; }
function answer_all(): void { while (frankenphp_handle_request(answer(...))) { } exit; }
"#;

#[test]
fn an_idle_worker_collects_the_garbage_of_requests() {
    for (boot, place) in [("", ""), ("answer_all();", ""), ("", "&task")] {
        let server = TaskServer::new(CODE).set("PHP_WORKERS", "1").set("ASYNC_WORKERS", "1");
        let server = server.start_with(Mode::Worker, boot);
        for n in 1..=3 {
            assert_eq!(server.tell(&format!("litter{place}")), "true");
            eventually("it is destructed without another request", || server.lines("destructed").len() == n);
            assert_eq!(server.tell(&format!("collect{place}")), r#"[0,"",[]]"#, "{boot}{place}");
        }
    }
}

const HEADERS: &str = r#"
class Sends
{
    public $self;
    public function __construct(public string $how) { $this->self = $this; }
    public function __destruct()
    {
        if ($this->how === 'session') {
            session_start();
            $_SESSION['left'] = 1;
        } else {
            foreach (['X-A: 1', 'X-A: 2', 'Content-Type: text/left', 'Location: /left'] as $line) { header($line); }
            setcookie('left', '1');
        }
        headers_list();
        mark('destructed');
    }
}
function sends(string $how): bool { new Sends($how); return true; }
function sent(): array { return [headers_list(), session_status()]; }
function answer_all(): void { while (frankenphp_handle_request(answer(...))) { } exit; }
"#;

#[test]
fn output_of_destructors_between_requests_is_discarded() {
    for (boot, place) in [("", ""), ("answer_all();", ""), ("", "&task")] {
        let server = TaskServer::new(HEADERS).set("PHP_WORKERS", "1").set("ASYNC_WORKERS", "1");
        let server = server.directive("session.use_cookies=1").start_with(Mode::Worker, boot);
        let before = server.tell(&format!("sent{place}"));
        for (n, how) in (1..).zip(["headers", "session", "headers", "session"]) {
            assert_eq!(ask(&server, "sends", how, place), "true");
            eventually("it is destructed between requests", || {
                server.tell(&format!("strrev{place}"));
                server.lines("destructed").len() == n
            });
            assert_eq!(server.tell(&format!("sent{place}")), before, "{boot}{place} {how}");
        }
    }
}

/// Where requests and tasks leave garbage: the boot script's own loop, and the kind of thread.
const PLACES: [(&str, &str); 3] = [("", ""), ("answer_all();", ""), ("", "&task")];

/// Each destructor of a cycle calls its function, and then reports it.
const CALLS: &str = r#"
class Held { public static $kept, $db; }
class Calls
{
    public $self;
    public function __construct(public string $function) { $this->self = $this; }
    public function __destruct() { $result = ($this->function)(); mark('called', $result ?? ''); }
}
function leave(string $function): bool { new Calls($function); return true; }
function answer_all(): void { while (frankenphp_handle_request(answer(...))) { } exit; }

function get_options() { getopt('a'); }
function compress() { ini_set('zlib.output_compression', '1'); }
function start_gzip() { ob_start('ob_gzhandler'); }
function input() { return json_encode([filter_input(INPUT_SERVER, 'REQUEST_URI'), filter_input(INPUT_GET, 'do')]); }

function open_session() { session_id('locked' . getmypid()); session_start(); $_SESSION['count'] = ($_SESSION['count'] ?? 0) + 1; }
function look_at_session() { session_id('locked' . getmypid()); session_start(); $count = $_SESSION['count'] ?? 0; session_write_close(); return $count; }

function open_database(): void { Held::$db = new PDO('sqlite:' . __DIR__ . '/garbage.db'); Held::$db->exec('CREATE TABLE IF NOT EXISTS t (a)'); }
function fail_in_transaction() { Held::$db->beginTransaction(); Held::$db->exec('INSERT INTO t VALUES (1)'); mark('called'); eval('function answer() {}'); }
function schedule_exit() { Svc\Worker::scheduleExit(); }
function look_at_database() { return [Held::$db->inTransaction(), (int) Held::$db->query('SELECT count(*) FROM t')->fetchColumn()]; }

function await_task() { try { return Svc\async(fn () => 7)->await(); } catch (Throwable $e) { return $e::class; } }
"#;

/// Has a request or task call `function` with `argument`.
#[track_caller]
fn ask(server: &TaskSvc, function: &str, argument: &str, place: &str) -> String {
    let response = server.svc.get(&format!("/?do={function}&n={argument}{place}"));
    assert_eq!(response.status, 200, "{function} {argument} {place}: {}", response.text());
    response.text()
}

/// Has a request or task leave garbage, and waits until its destructor was called, without another request.
fn leave(server: &TaskSvc, function: &str, place: &str, count: usize) {
    assert_eq!(ask(server, "leave", function, place), "true", "{function}{place}");
    eventually("its destructor was called", || server.lines("called").len() == count);
}

/// The functions read variables of the request, which do not exist there.
#[test]
fn destructors_between_requests_may_read_the_variables_of_a_request() {
    for (mode, boot, place) in PLACES.map(|(boot, place)| (Mode::Worker, boot, place)).into_iter().chain([(
        Mode::Classic,
        "",
        "&task",
    )]) {
        let server = TaskServer::new(CALLS).set("PHP_WORKERS", "1").set("ASYNC_WORKERS", "1");
        let server = server.start_with(mode, boot);
        for (n, function) in
            (1..).zip(["get_options", "compress", "start_gzip", "input", "input", "get_options"])
        {
            leave(&server, function, place, n);
            if function == "input" {
                assert_eq!(server.lines("called")[n - 1], "[null,null]", "{boot}{place}");
            }
            assert_eq!(ask(&server, "strrev", "ab", place), "\"ba\"", "{boot}{place} {function}");
        }
    }
}

#[test]
fn so_may_the_boot_script_between_requests_and_at_its_end() {
    for function in ["get_options", "compress", "start_gzip"] {
        for boot in [
            format!("while (frankenphp_handle_request(answer(...))) {{ {function}(); }} exit;"),
            format!("Svc\\Worker::serve(answer(...)); {function}(); exit;"),
            format!("Held::$kept = new Calls('{function}');"),
            format!("$seen = $_SERVER; Held::$kept = new Calls('{function}');"),
        ] {
            println!("{boot}");
            let server = TaskServer::new(CALLS).set("PHP_WORKERS", "1");
            let mut server = server.start_with(Mode::Worker, &boot);
            for _ in 0..2 {
                assert_eq!(ask(&server, "strrev", "ab", ""), "\"ba\"");
            }
            let spawned = server.svc.metric("svc_workers_spawned_total");
            server.svc.signal(Signal::HUP);
            eventually("the worker is replaced", || server.svc.metric("svc_workers_spawned_total") > spawned);
            assert_eq!(ask(&server, "strrev", "ab", ""), "\"ba\"");
            server.svc.stop();
        }
    }
}

#[test]
fn a_session_that_a_destructor_opens_between_requests_is_written_and_closed() {
    for (boot, place) in PLACES {
        let server = TaskServer::new(CALLS).set("PHP_WORKERS", "1").set("ASYNC_WORKERS", "1");
        let server = server.directive("session.use_cookies=0").start_with(Mode::Worker, boot);
        for n in 1..=3 {
            leave(&server, "open_session", place, n);
            assert_eq!(ask(&server, "look_at_session", "", place), n.to_string(), "{boot}{place}");
        }
    }
}

/// It accepts no more requests, and leaves nothing to the next worker.
#[test]
fn a_worker_that_fails_between_requests_is_replaced_at_once() {
    for hooks in ["all", "none"] {
        for (boot, function, reason) in [
            ("", "fail_in_transaction", "error"),
            ("answer_all();", "fail_in_transaction", "error"),
            ("", "schedule_exit", "scheduled"),
        ] {
            println!("{hooks} {boot} {function}");
            let server = TaskServer::new(CALLS).set("PHP_WORKERS", "1").set("RUNTIME_HOOKS", hooks);
            let server = server.start_with(Mode::Worker, &format!("open_database(); {boot}"));
            leave(&server, function, "", 1);
            let recycled = format!("svc_worker_recycles_by_reason_total{{reason=\"{reason}\"}}");
            eventually("it is replaced without another request", || server.svc.metric(&recycled) == 1.0);
            assert_eq!(server.tell("look_at_database"), "[false,0]");
            assert_eq!(server.svc.metric(&recycled), 1.0);
        }
    }
}

/// The only async thread cannot run a task that its own collection awaits.
#[test]
fn an_await_between_tasks_is_refused() {
    for mode in [Mode::Classic, Mode::Worker] {
        let server = TaskServer::new(CALLS).set("PHP_WORKERS", "1").set("ASYNC_WORKERS", "1");
        let server = server.start(mode);
        leave(&server, "await_task", "&task", 1);
        assert_eq!(server.lines("called"), ["Svc\\Async\\Exception"]);
        assert_eq!(ask(&server, "strrev", "ab", "&task"), "\"ba\"");
    }
}
