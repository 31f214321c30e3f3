//! A slot: a place in the pool, and what its worker is doing, readable by all threads.
//!
//! Each word is written by the slot's worker alone, except those that hold the supervisor's orders. A slot outlives its
//! workers, and its heap size outlives a worker that is recycled. A slot starts and stops no thread.
//!
//! ```text
//!   Vacant ──started──▶ Booting ──booted──▶ Serving ──its thread is about to end──▶ Vacant
//!                         ▲ └────────────────── did not boot ──────────────────────────▲
//!                         └────────────────── replaced ─┘
//! ```
//!
//! A worker that was ordered to end lingers: it takes no more work, and its slot is not free before it has ended. The
//! first decision wins: an order that arrives when the worker has begun to end is refused.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use crate::sync::lock::ShortLock;
use crate::sync::primitive::{Arc, AtomicBool, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering};

use super::job::Job;
use super::probe::ThreadProbe;
use super::stuck::{Finding, HeldJob, StuckKind};

/// The phase of a slot, which follows the life of its worker.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum SlotPhase {
    /// The slot has no worker.
    #[default]
    Vacant = 0,
    /// The worker boots.
    Booting = 1,
    /// The worker takes work.
    Serving = 2,
}

/// The pool's order to a worker.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum WorkerOrder {
    /// Continue.
    #[default]
    Serve = 0,
    /// End once its jobs in flight have ended: the worker is not needed.
    Retire = 1,
    /// End once its jobs in flight have ended: another worker has taken over.
    HandOver = 2,
}

/// The value of a slot's order once its worker has begun to end and accepts no order.
const CLOSED: u8 = 3;

/// One place in the pool.
///
/// # Ordering
///
/// Phase and order are written with Release and read with Acquire: a thread that reads one sees all earlier writes. The
/// other words are statistics, and Relaxed.
#[derive(Debug)]
pub(super) struct Slot<J> {
    phase: AtomicU8,
    order: AtomicU8,
    /// Whether the pool counts the worker as current.
    counted: AtomicBool,
    /// Whether the pool counts the worker among those that take work or are about to.
    taking: AtomicBool,
    /// Whether the worker does not use the cache that workers share.
    uncached: AtomicBool,
    /// Whether the worker takes work although it has asked to be replaced; written by the supervisor.
    carries_on: AtomicBool,
    /// The number of workers that the slot has had.
    number: AtomicU64,
    thread_id: AtomicU32,
    /// Times are microseconds after the start of the pool.
    spawned_us: AtomicU64,
    idle_since_us: AtomicU64,
    /// One more than the time at which code began to run; 0 while no code runs.
    running_since_us: AtomicU64,
    /// One more than the time at which the worker asked to be replaced; 0 before.
    leaving_since_us: AtomicU64,
    /// The number of jobs claimed here.
    claims: AtomicU64,
    pub(super) fibers: AtomicUsize,
    heap_bytes: AtomicU64,
    /// The number of jobs that the current worker has finished.
    handled: AtomicU64,
    long_running: AtomicU64,
    stuck: [AtomicU64; StuckKind::ALL.len()],
    /// The jobs in flight on a persistent worker, in the order of their claims. Held only to insert or remove a
    /// pointer, or to read a few.
    in_flight: ShortLock<VecDeque<Arc<InFlight<J>>>>,
    /// The job that a classic worker runs, with its serial number. Held only to store, copy or remove a pointer.
    present: ShortLock<Option<(u64, Arc<J>)>>,
    /// Held only to copy a handle.
    probe: ShortLock<Option<Arc<dyn ThreadProbe>>>,
}

/// A job in flight on a persistent worker.
#[derive(Debug)]
pub(super) struct InFlight<J> {
    pub(super) job: Arc<J>,
    pub(super) taken_at: Instant,
    pub(super) serial: u64,
    parked: AtomicBool,
}

