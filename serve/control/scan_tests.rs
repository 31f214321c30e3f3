//! The scan of a server without sockets, second by second, with a clock that the test controls.

use std::io::{self, PipeReader, Read};
use std::time::Duration;

use super::*;
use crate::Phase;
use crate::fixture::{Nobody, exchange};
use crate::ops::facts::OpsFacts;
use crate::ops::port::OpsSource;
use svc_core::admission::{OfferOutcome, ShedReason};
use svc_core::config::{AccessLog, Level, RawConfig};
use svc_core::limits::REQUEST_FIBERS_MAX;
use svc_core::observe::exposition::Format;
use svc_core::observe::{HealthProbe, WorkerHealth};
use svc_core::policy::Policy;
use svc_core::pool::{
    Directive, Engine, Exchange, JobSource, PersistentWorker, PoolEvents, PoolSize, RecycleReason, Started,
    Worker, WorkerContext, WorkerExit, WorkerPool, WorkerStartError,
};
use svc_core::sync::counter::Flag;
use svc_core::sync::event_count::EventCount;
use svc_core::sync::idle_workers::{IdleWorkers, Wake};
use svc_core::sync::primitive::{Arc, AtomicU32, Ordering};

/// The message that follows the first episode.
const HINT: &str =
    "this setting and the number of PHP_WORKERS determine when the server starts shedding requests";

/// A server that serves, and its scan.
struct ScanScene {
    shared: Arc<Shared>,
    scan: Scan,
    now: Instant,
    log: PipeReader,
}

impl ScanScene {
    fn new(settings: &[(&str, &str)], worker_mode: bool) -> Self {
        let defaults = [("DOCUMENT_ROOT", "/"), ("SPOOL_DIR", "/tmp"), ("QUEUE_CAPACITY", "8")];
        let mut config = Config::resolve(&RawConfig::new(defaults.iter().chain(settings).copied())).unwrap();
        config.php.worker_mode_enabled = worker_mode;
        let (log, writer) = io::pipe().unwrap();
        let writer = Log::start(Level::Info, AccessLog::Off, writer).unwrap();
        let shared = Shared::new(Arc::new(config), Policy::default(), None, writer, None);
        shared.lifecycle.enter(Phase::Running);
        Self { scan: Scan::new(&shared.config), now: shared.started_at, shared, log }
    }

    fn second(&mut self) {
        self.now += Duration::from_secs(1);
        assert_eq!(self.scan.scan(&self.shared, self.now), self.now + CONTROL_TICK);
    }

    fn seconds(&mut self, count: u32) {
        (0..count).for_each(|_| self.second());
    }

    fn refuse(&self, reason: ShedReason, count: u64) {
        (0..count).for_each(|_| self.shared.metrics.refused.incr(reason));
    }

    /// Offers the request of a client without a wait limit.
    fn offer(&self) -> OfferOutcome {
        self.shared.backend.pool().unwrap().gate.offer(exchange(self.now, self.shared.spool.clone()))
    }

    /// A worker takes the oldest request.
    fn take(&self) {
        assert!(self.shared.backend.pool().unwrap().gate.try_take().is_some());
    }

    fn budget(&self) -> Duration {
        self.shared.gate_facts().unwrap().wait_budget
    }

    /// Returns the logged messages, each with `pick`ed fields.
    fn logged(mut self, pick: &[&str]) -> Vec<(String, Vec<u64>)> {
        assert!(self.shared.log.shutdown());
        let mut text = String::new();
        self.log.read_to_string(&mut text).unwrap();
        let record = |line: &str| {
            let record: serde_json::Value = serde_json::from_str(line).unwrap();
            let fields = &record["fields"];
            let numbers = pick.iter().filter_map(|name| fields[name].as_u64()).collect();
            (fields["message"].as_str().unwrap().to_owned(), numbers)
        };
        text.lines().map(record).collect()
    }
}

/// A pool whose threads are alive but never take a job.
#[derive(Debug)]
struct Stuck {
    idle_workers: IdleWorkers,
    released: Flag,
}

