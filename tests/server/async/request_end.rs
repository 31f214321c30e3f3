//! The end of a request with tasks: which are cancelled, which continue, in which order, and how long it can take.

use std::time::{Duration, Instant};

use svc_testing::client::eventually;
use svc_testing::tasks::{MODES, Mode, TaskAccounting, TaskServer, TaskSvc, assert_laws, assert_like};

const CODE: &str = r"
final class Ends { public function __construct(private Closure $then) { } public function __destruct() { ($this->then)(); } }
function order(string $n) {
    $task = Svc\async(function (string $n) { mark('in-' . $n); try { never(); } finally { mark('log-' . $n, 'cancelled'); } }, $n);
    until('in-' . $n);
    register_shutdown_function(function () use ($n, $task) { mark('log-' . $n, 'shutdown ' . json_encode($task->isSettled())); });
    $_SERVER['ends'] = new Ends(function () use ($n, $task) { mark('log-' . $n, 'destructor ' . json_encode($task->isSettled())); });
    return 'reply';
}
/** Shutdown functions and destructors can start and await tasks. */
function late(string $n) {
    register_shutdown_function(fn () => mark('log-' . $n, tried(fn () => Svc\async(fn () => 'in shutdown')->await())));
    $_SERVER['ends'] = new Ends(fn () => mark('log-' . $n, tried(fn () => Svc\async(fn () => 'in destructor')->await())));
    return 'reply';
}
function leaves(string $n) {
    for ($i = 0; $i < 3; $i++) { Svc\async(function (string $n) { mark('in-' . $n); try { never(); } finally { mark('log-' . $n, 'ended'); } }, $n); }
    while (count(@file(DIR . '/in-' . $n) ?: []) < 3) { Svc\sleep(0.001); }
    return 'reply';
}
function throws(string $n) { leaves($n); throw new Exception('the request fails'); }
function exits(string $n) { leaves($n); echo 'reply'; exit; }
function fatal(string $n) { leaves($n); str_repeat('x', PHP_INT_MAX >> 4); }
function limit(string $n) { leaves($n); set_time_limit(1); for (;;) { } }
function finishes(string $n) { leaves($n); echo 'early'; svc_finish_request(); until('go-' . $n); mark('log-' . $n, 'request'); }
function detaches(string $n) { Svc\async(function (string $n) { until('go-' . $n); mark('went-on-' . $n); }, $n)->detach(); return 'reply'; }
function keeps(string $n) { $GLOBALS['kept'] = [settled(Svc\async(fn () => 'settled')), Svc\async(never(...)), settled(Svc\async(fn () => throw new Exception('failed')))]; return 1; }
function looks(string $n) { return array_map(fn ($task) => tried(fn () => $task->await()), $GLOBALS['kept']); }
";

fn call(server: &TaskSvc, function: &str) -> (String, String) {
    let n = server.another().to_string();
    let text = server.send(function, &n).response().text();
    (n, text)
}

#[test]
fn undetached_tasks_end_with_their_request() {
    TaskServer::new(CODE).in_each_mode(|server| {
        for function in ["leaves", "throws&raw", "exits", "fatal&raw", "limit&raw"] {
            let (n, _) = call(server, function);
            eventually("all have ended", || server.lines(&format!("log-{n}")) == ["ended"; 3]);
        }
        let books = TaskAccounting::at_rest(&server.svc);
        assert_eq!((books.dispatched, books.cancelled), (15.0, 15.0), "{books:?}");
    });
}

#[test]
fn the_end_is_that_of_the_script_and_not_of_the_reply() {
    TaskServer::new(CODE).in_each_mode(|server| {
        let (n, text) = call(server, "finishes");
        assert_eq!(text, "early");
        assert_eq!(TaskAccounting::read(&server.svc).in_flight as u64, 3, "they go on while the script does");
        server.mark(&format!("go-{n}"));
        eventually("all have ended", || server.lines(&format!("log-{n}")).len() == 4);
        assert_eq!(server.lines(&format!("log-{n}")), ["request", "ended", "ended", "ended"]);
    });
}

