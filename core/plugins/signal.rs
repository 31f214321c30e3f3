//! A one-shot event: a plugin was initialised, or has stopped.
//!
//! The event fires when the thread drops its end, for whatever reason, including a panic. Waits have a time limit and
//! can be interrupted. The event carries no value.

use std::io::{self, PipeReader, PipeWriter};
use std::os::fd::BorrowedFd;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::descriptor::move_up;

/// The thread's end; dropping it fires the event.
#[derive(Debug)]
pub(super) struct OneShotEvent {
    _end: PipeWriter,
}

/// The waiting end.
#[derive(Debug)]
pub(super) struct OneShotEventWatch(PipeReader);

/// The outcome of a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WaitEnd {
    /// The event has fired.
    Come,
    /// `stop` became readable.
    GivenUp,
    /// The time limit has passed.
    Late,
}

/// Creates both ends.
///
/// # Errors
///
/// If the system is out of descriptors.
pub(super) fn one_shot_event() -> io::Result<(OneShotEvent, OneShotEventWatch)> {
    let (reader, writer) = io::pipe()?;
    Ok((OneShotEvent { _end: move_up(writer) }, OneShotEventWatch(move_up(reader))))
}

impl OneShotEventWatch {
    /// Waits for the event; returns whether it fired in time.
    pub(super) fn wait(&self, timeout: Duration) -> bool {
        self.wait_unless(None, timeout) == WaitEnd::Come
    }

    /// Waits until the event fires or `stop` is readable.
    pub(super) fn wait_unless(&self, stop: Option<BorrowedFd<'_>>, timeout: Duration) -> WaitEnd {
        let timeout = Timespec::try_from(timeout).ok();
        let own = PollFd::new(&self.0, PollFlags::IN);
        let mut waits = [own.clone(), stop.map_or(own, |stop| PollFd::from_borrowed_fd(stop, PollFlags::IN))];
        // The pipe carries no data; poll() reports the read end as ready when the write end is closed.
        let is_over = matches!(poll(&mut waits, timeout.as_ref()), Ok(1..));
        match waits.map(|wait| !wait.revents().is_empty()) {
            [true, _] if is_over => WaitEnd::Come,
            [false, true] if is_over => WaitEnd::GivenUp,
            _ => WaitEnd::Late,
        }
    }
}

/// Returns whether `stop` is readable.
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
        let (end, watch) = one_shot_event().unwrap();
        assert!(!watch.wait(Duration::ZERO));
        drop(end);
        assert!(watch.wait(Duration::ZERO) && watch.wait(Duration::MAX), "and stays");
    }

    #[test]
    fn a_wait_is_given_up_unless_the_moment_has_come() {
        let (end, watch) = one_shot_event().unwrap();
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
