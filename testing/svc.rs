//! Starts the real binary on free ports and communicates with it.

use std::ffi::OsStr;
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tempfile::TempDir;

use crate::client::{Client, Response, becomes, eventually};
use crate::{binary, books, descriptors};

/// A running server with its document root. Dropping it kills the server.
#[derive(Debug)]
pub struct Svc {
    child: Child,
    root: TempDir,
    main: SocketAddr,
    ops: SocketAddr,
    log: Log,
    /// The process has ended by a signal that the test expects.
    has_crashed: bool,
}

/// The server's log so far.
#[derive(Clone, Debug, Default)]
pub struct Log(Arc<Mutex<Output>>);

#[derive(Debug, Default)]
struct Output {
    records: Vec<Value>,
    /// Lines that are not records.
    strays: Vec<String>,
    has_ended: bool,
}

impl Svc {
    /// Starts a server on these files, with these settings, and waits until it is ready.
    pub fn start(files: &[(&str, &str)], settings: &[(&str, &str)]) -> Self {
        Self::start_with(files, settings, &[])
    }

    /// Starts a server on these files, with these settings and PHP directives (`key=value`).
    pub fn start_with(files: &[(&str, &str)], settings: &[(&str, &str)], directives: &[&str]) -> Self {
        Self::launch(written(files), settings, directives)
    }

    /// Starts a server on an existing document root.
    pub fn start_in(root: TempDir, settings: &[(&str, &str)]) -> Self {
        Self::launch(root, settings, &[])
    }

    /// Starts a server through a wrapper that first changes its process.
    pub fn start_under(
        wrapper: &Path,
        files: &[(&str, &str)],
        settings: &[(&str, &str)],
        directives: &[&str],
    ) -> Self {
        let root = written(files);
        let plain = command(root.path(), settings);
        let mut command = Command::new(wrapper);
        command.env_clear().arg(plain.get_program()).stdin(Stdio::null());
        command.args(directives.iter().flat_map(|directive| ["-d", directive]));
        command.envs(plain.get_envs().filter_map(|(name, value)| Some((name, value?))));
        Self::spawn(root, command)
    }

    /// Starts a server on an existing document root, with PHP directives; `DOCUMENT_ROOT` may name a folder in it.
    pub fn launch(root: TempDir, settings: &[(&str, &str)], directives: &[&str]) -> Self {
        let mut command = command(root.path(), settings);
        command.args(directives.iter().flat_map(|directive| ["-d", directive]));
        Self::spawn(root, command)
    }

    /// Starts a server with this command, which runs in `root`.
    pub fn spawn(root: TempDir, mut command: Command) -> Self {
        descriptors::raise_limit();
        let other = std::env::var_os("SVC_TEST_EXECUTOR");
        let is_other =
            |(name, value): (&OsStr, Option<&OsStr>)| name == "EXECUTOR" && value == other.as_deref();
        let runs_with_other_executor = other.is_some() && command.get_envs().any(is_other);
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let log = Log::default();
        let (lines, output) = (BufReader::new(child.stdout.take().unwrap()), log.clone());
        std::thread::spawn(move || {
            for line in lines.lines().map_while(Result::ok) {
                let record = serde_json::from_str(&line);
                let mut output = output.0.lock().unwrap();
                match record {
                    Ok(record) => output.records.push(record),
                    // A panic in this thread would go unnoticed.
                    Err(_) => output.strays.push(line),
                }
            }
            output.0.lock().unwrap().has_ended = true;
        });
        eventually("the server is ready", || {
            assert!(child.try_wait().unwrap().is_none(), "the server ended at its start");
            log.find("svc is ready").is_some()
        });
        let (main, ops) = (log.addr("main port is listening"), log.addr("operations port is listening"));
        let svc = Self { child, root, main, ops, log, has_crashed: false };
        if runs_with_other_executor {
            // Tests with a short queue expect that PHP is there at once, as threads are.
            eventually("the processes have started", || {
                let ask = "GET /status HTTP/1.1\r\nHost: localhost";
                let response = Client::connect(svc.ops).request(ask);
                let is = |state: &str| response.text().contains(&format!("\"state\":\"{state}\""));
                // The test may forbid to look.
                response.status != 200 || (is("idle") && !is("booting"))
            });
        }
        svc
    }

    /// Returns the document root.
    pub fn root(&self) -> &Path {
        self.root.path()
    }

    /// Returns the address of the main port.
    pub fn main(&self) -> SocketAddr {
        self.main
    }

    /// Returns the address of the operations port.
    pub fn ops(&self) -> SocketAddr {
        self.ops
    }

    /// Returns the server's log.
    pub fn log(&self) -> &Log {
        &self.log
    }

    /// Opens a connection to the main port.
    pub fn client(&self) -> Client {
        Client::connect(self.main)
    }

    /// Sends a request to the main port on a new connection.
    pub fn get(&self, path: &str) -> Response {
        self.client().get(path)
    }

    /// Sends a request to the operations port on a new connection.
    pub fn ask(&self, path: &str) -> Response {
        Client::connect(self.ops).get(path)
    }

    /// Reads one series of the metrics, as `name` or `name{label="value"}`.
    #[track_caller]
    pub fn metric(&self, series: &str) -> f64 {
        books::series(&self.ask("/metrics").text(), series)
    }

    /// Waits until a series has a value: a response is counted an instant after its client has read it.
    #[track_caller]
    pub fn assert_metric(&self, series: &str, expected: f64) {
        let mut seen = f64::NAN;
        let is_there = becomes(|| {
            seen = self.metric(series);
            seen == expected
        });
        assert!(is_there, "{series} is {seen} and not {expected}");
    }

