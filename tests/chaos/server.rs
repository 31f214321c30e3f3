//! The server, and everything that it and its programs report.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::SocketAddr;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant, SystemTime};

use serde_json::Value;
use tempfile::TempDir;

use crate::client;
use svc_testing::client::LOOK_AGAIN;
use svc_testing::command;

const FILES: [(&str, &str); 14] = [
    ("boot.php", include_str!("app/boot.php")),
    ("worker.php", include_str!("app/worker.php")),
    ("tasks.php", include_str!("app/tasks.php")),
    ("task_operations.php", include_str!("app/task_operations.php")),
    ("leftovers.php", include_str!("app/leftovers.php")),
    ("shutdown_code.php", include_str!("app/shutdown_code.php")),
    ("deep_calls.php", include_str!("app/deep_calls.php")),
    (SHAPES, include_str!("app/shapes.php")),
    ("loop.php", include_str!("app/loop.php")),
    ("baseline.php", include_str!("app/baseline.php")),
    ("interpreter.php", include_str!("app/interpreter.php")),
    ("calls.php", include_str!("app/calls.php")),
    ("streams.php", include_str!("app/streams.php")),
    ("included.php", include_str!("app/included.php")),
];

/// Kinds of code of tasks: in OPcache, and as a copy that is too new for it.
const SHAPES: &str = "shapes.php";

/// How the server runs scripts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    Worker,
    /// With runtime hooks: PHP's own functions wait as `Svc\sleep()` does.
    Hooks,
    /// Each request has a thread to itself. Most differences that this mode finds are faults of the model.
    Classic,
}

/// The address of the server, and its mode.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Target {
    pub(crate) addr: SocketAddr,
    pub(crate) mode: Mode,
}

/// A running server. Dropping it kills it.
#[derive(Debug)]
pub(crate) struct Server {
    child: Child,
    place: TempDir,
    pub(crate) target: Target,
    ops: SocketAddr,
    /// Unexpected output of the server: lines of its standard error, records of panics.
    noise: mpsc::Receiver<String>,
    reports_read: usize,
    /// Open descriptors at the first rest.
    descriptors: Option<f64>,
}

/// Descriptors beyond those of the first rest: connections that the system has not closed yet, cached files, and the
/// descriptors of fibers that are suspended in curl transfers (three for each, of six on each of four threads).
const DESCRIPTORS_MORE: f64 = 40.0 + 3.0 * 6.0 * 4.0;
/// Enough requests that each worker gets one.
const COLLECTORS: usize = 8;
const ENDED: &str = "svc_responses_by_status_total{";
const FIBERS: &str = "svc_worker_request_fibers_active{";
const QUEUED: &str = "svc_queue_depth ";
/// The time limit for a server to come to rest.
const REST: Duration = Duration::from_secs(60);

impl Mode {
    /// Returns the mode that `CHAOS_MODE` names (`worker`, `hooks`, `classic`).
    pub(crate) fn asked() -> Option<Self> {
        match std::env::var("CHAOS_MODE").ok()?.as_str() {
            "" => None,
            "worker" => Some(Self::Worker),
            "hooks" => Some(Self::Hooks),
            "classic" => Some(Self::Classic),
            other => panic!("CHAOS_MODE={other}: it is worker, hooks or classic"),
        }
    }

    /// Returns the mode of a round: several rounds in a row have the same. The model does not know all of classic mode.
    pub(crate) fn of(seed: u64) -> Self {
        const ROUNDS: u64 = 8;
        let modes = [Self::Worker, Self::Hooks];
        Self::asked().unwrap_or(modes[usize::try_from(seed / ROUNDS % modes.len() as u64).unwrap()])
    }
}

impl Server {
    /// Starts a server.
    pub(crate) fn start(mode: Mode) -> Self {
        Self::start_with(mode, "2", &[])
    }

