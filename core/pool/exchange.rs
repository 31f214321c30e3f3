//! One request and its response.
//!
//! Exactly one side answers, decided by one compare-and-swap ([`ExchangeState`]); the loser gets an error and sends
//! nothing. A response without a reader is dropped. The exchange counts nothing; a transition returns its outcome, and the
//! caller does the accounting.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use crate::http::Fields;
use crate::spool::{Share, Spool};
use crate::sync::exchange_state::{ExchangeStage, ExchangeState};
use crate::sync::primitive::{Arc, AtomicBool, AtomicU64, Ordering};

use crate::time;

use super::job::{Job, NotClaimed};
use super::mailbox::{Mailbox, ReaderNotice};
use super::recorder::Recording;
use super::request::CompleteRequest;
use super::response_part::{End, Origin, Part, ResponseBatch, ResponseHead};

/// Identifies the stream of a response to the I/O thread that waits for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamKey {
    /// The number of the connection, which the I/O thread has not reused recently.
    pub connection: u64,
    /// The stream on the connection; 0 if the connection has only one at a time.
    pub stream: u32,
}

/// Receives notice that an exchange has parts to collect. An I/O thread's inbox implements it.
pub trait Notify: Send + Sync + std::fmt::Debug {
    /// Parts of the response for `key` are ready. Called on a worker thread; must not block.
    fn response_ready(&self, key: StreamKey);
}

/// The response has no reader: the I/O thread has answered, or the client has disconnected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gone;

/// One request and its response, shared by the client's I/O thread and the worker that runs it.
///
/// The worker's calls are [`claim`](Self::claim), then [`interim`](Self::interim)*, [`head`](Self::head),
/// [`data`](Self::data)*, [`end`](Self::end), or [`complete`](Self::complete) alone. The I/O thread's calls are
/// [`collect`](Self::collect) and [`withdraw`](Self::withdraw) or [`abandon`](Self::abandon). The watchdog of time
/// limits calls [`overrun`](Self::overrun).
#[derive(Debug)]
pub struct Exchange {
    /// The request of the client.
    pub request: CompleteRequest,
    /// When it was offered to the gate.
    pub offered_at: Instant,
    /// When its wait for a worker ends; `None` if it may wait without limit.
    pub deadline: Option<Instant>,
    state: ExchangeState,
    response: Mailbox,
    notify: Arc<dyn Notify>,
    key: StreamKey,
    /// One more than the wait for a worker in microseconds; 0 until a worker takes it.
    waited_us: AtomicU64,
    client_left: AtomicBool,
    /// Whether a worker runs it without a client.
    is_detached: AtomicBool,
    /// Its number among the exchanges that its slot has claimed; 0 before.
    serial: AtomicU64,
    /// Whether its worker broke off the response.
    is_broken: AtomicBool,
    /// The length of the body so far, before and after content coding. The first is [`NOT_CODED`] without a coding.
    coded: [AtomicU64; 2],
}

impl Exchange {
    /// Makes an exchange that is about to be offered and may wait for `budget`, or without limit. `notify` is notified
    /// about the parts of its response, for `key`.
    pub fn new(
        request: CompleteRequest,
        offered_at: Instant,
        budget: Option<Duration>,
        spool: Spool,
        notify: Arc<dyn Notify>,
        key: StreamKey,
    ) -> Self {
        Self {
            request,
            offered_at,
            deadline: budget.map(|budget| offered_at + budget),
            state: ExchangeState::queued(),
            response: Mailbox::new(spool),
            notify,
            key,
            waited_us: AtomicU64::new(0),
            client_left: AtomicBool::new(false),
            is_detached: AtomicBool::new(false),
            serial: AtomicU64::new(0),
            is_broken: AtomicBool::new(false),
            coded: [AtomicU64::new(NOT_CODED), AtomicU64::new(0)],
        }
    }

    /// Notes that it enters the waiting set instead of the queue. Called before any other thread can see it.
    pub fn park(&self) {
        self.state.park();
    }

