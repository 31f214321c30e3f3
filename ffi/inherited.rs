//! What a service manager leaves in the process that it starts: descriptors, and variables that name them.
//!
//! Promises: a descriptor has one owner, and programs that PHP starts do not inherit it. Refuses: it does not know what a
//! descriptor is for, and it does nothing once the process has a second thread.

use std::env;
use std::fs;
use std::io;
use std::os::fd::{FromRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicBool, Ordering};

/// The first descriptor that a service manager passes on.
const FIRST: RawFd = 3;

/// Takes over the `count` descriptors that a service manager has passed on, in their order, and removes the variables
/// `names` from the environment, so that neither scripts nor the programs that they start see them. To be called first,
/// and once.
///
/// # Errors
///
/// If one of the descriptors is not open, if the process has other threads, or if this was done before.
pub fn take(count: usize, names: &[&str]) -> io::Result<Vec<OwnedFd>> {
    static WAS_CALLED: AtomicBool = AtomicBool::new(false);
    // Relaxed: no other thread exists, or nothing is done.
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
        // SAFETY: it is open. It came with the process, which has opened nothing that lives on, and this happens once: so
        // nobody else owns it.
        taken.push(unsafe { OwnedFd::from_raw_fd(number) });
    }
    Ok(taken)
}
