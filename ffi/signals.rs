//! Control signals: blocked on all threads, and received by one.

use crate::bindings;

/// A control signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// SIGHUP.
    Hangup,
    /// SIGINT.
    Interrupt,
    /// SIGTERM.
    Terminate,
}

/// Blocks the control signals in the calling thread and in all threads that it starts from now on, and ignores SIGPIPE.
/// Called first, on the main thread; programs that PHP starts do not inherit it.
pub fn block() {
    // SAFETY: changes signal state only.
    unsafe { bindings::shim_signals_block() }
}

/// Sleeps until a control signal arrives. Called by one thread.
pub fn wait() -> Signal {
    loop {
        // SAFETY: waits on blocked signals only.
        match unsafe { bindings::shim_signals_wait() } {
            1 => return Signal::Hangup,
            2 => return Signal::Interrupt,
            15 => return Signal::Terminate,
            _ => {}
        }
    }
}
