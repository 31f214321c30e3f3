//! The state of a file: the object, its length, and its modification times.
//!
//! Two stamps of an open file are equal only if it has not changed in between, as far as the system's clock can tell;
//! [`is_settled`](FileVersion::is_settled) returns whether it can. [`is_dated`](FileVersion::is_dated) returns whether
//! the modification time is meaningful on other machines. Reads no clock and no disk.

use std::fs::File;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustix::fs::{AtFlags, Stat, StatxFlags, StatxTimestamp, statx};

/// The state of a file, according to its descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileVersion {
    /// The device and inode numbers.
    object: (u64, u64),
    /// Its length in bytes.
    pub length: u64,
    /// The modification time, which programs can set.
    pub modified: SystemTime,
    /// The status change time, which is set by the system.
    changed: SystemTime,
}

/// A file changed less than this ago may change again without a different stamp: file system clocks tick every few
/// milliseconds, some only every two seconds.
const SETTLED_AFTER: Duration = Duration::from_secs(2);

impl FileVersion {
    /// Reads the stamp of an object.
    pub fn of(stat: &Stat) -> Self {
        Self {
            object: (stat.st_dev, stat.st_ino),
            length: u64::try_from(stat.st_size).unwrap_or(0),
            modified: time(stat.st_mtime, stat.st_mtime_nsec),
            changed: time(stat.st_ctime, stat.st_ctime_nsec),
        }
    }

    /// Returns whether the open file still has this state, as far as the system knows without accessing a disk or
    /// another machine; an I/O thread may therefore call it.
    pub fn is_still_of(&self, file: &File) -> bool {
        let flags = AtFlags::EMPTY_PATH | AtFlags::STATX_DONT_SYNC;
        let wanted = StatxFlags::SIZE | StatxFlags::MTIME | StatxFlags::CTIME;
        let told = |time: StatxTimestamp| self::time(time.tv_sec, u64::from(time.tv_nsec));
        statx(file, c"", flags, wanted).is_ok_and(|now| {
            (now.stx_size, told(now.stx_mtime), told(now.stx_ctime))
                == (self.length, self.modified, self.changed)
        })
    }

    /// Returns whether any change after `now` gives the object a different stamp.
    pub fn is_settled(&self, now: SystemTime) -> bool {
        now.duration_since(self.changed).is_ok_and(|age| age >= SETTLED_AFTER)
    }

    /// Returns whether it is not older than `other`, with a resolution of one second, because tools that copy files
    /// keep no more.
    pub fn is_as_new_as(&self, other: &Self) -> bool {
        whole_seconds(self.modified) >= whole_seconds(other.modified)
    }

    /// Returns whether the modification time is real. Reproducible builds give all files the same time: the epoch or
    /// the second after it (Bazel, Nix), or `SOURCE_DATE_EPOCH`, in which case the document root has that time, too
    /// (`root_modified`).
    pub fn is_dated(&self, root_modified: Option<SystemTime>) -> bool {
        let is_of_the_build = self.is_in_whole_seconds() && root_modified == Some(self.modified);
        since_epoch(self.modified) > Duration::from_secs(1) && !is_of_the_build
    }

    /// Returns whether the modification time has no fraction of a second: a tool has set it, and perhaps to the same time
    /// for files with different contents.
    pub fn is_in_whole_seconds(&self) -> bool {
        since_epoch(self.modified).subsec_nanos() == 0
    }

    /// Returns an entity tag, without its quotes, from the modification time (in nanoseconds) and the length. A file
    /// copied to another machine with its time has the same tag there.
    pub fn tag(&self) -> String {
        format!("{:x}-{:x}", since_epoch(self.modified).as_nanos(), self.length)
    }

    /// Returns an entity tag that does not depend on the modification time. It differs between machines.
    pub fn local_tag(&self) -> String {
        format!("{:x}-{:x}-{:x}", self.object.1, since_epoch(self.changed).as_nanos(), self.length)
    }

    /// Creates an artificial stamp, for tests.
    #[cfg(test)]
    pub(super) fn made_up(length: u64, modified: SystemTime) -> Self {
        Self { object: (1, 1), length, modified, changed: modified }
    }
}