/// A reading of one slot.
#[derive(Clone, Debug, Default)]
pub struct SlotReading {
    /// The slot's index.
    pub slot: usize,
    /// The number of workers that the slot has had, including the current one.
    pub number: u64,
    /// The phase of the slot.
    pub phase: SlotPhase,
    /// The pool's order to the worker.
    pub order: WorkerOrder,
    /// How long ago the worker asked to be replaced; `None` if it has not.
    pub leaving_for: Option<Duration>,
    /// Whether the worker does not use the cache that workers share, because a renewal was wanted when it booted.
    pub is_uncached: bool,
    /// Whether the worker has an unsettled job, or runs code.
    pub is_busy: bool,
    /// How long the worker has been idle; zero while it has anything in flight.
    pub idle_for: Duration,
    /// The job that has kept it busy longest.
    pub oldest: Option<HeldJob>,
    /// The number of jobs in flight, each of which is a fiber.
    pub fibers: usize,
    /// The size of PHP's heap at the end of the worker's last request, or of the worker that was recycled here before
    /// it, in bytes.
    pub heap_bytes: u64,
    /// The number of jobs that the current worker has finished.
    pub handled: u64,
    /// How long ago the current worker was started.
    pub uptime: Duration,
    /// The system's identifier of the thread.
    pub thread_id: u32,
    /// The number of ticks that found a job older than the threshold.
    pub long_running: u64,
    /// The number of jobs that were found to hold the worker up, by kind.
    pub stuck: [u64; StuckKind::ALL.len()],
}

impl<J: Job> Slot<J> {
    pub(super) fn new() -> Self {
        Self {
            phase: AtomicU8::new(SlotPhase::Vacant as u8),
            order: AtomicU8::new(WorkerOrder::Serve as u8),
            counted: AtomicBool::new(false),
            taking: AtomicBool::new(false),
            uncached: AtomicBool::new(false),
            carries_on: AtomicBool::new(false),
            number: AtomicU64::new(0),
            thread_id: AtomicU32::new(0),
            spawned_us: AtomicU64::new(0),
            idle_since_us: AtomicU64::new(0),
            running_since_us: AtomicU64::new(0),
            leaving_since_us: AtomicU64::new(0),
            claims: AtomicU64::new(0),
            fibers: AtomicUsize::new(0),
            heap_bytes: AtomicU64::new(0),
            handled: AtomicU64::new(0),
            long_running: AtomicU64::new(0),
            stuck: std::array::from_fn(|_| AtomicU64::new(0)),
            in_flight: ShortLock::default(),
            present: ShortLock::default(),
            probe: ShortLock::default(),
        }
    }

    /// Prepares the slot for a worker that is about to be started. Called by the thread that found the slot vacant or
    /// is leaving it.
    pub(super) fn start(&self, now_us: u64) {
        self.number.fetch_add(1, Ordering::Relaxed);
        self.spawned_us.store(now_us, Ordering::Relaxed);
        self.idle_since_us.store(now_us, Ordering::Relaxed);
        self.handled.store(0, Ordering::Relaxed);
        self.leaving_since_us.store(0, Ordering::Relaxed);
        self.uncached.store(false, Ordering::Relaxed);
        self.carries_on.store(false, Ordering::Relaxed);
        self.order.store(WorkerOrder::Serve as u8, Ordering::Relaxed);
        self.enter(SlotPhase::Booting);
    }

    /// Notes the thread of the worker.
    pub(super) fn set_thread(&self, thread_id: u32) {
        self.thread_id.store(thread_id, Ordering::Relaxed);
    }

    pub(super) fn set_probe(&self, probe: Option<Arc<dyn ThreadProbe>>) {
        let old = std::mem::replace(&mut *self.probe.lock(), probe);
        drop(old);
    }

    pub(super) fn probe(&self) -> Option<Arc<dyn ThreadProbe>> {
        self.probe.lock().clone()
    }

