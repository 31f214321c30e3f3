//! Control signals: blocked on all threads, and received by one.

use std::io;
use std::os::fd::{FromRawFd, OwnedFd};
use std::time::Duration;

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
        if let Some(signal) = wait_for(0) {
            return signal;
        }
    }
}

/// The same, but not for longer than this: `None` if none has arrived.
pub fn wait_up_to(time: Duration) -> Option<Signal> {
    wait_for(u32::try_from(time.as_millis()).unwrap_or(u32::MAX).max(1))
}

/// Returns a descriptor that is readable once SIGINT or SIGTERM has arrived, on any thread; it receives neither. They are
/// blocked already.
///
/// # Errors
///
/// When the system gives no descriptor.
pub fn stop_descriptor() -> io::Result<OwnedFd> {
    // SAFETY: makes a descriptor, and changes nothing else.
    let descriptor = unsafe { bindings::shim_signals_stop_descriptor() };
    if descriptor < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: it is open, and nobody else's.
    Ok(unsafe { OwnedFd::from_raw_fd(descriptor) })
}

fn wait_for(milliseconds: u32) -> Option<Signal> {
    // SAFETY: waits on blocked signals only.
    match unsafe { bindings::shim_signals_wait(milliseconds) } {
        1 => Some(Signal::Hangup),
        2 => Some(Signal::Interrupt),
        15 => Some(Signal::Terminate),
        _ => None,
    }
}
