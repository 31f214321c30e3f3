//! A pool whose jobs are sums instead of HTTP exchanges, with the gate, queue, workers and supervisor of the server.
//!
//! Only the job and the engine differ from those of the server. The engine follows the sum: it waits until the test
//! releases it, panics, or keeps its claim beyond the end of its worker.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU8, AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use svc_core::admission::{Gate, OfferOutcome, Offered, ShedReason, Ticket, WaitingLimits};
use svc_core::pool::{
    Claim, Directive, Engine, Job, JobSource, NotClaimed, PersistentWorker, PoolEvents, PoolSize,
    RecycleReason, Started, Supervisor, SupervisorReport, Worker, WorkerContext, WorkerExit, WorkerPool,
    WorkerStartError,
};
use svc_core::sync::event_count::EventCount;
use svc_core::sync::idle_workers::Wake;
use svc_core::time;

const OFFERED: u8 = 0;
const RUNNING: u8 = 1;
const DONE: u8 = 2;
const FAILED: u8 = 3;
const CANCELLED: u8 = 4;

/// The engine's action for a sum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SumAct {
    Add,
    /// Adds once the test releases it.
    AddLater,
    Panic,
}

/// The job: two numbers, and the result.
#[derive(Debug)]
struct Sum {
    act: SumAct,
    numbers: [i64; 2],
    result: AtomicI64,
    state: AtomicU8,
    claims: AtomicU32,
    serial: AtomicU64,
    is_abandoned: AtomicBool,
}

impl Sum {
    fn new(act: SumAct, numbers: [i64; 2]) -> Arc<Self> {
        Arc::new(Self {
            act,
            numbers,
            result: AtomicI64::new(0),
            state: AtomicU8::new(OFFERED),
            claims: AtomicU32::new(0),
            serial: AtomicU64::new(0),
            is_abandoned: AtomicBool::new(false),
        })
    }

    fn compute(&self) {
        self.result.store(self.numbers.iter().sum(), Ordering::SeqCst);
        let _ = self.step(RUNNING, DONE);
    }

    /// Cancels the job; returns true if no worker has claimed it.
    fn cancel(&self) -> bool {
        self.step(OFFERED, CANCELLED)
    }

    fn step(&self, from: u8, to: u8) -> bool {
        self.state.compare_exchange(from, to, Ordering::SeqCst, Ordering::SeqCst).is_ok()
    }

    fn state(&self) -> u8 {
        self.state.load(Ordering::SeqCst)
    }

    fn result(&self) -> Option<i64> {
        (self.state() == DONE).then(|| self.result.load(Ordering::SeqCst))
    }
}

impl Job for Sum {
    fn claim(&self, serial: u64, _now: Instant) -> Result<(), NotClaimed> {
        if !self.step(OFFERED, RUNNING) {
            return Err(NotClaimed);
        }
        self.claims.fetch_add(1, Ordering::SeqCst);
        self.serial.store(serial, Ordering::SeqCst);
        Ok(())
    }

    fn is_settled(&self) -> bool {
        self.state() > RUNNING
    }

    fn fail(&self) {
        let _ = self.step(RUNNING, FAILED);
    }

    fn is_abandoned(&self) -> bool {
        self.is_abandoned.load(Ordering::SeqCst)
    }
}

impl Offered for Sum {
    fn parked_bytes(&self) -> u64 {
        0
    }
    fn promote(&self) -> bool {
        self.state() == OFFERED
    }
    fn park(&self) {}
}

/// Synchronizes a test with its workers.
#[derive(Debug, Default)]
struct Board {
    changed: EventCount,
    let_go: AtomicBool,
    boots: AtomicU32,
    boots_to_fail: AtomicU32,
    /// Workers that have started do not finish their boot.
    holds_boots: AtomicBool,
    claimed: AtomicU32,
    skipped: AtomicU32,
    served: AtomicU32,
    failed: AtomicU32,
    recycled: AtomicU32,
}

impl Board {
    fn count(&self, counter: &AtomicU32) {
        counter.fetch_add(1, Ordering::SeqCst);
        self.tell();
    }

    fn tell(&self) {
        self.changed.notify_all();
    }

    fn until(&self, condition: impl Fn() -> bool) {
        loop {
            let ticket = self.changed.prepare_wait();
            if condition() {
                return self.changed.cancel_wait(ticket);
            }
            self.changed.wait(&ticket);
        }
    }

