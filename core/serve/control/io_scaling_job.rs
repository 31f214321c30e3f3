//! The job that brings I/O threads into use, and out of it.
//!
//! Promises: nothing happens if the number of I/O threads was chosen, or is one. Refuses: it decides nothing;
//! [`IoScaling`] does.

use std::time::{Duration, Instant};

use crate::limits::CONTROL_TICK;
use crate::observe::processors;
use crate::sync::load_sharing::{HandoverOrder, LoadSharing, ThreadUse};
use crate::sync::primitive::Arc;

use super::io_scaling::{IoScaling, IoUse, Move};
use super::schedule::PeriodicJob;
use crate::serve::shared::Shared;

/// Looks at the I/O threads once a second.
pub(super) struct IoScalingJob {
    shared: Arc<Shared>,
    scaling: Option<IoScaling>,
    last: IoReading,
    round: u32,
    due: Instant,
}

/// What was read at one moment.
struct IoReading {
    at: Instant,
    /// What each thread has done.
    uses: Vec<ThreadUse>,
    /// How long processors were idle; read only if it may matter.
    idle: Option<Duration>,
}

impl IoScalingJob {
    /// Watches the I/O threads of a server.
    pub(super) fn new(shared: &Arc<Shared>, now: Instant) -> Self {
        let serving = &shared.config.serving;
        let scaling = (serving.io_workers_at_start < serving.io_workers).then(IoScaling::new);
        let last = IoReading { at: now, uses: shared.io_load.uses(), idle: None };
        Self { shared: Arc::clone(shared), scaling, last, round: 0, due: now + CONTROL_TICK }
    }
}

impl PeriodicJob for IoScalingJob {
    fn run(&mut self, now: Instant) {
        let Some(scaling) = self.scaling.as_mut().filter(|_| now >= self.due) else { return };
        self.due = now + CONTROL_TICK;
        let io_load = &self.shared.io_load;
        let took = now.saturating_duration_since(self.last.at).as_secs_f64();
        let uses = io_load.uses();
        let part = |now: Duration, then: Duration| now.saturating_sub(then).as_secs_f64() / took;
        let lately = |(now, then): (&ThreadUse, &ThreadUse)| IoUse {
            cpu: part(now.cpu, then.cpu),
            awake: part(now.awake, then.awake),
        };
        let of_second: Vec<IoUse> = uses.iter().zip(&self.last.uses).map(lately).collect();
        let was_idle = self.last.idle.zip(scaling.asks_for_idle_time().then(processors::idle_time).flatten());
        let idle = was_idle.map(|(then, now)| now.saturating_sub(then).as_secs_f64() / took);
        let plan = scaling.tick(&of_second, idle);
        // What is idle during the next second counts from here.
        let idle = scaling.asks_for_idle_time().then(processors::idle_time).flatten();
        self.last = IoReading { at: now, uses, idle };
        self.round = self.round.wrapping_add(1);
        io_load.use_first(plan.in_use);
        give_orders(io_load, of_second.len(), &plan.moves, self.round);
    }

    /// The next second can wait for others.
    fn deadline(&self) -> Option<Instant> {
        None
    }
}

/// Gives each of so many threads the order that `moves` has for it.
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

/// A share in the parts of an order.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it is between 0 and 1")]
fn share_of(share: f64) -> u16 {
    (share.clamp(0.0, 1.0) * f64::from(HandoverOrder::WHOLE)) as u16
}
