//! Tests that need something of the machine's say aloud when it is missing. Where `SVC_NO_SKIP` is set, they fail.

/// Says why a test, or a part of it, was left out; the test fails where nothing may be.
#[track_caller]
pub(crate) fn skipped(why: &str) {
    assert!(
        std::env::var_os("SVC_NO_SKIP").is_none_or(|value| value.is_empty()),
        "SVC_NO_SKIP is set: {why}"
    );
    println!("skipped: {why}");
}