    fn let_go(&self) {
        self.let_go.store(true, Ordering::SeqCst);
        self.tell();
    }

    fn is_let_go(&self) -> bool {
        self.let_go.load(Ordering::SeqCst)
    }
}

impl PoolEvents<Sum> for Board {
    fn claimed(&self, _job: &Sum, _now: Instant) {
        self.count(&self.claimed);
    }
    fn skipped(&self, _job: &Sum) {
        self.count(&self.skipped);
    }
    fn served(&self, _job: &Sum, _ran: Duration) {
        self.count(&self.served);
    }
    fn worker_failed(&self) {
        self.count(&self.failed);
    }
    fn recycled(&self, _slot: usize, _reason: RecycleReason) {
        self.count(&self.recycled);
    }
    fn retired(&self, _slot: usize) {}
    fn soft_reset(&self, _slot: usize) {}
}

/// The engine of both kinds of workers.
#[derive(Debug)]
struct Adders {
    board: Arc<Board>,
    is_persistent: bool,
}

impl Engine<Sum> for Adders {
    fn start(&self, _slot: usize) -> Result<Started<Sum>, WorkerStartError> {
        let fewer = |count: u32| count.checked_sub(1);
        let fails = self.board.boots_to_fail.fetch_update(Ordering::SeqCst, Ordering::SeqCst, fewer).is_ok();
        // Counted after its outcome is decided: a test that has seen the boot may let the next one fail.
        self.board.count(&self.board.boots);
        if fails {
            return Err(WorkerStartError("no boot allowed".to_owned()));
        }
        let board = Arc::clone(&self.board);
        Ok(if self.is_persistent {
            Started::Persistent(Box::new(PersistentAdder {
                board,
                waker: Arc::default(),
                waiting: Vec::new(),
            }))
        } else {
            Started::Classic(Box::new(Adder(board)))
        })
    }
}

struct Adder(Arc<Board>);

impl Worker<Sum> for Adder {
    fn serve(&mut self, job: &Arc<Sum>) {
        match job.act {
            SumAct::Add => {}
            SumAct::AddLater => self.0.until(|| self.0.is_let_go()),
            SumAct::Panic => panic!("on request"),
        }
        job.compute();
    }
}

/// Keeps several sums in flight: those that wait for the test are its parked fibers.
struct PersistentAdder {
    board: Arc<Board>,
    waker: Arc<WakeFlag>,
    waiting: Vec<Claim<Sum>>,
}

#[derive(Debug, Default)]
struct WakeFlag {
    is_set: AtomicBool,
    changed: EventCount,
}

impl Wake for WakeFlag {
    fn wake(&self) {
        self.is_set.store(true, Ordering::SeqCst);
        self.changed.notify_one();
    }
}

impl WakeFlag {
    fn wait(&self) {
        loop {
            let ticket = self.changed.prepare_wait();
            if self.is_set.swap(false, Ordering::SeqCst) {
                return self.changed.cancel_wait(ticket);
            }
            self.changed.wait(&ticket);
        }
    }
}

impl PersistentWorker<Sum> for PersistentAdder {
    fn waker(&self) -> Arc<dyn Wake> {
        Arc::<WakeFlag>::clone(&self.waker)
    }

    fn run(&mut self, context: &WorkerContext<Sum>) -> WorkerExit {
        self.board.until(|| !self.board.holds_boots.load(Ordering::SeqCst));
        context.booted();
        loop {
            while let Some(mut claim) = context.try_take() {
                claim.run();
                match claim.job().act {
                    SumAct::Add => {
                        claim.job().compute();
                        claim.finish();
                    }
                    SumAct::AddLater => {
                        claim.park();
                        self.waiting.push(claim);
                    }
                    SumAct::Panic => panic!("on request"),
                }
            }
            if self.board.is_let_go() {
                for mut claim in self.waiting.drain(..) {
                    claim.run();
                    claim.job().compute();
                    claim.finish();
                }
            }
            match context.directive() {
                Directive::Drain if context.fibers() == 0 => return WorkerExit::Stopped,
                Directive::Stop => return WorkerExit::Stopped,
                _ => {}
            }
            if context.prepare_park() {
                self.waker.wait();
                context.unpark(false);
            }
        }
    }
}

