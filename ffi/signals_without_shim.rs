//! The functions of c/php/process/signals.c for a build without the shim; its comments apply.

use std::mem::MaybeUninit;
use std::ptr;

use libc::{c_int, sigset_t};

/// The signals that are not blocked.
const LEFT: [c_int; 13] = [
    libc::SIGSEGV,
    libc::SIGBUS,
    libc::SIGFPE,
    libc::SIGILL,
    libc::SIGTRAP,
    libc::SIGSYS,
    libc::SIGABRT,
    libc::SIGTSTP,
    libc::SIGCONT,
    libc::SIGPIPE,
    libc::SIGXFSZ,
    libc::SIGWINCH,
    libc::SIGURG,
];

/// Returns a set without signals.
fn empty_set() -> sigset_t {
    let mut set = MaybeUninit::uninit();
    // SAFETY: initialises the set that it is given.
    unsafe { libc::sigemptyset(set.as_mut_ptr()) };
    // SAFETY: the call above has initialised it.
    unsafe { set.assume_init() }
}

fn blocked_signals() -> sigset_t {
    let mut set = empty_set();
    // SAFETY: changes the set that it is given.
    unsafe { libc::sigfillset(&raw mut set) };
    for signal in LEFT {
        // SAFETY: as above; the number is that of a signal.
        unsafe { libc::sigdelset(&raw mut set, signal) };
    }
    set
}

/// # Safety
///
/// None: it changes signal state only.
pub(super) unsafe fn shim_signals_block() {
    let set = blocked_signals();
    // SAFETY: reads a set; the former mask is not asked for.
    unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, &raw const set, ptr::null_mut()) };
    for signal in [libc::SIGPIPE, libc::SIGXFSZ] {
        // SAFETY: installs no handler.
        unsafe { libc::signal(signal, libc::SIG_IGN) };
    }
}

/// # Safety
///
/// `sender` must be valid for writing.
pub(super) unsafe fn shim_signals_wait(milliseconds: u32, sender: *mut c_int) -> c_int {
    let set = blocked_signals();
    let mut info = MaybeUninit::<libc::siginfo_t>::zeroed();
    let time = libc::timespec {
        tv_sec: (milliseconds / 1000).into(),
        tv_nsec: (milliseconds % 1000 * 1_000_000).into(),
    };
    let number = if milliseconds > 0 {
        // SAFETY: all pointers are valid for the call.
        unsafe { libc::sigtimedwait(&raw const set, info.as_mut_ptr(), &raw const time) }
    } else {
        // SAFETY: as above.
        unsafe { libc::sigwaitinfo(&raw const set, info.as_mut_ptr()) }
    };
    // Children are waited for by the threads that have started them.
    if number <= 0 || number == libc::SIGCHLD {
        return 0;
    }
    // SAFETY: it was zeroed, and the call has filled it.
    let info = unsafe { info.assume_init() };
    let pid = if info.si_code <= 0 {
        // SAFETY: a process sent the signal, so that the field is in use.
        unsafe { info.si_pid() }
    } else {
        0
    };
    // SAFETY: the caller guarantees that it is valid for writing.
    unsafe { *sender = pid };
    number
}

/// # Safety
///
/// None: it creates a descriptor.
pub(super) unsafe fn shim_signals_stop_descriptor() -> c_int {
    let mut set = empty_set();
    for signal in [libc::SIGINT, libc::SIGQUIT, libc::SIGTERM] {
        // SAFETY: changes the set that it is given.
        unsafe { libc::sigaddset(&raw mut set, signal) };
    }
    // SAFETY: reads the set.
    unsafe { libc::signalfd(-1, &raw const set, libc::SFD_CLOEXEC | libc::SFD_NONBLOCK) }
}
