//! Helper threads for C: they make calls that would block the thread of a request.
//!
//! For each call that C hands over, C's function is invoked exactly once: to make the call, or to report that it will
//! not be made, for example after a panic of the server. The server decides when and on which thread a call is made.

use std::ffi::c_void;
use std::mem::ManuallyDrop;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::OnceLock;

use crate::bindings::shim_helper_callbacks;

/// Receives the calls.
type Helpers = Box<dyn Fn(HelperCall) + Send + Sync>;

static HELPERS: OnceLock<Helpers> = OnceLock::new();

/// Sets the receiver of calls; the first one wins.
pub(crate) fn set(helpers: Helpers) {
    // Called once: a process has one server.
    let _ = HELPERS.set(helpers);
}

type HelperFn = unsafe extern "C" fn(data: *mut c_void, runs: bool);

/// A call that may block. Dropping it reports to C that it will not be made.
#[derive(Debug)]
pub struct HelperCall {
    job: HelperFn,
    data: *mut c_void,
}

// SAFETY: C passes the ownership of the data to the thread that invokes the job; it is not used elsewhere.
unsafe impl Send for HelperCall {}

impl HelperCall {
    /// Makes the call. Must be called on a thread that may block.
    pub fn run(self) {
        let call = ManuallyDrop::new(self);
        // SAFETY: the only invocation of the job: `ManuallyDrop` prevents `drop`.
        unsafe { (call.job)(call.data, true) };
    }
}

impl Drop for HelperCall {
    fn drop(&mut self) {
        // SAFETY: the only invocation of the job: `run` prevents `drop`.
        unsafe { (self.job)(self.data, false) };
    }
}

pub(crate) fn callbacks() -> shim_helper_callbacks {
    shim_helper_callbacks { run: Some(run) }
}

unsafe extern "C" fn run(job: Option<HelperFn>, data: *mut c_void) {
    let Some(job) = job else { return };
    let call = HelperCall { job, data };
    // A panic drops the call.
    let _ = catch_unwind(AssertUnwindSafe(move || {
        if let Some(helpers) = HELPERS.get() {
            helpers(call);
        }
    }));
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    const RAN: u32 = 1;
    const LOST: u32 = 100;

    unsafe extern "C" fn job(data: *mut c_void, runs: bool) {
        // SAFETY: each test passes a number that outlives the call.
        let calls = unsafe { &*data.cast::<AtomicU32>() };
        calls.fetch_add(if runs { RAN } else { LOST }, Ordering::Relaxed);
    }

    fn calls_of(act: impl FnOnce(HelperCall)) -> u32 {
        let calls = AtomicU32::new(0);
        act(HelperCall { job, data: (&raw const calls).cast_mut().cast() });
        calls.into_inner()
    }

    #[test]
    fn a_call_is_made_once_or_is_lost_once() {
        assert_eq!(calls_of(HelperCall::run), RAN);
        assert_eq!(calls_of(drop), LOST);
        assert_eq!(calls_of(|call| std::thread::spawn(|| call.run()).join().unwrap()), RAN);
    }

    #[test]
    fn without_helpers_and_after_a_panic_it_is_lost() {
        let number = AtomicU32::new(0);
        let data = (&raw const number).cast_mut().cast();
        // SAFETY: the job and its data belong to the test.
        unsafe { run(Some(job), data) };
        assert_eq!(number.load(Ordering::Relaxed), LOST);
        set(Box::new(|_| std::panic::resume_unwind(Box::new("as the test wants it"))));
        // SAFETY: as above.
        unsafe { run(Some(job), data) };
        assert_eq!(number.load(Ordering::Relaxed), 2 * LOST);
    }
}
