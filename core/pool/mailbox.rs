//! The parts of a response on their way from a worker to the I/O thread.
//!
//! Parts arrive in order. Parts in memory stay below [`RESPONSE_MEMORY_MAX`] plus one piece, and within the budget of all
//! responses; the rest waits in a spool file. A worker sleeps only if the budget of spool files is used up too and its
//! reader has something to read; it wakes when the reader collects or leaves, or when another thread ends the response. The
//! mailbox does not decide which side answers; the exchange does.

use std::collections::VecDeque;

use crate::limits::{RESPONSE_GATHER_MAX, RESPONSE_MEMORY_MAX, RESPONSE_PIECE_MAX};
use crate::spool::{Share, Spool, SpoolError, SpoolFile};
use crate::sync::event_count::EventCount;
use crate::sync::lock::ShortLock;
use crate::sync::primitive::{Arc, RawGuard};

use super::response_part::{Part, ResponseBatch, SpooledPart};

/// The mailbox accepts no more parts: the reader has left, or the response was ended on the writer's behalf.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Closed;

/// Whether the reader must be notified of parts that were added.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReaderNotice {
    /// The reader must be notified.
    Due,
    /// The reader was notified before, and has not collected since.
    Pending,
}

/// The result of an attempt to add parts.
enum Attempt {
    /// Parts were added.
    Added(ReaderNotice),
    /// There is no room in memory.
    NoRoom,
}

/// The mailbox of one exchange. It has one writer, the worker, and one reader, the I/O thread.
#[derive(Debug)]
pub struct Mailbox {
    /// Held only to move a few words in or out. The spool file is written outside of the lock.
    inner: ShortLock<MailboxInner>,
    /// Notified when the reader collects or leaves.
    room: EventCount,
    spool: Spool,
}

#[derive(Debug, Default)]
struct MailboxInner {
    parts: VecDeque<Part>,
    memory_bytes: usize,
    /// The share of these parts in the memory of all responses.
    share: Share,
    /// The file that the writer appends to, until it is long enough to be followed by a new one.
    spool_file: Option<Arc<SpoolFile>>,
    /// Whether the reader was notified about parts that it has not collected.
    is_notified: bool,
    closed: bool,
    /// Whether a head was added.
    has_head: bool,
    /// Whether another thread has ended the response.
    cut: bool,
}

impl Mailbox {
    /// Makes an empty mailbox that spools to `spool`.
    pub fn new(spool: Spool) -> Self {
        Self { inner: ShortLock::default(), room: EventCount::new(), spool }
    }

    /// Adds a part that is not data.
    ///
    /// # Errors
    ///
    /// [`Closed`] if the mailbox accepts no more parts.
    pub fn put(&self, part: Part) -> Result<ReaderNotice, Closed> {
        debug_assert!(!matches!(part, Part::Data(_) | Part::Spooled(_)), "data has to be counted");
        let mut inner = self.open()?;
        inner.parts.push_back(part);
        Ok(inner.notice())
    }

    /// Adds as much of `delivery` as there is room for: in memory, else on disk, else when the reader makes room. May
    /// wait for the disk, and for the reader without limit; a reader that leaves ends the wait. A notice that is due must
    /// be given before the rest is delivered.
    ///
    /// # Errors
    ///
    /// [`Closed`] if the mailbox accepts no more parts.
    pub fn deliver(&self, delivery: &mut ResponseBatch) -> Result<ReaderNotice, Closed> {
        loop {
            if let Attempt::Added(notice) = self.put_all(delivery)? {
                return Ok(notice);
            }
            if let Ok(part) = self.spooled(delivery.rest()) {
                return self.put_spooled(part, delivery);
            }
            let ticket = self.room.prepare_wait();
            match self.put_slice(delivery) {
                Ok(Attempt::NoRoom) => self.room.wait(&ticket),
                Ok(Attempt::Added(notice)) => {
                    self.room.cancel_wait(ticket);
                    return Ok(notice);
                }
                Err(closed) => {
                    self.room.cancel_wait(ticket);
                    return Err(closed);
                }
            }
        }
    }

    /// Returns whether body bytes would probably have to wait for the reader. Other responses use the same budgets.
    pub fn is_full(&self) -> bool {
        let Ok(inner) = self.open() else { return false };
        let piece = RESPONSE_GATHER_MAX as u64;
        let has_memory = inner.memory_bytes < RESPONSE_MEMORY_MAX && self.spool.has_memory_for(piece);
        inner.memory_bytes > 0 && !has_memory && !self.spool.has_room_for(piece)
    }

