//! The pool under every interleaving that a bounded number of preemptions allows: the server's gate, queue and workers
//! on the explorer's threads.
//!
//! A lost wake-up ends in a deadlock, which the explorer reports: no model closes the gate before all jobs are done.

use std::sync::Arc;
use std::time::{Duration, Instant};

use loom::thread;
use svc_core::admission::{Gate, OfferOutcome, Offered, WaitingLimits};
use svc_core::pool::{
    Claim, Directive, Engine, Job, JobSource, NotClaimed, PersistentWorker, PoolEvents, PoolSize,
    RecycleReason, Started, Worker, WorkerContext, WorkerExit, WorkerOrder, WorkerPool, WorkerStartError,
};
use svc_core::sync::counter::Counter;
use svc_core::sync::event_count::EventCount;
use svc_core::sync::exchange_state::{ExchangeStage, ExchangeState};
use svc_core::sync::idle_workers::Wake;

use crate::exploring::explore;

/// A count that threads can wait for.
#[derive(Debug)]
struct Tally(EventCount, Counter);

impl Tally {
    fn new() -> Arc<Self> {
        Arc::new(Self(EventCount::new(), Counter::new()))
    }

    fn until(&self, least: u64) {
        loop {
            let ticket = self.0.prepare_wait();
            if self.1.value() >= least {
                return self.0.cancel_wait(ticket);
            }
            self.0.wait(&ticket);
        }
    }
}

impl Wake for Tally {
    fn wake(&self) {
        self.1.incr();
        self.0.notify_one();
    }
}

/// A job that runs once and is then counted.
#[derive(Debug)]
struct Errand {
    state: ExchangeState,
    name: u64,
    done: Arc<Tally>,
}

impl Errand {
    fn new(name: u64, done: &Arc<Tally>) -> Arc<Self> {
        Arc::new(Self { state: ExchangeState::queued(), name, done: Arc::clone(done) })
    }

    fn run(&self) {
        assert_eq!(self.done.1.value(), self.name, "first come, first served");
        self.finish();
    }

    fn finish(&self) {
        self.state.finish();
        self.done.wake();
    }
}

impl Offered for Errand {
    fn parked_bytes(&self) -> u64 {
        0
    }
    fn promote(&self) -> bool {
        self.state.promote().is_ok()
    }
    fn park(&self) {
        self.state.park();
    }
}

impl Job for Errand {
    fn claim(&self, _serial: u64, _now: Instant) -> Result<(), NotClaimed> {
        self.state.claim().map(|_| ()).map_err(|_| NotClaimed)
    }
    fn is_settled(&self) -> bool {
        self.state.stage() == ExchangeStage::Done
    }
    fn fail(&self) {
        assert_eq!(self.state.stage(), ExchangeStage::Done, "its worker has done it");
    }
}

struct NoEvents;

impl PoolEvents<Errand> for NoEvents {
    fn claimed(&self, _job: &Errand, _now: Instant) {}
    fn skipped(&self, _job: &Errand) {}
    fn served(&self, _job: &Errand, _ran: Duration) {}
    fn worker_failed(&self) {
        panic!("a worker has failed");
    }
    fn recycled(&self, _slot: usize, _reason: RecycleReason) {}
    fn retired(&self, _slot: usize) {}
    fn soft_reset(&self, _slot: usize) {}
}

/// Classic workers that expect errands in order.
struct InOrder;

impl Engine<Errand> for InOrder {
    fn start(&self, _slot: usize) -> Result<Started<Errand>, WorkerStartError> {
        Ok(Started::Classic(Box::new(Self)))
    }
}

impl Worker<Errand> for InOrder {
    fn serve(&mut self, job: &Arc<Errand>) {
        job.run();
    }
}

/// Classic workers that accept errands in any order.
struct InAnyOrder;

impl Engine<Errand> for InAnyOrder {
    fn start(&self, _slot: usize) -> Result<Started<Errand>, WorkerStartError> {
        Ok(Started::Classic(Box::new(Self)))
    }
}

impl Worker<Errand> for InAnyOrder {
    fn serve(&mut self, job: &Arc<Errand>) {
        job.finish();
    }
}

/// Classic workers, of whose jobs the first waits for the second.
struct InPairs;

impl Engine<Errand> for InPairs {
    fn start(&self, _slot: usize) -> Result<Started<Errand>, WorkerStartError> {
        Ok(Started::Classic(Box::new(Self)))
    }
}

impl Worker<Errand> for InPairs {
    fn serve(&mut self, job: &Arc<Errand>) {
        if job.name == 0 {
            job.done.until(1);
        }
        job.finish();
    }
}

/// Creates a gate with `capacity` places in its queue, and room for waiters.
fn gate(capacity: usize, size: PoolSize) -> Arc<Gate<Arc<Errand>>> {
    let limits = WaitingLimits { count_max: 4, bytes_max: 0 };
    Arc::new(Gate::new(capacity, size.slots(), limits, Duration::from_secs(1)))
}

fn start(gate: &Arc<Gate<Arc<Errand>>>, size: PoolSize, engine: impl Engine<Errand>) -> WorkerPool<Errand> {
    let engine: Arc<dyn Engine<Errand>> = Arc::new(engine);
    let source: Arc<dyn JobSource<Errand>> = Arc::<Gate<Arc<Errand>>>::clone(gate);
    let events: Arc<dyn PoolEvents<Errand>> = Arc::new(NoEvents);
    WorkerPool::start("worker", size, &engine, source, &events).unwrap()
}

