//! Bytes on their way to one client.
//!
//! Promises: order is kept; small pieces share a buffer, large ones are not copied, and a file's go from the system's
//! cache to the socket without passing through here; a write takes as many pieces as the system allows in one call.
//! Refuses: it keeps no bound; whoever fills it asks [`is_full`](Output::is_full) first.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, IoSlice};

use bytes::{Buf, Bytes};

use crate::limits::OUTPUT_BYTES_MAX;
use crate::sync::primitive::Arc;

use crate::serve::disk::warmth::{Warmth, bytes_to_warm, warmth};

/// A piece of up to this many bytes is copied behind the one before it.
const COPY_BYTES_MAX: usize = 4096;

/// A buffer that is kept for the next response has at most this capacity, in bytes.
const SPARE_BYTES_MAX: usize = 16 * 1024;

/// How many pieces go out in one call.
const SLICES_MAX: usize = 16;

/// Where the bytes go: a socket that takes what it can and says "later" to the rest.
pub(in crate::serve) trait Sink {
    /// Writes from the slices, in their order; returns how many bytes were taken.
    ///
    /// # Errors
    ///
    /// What the system says; "would block" when it takes nothing for now.
    fn write_slices(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize>;

    /// Sends up to `len` bytes of `file` from `offset` on; returns how many were taken, 0 behind the file's end. Only
    /// called for pieces that [`Output::push_file`] was given.
    ///
    /// # Errors
    ///
    /// As [`write_slices`](Self::write_slices).
    fn send_file(&mut self, file: &File, offset: u64, len: usize) -> io::Result<usize>;
}

/// What waits to be written.
#[derive(Debug)]
pub(in crate::serve) struct Output {
    pieces: VecDeque<Piece>,
    len: usize,
    full_at: usize,
    sends_files: bool,
}

#[derive(Debug)]
enum Piece {
    /// Bytes of this response's own, of which so many have been written.
    Own { bytes: Vec<u8>, written: usize },
    /// Bytes that others hold too.
    Shared(Bytes),
    /// A run of a file.
    File { file: Arc<File>, offset: u64, len: usize, state: FileState },
}

/// What is known about the run of a file that is at the front.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FileState {
    /// Nothing yet.
    Unseen,
    /// It has to be read from its disk.
    Cold(Warmth),
    /// It is being read.
    Awaited,
    /// It was read a moment ago.
    Warmed,
}

/// What became of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::serve) enum Flushed {
    /// Everything is out.
    All,
    /// The system takes no more for now, or a disk has to be read first ([`Output::take_cold`]); so many bytes went
    /// out.
    Some(usize),
}

impl Default for Output {
    fn default() -> Self {
        Self::full_at(OUTPUT_BYTES_MAX)
    }
}

impl Output {
    /// Starts empty; it counts as full from this many bytes on.
    pub(in crate::serve) fn full_at(bytes: usize) -> Self {
        Self { pieces: VecDeque::new(), len: 0, full_at: bytes, sends_files: false }
    }

    /// Says whether the sink sends files.
    pub(in crate::serve) fn set_sends_files(&mut self, sends_files: bool) {
        self.sends_files = sends_files;
    }

    /// Whether files may be pushed.
    pub(in crate::serve) fn sends_files(&self) -> bool {
        self.sends_files
    }

    /// Gives the run of a file that has to be read from its disk before anything more goes out, if there is one that
    /// nobody was asked to read; then [`warmed`](Self::warmed).
    pub(in crate::serve) fn take_cold(&mut self) -> Option<(Arc<File>, u64, usize)> {
        let Some(Piece::File { file, offset, len, state }) = self.pieces.front_mut() else { return None };
        let FileState::Cold(warmth) = *state else { return None };
        *state = FileState::Awaited;
        Some((Arc::clone(file), *offset, bytes_to_warm(warmth, *len)))
    }

    /// The run at the front has been read.
    pub(in crate::serve) fn warmed(&mut self) {
        if let Some(Piece::File { state, .. }) = self.pieces.front_mut()
            && *state == FileState::Awaited
        {
            *state = FileState::Warmed;
        }
    }

    /// The number of bytes that wait.
    pub(in crate::serve) fn len(&self) -> usize {
        self.len
    }

    /// Whether enough waits.
    pub(in crate::serve) fn is_full(&self) -> bool {
        self.len >= self.full_at
    }