fn since_epoch(time: SystemTime) -> Duration {
    time.duration_since(UNIX_EPOCH).unwrap_or_default()
}

/// Truncates a time to the resolution of a date, because dates in conditions have no more.
pub(super) fn whole_seconds(time: SystemTime) -> SystemTime {
    time.duration_since(UNIX_EPOCH)
        .map_or(UNIX_EPOCH, |since| UNIX_EPOCH + Duration::from_secs(since.as_secs()))
}

fn time(seconds: i64, nanoseconds: u64) -> SystemTime {
    let (whole, part) = (Duration::from_secs(seconds.unsigned_abs()), Duration::from_nanos(nanoseconds));
    let second = if seconds < 0 { UNIX_EPOCH.checked_sub(whole) } else { UNIX_EPOCH.checked_add(whole) };
    second.and_then(|second| second.checked_add(part)).unwrap_or(UNIX_EPOCH)
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn every_change_gives_another_stamp() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        let stamp =
            |file: &tempfile::NamedTempFile| FileVersion::of(&rustix::fs::fstat(file.as_file()).unwrap());
        let empty = stamp(&file);
        assert_eq!(empty, stamp(&file));
        file.write_all(b"x").unwrap();
        let written = stamp(&file);
        assert_ne!(empty, written);
        assert!(written.is_still_of(file.as_file()) && !empty.is_still_of(file.as_file()));
        // Another object with the same bytes.
        let other = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(other.path(), "x").unwrap();
        other.as_file().set_modified(written.modified).unwrap();
        assert_ne!(written, stamp(&other));
        assert_eq!(written.tag(), stamp(&other).tag());
    }

    #[test]
    fn a_change_within_the_clocks_tick_may_not_show() {
        let changed = UNIX_EPOCH + Duration::from_secs(1000);
        let stamp = FileVersion::made_up(1, changed);
        assert!(!stamp.is_settled(changed));
        assert!(!stamp.is_settled(changed + SETTLED_AFTER - Duration::from_nanos(1)));
        assert!(stamp.is_settled(changed + SETTLED_AFTER));
        assert!(!stamp.is_settled(changed - Duration::from_secs(1)), "the future never settles");
    }

    #[test]
    fn ages_compare_by_the_second() {
        let at = |milliseconds| FileVersion::made_up(1, UNIX_EPOCH + Duration::from_millis(milliseconds));
        assert!(at(1000).is_as_new_as(&at(1999)));
        assert!(at(2000).is_as_new_as(&at(1999)));
        assert!(!at(1999).is_as_new_as(&at(2000)));
    }

    #[test]
    fn the_tag_changes_with_time_and_length() {
        let time = UNIX_EPOCH + Duration::new(784_111_777, 123_456_245);
        assert_eq!(FileVersion::made_up(10, time).tag(), "ae1b981c3a4d4f5-a");
        let tags: std::collections::HashSet<_> =
            [(10, time), (11, time), (10, time + Duration::from_nanos(1))]
                .into_iter()
                .flat_map(|(length, time)| {
                    let stamp = FileVersion::made_up(length, time);
                    [stamp.tag(), stamp.local_tag()]
                })
                .collect();
        assert_eq!(tags.len(), 6);
    }

    #[test]
    fn a_time_that_all_files_have_dates_none() {
        let at = |seconds, nanoseconds| UNIX_EPOCH + Duration::new(seconds, nanoseconds);
        let is_dated = |time, root| FileVersion::made_up(1, time).is_dated(root);
        for early in [at(0, 0), at(1, 0), at(0, 5), UNIX_EPOCH - Duration::from_secs(9)] {
            assert!(!is_dated(early, None) && !is_dated(early, Some(at(1000, 0))), "{early:?}");
        }
        // The earliest time that a ZIP archive can express.
        let zip = at(315_532_800, 0);
        assert!(is_dated(zip, None) && is_dated(zip, Some(at(1000, 0))));
        assert!(!is_dated(zip, Some(zip)));
        // Written at the same time, according to a coarse clock.
        assert!(is_dated(at(1000, 7), Some(at(1000, 7))));
    }
}
