//! Who answers a request: one word, changed by compare-and-swap only.
//!
//! ```text
//!   Waiting ──promote──▶ Queued ──claim──▶ Running ──respond──▶ Responding ──finish──▶ Done
//!     │                    │                 │                                          ▲
//!     │ withdraw           │ withdraw        │ withdraw             │                   │
//!     │                    │ expire          ▼                      │ overrun           │
//!     ▼                    ▼               Orphaned ────────────────┼──────finish───────┤
//!   Answered ◀─────────────┘                 ▲                      ▼                   │
//!                       Running ─────────────┼overrun───────────▶ Overdue ────finish────┘
//!   Waiting, Queued ──abandon──▶ Abandoned ──┴claim (Running ──abandon──▶ Orphaned)
//! ```
//!
//! The io thread that owns the client's connection withdraws (deadline, hang-up, drain), or abandons what is to run
//! although its client has left: that keeps its place in the waiting set or the queue. A worker claims, expires what
//! it finds too late, responds and finishes; whoever watches the workers' time limits overruns what has gone beyond its
//! own. `Running ──finish──▶ Done` also exists: a reply that is handed over in
//! one piece. An exchange starts in `Queued` and is parked in `Waiting` before anybody else sees it.

use super::primitive::{AtomicU8, Ordering};

/// Where an exchange is in its life; see the module's diagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum ExchangeStage {
    /// In the queue; nobody has answered.
    Queued = 0,
    /// A worker runs it; nothing has been sent.
    Running = 1,
    /// The head of the reply has been handed over.
    Responding = 2,
    /// Its worker has said all it will say.
    Done = 3,
    /// The io thread answered it while a worker ran it; what the worker says is dropped.
    Orphaned = 4,
    /// It is the io thread's to answer, and no worker's; if it was queued it stays in the queue until popped.
    Answered = 5,
    /// In the waiting set in front of the queue.
    Waiting = 6,
    /// Its time limit is over while its worker could not say so: it was answered in its worker's place, and what the
    /// worker says is dropped.
    Overdue = 7,
    /// In the waiting set or the queue. Its client has left and was answered, as it were, by the io thread; it is to run
    /// all the same.
    Abandoned = 8,
}

impl ExchangeStage {
    fn from_word(word: u8) -> Self {
        match word {
            0 => Self::Queued,
            1 => Self::Running,
            2 => Self::Responding,
            3 => Self::Done,
            4 => Self::Orphaned,
            5 => Self::Answered,
            6 => Self::Waiting,
            7 => Self::Overdue,
            _ => Self::Abandoned,
        }
    }
}

/// The state word of one exchange.
///
/// # Ordering
///
/// Every transition is AcqRel: what one side wrote before its transition is visible to the side whose transition
/// comes next.
#[derive(Debug)]
pub struct ExchangeState(AtomicU8);

impl ExchangeState {
    /// Starts in `Queued`.
    pub fn queued() -> Self {
        Self(AtomicU8::new(ExchangeStage::Queued as u8))
    }

    /// Reads the stage; it may be older than the caller's next step.
    pub fn stage(&self) -> ExchangeStage {
        // Acquire: pairs with the AcqRel of the transition that wrote it.
        ExchangeStage::from_word(self.0.load(Ordering::Acquire))
    }

    /// It goes into the waiting set instead of the queue. Called before any other thread can see it.
    pub fn park(&self) {
        let parked = self.step(ExchangeStage::Queued, ExchangeStage::Waiting);
        debug_assert!(
            matches!(parked, Ok(()) | Err(ExchangeStage::Abandoned)),
            "parked although somebody has seen it: {parked:?}"
        );
    }

    /// It moves from the waiting set to the queue.
    ///
    /// # Errors
    ///
    /// `Answered` when the io thread was first; it does not go into the queue.
    pub fn promote(&self) -> Result<(), ExchangeStage> {
        match self.step(ExchangeStage::Waiting, ExchangeStage::Queued) {
            // It is the same in both places.
            Err(ExchangeStage::Abandoned) => Ok(()),
            promoted => promoted,
        }
    }

    /// A worker found it after its deadline, and leaves the answer to the io thread.
    ///
    /// # Errors
    ///
    /// `Answered` when the io thread was first.
    pub fn expire(&self) -> Result<(), ExchangeStage> {
        self.step(ExchangeStage::Queued, ExchangeStage::Answered)
    }

