//! What travels between threads.

use std::ptr::NonNull;

use crate::bindings::{self, shim_parcel};
use crate::restart_barrier::{BARRIER, CachePin};

/// What one thread has packed for another: a task with its arguments, or what became of it.
#[derive(Debug)]
pub struct Parcel {
    pub(crate) raw: NonNull<shim_parcel>,
    /// Its code is OPcache's, which must not restart meanwhile.
    pin: Option<CachePin>,
}

// SAFETY: a block of bytes that nobody changes once it is packed; freed on any thread.
unsafe impl Send for Parcel {}
// SAFETY: as above.
unsafe impl Sync for Parcel {}

impl Parcel {
    /// # Safety
    ///
    /// `raw` is C's, which does not use it any more.
    pub(crate) unsafe fn of(raw: *mut shim_parcel, is_pinned: bool) -> Option<Self> {
        let pin = is_pinned.then(|| BARRIER.pin());
        NonNull::new(raw).map(|raw| Self { raw, pin })
    }

    /// Its code has been copied: OPcache may restart.
    pub fn leave_cache(&mut self) {
        self.pin = None;
    }
}

impl Drop for Parcel {
    fn drop(&mut self) {
        // SAFETY: owned; C's function may be called on any thread.
        unsafe { bindings::shim_parcel_free(self.raw.as_ptr()) };
    }
}
