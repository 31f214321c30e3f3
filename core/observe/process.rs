//! The kernel's facts about this process.
//!
//! A few system calls on files that are in memory; an unavailable fact is absent, never 0. It enumerates nothing that
//! grows with the number of open descriptors, if the kernel counts them.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::time::Duration;

use rustix::process::{Resource, getrlimit};
use rustix::time::{ClockId, clock_gettime};

/// A reading of the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProcessFacts {
    /// Processor time of all threads, user and system.
    pub cpu: Duration,
    /// Resident memory in bytes.
    pub resident_bytes: Option<u64>,
    /// Open descriptors.
    pub open_fds: Option<u64>,
    /// The soft limit of open descriptors; `None` means no limit.
    pub max_fds: Option<u64>,
    /// Threads.
    pub threads: Option<u64>,
}

impl ProcessFacts {
    /// Reads the facts from the kernel.
    pub fn read() -> Self {
        Self {
            cpu: cpu_time(),
            resident_bytes: resident_bytes(),
            open_fds: open_fds(),
            max_fds: getrlimit(Resource::Nofile).current,
            threads: threads(),
        }
    }
}

impl ProcessFacts {
    /// Reads the processor time only.
    pub fn read_cpu() -> Duration {
        cpu_time()
    }

    /// Reads the resident memory only.
    pub fn read_resident() -> Option<u64> {
        resident_bytes()
    }
}

fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(u64::try_from(time.tv_sec).unwrap_or(0), u32::try_from(time.tv_nsec).unwrap_or(0))
}

fn resident_bytes() -> Option<u64> {
    let pages = second_number(&fs::read("/proc/self/statm").ok()?)?;
    pages.checked_mul(rustix::param::page_size() as u64)
}

/// Returns the second of a line of numbers: resident pages, in the kernel's summary of memory.
fn second_number(line: &[u8]) -> Option<u64> {
    std::str::from_utf8(line).ok()?.split_ascii_whitespace().nth(1)?.parse().ok()
}

/// Counts the open descriptors. The size of the directory is their number since Linux 6.2, and 0 before.
fn open_fds() -> Option<u64> {
    match fs::metadata("/proc/self/fd").ok()?.size() {
        // The enumeration itself holds one descriptor.
        0 => Some((fs::read_dir("/proc/self/fd").ok()?.count() as u64).saturating_sub(1)),
        count => Some(count),
    }
}

/// Counts the threads. A directory has a link from its parent, one to itself, and one from each subdirectory: here,
/// from each thread.
fn threads() -> Option<u64> {
    fs::metadata("/proc/self/task").ok()?.nlink().checked_sub(2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn facts_follow_open_files_and_cpu_time() {
        let before = ProcessFacts::read();
        let files: Vec<_> = (0..50).map(|_| fs::File::open("/proc/self/statm").unwrap()).collect();
        let after = ProcessFacts::read();
        // Other tests open and close descriptors meanwhile, but not that many.
        assert!(after.open_fds.unwrap() >= before.open_fds.unwrap() + 20, "{before:?} {after:?}");
        assert!(after.cpu >= before.cpu && after.cpu > Duration::ZERO);
        assert!(after.resident_bytes.unwrap() > 100_000);
        assert!(after.max_fds.is_none_or(|max| max >= after.open_fds.unwrap()));
        drop(files);
    }

    #[test]
    fn threads_are_counted() {
        let (hold, held) = std::sync::mpsc::channel::<()>();
        let held = std::sync::Arc::new(crate::sync::lock::ShortLock::new(held));
        let waiting: Vec<_> = (0..5)
            .map(|_| {
                let held = std::sync::Arc::clone(&held);
                std::thread::spawn(move || held.lock().recv().is_err())
            })
            .collect();
        assert!(ProcessFacts::read().threads.unwrap() >= 6);
        drop(hold);
        waiting.into_iter().for_each(|thread| assert!(thread.join().unwrap()));
    }

    #[test]
    fn a_line_without_numbers_is_ignored() {
        assert_eq!(second_number(b"100 23 4\n"), Some(23));
        assert_eq!(second_number(b"100"), None);
        assert_eq!(second_number(b"a b"), None);
    }
}
