//! The file next to `PID_FILE` from which `svc reload` reads the outcome of a reload.
//!
//! It exists before the server can be signalled, and is removed with `PID_FILE`. It is written through a descriptor,
//! which `RUN_AS` does not affect, and readers detect a partial write. Only the server's user and root can read it,
//! because errors of an application may be confidential. The file is optional: a server that cannot create it runs
//! nevertheless, and `svc reload` reports that the outcome is unknown.

use std::cell::RefCell;
use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::Read;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt, fchown};
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;
use rustix::process::{Pid, getpid};
use serde_json::{Value, json};

use svc_serve::ReloadReading;

/// The report of this process; removed on drop.
#[derive(Debug)]
pub struct ReloadReport {
    path: PathBuf,
    file: File,
    /// The contents of the file.
    written: RefCell<ReportedReloads>,
}

/// The contents of a report.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReportedReloads {
    /// The progress of reloads.
    pub reloads: ReloadReading,
    /// A restart is needed for changes that a reload cannot apply.
    pub needs_restart: bool,
    /// The server is stopping and begins no more reloads.
    pub is_stopping: bool,
}

impl ReloadReport {
    /// Creates the report of the server with the file `pid_file`, owned by `owner` (a user ID and a group ID) if given.
    /// Returns `None` if the system does not allow it.
    pub fn create(pid_file: &Path, owner: Option<(u32, u32)>) -> Option<Self> {
        let path = std::path::absolute(beside(pid_file)).ok()?;
        // An existing file is a leftover, or a link of another user.
        let _ = fs::remove_file(&path);
        let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path).ok()?;
        let report = Self { path, file, written: RefCell::default() };
        if let Some((user, group)) = owner {
            fchown(&report.file, Some(user), Some(group)).ok()?;
        }
        report.write(&ReportedReloads::default()).ok()?;
        Some(report)
    }

    /// Writes the progress of reloads if it has changed.
    pub fn note(&self, reloads_now: ReportedReloads) {
        if *self.written.borrow() != reloads_now && self.write(&reloads_now).is_ok() {
            self.written.replace(reloads_now);
        }
    }

    fn write(&self, reloads_now: &ReportedReloads) -> std::io::Result<()> {
        let text = text_of(reloads_now, getpid());
        self.file.write_all_at(text.as_bytes(), 0)?;
        self.file.set_len(text.len() as u64)
    }

    /// Reads the report of the server with this process ID and the file `pid_file`. `None` if there is none.
    pub fn read(pid_file: &Path, pid: Pid) -> Option<ReportedReloads> {
        // A report being written will soon be complete.
        (0..READS).find_map(|_| of_text(&text_at(&beside(pid_file), pid)?, pid))
    }
}

/// Returns the text of the report at `path` if root or the user of the server owns it. Does not block on a FIFO.
fn text_at(path: &Path, pid: Pid) -> Option<String> {
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let file =
        OpenOptions::new().read(true).custom_flags(i32::try_from(flags.bits()).ok()?).open(path).ok()?;
    let metadata = file.metadata().ok()?;
    let status = fs::read_to_string(format!("/proc/{}/status", pid.as_raw_pid())).ok()?;
    let users = status.lines().find_map(|line| line.strip_prefix("Uid:"))?;
    let effective: u32 = users.split_whitespace().nth(1)?.parse().ok()?;
    if !metadata.is_file() || ![0, effective].contains(&metadata.uid()) {
        return None;
    }
    let mut text = String::new();
    file.take(REPORT_BYTES_MAX).read_to_string(&mut text).ok()?;
    Some(text)
}

impl Drop for ReloadReport {
    fn drop(&mut self) {
        // If that fails, the next server replaces the file, and readers ignore it because of its process ID.
        let _ = fs::remove_file(&self.path);
    }
}

/// Returns the path of the report.
pub fn beside(pid_file: &Path) -> PathBuf {
    let mut path = OsString::from(pid_file);
    path.push(".reload");
    path.into()
}

/// Renders a report. The leading checksum distinguishes a complete report from a partial write.
fn text_of(reloads_now: &ReportedReloads, pid: Pid) -> String {
    let ReportedReloads { reloads: ReloadReading { begun, ended, error }, needs_restart, is_stopping } =
        reloads_now;
    let report = json!({
        "pid": pid.as_raw_pid(), "begun": begun, "ended": ended, "error": error,
        "restart_required": needs_restart, "stopping": is_stopping,
    });
    let report = report.to_string();
    format!("{:016x} {report}\n", checksum(&report))
}

