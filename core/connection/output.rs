//! The pending output for one client.
//!
//! Order is preserved. Small pieces share a buffer, large ones are not copied, and file ranges stay in their files
//! until the sink sends them. This type does no I/O and enforces no limit: producers check [`is_full`](Output::is_full)
//! first.

use std::collections::VecDeque;
use std::fs::File;
use std::io::IoSlice;

use bytes::{Buf, Bytes};

use crate::limits::{DISK_SLICE_BYTES, OUTPUT_BYTES_MAX, OUTPUT_RUNS_MAX, STEP_BYTES};
use crate::sync::primitive::Arc;

use super::spares::{self, Spares};

/// A piece of up to this many bytes is copied to the end of the last one.
const COPY_BYTES_MAX: usize = 4096;

/// A piece of this many bytes is not appended to.
const PIECE_BYTES_MAX: usize = 16 * 1024;

/// File slices are read only while at most this many bytes are pending (heads and short parts).
const SLICED_BEHIND_MAX: usize = DISK_SLICE_BYTES / 2;

/// A queue with a larger capacity is not kept as a spare.
const QUEUE_PIECES_MAX: usize = 64;

thread_local! {
    static QUEUES: Spares<VecDeque<OutputPiece>> = const { Spares::new() };
}

/// The pending output.
#[derive(Debug)]
pub struct Output {
    pieces: VecDeque<OutputPiece>,
    len: usize,
    full_at: usize,
    sends_files: bool,
    /// The number of file ranges.
    runs: usize,
    /// The number of file bytes that could be sent immediately.
    slice_room: usize,
    /// The effort of writes since the last [`take_effort`](Self::take_effort), in steps.
    effort: u32,
}

#[derive(Debug)]
enum OutputPiece {
    /// Owned bytes, of which `written` have been written.
    Own { bytes: Vec<u8>, written: usize },
    /// Shared bytes.
    Shared(Bytes),
    /// A file range.
    File { file: Arc<File>, offset: u64, len: usize, state: FileState },
}

/// The page cache state of the file range at the front.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FileState {
    /// Unknown.
    Unseen,
    /// This many bytes must be read from disk first.
    Cold(usize),
    /// Being read.
    Awaited,
    /// Just read.
    Warmed,
}

/// The file range at the front.
#[derive(Clone, Copy, Debug)]
pub struct Front<'a> {
    /// The file.
    pub file: &'a File,
    /// The offset of the range.
    pub offset: u64,
    /// The length of the range.
    pub len: usize,
}

impl Default for Output {
    fn default() -> Self {
        Self::full_at(OUTPUT_BYTES_MAX)
    }
}

impl Output {
    /// Creates an empty output that counts as full from `bytes` on.
    pub fn full_at(bytes: usize) -> Self {
        Self {
            pieces: VecDeque::new(),
            len: 0,
            full_at: bytes,
            sends_files: false,
            runs: 0,
            slice_room: usize::MAX,
            effort: 0,
        }
    }

    /// Sets the number of bytes from which it counts as full.
    pub fn set_full_at(&mut self, bytes: usize) {
        self.full_at = bytes;
    }

    /// Sets the number of file bytes that could be sent immediately.
    pub fn set_slice_room(&mut self, bytes: usize) {
        self.slice_room = bytes;
    }

    /// Returns how many bytes to read from disk: no more than can be sent, and none while other output is pending.
    pub fn slice_room(&self) -> usize {
        if self.len > SLICED_BEHIND_MAX { 0 } else { self.slice_room.min(DISK_SLICE_BYTES) }
    }

    /// Returns the effort of writes since the last call, in steps of a turn.
    pub fn take_effort(&mut self) -> u32 {
        std::mem::take(&mut self.effort)
    }

    /// Sets whether the sink sends files.
    pub fn set_sends_files(&mut self, sends_files: bool) {
        self.sends_files = sends_files;
    }

    /// Returns whether file ranges may be pushed.
    pub fn sends_files(&self) -> bool {
        self.sends_files
    }

