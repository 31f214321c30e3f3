//! A request body on its way in: decoded, kept in memory while it is short, then on disk.
//!
//! Promises: memory holds little more than [`BODY_MEMORY_MAX`]; while a piece is on its way to the disk no more is
//! taken. Refuses: it reads no socket and waits for no disk; it says what is needed next.

use crate::http::{BodyDecoder, BodyError};
use crate::limits::BODY_MEMORY_MAX;
use crate::pool::Body;
use crate::spool::{SpoolError, SpoolFile};

/// A body that is being read.
#[derive(Debug)]
pub(super) struct BodyReader {
    decoder: BodyDecoder,
    memory: Vec<u8>,
    file: Option<SpoolFile>,
    state: ReaderState,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ReaderState {
    /// Bytes may be taken.
    Open,
    /// The file is away, taking a piece.
    Spooling,
    /// The spool had no room for the piece.
    Starved,
}

/// What a body needs next.
#[derive(Debug)]
pub(super) enum BodyStep {
    /// More bytes from the client.
    Bytes,
    /// The body is complete.
    Nothing(Body),
    /// Room in the spool.
    Room,
    /// These bytes at the end of this file (a new one if there is none).
    Spool(Option<SpoolFile>, Vec<u8>),
    /// The answer of the disk.
    Disk,
}

impl BodyReader {
    /// Starts before the first byte that `decoder` expects.
    pub(super) fn new(decoder: BodyDecoder) -> Self {
        Self { decoder, memory: Vec::new(), file: None, state: ReaderState::Open }
    }

    /// Whether the client owes no more bytes.
    pub(super) fn is_read(&self) -> bool {
        self.decoder.is_done()
    }

    /// Whether the spool has no room for what came.
    pub(super) fn is_starved(&self) -> bool {
        self.state == ReaderState::Starved
    }

    /// Whether a piece is on its way to the disk.
    pub(super) fn is_spooling(&self) -> bool {
        self.state == ReaderState::Spooling
    }

    /// Takes the body's bytes from the front of `input`; returns how many bytes of `input` those were and how many
    /// body bytes they held.
    ///
    /// # Errors
    ///
    /// When the coding is malformed or the body too long.
    pub(super) fn take(&mut self, input: &[u8]) -> Result<(usize, usize), BodyError> {
        debug_assert!(self.state == ReaderState::Open, "bytes taken while {:?}", self.state);
        let before = self.memory.len();
        // The coding goes on from here if what came is too long and is thrown away.
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

    /// Takes the body's bytes from the front of `input` and forgets them; returns as [`take`](Self::take) does.
    ///
    /// # Errors
    ///
    /// As `take`.
    pub(super) fn discard(&mut self, input: &[u8]) -> Result<(usize, usize), BodyError> {
        let taken = self.take(input);
        self.memory.clear();
        taken
    }

    /// Nobody needs the body: what is to come of it is to be [`discard`](Self::discard)ed.
    #[must_use]
    pub(super) fn unwanted(self) -> Self {
        Self::new(self.decoder.without_limit())
    }

    /// The client has sent all of it, in a protocol that tells so by itself.
    pub(super) fn end(&mut self) {
        self.decoder.end();
    }

    /// Says what is needed next, and changes hands accordingly.
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

    /// The piece is on disk; its buffer comes back.
    pub(super) fn spooled(&mut self, file: SpoolFile, mut buffer: Vec<u8>) {
        buffer.clear();
        self.file = Some(file);
        self.memory = buffer;
        self.state = ReaderState::Open;
    }

    /// The piece was refused and comes back; returns whether there is hope (the spool is full for now).
    pub(super) fn refused(&mut self, file: Option<SpoolFile>, bytes: Vec<u8>, error: &SpoolError) -> bool {
        self.file = file;
        self.memory = bytes;
        self.state = ReaderState::Starved;
        matches!(error, SpoolError::Full)
    }

    /// There may be room in the spool again.
    pub(super) fn retry(&mut self) {
        if self.state == ReaderState::Starved {
            self.state = ReaderState::Open;
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::http::BodyFraming;
    use crate::spool::Spool;

    use super::*;

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
