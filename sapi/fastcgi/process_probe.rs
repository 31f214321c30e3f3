//! How other threads inspect the process of a worker, and enforce its time limit.

use std::time::Instant;

use svc_core::pool::ThreadProbe;
use svc_core::sync::lock::ShortLock;
use svc_core::time;

use super::process;

/// The activity of a worker, as other threads see it.
#[derive(Debug, Default)]
pub(super) struct ProcessProbe(ShortLock<Probed>);

#[derive(Clone, Copy, Debug, Default)]
struct Probed {
    /// The process; `None` if it is not one of svc.
    pid: Option<u32>,
    /// The number of the request, and when its time limit expires.
    running: Option<(u64, Option<Instant>)>,
}

impl ProcessProbe {
    /// Notes the process of the worker.
    pub(super) fn set_process(&self, pid: Option<u32>) {
        self.0.lock().pid = pid;
    }

    /// Notes the request that the worker has begun, and when its time limit expires.
    pub(super) fn begin(&self, serial: u64, limit_at: Option<Instant>) {
        self.0.lock().running = Some((serial, limit_at));
    }

    /// Notes that the worker has ended the request.
    pub(super) fn end(&self) {
        self.0.lock().running = None;
    }

    fn state(&self) -> Option<u8> {
        let pid = self.0.lock().pid?;
        process::state(pid)
    }
}

impl ThreadProbe for ProcessProbe {
    /// The answer needs no preparation.
    fn ask(&self) {}

    /// Returns whether the process executes instructions.
    fn is_answered(&self) -> bool {
        self.state() == Some(b'R')
    }

    /// A process that was stopped neither sleeps nor runs. Elsewhere, the worker waits for the connection.
    fn sleeps(&self) -> Option<bool> {
        Some(self.state().is_none_or(|state| matches!(state, b'S' | b'D')))
    }

    fn tick(&self) -> Option<u64> {
        let (serial, limit_at) = self.0.lock().running?;
        limit_at.filter(|limit_at| time::now() >= *limit_at).map(|_| serial)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn only_a_running_request_can_be_late() {
        let (probe, now) = (ProcessProbe::default(), time::now());
        assert_eq!(probe.tick(), None);
        probe.begin(7, Some(now + Duration::from_secs(60)));
        assert_eq!(probe.tick(), None);
        probe.begin(8, Some(now));
        assert_eq!(probe.tick(), Some(8));
        probe.end();
        assert_eq!(probe.tick(), None);
        probe.begin(9, None);
        assert_eq!(probe.tick(), None, "without a limit");
    }

    #[test]
    fn the_state_is_that_of_the_process() {
        let probe = ProcessProbe::default();
        assert_eq!((probe.sleeps(), probe.is_answered()), (Some(true), false), "elsewhere, it waits");
        probe.set_process(Some(std::process::id()));
        assert!(probe.sleeps().is_some());
    }
}
