//! Wakes a worker thread that waits for descriptors.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::event::{EventfdFlags, eventfd};

use svc_core::sync::idle_workers::Wake;

/// A descriptor that is readable once its thread should wake up.
#[derive(Debug)]
pub(super) struct EventWaker(OwnedFd);

impl EventWaker {
    /// Creates a descriptor.
    ///
    /// # Errors
    ///
    /// If the system is out of descriptors.
    pub(super) fn new() -> io::Result<Self> {
        Ok(Self(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?))
    }

    /// Makes the descriptor unreadable until the next wake-up.
    pub(super) fn clear(&self) {
        // It may not have been woken.
        let _ = rustix::io::read(&self.0, &mut [0; 8]);
    }
}

impl AsFd for EventWaker {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl Wake for EventWaker {
    fn wake(&self) {
        // The only possible error is a full counter, and then the thread is already being woken.
        let _ = rustix::io::write(&self.0, &1_u64.to_ne_bytes());
    }
}
