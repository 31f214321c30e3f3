//! Drives a worker without a server: one script that serves, and requests that wait and interleave on one thread.
//!
//! One test, because PHP starts once in a process and ends on the thread that started it.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::{Arc, Mutex};

use svc_ffi::{
    Host, Interpreter, Pairs, Php, PhpHead, PhpLog, PhpOutcome, PhpRequest, RequestProgress, StartOptions,
    WorkerHost, WorkerInfo, WorkerRequest, WorkerRequests,
};

use support::{NoRuntime, Recorder, Scripts};

#[expect(dead_code, reason = "each test file uses its part of the support")]
mod support;

/// A request of a test.
#[derive(Clone, Debug, Default)]
struct Ask {
    query: &'static str,
    cookie: Option<&'static str>,
    body: &'static str,
    content_type: Option<&'static str>,
}

/// The response of a request.
#[derive(Debug)]
struct Response {
    outcome: PhpOutcome,
    status: i32,
    text: String,
    fields: Vec<String>,
}

/// Begins the requests of a list in order, and resumes the ready ones before it begins the next one.
#[derive(Default)]
struct Lab {
    own: Recorder,
    asks: VecDeque<(usize, Ask)>,
    responses: Rc<RefCell<Vec<Option<Response>>>>,
    most_active: usize,
}

struct RecordedRequest {
    recorder: Recorder,
    index: usize,
    responses: Rc<RefCell<Vec<Option<Response>>>>,
}

macro_rules! host_through {
    ($type:ty, $field:ident) => {
        impl Host for $type {
            fn write(&mut self, output: &[u8]) -> bool {
                self.$field.write(output)
            }
            fn is_gone(&self) -> bool {
                self.$field.is_gone()
            }
            fn is_full(&self) -> bool {
                self.$field.is_full()
            }
            fn flush(&mut self) -> bool {
                self.$field.flush()
            }
            fn send_head(&mut self, head: &PhpHead<'_>) {
                self.$field.send_head(head);
            }
            fn send_interim(&mut self, head: &PhpHead<'_>) {
                self.$field.send_interim(head);
            }
            fn finish(&mut self) {
                self.$field.finish();
            }
            fn time_limit(&mut self) {
                self.$field.time_limit();
            }
            fn read_body(&mut self, buffer: &mut [u8]) -> usize {
                self.$field.read_body(buffer)
            }
            fn read_body_at(&mut self, buffer: &mut [u8], offset: u64) -> usize {
                self.$field.read_body_at(buffer, offset)
            }
            fn target(&mut self) -> &[u8] {
                self.$field.target()
            }
            fn client(&mut self) -> &[u8] {
                self.$field.client()
            }
            fn variables(&mut self, out: &mut Pairs) {
                self.$field.variables(out);
            }
            fn fields(&mut self, out: &mut Pairs) {
                self.$field.fields(out);
            }
            fn request_id(&mut self) -> &[u8] {
                self.$field.request_id()
            }
            fn log(&mut self, record: &PhpLog<'_>) {
                self.$field.log(record);
            }
        }
    };
}

host_through!(Lab, own);
host_through!(RecordedRequest, recorder);

impl WorkerRequest for RecordedRequest {
    fn parks(&mut self) {}
    fn resumes(&mut self) {}
    fn ended(&mut self, outcome: PhpOutcome) {
        let (status, fields) = self.recorder.head.take().unwrap_or_default();
        let response = Response {
            outcome,
            status,
            text: String::from_utf8_lossy(&self.recorder.output).into_owned(),
            fields,
        };
        self.responses.borrow_mut()[self.index] = Some(response);
    }
}

impl Lab {
    fn host_of(&self, index: usize, ask: &Ask) -> Box<RecordedRequest> {
        let recorder = Recorder { body: ask.body.as_bytes().to_vec(), ..Recorder::default() };
        Box::new(RecordedRequest { recorder, index, responses: Rc::clone(&self.responses) })
    }
}

impl WorkerHost for Lab {
    fn serve(&mut self, requests: &mut WorkerRequests) {
        let mut active = 0;
        loop {
            while let Some(progress) = requests.resume() {
                active -= usize::from(progress == RequestProgress::Ended);
            }
            let facts = requests.facts();
            let next = if facts.tainted || facts.exit_scheduled { None } else { self.asks.pop_front() };
            if let Some((index, ask)) = next {
                let host = self.host_of(index, &ask);
                active += usize::from(requests.begin(&described(&ask), host) == RequestProgress::Waits);
                self.most_active = self.most_active.max(active);
            } else if active == 0 {
                return;
            } else {
                requests.wait(None);
            }
        }
    }

    fn serve_one(&mut self, requests: &mut WorkerRequests) -> bool {
        let Some((index, ask)) = self.asks.pop_front() else { return false };
        let host = self.host_of(index, &ask);
        requests.here(&described(&ask), host);
        true
    }
}

fn described(ask: &Ask) -> PhpRequest<'_> {
    PhpRequest {
        number: 0,
        method: if ask.body.is_empty() { b"GET" } else { b"POST" },
        uri: b"/path",
        query: ask.query.as_bytes(),
        content_type: ask.content_type.map(str::as_bytes),
        cookies: ask.cookie.map(str::as_bytes),
        authorization: b"",
        script: b"/worker.php",
        script_file: b"/worker.php",
        folder: b"",
        content_length: ask.body.len() as u64,
        protocol: 1001,
        time: 1.5,
    }
}

