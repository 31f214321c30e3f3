//! How many descriptors tests and their servers may open, whatever the shell allows that they are started from.

use std::process::Command;
use std::sync::Once;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// As many as the tests of one process may want at a time: the clients of a load, several servers' connections.
const WANTED: u64 = 16_384;

/// Raises the limit of this process as far as tests want it and the system lets it.
pub(crate) fn raise_limit() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
        let wanted = maximum.map_or(WANTED, |maximum| maximum.min(WANTED));
        if current.is_some_and(|current| current < wanted) {
            setrlimit(Resource::Nofile, Rlimit { current: Some(wanted), maximum }).unwrap();
        }
    });
}

/// `plain` as a process that may open `count` descriptors, and cannot raise that.
pub(crate) fn limited_to(count: u32, plain: &Command) -> Command {
    let mut shell = Command::new("/bin/sh");
    shell.args(["-c", "ulimit -n \"$0\" && exec \"$@\"", &count.to_string()]);
    shell.arg(plain.get_program()).args(plain.get_args()).env_clear();
    shell.envs(plain.get_envs().filter_map(|(name, value)| Some((name, value?))));
    shell
}