/// A running pool of sums.
struct SumPool {
    gate: Arc<Gate<Arc<Sum>>>,
    workers: WorkerPool<Sum>,
    board: Arc<Board>,
    supervisor: Supervisor,
    reports: Vec<String>,
}

impl SumPool {
    fn start(size: PoolSize, capacity: usize, is_persistent: bool) -> Self {
        Self::start_with(size, capacity, is_persistent, Arc::default())
    }

    fn start_with(size: PoolSize, capacity: usize, is_persistent: bool, board: Arc<Board>) -> Self {
        let limits = WaitingLimits { count_max: 1, bytes_max: 0 };
        let gate = Arc::new(Gate::new(capacity, size.slots(), limits, Duration::from_secs(60)));
        let engine: Arc<dyn Engine<Sum>> = Arc::new(Adders { board: Arc::clone(&board), is_persistent });
        let source: Arc<dyn JobSource<Sum>> = Arc::<Gate<Arc<Sum>>>::clone(&gate);
        let events: Arc<dyn PoolEvents<Sum>> = Arc::<Board>::clone(&board);
        let workers = WorkerPool::start("svc-sum", size, &engine, source, &events).unwrap();
        let supervisor = Supervisor::new(size, Duration::from_secs(60));
        Self { gate, workers, board, supervisor, reports: Vec::new() }
    }

    fn offer(&self, act: SumAct, numbers: [i64; 2]) -> (Arc<Sum>, OfferOutcome) {
        let sum = Sum::new(act, numbers);
        let offer = self.gate.offer(Arc::clone(&sum));
        self.gate.announce();
        (sum, offer)
    }

    fn queued(&self, act: SumAct, numbers: [i64; 2]) -> Arc<Sum> {
        let (sum, offer) = self.offer(act, numbers);
        assert_eq!(offer, OfferOutcome::Queued);
        sum
    }

    fn tend(&mut self, now: Instant) -> Option<Instant> {
        let reports = &mut self.reports;
        self.supervisor.tend(&self.workers, &mut |report| reports.push(word(&report)), now)
    }

    /// Calls the supervisor at `now` until the outcome of a requested restart is known; returns whether it has succeeded.
    fn outcome_of_restart(&mut self, now: Instant) -> bool {
        loop {
            self.tend(now);
            if let Some(outcome) = self.supervisor.take_events().restart {
                return outcome.is_ok();
            }
            std::thread::yield_now();
        }
    }

    /// Starts a pool whose first restart has failed at the returned time.
    fn with_failed_restart() -> (Self, Instant) {
        let mut scene = Self::start(TWO, 4, true);
        while scene.workers.booted_total() < 2 {
            std::thread::yield_now();
        }
        let now = time::now();
        scene.board.boots_to_fail.store(1, Ordering::SeqCst);
        scene.supervisor.want_restart();
        assert!(!scene.outcome_of_restart(now));
        scene.reports.clear();
        (scene, now)
    }

    /// Ends the pool like the server: refuses new jobs, runs the queued ones, ends all threads.
    fn end(&self) {
        self.gate.close_queue();
        assert!(self.workers.join(), "every thread ended in order");
        let facts = self.gate.facts();
        assert_eq!((facts.depth, facts.slots_available), (0, facts.capacity), "every permit is back");
        assert_eq!(self.workers.facts().busy, 0);
    }
}

fn word(report: &SupervisorReport<'_>) -> String {
    match report {
        SupervisorReport::Lost { slot, reason } => format!("lost {slot}: {reason}"),
        SupervisorReport::NotBooted { slot, reason, .. } => format!("not booted {slot}: {reason}"),
        SupervisorReport::BootAgain { failures } => format!("boots again after {failures}"),
        SupervisorReport::RestartStarted { workers } => format!("restart of {workers}"),
        SupervisorReport::RestartFinished { workers } => format!("restarted {workers}"),
        other => format!("{other:?}"),
    }
}

const ONE: PoolSize = PoolSize { min: 1, max: 1 };

const TWO: PoolSize = PoolSize { min: 2, max: 2 };

fn ticket(offer: OfferOutcome) -> Ticket {
    let OfferOutcome::Waiting(ticket) = offer else { panic!("expected to wait: {offer:?}") };
    ticket
}

