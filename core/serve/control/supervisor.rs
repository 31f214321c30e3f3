//! The supervisor of the pool: it starts missing workers, ends superfluous ones, and replaces all of them on request.
//!
//! Promises: it is woken when work finds no idle worker, when a worker has booted, and when one has failed. If workers
//! do not boot, it retries with growing pauses and logs each attempt. Its orders lose no request in flight. Refuses: it
//! waits for nothing. The state machines decide; it carries out and logs.

use std::time::Instant;

use crate::admission::Gate;
use crate::config::PhpConfig;
use crate::observe::{Event, Log, WorkerEvent};
use crate::pool::{
    Backoff, Exchange, Failure, IdleWorker, Order, Phase, PoolSize, Probation, Renewal, RenewalSample,
    RenewalStep, Roll, RollStep, Scaling, ScalingSample, SlotReading, SpawnLimit, Workers, relieved,
};
use crate::sync::primitive::Arc;

use crate::serve::shared::Shared;

/// The state machines of the size and health of the pool.
#[derive(Debug)]
pub(in crate::serve) struct Supervisor {
    scaling: Scaling,
    /// The maximum number of lingering workers.
    lingering_max: usize,
    backoff: Backoff,
    roll: Roll,
    renewal: Renewal,
    /// The slot of the current replacement of a rolling restart.
    roll_slot: Option<usize>,
    /// Why that replacement did not boot.
    roll_failure: Option<Failure>,
    /// How many workers have booted, as far as the supervisor knows.
    booted: u64,
    /// A worker is missing and may not be started yet.
    is_short: bool,
}

impl Supervisor {
    /// Creates the state machines that `config` requires.
    pub(in crate::serve) fn new(config: &PhpConfig) -> Self {
        let size = PoolSize { min: config.workers.min, max: config.workers.max };
        Self {
            scaling: Scaling::new(size, config.workers_idle),
            lingering_max: size.lingering_max(),
            backoff: Backoff::default(),
            roll: Roll::default(),
            renewal: Renewal::default(),
            roll_slot: None,
            roll_failure: None,
            booted: 0,
            is_short: false,
        }
    }

    /// Checks the pool and acts on the result; returns when to call again, if that is known.
    pub(in crate::serve) fn tend(&mut self, shared: &Shared, now: Instant) -> Option<Instant> {
        let (workers, gate) = (shared.workers.get()?, shared.gate.as_ref()?);
        workers.reap();
        self.hear(workers, &shared.log, now);
        if gate.is_shut() {
            return None;
        }
        if shared.roll_wanted.is_set() {
            shared.roll_wanted.clear();
            workers.refresh();
            self.renewal.begin_anew();
            self.begin_roll(workers, &shared.log, now);
        }
        self.replace(workers, &shared.log, now);
        self.renew(workers, shared, now);
        self.relieve(workers, &shared.log, now);
        self.scale(workers, gate, &shared.log, now);
        self.backoff.deadline().filter(|_| self.is_short)
    }

    fn begin_roll(&mut self, workers: &Workers, log: &Log, now: Instant) {
        let slots = workers.slots(now);
        self.roll.ask(&slots);
        let workers = slots.iter().filter(|slot| slot.is_staff()).count();
        tell(log, WorkerEvent::RollStarted { workers });
    }

    /// Continues the renewal of what the workers share.
    fn renew(&mut self, workers: &Workers, shared: &Shared, now: Instant) {
        let Some(cache) = workers.cache().filter(|_| !self.roll.is_under_way()) else { return };
        let slots = workers.slots(now);
        let serving = |slot: &&SlotReading| slot.is_staff() && slot.phase == Phase::Serving;
        let staff_outsiders = slots.iter().filter(serving).filter(|slot| slot.is_outsider).count();
        let staff_users = slots.iter().filter(serving).count() - staff_outsiders;
        match self.renewal.decide(RenewalSample { cache, staff_users, staff_outsiders }, now) {
            Some(RenewalStep::Roll) => {
                self.begin_roll(workers, &shared.log, now);
                self.replace(workers, &shared.log, now);
            }
            Some(RenewalStep::Held) => {
                shared.metrics.opcache_restart_delayed.set();
                let lingering = slots.iter().filter(|slot| slot.is_lingering()).count();
                tell(&shared.log, WorkerEvent::CacheHeld { lingering });
            }
            None => {}
        }
    }

    /// Processes reports of boots and failures.
    fn hear(&mut self, workers: &Workers, log: &Log, now: Instant) {
        let failures = workers.take_failures();
        let booted = workers.booted_total();
        if booted > std::mem::replace(&mut self.booted, booted) {
            let failures = self.backoff.booted();
            if failures > 0 {
                tell(log, WorkerEvent::BootAgain { failures });
            }
        }
        for failure in failures {
            if self.roll_slot == Some(failure.slot) {
                // The other workers run, so this says nothing about starting more of them.
                self.roll_failure = Some(failure);
                continue;
            }
            let pause = self.backoff.failed(now);
            let Failure { slot, had_booted, ref reason } = failure;
            match pause {
                _ if had_booted => tell(log, WorkerEvent::Lost { slot, reason }),
                Some(retry_after) => tell(log, WorkerEvent::NotBooted { slot, reason, retry_after }),
                // The first of several that failed together has been logged.
                None => {}
            }
        }
    }

