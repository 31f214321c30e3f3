//! The one moment that a thread may be waited for: a plugin has been initialised, or has stopped.
//!
//! Promises: the moment is told when the thread drops its end, whatever ended it; a wait has a time limit. Refuses: it
//! carries nothing.

use std::io::{self, PipeReader, PipeWriter};
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
        let timeout = Timespec::try_from(timeout).ok();
        let mut waits = [PollFd::new(&self.0, PollFlags::IN)];
        // The pipe carries nothing; it becomes readable when its other end is closed.
        matches!(poll(&mut waits, timeout.as_ref()), Ok(1..))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_moment_comes_when_the_other_end_is_dropped() {
        let (end, watch) = milestone().unwrap();
        assert!(!watch.wait(Duration::ZERO));
        drop(end);
        assert!(watch.wait(Duration::ZERO) && watch.wait(Duration::MAX), "and stays");
    }
}
