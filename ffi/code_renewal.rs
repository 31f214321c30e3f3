//! Makes requests and workers that start later run the code on disk.

use crate::bindings;
use crate::callbacks;
use crate::restart_barrier::BARRIER;

/// Resets OPcache, and makes threads clear their realpath caches. The restart is not reported. `is_saved`: files were saved
/// just now; OPcache then keeps the others, if its directives make it check each file.
///
/// # Safety
///
/// The calling thread runs PHP, and is in no request.
pub(crate) unsafe fn renew_code(is_saved: bool) {
    // Inside the barrier, so that no request restarts OPcache before the barrier has recorded the restart.
    if let Some(news) = BARRIER.enter() {
        callbacks::report_restart(news);
    }
    callbacks::without_news(|| {
        // SAFETY: see above.
        unsafe { bindings::shim_code_renew(is_saved) };
    });
    BARRIER.leave();
}