    /// Notes that the worker takes work from now on. Returns false if it already did.
    pub(super) fn boot(&self, now_us: u64) -> bool {
        if self.phase() != SlotPhase::Booting {
            return false;
        }
        self.idle_since_us.store(now_us, Ordering::Relaxed);
        self.enter(SlotPhase::Serving);
        true
    }

    /// Notes that the worker has ended.
    pub(super) fn vacate(&self) {
        self.enter(SlotPhase::Vacant);
    }

    fn enter(&self, phase: SlotPhase) {
        // Release: see the type.
        self.phase.store(phase as u8, Ordering::Release);
    }

    pub(super) fn phase(&self) -> SlotPhase {
        // Acquire: see the type.
        match self.phase.load(Ordering::Acquire) {
            0 => SlotPhase::Vacant,
            1 => SlotPhase::Booting,
            _ => SlotPhase::Serving,
        }
    }

    /// Clears the order to the last worker of a vacant slot, which a new worker is about to take.
    pub(super) fn clear_order(&self) {
        debug_assert_eq!(self.phase(), SlotPhase::Vacant, "the slot has a worker");
        self.order.store(WorkerOrder::Serve as u8, Ordering::Relaxed);
        // Only a worker that takes over immediately, in a recycled worker's slot, inherits that worker's heap size.
        self.heap_bytes.store(0, Ordering::Relaxed);
    }

    /// Orders the worker to end. Returns false if it already has an order, or has begun to end by itself.
    pub(super) fn give_order(&self, order: WorkerOrder) -> bool {
        debug_assert_ne!(order, WorkerOrder::Serve, "no order is taken back");
        // Release: see the type.
        let (serve, order) = (WorkerOrder::Serve as u8, order as u8);
        self.order.compare_exchange(serve, order, Ordering::Release, Ordering::Relaxed).is_ok()
    }

    /// Notes that the worker has begun to end, and accepts no order from now on. Returns the order that it was given.
    pub(super) fn close_orders(&self) -> WorkerOrder {
        // Acquire: see the type.
        WorkerOrder::of(self.order.swap(CLOSED, Ordering::Acquire))
    }

    pub(super) fn order(&self) -> WorkerOrder {
        // Acquire: see the type.
        WorkerOrder::of(self.order.load(Ordering::Acquire))
    }

    /// Notes that the worker does not use the cache that workers share.
    pub(super) fn run_uncached(&self) {
        self.uncached.store(true, Ordering::Relaxed);
    }

    /// Notes that the worker asks to be replaced and takes no more work.
    pub(super) fn want_to_leave(&self, now_us: u64) {
        self.leaving_since_us.store(now_us + 1, Ordering::Relaxed);
    }

    /// Makes the worker take work although it has asked to be replaced. Returns false if it already does.
    pub(super) fn carry_on(&self) -> bool {
        !self.carries_on.swap(true, Ordering::Relaxed)
    }

    pub(super) fn carries_on(&self) -> bool {
        self.carries_on.load(Ordering::Relaxed)
    }

    /// Returns whether the worker was ordered to end and has not ended.
    pub(super) fn is_lingering(&self) -> bool {
        self.phase() != SlotPhase::Vacant && self.order() != WorkerOrder::Serve
    }

    /// Counts the worker as current; returns false if it was counted before.
    pub(super) fn count(&self) -> bool {
        !self.counted.swap(true, Ordering::Relaxed)
    }

    /// Stops counting the worker as current; returns false if it was not counted.
    pub(super) fn uncount(&self) -> bool {
        self.counted.swap(false, Ordering::Relaxed)
    }

    /// Counts the worker among those that take work; returns false if it was counted before.
    pub(super) fn begin_taking(&self) -> bool {
        !self.taking.swap(true, Ordering::Relaxed)
    }

    /// Stops counting the worker among those that take work; returns false if it was not counted.
    pub(super) fn end_taking(&self) -> bool {
        self.taking.swap(false, Ordering::Relaxed)
    }

    /// Returns the number of workers that the slot has had, including the current one.
    pub(super) fn number(&self) -> u64 {
        self.number.load(Ordering::Relaxed)
    }