    /// A worker takes the exchange off the queue; returns where it is now: `Running`, or `Orphaned` if it runs for
    /// nobody.
    ///
    /// # Errors
    ///
    /// `Answered` when the io thread was first; the caller drops the entry.
    pub fn claim(&self) -> Result<ExchangeStage, ExchangeStage> {
        match self.step(ExchangeStage::Queued, ExchangeStage::Running) {
            Ok(()) => Ok(ExchangeStage::Running),
            // Nobody but a worker takes it out of there.
            Err(ExchangeStage::Abandoned) => {
                self.step(ExchangeStage::Abandoned, ExchangeStage::Orphaned).map(|()| ExchangeStage::Orphaned)
            }
            Err(other) => Err(other),
        }
    }

    /// The worker is about to hand over the first byte of the head.
    ///
    /// # Errors
    ///
    /// `Orphaned` when the io thread was first, `Overdue` when the watcher was; nothing may be sent.
    pub fn respond(&self) -> Result<(), ExchangeStage> {
        self.step(ExchangeStage::Running, ExchangeStage::Responding)
    }

    /// The watcher answers in the place of a worker whose time limit is over: from `Running`, and if the head is out, from
    /// `Responding` too. Returns the stage it found when that is the one it left, and is the answer the caller's then.
    pub fn overrun(&self, head_is_out: bool) -> Option<ExchangeStage> {
        let from = if head_is_out { ExchangeStage::Responding } else { ExchangeStage::Running };
        self.step(from, ExchangeStage::Overdue).is_ok().then_some(from)
    }

    /// The worker has said all; returns the stage before.
    pub fn finish(&self) -> ExchangeStage {
        // AcqRel: see the type.
        let before = ExchangeStage::from_word(self.0.swap(ExchangeStage::Done as u8, Ordering::AcqRel));
        debug_assert!(
            !matches!(
                before,
                ExchangeStage::Queued
                    | ExchangeStage::Answered
                    | ExchangeStage::Waiting
                    | ExchangeStage::Abandoned
            ),
            "finished without a claim: {before:?}"
        );
        before
    }

    /// The io thread takes the answer away from the workers; returns the stage it found.
    ///
    /// `Waiting`, `Queued`, `Answered` and `Running` mean that the caller owns the answer; `Responding`, `Overdue` and
    /// `Done` mean that the reply is already on its way and nothing changed.
    pub fn withdraw(&self) -> ExchangeStage {
        self.take_away(ExchangeStage::Answered)
    }

    /// The client has left, and what it asked for is to be done all the same: the io thread takes the answer away, and a
    /// worker may still run the exchange. Returns the stage it found, as [`withdraw`](Self::withdraw) does.
    pub fn abandon(&self) -> ExchangeStage {
        self.take_away(ExchangeStage::Abandoned)
    }

    fn take_away(&self, from_the_queue: ExchangeStage) -> ExchangeStage {
        let mut seen = self.stage();
        loop {
            let next = match seen {
                ExchangeStage::Waiting | ExchangeStage::Queued => from_the_queue,
                ExchangeStage::Running => ExchangeStage::Orphaned,
                settled => return settled,
            };
            match self.step(seen, next) {
                Ok(()) => return seen,
                Err(actual) => seen = actual,
            }
        }
    }

    /// The io thread takes the answer if no worker has claimed the exchange; returns the stage it found, whatever it
    /// is: `Waiting`, `Queued` and `Answered` mean that the caller owns the answer.
    pub fn withdraw_unclaimed(&self) -> ExchangeStage {
        let mut seen = self.stage();
        while let ExchangeStage::Waiting | ExchangeStage::Queued = seen {
            match self.step(seen, ExchangeStage::Answered) {
                Ok(()) => return seen,
                Err(actual) => seen = actual,
            }
        }
        seen
    }