    /// Takes all parts that are ready, in order, with their share of the memory of all responses.
    pub fn collect(&self, into: &mut VecDeque<Part>) -> Share {
        let mut inner = self.inner.lock();
        inner.is_notified = false;
        inner.memory_bytes = 0;
        if into.is_empty() {
            // Reuses the allocation; usually, all parts of a response are collected at once.
            std::mem::swap(into, &mut inner.parts);
        } else {
            into.append(&mut inner.parts);
        }
        let share = std::mem::take(&mut inner.share);
        drop(inner);
        self.room.notify_one();
        share
    }

    /// Closes the mailbox for the reader: drops parts that are ready, and wakes a waiting writer.
    pub fn close(&self) {
        let mut inner = self.inner.lock();
        inner.closed = true;
        inner.spool_file = None;
        let (parts, share) = (std::mem::take(&mut inner.parts), std::mem::take(&mut inner.share));
        inner.memory_bytes = 0;
        drop(inner);
        drop((parts, share));
        self.room.notify_all();
    }

    /// Ends the response on the writer's behalf with the result of `answer`; the argument of `answer` is whether the head
    /// was sent. The writer can add no parts afterwards. Returns `None` if `answer` did, or if the mailbox accepts no more
    /// parts.
    pub fn cut(&self, answer: impl FnOnce(bool) -> Option<ResponseBatch>) -> Option<ReaderNotice> {
        let mut inner = self.open().ok()?;
        let mut delivery = answer(inner.has_head)?;
        debug_assert!(delivery.rest().is_empty(), "data has to be counted");
        inner.push(&mut delivery, Vec::new());
        inner.cut = true;
        let notice = inner.notice();
        drop(inner);
        self.room.notify_all();
        Some(notice)
    }

    /// Returns whether the reader has left.
    pub fn is_closed(&self) -> bool {
        self.inner.lock().closed
    }

    fn open(&self) -> Result<RawGuard<'_, MailboxInner>, Closed> {
        let inner = self.inner.lock();
        if inner.closed || inner.cut { Err(Closed) } else { Ok(inner) }
    }

    /// Adds all of `delivery` if there is room for its bytes in memory.
    fn put_all(&self, delivery: &mut ResponseBatch) -> Result<Attempt, Closed> {
        let mut inner = self.open()?;
        let len = delivery.rest().len();
        let has_room = len == 0
            || (inner.memory_bytes < RESPONSE_MEMORY_MAX
                && len <= RESPONSE_PIECE_MAX
                && inner.share.try_take(&self.spool, len as u64));
        if !has_room {
            return Ok(Attempt::NoRoom);
        }
        let bytes = delivery.take_rest();
        inner.push(delivery, bytes);
        Ok(Attempt::Added(inner.notice()))
    }

    /// Adds a few bytes regardless of the budgets, unless the reader already has bytes to read.
    fn put_slice(&self, delivery: &mut ResponseBatch) -> Result<Attempt, Closed> {
        let mut inner = self.open()?;
        if inner.memory_bytes > 0 {
            return Ok(Attempt::NoRoom);
        }
        let bytes = delivery.take_slice(2 * RESPONSE_GATHER_MAX);
        inner.share.take(&self.spool, bytes.len() as u64);
        inner.push(delivery, bytes);
        Ok(Attempt::Added(inner.notice()))
    }

    /// Writes `bytes` to the spool file. Only the writer calls it, so that the file has a single appender.
    fn spooled(&self, bytes: &[u8]) -> Result<SpooledPart, SpoolError> {
        if !self.spool.has_room_for(bytes.len() as u64) {
            return Err(SpoolError::Full);
        }
        let current = self.inner.lock().spool_file.clone();
        let file = match current {
            Some(file) if file.len() < SPOOL_FILE_BYTES => file,
            _ => Arc::new(self.spool.create()?),
        };
        let offset = file.len();
        file.append(bytes)?;
        Ok(SpooledPart { file, offset, len: bytes.len() as u64 })
    }

    fn put_spooled(&self, part: SpooledPart, delivery: &mut ResponseBatch) -> Result<ReaderNotice, Closed> {
        let mut inner = self.open()?;
        drop(delivery.take_rest());
        inner.spool_file = Some(Arc::clone(&part.file));
        inner.push_head(delivery);
        match inner.parts.back_mut() {
            Some(Part::Spooled(last)) if last.is_followed_by(&part) => last.len += part.len,
            _ => inner.parts.push_back(Part::Spooled(part)),
        }
        inner.parts.extend(delivery.end.take().map(Part::End));
        Ok(inner.notice())
    }
}

