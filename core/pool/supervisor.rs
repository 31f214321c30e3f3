//! The supervisor of a pool: it starts missing workers, stops superfluous ones, and replaces workers.
//!
//! The decisions are those of [`Scaling`], [`Backoff`], [`RollingRestart`], [`Renewal`] and [`relieved`], and none of the
//! supervisor's orders loses a job; workers that fail to boot are started again after growing pauses, with one report for
//! each attempt, and so is a requested restart that failed. The supervisor waits for no worker and reads no clock; it
//! returns reports, which the caller logs.

use std::time::{Duration, Instant};

use super::backoff::{Backoff, SpawnLimit};
use super::boot_fault::BootFault;
use super::job::Job;
use super::relief::{carrying_on, relieved};
use super::renewal::{Renewal, RenewalSample, RenewalStep};
use super::rolling_restart::{RollingRestart, RollingRestartStep};
use super::scaling::{IdleWorker, Scaling, ScalingSample};
use super::slot::{SlotPhase, SlotReading, WorkerOrder};
use super::state::{Failure, PoolSize};
use super::workers::{Probation, WorkerPool};

/// The state machines that decide about the size and the health of one pool.
#[derive(Debug)]
pub struct Supervisor {
    scaling: Scaling,
    /// The maximum number of workers that may linger.
    lingering_max: usize,
    backoff: Backoff,
    rolling_restart: RollingRestart,
    renewal: Renewal,
    restart_wanted: bool,
    /// The slot in which the current replacement of a rolling restart was started.
    replacement_slot: Option<usize>,
    /// Why the replacement failed to boot.
    replacement_failure: Option<BootFault>,
    /// The number of boots at the last call.
    booted: u64,
    /// Whether a worker is missing and must not be started yet.
    is_short: bool,
    /// The requested restart, until it has succeeded.
    asked: Option<AskedRestart>,
    stale_boots: StaleBoots,
    events: SupervisorEvents,
}

/// A requested rolling restart.
#[derive(Clone, Copy, Debug)]
struct AskedRestart {
    /// The number of boots before it, or before its last failure.
    booted: u64,
    /// Whether all workers from before it are gone.
    is_over: bool,
    /// Whether its failure has been reported. It is attempted again.
    has_failed: bool,
}

/// The workers that were booting when a restart was requested. They may have loaded the code from before it, so their
/// boots do not show that the new code boots.
#[derive(Debug, Default)]
struct StaleBoots {
    /// The slots and numbers of those that still boot.
    booting: Vec<(usize, u64)>,
    /// The number of those that have booted and were not subtracted yet.
    booted: u64,
}

/// Events since the last call of [`Supervisor::take_events`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SupervisorEvents {
    /// A worker has booted.
    pub has_booted: bool,
    /// The failures to boot; they count as later than the boots.
    pub failures: Vec<BootFault>,
    /// The outcome of the last requested restart: all workers that take work have booted since, or one failed to. A
    /// failure may be followed by the success of a later attempt.
    pub restart: Option<Result<(), BootFault>>,
}

/// A report to log about the workers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SupervisorReport<'a> {
    /// A worker ended unexpectedly.
    Lost {
        /// The index of its slot.
        slot: usize,
        /// The reason.
        reason: &'a str,
    },
    /// A worker failed to boot. Others that fail together with it are not reported.
    NotBooted {
        /// The index of its slot.
        slot: usize,
        /// The reason.
        reason: &'a str,
        /// How long until the next attempt.
        retry_after: Duration,
    },
    /// A worker booted after others had failed to.
    BootAgain {
        /// The number of failed attempts.
        failures: u64,
    },
    /// The renewal of the cache that workers share is waiting for old workers to end.
    RenewalDelayed {
        /// The number of workers that take no more work and have not ended.
        lingering: usize,
    },
    /// A rolling restart has started.
    RestartStarted {
        /// The number of workers.
        workers: usize,
    },
    /// The rolling restart has finished.
    RestartFinished {
        /// The number of workers.
        workers: usize,
    },
    /// A replacement failed to boot; the remaining old workers keep running.
    RestartStopped {
        /// The index of the replacement's slot.
        slot: usize,
        /// The reason.
        reason: &'a str,
        /// The number of workers replaced before.
        replaced: usize,
        /// The number of old workers that keep running.
        left: usize,
    },
}