    pub(super) fn is_used(&self) -> bool {
        self.number() > 0
    }

    /// Notes that code begins to run on the thread.
    #[inline]
    pub(super) fn run(&self, now_us: u64) {
        self.running_since_us.store(now_us + 1, Ordering::Relaxed);
    }

    /// Notes that no code runs on the thread.
    #[inline]
    pub(super) fn stop_running(&self) {
        self.running_since_us.store(0, Ordering::Relaxed);
    }

    /// Claims `job` under the slot's next serial number, which it returns; `None` if the job must not be run.
    #[inline]
    pub(super) fn claim(&self, job: &J, now: Instant) -> Option<u64> {
        // One writer: no read-modify-write is needed.
        let serial = self.claims.load(Ordering::Relaxed) + 1;
        job.claim(serial, now).ok()?;
        self.claims.store(serial, Ordering::Relaxed);
        Some(serial)
    }

    /// Sets the job that a classic worker runs.
    #[inline]
    pub(super) fn set_present(&self, job: Option<(u64, &Arc<J>)>) {
        let job = job.map(|(serial, job)| (serial, Arc::clone(job)));
        let before = std::mem::replace(&mut *self.present.lock(), job);
        drop(before);
    }

    /// Returns the job with this serial number while its worker has it.
    pub(super) fn job(&self, serial: u64) -> Option<Arc<J>> {
        if let Some((_, job)) = self.present.lock().as_ref().filter(|(present, _)| *present == serial) {
            return Some(Arc::clone(job));
        }
        let in_flight = self.in_flight.lock();
        in_flight.iter().find(|one| one.serial == serial).map(|one| Arc::clone(&one.job))
    }

