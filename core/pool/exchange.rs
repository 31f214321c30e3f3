//! One request and its reply.
//!
//! Promises: exactly one side answers, decided by one compare-and-swap ([`ExchangeState`]); the loser learns it and
//! says nothing. A reply that nobody reads any more is dropped. Refuses: it counts nothing; whoever made a transition
//! is told what it meant and does the accounting.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use crate::http::Fields;
use crate::spool::{Share, Spool};
use crate::sync::exchange_state::{ExchangeStage, ExchangeState};
use crate::sync::primitive::{Arc, AtomicBool, AtomicU64, Ordering};

use crate::time;

use super::job::{Job, NotClaimed};
use super::mailbox::{End, Mailbox, Origin, Part, ReplyBatch, ReplyHead};
use super::request::CompleteRequest;

/// Whom a reply is for, in the words of the io thread that waits for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamKey {
    /// The connection, by a number that no other connection of the io thread has had lately.
    pub connection: u64,
    /// The stream on it; 0 where a connection carries one at a time.
    pub stream: u32,
}

/// Told when an exchange has parts to collect. Implemented by an io thread's inbox.
pub trait Notify: Send + Sync + std::fmt::Debug {
    /// Parts of the exchange that was made with `key` are ready. Called on a worker thread; must not block.
    fn reply_ready(&self, key: StreamKey);
}

/// The io thread has answered, or the client has left: nothing more can be said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gone;

/// One request and its reply, shared by the io thread of its client and the worker that runs it.
///
/// The worker's calls are [`claim`](Self::claim), then [`interim`](Self::interim)*, [`head`](Self::head),
/// [`data`](Self::data)*, [`end`](Self::end), or [`complete`](Self::complete) alone. The io thread's calls are
/// [`collect`](Self::collect) and [`withdraw`](Self::withdraw) or [`abandon`](Self::abandon). Whoever watches time limits calls
/// [`overrun`](Self::overrun).
#[derive(Debug)]
pub struct Exchange {
    /// What the client asked for.
    pub request: CompleteRequest,
    /// When it was offered to the gate.
    pub offered_at: Instant,
    /// When its wait for a worker is over; `None` when it waits as long as it takes.
    pub deadline: Option<Instant>,
    state: ExchangeState,
    reply: Mailbox,
    notify: Arc<dyn Notify>,
    key: StreamKey,
    /// The wait for a worker in microseconds and one more; 0 while no worker has taken it.
    waited_us: AtomicU64,
    client_left: AtomicBool,
    /// A worker runs it although its client had left before.
    runs_for_nobody: AtomicBool,
    /// Its number among the exchanges that its slot has claimed; 0 before.
    serial: AtomicU64,
    /// What a content coding has made of the body so far: its length before, [`NOT_CODED`] without one, and after.
    coded: [AtomicU64; 2],
}