    /// Takes the file range that must be read from disk before more output can be sent, as file, offset and length,
    /// unless it was taken before; then call [`warmed`](Self::warmed).
    pub fn take_cold(&mut self) -> Option<(Arc<File>, u64, usize)> {
        let Some(OutputPiece::File { file, offset, state, .. }) = self.pieces.front_mut() else {
            return None;
        };
        let FileState::Cold(bytes) = *state else { return None };
        *state = FileState::Awaited;
        Some((Arc::clone(file), *offset, bytes))
    }

    /// Records that the file range at the front was read.
    pub fn warmed(&mut self) {
        if let Some(OutputPiece::File { state, .. }) = self.pieces.front_mut()
            && *state == FileState::Awaited
        {
            *state = FileState::Warmed;
        }
    }

    /// Returns the number of pending bytes.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns whether producers should pause.
    pub fn is_full(&self) -> bool {
        self.len >= self.full_at || self.runs >= OUTPUT_RUNS_MAX
    }

    /// Returns whether no output is pending.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Lets `write` append to the last piece.
    pub fn append(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        if !matches!(self.pieces.back(), Some(OutputPiece::Own { bytes, .. }) if bytes.len() < PIECE_BYTES_MAX)
        {
            self.add(OutputPiece::Own { bytes: spares::take_buffer(), written: 0 });
        }
        if let Some(OutputPiece::Own { bytes, .. }) = self.pieces.back_mut() {
            let before = bytes.len();
            write(bytes);
            self.len += bytes.len() - before;
        }
    }

    /// Returns the last `COUNT` bytes that were appended, if none of them has been written.
    pub fn last_bytes<const COUNT: usize>(&mut self) -> Option<&mut [u8; COUNT]> {
        let Some(OutputPiece::Own { bytes, written }) = self.pieces.back_mut() else { return None };
        bytes[*written..].last_chunk_mut()
    }

    /// Appends bytes; copies them if they are few.
    pub fn push(&mut self, bytes: Vec<u8>) {
        if bytes.len() <= COPY_BYTES_MAX {
            self.append(|last| last.extend_from_slice(&bytes));
        } else {
            self.len += bytes.len();
            self.add(OutputPiece::Own { bytes, written: 0 });
        }
    }

    /// Appends shared bytes; copies them if they are few.
    pub fn push_shared(&mut self, bytes: Bytes) {
        if bytes.len() <= COPY_BYTES_MAX {
            self.append(|last| last.extend_from_slice(&bytes));
        } else {
            self.len += bytes.len();
            self.add(OutputPiece::Shared(bytes));
        }
    }

    /// Appends `len` bytes of `file` from `offset` on; only for an output whose sink sends files.
    pub fn push_file(&mut self, file: Arc<File>, offset: u64, len: usize) {
        if len > 0 {
            self.len += len;
            self.runs += 1;
            self.add(OutputPiece::File { file, offset, len, state: FileState::Unseen });
        }
    }

    fn add(&mut self, piece: OutputPiece) {
        if self.pieces.capacity() == 0 {
            self.pieces = QUEUES.with(Spares::take);
        }
        self.pieces.push_back(piece);
    }

    /// Takes up to `max` bytes off the front, for a sink that keeps them; none of them come from a file.
    pub fn take(&mut self, max: usize) -> Bytes {
        let front = loop {
            match self.pieces.pop_front() {
                Some(OutputPiece::Own { bytes, written }) => {
                    let mut bytes = Bytes::from(bytes);
                    bytes.advance(written);
                    if !bytes.is_empty() {
                        break bytes;
                    }
                }
                Some(OutputPiece::Shared(bytes)) => break bytes,
                Some(OutputPiece::File { .. }) => {
                    debug_assert!(false, "a file in an output that is taken from");
                }
                None => return Bytes::new(),
            }
        };
        let mut front = front;
        if front.len() > max {
            let rest = front.split_off(max);
            self.pieces.push_front(OutputPiece::Shared(rest));
        }
        self.len -= front.len();
        front
    }

