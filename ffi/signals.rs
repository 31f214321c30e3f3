//! Signals: blocked on all threads, and received by one.

use std::io;
use std::os::fd::{FromRawFd, OwnedFd};
use std::time::Duration;

use crate::bindings;

/// A signal from outside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// SIGHUP.
    Hangup,
    /// SIGINT.
    Interrupt,
    /// SIGTERM.
    Terminate,
    /// One that the server gives no meaning.
    Meaningless {
        /// Its number.
        number: i32,
        /// The process that has sent it; `None` if the kernel has.
        sender: Option<u32>,
    },
}

/// Blocks all signals that anybody may send in the calling thread and in all threads that it starts from now on, and
/// ignores SIGPIPE and SIGXFSZ. Called first, on the main thread; programs that PHP starts do not inherit it.
pub fn block() {
    // SAFETY: changes signal state only.
    unsafe { bindings::shim_signals_block() }
}

/// Sleeps until a signal arrives. Called by one thread.
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
    let mut sender = 0;
    // SAFETY: waits on blocked signals only, and writes to `sender`, which outlives the call.
    match unsafe { bindings::shim_signals_wait(milliseconds, &raw mut sender) } {
        0 => None,
        1 => Some(Signal::Hangup),
        2 => Some(Signal::Interrupt),
        15 => Some(Signal::Terminate),
        number => {
            let sender = u32::try_from(sender).ok().filter(|&sender| sender > 0);
            Some(Signal::Meaningless { number, sender })
        }
    }
}