impl Exchange {
    /// Makes an exchange that is about to be offered and may wait for `budget`, or without limit; `notify` is told
    /// under `key` of the parts of its reply.
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
            reply: Mailbox::new(spool),
            notify,
            key,
            waited_us: AtomicU64::new(0),
            client_left: AtomicBool::new(false),
            runs_for_nobody: AtomicBool::new(false),
            serial: AtomicU64::new(0),
            coded: [AtomicU64::new(NOT_CODED), AtomicU64::new(0)],
        }
    }

    /// It goes into the waiting set instead of the queue. Called before any other thread can see it.
    pub fn park(&self) {
        self.state.park();
    }

    /// It moves from the waiting set to the queue; false when it was answered meanwhile.
    pub fn promote(&self) -> bool {
        self.state.promote().is_ok()
    }

    /// A worker takes the exchange off the queue.
    ///
    /// # Errors
    ///
    /// [`Gone`] when it was answered while it was queued, or its deadline has passed: then the io thread answers.
    pub fn claim(&self, now: Instant) -> Result<(), Gone> {
        if self.deadline.is_some_and(|deadline| now >= deadline) {
            // Whoever was first, the io thread answers.
            let _ = self.state.expire();
            return Err(Gone);
        }
        if self.state.claim().map_err(|_| Gone)? == ExchangeStage::Orphaned {
            // Relaxed: only its worker asks.
            self.runs_for_nobody.store(true, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Whether the worker that claimed it runs it although its client had left before.
    pub fn runs_for_nobody(&self) -> bool {
        self.runs_for_nobody.load(Ordering::Relaxed)
    }

    /// Whether its client has left, and it waits for a worker all the same.
    pub fn is_abandoned(&self) -> bool {
        self.state.stage() == ExchangeStage::Abandoned
    }

    /// Whether no worker has claimed it yet.
    pub fn is_unclaimed(&self) -> bool {
        matches!(self.state.stage(), ExchangeStage::Waiting | ExchangeStage::Queued | ExchangeStage::Answered)
    }

    /// Whether a worker holds it and nobody has answered it yet: neither its worker to the end, nor the io thread in
    /// its place.
    pub fn is_unanswered(&self) -> bool {
        matches!(self.state.stage(), ExchangeStage::Running | ExchangeStage::Responding)
    }

    /// Whether it was answered in its worker's place because its time limit was over.
    pub fn is_overdue(&self) -> bool {
        self.state.stage() == ExchangeStage::Overdue
    }

    /// Whether the client has left or the io thread has answered in the worker's place.
    pub fn is_gone(&self) -> bool {
        match self.state.stage() {
            ExchangeStage::Orphaned => true,
            ExchangeStage::Responding => self.reply.is_closed(),
            _ => false,
        }
    }

    /// Sends an informational response.
    ///
    /// # Errors
    ///
    /// [`Gone`] when nobody reads the reply.
    pub fn interim(&self, status: u16, fields: Fields) -> Result<(), Gone> {
        if self.state.stage() != ExchangeStage::Running {
            return Err(Gone);
        }
        self.put(Part::Interim(status, fields))
    }

    /// Hands the head over, and the first bytes of the body with it.
    ///
    /// # Errors
    ///
    /// [`Gone`] when nobody reads the reply.
    pub fn head(&self, head: ReplyHead, first: Vec<u8>) -> Result<(), Gone> {
        self.state.respond().map_err(|_| Gone)?;
        self.deliver(ReplyBatch::of(first).after(head))
    }

    /// Hands body bytes over. May wait until the reader made room; never after the reader has left.
    ///
    /// # Errors
    ///
    /// [`Gone`] when nobody reads the reply.
    pub fn data(&self, bytes: Vec<u8>) -> Result<(), Gone> {
        debug_assert!(self.state.stage() != ExchangeStage::Running, "data before the head");
        self.deliver(ReplyBatch::of(bytes))
    }

    /// Whether [`data`](Self::data) would wait for the reader now, as far as one can tell.
    pub fn is_crowded(&self) -> bool {
        self.reply.is_crowded()
    }

    /// Ends a reply whose head has been handed over.
    pub fn end(&self, end: End) {
        if !matches!(self.state.finish(), ExchangeStage::Orphaned | ExchangeStage::Overdue) {
            // A reader that left needs no end.
            let _ = self.put(Part::End(end));
        }
    }

    /// Hands a whole reply over in one piece.
    ///
    /// # Errors
    ///
    /// [`Gone`] when nobody reads the reply; the exchange is finished all the same.
    pub fn complete(&self, head: ReplyHead, body: Vec<u8>) -> Result<(), Gone> {
        if matches!(self.state.finish(), ExchangeStage::Orphaned | ExchangeStage::Overdue) {
            return Err(Gone);
        }
        self.deliver(ReplyBatch::of(body).after(head).before(End::Complete))
    }

    /// Answers for a worker that was lost: 500 if nothing was sent, a broken end otherwise, nothing if the worker
    /// had finished.
    pub fn fail(&self) {
        match self.state.stage() {
            ExchangeStage::Waiting
            | ExchangeStage::Queued
            | ExchangeStage::Answered
            | ExchangeStage::Abandoned
            | ExchangeStage::Done => {}
            ExchangeStage::Responding => self.end(End::Broken),
            ExchangeStage::Running | ExchangeStage::Orphaned | ExchangeStage::Overdue => {
                // Who was answered in its place is not told again.
                let _ = self.complete(bare_head(500, Origin::WorkerLost), Vec::new());
            }
        }
    }

    /// The time limit of the exchange is over, and its worker cannot say so: answers in its place, with 504 if nothing
    /// was sent, and with a broken end otherwise. False: there was nothing to answer, or it is just being answered.
    pub fn overrun(&self) -> bool {
        // Under the mailbox's lock: whoever finds it overdue finds the answer too.
        let tell = self.reply.cut(|has_head| match self.state.overrun(has_head)? {
            ExchangeStage::Running => {
                let head = bare_head(504, Origin::TimeLimit);
                Some(ReplyBatch::default().after(head).before(End::Complete))
            }
            _ => Some(ReplyBatch::default().before(End::Broken)),
        });
        self.tell(tell == Some(true));
        tell.is_some()
    }

    /// The io thread takes all parts that are there, and what they are of the memory of all replies.
    pub fn collect(&self, into: &mut VecDeque<Part>) -> Share {
        self.reply.collect(into)
    }

    /// The io thread stops reading: its client has left, or it answers itself. Returns the stage it found: `Waiting`,
    /// `Queued` and `Running` give the caller the answer; later stages mean that the reply was on its way. One that is
    /// `Overdue` is whole, and can be [`collect`](Self::collect)ed.
    pub fn withdraw(&self) -> ExchangeStage {
        self.stop_reading(self.state.withdraw())
    }

    /// The same because the client has left, for one that is to run all the same: a worker may still claim it, and drops
    /// what it says.
    pub fn abandon(&self) -> ExchangeStage {
        self.note_client_left();
        self.stop_reading(self.state.abandon())
    }

    fn stop_reading(&self, found: ExchangeStage) -> ExchangeStage {
        if found != ExchangeStage::Overdue {
            self.reply.close();
        }
        found
    }

    /// The same for an io thread that sends what the worker has said so far. A worker that has decided to answer, and has
    /// not said anything yet, cannot any more.
    pub fn withdraw_collecting(&self, into: &mut VecDeque<Part>) -> (ExchangeStage, Share) {
        let found = self.state.withdraw();
        let share = self.reply.collect(into);
        self.reply.close();
        (found, share)
    }

    /// The io thread takes the answer back if no worker has claimed the exchange. Returns the stage it found:
    /// `Waiting`, `Queued` and `Answered` give the caller the answer.
    pub fn withdraw_unclaimed(&self) -> ExchangeStage {
        let found = self.state.withdraw_unclaimed();
        if matches!(found, ExchangeStage::Waiting | ExchangeStage::Queued | ExchangeStage::Answered) {
            self.reply.close();
        }
        found
    }

    /// Notes that a worker took it off the queue after `waited`; called between the claim and the first part.
    pub fn note_taken(&self, waited: Duration) {
        let waited_us = time::as_micros(waited).min(u64::MAX - 1);
        // Relaxed: the reply that follows carries it to the reader.
        self.waited_us.store(waited_us.saturating_add(1), Ordering::Relaxed);
    }

    /// How long it waited for a worker; `None` when none has taken it.
    pub fn waited(&self) -> Option<Duration> {
        self.waited_us.load(Ordering::Relaxed).checked_sub(1).map(Duration::from_micros)
    }

    /// Notes that the worker codes the body, and what that has made of it so far; called before what it says of it is
    /// handed over.
    pub fn note_coded(&self, before: u64, after: u64) {
        // Relaxed: the part that follows carries it to the reader.
        self.coded[1].store(after, Ordering::Relaxed);
        self.coded[0].store(before, Ordering::Relaxed);
    }

    /// What the worker's coding has made of the body, as far as it has been handed over; `None` when it codes nothing.
    pub fn coded(&self) -> Option<(u64, u64)> {
        let [before, after] = [0, 1].map(|place: usize| self.coded[place].load(Ordering::Relaxed));
        (before != NOT_CODED).then_some((before, after))
    }

    /// Returns its number among the exchanges that its slot has claimed; 0 before a claim.
    pub fn serial(&self) -> u64 {
        self.serial.load(Ordering::Relaxed)
    }

    /// The io thread is about to withdraw because the client has left.
    pub fn note_client_left(&self) {
        // Relaxed: the withdrawal that follows carries it to the worker.
        self.client_left.store(true, Ordering::Relaxed);
    }

    /// Whether it was withdrawn because the client had left.
    pub fn client_left(&self) -> bool {
        self.client_left.load(Ordering::Relaxed)
    }

    fn put(&self, part: Part) -> Result<(), Gone> {
        let tell = self.reply.put(part).map_err(|_| Gone)?;
        self.tell(tell);
        Ok(())
    }

    fn deliver(&self, mut delivery: ReplyBatch) -> Result<(), Gone> {
        loop {
            let tell = self.reply.deliver(&mut delivery).map_err(|_| Gone)?;
            self.tell(tell);
            if delivery.is_done() {
                return Ok(());
            }
        }
    }

    fn tell(&self, tell: bool) {
        if tell {
            self.notify.reply_ready(self.key);
        }
    }
}

impl Job for Exchange {
    fn claim(&self, serial: u64, now: Instant) -> Result<(), NotClaimed> {
        Self::claim(self, now).map_err(|Gone| NotClaimed)?;
        // Relaxed: who asks for it has the exchange from who claimed it.
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

/// Stands for the length of a body that is not coded.
const NOT_CODED: u64 = u64::MAX;

/// The head of an answer in a worker's place.
fn bare_head(status: u16, origin: Origin) -> ReplyHead {
    ReplyHead { status, reason: None, fields: Fields::new(), content_length: None, origin }
}
