//! Descriptors passed by a service manager, and the variables that describe them.
//!
//! Each descriptor has one owner, and child processes of PHP do not inherit it. The purpose of a descriptor is unknown
//! here. Nothing is taken over once the process has a second thread.

use std::env;
use std::fs;
use std::io;
use std::os::fd::{FromRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicBool, Ordering};

/// The first passed descriptor (`SD_LISTEN_FDS_START`).
const FIRST: RawFd = 3;

/// Takes over the `count` passed descriptors, in order, and removes the variables `names` from the environment, so that
/// scripts and their child processes do not see them. Must be called once, before other threads start.
///
/// # Errors
///
/// If one of the descriptors is not open, if the process has other threads, or if this is not the first call.
pub fn take(count: usize, names: &[&str]) -> io::Result<Vec<OwnedFd>> {
    static WAS_CALLED: AtomicBool = AtomicBool::new(false);
    // Relaxed: either no other thread exists, or the call fails.
    if WAS_CALLED.swap(true, Ordering::Relaxed) || fs::read_dir("/proc/self/task")?.count() != 1 {
        return Err(io::Error::other("it is too late to take over descriptors"));
    }
    for name in names {
        // SAFETY: there is no other thread that could read the environment.
        unsafe { env::remove_var(name) };
    }
    let mut taken = Vec::with_capacity(count);
    for number in (FIRST..).take(count) {
        // SAFETY: changes a flag of the descriptor, if it is open.
        if unsafe { libc::fcntl(number, libc::F_SETFD, libc::FD_CLOEXEC) } != 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: it is open. The process inherited it and has opened nothing else that is still open, and this happens
        // only once, so it has no other owner.
        taken.push(unsafe { OwnedFd::from_raw_fd(number) });
    }
    Ok(taken)
}