#[test]
fn every_job_is_claimed_once_and_settled() {
    for is_persistent in [false, true] {
        let scene = SumPool::start(TWO, 512, is_persistent);
        let sums: Vec<_> = (0..500).map(|n| scene.queued(SumAct::Add, [n, 1])).collect();
        scene.board.until(|| scene.board.served.load(Ordering::SeqCst) == 500);
        scene.end();
        for (n, sum) in sums.iter().enumerate() {
            assert_eq!((sum.result(), sum.claims.load(Ordering::SeqCst)), (Some(n as i64 + 1), 1));
            assert!(sum.serial.load(Ordering::SeqCst) > 0, "it has its number");
        }
        assert_eq!(scene.board.claimed.load(Ordering::SeqCst), 500);
    }
}

#[test]
fn a_job_can_be_found_by_its_number_while_its_worker_has_it() {
    for is_persistent in [false, true] {
        let scene = SumPool::start(ONE, 4, is_persistent);
        let first = scene.queued(SumAct::Add, [1, 1]);
        let second = scene.queued(SumAct::AddLater, [2, 2]);
        scene.board.until(|| scene.board.claimed.load(Ordering::SeqCst) == 2);
        let held = loop {
            let held = scene.workers.held(0, time::now());
            if held.len() == 1 && held[0].serial == 2 && second.state() == RUNNING {
                break held;
            }
            std::thread::yield_now();
        };
        assert_eq!(first.result(), Some(2));
        let found = || scene.workers.job(0, held[0].serial);
        // A classic worker publishes its job shortly after the claim.
        while found().is_none() {
            std::thread::yield_now();
        }
        assert!(Arc::ptr_eq(&found().unwrap(), &second));
        assert!(scene.workers.job(0, 1).is_none(), "the first one has left");
        scene.board.let_go();
        scene.gate.idle_workers().wake(0);
        scene.board.until(|| second.result().is_some());
        scene.end();
        assert_eq!((second.result(), scene.workers.job(0, 2).is_none()), (Some(4), true));
    }
}

#[test]
fn a_full_queue_and_a_full_waiting_set_shed() {
    let scene = SumPool::start(ONE, 1, false);
    let running = scene.queued(SumAct::AddLater, [1, 0]);
    scene.board.until(|| scene.board.claimed.load(Ordering::SeqCst) == 1);
    let queued = scene.queued(SumAct::Add, [2, 0]);
    let (waiting, offer) = scene.offer(SumAct::Add, [3, 0]);
    ticket(offer);
    let (shed, offer) = scene.offer(SumAct::Add, [4, 0]);
    assert_eq!(offer, OfferOutcome::Refused(ShedReason::WaitingFull));
    scene.board.let_go();
    scene.board.until(|| scene.board.served.load(Ordering::SeqCst) == 3);
    scene.end();
    assert_eq!([&running, &queued, &waiting].map(|sum| sum.result()), [Some(1), Some(2), Some(3)]);
    assert_eq!((shed.state(), shed.claims.load(Ordering::SeqCst)), (OFFERED, 0), "no worker took it");
}

#[test]
fn a_job_that_its_owner_settled_is_skipped() {
    let scene = SumPool::start(ONE, 4, false);
    let running = scene.queued(SumAct::AddLater, [1, 0]);
    scene.board.until(|| scene.board.claimed.load(Ordering::SeqCst) == 1);
    let cancelled = scene.queued(SumAct::Add, [2, 0]);
    assert!(cancelled.cancel() && !running.cancel());
    scene.board.let_go();
    scene.board.until(|| scene.board.skipped.load(Ordering::SeqCst) == 1);
    scene.end();
    assert_eq!((running.result(), cancelled.state()), (Some(1), CANCELLED));
    assert_eq!(cancelled.claims.load(Ordering::SeqCst), 0);
}

#[test]
fn a_worker_that_dies_loses_its_jobs_and_is_replaced() {
    for is_persistent in [false, true] {
        let mut scene = SumPool::start(ONE, 4, is_persistent);
        // In worker mode both are in flight, and both are lost.
        let parked = is_persistent.then(|| scene.queued(SumAct::AddLater, [1, 0]));
        let dies = scene.queued(SumAct::Panic, [1, 0]);
        scene.board.until(|| scene.board.failed.load(Ordering::SeqCst) == 1);
        assert_eq!((dies.state(), parked.map_or(FAILED, |sum| sum.state())), (FAILED, FAILED));
        assert_eq!(scene.board.served.load(Ordering::SeqCst), 0, "it was not run to its end");
        let next = scene.queued(SumAct::Add, [20, 3]);
        let now = time::now();
        let again = scene.tend(now).expect("it is tried again after a pause");
        assert_eq!(scene.reports, ["lost 0: the engine panicked"]);
        assert!(again > now && next.state() == OFFERED, "nothing is started before that");
        scene.tend(again);
        scene.board.until(|| scene.board.served.load(Ordering::SeqCst) == 1);
        scene.tend(again);
        assert_eq!(scene.reports[1..], ["boots again after 1"]);
        scene.end();
        assert_eq!(next.result(), Some(23));
    }
}