    /// Whether nothing waits.
    pub(in crate::serve) fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Lets `write` append to the last piece.
    pub(in crate::serve) fn append(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        if !matches!(self.pieces.back(), Some(Piece::Own { bytes, .. }) if bytes.len() < SPARE_BYTES_MAX) {
            self.pieces.push_back(Piece::Own { bytes: Vec::new(), written: 0 });
        }
        if let Some(Piece::Own { bytes, .. }) = self.pieces.back_mut() {
            let before = bytes.len();
            write(bytes);
            self.len += bytes.len() - before;
        }
    }

    /// Adds bytes, by copying them if they are few.
    pub(in crate::serve) fn push(&mut self, bytes: Vec<u8>) {
        if bytes.len() <= COPY_BYTES_MAX {
            self.append(|last| last.extend_from_slice(&bytes));
        } else {
            self.len += bytes.len();
            self.pieces.push_back(Piece::Own { bytes, written: 0 });
        }
    }

    /// Adds bytes that others hold too, by copying them if they are few.
    pub(in crate::serve) fn push_shared(&mut self, bytes: Bytes) {
        if bytes.len() <= COPY_BYTES_MAX {
            self.append(|last| last.extend_from_slice(&bytes));
        } else {
            self.len += bytes.len();
            self.pieces.push_back(Piece::Shared(bytes));
        }
    }

    /// Adds `len` bytes of `file` from `offset` on; only for an output whose sink sends files.
    pub(in crate::serve) fn push_file(&mut self, file: Arc<File>, offset: u64, len: usize) {
        if len > 0 {
            self.len += len;
            self.pieces.push_back(Piece::File { file, offset, len, state: FileState::Unseen });
        }
    }

    /// Takes up to `max` bytes off the front, for a sink that keeps what it is given; none of them are a file's.
    pub(in crate::serve) fn take(&mut self, max: usize) -> Bytes {
        let front = loop {
            match self.pieces.pop_front() {
                Some(Piece::Own { bytes, written }) => {
                    let mut bytes = Bytes::from(bytes);
                    bytes.advance(written);
                    if !bytes.is_empty() {
                        break bytes;
                    }
                }
                Some(Piece::Shared(bytes)) => break bytes,
                Some(Piece::File { .. }) => debug_assert!(false, "a file in an output that is taken from"),
                None => return Bytes::new(),
            }
        };
        let mut front = front;
        if front.len() > max {
            let rest = front.split_off(max);
            self.pieces.push_front(Piece::Shared(rest));
        }
        self.len -= front.len();
        front
    }

