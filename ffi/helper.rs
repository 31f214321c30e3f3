//! Helper threads as C uses them: calls that would block the thread of a request.
//!
//! Promises: each call that C hands over is made once, or C is told once that it is not; a panic of the server's tells it
//! so too. Refuses: on which thread a call is made, and when, is the server's; what it does is C's.

use std::ffi::c_void;
use std::mem::ManuallyDrop;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::OnceLock;

use crate::bindings::shim_helper_callbacks;

/// What receives the calls.
type Helpers = Box<dyn Fn(HelperCall) + Send + Sync>;

static HELPERS: OnceLock<Helpers> = OnceLock::new();

/// Sets what runs calls; the first one counts.
pub(crate) fn set(helpers: Helpers) {
    // There is one server in a process.
    let _ = HELPERS.set(helpers);
}

type HelperFn = unsafe extern "C" fn(data: *mut c_void, runs: bool);

/// A call that may block. Whoever drops it tells C that it will not be made.
#[derive(Debug)]
pub struct HelperCall {
    job: HelperFn,
    data: *mut c_void,
}

// SAFETY: C hands the data over to whatever thread the job is called on; nothing else uses it here.
unsafe impl Send for HelperCall {}

impl HelperCall {
    /// Makes the call. To be called on a thread that may block.
    pub fn run(self) {
        let call = ManuallyDrop::new(self);
        // SAFETY: the first and only call of the job; `drop` is not coming.
        unsafe { (call.job)(call.data, true) };
    }
}

impl Drop for HelperCall {
    fn drop(&mut self) {
        // SAFETY: the first and only call of the job: `run` would have kept this from happening.
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
        let told = unsafe { &*data.cast::<AtomicU32>() };
        told.fetch_add(if runs { RAN } else { LOST }, Ordering::Relaxed);
    }

    fn told(by: impl FnOnce(HelperCall)) -> u32 {
        let told = AtomicU32::new(0);
        by(HelperCall { job, data: (&raw const told).cast_mut().cast() });
        told.into_inner()
    }

    #[test]
    fn a_call_is_made_once_or_is_lost_once() {
        assert_eq!(told(HelperCall::run), RAN);
        assert_eq!(told(drop), LOST);
        assert_eq!(told(|call| std::thread::spawn(|| call.run()).join().unwrap()), RAN);
    }

    #[test]
    fn without_helpers_and_after_a_panic_it_is_lost() {
        let number = AtomicU32::new(0);
        let data = (&raw const number).cast_mut().cast();
        // SAFETY: the job and its data are those of the test.
        unsafe { run(Some(job), data) };
        assert_eq!(number.load(Ordering::Relaxed), LOST);
        set(Box::new(|_| std::panic::resume_unwind(Box::new("told to"))));
        // SAFETY: as above.
        unsafe { run(Some(job), data) };
        assert_eq!(number.load(Ordering::Relaxed), 2 * LOST);
    }
}
