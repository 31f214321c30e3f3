//! How scripts end: the response, the log and the metrics, and that the worker survives.

use serde_json::Value;

use svc_testing::client::{Response, eventually};
use svc_testing::tasks::{TaskServer, everywhere};
use svc_testing::{Svc, c};

const RUN: &str = "<?php eval(file_get_contents('php://input'));";

fn start(directives: &[&str]) -> Svc {
    // One worker: the next request meets everything that a request breaks.
    Svc::start_with(&[("index.php", RUN)], &[("PHP_WORKERS", "1")], directives)
}

fn run(svc: &Svc, code: &str) -> Response {
    svc.client().post("/", code.as_bytes())
}

fn is_well(svc: &Svc) {
    assert_eq!(run(svc, "echo 'alive';").text(), "alive");
    svc.assert_metric("svc_workers_current", 1.0);
    svc.assert_metric("svc_dropped_requests_total", 0.0);
}

/// Waits for PHP's record that contains `text`.
fn record(svc: &Svc, text: &str) -> Value {
    let find = || {
        let records = svc.log().of("php").into_iter();
        records
            .map(|record| record["fields"].clone())
            .find(|fields| fields["message"].as_str().unwrap().contains(text))
    };
    eventually(text, || find().is_some());
    find().unwrap()
}

#[test]
fn exit_is_a_good_end() {
    let svc = start(&[]);
    for code in [
        "echo 'a'; exit; echo 'b';",
        "exit('a');",
        "echo 'a'; exit(7);",
        "(function () { echo 'a'; die(); })();",
    ] {
        let response = run(&svc, code);
        assert_eq!((response.status, response.text().as_str()), (200, "a"), "{code}");
    }
    let response = run(&svc, "register_shutdown_function(function () { echo 'shut'; exit; }); exit('a');");
    assert_eq!((response.status, response.text().as_str()), (200, "ashut"));
    is_well(&svc);
}

#[test]
fn an_error_before_output_is_a_500_that_tells_nothing() {
    let svc = start(&[]);
    for code in [
        "throw new RuntimeException('secret');",
        "no_such_function_secret();",
        "ob_start(); echo 'partial'; throw new Error('secret');",
        "eval('secret secret');",
        "require '/nonexistent/secret';",
        "trigger_error('secret', E_USER_ERROR);",
        "class A { function __destruct() { throw new Exception('secret'); } } $a = new A; unset($a);",
        "interface I { function f(); } eval('class B implements I {}');",
    ] {
        let response = run(&svc, code);
        assert_eq!(response.status, 500, "{code}");
        assert!(!response.text().contains("secret"), "{code}: {}", response.text());
    }
    svc.assert_metric("svc_responses_by_status_total{status=\"5xx\"}", 8.0);
    is_well(&svc);
}

#[test]
fn an_error_can_be_shown_and_keeps_the_script_s_own_status() {
    let svc = start(&["display_errors=1", "html_errors=0"]);
    let response = run(&svc, "throw new RuntimeException('shown');");
    assert!(response.status == 500 && response.text().contains("shown"), "{response:?}");
    let response = run(&svc, "http_response_code(404); no_such_function();");
    assert!([404, 500].contains(&response.status));
    let response = run(
        &svc,
        "set_exception_handler(function ($e) { http_response_code(418); echo 'handled ', $e->getMessage(); }); throw new Exception('it');",
    );
    assert_eq!((response.status, response.text().as_str()), (418, "handled it"));
}

#[test]
fn an_error_after_output_breaks_the_response_off() {
    let svc = start(&["output_buffering=0"]);
    let response = run(&svc, "echo 'part'; flush(); no_such_function();");
    assert_eq!((response.status, response.text().as_str(), response.is_whole), (200, "part", false));
    let response = run(&svc, "header('Content-Length: 100'); echo 'part'; flush(); throw new Exception;");
    assert_eq!((response.text().as_str(), response.is_whole), ("part", false));
    is_well(&svc);
}