    fn step(&self, from: ExchangeStage, to: ExchangeStage) -> Result<(), ExchangeStage> {
        // AcqRel and Acquire: see the type.
        match self.0.compare_exchange(from as u8, to as u8, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => Ok(()),
            Err(actual) => Err(ExchangeStage::from_word(actual)),
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn claim_after_withdraw_loses() {
        let state = ExchangeState::queued();
        assert_eq!(state.withdraw(), ExchangeStage::Queued);
        assert_eq!(state.claim(), Err(ExchangeStage::Answered));
    }

    #[test]
    fn what_is_abandoned_keeps_its_place_and_runs_for_nobody() {
        let state = ExchangeState::queued();
        state.park();
        assert_eq!((state.abandon(), state.promote()), (ExchangeStage::Waiting, Ok(())));
        assert_eq!(
            (state.withdraw(), state.withdraw_unclaimed()),
            (ExchangeStage::Abandoned, ExchangeStage::Abandoned)
        );
        assert_eq!(state.expire(), Err(ExchangeStage::Abandoned));
        assert_eq!(
            (state.claim(), state.respond()),
            (Ok(ExchangeStage::Orphaned), Err(ExchangeStage::Orphaned))
        );
        assert_eq!(state.finish(), ExchangeStage::Orphaned);
        let state = ExchangeState::queued();
        state.claim().unwrap();
        assert_eq!((state.abandon(), state.stage()), (ExchangeStage::Running, ExchangeStage::Orphaned));
    }

    #[test]
    fn respond_after_withdraw_loses() {
        let state = ExchangeState::queued();
        state.claim().unwrap();
        assert_eq!(state.withdraw(), ExchangeStage::Running);
        assert_eq!(state.respond(), Err(ExchangeStage::Orphaned));
        assert_eq!(state.finish(), ExchangeStage::Orphaned);
        assert_eq!(state.stage(), ExchangeStage::Done);
    }

    #[test]
    fn withdraw_after_respond_changes_nothing() {
        let state = ExchangeState::queued();
        state.claim().unwrap();
        state.respond().unwrap();
        assert_eq!(state.withdraw(), ExchangeStage::Responding);
        assert_eq!(state.finish(), ExchangeStage::Responding);
        assert_eq!(state.withdraw(), ExchangeStage::Done);
    }

    #[test]
    fn respond_and_withdraw_after_overrun_lose() {
        let state = ExchangeState::queued();
        state.claim().unwrap();
        assert_eq!(state.overrun(false), Some(ExchangeStage::Running));
        assert_eq!(state.respond(), Err(ExchangeStage::Overdue));
        assert_eq!(state.withdraw(), ExchangeStage::Overdue);
        assert_eq!(state.overrun(false), None, "once");
        assert_eq!(state.finish(), ExchangeStage::Overdue);
        assert_eq!(state.stage(), ExchangeStage::Done);
    }

    #[test]
    fn overrun_takes_a_reply_only_when_its_head_is_out() {
        let state = ExchangeState::queued();
        assert_eq!(state.overrun(false), None, "nobody runs it");
        state.claim().unwrap();
        state.respond().unwrap();
        assert_eq!(state.overrun(false), None, "its head is on its way");
        assert_eq!(state.overrun(true), Some(ExchangeStage::Responding));
        assert_eq!(state.finish(), ExchangeStage::Overdue);
    }

    #[test]
    fn overrun_after_finish_or_withdraw_loses() {
        let [answered, orphaned] = [(); 2].map(|()| ExchangeState::queued());
        answered.claim().unwrap();
        assert_eq!(answered.finish(), ExchangeStage::Running);
        assert_eq!(answered.overrun(false), None);
        orphaned.claim().unwrap();
        assert_eq!(orphaned.withdraw(), ExchangeStage::Running);
        assert_eq!(orphaned.overrun(false), None);
        assert_eq!(orphaned.stage(), ExchangeStage::Orphaned);
    }

    #[test]
    fn promote_after_withdraw_loses() {
        let state = ExchangeState::queued();
        state.park();
        assert_eq!(state.claim(), Err(ExchangeStage::Waiting));
        assert_eq!(state.withdraw(), ExchangeStage::Waiting);
        assert_eq!(state.promote(), Err(ExchangeStage::Answered));
    }

    #[test]
    fn a_promoted_exchange_is_claimed_like_any_other() {
        let state = ExchangeState::queued();
        state.park();
        state.promote().unwrap();
        state.claim().unwrap();
        assert_eq!(state.withdraw_unclaimed(), ExchangeStage::Running, "the worker has it");
        assert_eq!(state.stage(), ExchangeStage::Running);
    }

    #[test]
    fn an_expired_exchange_is_the_io_thread_s_to_answer() {
        let state = ExchangeState::queued();
        state.expire().unwrap();
        assert_eq!(state.claim(), Err(ExchangeStage::Answered));
        assert_eq!(state.withdraw_unclaimed(), ExchangeStage::Answered);
    }

    #[test]
    fn only_one_worker_claims() {
        let state = ExchangeState::queued();
        state.claim().unwrap();
        assert_eq!(state.claim(), Err(ExchangeStage::Running));
    }
}
