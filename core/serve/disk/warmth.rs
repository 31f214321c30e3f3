//! What of a file the system has in memory, so that an io thread can tell whether sending it would wait for a disk.
//!
//! Promises: nothing here waits but [`warm`], which belongs on a file thread. Refuses: it cannot keep pages in memory;
//! between the question and the sending the system may have dropped them, which costs a wait and nothing else.

use std::fs::File;
use std::io::{self, IoSliceMut};
use std::os::unix::fs::FileExt;

use rustix::io::{Errno, ReadWriteFlags, preadv2};

use crate::limits::{DISK_SLICE_BYTES, WARM_BYTES};

/// What is known about a run of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::serve) enum Warmth {
    /// Reading it would wait for a disk.
    Cold,
    /// The file system does not tell.
    Unknown,
    /// Its first and its last byte are in memory, or the file ends before.
    Warm,
}

/// Tells whether `len` bytes of `file` from `offset` on are in memory.
pub(in crate::serve) fn warmth(file: &File, offset: u64, len: usize) -> Warmth {
    let last = offset + (len as u64).saturating_sub(1);
    match probe(file, offset) {
        Warmth::Warm if last > offset => probe(file, last),
        other => other,
    }
}

/// Reads what is in memory of up to `len` bytes of `file` from `offset` on; nothing behind the file's end. `None` when
/// that would wait for a disk, or the file system does not tell.
pub(in crate::serve) fn read_now(file: &File, offset: u64, len: usize) -> Option<Vec<u8>> {
    let mut bytes = vec![0; len];
    let count = preadv2(file, &mut [IoSliceMut::new(&mut bytes)], offset, ReadWriteFlags::NOWAIT).ok()?;
    bytes.truncate(count);
    Some(bytes)
}

/// How much of a run that is not known to be in memory is worth reading at once.
pub(in crate::serve) fn bytes_to_warm(warmth: Warmth, len: usize) -> usize {
    // Where nobody can tell, what is read beyond the run would be read again for the next one.
    if warmth == Warmth::Cold { len.max(WARM_BYTES) } else { len }
}

/// Reads `len` bytes of `file` from `offset` on, so that the system has them in memory. Waits for the disk.
pub(in crate::serve) fn warm(file: &File, offset: u64, len: usize) {
    let mut bytes = vec![0; DISK_SLICE_BYTES.min(len)];
    let mut done = 0;
    while done < len {
        let wanted = bytes.len().min(len - done);
        match file.read_at(&mut bytes[..wanted], offset + done as u64) {
            // What is wrong will be told by the sending.
            Ok(0) => return,
            Err(error) if error.kind() != io::ErrorKind::Interrupted => return,
            Ok(count) => done += count,
            Err(_) => {}
        }
    }
}

fn probe(file: &File, offset: u64) -> Warmth {
    let mut byte = [0];
    match preadv2(file, &mut [IoSliceMut::new(&mut byte)], offset, ReadWriteFlags::NOWAIT) {
        Ok(_) => Warmth::Warm,
        Err(Errno::AGAIN) => Warmth::Cold,
        Err(_) => Warmth::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn what_was_just_written_is_warm_and_can_be_read_now() {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(b"0123456789").unwrap();
        warm(&file, 0, 10);
        assert_ne!(warmth(&file, 0, 10), Warmth::Cold);
        if warmth(&file, 0, 10) == Warmth::Warm {
            assert_eq!(read_now(&file, 2, 3).as_deref(), Some(&b"234"[..]));
            assert_eq!(read_now(&file, 8, 30).as_deref(), Some(&b"89"[..]));
            assert_eq!(read_now(&file, 10, 30).as_deref(), Some(&b""[..]), "behind the end");
        }
    }

    #[test]
    fn what_the_system_has_dropped_is_cold_until_it_was_read() {
        // Beside the sources, which lie on a disk as a rule.
        let mut file = tempfile::tempfile_in(env!("CARGO_MANIFEST_DIR")).unwrap();
        file.write_all(&vec![1; 4 << 20]).unwrap();
        file.sync_all().unwrap();
        rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed).unwrap();
        match warmth(&file, 3 << 20, 1 << 20) {
            // A file system that cannot drop or cannot tell has nothing to show.
            Warmth::Warm | Warmth::Unknown => {}
            Warmth::Cold => {
                assert_eq!(read_now(&file, 3 << 20, 10), None);
                warm(&file, 3 << 20, 1 << 20);
                assert_eq!(warmth(&file, 3 << 20, 1 << 20), Warmth::Warm);
            }
        }
    }
}