/// Boots `script`, lets it serve `asks`, and boots it again if it ends before all are served.
fn serve(php: &mut Interpreter, script: &std::path::Path, asks: &[Ask]) -> (Vec<Response>, Lab, usize) {
    let mut lab = Lab { asks: asks.iter().cloned().enumerate().collect(), ..Lab::default() };
    lab.responses.borrow_mut().resize_with(asks.len(), || None);
    let mut boots = 0;
    while boots == 0 || !lab.asks.is_empty() {
        boots += 1;
        let boot = support::request(script);
        let outcome = php.boot(&boot, &mut lab, WorkerInfo { id: 7, started: 2.5 });
        assert_eq!(
            outcome,
            PhpOutcome::Complete,
            "boot: {:?} {:?}",
            lab.own.logs,
            String::from_utf8_lossy(&lab.own.output)
        );
        assert!(boots <= asks.len() + 1, "it boots and serves nothing: {:?}", lab.own.logs);
    }
    let responses =
        lab.responses.take().into_iter().map(|response| response.expect("every request ends")).collect();
    (responses, lab, boots)
}

fn ask(query: &'static str) -> Ask {
    Ask { query, ..Ask::default() }
}

#[test]
fn requests_share_a_thread_and_nothing_else() {
    let scripts = Scripts::new("worker");
    let messages = Arc::new(Mutex::new(Vec::new()));
    let sink = Arc::clone(&messages);
    let php = Php::start::<NoRuntime>(StartOptions {
        ini_defaults: &[
            ("display_errors", "0"),
            ("log_errors", "1"),
            ("variables_order", "GPCS"),
            ("output_buffering", "4096"),
            ("request_order", "GP"),
        ],
        ini_overrides: &[("memory_limit".into(), "32M".into()), ("hard_timeout".into(), "0".into())],
        environment: &[],
        command_line: None,
        superglobals: true,
        boots: true,
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
    assert_eq!(php.unclassified_state(), "", "without an owner: see c/worker/state/audit.c");
    let threads = php.threads();
    let scripts = &scripts;
    std::thread::scope(|scope| {
        let worker = std::thread::Builder::new().stack_size(8 << 20);
        let worker = worker.spawn_scoped(scope, || {
            let mut interpreter = threads.enter();
            answers_one_after_the_other(&mut interpreter, scripts);
            lets_others_run_while_one_waits(&mut interpreter, scripts);
        });
        worker.unwrap().join().unwrap();
    });
    assert_eq!(*messages.lock().unwrap(), Vec::<String>::new(), "outside of requests");
}

fn answers_one_after_the_other(php: &mut Interpreter, scripts: &Scripts) {
    let script = scripts.write(
        "simple.php",
        r#"$booted = 'yes'; $count = 0;
        Svc\Worker::serve(function () use ($booted, &$count) {
            header('X-Count: ' . ++$count);
            echo json_encode([$booted, $_GET, $_POST, $_COOKIE, $_REQUEST, file_get_contents('php://input'),
                $_SERVER['SVC_TEST'], $_SERVER['REQUEST_TIME_FLOAT']]);
        });"#,
    );
    let form = Ask {
        query: "b=2",
        body: "x=1",
        content_type: Some("application/x-www-form-urlencoded"),
        cookie: Some("c=3"),
    };
    let (responses, _, boots) = serve(php, &script, &[ask("a=1"), form, ask("d=4")]);
    assert_eq!(boots, 1);
    let texts: Vec<_> = responses.iter().map(|response| response.text.as_str()).collect();
    assert_eq!(
        texts,
        [
            r#"["yes",{"a":"1"},[],[],{"a":"1"},"","a value",1.5]"#,
            r#"["yes",{"b":"2"},{"x":"1"},{"c":"3"},{"b":"2","x":"1"},"x=1","a value",1.5]"#,
            r#"["yes",{"d":"4"},[],[],{"d":"4"},"","a value",1.5]"#,
        ]
    );
    for (index, response) in responses.iter().enumerate() {
        assert_eq!((response.outcome, response.status), (PhpOutcome::Complete, 200), "{response:?}");
        assert!(response.fields.contains(&format!("X-Count: {}", index + 1)), "{response:?}");
    }
}

fn lets_others_run_while_one_waits(php: &mut Interpreter, scripts: &Scripts) {
    let script = scripts.write(
        "sleep.php",
        r#"Svc\Worker::serve(function () {
            static $running = 0;
            $before = [$_GET, $running++, spl_object_id(Svc\Request::current())];
            ob_start(); echo 'kept ', $_GET['n'];
            Svc\sleep(0.02);
            $running--;
            $text = ob_get_clean();
            echo json_encode([$before === [$_GET, $before[1], spl_object_id(Svc\Request::current())], $before[1], $text]);
        });"#,
    );
    let asks = [ask("n=1"), ask("n=2"), ask("n=3")];
    let (responses, lab, _) = serve(php, &script, &asks);
    assert_eq!(lab.most_active, 3);
    let texts: Vec<_> = responses.iter().map(|response| response.text.as_str()).collect();
    assert_eq!(
        texts,
        [r#"[true,0,"kept 1"]"#, r#"[true,1,"kept 2"]"#, r#"[true,2,"kept 3"]"#],
        "{responses:?}"
    );
}
