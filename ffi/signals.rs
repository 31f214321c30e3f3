//! Signals: blocked on all threads, and received by one.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{FromRawFd, OwnedFd};
use std::ptr;
use std::time::Duration;

#[cfg(feature = "php")]
use crate::bindings as system;
#[cfg(not(feature = "php"))]
#[path = "signals_without_shim.rs"]
mod system;

/// A signal sent by another process or the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// SIGHUP.
    Hangup,
    /// SIGINT.
    Interrupt,
    /// SIGTERM; or SIGQUIT, which makes nginx and php-fpm answer their requests and end.
    Terminate,
    /// A signal that the server does not handle.
    Meaningless {
        /// The signal number.
        number: i32,
        /// The sending process; `None` if the kernel sent it.
        sender: Option<u32>,
    },
}

/// Blocks all signals that other processes may send, in the calling thread and in all threads that it starts later, and
/// ignores SIGPIPE and SIGXFSZ. Must be called on the main thread before other threads start; child processes of PHP do
/// not inherit this, and other ones call [`restore`].
pub fn block() {
    // SAFETY: changes signal state only.
    unsafe { system::shim_signals_block() }
}

/// Undoes [`block`] in a process that inherited its effects, for the program that it executes next.
pub fn restore() {
    let mut none = MaybeUninit::uninit();
    // SAFETY: initialises the set.
    unsafe { libc::sigemptyset(none.as_mut_ptr()) };
    // SAFETY: reads the set; the former mask is not requested.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, none.as_ptr(), ptr::null_mut()) };
    for signal in [libc::SIGPIPE, libc::SIGXFSZ] {
        // SAFETY: installs no handler.
        unsafe { libc::signal(signal, libc::SIG_DFL) };
    }
}

/// Sleeps until a signal arrives. Must be called by one thread only.
pub fn wait() -> Signal {
    loop {
        if let Some(signal) = wait_for(0) {
            return signal;
        }
    }
}

/// Like [`wait`], but returns `None` if no signal arrives within `time`.
pub fn wait_up_to(time: Duration) -> Option<Signal> {
    wait_for(u32::try_from(time.as_millis()).unwrap_or(u32::MAX).max(1))
}

/// Returns a descriptor that is readable once SIGINT, SIGQUIT or SIGTERM is pending, on any thread; it does not consume them.
/// They must be blocked already.
///
/// # Errors
///
/// If the system is out of descriptors.
pub fn stop_descriptor() -> io::Result<OwnedFd> {
    // SAFETY: creates a descriptor, and changes nothing else.
    let descriptor = unsafe { system::shim_signals_stop_descriptor() };
    if descriptor < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: it is open, and has no other owner.
    Ok(unsafe { OwnedFd::from_raw_fd(descriptor) })
}

fn wait_for(milliseconds: u32) -> Option<Signal> {
    let mut sender = 0;
    // SAFETY: waits on blocked signals only, and writes to `sender`, which outlives the call.
    match unsafe { system::shim_signals_wait(milliseconds, &raw mut sender) } {
        0 => None,
        1 => Some(Signal::Hangup),
        2 => Some(Signal::Interrupt),
        3 | 15 => Some(Signal::Terminate),
        number => {
            let sender = u32::try_from(sender).ok().filter(|&sender| sender > 0);
            Some(Signal::Meaningless { number, sender })
        }
    }
}