    /// Returns the process ID.
    pub fn pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    /// Returns the version of its PHP.
    pub fn php_version(&self) -> String {
        self.log().expect("PHP is ready")["fields"]["version"].as_str().unwrap().to_owned()
    }

    /// Returns whether destructors can wait without their thread: before PHP 8.4 fibers cannot be switched inside a
    /// destructor, so a destructor that waits blocks its thread.
    pub fn destructors_park(&self) -> bool {
        !self.php_version().starts_with("8.3.")
    }

    /// Sends a signal.
    pub fn signal(&self, signal: Signal) {
        kill_process(self.pid(), signal).unwrap();
    }

    /// Waits for the end of the process; returns its exit code.
    pub fn wait(&mut self) -> Option<i32> {
        let mut status = None;
        eventually("the server ends", || {
            status = self.child.try_wait().unwrap();
            status.is_some()
        });
        status.and_then(|status| status.code())
    }

    /// Waits for the process to crash; returns the number of the signal.
    pub fn crash(&mut self) -> Option<i32> {
        self.has_crashed = true;
        eventually("the server ends", || self.child.try_wait().unwrap().is_some());
        self.child.wait().unwrap().signal()
    }

    /// Stops the server gracefully and asserts that it exits cleanly.
    pub fn stop(&mut self) {
        self.signal(Signal::TERM);
        assert_eq!(self.wait(), Some(0));
    }

    /// Stops the server and reads its log to the end; a record that is missing then was never written.
    pub fn whole_log(&mut self) -> &Log {
        self.stop();
        eventually("its output has ended", || self.log.0.lock().unwrap().has_ended);
        &self.log
    }
}

impl Drop for Svc {
    fn drop(&mut self) {
        // The server may have exited by itself.
        let _ = self.child.kill();
        let status: std::io::Result<ExitStatus> = self.child.wait();
        if let Ok(status) = status {
            let is_expected = |number: &i32| *number == Signal::KILL.as_raw() || self.has_crashed;
            let crash = status.signal().filter(|number| !is_expected(number));
            assert!(crash.is_none() || std::thread::panicking(), "the server died of signal {crash:?}");
        }
        let strays = std::mem::take(&mut self.log.0.lock().unwrap().strays);
        assert!(strays.is_empty() || std::thread::panicking(), "these lines are no records: {strays:#?}");
    }
}

impl Log {
    /// Returns the first record with this message.
    pub fn find(&self, message: &str) -> Option<Value> {
        self.0.lock().unwrap().records.iter().find(|record| record["fields"]["message"] == message).cloned()
    }

    /// Waits for the first record with this message; records arrive independently of responses.
    #[track_caller]
    pub fn expect(&self, message: &str) -> Value {
        if !becomes(|| self.find(message).is_some()) {
            let records = self.0.lock().unwrap().records.iter().map(ToString::to_string).collect::<Vec<_>>();
            panic!("never logged: {message}\nThe log:\n{}", records.join("\n"));
        }
        self.find(message).unwrap()
    }

    /// Returns all records of this target.
    pub fn of(&self, target: &str) -> Vec<Value> {
        self.0.lock().unwrap().records.iter().filter(|record| record["target"] == target).cloned().collect()
    }

    /// Returns all records.
    pub fn records(&self) -> Vec<Value> {
        self.0.lock().unwrap().records.clone()
    }

    fn addr(&self, message: &str) -> SocketAddr {
        let record = self.find(message).unwrap_or_else(|| panic!("no record {message:?}"));
        record["fields"]["addr"].as_str().unwrap().parse().unwrap()
    }
}

/// Creates a folder with these files.
pub fn written(files: &[(&str, &str)]) -> TempDir {
    let root = tempfile::tempdir().unwrap();
    for (name, text) in files {
        let path = root.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
    root
}

/// Returns the command that starts the server on `root` on free loopback ports with these settings.
pub fn command(root: &Path, settings: &[(&str, &str)]) -> Command {
    let mut command = Command::new(binary());
    command
        .env_clear()
        .env("DOCUMENT_ROOT", root)
        .env("LISTEN_ADDR", "127.0.0.1:0")
        .env("INTERNAL_ADDR", "127.0.0.1:0")
        .env("PHP_WORKERS", "2")
        // Tests that keep a request in the queue may take long on a slow machine.
        .env("QUEUE_WAIT_TIMEOUT_MS", "60000")
        // Options from `make sanitize` for the sanitizers and Zend's heap.
        .envs(std::env::vars().filter(|(name, _)| name.ends_with("SAN_OPTIONS") || name == "USE_ZEND_ALLOC"))
        .envs(other_executor(settings).map(|executor| ("EXECUTOR", executor)))
        .envs(settings.iter().copied())
        .stdin(Stdio::null());
    command
}

/// Returns the executor that `SVC_TEST_EXECUTOR` names: the same tests run with each. Tests of what needs PHP in the process of
/// the server keep the default.
fn other_executor(settings: &[(&str, &str)]) -> Option<String> {
    let needs_threads = |(name, value): &(&str, &str)| match *name {
        "ASYNC_WORKERS" | "RUNTIME_HOOKS" | "WORKER_MODE_ENABLED" => true,
        "PLUGINS" => value.contains("apm"),
        "SUPERGLOBALS_ENABLED" => *value == "false",
        _ => false,
    };
    std::env::var("SVC_TEST_EXECUTOR").ok().filter(|_| !settings.iter().any(needs_threads))
}
