use std::io::Write;
use std::os::unix::fs::FileExt;

use bytes::Bytes;

use super::*;
use svc_core::sync::primitive::Arc;

/// Accepts `room` bytes in all, at most `step` per call.
struct Narrow {
    taken: Vec<u8>,
    room: usize,
    step: usize,
}

impl Narrow {
    fn take(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let count = bytes.len().min(self.step).min(self.room - self.taken.len());
        if count == 0 {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        self.taken.extend_from_slice(&bytes[..count]);
        Ok(count)
    }
}

impl Sink for Narrow {
    fn write_slices(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        let all: Vec<u8> = slices.iter().flat_map(|slice| slice.iter().copied()).collect();
        self.take(&all)
    }

    fn send_file(&mut self, file: &File, offset: u64, len: usize) -> io::Result<usize> {
        let mut bytes = vec![0; len];
        file.read_exact_at(&mut bytes, offset)?;
        self.take(&bytes)
    }
}

#[test]
fn bytes_leave_in_the_order_they_came_whatever_the_writes_take() {
    for step in [1, 7, 5000, 100_000] {
        let mut output = Output::default();
        let mut expected = Vec::new();
        for (index, len) in [3, 9000, 0, 20, 5000, 1].into_iter().enumerate() {
            let piece = vec![u8::try_from(index).unwrap(); len];
            expected.extend_from_slice(&piece);
            output.push(piece);
        }
        assert_eq!(output.len(), expected.len());
        let mut to = Narrow { taken: Vec::new(), room: expected.len(), step };
        while !output.is_empty() {
            flush(&mut output, &mut to).unwrap();
        }
        assert!(to.taken == expected);
    }
}

#[test]
fn a_full_socket_keeps_the_rest() {
    let mut output = Output::default();
    output.append(|bytes| bytes.extend_from_slice(b"0123456789"));
    let mut to = Narrow { taken: Vec::new(), room: 4, step: 100 };
    assert_eq!(flush(&mut output, &mut to).unwrap(), Flushed::Some(4));
    assert_eq!(output.len(), 6);
    to.room = 10;
    assert_eq!(flush(&mut output, &mut to).unwrap(), Flushed::All);
    assert_eq!(to.taken, b"0123456789");
}

#[test]
fn a_file_keeps_its_place_between_bytes() {
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(b"0123456789").unwrap();
    let file = Arc::new(file);
    for step in [1, 3, 100] {
        let mut output = Output::default();
        output.push(b"<".to_vec());
        output.push_file(Arc::clone(&file), 2, 5);
        output.push_shared(Bytes::from_static(b">"));
        assert_eq!(output.len(), 7);
        let mut to = Narrow { taken: Vec::new(), room: 100, step };
        while !output.is_empty() {
            flush(&mut output, &mut to).unwrap();
        }
        assert_eq!(to.taken, b"<23456>");
    }
}

#[test]
fn a_run_that_is_not_in_memory_waits_until_it_was_read() {
    // Next to the sources, which are usually on a disk.
    let mut file = tempfile::tempfile_in(env!("CARGO_MANIFEST_DIR")).unwrap();
    file.write_all(&[b'x'; 100_000]).unwrap();
    file.sync_all().unwrap();
    rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed).unwrap();
    let file = Arc::new(file);
    let mut output = Output::default();
    output.push(b"<".to_vec());
    output.push_file(Arc::clone(&file), 0, 100_000);
    let mut to = Narrow { taken: Vec::new(), room: 1 << 20, step: 1 << 20 };
    let flushed = flush(&mut output, &mut to).unwrap();
    if flushed == Flushed::All {
        // The file system does not drop pages.
        return;
    }
    assert_eq!((flushed, output.len()), (Flushed::Some(1), 100_000));
    let (_, offset, len) = output.take_cold().unwrap();
    assert!(offset == 0 && len >= 100_000);
    assert!(output.take_cold().is_none(), "it was asked for");
    assert_eq!(flush(&mut output, &mut to).unwrap(), Flushed::Some(0), "it is being read");
    output.warmed();
    assert_eq!(flush(&mut output, &mut to).unwrap(), Flushed::All);
    assert_eq!(to.taken.len(), 100_001);
}