impl JobSource<Exchange> for Stuck {
    fn try_take(&self) -> Option<Arc<Exchange>> {
        None
    }
    fn is_empty(&self) -> bool {
        true
    }
    fn backlog(&self) -> usize {
        0
    }
    fn is_queue_closed(&self) -> bool {
        self.released.is_set()
    }
    fn idle_workers(&self) -> &IdleWorkers {
        &self.idle_workers
    }
}

impl Stuck {
    fn start(shared: &Shared) -> Arc<Self> {
        let size = PoolSize { min: 2, max: 2 };
        let stuck = Arc::new(Self { idle_workers: IdleWorkers::new(size.slots()), released: Flag::new() });
        let (engine, events): (Arc<dyn Engine<Exchange>>, Arc<dyn PoolEvents<Exchange>>) =
            (Arc::new(Idle), Arc::new(Nobody));
        let source: Arc<dyn JobSource<Exchange>> = Arc::<Self>::clone(&stuck);
        let workers = WorkerPool::start("svc-php", size, &engine, source, &events).unwrap();
        shared.backend.pool().unwrap().set_workers(workers);
        stuck
    }

    fn end(&self, shared: &Shared) {
        self.released.set();
        self.idle_workers.wake_all();
        assert!(shared.backend.workers().unwrap().join());
    }
}

#[derive(Debug)]
struct Idle;

impl Engine<Exchange> for Idle {
    fn start(&self, _slot: usize) -> Result<Started<Exchange>, WorkerStartError> {
        Ok(Started::Classic(Box::new(Self)))
    }
}

impl Worker<Exchange> for Idle {
    fn serve(&mut self, _exchange: &Arc<Exchange>) {}
}

#[test]
fn it_checks_once_a_second_however_often_it_is_called() {
    let mut scene = ScanScene::new(&[], false);
    scene.second();
    scene.refuse(ShedReason::QueueFull, 3);
    let due = scene.now + CONTROL_TICK;
    for ms in [0, 1, 500, 999] {
        assert_eq!(scene.scan.scan(&scene.shared, scene.now + Duration::from_millis(ms)), due);
    }
    scene.refuse(ShedReason::QueueFull, 1);
    scene.second();
    let logged = scene.logged(&["refused", "value"]);
    let started = ("PHP admission has started shedding requests under overload".to_owned(), vec![4]);
    assert_eq!(logged, [started, (HINT.to_owned(), vec![8])]);
}

#[test]
fn a_late_scan_catches_up_with_nothing() {
    let mut scene = ScanScene::new(&[], false);
    scene.second();
    scene.now += Duration::from_secs(30);
    scene.second();
}

#[test]
fn an_executor_without_a_queue_is_not_checked() {
    let mut scene = ScanScene::new(&[("EXECUTOR", "stub")], true);
    scene.refuse(ShedReason::QueueFull, 3);
    scene.seconds(100);
    assert!(scene.logged(&[]).is_empty());
}

#[test]
fn an_episode_is_logged_from_start_to_end() {
    let mut scene = ScanScene::new(&[], false);
    scene.refuse(ShedReason::WaitTimeout, 5);
    scene.refuse(ShedReason::WaitingFull, 2);
    scene.refuse(ShedReason::ShuttingDown, 100);
    scene.seconds(60);
    scene.refuse(ShedReason::WaitingBytes, 1);
    scene.second();
    scene.seconds(60);
    scene.refuse(ShedReason::PoolUnavailable, 100);
    scene.seconds(100);
    let fields = [
        "refused",
        "refused_wait_timeout",
        "queue_capacity",
        "wait_budget_us",
        "episode_refused",
        "duration_ms",
        "value",
    ];
    let expected = [
        ("PHP admission has started shedding requests under overload", vec![7, 5, 8, 1_000_000]),
        (HINT, vec![1000]),
        ("PHP admission is still shedding requests under overload", vec![1, 8]),
        ("PHP admission has stopped shedding requests", vec![8, 60_000]),
    ];
    let logged = scene.logged(&fields);
    assert_eq!(logged, expected.map(|(message, numbers)| (message.to_owned(), numbers)));
}

