//! Drives the interpreter without a server: one PHP, scripts on threads, and their output recorded.
//!
//! One test, because PHP starts once in a process and ends on the thread that started it.

use std::sync::{Arc, Mutex};

use svc_ffi::{Interpreter, Php, PhpOutcome, StartOptions};

use support::{NoRuntime, Recorder, Scripts, request, run};

#[expect(dead_code, reason = "each test file uses its part of the support")]
mod support;

#[test]
fn scripts_run_and_whatever_they_do_stays_theirs() {
    let scripts = Scripts::new("interpreter");
    let messages = Arc::new(Mutex::new(Vec::new()));
    let sink = Arc::clone(&messages);
    let php = Php::start::<NoRuntime>(StartOptions {
        ini_defaults: &[("display_errors", "0"), ("log_errors", "1"), ("variables_order", "GPCS")],
        ini_overrides: &[("memory_limit".into(), "32M".into()), ("hard_timeout".into(), "0".into())],
        environment: &[],
        command_line: None,
        superglobals: true,
        boots: false,
        hooks: &[],
        traces: false,
        reports_failures: false,
        clients: None,
        log: Box::new(move |log| {
            sink.lock().unwrap().push(String::from_utf8_lossy(log.message).into_owned());
        }),
        errors: Box::new(|_| {}),
        restarts: Box::new(|_| {}),
    })
    .unwrap();
    assert!(php.facts().zts && php.facts().max_execution_timers && !php.facts().zend_signals);
    assert!(php.facts().opcache_enabled, "OPcache is off; PHP said: {:?}", messages.lock().unwrap());

    let threads = php.threads();
    let scripts = &scripts;
    std::thread::scope(|scope| {
        let worker = std::thread::Builder::new().stack_size(8 << 20);
        let worker = worker.spawn_scoped(scope, || {
            let mut interpreter = threads.enter();
            limits_hold_from_the_first_request_on(&mut interpreter, scripts);
            says_what_it_should(&mut interpreter, scripts);
            ends_as_it_should(&mut interpreter, scripts);
            leaves_nothing_behind(&mut interpreter, scripts);
        });
        worker.unwrap().join().unwrap();
    });
}

fn limits_hold_from_the_first_request_on(php: &mut Interpreter, scripts: &Scripts) {
    let code = "register_shutdown_function(function () { while (true); }); set_time_limit(1); while (true);";
    for _ in 0..2 {
        let (outcome, said) = run(php, &request(&scripts.write("loop.php", code)));
        assert_eq!((outcome, said.finished), (PhpOutcome::TimeLimit, true));
        assert_eq!(said.logs.len(), 2, "the script and its shutdown function: {:?}", said.logs);
    }
}

fn says_what_it_should(php: &mut Interpreter, scripts: &Scripts) {
    let script = scripts.write(
        "say.php",
        r#"header('X-A: 1'); http_response_code(404);
        echo json_encode([PHP_SAPI, php_sapi_name(), $_GET, $_COOKIE, $_SERVER['SVC_TEST'], $_SERVER['PHP_AUTH_USER'],
            $_SERVER['REQUEST_TIME_FLOAT'], getallheaders(), svc_request_id(), getenv('SVC_TEST')]);"#,
    );
    let (outcome, said) = run(php, &request(&script));
    let text = String::from_utf8(said.output).unwrap();
    assert_eq!(outcome, PhpOutcome::Complete, "{text} {:?}", said.logs);
    assert_eq!(
        text,
        r#"["svc","svc",{"a":"1","b":["2"]},{"c":"3"},"a value","u",1.5,{"X-Test":"1"},"the-id","a value"]"#
    );
    let (status, lines) = said.head.unwrap();
    assert_eq!(status, 404);
    assert!(
        lines.contains(&"X-A: 1".to_owned())
            && lines.iter().any(|line| line.starts_with("Content-type: text/html"))
    );
}

fn ends_as_it_should(php: &mut Interpreter, scripts: &Scripts) {
    for (code, expected) in [
        ("echo 'a'; exit(3);", PhpOutcome::Complete),
        ("throw new Exception('uncaught');", PhpOutcome::Fatal),
        ("undefined_function();", PhpOutcome::Fatal),
        ("str_repeat('x', 100 << 20);", PhpOutcome::Fatal),
        ("function f() { f(); } f();", PhpOutcome::Fatal),
        ("set_time_limit(1); while (true);", PhpOutcome::TimeLimit),
        ("register_shutdown_function(fn() => undefined_function());", PhpOutcome::Fatal),
    ] {
        let script = scripts.write("end.php", code);
        let (outcome, said) = run(php, &request(&script));
        assert_eq!(outcome, expected, "{code} {:?}", said.logs);
        assert!(outcome == PhpOutcome::Complete || !said.logs.is_empty(), "{code} logged nothing");
    }
    let script = scripts.write("abort.php", "echo str_repeat('x', 100); flush(); echo 'never';");
    let mut recorder = Recorder { refuses: true, ..Recorder::default() };
    assert_eq!(php.run(&request(&script), &mut recorder), PhpOutcome::Aborted);
    let mut recorder = Recorder { panics: true, ..Recorder::default() };
    assert_eq!(php.run(&request(&script), &mut recorder), PhpOutcome::Fatal);
    let script =
        scripts.write("finish.php", "echo 'a'; fastcgi_finish_request(); echo 'b'; error_log('after');");
    let (outcome, said) = run(php, &request(&script));
    assert_eq!((outcome, said.finished, &said.output[..]), (PhpOutcome::Complete, true, &b"a"[..]));
    assert_eq!(said.logs, [("after".to_owned(), 1)]);
}

fn leaves_nothing_behind(php: &mut Interpreter, scripts: &Scripts) {
    let change = scripts.write(
        "change.php",
        "putenv('SVC_LEFT=1'); setlocale(LC_ALL, 'C.UTF-8'); chdir('/'); ini_set('memory_limit', '64M'); ob_start();
        umask(0); echo getenv('SVC_LEFT'), getenv()['SVC_LEFT'], trim(shell_exec('echo $SVC_LEFT')), setlocale(LC_ALL, 0);",
    );
    let (_, said) = run(php, &request(&change));
    assert_eq!(String::from_utf8(said.output).unwrap(), "111C.UTF-8");
    let look = scripts.write(
        "look.php",
        "echo json_encode([getenv('SVC_LEFT'), setlocale(LC_NUMERIC, 0), basename(getcwd()), ini_get('memory_limit'),
        ob_get_level(), error_get_last()]);",
    );
    let (_, said) = run(php, &request(&look));
    let text = String::from_utf8(said.output).unwrap();
    assert!(
        text.starts_with(r#"[false,"C","svc-interpreter-"#) && text.ends_with(r#","32M",0,null]"#),
        "{text}"
    );
}
