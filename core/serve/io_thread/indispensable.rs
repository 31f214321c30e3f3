//! Threads that a server cannot lose.

use std::thread;

/// A thread without which the process only seems to serve: if it panics, the process ends, so that whoever watches
/// over it can start it anew.
pub(in crate::serve) struct Indispensable;

impl Drop for Indispensable {
    fn drop(&mut self) {
        if thread::panicking() {
            std::process::abort();
        }
    }
}
