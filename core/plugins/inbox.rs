//! The work queue of a plugin's thread.
//!
//! Producers never wait: work that does not fit is rejected, or dropped and counted. Page requests, the periodic round
//! and request records take turns, so that neither traffic nor a slow callback of one kind starves the others. After
//! `close`, queued page requests and records are still processed; later page requests are rejected.

use svc_types::RequestFacts;

use crate::limits::{PLUGIN_FACTS_MAX, PLUGIN_REQUESTS_MAX};
use crate::sync::counter::Counter;
use crate::sync::event_count::EventCount;
use crate::sync::primitive::{Arc, ArrayQueue, AtomicBool, Ordering, fence};

use super::question::PluginQuestion;

/// The next task of a plugin's thread.
#[derive(Debug)]
pub enum PluginWork {
    /// Call `start`.
    Start,
    /// Answer a page request.
    Answer(Arc<PluginQuestion>),
    /// Run the periodic callbacks (once a second).
    Round,
    /// Pass on the record of a request that has ended.
    RequestEnded(Arc<RequestFacts>),
    /// Call `stop`.
    Stop,
}

/// Round-robin position among the recurring kinds of work. Owned by the only consumer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PluginTurn {
    /// A page request.
    #[default]
    Question,
    /// The periodic round.
    Round,
    /// The record of a request.
    Facts,
}

impl PluginTurn {
    /// The number of kinds.
    const COUNT: usize = 3;

    /// Returns the current kind and advances to the next one.
    fn pass(&mut self) -> Self {
        let next = match self {
            Self::Question => Self::Round,
            Self::Round => Self::Facts,
            Self::Facts => Self::Question,
        };
        std::mem::replace(self, next)
    }
}

/// The inbox of one thread.
///
/// # Ordering
///
/// A flag is set with Release and read with Acquire, so a reader that sees it also sees the writes before it. The
/// consumer reads `closing` before it polls the queues, so that it finds everything queued before `close`.
///
/// A page request is queued before its producer reads `closing`; the consumer reads `closing` before it polls for page
/// requests. A `SeqCst` fence between the two steps on both sides ensures that at least one side sees the other (store
/// buffering): a request that the consumer misses is rejected by its producer.
#[derive(Debug)]
pub struct PluginInbox {
    starting: AtomicBool,
    round: AtomicBool,
    closing: AtomicBool,
    questions: ArrayQueue<Arc<PluginQuestion>>,
    facts: ArrayQueue<Arc<RequestFacts>>,
    /// Records that were dropped because the queue was full.
    lost: Counter,
    work: EventCount,
}

impl PluginInbox {
    /// Creates an empty inbox.
    #[expect(clippy::new_without_default, reason = "it is one of a kind, and no default of anything")]
    pub fn new() -> Self {
        Self {
            starting: AtomicBool::new(false),
            round: AtomicBool::new(false),
            closing: AtomicBool::new(false),
            questions: ArrayQueue::new(bounded(PLUGIN_REQUESTS_MAX)),
            facts: ArrayQueue::new(bounded(PLUGIN_FACTS_MAX)),
            lost: Counter::new(),
            work: EventCount::new(),
        }
    }

    /// Requests `start`.
    pub fn start(&self) {
        self.raise(&self.starting);
    }

    /// Requests the periodic round; repeated requests before it runs are merged.
    pub fn order_round(&self) {
        self.raise(&self.round);
    }

    /// Closes the inbox; the consumer stops when the queues are empty.
    pub fn close(&self) {
        self.raise(&self.closing);
    }

    fn raise(&self, flag: &AtomicBool) {
        // Release: pairs with the Acquire in `lower` and in `take`. A swap instead of a store, because loom allows a
        // store to take effect between the read and the write of another thread's swap.
        flag.swap(true, Ordering::Release);
        self.work.notify_all();
    }

    /// Queues a page request; returns false if the queue is full, or if the inbox is closed, which abandons it.
    pub fn ask(&self, question: Arc<PluginQuestion>) -> bool {
        let own = Arc::clone(&question);
        if self.questions.push(question).is_err() {
            return false;
        }
        // SeqCst: pairs with the fence in `take`.
        fence(Ordering::SeqCst);
        if self.closing.load(Ordering::Relaxed) {
            // The consumer may have taken it already, or may have stopped polling.
            own.give_up();
            return false;
        }
        self.work.notify_one();
        true
    }

    /// Queues the record of a request; drops and counts it if the queue is full.
    pub fn push_facts(&self, facts: Arc<RequestFacts>) {
        if self.facts.push(facts).is_err() {
            self.lost.incr();
        } else {
            self.work.notify_one();
        }
    }

    /// Returns the number of dropped records.
    pub fn lost_total(&self) -> u64 {
        self.lost.value()
    }