#[test]
fn the_memory_limit_ends_one_request_only() {
    let svc = start(&["memory_limit=16M"]);
    for code in [
        "str_repeat('x', 1 << 30);",
        "$a = []; while (true) { $a[] = str_repeat('x', 1000); }",
        "ini_set('memory_limit', '3M'); $a = range(1, 1 << 20);",
    ] {
        assert_eq!(run(&svc, code).status, 500, "{code}");
    }
    record(&svc, "Allowed memory size of 16777216 bytes exhausted");
    assert_eq!(
        run(&svc, "echo ini_get('memory_limit'), ' ', strlen(str_repeat('x', 8 << 20));").text(),
        "16M 8388608"
    );
    is_well(&svc);
}

#[test]
fn endless_recursion_ends_one_request_only() {
    let svc = start(&["memory_limit=2G"]);
    for code in [
        "function f() { f(); } f();",
        "function g(array $a) { array_map('g', [$a]); } g([]);",
        "class A { function __get($n) { return (new A)->{$n . 'x'}; } } echo (new A)->a;",
        "(new Fiber(function () { function h() { array_map('h', [1]); } h(); }))->start();",
        "$a = []; for ($i = 0; $i < 200000; $i++) { $a = [$a]; } function depth($a) { return 1 + array_reduce($a, fn ($c, $x) => max($c, depth($x)), 0); } echo depth($a);",
    ] {
        assert_eq!(run(&svc, code).status, 500, "{code}");
    }
    let caught = run(
        &svc,
        "function f() { array_map('f', [1]); } try { f(); } catch (Error $e) { echo substr($e->getMessage(), 0, 26); }",
    );
    assert_eq!(caught.text(), "Maximum call stack size of");
    is_well(&svc);
}

#[test]
fn a_script_beyond_its_time_is_a_504() {
    let svc = start(&["max_execution_time=1", "output_buffering=0"]);
    let root = svc.root().display();
    let response =
        run(&svc, &format!("register_shutdown_function(fn () => touch('{root}/shut')); while (true) {{}}"));
    assert_eq!(response.status, 504);
    eventually("shutdown functions run", || svc.root().join("shut").exists());
    let response = run(&svc, "echo 'part'; flush(); while (true) { strlen('x'); }");
    assert_eq!((response.status, response.text().as_str(), response.is_whole), (200, "part", false));
    svc.assert_metric("svc_request_cancelled_total{reason=\"timeout\"}", 1.0);
    assert_eq!(
        run(&svc, "set_time_limit(1); set_time_limit(0); echo ini_get('max_execution_time');").text(),
        "0"
    );
    assert_eq!(run(&svc, "echo ini_get('max_execution_time');").text(), "1");
    record(&svc, "Maximum execution time of 1 second exceeded");
    is_well(&svc);
}

#[test]
fn code_after_the_time_limit_is_limited_too() {
    let svc = start(&["max_execution_time=1"]);
    let response = run(&svc, "register_shutdown_function(function () { for (;;) {} }); for (;;) {}");
    assert_eq!(response.status, 504);
    is_well(&svc);
}

#[test]
fn a_script_can_shorten_its_time() {
    let svc = start(&[]);
    assert_eq!(run(&svc, "set_time_limit(1); for (;;) { hash('sha256', 'x'); }").status, 504);
    is_well(&svc);
}

/// A time limit in seconds that is far off when a script begins, and near before it ends.
const FAR: u32 = 8;

/// Starts a server whose worker the control thread has observed: from now on, a distant limit is not a kernel timer.
fn start_watched() -> Svc {
    let svc = start(&[&format!("max_execution_time={FAR}")]);
    assert_eq!(run(&svc, "set_time_limit(60); echo sleep(2);").text(), "0");
    svc
}

#[test]
fn a_limit_that_is_distant_at_first_ends_computing_scripts() {
    let svc = start_watched();
    assert_eq!(run(&svc, "for (;;) {}").status, 504);
    record(&svc, &format!("Maximum execution time of {FAR} seconds exceeded"));
    is_well(&svc);
}

#[test]
fn a_limit_that_is_distant_at_first_ends_sleeping_scripts() {
    let svc = start_watched();
    let root = svc.root().display();
    assert_eq!(run(&svc, &format!("sleep(60); touch('{root}/woke');")).status, 504);
    assert!(!svc.root().join("woke").exists());
    is_well(&svc);
}

