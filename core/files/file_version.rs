//! What distinguishes one state of a file from another: the object, its length, and its modification times.
//!
//! Promises: two stamps of an open file are equal only if it has not changed in between, as far as the system's clock
//! can tell; [`is_settled`](FileVersion::is_settled) tells whether it can. Refuses: it reads no clock and no disk.

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

    /// Returns an entity tag, without its quotes, from the modification time (in nanoseconds) and the length. A file
    /// copied to another machine with its time has the same tag there.
    pub fn tag(&self) -> String {
        let (sign, distance) = match self.modified.duration_since(UNIX_EPOCH) {
            Ok(after) => ("", after),
            Err(before) => ("-", before.duration()),
        };
        format!("{sign}{:x}-{:x}", distance.as_nanos(), self.length)
    }

    /// A made-up stamp, for tests.
    #[cfg(test)]
    pub(super) fn made_up(length: u64, modified: SystemTime) -> Self {
        Self { object: (1, 1), length, modified, changed: modified }
    }
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
        let before = UNIX_EPOCH - Duration::new(784_111_777, 123_456_245);
        let tags: std::collections::HashSet<_> =
            [(10, time), (11, time), (10, time + Duration::from_nanos(1)), (10, before)]
                .into_iter()
                .map(|(length, time)| FileVersion::made_up(length, time).tag())
                .collect();
        assert_eq!(tags.len(), 4);
    }
}
