//! The wedged pool: a worker whose fibers all belong to answered requests takes no request from the queue; and a worker
//! that several requests block: with PHP in this process, and with a clock that the test moves.
//!
//! One test, because PHP starts once per process and ends on the thread that started it.

use std::fs;
use std::io::{self, Write};
use std::net::SocketAddr;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, LazyLock, Mutex};
use std::time::{Duration, Instant};

use serde_json::Value;
use svc::boot;
use svc::commands::Exit;
use svc_core::config::{AccessLog, Config, Level, RawConfig};
use svc_core::observe::Log;
use svc_serve::Server;

use crate::ops::alerts::{impatient_rules, raises};
use crate::ops::page::{opened, says};
use svc_testing::client::{Client, Response, eventually};
use svc_testing::scraper::Collector;
use svc_testing::skip::skipped;

/// The number of requests that one worker carries.
const FIBERS: usize = 256;

const WORKER: &str = r#"<?php
ini_set('max_execution_time', 0);
foreach (['answered', 'held', 'last', 'left', 'unanswered'] as $gate) {
    posix_mkfifo(__DIR__ . "/$gate", 0600);
}
Svc\Worker::serve(function () {
    $path = $_SERVER['REQUEST_URI'];
    echo $path;
    if ($path === '/plain') {
        return;
    }
    if ($path === '/spins') {
        for ($n = 1; $n % 100000 || !file_exists(__DIR__ . '/go'); $n++) {
            if ($n % 100000 === 0) { clearstatcache(); }
        }
        return;
    }
    if ($path !== '/unanswered' && $path !== '/held') {
        svc_finish_request();
    }
    Svc\wait_readable(fopen(__DIR__ . $path, 'r+'));
});"#;

/// The control thread's clock. The test stops it, starts it and moves it.
mod clock {
    use super::{AtomicBool, AtomicU64, Duration, Instant, LazyLock, Ordering};

    static START: LazyLock<Instant> = LazyLock::new(svc_core::time::now);
    static STOPPED: AtomicBool = AtomicBool::new(false);
    static STOPPED_AT_MS: AtomicU64 = AtomicU64::new(0);
    static AHEAD_MS: AtomicU64 = AtomicU64::new(0);
    static READINGS: AtomicU64 = AtomicU64::new(0);

    fn real_ms() -> u64 {
        u64::try_from(START.elapsed().as_millis()).unwrap()
    }

    pub(super) fn now() -> Instant {
        let start = *START;
        READINGS.fetch_add(1, Ordering::SeqCst);
        let stopped = STOPPED.load(Ordering::SeqCst);
        let own_ms = if stopped { STOPPED_AT_MS.load(Ordering::SeqCst) } else { real_ms() };
        start + Duration::from_millis(own_ms + AHEAD_MS.load(Ordering::SeqCst))
    }

    pub(super) fn readings() -> u64 {
        READINGS.load(Ordering::SeqCst)
    }

    pub(super) fn stop() {
        // Ahead of every reading by a thread that has not seen the stop yet.
        STOPPED_AT_MS.store(real_ms() + 1000, Ordering::SeqCst);
        STOPPED.store(true, Ordering::SeqCst);
    }

    pub(super) fn go() {
        AHEAD_MS.fetch_add(1000, Ordering::SeqCst);
        STOPPED.store(false, Ordering::SeqCst);
    }

    pub(super) fn advance(by: Duration) {
        AHEAD_MS.fetch_add(u64::try_from(by.as_millis()).unwrap(), Ordering::SeqCst);
    }
}

/// The server as its clients and its operator see it.
struct Scene<'a> {
    main: SocketAddr,
    ops: SocketAddr,
    root: &'a Path,
    log: &'a Lines,
    /// The Prometheus server that evaluates the alert rules, if it is installed.
    collector: Option<Collector>,
}

