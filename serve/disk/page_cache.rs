//! The kernel's page cache, seen from an I/O thread: would sending a part of a file wait for the disk?
//!
//! Only [`read_ahead`] waits for the disk, and it belongs on a file thread. Pages cannot be kept in memory: the kernel
//! may drop them between the question and the transfer, which costs a wait and nothing else.

use std::fs::File;
use std::io::{self, IoSliceMut};
use std::os::unix::fs::FileExt;

use rustix::io::{Errno, ReadWriteFlags, preadv2};

use svc_core::limits::{DISK_SLICE_BYTES, READ_AHEAD_BYTES};

/// The state of a part of a file in the page cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PageCache {
    /// The part is not in memory, or only its beginning is: reading it waits for the disk.
    Missing,
    /// The file system does not report it.
    Unknown,
    /// The first and the last byte are in memory, or the file ends before them.
    Cached,
}

/// Asks whether the page cache holds `len` bytes of `file` from `offset` on.
pub(crate) fn page_cache(file: &File, offset: u64, len: usize) -> PageCache {
    let last = offset + (len as u64).saturating_sub(1);
    match probe(file, offset) {
        PageCache::Cached if last > offset => probe(file, last),
        other => other,
    }
}

/// Reads up to `len` bytes of `file` from `offset` on, as far as the page cache holds them; nothing at the end of the
/// file. Returns `None` if reading would wait for the disk, or if the file system does not report it.
pub(crate) fn read_now(file: &File, offset: u64, len: usize) -> Option<Vec<u8>> {
    let mut bytes = vec![0; len];
    let count = preadv2(file, &mut [IoSliceMut::new(&mut bytes)], offset, ReadWriteFlags::NOWAIT).ok()?;
    bytes.truncate(count);
    Some(bytes)
}

/// Returns how many bytes to read ahead for a part that is not known to be in memory.
pub(crate) fn read_ahead_len(state: PageCache, len: usize) -> usize {
    // If the file system does not report it, the next part is read again anyway.
    if state == PageCache::Missing { len.max(READ_AHEAD_BYTES) } else { len }
}

/// Reads `len` bytes of `file` from `offset` on into the page cache. Waits for the disk.
pub(crate) fn read_ahead(file: &File, offset: u64, len: usize) {
    let mut bytes = vec![0; DISK_SLICE_BYTES.min(len)];
    let mut done = 0;
    while done < len {
        let wanted = bytes.len().min(len - done);
        match file.read_at(&mut bytes[..wanted], offset + done as u64) {
            // The transfer reports errors.
            Ok(0) => return,
            Err(error) if error.kind() != io::ErrorKind::Interrupted => return,
            Ok(count) => done += count,
            Err(_) => {}
        }
    }
}

fn probe(file: &File, offset: u64) -> PageCache {
    let mut byte = [0];
    match preadv2(file, &mut [IoSliceMut::new(&mut byte)], offset, ReadWriteFlags::NOWAIT) {
        Ok(_) => PageCache::Cached,
        Err(Errno::AGAIN) => PageCache::Missing,
        Err(_) => PageCache::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn a_file_just_written_is_cached_and_can_be_read_now() {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(b"0123456789").unwrap();
        read_ahead(&file, 0, 10);
        assert_ne!(page_cache(&file, 0, 10), PageCache::Missing);
        if page_cache(&file, 0, 10) == PageCache::Cached {
            assert_eq!(read_now(&file, 2, 3).as_deref(), Some(&b"234"[..]));
            assert_eq!(read_now(&file, 8, 30).as_deref(), Some(&b"89"[..]));
            assert_eq!(read_now(&file, 10, 30).as_deref(), Some(&b""[..]), "past the end");
        }
    }

    #[test]
    fn dropped_pages_are_missing_until_they_are_read() {
        // Next to the sources, which are usually on a disk.
        let mut file = tempfile::tempfile_in(env!("CARGO_MANIFEST_DIR")).unwrap();
        file.write_all(&vec![1; 4 << 20]).unwrap();
        file.sync_all().unwrap();
        rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed).unwrap();
        match page_cache(&file, 3 << 20, 1 << 20) {
            // The file system does not drop pages, or does not report them: there is nothing to test.
            PageCache::Cached | PageCache::Unknown => {}
            PageCache::Missing => {
                // The question made the system begin to read, and it may have finished by now.
                assert!(read_now(&file, 3 << 20, 10).is_none_or(|bytes| bytes == [1; 10]));
                read_ahead(&file, 3 << 20, 1 << 20);
                assert_eq!(page_cache(&file, 3 << 20, 1 << 20), PageCache::Cached);
            }
        }
    }
}