#[test]
fn detached_tasks_go_on() {
    TaskServer::new(CODE).in_each_mode(|server| {
        let (n, text) = call(server, "detaches");
        assert_eq!(text, r#""reply""#);
        server.svc.assert_metric("svc_busy_workers", 0.0);
        assert_eq!(TaskAccounting::read(&server.svc).in_flight as u64, 1);
        server.mark(&format!("go-{n}"));
        server.until(&format!("went-on-{n}"));
        assert_eq!(TaskAccounting::at_rest(&server.svc).completed as u64, 1);
    });
}

#[test]
fn shutdown_functions_and_destructors_come_before_the_cancelling() {
    TaskServer::new(CODE).in_each_mode(|server| {
        let (n, text) = call(server, "order");
        assert_eq!(text, r#""reply""#);
        eventually("the task is cancelled", || server.lines(&format!("log-{n}")).len() == 3);
        assert_eq!(server.lines(&format!("log-{n}")), ["shutdown false", "destructor false", "cancelled"]);
        let (n, _) = call(server, "late");
        eventually("both have awaited theirs", || server.lines(&format!("log-{n}")).len() == 2);
        assert_eq!(server.lines(&format!("log-{n}")), [r#""in shutdown""#, r#""in destructor""#]);
    });
}

#[test]
fn no_task_begins_after_the_cancelling() {
    // Script code that runs when the request's resources are closed is the last to run.
    let code = r"
        final class Late {
            public $context;
            public function stream_open() { return true; }
            public function stream_close() { mark('late', tried(fn () => Svc\async(fn () => mark('ran')))); }
        }
        function opens() { stream_wrapper_register('late', Late::class); $GLOBALS['stream'] = fopen('late://x', 'r'); return 1; }";
    let server = TaskServer::new(code).start(Mode::Classic);
    server.tell("opens");
    server.until("late");
    eventually("the line is written", || !server.lines("late").is_empty());
    assert_like(&server.lines("late")[0], r"Svc\Async\*Exception: *");
    assert_laws(&server.svc);
    assert!(!server.marked("ran"));
}

#[test]
fn a_task_of_an_ended_request_gives_its_settled_answer() {
    let server = TaskServer::new(CODE).set("PHP_WORKERS", "1").start(Mode::Worker);
    server.tell("keeps");
    for _ in 0..2 {
        let expected =
            r#"["\"settled\"","Svc\\Async\\CancelledException: *","Svc\\Async\\TaskException: failed"]"#;
        assert_like(&server.tell("looks"), expected);
    }
    assert_laws(&server.svc);
}

#[test]
fn tasks_from_before_serve_belong_to_the_worker() {
    let boot = r"
        $booted = settled(Svc\async(fn () => 'at boot'));
        $running = Svc\async(function () { until('go'); return 'with the worker'; });
        function booted() { return $GLOBALS['booted']->await(); }
        function is_running() { return $GLOBALS['running']->isSettled(); }
        function running() { return $GLOBALS['running']->await(); }";
    let server = TaskServer::new(CODE).set("PHP_WORKERS", "1").start_with(Mode::Worker, boot);
    for _ in 0..3 {
        assert_eq!(server.tell("booted"), r#""at boot""#);
        assert_eq!(server.tell("is_running"), "false", "no request's end is its own");
    }
    let mut awaits = [server.send("running", "1"), server.send("running", "2")];
    server.mark("go");
    for client in &mut awaits {
        assert_eq!(client.response().text(), r#""with the worker""#);
    }
    assert_laws(&server.svc);
}

const STRANDED: &str = r"
/** Tasks inside C calls, and a race of tasks that is abandoned. */
function strands(string $n) {
    $gates = explode(',', $_GET['gates']);
    $tasks = [];
    foreach ($gates as $gate) { $tasks[] = Svc\async(gate(...), $gate); }
    foreach ($gates as $gate) { until('at-' . $gate); }
    return strtok(tried(fn () => Svc\await_race($tasks, 0.01)), ':');
}
function gives_up(string $n) {
    $begun = [Svc\async(fn ($n) => [mark('in-' . $n), never()], $n)];
    until('in-' . $n);
    $await = 'Svc\await_' . $_GET['how'];
    $given = tried(fn () => $await($begun, 0.01));
    return [strtok($given, ':'), strtok(tried(fn () => $await($begun, 0.01)), ':')];
}";

/// Returns a metric that shows that a request has not ended, although its response is sent.
fn inside(server: &TaskSvc, mode: Mode) -> f64 {
    match mode {
        Mode::Classic => server.svc.metric("svc_busy_workers"),
        Mode::Worker => server.svc.metric(r#"svc_worker_request_fibers_active{worker="0"}"#),
    }
}

#[test]
fn a_stranded_task_holds_up_the_end_of_its_request_but_neither_its_reply_nor_for_ever() {
    let server = TaskServer::new(STRANDED).set("PHP_WORKERS", "1");
    std::thread::scope(|scope| {
        for mode in MODES {
            let server = &server;
            scope.spawn(move || {
                let running = server.start(mode);
                running.close_gate("a");
                let reply = running.send("strands&gates=a", "0").response();
                assert_eq!(reply.text(), r#""Svc\\Async\\TimeoutException""#);
                assert_eq!(inside(&running, mode) as u64, 1, "{mode:?}: replied, and not ended");
                let books = TaskAccounting::read(&running.svc);
                assert_eq!((books.stranded, books.in_flight, books.cancelled), (1.0, 1.0, 0.0), "{books:?}");
                // The gate stays closed: the task does not end the wait.
                eventually("the request ends without it", || inside(&running, mode) == 0.0);
                assert_eq!(TaskAccounting::read(&running.svc).in_flight as u64, 1);
                running.open_gate("a");
                assert_laws(&running.svc);
                assert_eq!(TaskAccounting::read(&running.svc).stranded as u64, 1);
            });
        }
    });
}

#[test]
fn stranded_tasks_are_waited_for_together() {
    let server = TaskServer::new(STRANDED).set("ASYNC_WORKERS", "4").start(Mode::Classic);
    for gate in ["a", "b", "c"] {
        server.close_gate(gate);
    }
    let began = Instant::now();
    server.send("strands&gates=a,b,c", "three").response();
    assert_eq!(inside(&server, Mode::Classic) as u64, 1, "replied, and not ended");
    eventually("the request ends without them", || inside(&server, Mode::Classic) == 0.0);
    // In sequence they would take fifteen seconds.
    assert!(began.elapsed() < Duration::from_secs(13), "{:?}", began.elapsed());
    assert_eq!(TaskAccounting::read(&server.svc).stranded as u64, 3);
    for gate in ["a", "b", "c"] {
        server.open_gate(gate);
    }
    assert_laws(&server.svc);
}

#[test]
fn only_tasks_of_any_and_race_that_have_begun_are_stranded_and_once() {
    let queued = r"
        function queues(string $n) {
            Svc\async(gate(...), $_GET['gate'])->detach();
            until('at-' . $_GET['gate']);
            return strtok(tried(fn () => Svc\await_race([Svc\async(never(...))], 0.01)), ':');
        }";
    let server = TaskServer::new(&(STRANDED.to_owned() + queued)).set("ASYNC_WORKERS", "1");
    server.in_each_mode(|server| {
        let timeout = r#""Svc\\Async\\TimeoutException""#;
        for (how, stranded) in [("all", 0), ("any", 1), ("race", 2)] {
            let text = server.tell(&format!("gives_up&how={how}"));
            assert!(text.starts_with(&format!("[{timeout},")), "{text}");
            assert_eq!(TaskAccounting::at_rest(&server.svc).stranded as u64, stranded, "{how}");
        }
        server.close_gate("q");
        assert_eq!(server.tell("queues&gate=q"), timeout);
        assert_eq!(TaskAccounting::read(&server.svc).stranded as u64, 2, "it had not begun");
        server.open_gate("q");
    });
}