impl Scene<'_> {
    /// Waits until an alert fires.
    #[track_caller]
    fn raises(&self, name: &str) {
        if let Some(collector) = &self.collector {
            raises(collector, self.ops, name);
        }
    }

    /// Waits until the page shows the wedged pool.
    fn shows_the_wedge(&self) {
        let Some(mut browser) = opened(self.ops) else { return };
        says(&mut browser, "state", "Pool wedged");
        says(&mut browser, "worker-rows", "answered");
        says(&mut browser, "worker-rows", "256");
        says(&mut browser, "episode-rows", "Wedged pool");
        assert_eq!(browser.faults(), [""; 0]);
    }

    fn ask(&self, path: &str) -> Response {
        Client::connect(self.ops).get(path)
    }

    fn metric(&self, series: &str) -> String {
        let page = self.ask("/metrics").text();
        let line = page.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' '));
        line.unwrap_or_else(|| panic!("no {series} in {page}")).to_owned()
    }

    /// Advances the clock by seconds, and waits until the control thread has acted on each.
    fn seconds(&self, count: u32) {
        for _ in 0..count {
            clock::advance(Duration::from_secs(1));
            let read = clock::readings();
            // Each turn of its loop begins by acting on the clock, and reads it three times in all.
            eventually("the control thread has had a look", || {
                self.ask("/healthz");
                clock::readings() > read + 3
            });
        }
    }

    /// Returns whether the server is in service; asserts that all reports agree.
    fn is_well(&self) -> bool {
        let (readiness, health) = (self.ask("/readyz").status, self.ask("/health"));
        let report: Value = serde_json::from_slice(&health.body).unwrap();
        let stalled = report["pool_stalled"].as_bool().unwrap();
        assert_eq!(self.ask("/healthz").status, 200, "liveness knows nothing of it");
        let expected = if stalled { (503, 503, "1") } else { (200, 200, "0") };
        let gauge = self.metric("svc_pool_stalled");
        assert_eq!((readiness, health.status, gauge.as_str()), expected, "{report}");
        !stalled
    }

    /// Fills the worker with requests that wait at the gate `name`, the last one at the gate `last`, and the queue with
    /// three more. Returns the clients that have no answer.
    fn fill(&self, name: &str, last: &str, is_answered: bool) -> Vec<Client> {
        let mut clients = Vec::new();
        for carried in 1..=FIBERS {
            let name = if carried == FIBERS { last } else { name };
            let mut client = Client::connect(self.main);
            client.send(format!("GET /{name} HTTP/1.1\r\nHost: x\r\n\r\n"));
            eventually("the worker carries it", || self.carried() == carried);
            if is_answered {
                assert_eq!(client.response().text(), format!("/{name}"));
            } else {
                clients.push(client);
            }
        }
        for _ in 0..3 {
            let mut client = Client::connect(self.main);
            client.send("GET /plain HTTP/1.1\r\nHost: x\r\n\r\n");
            clients.push(client);
        }
        eventually("three wait", || self.metric("svc_queue_depth") == "3");
        clients
    }

    /// Returns how often a request was counted as blocking its worker: by the system, by the script, by a function.
    fn stuck(&self) -> [String; 3] {
        ["io", "cpu", "c_call"]
            .map(|kind| self.metric(&format!(r#"svc_worker_stuck_total{{worker_id="0",kind="{kind}"}}"#)))
    }

    /// Waits until the worker has executed much more of the spinning script.
    fn spin(&self) {
        let before = cpu_ticks("svc-php-0");
        eventually("the script spins", || cpu_ticks("svc-php-0") > before + 1);
    }

    fn carried(&self) -> usize {
        self.metric("svc_worker_request_fibers_active{worker=\"0\"}").parse().unwrap()
    }

    fn let_go(&self, name: &str) {
        let mut gate = fs::OpenOptions::new().write(true).open(self.root.join(name)).unwrap();
        gate.write_all(b"!").unwrap();
    }

    /// Returns the fields of the records with this message.
    fn told(&self, message: &str) -> Vec<Value> {
        let lines = self.log.0.lock().unwrap().clone();
        let records = lines.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
        let fields = records.map(|line| {
            let record: Value = serde_json::from_slice(line).unwrap();
            (record["level"].as_str().unwrap().to_owned(), record["fields"].clone())
        });
        fields
            .filter(|(_, fields)| fields["message"] == message)
            .map(|(level, mut fields)| {
                fields["level"] = level.into();
                fields
            })
            .collect()
    }
}

/// Returns the time that a thread of this process has spent in user mode.
fn cpu_ticks(name: &str) -> u64 {
    let tasks = fs::read_dir("/proc/self/task").unwrap();
    // A thread that has just ended has no files.
    let read = |task: &Path, file| fs::read_to_string(task.join(file)).unwrap_or_default();
    let task = tasks.map(|task| task.unwrap().path()).find(|task| read(task, "comm").trim() == name);
    let stat = read(&task.unwrap_or_else(|| panic!("there is no thread {name}")), "stat");
    let behind_its_name = stat.rsplit_once(')').unwrap().1;
    behind_its_name.split_whitespace().nth(11).unwrap().parse().unwrap()
}

const WARNING: &str =
    "PHP requests are waiting while the pool has idle workers and got nothing done since the last scan";
const STUCK: &str = "PHP worker is stuck in a request";
const RECOVERED: &str = "PHP pool is reaching workers again";

/// The server's log.
#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<u8>>>);

impl Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn each_of_several_requests_that_hold_a_worker_up_is_sorted_once(scene: &Scene<'_>) {
    let send = |path: &str| {
        let mut client = Client::connect(scene.main);
        client.send(format!("GET {path} HTTP/1.1\r\nHost: x\r\n\r\n"));
        client
    };
    let mut held = Vec::new();
    for carried in 1..=2 {
        held.push(send("/held"));
        eventually("the worker carries it", || scene.carried() == carried);
    }
    let mut spins = send("/spins");
    scene.spin();
    assert_eq!(scene.stuck(), ["0", "0", "0"]);
    let mut looks = 0;
    while scene.stuck() != ["2", "1", "0"] {
        assert!(looks < 70, "{:?} after {looks} s", scene.stuck());
        scene.spin();
        scene.seconds(1);
        looks += 1;
    }
    let long_running =
        || scene.metric(r#"svc_worker_long_running_total{worker_id="0"}"#).parse::<u64>().unwrap();
    let before = long_running();
    for _ in 0..3 {
        scene.spin();
        scene.seconds(1);
    }
    assert_eq!((scene.stuck(), long_running() - before), (["2", "1", "0"].map(String::from), 3));
    assert!(scene.is_well(), "nothing is done about it");
    eventually("the log says so", || scene.told(STUCK).len() == 3);
    let mut told: Vec<_> =
        scene.told(STUCK).iter().map(|fields| format!("{} {}", fields["kind"], fields["path"])).collect();
    told.sort();
    // SvcRequestsStuck needs requests that are a minute old by the real clock; promtool tests it.
    assert_eq!(told, [r#""cpu" "/spins""#, r#""io" "/held""#, r#""io" "/held""#]);
    fs::write(scene.root.join("go"), "").unwrap();
    assert_eq!(spins.response().text(), "/spins");
    scene.let_go("held");
    for client in &mut held {
        assert_eq!(client.response().text(), "/held");
    }
    scene.seconds(1);
    assert_eq!(scene.stuck(), ["2", "1", "0"]);
}

fn requests_without_an_answer_keep_a_worker_busy(scene: &Scene<'_>) {
    let mut clients = scene.fill("unanswered", "unanswered", false);
    assert_eq!(
        (scene.metric("svc_busy_workers"), scene.metric("svc_workers_idle")),
        ("1".into(), "0".into())
    );
    scene.seconds(130);
    assert!(scene.is_well());
    assert!(scene.told(WARNING).is_empty());
    scene.let_go("unanswered");
    for client in &mut clients {
        assert_eq!(client.response().status, 200);
    }
}

fn requests_with_an_answer_wedge_the_pool_until_they_end(scene: &Scene<'_>) {
    let mut clients = scene.fill("answered", "answered", true);
    assert_eq!(
        (scene.metric("svc_busy_workers"), scene.metric("svc_workers_idle")),
        ("0".into(), "1".into())
    );
    // One check to compare with, and one suspicious check.
    scene.seconds(2);
    assert!(scene.told(WARNING).is_empty());
    scene.seconds(1);
    eventually("the log says so", || scene.told(WARNING).len() == 1);
    let warning = &scene.told(WARNING)[0];
    let numbers = ["queue_depth", "workers_idle", "queue_capacity", "admission_slots_available"];
    assert_eq!(numbers.map(|name| warning[name].as_u64().unwrap()), [3, 1, 8, 5], "{warning}");
    assert_eq!(warning["level"], "WARN");
    scene.seconds(59);
    assert!(scene.is_well(), "for a minute it is a suspicion");
    scene.seconds(1);
    assert!(!scene.is_well());
    for name in ["SvcFibersExhausted", "SvcPoolWedged", "SvcQueueNotTaken"] {
        scene.raises(name);
    }
    scene.shows_the_wedge();
    scene.seconds(60);
    eventually("it is logged once a minute", || scene.told(WARNING).len() == 3);
    assert!(!scene.is_well() && scene.told(RECOVERED).is_empty());
    scene.let_go("answered");
    for client in &mut clients {
        assert_eq!(client.response().text(), "/plain");
    }
    scene.seconds(1);
    assert!(scene.is_well());
    eventually("the log says so", || scene.told(RECOVERED).len() == 1);
    assert_eq!(scene.told(RECOVERED)[0]["level"], "INFO");
}

fn a_handler_that_ends_long_after_its_answer_ends_the_wedge(scene: &Scene<'_>) {
    let clients = scene.fill("left", "last", true);
    scene.seconds(63);
    assert!(!scene.is_well());
    drop(clients);
    eventually("they are gone", || scene.metric("svc_pending_requests") == "0");
    scene.seconds(120);
    assert!(!scene.is_well(), "what is in the queue was never looked at");
    // Its handler ends, and the worker finds that the clients of the others are gone.
    scene.let_go("last");
    eventually("nothing is queued", || scene.metric("svc_queue_depth") == "0");
    scene.seconds(1);
    assert!(scene.is_well());
    eventually("the log says so", || scene.told(RECOVERED).len() == 2);
    scene.let_go("left");
}

#[test]
fn stuck_requests_and_a_wedged_pool_are_reported() {
    let root = tempfile::tempdir().unwrap();
    fs::write(root.path().join("worker.php"), WORKER).unwrap();
    let settings = [
        ("DOCUMENT_ROOT", root.path().to_str().unwrap()),
        ("ENTRY_FILE", "worker.php"),
        ("INTERNAL_ADDR", "127.0.0.1:0"),
        ("LISTEN_ADDR", "127.0.0.1:0"),
        ("PHP_WORKERS", "1"),
        ("QUEUE_CAPACITY", "8"),
        ("QUEUE_WAIT_TIMEOUT_MS", "600000"),
        ("WORKER_MODE_ENABLED", "true"),
    ];
    let config = Arc::new(Config::resolve(&RawConfig::new(settings)).unwrap());
    let lines = Lines::default();
    let log = Log::start(Level::Info, AccessLog::Off, lines.clone()).unwrap();
    let mut result = Ok(());
    let exit = boot::run(&config, &log, clock::now, |server: &Server| {
        let (main, ops) = (server.main_addr(), server.ops_addr().unwrap());
        result = catch_unwind(AssertUnwindSafe(|| {
            let collector = Collector::watch(&[ops], &impatient_rules());
            if collector.is_none() {
                skipped("prometheus is not installed");
            }
            let scene = Scene { main, ops, root: root.path(), log: &lines, collector };
            let mut first = Client::connect(main);
            assert_eq!(first.get("/plain").status, 200, "before that nothing is watched for");
            if let Some(collector) = &scene.collector {
                eventually("it has been scraped", || collector.query("svc_requests_total") == Some(1.0));
            }
            clock::stop();
            each_of_several_requests_that_hold_a_worker_up_is_sorted_once(&scene);
            requests_without_an_answer_keep_a_worker_busy(&scene);
            requests_with_an_answer_wedge_the_pool_until_they_end(&scene);
            a_handler_that_ends_long_after_its_answer_ends_the_wedge(&scene);
        }));
        clock::go();
        let _ = fs::write(root.path().join("go"), "");
        // Releases requests that a failed test has left waiting.
        for gate in ["answered", "held", "last", "left", "unanswered"] {
            let _ = fs::OpenOptions::new()
                .read(true)
                .write(true)
                .open(root.path().join(gate))
                .and_then(|mut gate| gate.write(b"!"));
        }
    });
    log.shutdown();
    if let Err(panic) = result {
        resume_unwind(panic);
    }
    assert_eq!(exit, Exit::Well);
}