#[test]
fn abandoned_work_lowers_the_budget_of_the_gate_and_is_recorded() {
    let mut scene = ScanScene::new(&[("QUEUE_WAIT_TIMEOUT_MS", "800")], false);
    scene.second();
    assert_eq!(scene.budget(), Duration::from_millis(800));
    for _ in 0..6 {
        scene.shared.metrics.queue_waited(Duration::ZERO);
    }
    scene.shared.metrics.departed_work_taken();
    scene.shared.metrics.departed_work_taken();
    scene.refuse(ShedReason::WaitTimeout, 1);
    scene.second();
    assert_eq!(scene.budget(), Duration::from_millis(400));
    scene.second();
    assert_eq!(scene.budget(), Duration::from_millis(500), "nothing waits: an eighth up");
    let page = String::from_utf8(OpsFacts::new(Arc::clone(&scene.shared)).metrics(Format::Text)).unwrap();
    assert!(page.contains("\nsvc_admission_wait_budget_us 500000\n"), "{page}");
    assert!(page.contains("\nsvc_admission_wait_budget_ceiling_us 800000\n"), "{page}");
    let logged = scene.logged(&["wait_budget_us", "wait_budget_ceiling_us"]);
    assert_eq!(logged[0].1, [400_000, 800_000]);
}

#[test]
fn the_budget_stays_low_while_requests_wait() {
    let settings = [("QUEUE_WAIT_TIMEOUT_MS", "800"), ("QUEUE_CAPACITY", "1")];
    let mut scene = ScanScene::new(&settings, false);
    (0..8).for_each(|_| scene.shared.metrics.departed_work_taken());
    scene.second();
    assert_eq!(scene.offer(), OfferOutcome::Queued);
    assert!(matches!(scene.offer(), OfferOutcome::Waiting(_)));
    for _ in 0..2 {
        assert_eq!(scene.budget(), Duration::from_millis(400));
        scene.seconds(10);
        scene.take();
    }
    assert_eq!(scene.budget(), Duration::from_millis(400));
    scene.second();
    assert_eq!(scene.budget(), Duration::from_millis(500));
}

#[test]
fn requests_in_the_queue_beside_idle_workers_are_a_reason_to_warn() {
    let mut scene = ScanScene::new(&[], true);
    let stuck = Stuck::start(&scene.shared);
    scene.shared.metrics.php_ran(Duration::ZERO);
    scene.offer();
    scene.seconds(3);
    stuck.end(&scene.shared);
    let logged =
        scene.logged(&["queue_depth", "queue_capacity", "admission_slots_available", "workers_idle"]);
    assert_eq!((logged.len(), logged[0].1.as_slice()), (1, [1, 8, 7, 2].as_slice()));
}

#[test]
fn a_stalled_pool_takes_the_server_out_of_service_until_something_is_finished() {
    let mut scene = ScanScene::new(&[], true);
    let stuck = Stuck::start(&scene.shared);
    let ops = OpsFacts::new(Arc::clone(&scene.shared));
    let gauge = |ops: &OpsFacts, value: u32| {
        let page = String::from_utf8(ops.metrics(Format::Text)).unwrap();
        page.contains(&format!("\nsvc_pool_stalled {value}\n"))
    };
    scene.shared.metrics.php_ran(Duration::ZERO);
    scene.second();
    for _ in 0..62 {
        assert!(ops.probe_facts().passes(HealthProbe::Readiness) && ops.health().is_ok() && gauge(&ops, 0));
        scene.refuse(ShedReason::WaitTimeout, 1);
        scene.second();
    }
    assert_eq!(ops.probe_facts().workers, WorkerHealth::Running(2));
    assert!(
        !ops.probe_facts().passes(HealthProbe::Readiness) && ops.probe_facts().passes(HealthProbe::Liveness)
    );
    assert!(!ops.health().is_ok() && gauge(&ops, 1));
    scene.shared.metrics.php_ran(Duration::ZERO);
    scene.second();
    assert!(ops.probe_facts().passes(HealthProbe::Readiness) && ops.health().is_ok() && gauge(&ops, 0));
    stuck.end(&scene.shared);
    let logged = scene.logged(&["workers_idle", "queue_capacity"]);
    let (shedding, stall): (Vec<_>, Vec<_>) =
        logged.into_iter().partition(|(text, _)| text.contains("shedding"));
    assert!(!shedding.is_empty());
    let warning =
        "PHP requests are waiting while the pool has idle workers and got nothing done since the last scan";
    let expected =
        [(warning, vec![2, 8]), (warning, vec![2, 8]), ("PHP pool is reaching workers again", vec![])];
    assert_eq!(stall, expected.map(|(text, numbers)| (text.to_owned(), numbers)));
}