    /// Starts a server with this many workers and these directives.
    pub(crate) fn start_with(mode: Mode, workers: &str, directives: &[String]) -> Self {
        let place = tempfile::tempdir().unwrap();
        let root = place.path().join("root");
        fs::create_dir(&root).unwrap();
        for (name, text) in FILES {
            fs::write(root.join(name), text).unwrap();
        }
        let shapes = root.join(SHAPES);
        let copy = fs::read_to_string(&shapes).unwrap().replace("KnownShapes", "FreshShapes");
        fs::write(root.join("fresh.php"), copy).unwrap();
        let long_ago = SystemTime::now() - Duration::from_secs(3600);
        fs::File::options().append(true).open(shapes).unwrap().set_modified(long_ago).unwrap();
        for n in 0..4 {
            let directory = place.path().join(format!("d{n}"));
            fs::create_dir(&directory).unwrap();
            fs::write(directory.join("name"), format!("d{n}")).unwrap();
        }
        fs::create_dir(place.path().join("sessions")).unwrap();
        let (mut child, noise, ready) = launch(&place, &root, mode, workers, directives);
        let Ok((main, ops)) = ready.recv_timeout(Duration::from_secs(120)) else {
            let _ = child.kill();
            panic!("the server does not start: {:?}", noise.try_iter().collect::<Vec<_>>());
        };
        fs::write(place.path().join("port"), main.port().to_string()).unwrap();
        let target = Target { addr: main, mode };
        Self { child, place, target, ops, noise, reports_read: 0, descriptors: None }
    }

    /// Returns the folder that its programs share.
    pub(crate) fn place(&self) -> &Path {
        self.place.path()
    }

    /// Returns how the process ended, if it has.
    pub(crate) fn death(&mut self) -> Option<String> {
        let status = self.child.try_wait().unwrap()?;
        Some(match status.signal() {
            Some(signal) => format!("the server died of signal {signal}"),
            None => format!("the server ended: {status}"),
        })
    }

    /// Returns the failures that programs and the server have reported since the last call.
    pub(crate) fn reports(&mut self) -> Vec<String> {
        let text = fs::read_to_string(self.place.path().join("reports")).unwrap_or_default();
        let fresh = text[self.reports_read..].lines().map(str::to_owned).collect::<Vec<_>>();
        self.reports_read = text.len();
        fresh.into_iter().chain(self.noise.try_iter()).collect()
    }

    /// Waits until the server is at rest; returns what is wrong by then.
    pub(crate) fn violations_at_rest(&mut self) -> Vec<String> {
        let until = Instant::now() + REST;
        loop {
            let violations = self.look();
            if violations.is_empty() || Instant::now() > until || self.death().is_some() {
                return violations;
            }
            self.collect();
            std::thread::sleep(LOOK_AGAIN);
        }
    }

    /// Has workers collect: garbage may hold descriptors until its worker has enough of it.
    fn collect(&self) {
        let main = self.target.addr;
        std::thread::scope(|scope| {
            for _ in 0..COLLECTORS {
                scope.spawn(move || client::get(main, "/chaos?id=collector"));
            }
        });
    }

    /// Returns how many requests have ended, with an answer or without a client.
    pub(crate) fn ended(&self) -> f64 {
        client::get(self.ops, "/metrics").map_or(f64::NAN, |text| value_of(&text, ENDED))
    }

    /// Waits until `ended` requests have ended, and at most `parked` of their scripts still wait.
    pub(crate) fn wait_until_ended(&mut self, ended: f64, parked: f64) {
        let until = Instant::now() + REST;
        while Instant::now() < until && self.death().is_none() {
            let is_over = client::get(self.ops, "/metrics").is_some_and(|text| {
                let fibers = value_of(&text, FIBERS);
                value_of(&text, ENDED) >= ended
                    && value_of(&text, QUEUED) == 0.0
                    // In classic mode, requests are not fibers.
                    && (fibers <= parked || fibers.is_nan())
            });
            if is_over {
                return;
            }
            std::thread::sleep(LOOK_AGAIN);
        }
    }

