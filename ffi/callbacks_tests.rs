//! The callbacks that C uses in a forked child, which has no host.

use std::mem::zeroed;
use std::ptr::null_mut;

use super::view;
use crate::bindings::{shim_callbacks, shim_log};

unsafe extern "C" {
    static shim_host: shim_callbacks;
    fn shim_host_install(callbacks: *const shim_callbacks) -> bool;
    fn shim_host_forget(log: unsafe extern "C" fn(*mut std::ffi::c_void, *const shim_log));
}

unsafe extern "C" fn drop_record(_: *mut std::ffi::c_void, _: *const shim_log) {}

/// Returns C's table in a child. Entries that a child takes over from its host are not set here.
fn nobody() -> shim_callbacks {
    // SAFETY: only one test calls this, and no other test calls C.
    unsafe { shim_host_forget(drop_record) };
    // SAFETY: as above.
    unsafe { shim_host }
}

#[test]
#[expect(clippy::multiple_unsafe_ops_per_block, reason = "each entry of the table is asked in the same way")]
fn a_child_without_a_host_discards_output_and_refuses_calls() {
    // SAFETY: an entry of zeros is `None`.
    let silent: shim_callbacks = unsafe { zeroed() };
    // SAFETY: only this test calls C.
    assert!(!unsafe { shim_host_install(&silent) }, "a host that leaves callbacks out");
    let host = nobody();
    assert_whole(&host);
    let mut buffer = [0; 4];
    // SAFETY: no callback dereferences the request, and the other pointers are those of local variables.
    unsafe {
        assert!(host.io.write.unwrap()(null_mut(), view(b"output")));
        assert!(host.io.flush.unwrap()(null_mut()));
        assert!(!host.io.is_full.unwrap()(null_mut()));
        assert_eq!(host.io.read_body.unwrap()(null_mut(), buffer.as_mut_ptr(), buffer.len()), 0);
        assert_eq!(host.io.read_body_at.unwrap()(null_mut(), buffer.as_mut_ptr(), buffer.len(), 9), 0);
        assert_eq!(host.span.begin.unwrap()(null_mut(), 0, view(b"name"), 0), 0);
        assert!(!host.worker.serve_one.unwrap()(null_mut()));
        let (mut completion, mut completer) = (null_mut(), null_mut());
        assert!(!host.completion.make.unwrap()(&mut completion, &mut completer));
        assert!(!host.restart.may_begin.unwrap()());
    }
}

fn assert_whole(host: &shim_callbacks) {
    let io = host.io.send_head.is_some() && host.io.send_interim.is_some() && host.io.finish.is_some();
    assert!(io && host.io.time_limit.is_some() && host.io.log.is_some() && host.io.error.is_some());
    assert!(host.worker.serve.is_some() && host.worker.ended.is_some() && host.worker.freed.is_some());
    assert!(host.worker.parks.is_some() && host.worker.resumes.is_some());
    let completion = host.completion;
    assert!(completion.complete.is_some() && completion.wait.is_some() && completion.drop.is_some());
    assert!(completion.stop_waiting.is_some() && completion.is_complete.is_some());
    assert!(host.restart.done.is_some());
}
