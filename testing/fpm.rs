//! A php-fpm with one pool, in a separate folder. It ends with its owner.

use std::fs;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::process::{Pid, Signal, kill_process};

use crate::client::eventually;
use crate::daemon::Daemon;
use crate::skip::skipped;

/// A running php-fpm.
#[derive(Debug)]
pub struct Fpm {
    daemon: Daemon,
}

impl Fpm {
    /// Starts a php-fpm whose pool has these directives, one a line; `None` if the machine has none, which is reported.
    #[track_caller]
    pub fn start(directives: &str) -> Option<Self> {
        let Some(program) = newest() else {
            skipped("php-fpm is not installed");
            return None;
        };
        let command = |folder: &Path, _| {
            let here = folder.display();
            let config = format!(
                "[global]\nerror_log = {here}/errors\ndaemonize = no\nprocess_control_timeout = 60\n\
                 [www]\nuser = root\ngroup = root\nlisten = {here}/socket\npm = static\n{directives}\n"
            );
            fs::write(folder.join("config"), config).unwrap();
            let mut command = Command::new(&program);
            command.args(["--nodaemonize", "--fpm-config"]).arg(folder.join("config"));
            if rustix::process::geteuid().is_root() {
                // Its scripts are in folders that only this user can read.
                command.arg("--allow-to-run-as-root");
            }
            command
        };
        let (daemon, _) = Daemon::start("TERM", command, listens);
        Some(Self { daemon })
    }

    /// Returns the path of its socket.
    pub fn socket(&self) -> PathBuf {
        self.daemon.folder().join("socket")
    }

    /// Returns the value of `FASTCGI_ADDR` that names its socket.
    pub fn addr(&self) -> String {
        format!("unix:{}", self.socket().display())
    }

    /// Reloads it, and waits for its log record: the new processes listen on the same socket.
    #[track_caller]
    pub fn reload(&self) {
        let starts = || self.errors().matches("ready to handle connections").count();
        let before = starts();
        kill_process(self.daemon.program(), Signal::USR2).unwrap();
        eventually("php-fpm has reloaded", || starts() > before);
    }

    /// Ends it as its service manager does, and waits for its end; it removes its socket.
    #[track_caller]
    pub fn stop(&self) {
        kill_process(self.daemon.program(), Signal::TERM).unwrap();
        eventually("php-fpm has ended", || self.daemon.has_ended());
    }

    /// Kills it with all its processes; its socket remains.
    #[track_caller]
    pub fn kill(&self) {
        self.daemon.kill();
    }

    /// Starts it again after it has ended.
    #[track_caller]
    pub fn start_again(&self) {
        self.daemon.start_again(listens);
    }

    /// Returns the IDs of its workers.
    pub fn workers(&self) -> Vec<Pid> {
        self.daemon.processes().split_off(1)
    }

    /// Returns its log.
    pub fn errors(&self) -> String {
        fs::read_to_string(self.daemon.folder().join("errors")).unwrap_or_default()
    }
}

fn listens(folder: &Path) -> bool {
    UnixStream::connect(folder.join("socket")).is_ok()
}

/// Returns the php-fpm of the highest version. Debian's programs have it in their names.
fn newest() -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&path).chain(["/usr/sbin".into(), "/usr/local/sbin".into()]);
    let files = folders.filter_map(|folder| fs::read_dir(folder).ok()).flatten().filter_map(Result::ok);
    let programs = files.filter(|file| file.file_name().to_str().is_some_and(|it| it.starts_with("php-fpm")));
    programs.map(|file| file.path()).max_by_key(|path| path.file_name().map(ToOwned::to_owned))
}
