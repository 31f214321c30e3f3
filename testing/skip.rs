//! Reports tests that are skipped because the machine lacks something. If `SVC_NO_SKIP` is set, they fail instead.

/// Reports why a test, or a part of it, was skipped; fails the test if nothing may be skipped.
#[track_caller]
pub fn skipped(why: &str) {
    assert!(
        std::env::var_os("SVC_NO_SKIP").is_none_or(|value| value.is_empty()),
        "SVC_NO_SKIP is set: {why}"
    );
    println!("skipped: {why}");
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn nothing_is_skipped_where_nothing_may_be() {
        let this = std::env::current_exe().unwrap();
        let below = module_path!().split_once("::").map_or(String::new(), |(_, path)| format!("{path}::"));
        let name = below + "something_is_skipped";
        let outcome = |value: &str| {
            let mut command = Command::new(&this);
            command.args(["--exact", "--ignored", "--nocapture", &name]).env("SVC_NO_SKIP", value);
            let output = command.output().unwrap();
            let said = String::from_utf8_lossy(&output.stdout).into_owned();
            assert!(said.contains("running 1 test"), "{said}");
            output.status.success()
        };
        assert!(outcome(""), "said aloud, and no fault");
        assert!(!outcome("1"));
    }

    #[test]
    #[ignore = "nothing_is_skipped_where_nothing_may_be runs it"]
    fn something_is_skipped() {
        skipped("this is a test");
    }
}
