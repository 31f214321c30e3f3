//! Servers with an async pool, if the server that is tested can have one, for tests that read like PHP.
//!
//! A test's functions are in `tasks.php`, outside the document root. Requests load that file, and so does each async
//! thread, as ASYNC_ENTRY_FILE. A request names a function and gets its result as JSON, or its exception as `Class:
//! message`.

use std::fs::OpenOptions;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::Svc;
use crate::client::{Client, eventually};

/// Where the code of a test runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    Classic,
    Worker,
}

/// The modes of the server that is tested.
pub const MODES: [Mode; 1 + cfg!(feature = "worker") as usize] = [
    Mode::Classic,
    #[cfg(feature = "worker")]
    Mode::Worker,
];

/// The places in the server that is tested where a request can call a function, as suffixes of its name in the query: in
/// the request, and in a task of it.
pub const PLACES: [&str; 1 + cfg!(feature = "async") as usize] = [
    "",
    #[cfg(feature = "async")]
    "&task",
];

/// The configuration of a server.
#[derive(Clone, Debug)]
pub struct TaskServer {
    code: String,
    entry: String,
    files: Vec<(String, String)>,
    settings: Vec<(String, String)>,
    directives: Vec<String>,
}

/// A running server. Beside the answers, tests and scripts communicate through files: marks, which one side creates and the
/// other waits for, and gates (FIFOs), where scripts block inside a C call.
#[derive(Debug)]
pub struct TaskSvc {
    pub svc: Svc,
    calls: AtomicU64,
}

const PRELUDE: &str = r#"<?php
const DIR = __DIR__;
function mark(string $name, string $text = ''): void { file_put_contents(DIR . "/$name", "$text\n", FILE_APPEND); }
function marked(string $name): bool { clearstatcache(); return file_exists(DIR . "/$name"); }
/** Waits for a mark, parked where that is possible. */
function until(string $name): void { while (!marked($name)) { nap(); } }
function nap(): void { function_exists('Svc\sleep') ? Svc\sleep(0.002) : usleep(2000); }
/** Waits for a mark while executing opcodes all the time. */
function spin(string $name): void { while (!marked($name)) { } }
/** Blocks in a C call, open(2), until the test opens the gate. */
function gate(string $name): void { mark("at-$name"); fclose(fopen(DIR . "/$name.gate", 'r')); }
function never(): void { until('never'); }
/** The result or the exception of a call, as text. */
function tried(callable $call): string
{
    try {
        return json_encode($call(), JSON_PRESERVE_ZERO_FRACTION | JSON_UNESCAPED_SLASHES | JSON_UNESCAPED_UNICODE | JSON_THROW_ON_ERROR);
    } catch (Throwable $thrown) {
        return $thrown::class . ': ' . $thrown->getMessage();
    }
}
/** `$n` differs for each call: for the names of marks. */
function run(string $function, string $n): string { return tried(fn () => $function($n)); }
function settled(Svc\Task $task): Svc\Task { while (!$task->isSettled()) { Svc\sleep(0.001); } return $task; }
"#;

/// The request script.
const ANSWER: &str = r#"
require_once dirname(__DIR__) . '/tasks.php';
function answer(): void
{
    $function = $_GET['do'] ?? 'strrev';
    $n = $_GET['n'] ?? '';
    if (isset($_GET['raw'])) { $function($n); return; }
    echo isset($_GET['task']) ? Svc\async(run(...), $function, $n)->await() : run($function, $n);
}
"#;

impl TaskServer {
    /// Configures a server with these functions and two async threads.
    pub fn new(code: &str) -> Self {
        Self {
            code: PRELUDE.to_owned() + code,
            entry: String::new(),
            files: Vec::new(),
            settings: vec![("ASYNC_WORKERS".to_owned(), "2".to_owned())],
            directives: Vec::new(),
        }
    }

