//! Payloads that threads pass to each other.

use std::ptr::NonNull;

use crate::bindings::{self, shim_payload};
use crate::restart_barrier::{BARRIER, CachePin};

/// A payload packed by one thread for another: a task with its arguments, or its result.
#[derive(Debug)]
pub struct Payload {
    pub(crate) raw: NonNull<shim_payload>,
    /// Set if its code is in OPcache's memory, which must not be reset meanwhile.
    pin: Option<CachePin>,
}

// SAFETY: a block of bytes that is immutable once it is packed, and may be freed on any thread.
unsafe impl Send for Payload {}
// SAFETY: as above.
unsafe impl Sync for Payload {}

impl Payload {
    /// # Safety
    ///
    /// `raw` is NULL or made by C, which no longer uses it.
    pub(crate) unsafe fn of(raw: *mut shim_payload, is_pinned: bool) -> Option<Self> {
        let pin = is_pinned.then(|| BARRIER.pin());
        NonNull::new(raw).map(|raw| Self { raw, pin })
    }

    /// Allows OPcache to restart, because the code was copied.
    pub fn leave_cache(&mut self) {
        self.pin = None;
    }
}

impl Drop for Payload {
    fn drop(&mut self) {
        // SAFETY: owned; C's function may be called on any thread.
        unsafe { bindings::shim_payload_free(self.raw.as_ptr()) };
    }
}
