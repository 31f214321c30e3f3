//! Reports tests that are skipped because the machine lacks something. If `SVC_NO_SKIP` is set, they fail instead.

/// Reports why a test, or a part of it, was skipped; fails the test if nothing may be skipped.
#[track_caller]
pub(crate) fn skipped(why: &str) {
    assert!(
        std::env::var_os("SVC_NO_SKIP").is_none_or(|value| value.is_empty()),
        "SVC_NO_SKIP is set: {why}"
    );
    println!("skipped: {why}");
}