    /// Changes a setting.
    pub fn set(mut self, name: &str, value: &str) -> Self {
        self.settings.retain(|(known, _)| known != name);
        self.settings.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Adds a directive, as `key=value`.
    pub fn directive(mut self, directive: &str) -> Self {
        self.directives.push(directive.to_owned());
        self
    }

    /// Adds code that only async threads run, after `tasks.php`: ASYNC_ENTRY_FILE is a separate file then.
    pub fn entry(mut self, code: &str) -> Self {
        self.entry = format!("<?php require_once __DIR__ . '/tasks.php'; {code}");
        self
    }

    /// Adds a file beside `tasks.php`.
    pub fn file(mut self, name: &str, text: &str) -> Self {
        self.files.push((name.to_owned(), text.to_owned()));
        self
    }

    /// Starts the server.
    pub fn start(&self, mode: Mode) -> TaskSvc {
        self.start_with(mode, "")
    }

    /// Starts the server with code that only requests run: in worker mode it runs once, before the first request.
    pub fn start_with(&self, mode: Mode, boot: &str) -> TaskSvc {
        let root = tempfile::tempdir().unwrap();
        let place = |name: &str| root.path().join(name);
        std::fs::create_dir(place("public")).unwrap();
        std::fs::write(place("tasks.php"), &self.code).unwrap();
        let entry = if self.entry.is_empty() { "tasks.php" } else { "entry.php" };
        std::fs::write(place("entry.php"), &self.entry).unwrap();
        for (name, text) in &self.files {
            std::fs::write(place(name), text).unwrap();
        }
        let last = if mode == Mode::Classic { "answer();" } else { "Svc\\Worker::serve(answer(...));" };
        std::fs::write(place("public/index.php"), format!("<?php {ANSWER} {boot} {last}")).unwrap();
        let paths = [place("public"), place(entry)].map(|path| path.to_str().unwrap().to_owned());
        let of_mode = [
            ("DOCUMENT_ROOT", paths[0].as_str()),
            ("ASYNC_ENTRY_FILE", paths[1].as_str()),
            ("ENTRY_FILE", "index.php"),
            ("WORKER_MODE_ENABLED", if mode == Mode::Worker { "true" } else { "false" }),
        ];
        let own = self.settings.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        let off = self.settings.iter().any(|(name, value)| name == "ASYNC_ENTRY_FILE" && value.is_empty());
        let of_mode = of_mode.into_iter().filter(|(name, _)| !off || *name != "ASYNC_ENTRY_FILE");
        let settings = of_mode.chain(own.filter(|(_, value)| !value.is_empty()));
        let settings: Vec<_> =
            settings.filter(|(name, _)| cfg!(feature = "async") || !name.starts_with("ASYNC_")).collect();
        let directives: Vec<_> = self.directives.iter().map(String::as_str).collect();
        TaskSvc { svc: Svc::launch(root, &settings, &directives), calls: AtomicU64::new(0) }
    }

    /// Starts the server in each mode and passes it to `check`; afterwards the sums of the task metrics must hold, if there
    /// are any.
    pub fn in_each_mode(&self, check: impl Fn(&TaskSvc)) {
        for mode in MODES {
            println!("{mode:?}");
            let server = self.start(mode);
            check(&server);
            if cfg!(feature = "async") {
                assert_laws(&server.svc);
            }
        }
    }
}

impl TaskSvc {
    /// Has a request call `function`.
    #[track_caller]
    pub fn tell(&self, function: &str) -> String {
        let path = format!("/?do={function}&n={}", self.another());
        let response = self.svc.get(&path);
        assert_eq!(response.status, 200, "{path}: {}", response.text());
        response.text()
    }

    /// Has a task of a request call `function`.
    #[track_caller]
    pub fn tell_in_task(&self, function: &str) -> String {
        self.tell(&format!("{function}&task"))
    }

    /// Sends a request that calls `function`, with this number.
    pub fn send(&self, function: &str, n: &str) -> Client {
        let mut client = self.svc.client();
        client.send(format!("GET /?do={function}&n={n} HTTP/1.1\r\nHost: x\r\n\r\n"));
        client
    }