    /// Writes until everything is out or the system takes no more.
    ///
    /// # Errors
    ///
    /// What the socket says, but for "later" and "interrupted"; also when a file ends before its time.
    pub(in crate::serve) fn flush(&mut self, to: &mut impl Sink) -> io::Result<Flushed> {
        let mut out = 0;
        while self.len > 0 {
            if !self.is_ready() {
                return Ok(Flushed::Some(out));
            }
            let (result, offered) = self.write_once(to);
            match result {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(count) => {
                    self.advance(count);
                    out += count;
                    if count < offered {
                        return Ok(Flushed::Some(out));
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(Flushed::Some(out)),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(Flushed::All)
    }

    /// Whether what is at the front can be sent without waiting for a disk.
    fn is_ready(&mut self) -> bool {
        let Some(Piece::File { file, offset, len, state }) = self.pieces.front_mut() else { return true };
        if *state == FileState::Unseen {
            match warmth(file, *offset, *len) {
                Warmth::Warm => return true,
                other => *state = FileState::Cold(other),
            }
        }
        *state == FileState::Warmed
    }

    /// Offers what one call can take; returns how much has to be taken for another call to be worth it.
    fn write_once(&self, to: &mut impl Sink) -> (io::Result<usize>, usize) {
        if let Some(Piece::File { file, offset, len, .. }) = self.pieces.front() {
            // Less may have been taken because the file ends there: only another call tells.
            return (to.send_file(file, *offset, *len), 0);
        }
        let mut slices = [IoSlice::new(&[]); SLICES_MAX];
        let (mut offered, mut count) = (0, 0);
        for (slice, bytes) in slices.iter_mut().zip(self.pieces.iter().map_while(Piece::bytes)) {
            *slice = IoSlice::new(bytes);
            offered += bytes.len();
            count += 1;
        }
        (to.write_slices(&slices[..count]), offered)
    }

    fn advance(&mut self, mut count: usize) {
        debug_assert!(count <= self.len, "wrote {count} of {} bytes", self.len);
        self.len -= count;
        let mut pieces_left = self.pieces.len();
        while let Some(first) = self.pieces.front_mut() {
            count = first.advance(count);
            if !first.is_empty() {
                return;
            }
            pieces_left -= 1;
            if pieces_left == 0
                && let Piece::Own { bytes, written } = first
                && bytes.capacity() <= SPARE_BYTES_MAX
            {
                // Kept for the next response on this connection.
                bytes.clear();
                *written = 0;
                return;
            }
            self.pieces.pop_front();
        }
    }
}

impl Piece {
    /// What of it is still to be written, unless it is a file's.
    fn bytes(&self) -> Option<&[u8]> {
        match self {
            Self::Own { bytes, written } => Some(&bytes[*written..]),
            Self::Shared(bytes) => Some(bytes),
            Self::File { .. } => None,
        }
    }

    fn is_empty(&self) -> bool {
        match self {
            Self::Own { bytes, written } => bytes.len() == *written,
            Self::Shared(bytes) => bytes.is_empty(),
            Self::File { len, .. } => *len == 0,
        }
    }

    /// Notes that up to `count` bytes of it were written; returns how many of them were not its own.
    fn advance(&mut self, count: usize) -> usize {
        match self {
            Self::Own { bytes, written } => {
                let step = count.min(bytes.len() - *written);
                *written += step;
                count - step
            }
            Self::Shared(bytes) => {
                let step = count.min(bytes.len());
                bytes.advance(step);
                count - step
            }
            Self::File { offset, len, .. } => {
                let step = count.min(*len);
                *offset += step as u64;
                *len -= step;
                count - step
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::os::unix::fs::FileExt;

    use super::*;

    /// Takes `room` bytes in all, at most `step` in one call.
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
                output.flush(&mut to).unwrap();
            }
            assert!(to.taken == expected);
        }
    }

    #[test]
    fn a_full_socket_keeps_the_rest() {
        let mut output = Output::default();
        output.append(|bytes| bytes.extend_from_slice(b"0123456789"));
        let mut to = Narrow { taken: Vec::new(), room: 4, step: 100 };
        assert_eq!(output.flush(&mut to).unwrap(), Flushed::Some(4));
        assert_eq!(output.len(), 6);
        to.room = 10;
        assert_eq!(output.flush(&mut to).unwrap(), Flushed::All);
        assert_eq!(to.taken, b"0123456789");
    }

    #[test]
    fn small_pieces_share_a_buffer() {
        let mut output = Output::default();
        output.push(vec![1; 10]);
        output.push(vec![2; 10]);
        assert_eq!(output.pieces.len(), 1);
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
                output.flush(&mut to).unwrap();
            }
            assert_eq!(to.taken, b"<23456>");
        }
    }

    #[test]
    fn a_run_that_is_not_in_memory_waits_until_it_was_read() {
        // Beside the sources, which lie on a disk as a rule.
        let mut file = tempfile::tempfile_in(env!("CARGO_MANIFEST_DIR")).unwrap();
        file.write_all(&[b'x'; 100_000]).unwrap();
        file.sync_all().unwrap();
        rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed).unwrap();
        let file = Arc::new(file);
        let mut output = Output::default();
        output.push(b"<".to_vec());
        output.push_file(Arc::clone(&file), 0, 100_000);
        let mut to = Narrow { taken: Vec::new(), room: 1 << 20, step: 1 << 20 };
        let flushed = output.flush(&mut to).unwrap();
        if flushed == Flushed::All {
            // A file system that does not drop.
            return;
        }
        assert_eq!((flushed, output.len()), (Flushed::Some(1), 100_000));
        let (_, offset, len) = output.take_cold().unwrap();
        assert!(offset == 0 && len >= 100_000);
        assert!(output.take_cold().is_none(), "it was asked for");
        assert_eq!(output.flush(&mut to).unwrap(), Flushed::Some(0), "it is being read");
        output.warmed();
        assert_eq!(output.flush(&mut to).unwrap(), Flushed::All);
        assert_eq!(to.taken.len(), 100_001);
    }

    #[test]
    fn bytes_are_taken_in_order_and_in_the_asked_size() {
        let mut output = Output::default();
        output.push(vec![1; 5]);
        output.push_shared(Bytes::from(vec![2; 9000]));
        let mut to = Narrow { taken: Vec::new(), room: 2, step: 2 };
        output.flush(&mut to).unwrap();
        assert_eq!(output.take(100), [1; 3][..]);
        assert_eq!(output.take(100), [2; 100][..]);
        assert_eq!((output.take(usize::MAX).len(), output.len()), (8900, 0));
        assert!(output.take(1).is_empty());
    }
}