#[test]
fn the_episode_of_a_wedge_ends_with_it_even_without_a_log_record() {
    let mut scene = ScanScene::new(&[], true);
    let stuck = Stuck::start(&scene.shared);
    let end = |scene: &ScanScene| {
        let episodes = scene.shared.log.episodes();
        episodes.iter().find(|one| one.kind == EpisodeKind::Wedge).map(|one| one.ended_at.is_some())
    };
    scene.shared.metrics.php_ran(Duration::ZERO);
    scene.second();
    assert_eq!(end(&scene), None);
    for _ in 0..62 {
        scene.refuse(ShedReason::WaitTimeout, 1);
        scene.second();
    }
    assert!(scene.shared.metrics.pool_stalled.is_set());
    assert_eq!(end(&scene), Some(false));
    scene.seconds(59);
    assert_eq!(end(&scene), Some(false));
    scene.seconds(1);
    assert!(!scene.shared.metrics.pool_stalled.is_set());
    assert_eq!(end(&scene), Some(true));
    stuck.end(&scene.shared);
}

/// A persistent worker whose fibers answer immediately and then run on until they are released.
#[derive(Debug, Default)]
struct LingeringPool {
    rung: AtomicU32,
    event_count: EventCount,
    let_go: Flag,
}

impl Wake for LingeringPool {
    fn wake(&self) {
        self.rung.store(1, Ordering::SeqCst);
        self.event_count.notify_all();
    }
}

struct LingeringEngine(Arc<LingeringPool>);

impl Engine<Exchange> for LingeringEngine {
    fn start(&self, _slot: usize) -> Result<Started<Exchange>, WorkerStartError> {
        Ok(Started::Persistent(Box::new(LingeringWorker(Arc::clone(&self.0)))))
    }
}

struct LingeringWorker(Arc<LingeringPool>);

impl PersistentWorker<Exchange> for LingeringWorker {
    fn waker(&self) -> Arc<dyn Wake> {
        Arc::<LingeringPool>::clone(&self.0)
    }

    fn run(&mut self, context: &WorkerContext<Exchange>) -> WorkerExit {
        let mut fibers = Vec::new();
        context.booted();
        while context.directive() == Directive::Serve {
            if self.0.let_go.is_set() {
                fibers.clear();
            }
            while let Some(mut claim) = context.try_take() {
                claim.finish();
                fibers.push(claim);
            }
            if context.prepare_park() {
                let ticket = self.0.event_count.prepare_wait();
                if self.0.rung.swap(0, Ordering::SeqCst) == 1 {
                    self.0.event_count.cancel_wait(ticket);
                } else {
                    self.0.event_count.wait(&ticket);
                }
                context.unpark(false);
            }
        }
        WorkerExit::Stopped
    }
}

/// Counts events as the server does.
struct Books(Arc<Shared>);

impl PoolEvents<Exchange> for Books {
    fn claimed(&self, _exchange: &Exchange, _now: Instant) {}
    fn skipped(&self, _exchange: &Exchange) {}
    fn served(&self, _exchange: &Exchange, ran: Duration) {
        self.0.metrics.php_ran(ran);
    }
    fn worker_failed(&self) {}
    fn recycled(&self, _slot: usize, _reason: RecycleReason) {}
    fn retired(&self, _slot: usize) {}
    fn soft_reset(&self, _slot: usize) {}
}