#[test]
fn workers_that_fail_to_boot_are_tried_again_and_the_queue_waits() {
    let board = Arc::new(Board { boots_to_fail: AtomicU32::new(3), ..Board::default() });
    let mut scene = SumPool::start_with(ONE, 4, true, board);
    let sum = scene.queued(SumAct::Add, [1, 2]);
    let (mut now, mut attempts) = (time::now(), 1);
    while attempts <= 3 {
        scene.board.until(|| scene.board.failed.load(Ordering::SeqCst) == attempts);
        now = scene.tend(now).expect("it is tried again after a pause");
        scene.tend(now);
        attempts += 1;
    }
    scene.board.until(|| scene.board.served.load(Ordering::SeqCst) == 1);
    scene.tend(now);
    scene.end();
    assert_eq!(sum.result(), Some(3));
    let told = "not booted 0: no boot allowed";
    assert_eq!(scene.reports, [told, told, told, "boots again after 3"]);
}

#[test]
fn a_restart_waits_for_no_pause() {
    let board = Arc::new(Board { boots_to_fail: AtomicU32::new(1), ..Board::default() });
    let mut scene = SumPool::start_with(ONE, 4, true, board);
    let (sum, now) = (scene.queued(SumAct::Add, [1, 2]), time::now());
    scene.board.until(|| scene.board.failed.load(Ordering::SeqCst) == 1);
    assert!(scene.tend(now) > Some(now), "it is tried again after a pause");
    scene.supervisor.want_restart();
    scene.tend(now);
    scene.board.until(|| scene.board.served.load(Ordering::SeqCst) == 1);
    scene.end();
    assert_eq!(sum.result(), Some(3));
}

#[test]
fn a_restart_that_failed_is_attempted_again_without_a_cache() {
    let (mut scene, now) = SumPool::with_failed_restart();
    scene.tend(now + Duration::from_secs(4));
    assert_eq!(scene.reports, [""; 0], "not before a pause");
    assert!(scene.outcome_of_restart(now + Duration::from_secs(5)));
    assert_eq!(scene.reports, ["restart of 2", "restarted 2"]);
    scene.tend(now + Duration::from_secs(5000));
    assert_eq!(scene.reports.len(), 2, "once");
    scene.end();
}

#[test]
fn a_worker_that_boots_ends_the_pause_of_a_restart_that_failed() {
    let (mut scene, now) = SumPool::with_failed_restart();
    let failed = scene.board.failed.load(Ordering::SeqCst);
    scene.queued(SumAct::Panic, [1, 0]);
    scene.board.until(|| scene.board.failed.load(Ordering::SeqCst) > failed);
    let again = scene.tend(now).expect("it is replaced after a pause");
    assert!(again < now + Duration::from_secs(1));
    assert!(scene.outcome_of_restart(again));
    scene.end();
}

#[test]
fn a_boot_that_began_before_a_restart_says_nothing_about_the_new_code() {
    let board = Arc::new(Board { holds_boots: AtomicBool::new(true), ..Board::default() });
    let mut scene = SumPool::start_with(ONE, 4, true, board);
    let now = time::now();
    scene.board.until(|| scene.board.boots.load(Ordering::SeqCst) == 1);
    scene.board.boots_to_fail.store(1, Ordering::SeqCst);
    scene.supervisor.want_restart();
    assert!(!scene.outcome_of_restart(now));
    scene.board.holds_boots.store(false, Ordering::SeqCst);
    scene.board.tell();
    while scene.workers.booted_total() < 1 {
        std::thread::yield_now();
    }
    scene.tend(now);
    assert!(!scene.supervisor.take_events().has_booted);
    scene.supervisor.want_restart();
    assert!(scene.outcome_of_restart(now));
    scene.end();
}

