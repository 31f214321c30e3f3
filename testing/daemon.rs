//! Servers that tests start, each in a separate folder; they end with the test process, even if it crashes.
//!
//! A keeper shell runs each server: it starts the program and reads its standard input, a pipe whose other end this process
//! holds. At the end of the input it kills the program and removes the folder. The keeper has a separate process group, so
//! that Ctrl-C ends the test but leaves the keeper time to clean up. A line on its input restarts a program that was
//! killed.

use std::fs;
use std::io::Write;
use std::net::{Ipv4Addr, TcpListener};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};

use crate::client::{becomes, eventually};
use crate::skip::skipped;

/// A running program.
#[derive(Debug)]
pub struct Daemon {
    keeper: Child,
    folder: PathBuf,
}

/// The keeper's script: `$0` is the folder, `$1` the signal that ends the program, the rest is the command.
const KEEPER: &str = r#"
cd "$0" || exit
signal=$1
shift
exec 3<&0
while :; do
    rm -f ended again program
    "$@" </dev/null >>log 2>&1 3<&- &
    program=$!
    echo "$program" >program
    { read -r _ <&3 && touch again; [ -e ended ] || kill -s "$signal" "$program"; } >/dev/null 2>&1 &
    wait "$program" 2>/dev/null
    touch ended
    wait
    [ -e again ] || break
done
cd / && rm -rf "$0"
"#;

/// The maximum number of starts: another process may take the free port first.
const ATTEMPTS: usize = 5;

impl Daemon {
    /// Starts the program that `command` builds for a folder and a free port, and waits until it is ready.
    #[track_caller]
    pub fn start(
        signal: &str,
        command: impl Fn(&Path, u16) -> Command,
        is_ready: impl Fn(&Path) -> bool,
    ) -> (Self, u16) {
        let mut log = String::new();
        for _ in 0..ATTEMPTS {
            let (folder, port) = (scratch_folder(), free_port());
            let daemon = Self { keeper: keep(&folder, signal, &command(&folder, port)), folder };
            if becomes(|| daemon.has_ended() || is_ready(&daemon.folder)) && !daemon.has_ended() {
                return (daemon, port);
            }
            log = fs::read_to_string(daemon.folder.join("log")).unwrap();
        }
        panic!("a server does not start: {log}");
    }

    /// Returns the program's folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Kills the program and all its descendants at once, as a crash of the machine would.
    #[track_caller]
    pub fn kill(&self) {
        let program = self.program();
        // Stopped processes cannot react to the end of the others.
        kill_process(program, Signal::STOP).unwrap();
        for process in with_descendants(program).into_iter().rev() {
            let _ = kill_process(process, Signal::KILL);
        }
        eventually("the program has ended", || self.has_ended());
    }

    /// Restarts the program in its old folder after it was killed. Retries while the kernel still holds resources of the
    /// old process, such as shared memory.
    #[track_caller]
    pub fn start_again(&self, is_ready: impl Fn(&Path) -> bool) {
        let mut keeper = self.keeper.stdin.as_ref().unwrap();
        for _ in 0..ATTEMPTS {
            let before = self.program_file();
            keeper.write_all(b"again\n").unwrap();
            eventually("the program is started anew", || {
                let now = self.program_file();
                !now.is_empty() && now != before
            });
            if becomes(|| self.has_ended() || is_ready(&self.folder)) && !self.has_ended() {
                return;
            }
        }
        panic!("a server does not start again: {}", fs::read_to_string(self.folder.join("log")).unwrap());
    }

    /// Returns the program's process ID, followed by a newline; empty while no program runs.
    fn program_file(&self) -> String {
        fs::read_to_string(self.folder.join("program")).unwrap_or_default()
    }

    /// Returns the process ID of the program, which must run.
    #[track_caller]
    pub fn program(&self) -> Pid {
        Pid::from_raw(self.program_file().trim().parse().unwrap()).unwrap()
    }

    /// Returns the process IDs of the program and all its descendants, in this order.
    pub fn processes(&self) -> Vec<Pid> {
        with_descendants(self.program())
    }

    /// Returns whether the program has ended.
    pub fn has_ended(&self) -> bool {
        self.folder.join("ended").exists()
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        drop(self.keeper.stdin.take());
        // The exit status does not matter: the keeper has removed the folder.
        let _ = self.keeper.wait();
    }
}

/// Returns the path of a server program: searches PATH and the directories where distributions put programs for
/// administrators.
pub fn find(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&path).chain(["/usr/sbin".into(), "/usr/local/sbin".into()]);
    let found = folders.map(|folder| folder.join(program)).find(|file| file.is_file());
    if found.is_none() {
        skipped(&format!("{program} is not installed"));
    }
    found
}

/// Runs a program, which must succeed; returns its output.
#[track_caller]
pub fn run(command: &mut Command) -> String {
    let output = command.stdin(Stdio::null()).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{command:?}: {text}{}", String::from_utf8_lossy(&output.stderr));
    text
}

/// Returns a command that runs `program` as `user`; a root process switches to that user.
pub fn as_user(user: &str, program: &Path) -> Command {
    if !rustix::process::geteuid().is_root() {
        return Command::new(program);
    }
    let mut command = Command::new("setpriv");
    command.args(["--reuid", user, "--regid", user, "--init-groups", "--"]).arg(program);
    command
}

fn keep(folder: &Path, signal: &str, command: &Command) -> Child {
    let mut keeper = Command::new("/bin/sh");
    keeper.args(["-c", KEEPER]).arg(folder).arg(signal).arg(command.get_program()).args(command.get_args());
    keeper.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).process_group(0);
    keeper.spawn().unwrap()
}

/// Returns a process and all its descendants.
fn with_descendants(process: Pid) -> Vec<Pid> {
    let mut found = vec![process];
    let mut looked = 0;
    while let Some(parent) = found.get(looked).copied() {
        looked += 1;
        for entry in fs::read_dir("/proc").unwrap().filter_map(Result::ok) {
            let stat = fs::read_to_string(entry.path().join("stat")).unwrap_or_default();
            let of = stat.rsplit(") ").next().and_then(|rest| rest.split(' ').nth(1)?.parse().ok());
            if of == Some(parent.as_raw_nonzero().get()) {
                let child = entry.file_name().to_str().and_then(|name| Pid::from_raw(name.parse().ok()?));
                found.extend(child);
            }
        }
    }
    found
}

/// Creates a folder that a server running as another user can use. Its path is short enough for Unix sockets in it.
fn scratch_folder() -> PathBuf {
    let folder = tempfile::Builder::new().prefix("svc-").tempdir_in("/tmp").unwrap().keep();
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o777)).unwrap();
    folder
}

fn free_port() -> u16 {
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap().port()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_daemon_ends_with_its_owner_and_leaves_nothing() {
        let command = |_: &Path, _| {
            let mut command = Command::new("/bin/sh");
            command.args(["-c", "echo $$ >pid; echo ready >ready; exec sleep 1000"]);
            command
        };
        let (daemon, _) = Daemon::start("KILL", command, |folder| folder.join("ready").exists());
        let folder = daemon.folder().to_owned();
        let pid = fs::read_to_string(folder.join("pid")).unwrap();
        let process = Path::new("/proc").join(pid.trim());
        assert!(process.exists());
        drop(daemon);
        eventually("its process has ended", || !process.exists());
        assert!(!folder.exists());
    }
}
