//! The border, driven without a server: one PHP, scripts on threads, everything they say collected.
//!
//! One test, because PHP starts once in a process and ends on the thread that started it.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use svc_ffi::{Head, Host, Log, Outcome, Pairs, Php, Request, StartOptions};

#[derive(Default)]
struct Recorder {
    output: Vec<u8>,
    head: Option<(i32, Vec<String>)>,
    interim: Vec<i32>,
    body: Vec<u8>,
    logs: Vec<(String, u32)>,
    finished: bool,
    refuses: bool,
    panics: bool,
}

impl Host for Recorder {
    fn write(&mut self, output: &[u8]) -> bool {
        assert!(!self.panics, "as the test wants it");
        self.output.extend_from_slice(output);
        !self.refuses
    }
    fn flush(&mut self) -> bool {
        !self.refuses
    }
    fn send_head(&mut self, head: &Head<'_>) {
        let lines = head.lines.iter().map(|line| String::from_utf8_lossy(line).into_owned()).collect();
        self.head = Some((head.status, lines));
    }
    fn send_interim(&mut self, head: &Head<'_>) {
        self.interim.push(head.status);
    }
    fn finish(&mut self) {
        self.finished = true;
    }
    fn read_body(&mut self, buffer: &mut [u8]) -> usize {
        let count = buffer.len().min(self.body.len());
        buffer[..count].copy_from_slice(&self.body[..count]);
        self.body.drain(..count);
        count
    }
    fn variables(&mut self, out: &mut Pairs) {
        out.push(b"REQUEST_METHOD", b"GET");
        out.push(b"SVC_TEST", b"a value");
    }
    fn fields(&mut self, out: &mut Pairs) {
        out.push(b"X-Test", b"1");
    }
    fn request_id(&mut self) -> &[u8] {
        b"the-id"
    }
    fn log(&mut self, record: &Log<'_>) {
        self.logs.push((String::from_utf8_lossy(record.message).into_owned(), record.line));
    }
}

struct Scripts(PathBuf);

impl Scripts {
    fn write(&self, name: &str, code: &str) -> PathBuf {
        let path = self.0.join(name);
        fs::write(&path, format!("<?php {code}")).unwrap();
        path
    }
}

impl Drop for Scripts {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn request(script: &Path) -> Request<'_> {
    Request {
        method: b"GET",
        uri: b"/",
        query: b"a=1&b[]=2",
        content_type: None,
        cookies: Some(b"c=3"),
        authorization: b"Basic dTpw",
        script: script.as_os_str().as_encoded_bytes(),
        content_length: 0,
        protocol: 1001,
        time: 1.5,
    }
}

fn run(interpreter: &mut svc_ffi::Interpreter, script: &Path) -> (Outcome, Recorder) {
    let mut recorder = Recorder::default();
    let outcome = interpreter.run(&request(script), &mut recorder);
    (outcome, recorder)
}

#[test]
fn scripts_run_and_whatever_they_do_stays_theirs() {
    let scripts = Scripts(std::env::temp_dir().join(format!("svc-border-{}", std::process::id())));
    fs::create_dir_all(&scripts.0).unwrap();
    let messages = Arc::new(Mutex::new(Vec::new()));
    let sink = Arc::clone(&messages);
    let php = Php::start(StartOptions {
        ini_defaults: &[("display_errors", "0"), ("log_errors", "1"), ("variables_order", "GPCS")],
        ini_overrides: &[("memory_limit".into(), "32M".into()), ("hard_timeout".into(), "0".into())],
        log: Box::new(move |log| sink.lock().unwrap().push(String::from_utf8_lossy(log.message).into_owned())),
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
            says_what_it_should(&mut interpreter, scripts);
            ends_as_it_should(&mut interpreter, scripts);
            leaves_nothing_behind(&mut interpreter, scripts);
        });
        worker.unwrap().join().unwrap();
    });
}

