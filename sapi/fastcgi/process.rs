//! One process of PHP, from its start to its end.
//!
//! The process belongs to the thread that has started it, and ends with it ([`launch`]). It accepts connections
//! on an unnamed socket: the directory that has held it is removed before the program starts, so that only svc can
//! connect. The process leads a separate process group, which the signals of a terminal do not reach.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::net::UnixListener;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, ExitStatus, Stdio};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{Mode, OFlags, fcntl_getfl, fcntl_setfl, open};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process_group, pidfd_open};

use svc_core::config::Config;
use svc_ffi::ini_line;

use super::launch;
use super::stream::Stream;

/// How to start a process.
#[derive(Clone, Debug)]
pub(super) struct ProcessCommand {
    /// The program.
    pub(super) program: PathBuf,
    /// PHP's directives, in order.
    pub(super) directives: Vec<(String, String)>,
    /// Where the directory of a socket can be created.
    pub(super) temporary_dir: PathBuf,
}

impl ProcessCommand {
    /// Returns the command that starts `program` with the settings.
    pub(super) fn new(program: &Path, config: &Config) -> Self {
        Self {
            program: program.to_owned(),
            directives: config.php.ini.clone(),
            temporary_dir: config.bodies.spool_dir.clone(),
        }
    }

    /// Returns the arguments that set the directives.
    pub(super) fn arguments(&self) -> impl Iterator<Item = OsString> {
        self.directives
            .iter()
            .flat_map(|(name, value)| ["-d".into(), ini_line(name, value).trim_end().into()])
    }
}

/// A process that accepts connections.
#[derive(Debug)]
pub(super) struct Process {
    child: Child,
    pid: Pid,
    /// Readable once the process has ended; `None` on a kernel without such descriptors.
    pidfd: Option<OwnedFd>,
    /// The socket, without its name.
    socket: OwnedFd,
    /// The output of the process, mostly messages at its start; `None` once all writing ends are closed.
    output: Option<File>,
    status: Option<ExitStatus>,
}

