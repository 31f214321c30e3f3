//! Third-party software for tests, which scripts fetch or build once per machine.

use std::process::Command;

use crate::repository;
use crate::skip::skipped;

/// Returns the folder that `scripts/NAME.sh` prints; `None` if the script cannot provide it on this machine.
pub fn fetched(name: &str) -> Option<String> {
    let script = repository().join(format!("scripts/{name}.sh"));
    let output = Command::new(script).output().unwrap();
    if !output.status.success() {
        skipped(String::from_utf8_lossy(&output.stderr).trim_end());
        return None;
    }
    Some(String::from_utf8(output.stdout).unwrap().trim_end().to_owned())
}