    /// Returns a number that no call has used.
    pub fn another(&self) -> u64 {
        self.calls.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Returns the path of a mark, or of another file beside `tasks.php`.
    pub fn path(&self, name: &str) -> PathBuf {
        self.svc.root().join(name)
    }

    /// Creates a mark.
    pub fn mark(&self, name: &str) {
        std::fs::write(self.path(name), "").unwrap();
    }

    /// Removes these marks if they exist.
    pub fn unmark(&self, names: &[&str]) {
        for name in names {
            let _ = std::fs::remove_file(self.path(name));
        }
    }

    /// Returns whether this mark exists.
    pub fn marked(&self, name: &str) -> bool {
        self.path(name).exists()
    }

    /// Waits until a script has written the first line of a mark.
    #[track_caller]
    pub fn until(&self, name: &str) {
        eventually(name, || !self.lines(name).is_empty());
    }

    /// Returns the lines of a mark so far; none if the mark does not exist.
    pub fn lines(&self, name: &str) -> Vec<String> {
        let text = std::fs::read_to_string(self.path(name)).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }

    /// Creates a closed gate.
    pub fn close_gate(&self, name: &str) {
        use rustix::fs::{CWD, FileType, Mode, mknodat};
        mknodat(CWD, self.path(&format!("{name}.gate")), FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
    }

    /// Releases the call that blocks at the gate; waits for a call that has not arrived yet.
    pub fn open_gate(&self, name: &str) {
        drop(OpenOptions::new().write(true).open(self.path(&format!("{name}.gate"))).unwrap());
    }
}

/// Calls each function body in each mode, and in a task of each, and compares the result, as JSON or as `Class: message`.
/// A `*` in the expectation matches any text.
#[track_caller]
pub fn everywhere(server: &TaskServer, cases: &[(&str, &str)]) {
    compare(server, cases, &PLACES);
}

/// Compares likewise, but only in requests: for tasks that keep a thread busy, which could be the thread that their
/// requester needs.
#[track_caller]
pub fn in_requests(server: &TaskServer, cases: &[(&str, &str)]) {
    compare(server, cases, &[""]);
}

#[track_caller]
fn compare(server: &TaskServer, cases: &[(&str, &str)], places: &[&str]) {
    let mut server = server.clone();
    for (index, (body, _)) in cases.iter().enumerate() {
        server.code += &format!("function case_{index}(string $n): mixed {{ {body} }}\n");
    }
    server.in_each_mode(|running| {
        for (index, (body, expected)) in cases.iter().enumerate() {
            for place in places {
                let text = running.tell(&format!("case_{index}{place}"));
                assert!(is_like(&text, expected), "{body}\nis{place}\n{text}\nand not\n{expected}");
            }
        }
    });
}

/// Asserts that `text` matches `pattern`, in which `*` matches any text.
#[track_caller]
pub fn assert_like(text: &str, pattern: &str) {
    assert!(is_like(text, pattern), "{text}\nis not\n{pattern}");
}

fn is_like(text: &str, pattern: &str) -> bool {
    let Some((start, rest)) = pattern.split_once('*') else { return text == pattern };
    let Some(mut text) = text.strip_prefix(start) else { return false };
    let (between, end) = rest.rsplit_once('*').map_or((None, rest), |(between, end)| (Some(between), end));
    for part in between.into_iter().flat_map(|between| between.split('*')) {
        let Some(at) = text.find(part) else { return false };
        text = &text[at + part.len()..];
    }
    text.ends_with(end)
}

/// The counters of tasks, and the number of tasks in flight.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TaskAccounting {
    pub dispatched: f64,
    pub completed: f64,
    pub failed: f64,
    pub cancelled: f64,
    pub rejected: f64,
    pub stranded: f64,
    pub in_flight: f64,
    pub limit: f64,
}

impl TaskAccounting {
    /// Reads the counters and asserts the relations that hold at any time.
    #[track_caller]
    pub fn read(svc: &Svc) -> Self {
        let page = svc.ask("/metrics").text();
        let all = |family: &str| page.contains(&format!("\nsvc_async_tasks_{family} "));
        let counters = COUNTERS.map(|counter| all(&format!("{counter}_total")));
        assert!(
            counters.iter().all(|is_there| *is_there == counters[0]),
            "all counters or none: {counters:?}"
        );
        let series = |family: &str| {
            // Before the first task is dispatched or rejected there are no counters.
            let is_absent = family.ends_with("_total") && !counters[0];
            let name = format!("svc_async_tasks_{family}");
            if is_absent { 0.0 } else { crate::books::series(&page, &name) }
        };
        let books = Self {
            dispatched: series("dispatched_total"),
            completed: series("completed_total"),
            failed: series("failed_total"),
            cancelled: series("cancelled_total"),
            rejected: series("rejected_total"),
            stranded: series("stranded_total"),
            in_flight: series("in_flight"),
            limit: series("in_flight_limit"),
        };
        assert!(books.in_flight <= books.limit, "{books:?}");
        assert!(books.stranded <= books.cancelled + books.in_flight, "{books:?}");
        books
    }

    /// Waits until no task is in flight and reads the counters.
    #[track_caller]
    pub fn at_rest(svc: &Svc) -> Self {
        eventually("all tasks have left", || Self::read(svc).in_flight == 0.0);
        Self::read(svc)
    }
}

/// The counters' names, in the order of the fields.
pub const COUNTERS: [&str; 6] = ["dispatched", "completed", "failed", "cancelled", "rejected", "stranded"];

/// Asserts the relations that hold once all tasks have ended.
#[track_caller]
pub fn assert_laws(svc: &Svc) {
    let books = TaskAccounting::at_rest(svc);
    assert_eq!(books.dispatched, books.completed + books.failed + books.cancelled, "{books:?}");
    assert!(books.stranded <= books.cancelled, "{books:?}");
}