impl Process {
    /// Starts a process. It may not accept connections yet.
    ///
    /// # Errors
    ///
    /// As reported by the system.
    pub(super) fn start(command: &ProcessCommand) -> io::Result<Self> {
        let folder = tempfile::Builder::new().prefix("svc-fastcgi-").tempdir_in(&command.temporary_dir)?;
        // Through the descriptor, because the path of the directory may be too long for the name of a socket.
        let handle = open(folder.path(), OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?;
        let path = descriptor_path(&handle).join("php");
        let listener = UnixListener::bind(&path)?;
        let socket = open(&path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?;
        drop(folder);
        let (output, printed) = io::pipe()?;
        let output = File::from(OwnedFd::from(output));
        fcntl_setfl(&output, fcntl_getfl(&output)? | OFlags::NONBLOCK)?;
        let child = launch::command(command.program.as_os_str())
            .args(command.arguments())
            .env("PHP_FCGI_CHILDREN", "0")
            // svc counts the requests itself.
            .env("PHP_FCGI_MAX_REQUESTS", "0")
            .env_remove("FCGI_WEB_SERVER_ADDRS")
            .stdin(Stdio::from(OwnedFd::from(listener)))
            .stdout(printed.try_clone()?)
            .stderr(printed)
            .process_group(0)
            .spawn()?;
        let pid = Pid::from_child(&child);
        let pidfd = pidfd_open(pid, PidfdFlags::empty()).ok();
        Ok(Self { child, pid, pidfd, socket, output: Some(output), status: None })
    }

    /// Returns the process ID.
    pub(super) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Connects to the process; it may accept the connection later.
    ///
    /// # Errors
    ///
    /// If the process has ended, or the system is out of descriptors.
    pub(super) fn connect(&self) -> io::Result<Stream> {
        // The backlog is never full: only this thread connects, and to one connection at a time.
        Stream::connect_unix(&descriptor_path(&self.socket), CONNECT_WAIT)
    }

    /// Returns the descriptor that is readable once the process has ended.
    pub(super) fn end_descriptor(&self) -> Option<&OwnedFd> {
        self.pidfd.as_ref()
    }

    /// Returns the pipe of its output; `None` once all writing ends are closed, and the end was read.
    pub(super) fn output(&self) -> Option<&File> {
        self.output.as_ref()
    }

    /// Reads output of the process; returns the number of bytes, 0 if there is nothing.
    pub(super) fn read_output(&mut self, buffer: &mut [u8]) -> usize {
        match self.output.as_mut().map(|output| output.read(buffer)) {
            Some(Ok(0)) => {
                // It would stay readable.
                self.output = None;
                0
            }
            Some(Ok(count)) => count,
            Some(Err(_)) | None => 0,
        }
    }

    /// Returns how the process has ended; `None` while it runs.
    pub(super) fn ended(&mut self) -> Option<ExitStatus> {
        if self.status.is_none() {
            self.status = self.child.try_wait().ok().flatten();
        }
        self.status
    }

    /// Waits up to `time` for the end of the process.
    pub(super) fn ends_within(&mut self, time: Duration) -> Option<ExitStatus> {
        let wait = Timespec { tv_sec: time.as_secs() as i64, tv_nsec: time.subsec_nanos().into() };
        let pidfd = self.pidfd.as_ref().map(|pidfd| PollFd::new(pidfd, PollFlags::IN));
        // All ends of the pipe are closed then, unless another program has inherited one.
        let output = || self.output.as_ref().map(|output| PollFd::new(output, PollFlags::empty()));
        // The outcome is that of `ended`.
        let _ = poll(pidfd.or_else(output).as_mut_slice(), Some(&wait));
        self.ended()
    }

    /// Sends a signal to the process and the programs that it has started.
    pub(super) fn signal(&mut self, signal: Signal) {
        if self.ended().is_none() {
            // Its ID cannot have been reused before its status was taken.
            let _ = kill_process_group(self.pid, signal);
        }
    }

    /// Asks the process to end: at once if it is idle, else after its script.
    ///
    /// php-cgi looks for the signal before it accepts a connection, so that a signal between the two would be overlooked. A
    /// connection makes it look again.
    pub(super) fn terminate(&mut self) {
        self.signal(Signal::TERM);
        // It may have closed its socket.
        let _ = self.connect();
    }

    /// Returns the memory of the process that is resident, in bytes.
    pub(super) fn resident_bytes(&self) -> Option<u64> {
        let text = std::fs::read_to_string(format!("/proc/{}/statm", self.id())).ok()?;
        let pages: u64 = text.split(' ').nth(1)?.parse().ok()?;
        Some(pages * rustix::param::page_size() as u64)
    }
}

impl Drop for Process {
    /// Ends the process, and gives its extensions a moment to save their state.
    fn drop(&mut self) {
        self.terminate();
        if self.ends_within(TERM_WAIT).is_none() {
            self.signal(Signal::KILL);
            // Not even a stopped process survives this signal; one in an uninterruptible call ends later.
            self.ends_within(TERM_WAIT);
        }
    }
}

/// How long a process may take to end after SIGTERM.
pub(super) const TERM_WAIT: Duration = Duration::from_secs(1);

/// The time limit of a connection, which always succeeds at once.
const CONNECT_WAIT: Duration = Duration::from_secs(1);

/// Returns a path that leads to the file behind a descriptor, whether or not it still has a name.
fn descriptor_path(descriptor: &impl AsFd) -> PathBuf {
    Path::new("/proc/self/fd").join(descriptor.as_fd().as_raw_fd().to_string())
}

/// Describes how a process has ended.
pub(super) fn describe(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("exit status {code}"),
        (None, Some(signal)) => format!("signal {signal}"),
        (None, None) => "unknown".to_owned(),
    }
}

/// Returns the letter of a process's state, as reported by the kernel; `None` if there is no such process.
pub(super) fn state(pid: u32) -> Option<u8> {
    let text = std::fs::read(format!("/proc/{pid}/stat")).ok()?;
    // It follows the name, which is in parentheses and may contain anything.
    let end_of_name = text.iter().rposition(|byte| *byte == b')')?;
    text.get(end_of_name + 2).copied()
}