    fn look(&mut self) -> Vec<String> {
        if self.death().is_some() {
            return Vec::new();
        }
        // The server may die at any moment, which is then the report.
        let Some(text) = client::get(self.ops, "/metrics") else { return vec!["no metrics".into()] };
        let value = |series: &str| value_of(&text, series);
        let mut violations = Vec::new();
        for series in [
            FIBERS,
            "svc_busy_workers ",
            "svc_pending_requests ",
            QUEUED,
            "svc_active_connections ",
            "svc_spool_bytes ",
            "svc_reply_memory_bytes ",
            "svc_log_records_dropped_total ",
        ] {
            let is_of_other_mode = self.target.mode == Mode::Classic && series.starts_with("svc_worker_");
            // This connection is not one of the main port.
            if value(series) != 0.0 && !is_of_other_mode {
                violations.push(format!("at rest {series} is {}", value(series)));
            }
        }
        let refusals = text.lines().filter(|line| line.starts_with("svc_admission_refused_total{"));
        violations.extend(refusals.filter(|line| !line.ends_with(" 0")).map(str::to_owned));
        violations.extend(violations_of_tasks(value));
        if value("svc_workers_current ") != value("svc_workers_min ") {
            violations.push(format!("at rest there are {} workers", value("svc_workers_current ")));
        }
        let descriptors = value("process_open_fds ");
        match self.descriptors {
            Some(first) if descriptors > first + DESCRIPTORS_MORE => {
                let kinds = self.open_files();
                violations.push(format!(
                    "at rest {descriptors} descriptors are open, and first it was {first}: {kinds:?}"
                ));
            }
            None if violations.is_empty() => self.descriptors = Some(descriptors),
            _ => {}
        }
        violations
    }

    /// Returns how many descriptors of each kind are open.
    fn open_files(&self) -> BTreeMap<String, usize> {
        let mut kinds = BTreeMap::new();
        let directory = fs::read_dir(format!("/proc/{}/fd", self.child.id()));
        for entry in directory.into_iter().flatten().flatten() {
            let target = fs::read_link(entry.path()).unwrap_or_default();
            let kind = target.to_string_lossy().replace(|c: char| c.is_ascii_digit(), "");
            *kinds.entry(kind).or_default() += 1;
        }
        kinds
    }

