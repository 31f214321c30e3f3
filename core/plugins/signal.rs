//! The one moment that a thread may be waited for: a plugin has been initialised, or has stopped.
//!
//! Promises: the moment is told when the thread drops its end, whatever ended it; a wait has a time limit, and may be given
//! up before that. Refuses: it carries nothing.

use std::io::{self, PipeReader, PipeWriter};
use std::os::fd::BorrowedFd;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::descriptor::move_up;

/// The end of the thread: dropping it tells the moment.
#[derive(Debug)]
pub(super) struct Milestone {
    _end: PipeWriter,
}

/// The end of whoever waits.
#[derive(Debug)]
pub(super) struct MilestoneWatch(PipeReader);

/// How a wait has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WaitEnd {
    /// The moment has come.
    Come,
    /// Somebody wants no more waiting.
    GivenUp,
    /// Neither, and the time is over.
    Late,
}

/// Makes both ends.
///
/// # Errors
///
/// When the system gives no descriptors.
pub(super) fn milestone() -> io::Result<(Milestone, MilestoneWatch)> {
    let (reader, writer) = io::pipe()?;
    Ok((Milestone { _end: move_up(writer) }, MilestoneWatch(move_up(reader))))
}

impl MilestoneWatch {
    /// Waits for the moment; returns whether it came in time.
    pub(super) fn wait(&self, timeout: Duration) -> bool {
        self.wait_unless(None, timeout) == WaitEnd::Come
    }

    /// Waits for the moment until `stop` is readable.
    pub(super) fn wait_unless(&self, stop: Option<BorrowedFd<'_>>, timeout: Duration) -> WaitEnd {
        let timeout = Timespec::try_from(timeout).ok();
        let own = PollFd::new(&self.0, PollFlags::IN);
        let mut waits = [own.clone(), stop.map_or(own, |stop| PollFd::from_borrowed_fd(stop, PollFlags::IN))];
        // The pipe carries nothing; it becomes readable when its other end is closed.
        let is_over = matches!(poll(&mut waits, timeout.as_ref()), Ok(1..));
        match waits.map(|wait| !wait.revents().is_empty()) {
            [true, _] if is_over => WaitEnd::Come,
            [false, true] if is_over => WaitEnd::GivenUp,
            _ => WaitEnd::Late,
        }
    }
}

/// Whether `stop` is readable.
pub(super) fn is_stop_wanted(stop: Option<BorrowedFd<'_>>) -> bool {
    let Some(stop) = stop else { return false };
    let mut waits = [PollFd::from_borrowed_fd(stop, PollFlags::IN)];
    matches!(poll(&mut waits, Some(&Timespec::default())), Ok(1..))
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;

    use super::*;

    #[test]
    fn the_moment_comes_when_the_other_end_is_dropped() {
        let (end, watch) = milestone().unwrap();
        assert!(!watch.wait(Duration::ZERO));
        drop(end);
        assert!(watch.wait(Duration::ZERO) && watch.wait(Duration::MAX), "and stays");
    }

    #[test]
    fn a_wait_is_given_up_unless_the_moment_has_come() {
        let (end, watch) = milestone().unwrap();
        let (reader, writer) = io::pipe().unwrap();
        let stop = Some(reader.as_fd());
        assert_eq!((watch.wait_unless(stop, Duration::ZERO), is_stop_wanted(stop)), (WaitEnd::Late, false));
        drop(writer);
        assert_eq!((watch.wait_unless(stop, Duration::MAX), is_stop_wanted(stop)), (WaitEnd::GivenUp, true));
        drop(end);
        assert_eq!(watch.wait_unless(stop, Duration::MAX), WaitEnd::Come);
        assert!(!is_stop_wanted(None));
    }
}