fn says_what_it_should(php: &mut svc_ffi::Interpreter, scripts: &Scripts) {
    let script = scripts.write(
        "say.php",
        r#"header('X-A: 1'); http_response_code(404);
        echo json_encode([PHP_SAPI, php_sapi_name(), $_GET, $_COOKIE, $_SERVER['SVC_TEST'], $_SERVER['PHP_AUTH_USER'],
            $_SERVER['REQUEST_TIME_FLOAT'], getallheaders(), svc_request_id(), getenv('SVC_TEST')]);"#,
    );
    let (outcome, said) = run(php, &script);
    let text = String::from_utf8(said.output).unwrap();
    assert_eq!(outcome, Outcome::Complete, "{text} {:?}", said.logs);
    assert_eq!(
        text,
        r#"["svc","svc",{"a":"1","b":["2"]},{"c":"3"},"a value","u",1.5,{"X-Test":"1"},"the-id","a value"]"#
    );
    let (status, lines) = said.head.unwrap();
    assert_eq!(status, 404);
    assert!(lines.contains(&"X-A: 1".to_owned()) && lines.iter().any(|line| line.starts_with("Content-type: text/html")));
}

fn ends_as_it_should(php: &mut svc_ffi::Interpreter, scripts: &Scripts) {
    for (code, expected) in [
        ("echo 'a'; exit(3);", Outcome::Complete),
        ("throw new Exception('uncaught');", Outcome::Fatal),
        ("undefined_function();", Outcome::Fatal),
        ("str_repeat('x', 100 << 20);", Outcome::Fatal),
        ("function f() { f(); } f();", Outcome::Fatal),
        ("set_time_limit(1); while (true);", Outcome::TimeLimit),
        ("register_shutdown_function(fn() => undefined_function());", Outcome::Fatal),
    ] {
        let script = scripts.write("end.php", code);
        let (outcome, said) = run(php, &script);
        assert_eq!(outcome, expected, "{code} {:?}", said.logs);
        assert!(outcome == Outcome::Complete || !said.logs.is_empty(), "{code} logged nothing");
    }
    let script = scripts.write("abort.php", "echo str_repeat('x', 100); flush(); echo 'never';");
    let mut recorder = Recorder { refuses: true, ..Recorder::default() };
    assert_eq!(php.run(&request(&script), &mut recorder), Outcome::Aborted);
    let mut recorder = Recorder { panics: true, ..Recorder::default() };
    assert_eq!(php.run(&request(&script), &mut recorder), Outcome::Fatal);
    let script = scripts.write("finish.php", "echo 'a'; fastcgi_finish_request(); echo 'b'; error_log('after');");
    let (outcome, said) = run(php, &script);
    assert_eq!((outcome, said.finished, &said.output[..]), (Outcome::Complete, true, &b"a"[..]));
    assert_eq!(said.logs, [("after".to_owned(), 1)]);
}

fn leaves_nothing_behind(php: &mut svc_ffi::Interpreter, scripts: &Scripts) {
    let change = scripts.write(
        "change.php",
        "putenv('SVC_LEFT=1'); setlocale(LC_ALL, 'C.UTF-8'); chdir('/'); ini_set('memory_limit', '64M'); ob_start();
        umask(0); echo getenv('SVC_LEFT'), getenv()['SVC_LEFT'], trim(shell_exec('echo $SVC_LEFT')), setlocale(LC_ALL, 0);",
    );
    let (_, said) = run(php, &change);
    assert_eq!(String::from_utf8(said.output).unwrap(), "111C.UTF-8");
    let look = scripts.write(
        "look.php",
        "echo json_encode([getenv('SVC_LEFT'), setlocale(LC_NUMERIC, 0), basename(getcwd()), ini_get('memory_limit'),
        ob_get_level(), error_get_last()]);",
    );
    let (_, said) = run(php, &look);
    let text = String::from_utf8(said.output).unwrap();
    assert!(text.starts_with(r#"[false,"C","svc-border-"#) && text.ends_with(r#","32M",0,null]"#), "{text}");
}
