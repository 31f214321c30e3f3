//! Bytes on their way to one client.
//!
//! Promises: order is kept; small pieces share a buffer, large ones are not copied; a write takes as many pieces as
//! the system allows in one call. Refuses: it sets no bound; whoever fills it looks at [`len`](Output::len) first.

use std::collections::VecDeque;
use std::io::{self, IoSlice, Write};

/// A piece of up to this many bytes is copied behind the one before it.
const COPY_BYTES_MAX: usize = 4096;

/// A buffer that is kept for the next response has at most this capacity, in bytes.
const SPARE_BYTES_MAX: usize = 16 * 1024;

/// How many pieces go out in one call.
const SLICES_MAX: usize = 16;

/// What waits to be written.
#[derive(Debug, Default)]
pub(super) struct Output {
    pieces: VecDeque<Vec<u8>>,
    /// How much of the first piece has been written.
    written: usize,
    len: usize,
}

/// What became of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Flushed {
    /// Everything is out.
    All,
    /// The system takes no more for now; so many bytes went out.
    Some(usize),
}

impl Output {
    /// The number of bytes that wait.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Whether nothing waits.
    pub(super) fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Lets `write` append to the last piece.
    pub(super) fn append(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        if self.pieces.back().is_none_or(|last| last.len() >= SPARE_BYTES_MAX) {
            self.pieces.push_back(Vec::new());
        }
        if let Some(last) = self.pieces.back_mut() {
            let before = last.len();
            write(last);
            self.len += last.len() - before;
        }
    }

    /// Adds bytes, by copying them if they are few.
    pub(super) fn push(&mut self, bytes: Vec<u8>) {
        if bytes.len() <= COPY_BYTES_MAX {
            self.append(|last| last.extend_from_slice(&bytes));
        } else {
            self.len += bytes.len();
            self.pieces.push_back(bytes);
        }
    }

    /// Writes until everything is out or the system takes no more.
    ///
    /// # Errors
    ///
    /// What the socket says, but for "later" and "interrupted".
    pub(super) fn flush(&mut self, to: &mut impl Write) -> io::Result<Flushed> {
        let mut out = 0;
        while self.len > 0 {
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

    fn write_once(&self, to: &mut impl Write) -> (io::Result<usize>, usize) {
        let first = self.pieces.front().map(|piece| &piece[self.written..]).unwrap_or_default();
        if first.len() == self.len {
            return (to.write(first), first.len());
        }
        let mut slices = [IoSlice::new(&[]); SLICES_MAX];
        let mut offered = 0;
        let rest = self.pieces.iter().skip(1).map(Vec::as_slice);
        for (slice, piece) in slices.iter_mut().zip(std::iter::once(first).chain(rest)) {
            *slice = IoSlice::new(piece);
            offered += piece.len();
        }
        let count = self.pieces.len().min(SLICES_MAX);
        (to.write_vectored(&slices[..count]), offered)
    }

    fn advance(&mut self, count: usize) {
        debug_assert!(count <= self.len, "wrote {count} of {} bytes", self.len);
        self.len -= count;
        self.written += count;
        let mut pieces_left = self.pieces.len();
        while let Some(first) = self.pieces.front_mut() {
            if self.written < first.len() {
                return;
            }
            self.written -= first.len();
            pieces_left -= 1;
            if pieces_left == 0 && first.capacity() <= SPARE_BYTES_MAX {
                // Kept for the next response on this connection.
                first.clear();
                return;
            }
            self.pieces.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Takes `room` bytes in all, at most `step` in one call.
    struct Narrow {
        taken: Vec<u8>,
        room: usize,
        step: usize,
    }

    impl Write for Narrow {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let count = bytes.len().min(self.step).min(self.room - self.taken.len());
            if count == 0 {
                return Err(io::ErrorKind::WouldBlock.into());
            }
            self.taken.extend_from_slice(&bytes[..count]);
            Ok(count)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
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
}
