//! Ends the process if a thread that serves connections panics.

use std::thread;

/// A guard in a thread that the server cannot run without. If the thread panics, the process aborts instead of only
/// appearing to serve, so that its supervisor can restart it.
pub(crate) struct AbortOnPanic;

impl Drop for AbortOnPanic {
    fn drop(&mut self) {
        if thread::panicking() {
            std::process::abort();
        }
    }
}
