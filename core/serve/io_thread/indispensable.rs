//! Threads that the server cannot run without.

use std::thread;

/// Guards a thread that the server needs to serve. If the thread panics, the process aborts instead of only appearing
/// to serve, so that its supervisor can restart it.
pub(in crate::serve) struct Indispensable;

impl Drop for Indispensable {
    fn drop(&mut self) {
        if thread::panicking() {
            std::process::abort();
        }
    }
}