#[test]
fn a_burst_brings_workers_up_to_the_maximum() {
    let mut scene = SumPool::start(PoolSize { min: 1, max: 3 }, 8, false);
    let sums: Vec<_> = (0..4).map(|n| scene.queued(SumAct::AddLater, [n, 0])).collect();
    scene.board.until(|| scene.board.claimed.load(Ordering::SeqCst) == 1);
    // A worker that has claimed a job becomes busy shortly after.
    while scene.workers.facts().current < 3 {
        scene.tend(time::now());
        std::thread::yield_now();
    }
    scene.board.until(|| scene.board.claimed.load(Ordering::SeqCst) == 3);
    assert_eq!((scene.workers.facts().current, scene.workers.backlog()), (3, 1));
    scene.board.let_go();
    scene.board.until(|| scene.board.served.load(Ordering::SeqCst) == 4);
    scene.end();
    assert!(sums.iter().all(|sum| sum.result().is_some()));
}

#[test]
fn a_rolling_restart_replaces_each_worker_and_loses_no_job() {
    let mut scene = SumPool::start(TWO, 16, true);
    while scene.workers.booted_total() < 2 {
        std::thread::yield_now();
    }
    let held: Vec<_> = (0..4).map(|n| scene.queued(SumAct::AddLater, [n, 0])).collect();
    scene.board.until(|| scene.board.claimed.load(Ordering::SeqCst) == 4);
    scene.supervisor.want_restart();
    let mut offered = Vec::new();
    while !scene.reports.iter().any(|report| report.starts_with("restarted")) {
        scene.tend(time::now());
        if offered.len() < 200 {
            offered.push(scene.queued_or_waiting());
        }
        std::thread::yield_now();
    }
    assert_eq!(scene.reports, ["restart of 2", "restarted 2"]);
    assert_eq!(scene.board.boots.load(Ordering::SeqCst), 4);
    assert!(held.iter().all(|sum| sum.state() == RUNNING), "the old ones linger with what is in flight");
    scene.board.let_go();
    (0..TWO.slots()).for_each(|seat| scene.gate.idle_workers().wake(seat));
    let all = 4 + offered.len() as u32;
    scene.board.until(|| scene.board.served.load(Ordering::SeqCst) == all);
    scene.end();
    assert!(held.iter().chain(&offered).all(|sum| sum.result().is_some()));
}

impl SumPool {
    /// Offers a sum repeatedly until it is admitted.
    fn queued_or_waiting(&self) -> Arc<Sum> {
        loop {
            let (sum, offer) = self.offer(SumAct::Add, [1, 1]);
            if !matches!(offer, OfferOutcome::Refused(_)) {
                return sum;
            }
            std::thread::yield_now();
        }
    }
}

#[test]
fn a_drain_runs_queued_work_refuses_more_and_skips_abandoned_work() {
    for is_persistent in [false, true] {
        let scene = SumPool::start(ONE, 8, is_persistent);
        let running = scene.queued(SumAct::AddLater, [1, 0]);
        scene.board.until(|| scene.board.claimed.load(Ordering::SeqCst) == 1);
        if is_persistent {
            // The worker takes further sums while the first one waits; a classic one would be busy.
            let other = scene.queued(SumAct::Add, [5, 5]);
            scene.board.until(|| other.result().is_some());
        }
        scene.gate.stop_admitting();
        let (refused, offer) = scene.offer(SumAct::Add, [9, 9]);
        assert_eq!((offer, refused.state()), (OfferOutcome::Refused(ShedReason::ShuttingDown), OFFERED));
        scene.board.let_go();
        scene.gate.idle_workers().wake(0);
        // A closed pool does not wait for fibers, so the drain waits first.
        scene.board.until(|| running.result().is_some());
        scene.end();
    }
    let scene = SumPool::start(ONE, 8, false);
    let running = scene.queued(SumAct::AddLater, [1, 0]);
    scene.board.until(|| scene.board.claimed.load(Ordering::SeqCst) == 1);
    let queued = scene.queued(SumAct::Add, [2, 0]);
    let abandoned = scene.queued(SumAct::Add, [3, 0]);
    abandoned.is_abandoned.store(true, Ordering::SeqCst);
    scene.gate.close_queue();
    scene.board.let_go();
    scene.end();
    assert_eq!((running.result(), queued.result(), abandoned.state()), (Some(1), Some(2), OFFERED));
}