fn offer(gate: &Gate<Arc<Errand>>, name: u64, done: &Arc<Tally>) {
    assert!(!matches!(gate.offer(Errand::new(name, done)), OfferOutcome::Refused(_)));
    gate.announce();
}

/// Closes the gate, and checks the state after all workers have ended.
fn end(gate: &Gate<Arc<Errand>>, workers: &WorkerPool<Errand>) {
    gate.close_queue();
    assert!(workers.join());
    let facts = gate.facts();
    assert_eq!((facts.slots_available, facts.depth, facts.waiting), (facts.capacity, 0, 0));
}

const ONE: PoolSize = PoolSize { min: 1, max: 1 };

const TWO: PoolSize = PoolSize { min: 2, max: 2 };

#[test]
fn jobs_are_done_in_their_order_through_the_waiting_set() {
    explore(3, || {
        let (gate, done) = (gate(1, ONE), Tally::new());
        let workers = start(&gate, ONE, InOrder);
        (0..3).for_each(|name| offer(&gate, name, &done));
        done.until(3);
        end(&gate, &workers);
    });
}

#[test]
fn two_io_threads_and_a_worker_that_sleeps_in_between() {
    explore(2, || {
        let (gate, done) = (gate(2, ONE), Tally::new());
        let workers = start(&gate, ONE, InAnyOrder);
        let other = {
            let (gate, done) = (Arc::clone(&gate), Arc::clone(&done));
            thread::spawn(move || offer(&gate, 0, &done))
        };
        offer(&gate, 1, &done);
        done.until(2);
        other.join().unwrap();
        end(&gate, &workers);
    });
}

#[test]
fn one_announcement_brings_all_workers_that_are_needed() {
    explore(2, || {
        let (gate, done) = (gate(2, TWO), Tally::new());
        let workers = start(&gate, TWO, InPairs);
        for name in 0..2 {
            assert_eq!(gate.offer(Errand::new(name, &done)), OfferOutcome::Queued);
        }
        gate.announce();
        done.until(2);
        end(&gate, &workers);
    });
}

#[test]
fn a_gate_with_a_closed_queue_loses_nothing_and_wakes_all_workers() {
    explore(2, || {
        let (gate, done) = (gate(2, TWO), Tally::new());
        let workers = start(&gate, TWO, InAnyOrder);
        (0..2).for_each(|name| offer(&gate, name, &done));
        end(&gate, &workers);
        assert_eq!(done.1.value(), 2);
    });
}

#[test]
fn two_workers_promote_two_waiters_without_minting_a_permit() {
    explore(2, || {
        let (gate, done) = (gate(1, TWO), Tally::new());
        (0..3).for_each(|name| offer(&gate, name, &done));
        let workers = start(&gate, TWO, InAnyOrder);
        done.until(3);
        end(&gate, &workers);
    });
}

#[test]
fn a_job_that_leaves_while_it_is_promoted_is_settled_once_and_no_permit_is_lost() {
    explore(4, || {
        let (gate, done) = (gate(1, ONE), Tally::new());
        offer(&gate, 0, &done);
        let late = Errand::new(1, &done);
        let OfferOutcome::Waiting(ticket) = gate.offer(Arc::clone(&late)) else {
            panic!("the gate has one place")
        };
        let workers = start(&gate, ONE, InOrder);
        let stage = late.state.withdraw_unclaimed();
        gate.leave(ticket);
        end(&gate, &workers);
        let is_withdrawn = matches!(stage, ExchangeStage::Waiting | ExchangeStage::Queued);
        assert_eq!(done.1.value(), if is_withdrawn { 1 } else { 2 }, "withdrawn from {stage:?}");
    });
}

/// Slot 0 has a persistent worker whose first job stays in flight after it is done, slot 1 a classic worker.
struct Mixed;

impl Engine<Errand> for Mixed {
    fn start(&self, slot: usize) -> Result<Started<Errand>, WorkerStartError> {
        Ok(match slot {
            0 => Started::Persistent(Box::new(Persistent(Tally::new()))),
            _ => Started::Classic(Box::new(InAnyOrder)),
        })
    }
}

/// Sleeps until it is woken again.
struct Persistent(Arc<Tally>);

impl PersistentWorker<Errand> for Persistent {
    fn waker(&self) -> Arc<dyn Wake> {
        Arc::<Tally>::clone(&self.0)
    }

    fn run(&mut self, context: &WorkerContext<Errand>) -> WorkerExit {
        context.booted();
        let (mut rings, mut kept): (u64, Option<Claim<Errand>>) = (0, None);
        while context.directive() == Directive::Serve {
            while let Some(mut claim) = context.try_take() {
                claim.run();
                claim.job().finish();
                claim.finish();
                claim.park();
                kept.get_or_insert(claim);
            }
            if context.prepare_park() {
                self.0.until(rings + 1);
                rings = self.0.1.value();
                context.unpark(false);
            }
        }
        WorkerExit::Stopped
    }
}

#[test]
fn a_job_that_a_worker_leaves_to_an_idle_one_is_done() {
    explore(2, || {
        let (gate, done) = (gate(2, TWO), Tally::new());
        let workers = start(&gate, TWO, Mixed);
        (0..2).for_each(|name| offer(&gate, name, &done));
        done.until(2);
        end(&gate, &workers);
    });
}

#[test]
fn a_worker_in_its_reactor_sees_the_order_to_drain() {
    explore(4, || {
        let gate = gate(1, ONE);
        let workers = start(&gate, ONE, Mixed);
        assert!(workers.stop(0, WorkerOrder::Retire));
        // The gate stays open: a missed order would leave the worker asleep.
        assert!(workers.join());
        assert_eq!(workers.taking(), 0);
    });
}