fn of_text(text: &str, pid: Pid) -> Option<ReportedReloads> {
    let (sum, report) = text.strip_suffix('\n')?.split_once(' ')?;
    if u64::from_str_radix(sum, 16).ok()? != checksum(report) {
        return None;
    }
    let report: Value = serde_json::from_str(report).ok()?;
    if report["pid"].as_i64()? != i64::from(pid.as_raw_pid()) {
        return None;
    }
    let error = report["error"].as_str().map(str::to_owned);
    Some(ReportedReloads {
        reloads: ReloadReading { begun: report["begun"].as_u64()?, ended: report["ended"].as_u64()?, error },
        needs_restart: report["restart_required"].as_bool()?,
        is_stopping: report["stopping"].as_bool()?,
    })
}

/// FNV-1a: reader and writer may be different builds, so the hash must be stable.
fn checksum(text: &str) -> u64 {
    text.bytes()
        .fold(0xcbf2_9ce4_8422_2325, |sum, byte| (sum ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

/// The maximum number of attempts to read a complete report.
const READS: usize = 100;

/// The maximum length of a report, in bytes.
const REPORT_BYTES_MAX: u64 = 1024 * 1024;

#[cfg(test)]
mod tests {
    use super::*;

    fn reloads_now(begun: u64, error: Option<&str>) -> ReportedReloads {
        let reloads = ReloadReading { begun, ended: begun, error: error.map(str::to_owned) };
        ReportedReloads { reloads, ..ReportedReloads::default() }
    }

    #[test]
    fn only_a_file_of_the_server_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let pid_file = folder.path().join("svc.pid");
        let (report, path) = (ReloadReport::create(&pid_file, None).unwrap(), beside(&pid_file));
        assert!(ReloadReport::read(&pid_file, getpid()).is_some());
        let kept = folder.path().join("kept");
        fs::rename(&path, &kept).unwrap();
        std::os::unix::fs::symlink(&kept, &path).unwrap();
        assert!(ReloadReport::read(&pid_file, getpid()).is_none(), "a link");
        fs::remove_file(&path).unwrap();
        rustix::fs::mknodat(rustix::fs::CWD, &path, rustix::fs::FileType::Fifo, 0o600.into(), 0).unwrap();
        assert!(ReloadReport::read(&pid_file, getpid()).is_none(), "a FIFO");
        drop(report);
    }

    #[test]
    fn it_returns_the_last_report_and_is_removed_with_the_server() {
        let folder = tempfile::tempdir().unwrap();
        let pid_file = folder.path().join("svc.pid");
        let pid = getpid();
        assert_eq!(ReloadReport::read(&pid_file, pid), None);
        let report = ReloadReport::create(&pid_file, None).unwrap();
        assert_eq!(ReloadReport::read(&pid_file, pid), Some(ReportedReloads::default()));
        for (begun, error) in [(1, Some("a long \"reason\"\nof two lines")), (2, None), (3, Some("é"))] {
            report.note(reloads_now(begun, error));
            assert_eq!(ReloadReport::read(&pid_file, pid), Some(reloads_now(begun, error)));
        }
        let other = Pid::from_raw(pid.as_raw_pid() + 1).unwrap();
        assert_eq!(ReloadReport::read(&pid_file, other), None, "of another server");
        drop(report);
        assert!(!beside(&pid_file).exists());
    }

    #[test]
    fn a_link_of_another_user_is_replaced_and_not_followed() {
        let folder = tempfile::tempdir().unwrap();
        let (pid_file, victim) = (folder.path().join("svc.pid"), folder.path().join("victim"));
        fs::write(&victim, "precious").unwrap();
        std::os::unix::fs::symlink(&victim, beside(&pid_file)).unwrap();
        let _report = ReloadReport::create(&pid_file, None).unwrap();
        assert_eq!(fs::read_to_string(&victim).unwrap(), "precious");
    }

    #[test]
    fn half_of_it_is_none() {
        let (old, new) =
            (text_of(&reloads_now(1, Some("why")), getpid()), text_of(&reloads_now(2, None), getpid()));
        for at in 0..new.len() {
            let mixed = [&new[..at], old.get(at..).unwrap_or_default()].concat();
            let is_whole = mixed == old || mixed == new;
            assert_eq!(of_text(&mixed, getpid()).is_some(), is_whole, "{mixed}");
            assert_eq!(of_text(&new[..at], getpid()), None);
        }
    }
}
