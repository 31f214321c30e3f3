//! The drain: the steps between the stop signal and the end of the process.
//!
//! Each step is ordered once, in the order of the diagram, and nothing waits beyond its deadline. The machine closes
//! nothing and reads no clock; the server carries out its orders.
//!
//! ```text
//!   Serving ──signal──▶ Delaying ──delay over: CloseGate──▶ Finishing ──nothing left, or deadline: CutOff──▶ Ending
//!                                                                                  ──threads ended, or grace over──▶ Ended
//! ```

use std::time::{Duration, Instant};

use svc_core::limits::THREAD_EXIT_GRACE;

/// The state machine of the drain.
#[derive(Debug)]
pub(crate) struct Drain {
    delay: Duration,
    timeout: Duration,
    state: DrainState,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum DrainState {
    Serving,
    Delaying { until: Instant },
    Finishing { deadline: Instant },
    Ending { deadline: Instant },
    Ended,
}

/// The inputs of the state machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Readings {
    /// The stop signal has arrived.
    pub(crate) is_signalled: bool,
    /// Connections are open, or may still be accepted.
    pub(crate) has_connections: bool,
    /// A worker is running a request, or the queue is not empty.
    pub(crate) has_work: bool,
    /// Pool threads are still running.
    pub(crate) has_threads: bool,
}

/// A step to carry out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DrainOrder {
    /// Close the gate, the listener and idle connections.
    CloseGate,
    /// Answer and close everything that is left.
    CutOff,
    /// End the pool threads.
    EndThreads,
    /// Announce the end of the drain.
    Finish {
        /// Whether all pool threads have ended.
        all_ended: bool,
    },
}

/// How often to check during the drain; nothing announces the end of the last request.
const LOOK_PAUSE: Duration = Duration::from_millis(20);

impl Drain {
    /// Creates the state machine of a running server.
    pub(crate) fn new(delay: Duration, timeout: Duration) -> Self {
        Self { delay, timeout, state: DrainState::Serving }
    }

    /// Takes one step if the readings or the time require it. Call it again until it returns no order.
    pub(crate) fn step(&mut self, readings: Readings, now: Instant) -> Option<DrainOrder> {
        match self.state {
            DrainState::Serving if readings.is_signalled => {
                self.state = DrainState::Delaying { until: now + self.delay };
                self.step(readings, now)
            }
            DrainState::Delaying { until } if now >= until => {
                self.state = DrainState::Finishing { deadline: now + self.timeout };
                Some(DrainOrder::CloseGate)
            }
            DrainState::Finishing { .. } if !readings.has_connections && !readings.has_work => {
                self.state = DrainState::Ending { deadline: now + THREAD_EXIT_GRACE };
                Some(DrainOrder::EndThreads)
            }
            DrainState::Finishing { deadline } if now >= deadline => {
                self.state = DrainState::Ending { deadline: now + THREAD_EXIT_GRACE };
                Some(DrainOrder::CutOff)
            }
            DrainState::Ending { deadline } if !readings.has_threads || now >= deadline => {
                self.state = DrainState::Ended;
                Some(DrainOrder::Finish { all_ended: !readings.has_threads })
            }
            _ => None,
        }
    }

    /// Returns until when threads may end; `None` outside of that state.
    pub(crate) fn ending_until(&self) -> Option<Instant> {
        if let DrainState::Ending { deadline } = self.state { Some(deadline) } else { None }
    }

    /// Returns when the next step may be due; `None` if the state machine waits for nothing.
    pub(crate) fn deadline(&self, now: Instant) -> Option<Instant> {
        match self.state {
            DrainState::Serving | DrainState::Ended => None,
            DrainState::Delaying { until } => Some(until),
            DrainState::Finishing { deadline } | DrainState::Ending { deadline } => {
                Some(deadline.min(now + LOOK_PAUSE))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BUSY: Readings =
        Readings { is_signalled: true, has_connections: true, has_work: true, has_threads: true };
    const QUIET: Readings =
        Readings { is_signalled: true, has_connections: false, has_work: false, has_threads: true };
    const GONE: Readings = Readings { has_threads: false, ..QUIET };

    fn drain() -> (Drain, Instant) {
        (Drain::new(Duration::from_secs(5), Duration::from_secs(25)), svc_core::time::now())
    }

    #[test]
    fn without_a_signal_nothing_happens() {
        let (mut drain, now) = drain();
        assert_eq!(drain.step(Readings { is_signalled: false, ..QUIET }, now), None);
        assert_eq!(drain.deadline(now), None);
    }

    #[test]
    fn requests_are_served_until_the_delay_has_passed() {
        let (mut drain, now) = drain();
        assert_eq!(drain.step(QUIET, now), None);
        let until = drain.deadline(now).unwrap();
        assert_eq!(until, now + Duration::from_secs(5));
        assert_eq!(drain.step(QUIET, until), Some(DrainOrder::CloseGate));
    }

    #[test]
    fn a_quiet_server_ends_its_threads_and_is_done() {
        let mut drain = Drain::new(Duration::ZERO, Duration::from_secs(25));
        let now = svc_core::time::now();
        assert_eq!(drain.step(BUSY, now), Some(DrainOrder::CloseGate));
        assert_eq!(drain.step(BUSY, now), None);
        assert_eq!(drain.step(QUIET, now), Some(DrainOrder::EndThreads));
        assert_eq!(drain.step(QUIET, now), None);
        assert_eq!(drain.step(GONE, now), Some(DrainOrder::Finish { all_ended: true }));
        assert_eq!(drain.step(GONE, now), None);
    }

    #[test]
    fn work_without_a_connection_is_waited_for() {
        let mut drain = Drain::new(Duration::ZERO, Duration::from_secs(25));
        let now = svc_core::time::now();
        drain.step(BUSY, now);
        assert_eq!(drain.step(Readings { has_connections: false, ..BUSY }, now), None);
    }

    #[test]
    fn the_deadline_cuts_off_and_the_grace_is_bounded() {
        let mut drain = Drain::new(Duration::ZERO, Duration::from_secs(25));
        let now = svc_core::time::now();
        drain.step(BUSY, now);
        let late = now + Duration::from_secs(25);
        assert_eq!(drain.step(BUSY, late), Some(DrainOrder::CutOff));
        assert_eq!(drain.step(BUSY, late), None);
        assert_eq!(drain.step(BUSY, late + THREAD_EXIT_GRACE), Some(DrainOrder::Finish { all_ended: false }));
    }
}