#[test]
fn a_limit_that_came_near_is_nothing_to_the_next_request() {
    let svc = start_watched();
    // Ends when the kernel watches its limit already.
    assert_eq!(run(&svc, &format!("echo sleep({FAR} - 3);")).text(), "0");
    // Longer than the rest of the limit.
    assert_eq!(run(&svc, "set_time_limit(60); echo sleep(5);").text(), "0", "the sleep was interrupted");
    is_well(&svc);
}

#[test]
fn shutdown_functions_and_destructors_run_however_a_script_ends() {
    let svc = start(&["display_errors=0"]);
    let root = svc.root().display().to_string();
    for (name, end) in [
        ("end", ""),
        ("exit", "exit;"),
        ("uncaught", "throw new Exception;"),
        ("fatal", "str_repeat('x', PHP_INT_MAX >> 4);"),
    ] {
        let code = format!(
            "class Kept {{ function __destruct() {{ touch('{root}/{name}.destroyed'); }} }} $kept = new Kept;
            register_shutdown_function(function () {{ echo 'a'; register_shutdown_function(function () {{ touch('{root}/{name}.shut'); echo 'b'; }}); }}); {end}"
        );
        let response = run(&svc, &code);
        assert_eq!(response.status, if ["end", "exit"].contains(&name) { 200 } else { 500 }, "{name}");
        assert!(response.text().ends_with("ab"), "{name}: {}", response.text());
        assert!(svc.root().join(format!("{name}.shut")).exists(), "{name}");
        // After a fatal error PHP destroys no objects.
        assert_eq!(
            svc.root().join(format!("{name}.destroyed")).exists(),
            !["fatal"].contains(&name),
            "{name}"
        );
    }
    assert_eq!(run(&svc, "register_shutdown_function(fn () => no_such_function());").status, 500);
    let root = svc.root().display();
    assert_eq!(
        run(
            &svc,
            &format!(
                "class D {{ function __destruct() {{ touch('{root}/after'); }} }} $d = new D; echo 'x';"
            )
        )
        .text(),
        "x"
    );
    assert!(
        svc.root().join("after").exists(),
        "a fatal error of one request spoils the destructors of the next"
    );
    is_well(&svc);
}

/// Streams until the test stops it, after it has shown that it runs.
fn stream(svc: &Svc, more: &str) {
    let root = svc.root().display();
    let code = format!(
        "register_shutdown_function(fn () => file_put_contents('{root}/status', connection_status()));
        {more} echo 'first'; flush(); while (!file_exists('{root}/go')) {{ usleep(1000); clearstatcache(); }}
        for ($i = 0; $i < 1000; $i++) {{ echo str_repeat('x', 100000); flush(); }} touch('{root}/completed');"
    );
    let mut client = svc.client();
    client.send(format!("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: {}\r\n\r\n{code}", code.len()));
    assert_eq!(client.head_only().status, 200);
    assert_eq!(client.chunk().unwrap(), b"first");
    drop(client);
    std::fs::write(svc.root().join("go"), "").unwrap();
    let status = svc.root().join("status");
    eventually("the script has ended", || std::fs::read(&status).is_ok_and(|text| !text.is_empty()));
    assert_eq!(std::fs::read_to_string(status).unwrap(), "1", "connection_status() says aborted");
}

#[test]
fn a_write_after_the_client_left_ends_the_script() {
    let svc = start(&["output_buffering=0"]);
    stream(&svc, "");
    assert!(!svc.root().join("completed").exists());
    is_well(&svc);
    svc.assert_metric("svc_request_cancelled_total{reason=\"client_abort\"}", 0.0);
}

#[test]
fn a_script_may_ignore_that_the_client_left() {
    let svc = start(&["output_buffering=0"]);
    stream(&svc, "ignore_user_abort(true);");
    assert!(svc.root().join("completed").exists());
    assert_eq!(
        run(&svc, "echo ignore_user_abort(), connection_status();").text(),
        "00",
        "the next one is asked anew"
    );
    is_well(&svc);
}

