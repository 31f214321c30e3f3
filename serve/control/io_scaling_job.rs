//! The job that adjusts the number of active I/O threads periodically.
//!
//! Nothing happens if the number of I/O threads is configured, or is one. The job decides nothing; [`IoScaling`]
//! does.

use std::time::{Duration, Instant};

use svc_core::limits::IO_SCALING_TICK;
use svc_core::observe::processors;
use svc_core::sync::load_sharing::{HandoverOrder, LoadSharing, ThreadUse};
use svc_core::sync::primitive::Arc;

use super::io_scaling::{IoScaling, IoUse, Move};
use super::schedule::PeriodicJob;
use crate::shared::Shared;

/// Applies [`IoScaling`] at each tick.
pub(super) struct IoScalingJob {
    shared: Arc<Shared>,
    scaling: Option<IoScaling>,
    last: IoReading,
    round: u32,
    due: Instant,
}

/// The values read at one moment.
struct IoReading {
    at: Instant,
    /// The activity of each thread so far.
    uses: Vec<ThreadUse>,
    /// The idle time of the processors; read only if it may matter.
    idle: Option<Duration>,
}

impl IoScalingJob {
    /// Creates the job for the I/O threads of a server.
    pub(super) fn new(shared: &Arc<Shared>, now: Instant) -> Self {
        let serving = &shared.config.serving;
        let scaling = (serving.io_workers_at_start < serving.io_workers).then(IoScaling::new);
        let last = IoReading { at: now, uses: shared.io_load.uses(), idle: None };
        Self { shared: Arc::clone(shared), scaling, last, round: 0, due: now + IO_SCALING_TICK }
    }
}

impl PeriodicJob for IoScalingJob {
    fn run(&mut self, now: Instant) {
        let Some(scaling) = self.scaling.as_mut().filter(|_| now >= self.due) else { return };
        self.due = now + IO_SCALING_TICK;
        let io_load = &self.shared.io_load;
        let took = now.saturating_duration_since(self.last.at).as_secs_f64();
        let uses = io_load.uses();
        let part = |now: Duration, then: Duration| now.saturating_sub(then).as_secs_f64() / took;
        let lately = |(now, then): (&ThreadUse, &ThreadUse)| IoUse {
            cpu: part(now.cpu, then.cpu),
            awake: part(now.awake, then.awake),
        };
        let of_tick: Vec<IoUse> = uses.iter().zip(&self.last.uses).map(lately).collect();
        let idle = self.last.idle.and_then(|then| Some((then, processors::idle_time()?)));
        let was_idle = idle.map(|(then, now)| part(now, then));
        let plan = scaling.tick(&of_tick, was_idle);
        // The idle time until the next tick counts from here.
        let wants_idle = scaling.asks_for_idle_time();
        let idle = wants_idle.then(|| idle.map(|(_, now)| now).or_else(processors::idle_time)).flatten();
        self.last = IoReading { at: now, uses, idle };
        self.round = self.round.wrapping_add(1);
        io_load.use_first(plan.in_use);
        give_orders(io_load, of_tick.len(), &plan.moves, self.round);
    }

    fn deadline(&self) -> Option<Instant> {
        self.scaling.is_some().then_some(self.due)
    }
}

/// Gives each of `threads` threads its order from `moves`.
fn give_orders(io_load: &LoadSharing, threads: usize, moves: &[Move], round: u32) {
    for thread in 0..threads {
        let of_thread = moves.iter().find(|one| one.from == thread);
        let order = of_thread.map_or_else(HandoverOrder::default, |one| HandoverOrder {
            round,
            to: u16::try_from(one.to).unwrap_or(0),
            share: share_of(one.share),
        });
        if order != io_load.order_of(thread) {
            io_load.order(thread, order);
        }
    }
}

/// Converts a share to the units of an order.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it is between 0 and 1")]
fn share_of(share: f64) -> u16 {
    (share.clamp(0.0, 1.0) * f64::from(HandoverOrder::WHOLE)) as u16
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;
    use svc_core::config::{AccessLog, Config, Level, Machine, RawConfig};
    use svc_core::observe::Log;
    use svc_core::policy::Policy;
    use svc_core::time;

    /// A server on a machine with this many processors.
    fn shared(cpus: usize, settings: &[(&str, &str)]) -> Arc<Shared> {
        let usual = [("EXECUTOR", "stub"), ("DOCUMENT_ROOT", "/")];
        let raw = RawConfig::new(usual.iter().chain(settings).copied());
        let config = Config::resolve_on(&raw, &Machine { cpus, ..Machine::of_this_process() }).unwrap();
        let log = Log::start(Level::Error, AccessLog::Off, io::sink()).unwrap();
        Shared::new(Arc::new(config), Policy::default(), None, log, None)
    }

    /// Runs the job for `ticks` ticks; before each, the first thread never sleeps and has a processor for half of the
    /// time.
    fn starve(shared: &Arc<Shared>, ticks: u32) {
        let start = time::now();
        let mut job = IoScalingJob::new(shared, start);
        for tick in 1..=ticks {
            let awake = IO_SCALING_TICK * tick;
            shared.io_load.note(0, ThreadUse { cpu: awake / 2, awake });
            job.run(start + awake);
            job.run(start + awake);
        }
    }

    #[test]
    fn a_starved_thread_is_ordered_to_hand_half_of_its_connections_to_another() {
        let begun = shared(2, &[]);
        starve(&begun, 1);
        assert_eq!((begun.io_load.in_use(), begun.io_load.order_of(0)), (1, HandoverOrder::default()));
        let shared = shared(2, &[]);
        starve(&shared, 2);
        assert_eq!(shared.io_load.in_use(), 2);
        let order = HandoverOrder { round: 2, to: 1, share: HandoverOrder::WHOLE / 2 };
        assert_eq!(
            (shared.io_load.order_of(0), shared.io_load.order_of(1)),
            (order, HandoverOrder::default())
        );
    }

    #[test]
    fn a_tick_is_a_deadline_where_there_is_something_to_decide() {
        for (cpus, settings, has_deadline) in
            [(2, &[][..], true), (1, &[][..], false), (4, &[("IO_WORKERS", "3")][..], false)]
        {
            let start = time::now();
            let mut job = IoScalingJob::new(&shared(cpus, settings), start);
            for tick in 1..=2 {
                assert_eq!(job.deadline(), has_deadline.then(|| start + IO_SCALING_TICK * tick));
                job.run(start + IO_SCALING_TICK * tick);
            }
        }
    }

    #[test]
    fn a_number_that_was_set_stays_and_one_thread_stays_alone() {
        for (cpus, settings, in_use) in [(4, &[("IO_WORKERS", "3")][..], 3), (1, &[][..], 1)] {
            let shared = shared(cpus, settings);
            starve(&shared, 5);
            assert_eq!(
                (shared.io_load.in_use(), shared.io_load.order_of(0)),
                (in_use, HandoverOrder::default())
            );
        }
    }
}
