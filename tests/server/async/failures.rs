//! How tasks can fail, and the exceptions that their awaiters get.

use svc_testing::client::eventually;
use svc_testing::tasks::{MODES, TaskServer, assert_laws, assert_like, everywhere};

const CODE: &str = r"
class Known extends DomainException { public function __construct(string $message, int $code = 0, ?Throwable $previous = null, public array $data = []) { parent::__construct($message, $code, $previous); } }
class Textual extends RuntimeException { public function __construct() { parent::__construct('sql'); $this->code = 'HY000'; } }
class Holding extends RuntimeException { public $held; public function __construct(string $message, ?Throwable $previous = null) { parent::__construct($message, 0, $previous); $this->held = fn () => 1; } }
function rejected(string $n): int { return Svc\async(fn () => 5)->await(); }
class Destructs extends Exception { public function __destruct() { mark('destructed'); } }
function fails(string $password, int $depth = 3): never { if ($depth) { fails($password, $depth - 1); } throw new Known('no entry', 42); }
function endless() { return endless() + 1; }
function nests(int $n) { return array_map(nests(...), [$n + 1]); }
/** The failure as the awaiter sees it: class, message and code, of each exception in the chain. */
function learnt(Svc\Task $task): array
{
    try { return ['returned', $task->await()]; } catch (Svc\Async\TaskException $e) {
        $learnt = [$e->getTaskClass(), $e->getMessage(), $e->getCode()];
        for ($previous = $e->getPrevious(); $previous; $previous = $previous->getPrevious()) { $learnt[] = $previous::class . ':' . $previous->getMessage(); }
        return $learnt;
    }
}
";