    /// Continues the rolling restart.
    fn replace(&mut self, workers: &Workers, log: &Log, now: Instant) {
        while self.roll.is_under_way() {
            match self.roll.step(&workers.slots(now), workers.vacant_slot()) {
                Some(RollStep::Hire(slot)) => {
                    self.roll_slot = Some(slot);
                    if let Err(error) = workers.spawn(slot, Probation::Required) {
                        let reason = format!("cannot create a thread: {error}");
                        self.roll_failure = Some(Failure { slot, had_booted: false, reason });
                    }
                    self.roll.spawned(slot, workers.number(slot));
                }
                Some(RollStep::HandOver(slot)) => {
                    self.roll_slot = None;
                    workers.stop(slot, Order::HandOver);
                }
                Some(RollStep::Finished(workers)) => {
                    self.roll_slot = None;
                    tell(log, WorkerEvent::RollFinished { workers });
                }
                Some(RollStep::Stopped { slot, replaced, left }) => {
                    self.renewal.stopped(now);
                    // It may have failed since the reports were processed.
                    self.hear(workers, log, now);
                    self.roll_slot = None;
                    let failure = self.roll_failure.take();
                    let reason = failure.as_ref().map_or("it ended", |failure| &failure.reason);
                    tell(log, WorkerEvent::RollStopped { slot, reason, replaced, left });
                }
                None => return,
            }
        }
    }

    /// Lets workers that want to be replaced linger while replacements start: those that have requests in flight, or
    /// take long to end. As many as may linger do; the others keep their slots until they have ended.
    fn relieve(&mut self, workers: &Workers, log: &Log, now: Instant) {
        for slot in relieved(&workers.slots(now), self.lingering_max) {
            let vacant = workers.vacant_slot().filter(|_| self.backoff.spawn_limit(now) == SpawnLimit::Any);
            match vacant.map(|vacant| (vacant, workers.relieve(slot, vacant))) {
                // There is no replacement yet; the next worker that starts is one.
                None => {
                    workers.stop(slot, Order::HandOver);
                }
                Some((_, Ok(_))) => {}
                Some((vacant, Err(error))) => self.not_hired(vacant, &error, log, now),
            }
        }
    }

    /// Logs that the system cannot create a thread.
    fn not_hired(&mut self, slot: usize, error: &std::io::Error, log: &Log, now: Instant) {
        let reason = format!("cannot create a thread: {error}");
        if let Some(retry_after) = self.backoff.failed(now) {
            tell(log, WorkerEvent::NotBooted { slot, reason: &reason, retry_after });
        }
        self.is_short = true;
    }

    /// Starts missing workers and ends superfluous ones.
    fn scale(&mut self, workers: &Workers, gate: &Gate<Arc<Exchange>>, log: &Log, now: Instant) {
        let slots = workers.slots(now);
        let staff = slots.iter().filter(|slot| slot.is_staff()).count();
        let booting = slots.iter().filter(|slot| slot.phase == Phase::Booting).count();
        let limit = self.backoff.spawn_limit(now);
        if booting == 0 && limit == SpawnLimit::Any && self.scaling.has_room(staff) {
            // Before the queue is checked.
            workers.want_help();
        }
        let facts = gate.facts();
        let idle = slots.iter().filter(|slot| slot.is_staff() && is_able(slot));
        let scale = self.scaling.decide(&ScalingSample {
            staff,
            booting,
            idle: idle.map(|slot| IdleWorker { slot: slot.slot, idle_for: slot.idle_for }).collect(),
            waiting: facts.depth + facts.waiting,
        });
        for slot in scale.retire {
            workers.stop(slot, Order::Retire);
        }
        self.is_short = scale.spawn > 0 && limit == SpawnLimit::Nobody;
        let (count, probation) = match limit {
            SpawnLimit::Any => (scale.spawn, Probation::Waived),
            SpawnLimit::One => (scale.spawn.min(1), Probation::Required),
            SpawnLimit::Nobody => (0, Probation::Required),
        };
        for _ in 0..count {
            let Some(slot) = workers.vacant_slot() else { return };
            self.backoff.tried();
            if let Err(error) = workers.spawn(slot, probation) {
                return self.not_hired(slot, &error, log, now);
            }
        }
    }
}

fn tell(log: &Log, event: WorkerEvent<'_>) {
    log.emit(&Event::Worker(event));
}

/// Whether its worker could take work now.
fn is_able(slot: &SlotReading) -> bool {
    slot.phase == Phase::Serving && slot.leaving_for.is_none() && !slot.is_busy && slot.fibers == 0
}
