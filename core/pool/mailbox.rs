//! The parts of a reply on their way from a worker to the io thread.
//!
//! Promises: parts arrive in order; what waits in memory stays below [`REPLY_MEMORY_MAX`] plus one part, the rest
//! waits in a spool file; a worker sleeps only when the spool budget is used up too, and wakes when the reader made
//! room or left. Refuses: it does not decide who may answer; the exchange does.

use std::collections::VecDeque;

use crate::http::Fields;
use crate::limits::{REPLY_GATHER_MAX, REPLY_MEMORY_MAX};
use crate::spool::{Spool, SpoolError, SpoolFile};
use crate::sync::lock::ShortLock;
use crate::sync::park::Bell;
use crate::sync::primitive::Arc;

/// One step of a reply, in order: interim heads, the head, data, the end.
#[derive(Debug)]
pub enum Part {
    /// An informational response (103), sent at once.
    Interim(u16, Fields),
    /// Status and fields of the final response.
    Head(ReplyHead),
    /// Bytes of the body.
    Data(Vec<u8>),
    /// Bytes of the body that wait on disk.
    Spooled(SpooledPart),
    /// The last part.
    End(End),
}

/// A run of reply bytes in a spool file. The disk space is free again when all runs of its file are dropped.
#[derive(Clone, Debug)]
pub struct SpooledPart {
    /// The file, to be read by a thread that may wait for a disk.
    pub file: Arc<SpoolFile>,
    /// Where the run starts.
    pub offset: u64,
    /// The number of bytes in the run.
    pub len: u64,
}

impl SpooledPart {
    fn is_followed_by(&self, next: &Self) -> bool {
        Arc::ptr_eq(&self.file, &next.file) && self.offset + self.len == next.offset
    }
}

/// Status and fields of a final response.
#[derive(Debug)]
pub struct ReplyHead {
    /// The status code, 200 to 999.
    pub status: u16,
    /// A reason phrase of the script's own.
    pub reason: Option<Vec<u8>>,
    /// The fields, without hop-by-hop ones and without `Content-Length`.
    pub fields: Fields,
    /// The length that the script announced, or that the worker knows because the reply is complete.
    pub content_length: Option<u64>,
    /// Who made the reply.
    pub origin: Origin,
}

/// Who made a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// The script, by running to its end or by sending output.
    Script,
    /// The server, without asking a script.
    Server,
    /// The server, because the script ended in a fatal error before it had sent anything.
    Fatal,
    /// The server, because the script reached its time limit before it had sent anything.
    TimeLimit,
    /// The server, because the worker thread was lost.
    WorkerLost,
}

/// How a reply ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// All of it is there.
    Complete,
    /// It broke off after its head had gone out; the client must be able to tell.
    Broken,
}

/// The reader has left; nothing more can be said to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Closed;

/// The mailbox of one exchange: one writer (its worker), one reader (its io thread).
#[derive(Debug)]
pub struct Mailbox {
    /// Short: sections move a few words in or out; the spool file is written outside of it.
    inner: ShortLock<Inner>,
    /// Rung when the reader took something or left.
    room: Bell,
    spool: Spool,
}

#[derive(Debug, Default)]
struct Inner {
    parts: VecDeque<Part>,
    memory_bytes: usize,
    /// The file that the writer appends to; a new one is begun when it is long.
    spool_file: Option<Arc<SpoolFile>>,
    /// The reader has been told of parts that it has not collected yet.
    told: bool,
    closed: bool,
}

impl Mailbox {
    /// Makes an empty mailbox that spools to `spool`.
    pub fn new(spool: Spool) -> Self {
        Self { inner: ShortLock::default(), room: Bell::new(), spool }
    }

    /// Adds parts; returns whether the reader has to be told.
    ///
    /// # Errors
    ///
    /// [`Closed`] when the reader left.
    pub fn put(&self, parts: impl IntoIterator<Item = Part>) -> Result<bool, Closed> {
        let mut inner = self.inner.lock();
        if inner.closed {
            return Err(Closed);
        }
        for part in parts {
            if let Part::Data(bytes) = &part {
                inner.memory_bytes += bytes.len();
            }
            inner.parts.push_back(part);
        }
        Ok(!std::mem::replace(&mut inner.told, true))
    }

    /// Adds body bytes: in memory while there is room, else on disk, else when the reader made room. May wait for
    /// the disk, and without limit for the reader; a reader that leaves ends the wait.
    ///
    /// # Errors
    ///
    /// [`Closed`] when the reader left.
    pub fn put_data(&self, bytes: Vec<u8>) -> Result<bool, Closed> {
        loop {
            if self.has_room()? {
                return self.put([Part::Data(bytes)]);
            }
            if let Ok(part) = self.spooled(&bytes) {
                return self.put_spooled(part);
            }
            let ticket = self.room.ticket();
            if self.has_room()? {
                self.room.cancel(ticket);
            } else {
                self.room.sleep(&ticket);
            }
        }
    }

    /// Whether body bytes would have to wait for the reader, as far as one can tell: others use the spool too.
    pub fn is_crowded(&self) -> bool {
        matches!(self.has_room(), Ok(false)) && !self.spool.has_room_for(REPLY_GATHER_MAX as u64)
    }

    /// Takes all parts that are there, in order.
    pub fn collect(&self, into: &mut VecDeque<Part>) {
        let mut inner = self.inner.lock();
        inner.told = false;
        inner.memory_bytes = 0;
        into.append(&mut inner.parts);
        drop(inner);
        self.room.notify_one();
    }

