//! The descriptor limits of tests and their servers, independent of the shell that starts the tests.

use std::process::Command;
use std::sync::Once;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Enough for all tests of one process: load clients, and the connections of several servers.
const WANTED: u64 = 16_384;

/// Raises the limit of this process to what the tests need, as far as the system allows.
pub fn raise_limit() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
        let wanted = maximum.map_or(WANTED, |maximum| maximum.min(WANTED));
        if current.is_some_and(|current| current < wanted) {
            setrlimit(Resource::Nofile, Rlimit { current: Some(wanted), maximum }).unwrap();
        }
    });
}

/// Limits the process of `plain` to `count` descriptors, which it cannot raise.
pub fn limited_to(count: u32, plain: &Command) -> Command {
    let mut shell = Command::new("/bin/sh");
    shell.args(["-c", "ulimit -n \"$0\" && exec \"$@\"", &count.to_string()]);
    shell.arg(plain.get_program()).args(plain.get_args()).env_clear();
    shell.envs(plain.get_envs().filter_map(|(name, value)| Some((name, value?))));
    shell
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_of_descriptors_is_that_of_the_test() {
        let output =
            limited_to(77, Command::new("/bin/sh").args(["-c", "ulimit -n; ulimit -Hn"])).output().unwrap();
        assert_eq!(String::from_utf8(output.stdout).unwrap(), "77\n77\n");
    }
}