#[test]
fn messages_of_php_are_records_with_level_file_and_line() {
    let script = "<?php
        error_log('said by error_log');
        trigger_error('a user warning', E_USER_WARNING);
        echo $undefined_variable;
        trigger_error('a notice', E_USER_NOTICE);
        echo svc_request_id();
        throw new LogicException('not caught');";
    let svc = Svc::start_with(&[("index.php", script)], &[], &["error_reporting=32767", "html_errors=0"]);
    let response = svc.client().request("GET / HTTP/1.1\r\nHost: x\r\nX-Request-ID: one-request");
    assert_eq!(response.status, 500);
    let file = svc.root().canonicalize().unwrap().join("index.php");
    for (text, level, line) in [
        ("said by error_log", "notice", 2),
        ("a user warning", "warning", 3),
        ("Undefined variable $undefined_variable", "warning", 4),
        ("a notice", "notice", 5),
        ("not caught", "error", 7),
    ] {
        let fields = record(&svc, text);
        assert_eq!(fields["php_level"], level, "{text}");
        assert_eq!(fields["line"], line, "{text}");
        assert_eq!(fields["file"], file.to_str().unwrap(), "{text}");
        assert_eq!(fields["request_id"], "one-request", "{text}");
    }
    let levels: Vec<_> = svc.log().of("php").iter().map(|record| record["level"].clone()).collect();
    assert_eq!(levels, ["INFO", "WARN", "WARN", "INFO", "ERROR"]);
}

#[test]
fn directives_are_computed_as_php_s_own_command_line_does() {
    let svc =
        start(&["error_reporting=E_ALL & ~E_NOTICE", "date.timezone=Europe/Berlin", "user_agent=a; b=c"]);
    let text = run(&svc, "echo error_reporting() === (E_ALL & ~E_NOTICE) ? 'computed' : error_reporting(), ' ', date_default_timezone_get(), ' ', ini_get('user_agent');").text();
    assert_eq!(text, "computed Europe/Berlin a; b=c");
}

#[test]
fn a_deprecated_directive_is_reported_and_does_not_stop_the_server() {
    // PHP warns once at its start, and once in each new thread, before that thread's first request.
    let svc = start(&["filter.default=special_chars", "error_reporting=32767"]);
    record(&svc, "filter.default");
    assert_eq!(run(&svc, "echo 'served';").text(), "served");
}

#[test]
fn an_error_that_a_debugger_shows_in_php_s_place_is_500_too() {
    let folder = tempfile::tempdir().unwrap();
    let library = folder.path().join("debugger.so");
    c::extension(include_str!("../../php/debugger.c"), &library);
    let svc = start(&[&format!("extension={}", library.display())]);
    for (code, shown) in [
        ("echo 'a'; nowhere();", "Uncaught Error"),
        ("echo 'a'; throw new Exception('b');", "Uncaught Exception"),
        ("ini_set('memory_limit', '8M'); str_repeat('x', 1 << 24);", "Allowed memory size"),
        ("eval('class A extends Iterator {}');", "cannot extend"),
        ("@trigger_error('c', E_USER_ERROR);", "c"),
    ] {
        let response = run(&svc, code);
        assert_eq!(response.status, 500, "{code}: {}", response.text());
        assert!(response.text().contains(shown), "{code}: {}", response.text());
        is_well(&svc);
    }
    for code in ["echo $undefined;", "set_error_handler(fn() => true); trigger_error('d', E_USER_ERROR);"] {
        assert_eq!(run(&svc, code).status, 200, "{code}");
    }
}

/// While a statement frees several suspended fibers, whose `finally` blocks throw, PHP would continue from an opcode of a
/// fiber.
#[test]
fn suspended_fibers_that_throw_when_they_are_freed_leave_memory_alone() {
    let code = r"
    function throws_at_its_end(): Fiber
    {
        $fiber = new Fiber(fn () => (function () { try { Fiber::suspend(); } finally { throw new Exception('end'); } })());
        $fiber->start();
        return $fiber;
    }
    function frees_three(): void
    {
        $kept = ['x' => [throws_at_its_end(), throws_at_its_end(), throws_at_its_end()]];
        foreach ($kept['x'] as $fiber) { $fiber->isSuspended(); }
        unset($kept['x']);
    }
    function allocates(): int
    {
        for ($i = 0; $i < 3000; $i++) { $texts[] = str_repeat('x', $i % 700); $objects[] = new stdClass; }
        return count($texts) + count($objects);
    }";
    let here = "try { frees_three(); } catch (Exception $e) { return [$e->getMessage(), allocates()]; }";
    let server = TaskServer::new(code);
    let freed = r#"["end",6000]"#;
    everywhere(&server, &[(here, freed), (here, freed)]);
}