    /// The reader leaves: what is there is dropped, a waiting writer wakes.
    pub fn close(&self) {
        let mut inner = self.inner.lock();
        inner.closed = true;
        inner.spool_file = None;
        let parts = std::mem::take(&mut inner.parts);
        inner.memory_bytes = 0;
        drop(inner);
        drop(parts);
        self.room.notify_all();
    }

    /// Whether the reader has left.
    pub fn is_closed(&self) -> bool {
        self.inner.lock().closed
    }

    fn has_room(&self) -> Result<bool, Closed> {
        let inner = self.inner.lock();
        if inner.closed { Err(Closed) } else { Ok(inner.memory_bytes < REPLY_MEMORY_MAX) }
    }

    /// Writes `bytes` to the spool file. Only the writer calls it, so the file has one appender.
    fn spooled(&self, bytes: &[u8]) -> Result<SpooledPart, SpoolError> {
        let current = self.inner.lock().spool_file.clone();
        let file = match current {
            Some(file) if file.len() < SPOOL_FILE_BYTES => file,
            _ => Arc::new(self.spool.create()?),
        };
        let offset = file.len();
        file.append(bytes)?;
        Ok(SpooledPart { file, offset, len: bytes.len() as u64 })
    }

    fn put_spooled(&self, part: SpooledPart) -> Result<bool, Closed> {
        let mut inner = self.inner.lock();
        if inner.closed {
            return Err(Closed);
        }
        inner.spool_file = Some(Arc::clone(&part.file));
        match inner.parts.back_mut() {
            Some(Part::Spooled(last)) if last.is_followed_by(&part) => last.len += part.len,
            _ => inner.parts.push_back(Part::Spooled(part)),
        }
        Ok(!std::mem::replace(&mut inner.told, true))
    }
}

/// A spool file is followed by a new one when it is this long, so that what was read comes free.
const SPOOL_FILE_BYTES: u64 = 8 * 1024 * 1024;

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn mailbox(spool_bytes_max: u64) -> Mailbox {
        Mailbox::new(Spool::new(std::env::temp_dir(), spool_bytes_max))
    }

    fn collected(mailbox: &Mailbox) -> VecDeque<Part> {
        let mut parts = VecDeque::new();
        mailbox.collect(&mut parts);
        parts
    }

    #[test]
    fn the_reader_is_told_once_until_it_collects() {
        let mailbox = mailbox(0);
        assert_eq!(mailbox.put_data(vec![1]), Ok(true));
        assert_eq!(mailbox.put_data(vec![2]), Ok(false));
        assert_eq!(collected(&mailbox).len(), 2);
        assert_eq!(mailbox.put([Part::End(End::Complete)]), Ok(true));
    }

    #[test]
    fn what_memory_does_not_hold_waits_on_disk_in_one_run() {
        let mailbox = mailbox(1 << 20);
        mailbox.put_data(vec![0; REPLY_MEMORY_MAX]).unwrap();
        mailbox.put_data(b"abc".to_vec()).unwrap();
        mailbox.put_data(b"def".to_vec()).unwrap();
        let parts = collected(&mailbox);
        let [Part::Data(_), Part::Spooled(run)] = parts.iter().collect::<Vec<_>>()[..] else {
            panic!("expected data and one spooled run, got {parts:?}");
        };
        let mut bytes = [0; 8];
        assert_eq!(run.len, 6);
        assert_eq!(run.file.read_at(&mut bytes, run.offset).unwrap(), 6);
        assert_eq!(&bytes[..6], b"abcdef");
    }

    #[test]
    fn a_collected_run_gives_its_bytes_back() {
        let spool = Spool::new(std::env::temp_dir(), 1 << 20);
        let mailbox = Mailbox::new(spool.clone());
        mailbox.put_data(vec![0; REPLY_MEMORY_MAX]).unwrap();
        mailbox.put_data(vec![0; 1000]).unwrap();
        assert_eq!(spool.bytes(), 1000);
        drop(collected(&mailbox));
        drop(mailbox);
        assert_eq!(spool.bytes(), 0);
    }

    #[test]
    fn a_writer_can_look_before_it_would_wait() {
        let mailbox = mailbox(0);
        assert!(!mailbox.is_crowded());
        mailbox.put_data(vec![0; REPLY_MEMORY_MAX]).unwrap();
        assert!(mailbox.is_crowded());
        assert_eq!(collected(&mailbox).len(), 1);
        assert!(!mailbox.is_crowded());
        mailbox.put_data(vec![0; REPLY_MEMORY_MAX]).unwrap();
        mailbox.close();
        assert!(!mailbox.is_crowded(), "nobody waits for a reader that left");
    }

    #[test]
    fn a_writer_without_room_waits_for_the_reader() {
        let mailbox = mailbox(0);
        mailbox.put_data(vec![0; REPLY_MEMORY_MAX]).unwrap();
        std::thread::scope(|scope| {
            let writer = scope.spawn(|| mailbox.put_data(b"late".to_vec()));
            assert_eq!(collected(&mailbox).len(), 1);
            writer.join().unwrap().unwrap();
        });
        assert!(matches!(&collected(&mailbox)[0], Part::Data(bytes) if bytes == b"late"));
    }

    #[test]
    fn a_writer_without_room_wakes_when_the_reader_leaves() {
        let mailbox = mailbox(0);
        mailbox.put_data(vec![0; REPLY_MEMORY_MAX]).unwrap();
        std::thread::scope(|scope| {
            let writer = scope.spawn(|| mailbox.put_data(b"late".to_vec()));
            mailbox.close();
            assert_eq!(writer.join().unwrap(), Err(Closed));
        });
        assert_eq!(mailbox.put([Part::End(End::Complete)]), Err(Closed));
    }
}