    /// Shuts the server down; returns what went wrong.
    pub(crate) fn stop(mut self) -> Vec<String> {
        let pid = rustix::process::Pid::from_child(&self.child);
        // The server may have exited already, which the wait below reports.
        let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
        let until = Instant::now() + Duration::from_secs(60);
        while self.child.try_wait().unwrap().is_none() && Instant::now() < until {
            std::thread::sleep(LOOK_AGAIN);
        }
        let mut found = self.reports();
        match self.child.try_wait().unwrap() {
            Some(status) if status.success() => {}
            Some(status) => found.push(format!("the server ended with {status}")),
            None => found.push("the server does not end".into()),
        }
        found
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // The server may have exited already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Returns the sum of the series whose lines have this prefix; NaN if there are none.
fn value_of(metrics: &str, series: &str) -> f64 {
    let lines = metrics.lines().filter(|line| line.starts_with(series) && !line.starts_with('#'));
    let values: Vec<f64> = lines.filter_map(|line| line.rsplit(' ').next()?.parse().ok()).collect();
    if values.is_empty() { f64::NAN } else { values.into_iter().sum() }
}

/// Returns an inconsistency of the task metrics, once no task is in flight.
fn violations_of_tasks(value: impl Fn(&str) -> f64) -> Option<String> {
    let of = |what: &str| {
        let number = value(&format!("svc_async_tasks_{what} "));
        // The counters appear with the first task.
        if number.is_nan() && what.ends_with("_total") { 0.0 } else { number }
    };
    let [dispatched, completed, failed, cancelled, stranded, rejected] =
        ["dispatched", "completed", "failed", "cancelled", "stranded", "rejected"]
            .map(|counter| of(&format!("{counter}_total")));
    let in_flight = of("in_flight");
    let are_right = in_flight == 0.0
        && dispatched == completed + failed + cancelled
        && stranded <= cancelled
        && rejected == 0.0;
    let counts = format!(
        "{in_flight} tasks are in flight, {dispatched} were dispatched, {completed} completed, {failed} failed, \
         {cancelled} cancelled, {stranded} stranded, {rejected} rejected"
    );
    (!are_right).then(|| format!("at rest {counts}"))
}

type Ready = mpsc::Receiver<(SocketAddr, SocketAddr)>;

fn launch(
    place: &TempDir,
    root: &Path,
    mode: Mode,
    workers: &str,
    directives: &[String],
) -> (Child, mpsc::Receiver<String>, Ready) {
    let is_classic = mode == Mode::Classic;
    let mut command = command(
        root,
        &[
            ("WORKER_MODE_ENABLED", if is_classic { "false" } else { "true" }),
            ("ENTRY_FILE", "worker.php"),
            ("PHP_WORKERS", if is_classic { "8" } else { workers }),
            // The model predicts no refusals, even on a slow machine, where programs that leave shorten this to a 64th.
            ("QUEUE_WAIT_TIMEOUT_MS", "600000"),
            ("RUNTIME_HOOKS", if mode == Mode::Hooks { "all" } else { "" }),
            ("ASYNC_WORKERS", workers),
            ("ASYNC_ENTRY_FILE", root.join("tasks.php").to_str().unwrap()),
            ("ASYNC_MAX_FIBERS", "65536"),
            ("ASYNC_QUEUE_CAPACITY", "65536"),
            ("CHAOS_REPORTS", place.path().join("reports").to_str().unwrap()),
            ("CHAOS_FOLDER", place.path().to_str().unwrap()),
        ],
    );
    if let Ok(value) = std::env::var("CHAOS_ABORT") {
        command.env("CHAOS_ABORT", value);
    }
    let sessions = format!("session.save_path={}", place.path().join("sessions").display());
    for directive in [
        sessions.as_str(),
        "session.use_cookies=0",
        "session.use_strict_mode=0",
        "session.cache_limiter=",
        "memory_limit=512M",
        "max_execution_time=90",
        "html_errors=0",
        "session.gc_probability=0",
    ] {
        command.args(["-d", directive]);
    }
    for directive in directives {
        command.args(["-d", directive]);
    }
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let (noise, heard) = mpsc::channel();
    let (ready, is_ready) = mpsc::channel();
    let said = noise.clone();
    let (stdout, stderr) = (child.stdout.take().unwrap(), child.stderr.take().unwrap());
    std::thread::spawn(move || listen(stdout, &said, &ready));
    std::thread::spawn(move || {
        let mut copy = copy();
        for line in BufReader::new(stderr).lines().map_while(Result::ok) {
            if let Some(file) = &mut copy {
                let _ = writeln!(file, "{line}");
            }
            let _ = noise.send(format!("on standard error: {line}"));
        }
    });
    (child, heard, is_ready)
}

/// Opens the file of `CHAOS_LOG`, which gets a copy of all servers' output.
fn copy() -> Option<fs::File> {
    fs::File::options().append(true).create(true).open(std::env::var_os("CHAOS_LOG")?).ok()
}

fn listen(stdout: impl Read, noise: &mpsc::Sender<String>, ready: &mpsc::Sender<(SocketAddr, SocketAddr)>) {
    let mut addresses = Vec::new();
    let mut copy = copy();
    for line in BufReader::new(stdout).lines().map_while(Result::ok) {
        if let Some(file) = &mut copy {
            let _ = writeln!(file, "{line}");
        }
        let Ok(record) = serde_json::from_str::<Value>(&line) else {
            let _ = noise.send(format!("no record: {line}"));
            continue;
        };
        let fields = &record["fields"];
        let message = fields["message"].as_str().unwrap_or_default();
        if let Some(addr) = fields["addr"].as_str().filter(|_| message.ends_with("port is listening")) {
            addresses.push((message.starts_with("main"), addr.parse::<SocketAddr>().unwrap()));
        }
        if message == "svc is ready" {
            let of = |is_main: bool| addresses.iter().find(|(main, _)| *main == is_main).unwrap().1;
            let _ = ready.send((of(true), of(false)));
        }
        if message.contains("panic")
            || message.contains("Call to ")
            || message.contains("Undefined ")
            || message.contains("TypeError")
        {
            let _ = noise.send(format!("in the log: {line}"));
        }
    }
}