/// Waits until a condition that other threads establish holds.
fn until(condition: impl Fn() -> bool) {
    while !condition() {
        std::thread::yield_now();
    }
}

/// Starts a persistent pool of one worker behind the gate of `shared`.
fn start_lingering(shared: &Arc<Shared>) -> Arc<LingeringPool> {
    let lingering = Arc::<LingeringPool>::default();
    let engine: Arc<dyn Engine<Exchange>> = Arc::new(LingeringEngine(Arc::clone(&lingering)));
    let events: Arc<dyn PoolEvents<Exchange>> = Arc::new(Books(Arc::clone(shared)));
    let source: Arc<dyn JobSource<Exchange>> =
        Arc::<Gate<Arc<Exchange>>>::clone(&shared.backend.pool().unwrap().gate);
    let workers =
        WorkerPool::start("svc-php", PoolSize { min: 1, max: 1 }, &engine, source, &events).unwrap();
    shared.backend.pool().unwrap().set_workers(workers);
    lingering
}

#[test]
fn fibers_that_outlive_their_answers_stall_the_pool_until_they_end() {
    let mut scene = ScanScene::new(&[("PHP_WORKERS", "1"), ("QUEUE_CAPACITY", "400")], true);
    let lingering = start_lingering(&scene.shared);
    let (gate, full) = (Arc::clone(&scene.shared.backend.pool().unwrap().gate), REQUEST_FIBERS_MAX as u64);
    for _ in 0..REQUEST_FIBERS_MAX + 3 {
        scene.offer();
        gate.announce();
    }
    until(|| scene.shared.metrics.work_finished_total() == full);
    let facts = scene.shared.pool_facts();
    assert_eq!((gate.facts().depth, facts.busy, facts.carrying), (3, 0, 1));
    let ops = OpsFacts::new(Arc::clone(&scene.shared));
    let page = String::from_utf8(ops.metrics(Format::Text)).unwrap();
    assert!(page.contains("\nsvc_worker_request_fibers_active{worker=\"0\"} 256\n"), "{page}");
    assert!(page.contains("\nsvc_workers_idle 1\n"), "{page}");
    // One tick for comparison, two suspect ones, and a minute more.
    for _ in 0..1 + 2 + 60 {
        assert!(ops.probe_facts().passes(HealthProbe::Readiness));
        scene.second();
    }
    assert!(!ops.probe_facts().passes(HealthProbe::Readiness) && !ops.health().is_ok());
    lingering.let_go.set();
    lingering.wake();
    until(|| scene.shared.metrics.work_finished_total() == full + 3);
    scene.second();
    assert!(ops.probe_facts().passes(HealthProbe::Readiness) && ops.health().is_ok());
    gate.close_queue();
    assert!(scene.shared.backend.workers().unwrap().join());
    let logged = scene.logged(&["queue_depth", "workers_idle"]);
    let warning =
        "PHP requests are waiting while the pool has idle workers and got nothing done since the last scan";
    let expected =
        [(warning, vec![3, 1]), (warning, vec![3, 1]), ("PHP pool is reaching workers again", vec![])];
    assert_eq!(logged, expected.map(|(text, numbers)| (text.to_owned(), numbers)));
}

#[test]
fn outside_worker_mode_no_stall_is_watched_for() {
    let mut scene = ScanScene::new(&[], false);
    let stuck = Stuck::start(&scene.shared);
    scene.shared.metrics.php_ran(Duration::ZERO);
    for _ in 0..100 {
        scene.refuse(ShedReason::ShuttingDown, 1);
        scene.second();
    }
    let ops = OpsFacts::new(Arc::clone(&scene.shared));
    assert!(ops.probe_facts().passes(HealthProbe::Readiness) && ops.health().is_ok());
    assert!(!String::from_utf8(ops.metrics(Format::Text)).unwrap().contains("svc_pool_stalled"));
    stuck.end(&scene.shared);
    assert!(scene.logged(&[]).is_empty());
}