    /// Moves it from the waiting set to the queue; returns false if it was answered meanwhile.
    pub fn promote(&self) -> bool {
        self.state.promote().is_ok()
    }

    /// Claims the exchange for a worker that took it off the queue.
    ///
    /// # Errors
    ///
    /// [`Gone`] if it was answered while it was queued, or its deadline has passed; the I/O thread answers it then.
    pub fn claim(&self, now: Instant) -> Result<(), Gone> {
        if self.deadline.is_some_and(|deadline| now >= deadline) {
            // Either way, the I/O thread answers.
            let _ = self.state.expire();
            return Err(Gone);
        }
        if self.state.claim().map_err(|_| Gone)? == ExchangeStage::Orphaned {
            // Relaxed: only its worker reads it.
            self.is_detached.store(true, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Returns whether a worker runs it without a client, which disconnected before or never existed.
    pub fn is_detached(&self) -> bool {
        self.is_detached.load(Ordering::Relaxed)
    }

    /// Returns whether it still waits for a worker after its client has disconnected.
    pub fn is_abandoned(&self) -> bool {
        self.state.stage() == ExchangeStage::Abandoned
    }

    /// Returns whether a worker has claimed it and it is not answered, neither completely by its worker nor on the
    /// worker's behalf.
    pub fn is_unanswered(&self) -> bool {
        matches!(self.state.stage(), ExchangeStage::Running | ExchangeStage::Responding)
    }

    /// Returns whether it was answered on its worker's behalf because its time limit expired.
    pub fn is_overdue(&self) -> bool {
        self.state.stage() == ExchangeStage::Overdue
    }

    /// Returns whether its worker broke off the response.
    pub fn is_broken(&self) -> bool {
        self.is_broken.load(Ordering::Relaxed)
    }

    /// Returns whether the client has disconnected or the I/O thread has answered instead of the worker.
    pub fn is_gone(&self) -> bool {
        match self.state.stage() {
            ExchangeStage::Orphaned => true,
            ExchangeStage::Responding => self.response.is_closed(),
            _ => false,
        }
    }

    /// Sends an informational response.
    ///
    /// # Errors
    ///
    /// [`Gone`] if the response has no reader.
    pub fn interim(&self, status: u16, fields: Fields) -> Result<(), Gone> {
        if self.state.stage() != ExchangeStage::Running {
            return Err(Gone);
        }
        self.put(Part::Interim(status, fields))
    }

    /// Sends the head together with the first bytes of the body.
    ///
    /// # Errors
    ///
    /// [`Gone`] if the response has no reader.
    pub fn head(&self, head: ResponseHead, first: Vec<u8>) -> Result<(), Gone> {
        self.state.respond().map_err(|_| Gone)?;
        self.deliver(ResponseBatch::of(first).after(head))
    }

    /// Sends bytes of the body. Waits while the mailbox is full, unless the reader has left.
    ///
    /// # Errors
    ///
    /// [`Gone`] if the response has no reader.
    pub fn data(&self, bytes: Vec<u8>) -> Result<(), Gone> {
        debug_assert!(self.state.stage() != ExchangeStage::Running, "data before the head");
        self.deliver(ResponseBatch::of(bytes))
    }

    /// Returns whether [`data`](Self::data) would probably wait for the reader now.
    pub fn is_full(&self) -> bool {
        self.response.is_full()
    }

    /// Ends a response whose head was sent.
    pub fn end(&self, end: End) {
        if end == End::Broken {
            // Relaxed: published to the reader with the part that follows.
            self.is_broken.store(true, Ordering::Relaxed);
        }
        if !matches!(self.state.finish(), ExchangeStage::Orphaned | ExchangeStage::Overdue) {
            // A reader that has left needs no end.
            let _ = self.put(Part::End(end));
        }
    }

    /// Sends a whole response in one piece.
    ///
    /// # Errors
    ///
    /// [`Gone`] if the response has no reader; the exchange is finished nevertheless.
    pub fn complete(&self, head: ResponseHead, body: Vec<u8>) -> Result<(), Gone> {
        if matches!(self.state.finish(), ExchangeStage::Orphaned | ExchangeStage::Overdue) {
            return Err(Gone);
        }
        self.deliver(ResponseBatch::of(body).after(head).before(End::Complete))
    }

    /// Answers for a lost worker: with 500 if nothing was sent, with a broken end otherwise, and not at all if the
    /// worker had finished.
    pub fn fail(&self) {
        match self.state.stage() {
            ExchangeStage::Waiting
            | ExchangeStage::Queued
            | ExchangeStage::Answered
            | ExchangeStage::Abandoned
            | ExchangeStage::Done => {}
            ExchangeStage::Responding => self.end(End::Broken),
            ExchangeStage::Running | ExchangeStage::Orphaned | ExchangeStage::Overdue => {
                // A client that was answered on the worker's behalf is not answered again.
                let _ = self.complete(self.head_of_failure(500, Origin::WorkerLost), Vec::new());
            }
        }
    }

    /// Answers on behalf of a worker that has not reacted to the time limit: with 504 if nothing was sent, and with a
    /// broken end otherwise. Returns false if no answer is due, or another thread is sending it. A recording ends in any
    /// case, because the worker may never return.
    pub fn overrun(&self) -> bool {
        let head = self.head_of_failure(504, Origin::TimeLimit);
        // Under the mailbox's lock, so that a thread that sees it as overdue also finds the answer.
        let notice = self.response.cut(|has_head| match self.state.overrun(has_head)? {
            ExchangeStage::Running => Some(ResponseBatch::default().after(head).before(End::Complete)),
            _ => Some(ResponseBatch::default().before(End::Broken)),
        });
        if let Some(notice) = notice {
            self.give(notice);
        }
        notice.is_some()
    }

    /// Takes all parts of the response that are ready, with their share of the memory of all responses. Called by the io
    /// thread.
    pub fn collect(&self, into: &mut VecDeque<Part>) -> Share {
        self.response.collect(into)
    }

    /// Stops reading, because the client has disconnected or the I/O thread answers instead. Returns the stage it
    /// found: after `Waiting`, `Queued` and `Running` the caller owns the answer; later stages mean that the response was
    /// on its way. One that is `Overdue` is complete, and can be [`collect`](Self::collect)ed.
    pub fn withdraw(&self) -> ExchangeStage {
        self.stop_reading(self.state.withdraw())
    }

    /// Like [`withdraw`](Self::withdraw), for a client that has disconnected and whose request runs nevertheless: a
    /// worker may still claim it, and its response is dropped.
    pub fn abandon(&self) -> ExchangeStage {
        self.note_client_left();
        self.stop_reading(self.state.abandon())
    }

    /// Makes the request run without a client: its response is dropped. Called before it is offered.
    pub fn begin_without_client(&self) {
        let found = self.stop_reading(self.state.abandon());
        debug_assert!(found == ExchangeStage::Queued, "without a client after its offer: {found:?}");
    }

    /// Returns whether a worker runs it, and it never had a client.
    pub fn has_no_client(&self) -> bool {
        self.is_detached() && !self.client_left()
    }

    fn stop_reading(&self, found: ExchangeStage) -> ExchangeStage {
        if found != ExchangeStage::Overdue {
            self.response.close();
        }
        found
    }

    /// Like [`withdraw`](Self::withdraw), for an I/O thread that sends the parts that are ready. A worker that has
    /// decided to answer but has sent nothing yet can no longer do so.
    pub fn withdraw_collecting(&self, into: &mut VecDeque<Part>) -> (ExchangeStage, Share) {
        let found = self.state.withdraw();
        let share = self.response.collect(into);
        self.response.close();
        (found, share)
    }

    /// Withdraws the exchange if no worker has claimed it. Returns the stage it found: after `Waiting`, `Queued` and
    /// `Answered` the caller owns the answer.
    pub fn withdraw_unclaimed(&self) -> ExchangeStage {
        let found = self.state.withdraw_unclaimed();
        if matches!(found, ExchangeStage::Waiting | ExchangeStage::Queued | ExchangeStage::Answered) {
            self.response.close();
        }
        found
    }

    /// Notes how long it waited for a worker. Called between the claim and the first part.
    pub fn note_taken(&self, waited: Duration) {
        let waited_us = time::as_micros(waited).min(u64::MAX - 1);
        // Relaxed: published to the reader with the response that follows.
        self.waited_us.store(waited_us.saturating_add(1), Ordering::Relaxed);
    }

    /// Returns how long it waited for a worker; `None` until a worker takes it.
    pub fn waited(&self) -> Option<Duration> {
        self.waited_us.load(Ordering::Relaxed).checked_sub(1).map(Duration::from_micros)
    }

    /// Notes the length of the body so far, before and after content coding. Called before the coded bytes are sent.
    pub fn note_coded(&self, before: u64, after: u64) {
        // Relaxed: published to the reader with the part that follows.
        self.coded[1].store(after, Ordering::Relaxed);
        self.coded[0].store(before, Ordering::Relaxed);
    }

    /// Returns the length of the body sent so far, before and after content coding; `None` without a coding.
    pub fn coded(&self) -> Option<(u64, u64)> {
        let [before, after] = [0, 1].map(|place: usize| self.coded[place].load(Ordering::Relaxed));
        (before != NOT_CODED).then_some((before, after))
    }

    /// Returns its number among the exchanges that its slot has claimed; 0 before a claim.
    pub fn serial(&self) -> u64 {
        self.serial.load(Ordering::Relaxed)
    }

    /// Notes that the I/O thread is about to withdraw because the client has disconnected.
    pub fn note_client_left(&self) {
        // Relaxed: published to the worker by the withdrawal that follows.
        self.client_left.store(true, Ordering::Relaxed);
    }

    /// Returns whether it was withdrawn because the client had disconnected.
    pub fn client_left(&self) -> bool {
        self.client_left.load(Ordering::Relaxed)
    }

    /// Makes the head of an answer on the worker's behalf, which the recorder may replace.
    fn head_of_failure(&self, status: u16, origin: Origin) -> ResponseHead {
        let head = ResponseHead { status, ..ResponseHead::bare(origin) };
        match self.request.recorder.as_ref().map(|recorder| recorder.begin(&head)) {
            Some(Recording::Replaced) => ResponseHead::replaced(),
            Some(Recording::Nothing | Recording::UpTo(_)) | None => head,
        }
    }

    fn put(&self, part: Part) -> Result<(), Gone> {
        self.give(self.response.put(part).map_err(|_| Gone)?);
        Ok(())
    }

    fn deliver(&self, mut delivery: ResponseBatch) -> Result<(), Gone> {
        loop {
            self.give(self.response.deliver(&mut delivery).map_err(|_| Gone)?);
            if delivery.is_done() {
                return Ok(());
            }
        }
    }

    fn give(&self, notice: ReaderNotice) {
        if notice == ReaderNotice::Due {
            self.notify.response_ready(self.key);
        }
    }
}

impl Job for Exchange {
    fn claim(&self, serial: u64, now: Instant) -> Result<(), NotClaimed> {
        Self::claim(self, now).map_err(|Gone| NotClaimed)?;
        // Relaxed: a thread that reads it got the exchange from the thread that claimed it.
        self.serial.store(serial, Ordering::Relaxed);
        Ok(())
    }

    fn is_settled(&self) -> bool {
        !self.is_unanswered()
    }

    fn fail(&self) {
        Self::fail(self);
    }

    fn is_abandoned(&self) -> bool {
        Self::is_abandoned(self)
    }
}

/// The length of a body without a content coding.
const NOT_CODED: u64 = u64::MAX;
