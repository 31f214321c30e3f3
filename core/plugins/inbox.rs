//! What waits for a plugin's thread.
//!
//! Promises: whoever puts something in never waits; what does not fit comes back, or is dropped and counted. Requests for
//! pages, the round of questions and facts about requests take turns, so that neither traffic nor a plugin that is slow in
//! one of them can keep the others away. Once it is closed, everything that is in it is taken before the end, and a request for a page that comes later comes back.
//! Refuses: it does not know what the thread does with it.

use crate::limits::{PLUGIN_FACTS_MAX, PLUGIN_REQUESTS_MAX};
use crate::sync::counter::Counter;
use crate::sync::event_count::EventCount;
use crate::sync::primitive::{Arc, ArrayQueue, AtomicBool, Ordering, fence};

use super::plugin::RequestFacts;
use super::question::PluginQuestion;

/// What a plugin's thread does next.
#[derive(Debug)]
pub enum PluginWork {
    /// Start.
    Start,
    /// Answer a request for a page.
    Answer(Arc<PluginQuestion>),
    /// Ask for all that is asked once a second.
    Round,
    /// Tell of a request that has ended.
    Tell(Arc<RequestFacts>),
    /// Stop.
    Stop,
}

/// Whose turn it is among the kinds of work that come again and again. The one thread that takes work keeps it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PluginTurn {
    /// A request for a page.
    #[default]
    Question,
    /// The round of questions.
    Round,
    /// Facts about a request.
    Facts,
}

impl PluginTurn {
    /// How many there are.
    const COUNT: usize = 3;

    /// Takes the turn; the next one has it then.
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
/// A flag is set with Release and taken with Acquire: whoever sees it sees what came before it. `closing` is looked at
/// first and the queues after that, so what was put in before the inbox was closed is found.
///
/// Whoever asks for a page looks at `closing` after that, and the thread looks for questions after it has seen `closing`.
/// Between the two steps, both put a `SeqCst` fence, so that at least one of them sees the other (store buffering): a
/// question that the thread does not find is one that comes back.
#[derive(Debug)]
pub struct PluginInbox {
    starting: AtomicBool,
    round: AtomicBool,
    closing: AtomicBool,
    questions: ArrayQueue<Arc<PluginQuestion>>,
    facts: ArrayQueue<Arc<RequestFacts>>,
    /// Facts that did not fit.
    lost: Counter,
    work: EventCount,
}

impl PluginInbox {
    /// Makes an empty one.
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

    /// The plugin is to start.
    pub fn start(&self) {
        self.raise(&self.starting);
    }

    /// The round of questions is due; it is asked once, however often this is said meanwhile.
    pub fn order_round(&self) {
        self.raise(&self.round);
    }

    /// Nothing more is coming.
    pub fn close(&self) {
        self.raise(&self.closing);
    }

    fn raise(&self, flag: &AtomicBool) {
        // Release: pairs with the Acquire in `lower`, and in `take`. A swap, because loom does not know that a store cannot
        // come between what a swap has read and what it has written.
        flag.swap(true, Ordering::Release);
        self.work.notify_all();
    }

    /// Puts in a request for a page; returns whether it fits, and something may still come of it. If not, it is given up.
    pub fn ask(&self, question: Arc<PluginQuestion>) -> bool {
        let own = Arc::clone(&question);
        if self.questions.push(question).is_err() {
            return false;
        }
        // SeqCst: pairs with the fence in `take`.
        fence(Ordering::SeqCst);
        if self.closing.load(Ordering::Relaxed) {
            // Perhaps it was found, and perhaps nobody looks any more.
            own.give_up();
            return false;
        }
        self.work.notify_one();
        true
    }

    /// Puts in facts about a request, or drops and counts them.
    pub fn tell(&self, facts: Arc<RequestFacts>) {
        if self.facts.push(facts).is_err() {
            self.lost.incr();
        } else {
            self.work.notify_one();
        }
    }

    /// Facts that were dropped.
    pub fn lost_total(&self) -> u64 {
        self.lost.value()
    }

    /// Sleeps until there is something to do. For the one thread only, which has a `turn` of its own.
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
            PluginTurn::Facts => self.facts.pop().map(PluginWork::Tell),
        });
        turns.find_map(|work| work).or_else(|| is_closing.then_some(PluginWork::Stop))
    }

    fn lower(flag: &AtomicBool) -> bool {
        // Acquire: pairs with the Release in `raise`.
        flag.swap(false, Ordering::Acquire)
    }
}

/// A model of loom fills a queue in two steps.
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
            PluginWork::Tell(_) => "tell",
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
        (0..2).for_each(|_| inbox.tell(facts()));
        inbox.order_round();
        inbox.order_round();
        assert!(inbox.ask(Arc::new(PluginQuestion::new(b"", b""))));
        inbox.start();
        assert_eq!(names(&inbox, 3), ["start", "answer", "round"]);
        inbox.close();
        inbox.order_round();
        assert_eq!(names(&inbox, 4), ["tell", "tell", "stop", "stop"]);
    }

    #[test]
    fn no_kind_of_work_keeps_the_others_away_however_much_there_is() {
        let inbox = PluginInbox::new();
        (0..9).for_each(|_| inbox.tell(facts()));
        assert!((0..9).all(|_| inbox.ask(Arc::new(PluginQuestion::new(b"", b"")))));
        let mut turn = PluginTurn::default();
        let taken = (0..9).map(|_| {
            // It takes the plugin more than a second to do anything.
            inbox.order_round();
            name(&inbox.next(&mut turn))
        });
        let taken: Vec<_> = taken.collect();
        assert_eq!(taken, ["answer", "round", "tell"].repeat(3));
    }

    #[test]
    fn what_does_not_fit_comes_back_or_is_counted() {
        let inbox = PluginInbox::new();
        let question = || Arc::new(PluginQuestion::new(b"", b""));
        assert!((0..PLUGIN_REQUESTS_MAX).all(|_| inbox.ask(question())));
        assert!(!inbox.ask(question()));
        (0..PLUGIN_FACTS_MAX + 3).for_each(|_| inbox.tell(facts()));
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
            [&|| inbox.start(), &|| inbox.order_round(), &|| inbox.tell(facts()), &|| inbox.close()];
        for wake in wakes {
            let sleeper = Arc::clone(&inbox);
            let thread = std::thread::spawn(move || drop(sleeper.next(&mut PluginTurn::default())));
            wake();
            thread.join().unwrap();
        }
    }
}