    /// Counts a job that was run to its end.
    #[inline]
    pub(super) fn count_handled(&self) {
        // One writer: no read-modify-write is needed.
        self.handled.store(self.handled.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    }

    pub(super) fn handled(&self) -> u64 {
        self.handled.load(Ordering::Relaxed)
    }

    /// Notes that the worker has been idle since `now_us`.
    #[inline]
    pub(super) fn idle_since(&self, now_us: u64) {
        self.idle_since_us.store(now_us, Ordering::Relaxed);
    }

    pub(super) fn set_heap(&self, bytes: u64) {
        self.heap_bytes.store(bytes, Ordering::Relaxed);
    }

    /// Adds a claimed job to those in flight on a persistent worker.
    pub(super) fn begin_flight(&self, job: Arc<J>, serial: u64, taken_at: Instant) -> Arc<InFlight<J>> {
        let one = Arc::new(InFlight { job, taken_at, serial, parked: AtomicBool::new(true) });
        self.fibers.fetch_add(1, Ordering::Relaxed);
        self.in_flight.lock().push_back(Arc::clone(&one));
        one
    }

    /// Removes a job from those in flight.
    pub(super) fn end_flight(&self, one: &Arc<InFlight<J>>, now_us: u64) {
        // Sorted by claim, hence by serial number.
        let mut in_flight = self.in_flight.lock();
        if let Ok(place) = in_flight.binary_search_by_key(&one.serial, |other| other.serial) {
            in_flight.remove(place);
        }
        drop(in_flight);
        self.idle_since(now_us);
        self.fibers.fetch_sub(1, Ordering::Relaxed);
    }

    /// Returns the oldest job in flight that keeps the worker busy.
    fn oldest_in_flight(&self, now: Instant) -> Option<HeldJob> {
        self.in_flight.lock().iter().find_map(|one| one.held(now))
    }

    /// Returns the jobs that keep the worker busy, oldest first.
    pub(super) fn held(&self, epoch: Instant, now: Instant) -> Vec<HeldJob> {
        let held: Vec<_> = self.in_flight.lock().iter().filter_map(|one| one.held(now)).collect();
        if held.is_empty() { self.running(epoch, now).into_iter().collect() } else { held }
    }

    /// Returns what runs on the thread without being in flight: a classic worker's job, or code outside of any job.
    fn running(&self, epoch: Instant, now: Instant) -> Option<HeldJob> {
        let since = self.running_since_us.load(Ordering::Relaxed).checked_sub(1)?;
        let age = now.saturating_duration_since(epoch + Duration::from_micros(since));
        Some(HeldJob { serial: self.claims.load(Ordering::Relaxed), age, is_parked: false })
    }

    /// Returns whether the worker has an unsettled job, or runs code.
    pub(super) fn is_busy(&self) -> bool {
        self.running_since_us.load(Ordering::Relaxed) != 0
            || (self.fibers.load(Ordering::Relaxed) > 0
                && self.in_flight.lock().iter().any(|one| !one.job.is_settled()))
    }

    /// Counts the findings of a tick about the worker.
    pub(super) fn note(&self, finding: &Finding) {
        if finding.is_long {
            self.long_running.fetch_add(1, Ordering::Relaxed);
        }
        for (_, kind) in &finding.stuck {
            self.stuck[*kind as usize].fetch_add(1, Ordering::Relaxed);
        }
    }

    pub(super) fn reading(&self, slot: usize, epoch: Instant, now: Instant) -> SlotReading {
        let since = |us: u64| now.saturating_duration_since(epoch + Duration::from_micros(us));
        let fibers = self.fibers.load(Ordering::Relaxed);
        let in_flight = if fibers > 0 { self.oldest_in_flight(now) } else { None };
        let oldest = in_flight.or_else(|| self.running(epoch, now));
        let is_busy = oldest.is_some();
        let idle_since = self.idle_since_us.load(Ordering::Relaxed);
        let leaving_since = self.leaving_since_us.load(Ordering::Relaxed).checked_sub(1);
        SlotReading {
            slot,
            number: self.number(),
            phase: self.phase(),
            order: self.order(),
            leaving_for: leaving_since.map(since),
            is_uncached: self.uncached.load(Ordering::Relaxed),
            is_busy,
            idle_for: if is_busy || fibers > 0 { Duration::ZERO } else { since(idle_since) },
            oldest,
            fibers,
            heap_bytes: self.heap_bytes.load(Ordering::Relaxed),
            handled: self.handled(),
            uptime: since(self.spawned_us.load(Ordering::Relaxed)),
            thread_id: self.thread_id.load(Ordering::Relaxed),
            long_running: self.long_running.load(Ordering::Relaxed),
            stuck: std::array::from_fn(|kind| self.stuck[kind].load(Ordering::Relaxed)),
        }
    }
}

impl SlotReading {
    /// Returns whether the slot has a worker that was not ordered to end.
    pub fn is_active(&self) -> bool {
        self.phase != SlotPhase::Vacant && self.order == WorkerOrder::Serve
    }

    /// Returns whether the worker was ordered to end and has not ended.
    pub fn is_lingering(&self) -> bool {
        self.phase != SlotPhase::Vacant && self.order != WorkerOrder::Serve
    }
}

impl WorkerOrder {
    fn of(word: u8) -> Self {
        match word {
            1 => Self::Retire,
            2 => Self::HandOver,
            // A worker that has begun to end by itself has no order.
            _ => Self::Serve,
        }
    }
}

impl<J: Job> InFlight<J> {
    /// Returns the watchdog's view of the job if it keeps its worker busy: it is not settled, or still runs.
    fn held(&self, now: Instant) -> Option<HeldJob> {
        let is_parked = self.is_parked();
        let age = now.saturating_duration_since(self.taken_at);
        (!self.job.is_settled() || !is_parked).then_some(HeldJob { serial: self.serial, age, is_parked })
    }

    pub(super) fn is_parked(&self) -> bool {
        self.parked.load(Ordering::Relaxed)
    }

    pub(super) fn set_parked(&self, parked: bool) {
        self.parked.store(parked, Ordering::Relaxed);
    }
}