/// Where reports go.
type Report<'a> = &'a mut dyn FnMut(SupervisorReport<'_>);

impl Supervisor {
    /// Makes the supervisor of a pool of this size, whose workers may be idle for `idle_max`.
    pub fn new(size: PoolSize, idle_max: Duration) -> Self {
        Self {
            scaling: Scaling::new(size, idle_max),
            lingering_max: size.lingering_max(),
            backoff: Backoff::default(),
            rolling_restart: RollingRestart::default(),
            renewal: Renewal::default(),
            restart_wanted: false,
            replacement_slot: None,
            replacement_failure: None,
            booted: 0,
            is_short: false,
            asked: None,
            stale_boots: StaleBoots::default(),
            events: SupervisorEvents::default(),
        }
    }

    /// Makes the next call of [`tend`](Self::tend) begin a rolling restart. If workers fail to boot, the next attempt
    /// follows immediately.
    pub fn want_restart(&mut self) {
        self.restart_wanted = true;
        // The outcome of an earlier request is not the outcome of this one.
        self.asked = None;
        self.events.restart = None;
    }

    /// Takes the events since the last call.
    pub fn take_events(&mut self) -> SupervisorEvents {
        std::mem::take(&mut self.events)
    }

    /// Takes the actions that the state of the pool requires; returns when to call again, if that is known. Must be
    /// called at least once a second, and whenever the pool [calls](WorkerPool::set_supervisor); spurious calls are
    /// harmless.
    pub fn tend<J: Job>(
        &mut self,
        workers: &WorkerPool<J>,
        report: &mut dyn FnMut(SupervisorReport<'_>),
        now: Instant,
    ) -> Option<Instant> {
        workers.reap();
        self.hear(workers, report, now);
        if workers.is_queue_closed() {
            return None;
        }
        if std::mem::take(&mut self.restart_wanted) {
            self.asked = Some(AskedRestart { booted: self.booted, is_over: false, has_failed: false });
            self.stale_boots.begin(&workers.slots(now));
            self.backoff.renewed(now);
            self.renewal.begin_anew();
            self.begin_rolling_restart(workers, report, now);
        }
        self.replace(workers, report, now);
        self.renew(workers, report, now);
        self.relieve(workers, report, now);
        self.scale(workers, report, now);
        self.conclude();
        self.backoff.deadline().filter(|_| self.is_short)
    }

    fn begin_rolling_restart<J: Job>(&mut self, workers: &WorkerPool<J>, report: Report<'_>, now: Instant) {
        let slots = workers.slots(now);
        self.rolling_restart.ask(&slots);
        let workers = slots.iter().filter(|slot| slot.is_active()).count();
        report(SupervisorReport::RestartStarted { workers });
    }

    /// Continues to renew the cache that the workers share, and attempts a failed restart again.
    fn renew<J: Job>(&mut self, workers: &WorkerPool<J>, report: Report<'_>, now: Instant) {
        let (cache, is_behind) = (workers.cache(), self.is_behind());
        if self.rolling_restart.is_under_way() || (cache.is_none() && !is_behind) {
            return;
        }
        let cache = cache.unwrap_or_default();
        let slots = workers.slots(now);
        let serving = |slot: &&SlotReading| slot.is_active() && slot.phase == SlotPhase::Serving;
        let active_uncached = slots.iter().filter(serving).filter(|slot| slot.is_uncached).count();
        let active_users = slots.iter().filter(serving).count() - active_uncached;
        match self.renewal.decide(RenewalSample { cache, active_users, active_uncached, is_behind }, now) {
            Some(RenewalStep::Restart) => {
                self.begin_rolling_restart(workers, report, now);
                self.replace(workers, report, now);
            }
            Some(RenewalStep::Held) => {
                let lingering = slots.iter().filter(|slot| slot.is_lingering()).count();
                report(SupervisorReport::RenewalDelayed { lingering });
            }
            None => {}
        }
    }

    /// Processes boots and failures since the last call.
    fn hear<J: Job>(&mut self, workers: &WorkerPool<J>, report: Report<'_>, now: Instant) {
        let failures = workers.take_failures();
        let booted = workers.booted_total();
        let boots = booted - std::mem::replace(&mut self.booted, booted);
        if boots > 0 {
            if self.stale_boots.subtract_from(boots, &workers.slots(now)) > 0 {
                self.events.has_booted = true;
                if self.is_behind() && !self.rolling_restart.is_under_way() {
                    // The code on disk boots again, so the other workers need not wait for it.
                    self.renewal.begin_anew();
                }
            }
            self.conclude();
            let failures = self.backoff.booted();
            if failures > 0 {
                report(SupervisorReport::BootAgain { failures });
            }
        }
        for failure in failures {
            if !failure.had_booted {
                self.note_fault(&failure.fault);
            }
            if self.replacement_slot == Some(failure.slot) {
                // The old workers run, so this failure does not slow down other starts.
                self.replacement_failure = Some(failure.fault);
                continue;
            }
            let pause = self.backoff.failed(now);
            let Failure { slot, had_booted, fault } = failure;
            let reason = &*fault.to_string();
            match pause {
                _ if had_booted => report(SupervisorReport::Lost { slot, reason }),
                Some(retry_after) => report(SupervisorReport::NotBooted { slot, reason, retry_after }),
                // The first of the workers that failed together was reported.
                None => {}
            }
        }
    }

    /// Notes why a worker failed to boot. If all workers from before a requested restart are gone, that restart has
    /// failed.
    fn note_fault(&mut self, fault: &BootFault) {
        self.events.failures.push(fault.clone());
        if self.asked.is_some_and(|asked| asked.is_over) {
            self.asked_failed(fault.clone(), true);
        }
    }

    /// Notes that the requested restart has failed. Reports the first failure; `is_over`: no worker from before is left.
    fn asked_failed(&mut self, fault: BootFault, is_over: bool) {
        let Some(asked) = &mut self.asked else { return };
        (asked.booted, asked.is_over) = (self.booted, is_over);
        if !std::mem::replace(&mut asked.has_failed, true) {
            self.events.restart = Some(Err(fault));
        }
    }

    /// Returns whether a requested restart has failed and workers from before it may be left.
    fn is_behind(&self) -> bool {
        self.asked.is_some_and(|asked| asked.has_failed && !asked.is_over)
    }

    /// Continues a rolling restart.
    fn replace<J: Job>(&mut self, workers: &WorkerPool<J>, report: Report<'_>, now: Instant) {
        while self.rolling_restart.is_under_way() {
            match self.rolling_restart.step(&workers.slots(now), workers.vacant_slot()) {
                Some(RollingRestartStep::Spawn(slot)) => {
                    // A failure of a replacement from before the last request does not count.
                    self.hear(workers, report, now);
                    self.replacement_failure = None;
                    self.replacement_slot = Some(slot);
                    if let Err(error) = workers.spawn(slot, Probation::Required) {
                        let fault = format!("cannot create a thread: {error}").into();
                        self.note_fault(&fault);
                        self.replacement_failure = Some(fault);
                    }
                    self.rolling_restart.spawned(slot, workers.number(slot));
                }
                Some(RollingRestartStep::HandOver(slot)) => {
                    self.replacement_slot = None;
                    workers.stop(slot, WorkerOrder::HandOver);
                }
                Some(RollingRestartStep::Finished(workers)) => {
                    self.replacement_slot = None;
                    self.asked.iter_mut().for_each(|asked| asked.is_over = true);
                    report(SupervisorReport::RestartFinished { workers });
                }
                Some(RollingRestartStep::Stopped { slot, replaced, left }) => {
                    self.renewal.stopped(now);
                    // The failure may have been reported since the last call.
                    self.hear(workers, report, now);
                    self.replacement_slot = None;
                    let failure = self.replacement_failure.take();
                    let fault = failure.unwrap_or_else(|| "it ended".to_owned().into());
                    report(SupervisorReport::RestartStopped {
                        slot,
                        reason: &fault.to_string(),
                        replaced,
                        left,
                    });
                    // Without any worker, the next boot decides.
                    self.asked_failed(fault, replaced == 0 && left == 0);
                }
                None => return,
            }
        }
    }

    /// Lets workers that want to be replaced linger while others take their places, as far as the bound allows. The
    /// others keep their places until they have ended, and take more work if jobs wait for jobs.
    fn relieve<J: Job>(&mut self, workers: &WorkerPool<J>, report: Report<'_>, now: Instant) {
        for slot in relieved(&workers.slots(now), self.lingering_max) {
            let vacant = workers.vacant_slot().filter(|_| self.backoff.spawn_limit(now) == SpawnLimit::Any);
            match vacant.map(|vacant| (vacant, workers.relieve(slot, vacant))) {
                // No worker can take its place yet; the next worker that is started does.
                None => {
                    workers.stop(slot, WorkerOrder::HandOver);
                }
                Some((_, Ok(_))) => {}
                Some((vacant, Err(error))) => self.not_spawned(vacant, &error, report, now),
            }
        }
        if workers.has_jobs_that_await_jobs() {
            carrying_on(&workers.slots(now)).into_iter().for_each(|slot| workers.carry_on(slot));
        }
    }

    /// Handles the failure of the system to create a thread.
    fn not_spawned(&mut self, slot: usize, error: &std::io::Error, report: Report<'_>, now: Instant) {
        let reason = format!("cannot create a thread: {error}");
        self.note_fault(&reason.clone().into());
        if let Some(retry_after) = self.backoff.failed(now) {
            report(SupervisorReport::NotBooted { slot, reason: &reason, retry_after });
        }
        self.is_short = true;
    }

    /// Reports a restart that is over as successful if a worker has booted since it began. If there was no worker to
    /// replace, the next worker decides.
    fn conclude(&mut self) {
        let Some(asked) = self.asked.filter(|asked| asked.is_over) else { return };
        if self.booted > asked.booted {
            self.asked = None;
            self.events.restart = Some(Ok(()));
        }
    }

    /// Starts missing workers, and retires superfluous ones.
    fn scale<J: Job>(&mut self, workers: &WorkerPool<J>, report: Report<'_>, now: Instant) {
        let slots = workers.slots(now);
        let active = slots.iter().filter(|slot| slot.is_active()).count();
        let booting = slots.iter().filter(|slot| slot.phase == SlotPhase::Booting).count();
        let limit = self.backoff.spawn_limit(now);
        if booting == 0 && limit == SpawnLimit::Any && self.scaling.has_room(active) {
            // Before the backlog is read, so that no job is missed.
            workers.arm_supervisor();
        }
        let waiting = workers.backlog();
        let idle = slots.iter().filter(|slot| slot.is_active() && is_able(slot));
        let scale = self.scaling.decide(&ScalingSample {
            active,
            booting,
            idle: idle.map(|slot| IdleWorker { slot: slot.slot, idle_for: slot.idle_for }).collect(),
            waiting,
        });
        for slot in scale.retire {
            workers.stop(slot, WorkerOrder::Retire);
        }
        self.is_short = scale.spawn > 0 && limit == SpawnLimit::None;
        let (count, probation) = match limit {
            SpawnLimit::Any => (scale.spawn, Probation::Waived),
            SpawnLimit::One => (scale.spawn.min(1), Probation::Required),
            SpawnLimit::None => (0, Probation::Required),
        };
        for _ in 0..count {
            let Some(slot) = workers.vacant_slot() else { return };
            self.backoff.tried();
            if let Err(error) = workers.spawn(slot, probation) {
                return self.not_spawned(slot, &error, report, now);
            }
        }
    }
}

impl StaleBoots {
    /// Begins anew with the workers that boot now.
    fn begin(&mut self, slots: &[SlotReading]) {
        let booting = slots.iter().filter(|slot| slot.phase == SlotPhase::Booting);
        *self = Self { booting: booting.map(|slot| (slot.slot, slot.number)).collect(), booted: 0 };
    }

    /// Returns how many of `boots` are boots of other workers. `slots` must be read after the number of boots.
    fn subtract_from(&mut self, boots: u64, slots: &[SlotReading]) -> u64 {
        let Self { booting, booted } = self;
        booting.retain(|worker| {
            let found = slots.iter().find(|slot| (slot.slot, slot.number) == *worker);
            let phase = found.map_or(SlotPhase::Vacant, |slot| slot.phase);
            *booted += u64::from(phase == SlotPhase::Serving);
            phase == SlotPhase::Booting
        });
        // A worker that serves already may be counted among later boots.
        let stale = boots.min(*booted);
        *booted -= stale;
        boots - stale
    }
}

/// Returns whether the worker of a slot could take work now.
fn is_able(slot: &SlotReading) -> bool {
    slot.phase == SlotPhase::Serving && slot.leaving_for.is_none() && !slot.is_busy && slot.fibers == 0
}
