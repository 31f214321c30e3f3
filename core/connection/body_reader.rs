//! The reader of a request body, for both protocols: decodes its framing, keeps it in memory while it is short, and hands
//! longer ones over piece by piece for the spool.
//!
//! ```text
//!   Open ──piece──▶ Spooling ──written──▶ Open
//!    ▲                 └──refused──▶ Starved ──retry──▶ Open
//! ```

use crate::http::{BodyDecoder, BodyError};
use crate::limits::BODY_MEMORY_MAX;
use crate::pool::Body;
use crate::spool::{SpoolError, SpoolFile};

/// A body that is being read, or discarded.
#[derive(Debug)]
pub(super) struct BodyReader {
    decoder: BodyDecoder,
    memory: Vec<u8>,
    file: Option<SpoolFile>,
    state: ReaderState,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ReaderState {
    /// Accepts bytes.
    Open,
    /// A piece, and the file with it, is being spooled.
    Spooling,
    /// The spool had no room for the piece.
    Starved,
}

/// What a body needs next.
#[derive(Debug)]
pub(super) enum BodyStep {
    /// More bytes from the client.
    Bytes,
    /// Nothing: the body is complete.
    Nothing(Body),
    /// Room in the spool.
    Room,
    /// Append these bytes to this file, or to a new one.
    Spool(Option<SpoolFile>, Vec<u8>),
    /// The result of the pending write.
    Disk,
}

impl BodyReader {
    /// Starts before the first byte that `decoder` expects.
    pub(super) fn new(decoder: BodyDecoder) -> Self {
        Self { decoder, memory: Vec::new(), file: None, state: ReaderState::Open }
    }

    /// Returns the number of bytes that it has not decoded yet, if the framing announces it.
    pub(super) fn remaining(&self) -> Option<u64> {
        self.decoder.remaining()
    }

    /// Returns whether the whole body has been received.
    pub(super) fn is_read(&self) -> bool {
        self.decoder.is_done()
    }

    /// Returns whether the spool has no room for the pending piece.
    pub(super) fn is_starved(&self) -> bool {
        self.state == ReaderState::Starved
    }

    /// Returns whether a piece is being spooled.
    pub(super) fn is_spooling(&self) -> bool {
        self.state == ReaderState::Spooling
    }

    /// Consumes body bytes from the front of `input`; returns the bytes consumed and the body bytes decoded from them.
    ///
    /// # Errors
    ///
    /// If the coding is malformed or the body too long.
    pub(super) fn take(&mut self, input: &[u8]) -> Result<(usize, usize), BodyError> {
        debug_assert!(self.state == ReaderState::Open, "bytes taken while {:?}", self.state);
        let before = self.memory.len();
        // Restored on errors, so that `discard` can continue behind a body that is too long.
        let decoder = self.decoder.clone();
        let progress = match self.decoder.decode(input, &mut self.memory) {
            Ok(progress) => progress,
            Err(error) => {
                self.decoder = decoder;
                return Err(error);
            }
        };
        Ok((progress.consumed, self.memory.len() - before))
    }

    /// Consumes and drops body bytes from the front of `input`; returns the same as [`take`](Self::take).
    ///
    /// # Errors
    ///
    /// As `take`.
    pub(super) fn discard(&mut self, input: &[u8]) -> Result<(usize, usize), BodyError> {
        let taken = self.take(input);
        self.memory.clear();
        taken
    }

    /// Turns into a reader for a body that is not needed; its bytes must be [`discard`](Self::discard)ed.
    #[must_use]
    pub(super) fn unwanted(self) -> Self {
        Self::new(self.decoder.without_limit())
    }

    /// Records the end of the body, in a protocol that signals it separately.
    pub(super) fn end(&mut self) {
        self.decoder.end();
    }