    /// Blocks until there is work. Must be called by one thread only, with the same `turn` each time.
    pub fn next(&self, turn: &mut PluginTurn) -> PluginWork {
        loop {
            if let Some(work) = self.take(turn) {
                return work;
            }
            let ticket = self.work.prepare_wait();
            if let Some(work) = self.take(turn) {
                self.work.cancel_wait(ticket);
                return work;
            }
            self.work.wait(&ticket);
        }
    }

    fn take(&self, turn: &mut PluginTurn) -> Option<PluginWork> {
        // Acquire: pairs with the Release in `raise`.
        let is_closing = self.closing.load(Ordering::Acquire);
        if is_closing {
            // SeqCst: pairs with the fence in `ask`.
            fence(Ordering::SeqCst);
        }
        if Self::lower(&self.starting) {
            return Some(PluginWork::Start);
        }
        let mut turns = (0..PluginTurn::COUNT).map(|_| match turn.pass() {
            PluginTurn::Question => self.questions.pop().map(PluginWork::Answer),
            PluginTurn::Round => (Self::lower(&self.round) && !is_closing).then_some(PluginWork::Round),
            PluginTurn::Facts => self.facts.pop().map(PluginWork::RequestEnded),
        });
        turns.find_map(|work| work).or_else(|| is_closing.then_some(PluginWork::Stop))
    }

    fn lower(flag: &AtomicBool) -> bool {
        // Acquire: pairs with the Release in `raise`.
        flag.swap(false, Ordering::Acquire)
    }
}

/// Limits the queues to two under loom, which is enough to fill them.
const fn bounded(max: usize) -> usize {
    if cfg!(loom) { 2 } else { max }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts() -> Arc<RequestFacts> {
        Arc::new(RequestFacts::default())
    }

    fn name(work: &PluginWork) -> &'static str {
        match work {
            PluginWork::Start => "start",
            PluginWork::Answer(_) => "answer",
            PluginWork::Round => "round",
            PluginWork::RequestEnded(_) => "request_ended",
            PluginWork::Stop => "stop",
        }
    }

    fn names(inbox: &PluginInbox, count: usize) -> Vec<&'static str> {
        let mut turn = PluginTurn::default();
        (0..count).map(|_| name(&inbox.next(&mut turn))).collect()
    }

    #[test]
    fn traffic_does_not_keep_questions_away_and_the_end_comes_last() {
        let inbox = PluginInbox::new();
        (0..2).for_each(|_| inbox.push_facts(facts()));
        inbox.order_round();
        inbox.order_round();
        assert!(inbox.ask(Arc::new(PluginQuestion::new(b"", b""))));
        inbox.start();
        assert_eq!(names(&inbox, 3), ["start", "answer", "round"]);
        inbox.close();
        inbox.order_round();
        assert_eq!(names(&inbox, 4), ["request_ended", "request_ended", "stop", "stop"]);
    }

    #[test]
    fn no_kind_of_work_keeps_the_others_away_however_much_there_is() {
        let inbox = PluginInbox::new();
        (0..9).for_each(|_| inbox.push_facts(facts()));
        assert!((0..9).all(|_| inbox.ask(Arc::new(PluginQuestion::new(b"", b"")))));
        let mut turn = PluginTurn::default();
        let taken = (0..9).map(|_| {
            // Another round falls due during each call.
            inbox.order_round();
            name(&inbox.next(&mut turn))
        });
        let taken: Vec<_> = taken.collect();
        assert_eq!(taken, ["answer", "round", "request_ended"].repeat(3));
    }

    #[test]
    fn overflow_is_returned_or_counted() {
        let inbox = PluginInbox::new();
        let question = || Arc::new(PluginQuestion::new(b"", b""));
        assert!((0..PLUGIN_REQUESTS_MAX).all(|_| inbox.ask(question())));
        assert!(!inbox.ask(question()));
        (0..PLUGIN_FACTS_MAX + 3).for_each(|_| inbox.push_facts(facts()));
        assert_eq!(inbox.lost_total(), 3);
    }

    #[test]
    fn a_question_after_the_end_comes_back_and_one_before_it_does_not() {
        let inbox = PluginInbox::new();
        let question = || Arc::new(PluginQuestion::new(b"", b""));
        assert!(inbox.ask(question()));
        inbox.close();
        let late = question();
        assert!(!inbox.ask(Arc::clone(&late)) && !late.is_open());
        let PluginWork::Answer(first) = inbox.next(&mut PluginTurn::default()) else { panic!() };
        assert!(first.is_open());
    }

    #[test]
    fn a_sleeper_is_woken_by_each_kind_of_work() {
        let inbox = Arc::new(PluginInbox::new());
        let wakes: [&dyn Fn(); 4] =
            [&|| inbox.start(), &|| inbox.order_round(), &|| inbox.push_facts(facts()), &|| inbox.close()];
        for wake in wakes {
            let sleeper = Arc::clone(&inbox);
            let thread = std::thread::spawn(move || drop(sleeper.next(&mut PluginTurn::default())));
            wake();
            thread.join().unwrap();
        }
    }
}