    /// Returns the file range at the front, if there is one.
    pub fn front_file(&self) -> Option<Front<'_>> {
        match self.pieces.front() {
            Some(OutputPiece::File { file, offset, len, .. }) => {
                Some(Front { file, offset: *offset, len: *len })
            }
            _ => None,
        }
    }

    /// Returns whether the front can be sent without waiting for a disk. `look` returns how many bytes of a file range
    /// must be read from disk first, if any; it is called until it returns some.
    pub fn is_front_ready(&mut self, look: impl FnOnce(Front<'_>) -> Option<usize>) -> bool {
        let Some(OutputPiece::File { file, offset, len, state }) = self.pieces.front_mut() else {
            return true;
        };
        if *state == FileState::Unseen {
            match look(Front { file, offset: *offset, len: *len }) {
                None => return true,
                Some(bytes) => *state = FileState::Cold(bytes),
            }
        }
        *state == FileState::Warmed
    }

    /// Fills `slices` from the front, up to the next file range; returns the number filled.
    pub fn fill<'a>(&'a self, slices: &mut [IoSlice<'a>]) -> usize {
        let bytes = self.pieces.iter().map_while(OutputPiece::bytes);
        slices.iter_mut().zip(bytes).map(|(slice, bytes)| *slice = IoSlice::new(bytes)).count()
    }

    /// Removes `count` written bytes from the front.
    pub fn advance(&mut self, mut count: usize) {
        debug_assert!(count <= self.len, "wrote {count} of {} bytes", self.len);
        self.len -= count;
        self.effort = self.effort.saturating_add(1 + u32::try_from(count / STEP_BYTES).unwrap_or(u32::MAX));
        while let Some(first) = self.pieces.front_mut() {
            count = first.advance(count);
            if !first.is_empty() {
                return;
            }
            match self.pieces.pop_front() {
                Some(OutputPiece::Own { bytes, .. }) => spares::give_buffer(bytes),
                Some(OutputPiece::File { .. }) => self.runs -= 1,
                Some(OutputPiece::Shared(_)) | None => {}
            }
        }
        let queue = std::mem::take(&mut self.pieces);
        if (1..=QUEUE_PIECES_MAX).contains(&queue.capacity()) {
            QUEUES.with(|spares| spares.give(queue));
        }
    }
}

impl OutputPiece {
    /// Returns the unwritten bytes; `None` for a file range.
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

    /// Removes up to `count` written bytes; returns the rest of `count`.
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
    use super::*;

    #[test]
    fn small_pieces_share_a_buffer() {
        let mut output = Output::default();
        output.push(vec![1; 10]);
        output.push(vec![2; 10]);
        assert_eq!(output.pieces.len(), 1);
    }

    #[test]
    fn bytes_are_taken_in_order_and_in_the_asked_size() {
        let mut output = Output::default();
        output.push(vec![1; 5]);
        output.push_shared(Bytes::from(vec![2; 9000]));
        output.advance(2);
        assert_eq!(output.take(100), [1; 3][..]);
        assert_eq!(output.take(100), [2; 100][..]);
        assert_eq!((output.take(usize::MAX).len(), output.len()), (8900, 0));
        assert!(output.take(1).is_empty());
    }

    #[test]
    fn slices_end_in_front_of_a_file() {
        let file = Arc::new(tempfile::tempfile().unwrap());
        let mut output = Output::default();
        output.push(vec![1; 9000]);
        output.push(vec![2; 9000]);
        output.push_file(Arc::clone(&file), 3, 7);
        output.push(vec![3; 9000]);
        let mut slices = [IoSlice::new(&[]); 8];
        assert_eq!(output.fill(&mut slices), 2);
        assert!(output.front_file().is_none() && output.is_front_ready(|_| panic!("bytes need no disk")));
        output.advance(18_000);
        assert!(output.front_file().is_some_and(|front| (front.offset, front.len) == (3, 7)));
        assert!(!output.is_front_ready(|_| Some(100)));
        assert!(output.take_cold().is_some_and(|(_, offset, bytes)| (offset, bytes) == (3, 100)));
        assert!(output.take_cold().is_none() && !output.is_front_ready(|_| None), "it is being read");
        output.warmed();
        assert!(output.is_front_ready(|_| Some(1)));
    }
}
