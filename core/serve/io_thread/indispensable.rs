//! Threads that the server cannot run without.

use std::thread;

/// Guards a thread without which the process would only appear to serve. If the thread panics, the process aborts, so
/// that its supervisor can restart it.
pub(in crate::serve) struct Indispensable;

impl Drop for Indispensable {
    fn drop(&mut self) {
        if thread::panicking() {
            std::process::abort();
        }
    }
}