impl MailboxInner {
    /// Adds `bytes`, whose share was taken, and the head and the end of `delivery`.
    fn push(&mut self, delivery: &mut ResponseBatch, bytes: Vec<u8>) {
        self.memory_bytes += bytes.len();
        self.push_head(delivery);
        if !bytes.is_empty() {
            self.parts.push_back(Part::Data(bytes));
        }
        if delivery.rest().is_empty() {
            self.parts.extend(delivery.end.take().map(Part::End));
        }
    }

    fn push_head(&mut self, delivery: &mut ResponseBatch) {
        self.has_head |= delivery.head.is_some();
        self.parts.extend(delivery.head.take().map(Part::Head));
    }

    /// Returns whether the reader must be notified, which the caller then does.
    fn notice(&mut self) -> ReaderNotice {
        if std::mem::replace(&mut self.is_notified, true) { ReaderNotice::Pending } else { ReaderNotice::Due }
    }
}

/// The length at which a spool file is followed by a new one, so that the space of collected parts is freed.
const SPOOL_FILE_BYTES: u64 = 8 * 1024 * 1024;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::Fields;
    use crate::pool::{End, Origin, ResponseHead};

    fn mailbox(spool_bytes_max: u64) -> Mailbox {
        Mailbox::new(Spool::new(std::env::temp_dir(), spool_bytes_max))
    }

    fn put_data(mailbox: &Mailbox, bytes: Vec<u8>) -> Result<ReaderNotice, Closed> {
        mailbox.deliver(&mut ResponseBatch::of(bytes))
    }

    fn collected(mailbox: &Mailbox) -> VecDeque<Part> {
        let mut parts = VecDeque::new();
        mailbox.collect(&mut parts);
        parts
    }

    #[test]
    fn the_reader_is_notified_once_until_it_collects() {
        let mailbox = mailbox(0);
        assert_eq!(put_data(&mailbox, vec![1]), Ok(ReaderNotice::Due));
        assert_eq!(put_data(&mailbox, vec![2]), Ok(ReaderNotice::Pending));
        assert_eq!(collected(&mailbox).len(), 2);
        assert_eq!(mailbox.put(Part::End(End::Complete)), Ok(ReaderNotice::Due));
    }

    fn plain(status: u16) -> ResponseHead {
        let (fields, origin) = (Fields::new(), Origin::Script);
        ResponseHead { status, fields, ..ResponseHead::bare(origin) }
    }

    #[test]
    fn a_response_that_was_cut_takes_nothing_more() {
        let mailbox = mailbox(0);
        mailbox.deliver(&mut ResponseBatch::of(vec![1]).after(plain(200))).unwrap();
        assert_eq!(mailbox.cut(|_| None), None, "an empty answer changes nothing");
        put_data(&mailbox, vec![2]).unwrap();
        let cut = mailbox.cut(|has_head| {
            assert!(has_head);
            Some(ResponseBatch::default().before(End::Broken))
        });
        assert_eq!(cut, Some(ReaderNotice::Pending), "the reader has been notified already");
        assert_eq!(put_data(&mailbox, vec![3]), Err(Closed));
        assert_eq!(mailbox.put(Part::End(End::Complete)), Err(Closed));
        let parts = collected(&mailbox);
        assert_eq!(parts.len(), 4, "{parts:?}");
        assert!(matches!(parts.back(), Some(Part::End(End::Broken))));
        assert_eq!(mailbox.cut(|_| Some(ResponseBatch::default())), None, "once");
    }

    #[test]
    fn a_cut_wakes_a_writer_that_waits_for_room() {
        let mailbox = Arc::new(mailbox(0));
        put_data(&mailbox, vec![0; RESPONSE_MEMORY_MAX]).unwrap();
        let writer = std::thread::spawn({
            let mailbox = Arc::clone(&mailbox);
            move || put_data(&mailbox, vec![1; RESPONSE_PIECE_MAX])
        });
        mailbox.cut(|_| Some(ResponseBatch::default().before(End::Broken))).unwrap();
        assert_eq!(writer.join().unwrap(), Err(Closed));
    }

    #[test]
    fn output_beyond_memory_waits_on_disk_in_one_run() {
        let mailbox = mailbox(1 << 20);
        put_data(&mailbox, vec![0; RESPONSE_MEMORY_MAX]).unwrap();
        put_data(&mailbox, b"abc".to_vec()).unwrap();
        put_data(&mailbox, b"def".to_vec()).unwrap();
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
    fn the_memory_of_all_responses_bounds_each() {
        let spool = Spool::with_memory(std::env::temp_dir(), 1 << 20, 100_000);
        let (one, other) = (Mailbox::new(spool.clone()), Mailbox::new(spool.clone()));
        put_data(&one, vec![0; 90_000]).unwrap();
        put_data(&other, vec![0; 90_000]).unwrap();
        put_data(&other, vec![0; 1000]).unwrap();
        assert_eq!(spool.bytes(), 90_000, "a few bytes are kept in any case");
        let mut parts = VecDeque::new();
        let share = one.collect(&mut parts);
        put_data(&other, vec![0; 90_000]).unwrap();
        assert_eq!(spool.bytes(), 180_000, "what was collected is still held");
        drop(share);
        put_data(&other, vec![0; 80_000]).unwrap();
        assert_eq!(spool.bytes(), 180_000);
        other.close();
        assert_eq!((spool.bytes(), spool.memory_bytes()), (0, 0));
    }

    #[test]
    fn a_long_piece_waits_on_disk() {
        let mailbox = mailbox(1 << 30);
        put_data(&mailbox, vec![0; RESPONSE_PIECE_MAX + 1]).unwrap();
        assert!(matches!(collected(&mailbox)[0], Part::Spooled(_)));
    }

    #[test]
    fn with_no_room_at_all_a_response_goes_on_slice_by_slice_as_it_is_read() {
        let mailbox = Mailbox::new(Spool::with_memory(std::env::temp_dir(), 0, 0));
        let head = ResponseHead::bare(Origin::Script);
        let bytes: Vec<u8> = (0..300_000u32).map(|place| place.to_le_bytes()[0]).collect();
        let mut delivery = ResponseBatch::of(bytes.clone()).after(head).before(End::Complete);
        let (mut read, mut slices) = (Vec::new(), 0);
        while !delivery.is_done() {
            assert_eq!(mailbox.deliver(&mut delivery), Ok(ReaderNotice::Due));
            for part in collected(&mailbox) {
                match part {
                    Part::Head(_) => assert!(read.is_empty()),
                    Part::Data(data) => {
                        slices += 1;
                        read.extend_from_slice(&data);
                    }
                    Part::End(_) => assert!(delivery.is_done()),
                    part => panic!("unexpected {part:?}"),
                }
            }
        }
        assert!(read == bytes && slices == 3, "{slices} slices");
    }

    #[test]
    fn a_collected_run_gives_its_bytes_back() {
        let spool = Spool::new(std::env::temp_dir(), 1 << 20);
        let mailbox = Mailbox::new(spool.clone());
        put_data(&mailbox, vec![0; RESPONSE_MEMORY_MAX]).unwrap();
        put_data(&mailbox, vec![0; 1000]).unwrap();
        assert_eq!(spool.bytes(), 1000);
        drop(collected(&mailbox));
        drop(mailbox);
        assert_eq!(spool.bytes(), 0);
    }

    #[test]
    fn a_writer_can_check_before_it_would_wait() {
        let mailbox = mailbox(0);
        assert!(!mailbox.is_full());
        put_data(&mailbox, vec![0; RESPONSE_MEMORY_MAX]).unwrap();
        assert!(mailbox.is_full());
        assert_eq!(collected(&mailbox).len(), 1);
        assert!(!mailbox.is_full());
        put_data(&mailbox, vec![0; RESPONSE_MEMORY_MAX]).unwrap();
        mailbox.close();
        assert!(!mailbox.is_full(), "the writer does not wait for a departed reader");
    }

    #[test]
    fn a_writer_without_room_waits_for_the_reader() {
        let mailbox = mailbox(0);
        put_data(&mailbox, vec![0; RESPONSE_MEMORY_MAX]).unwrap();
        std::thread::scope(|scope| {
            let writer = scope.spawn(|| put_data(&mailbox, b"late".to_vec()));
            assert_eq!(collected(&mailbox).len(), 1);
            writer.join().unwrap().unwrap();
        });
        assert!(matches!(&collected(&mailbox)[0], Part::Data(bytes) if bytes == b"late"));
    }

    #[test]
    fn a_writer_without_room_wakes_when_the_reader_leaves() {
        let mailbox = mailbox(0);
        put_data(&mailbox, vec![0; RESPONSE_MEMORY_MAX]).unwrap();
        std::thread::scope(|scope| {
            let writer = scope.spawn(|| put_data(&mailbox, b"late".to_vec()));
            mailbox.close();
            assert_eq!(writer.join().unwrap(), Err(Closed));
        });
        assert_eq!(mailbox.put(Part::End(End::Complete)), Err(Closed));
    }
}