#[test]
fn an_exception_arrives_with_its_class_its_code_and_its_chain() {
    let cases = [
        (r"return learnt(Svc\async(fn () => throw new Known('no', 7)));", r#"["Known","no",7,"Known:no"]"#),
        (
            r"return learnt(Svc\async(fn () => throw new Known('no', 0, new LogicException('before', 1, new Exception('first')))));",
            r#"["Known","no",0,"Known:no","LogicException:before","Exception:first"]"#,
        ),
        (
            r"return learnt(Svc\async(fn () => intdiv(1, 0)));",
            r#"["DivisionByZeroError","Division by zero",0,"DivisionByZeroError:Division by zero"]"#,
        ),
        (
            r"return learnt(Svc\async(fn () => nowhere()));",
            r#"["Error","Call to undefined function nowhere()",0,"Error:Call to undefined function nowhere()"]"#,
        ),
        (
            r"return learnt(Svc\async(fn () => throw new ErrorException('e', 3, E_WARNING)));",
            r#"["ErrorException","e",3,"ErrorException:e"]"#,
        ),
        // A code that is not an integer becomes 0.
        (
            r"return array_slice(learnt(Svc\async(fn () => throw new Textual)), 0, 3);",
            r#"["Textual","sql",0]"#,
        ),
        // Its properties are transferred with it.
        (
            r"try { Svc\async(fn () => throw new Known('no', 0, null, ['k' => [1]]))->await(); } catch (Svc\Async\TaskException $e) { return $e->getPrevious()->data; }",
            r#"{"k":[1]}"#,
        ),
        // The chain is transferred as a whole or not at all.
        (r"return learnt(Svc\async(fn () => throw new Holding('holds')));", r#"["Holding","holds",0]"#),
        (
            r"return learnt(Svc\async(fn () => throw new Known('over', 2, new Holding('holds'))));",
            r#"["Known","over",2]"#,
        ),
        // The failure of a task inside a task.
        (
            r"return learnt(Svc\async(fn () => Svc\async(fn () => throw new Known('deep', 9))->await()));",
            r#"["Svc\\Async\\TaskException","deep",9,*]"#,
        ),
        // A caught exception is not reported.
        (
            r"return Svc\async(function () { try { fails('x'); } catch (Known $e) { return $e->getMessage(); } })->await();",
            r#""no entry""#,
        ),
    ];
    everywhere(&TaskServer::new(CODE), &cases);
}

#[test]
fn its_trace_has_no_arguments() {
    let cases = [
        (
            r"try { Svc\async(fails(...), 'hunter2')->await(); } catch (Svc\Async\TaskException $e) {
             return [substr_count($e->getTaskTrace(), 'fails('), str_contains($e->getTaskTrace(), 'hunter2'), str_contains((string) $e, 'hunter2'), str_contains($e->getTaskTrace(), 'tasks.php')]; }",
            "[4,false,false,true]",
        ),
        (
            r"try { Svc\async(fails(...), 'hunter2')->await(); } catch (Svc\Async\TaskException $e) { return str_contains(print_r($e->getPrevious()->getTrace(), true), 'hunter2'); }",
            "false",
        ),
    ];
    let server = TaskServer::new(CODE);
    everywhere(&server, &cases);
    everywhere(&server.directive("zend.exception_ignore_args=0"), &cases);
}

#[test]
fn a_class_that_the_requester_does_not_know_is_a_name() {
    let server = TaskServer::new(CODE)
        .file("there.php", "<?php class Unknown extends Exception { } function strange() { throw new Unknown('who', 5); } function strange_before() { throw new Known('over', 6, new Unknown('who')); }")
        .entry("require __DIR__ . '/there.php';");
    let boot = r"
        function strange_one() { return learnt(Svc\async(static fn () => strange())); }
        function strange_two() { return learnt(Svc\async(static fn () => strange_before())); }";
    for mode in MODES {
        let running = server.start_with(mode, boot);
        assert_eq!(running.tell("strange_one"), r#"["Unknown","who",5]"#);
        assert_eq!(running.tell("strange_two"), r#"["Known","over",6]"#);
        assert_laws(&running.svc);
    }
}

#[test]
fn exit_fails_the_task() {
    let cases = [
        (r"return Svc\async(fn () => exit)->await();", r"Svc\Async\TaskException: *exit*"),
        (r"return Svc\async(fn () => exit(3))->await();", r"Svc\Async\TaskException: *exit*"),
        (
            r"return Svc\async(function () { try { exit('text'); } catch (Throwable) { } finally { mark('finally'); } })->await();",
            r"Svc\Async\TaskException: *exit*",
        ),
        // The thread and its other tasks continue.
        (
            r"$waits = Svc\async(fn ($n) => [until($n), 'waited'][1], $n); tried(fn () => Svc\async(fn () => exit)->await()); mark($n); return $waits->await();",
            r#""waited""#,
        ),
    ];
    everywhere(&TaskServer::new(CODE).set("ASYNC_WORKERS", "1"), &cases);
}

/// Elsewhere, `exit(1)` without output runs the destructors of global objects; in a task these belong to the thread.
#[test]
fn exit_keeps_the_state_of_its_thread() {
    let held = "final class Held { public int $uses = 0; public function __destruct() { mark('held-destructed'); } } $held = new Held;";
    let server = TaskServer::new(CODE).set("ASYNC_WORKERS", "1").set("PHP_WORKERS", "1").entry(held);
    let code = r"$ends = tried(fn () => Svc\async(static function () { $GLOBALS['held']->uses++; exit(1); })->await());
                 return [$ends, Svc\async(static fn () => isset($GLOBALS['held']))->await(), marked('held-destructed')];";
    everywhere(&server, &[(code, r#"["Svc\\Async\\TaskException: *exit*",true,false]"#)]);
}

#[test]
fn an_entry_file_that_exits_with_a_failure_has_not_booted() {
    for mode in MODES {
        let running = TaskServer::new(CODE).entry("exit(1);").start(mode);
        let record = running.svc.log().expect("async worker failed to boot");
        assert_like(record["fields"]["reason"].as_str().unwrap(), "*exit(1)*");
        eventually("it is rejected", || running.tell("rejected").contains("RejectedException"));
        let running = TaskServer::new(CODE).entry("exit;").start(mode);
        assert_eq!(running.tell("rejected"), "5");
    }
}

/// Fatal errors. With a task inside a task, the outer one may run on the thread that ends, so only requests and tasks of
/// other threads call these functions.
#[test]
fn a_fatal_error_fails_the_task() {
    let code = CODE.to_owned()
        + r"
        function memory() { return Svc\async(fn () => strlen(str_repeat('x', PHP_INT_MAX >> 4)))->await(); }
        function filling() { return Svc\async(function () { for (;;) { $all[] = str_repeat('x', 1000); } })->await(); }
        function depth() { return Svc\async(endless(...))->await(); }
        function stack() { return learnt(Svc\async(nests(...), 0)); }
        function compile() { return Svc\async(fn () => eval('function strlen() { } '))->await(); }
        function user() { return Svc\async(fn () => @trigger_error('gone', E_USER_ERROR))->await(); }
        function after() { return Svc\async(fn () => 'after')->await(); }";
    let server = TaskServer::new(&code).directive("memory_limit=64M");
    server.in_each_mode(|running| {
        for (function, expected) in [
            ("memory", r"Svc\Async\TaskException: *Allowed memory size*"),
            ("filling", r"Svc\Async\TaskException: *Allowed memory size*"),
            ("depth", r"Svc\Async\TaskException: *"),
            ("stack", r#"["Error","Maximum call stack size*"#),
            ("compile", r"Svc\Async\TaskException: *redeclare*"),
            ("user", r"Svc\Async\TaskException: *gone*"),
        ] {
            assert_like(&running.tell(function), expected);
            eventually("another thread, or the same one anew, runs the next", || {
                running.tell("after") == r#""after""#
            });
        }
        assert_eq!(running.svc.ask("/readyz").status, 200);
    });
}

#[test]
fn the_time_limit_counts_from_the_start_of_the_task_and_waits_count() {
    let code = r"
        function loops() { return Svc\async(function () { set_time_limit(1); for (;;) { } })->await(); }
        function waits() { return Svc\async(function () { set_time_limit(1); never(); })->await(); }
        function catches() { return Svc\async(function () { set_time_limit(1); try { never(); } catch (Throwable $e) { mark('caught', $e::class); } return 'survived'; })->await(); }
        function own() { return Svc\async(fn () => ini_get('max_execution_time'))->await(); }";
    // The requester has a higher limit: it is blocked in classic mode.
    let server = TaskServer::new(code).directive("max_execution_time=30");
    server.in_each_mode(|running| {
        for function in ["loops", "waits", "catches"] {
            assert_like(&running.tell(function), r"Svc\Async\TaskException: *xecution time*");
        }
        eventually("the next has its own time", || running.tell("own") == r#""30""#);
    });
}

#[test]
fn the_time_limit_of_a_classic_request_ends_its_wait() {
    let code = r"function waits() { set_time_limit(1); register_shutdown_function(fn () => mark('ended')); Svc\async(never(...))->await(); mark('went-on'); }";
    let server = TaskServer::new(code);
    for mode in MODES {
        let running = server.start(mode);
        assert_eq!(running.send("waits", "0").response().status, 504, "{mode:?}");
        running.until("ended");
        assert!(!running.marked("went-on"));
        assert_laws(&running.svc);
    }
}

#[test]
fn unreported_failures_and_messages_are_logged() {
    let code = r"
        function detached() { Svc\async(fn () => throw new DomainException('nobody hears this'))->detach(); return 1; }
        function awaited() { return tried(fn () => Svc\async(fn () => throw new DomainException('somebody hears this'))->await()); }
        function warns() { return Svc\async(fn () => [trigger_error('a warning of a task', E_USER_WARNING), error_log('a note of a task')])->await(); }";
    TaskServer::new(code).in_each_mode(|running| {
        let has = |text: &str| {
            let log = running.svc.log();
            let mut records = log.of("php").into_iter().chain(log.of("svc"));
            records.find(|record| record["fields"].to_string().contains(text))
        };
        running.tell("detached");
        eventually("its failure is logged", || has("nobody hears this").is_some());
        running.tell("awaited");
        running.tell("warns");
        eventually("the warning", || has("a warning of a task").is_some());
        eventually("the note", || has("a note of a task").is_some());
        assert!(has("somebody hears this").is_none(), "its awaiter has it");
    });
}

#[test]
fn all_have_failed_is_one_exception_with_each() {
    let cases = [
        (
            r"try { Svc\await_any(['a' => Svc\async(fn () => throw new Known('one')), 9 => Svc\async(fn () => throw new LogicException('two'))]); }
           catch (Svc\Async\AggregateException $e) { return array_map(fn ($error) => [$error->getTaskClass(), $error->getMessage()], $e->getErrors()); }",
            r#"{"a":["Known","one"],"9":["LogicException","two"]}"#,
        ),
        // In the order of the list, not of the failures.
        (
            r"try { Svc\await_any(['late' => Svc\async(fn ($n) => [until($n), throw new Exception('late')], $n), 'early' => Svc\async(fn ($n) => [mark($n), throw new Exception('early')], $n)]); }
           catch (Svc\Async\AggregateException $e) { return [array_keys($e->getErrors()), $e instanceof Svc\Async\Exception, strlen($e->getMessage()) > 0]; }",
            r#"[["late","early"],true,true]"#,
        ),
    ];
    everywhere(&TaskServer::new(CODE), &cases);
}