    /// Returns the next step, and hands over the piece or the body with it.
    pub(super) fn next(&mut self) -> BodyStep {
        match self.state {
            ReaderState::Spooling => return BodyStep::Disk,
            ReaderState::Starved => return BodyStep::Room,
            ReaderState::Open => {}
        }
        let done = self.decoder.is_done();
        let to_disk = self.memory.len() > BODY_MEMORY_MAX || (done && self.file.is_some());
        if to_disk && !self.memory.is_empty() {
            self.state = ReaderState::Spooling;
            return BodyStep::Spool(self.file.take(), std::mem::take(&mut self.memory));
        }
        if !done {
            return BodyStep::Bytes;
        }
        BodyStep::Nothing(match self.file.take() {
            Some(file) => Body::Spooled(file),
            None if self.memory.is_empty() => Body::Empty,
            None => Body::Memory(std::mem::take(&mut self.memory)),
        })
    }

    /// Takes the file and the buffer back after a piece was written.
    pub(super) fn spooled(&mut self, file: SpoolFile, mut buffer: Vec<u8>) {
        buffer.clear();
        self.file = Some(file);
        self.memory = buffer;
        self.state = ReaderState::Open;
    }

    /// Takes a refused piece back; returns whether a retry may succeed because the spool is only full for now.
    pub(super) fn refused(&mut self, file: Option<SpoolFile>, bytes: Vec<u8>, error: &SpoolError) -> bool {
        self.file = file;
        self.memory = bytes;
        self.state = ReaderState::Starved;
        matches!(error, SpoolError::Full)
    }

    /// Allows another attempt to spool the piece.
    pub(super) fn retry(&mut self) {
        if self.state == ReaderState::Starved {
            self.state = ReaderState::Open;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::BodyFraming;
    use crate::spool::Spool;

    fn body_reader(length: u64) -> BodyReader {
        BodyReader::new(BodyDecoder::new(BodyFraming::Length(length), 1 << 30).unwrap())
    }

    #[test]
    fn a_short_body_stays_in_memory() {
        let mut body_reader = body_reader(5);
        assert!(matches!(body_reader.next(), BodyStep::Bytes));
        assert_eq!(body_reader.take(b"helloGET ").unwrap(), (5, 5));
        assert!(matches!(body_reader.next(), BodyStep::Nothing(Body::Memory(bytes)) if bytes == b"hello"));
    }

    #[test]
    fn a_long_body_goes_to_disk_in_pieces_and_whole() {
        let spool = Spool::new(std::env::temp_dir(), 1 << 20);
        let length = BODY_MEMORY_MAX + 10;
        let mut body_reader = body_reader(length as u64 + 7);
        body_reader.take(&vec![1; length]).unwrap();
        let BodyStep::Spool(None, bytes) = body_reader.next() else { panic!("not spooled") };
        assert_eq!(bytes.len(), length);
        assert!(matches!(body_reader.next(), BodyStep::Disk));
        let file = spool.create().unwrap();
        file.append(&bytes).unwrap();
        body_reader.spooled(file, bytes);
        assert!(matches!(body_reader.next(), BodyStep::Bytes));
        body_reader.take(&[2; 7]).unwrap();
        let BodyStep::Spool(Some(file), bytes) = body_reader.next() else {
            panic!("the rest stays in memory")
        };
        file.append(&bytes).unwrap();
        body_reader.spooled(file, bytes);
        assert!(
            matches!(body_reader.next(), BodyStep::Nothing(Body::Spooled(file)) if file.len() == length as u64 + 7)
        );
    }

    #[test]
    fn a_refused_piece_is_offered_again() {
        let mut body_reader = body_reader(1 << 20);
        body_reader.take(&vec![1; BODY_MEMORY_MAX + 1]).unwrap();
        let BodyStep::Spool(file, bytes) = body_reader.next() else { panic!("not spooled") };
        assert!(body_reader.refused(file, bytes, &SpoolError::Full));
        assert!(matches!(body_reader.next(), BodyStep::Room));
        body_reader.retry();
        assert!(
            matches!(body_reader.next(), BodyStep::Spool(None, bytes) if bytes.len() == BODY_MEMORY_MAX + 1)
        );
    }
}
