//! The state of an exchange: one word, changed only by compare-and-swap, that decides which thread sends the response.
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
//! The I/O thread that owns the client's connection withdraws the exchange (deadline, disconnect, drain). It abandons
//! an exchange that must run although its client has disconnected; the exchange then keeps its place in the waiting set
//! or the queue. A worker claims it, or expires it if it is too late; then it responds and finishes. The watchdog of
//! time limits overruns an exchange whose limit has expired. `Running ──finish──▶ Done` also exists, for a response
//! that is sent in one piece. An exchange starts in `Queued`, and is parked in `Waiting` before another thread sees it.

use super::primitive::{AtomicU8, Ordering};

/// The stage of an exchange; see the diagram of the module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum ExchangeStage {
    /// In the queue, unanswered.
    Queued = 0,
    /// A worker runs it; no response was sent.
    Running = 1,
    /// The head of the response was sent.
    Responding = 2,
    /// The worker has sent the end of the response.
    Done = 3,
    /// The I/O thread sent a response while a worker ran it; the worker's response is dropped.
    Orphaned = 4,
    /// The I/O thread owns the response. If the exchange was queued, it stays in the queue until a worker pops it.
    Answered = 5,
    /// In the waiting set in front of the queue.
    Waiting = 6,
    /// Its time limit expired and the worker did not react: another thread responded, and the worker's response is
    /// dropped.
    Overdue = 7,
    /// In the waiting set or the queue. Its client has disconnected, so that the I/O thread owns the response; it must
    /// run nevertheless.
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
/// Every transition is AcqRel: writes of one side before its transition are visible to the side that makes the next
/// one.
#[derive(Debug)]
pub struct ExchangeState(AtomicU8);

impl ExchangeState {
    /// Starts in `Queued`.
    pub fn queued() -> Self {
        Self(AtomicU8::new(ExchangeStage::Queued as u8))
    }

    /// Returns the stage, which may change at any time.
    pub fn stage(&self) -> ExchangeStage {
        // Acquire: pairs with the AcqRel of the transition that wrote it.
        ExchangeStage::from_word(self.0.load(Ordering::Acquire))
    }

    /// Moves it to the waiting set. Called before any other thread can see it.
    pub fn park(&self) {
        let parked = self.step(ExchangeStage::Queued, ExchangeStage::Waiting);
        debug_assert!(
            matches!(parked, Ok(()) | Err(ExchangeStage::Abandoned)),
            "parked although another thread has seen it: {parked:?}"
        );
    }

    /// Moves it from the waiting set to the queue.
    ///
    /// # Errors
    ///
    /// `Answered` if the I/O thread was first; the exchange does not go into the queue.
    pub fn promote(&self) -> Result<(), ExchangeStage> {
        match self.step(ExchangeStage::Waiting, ExchangeStage::Queued) {
            // `Abandoned` is the same stage in both places.
            Err(ExchangeStage::Abandoned) => Ok(()),
            promoted => promoted,
        }
    }

    /// Leaves the response to the I/O thread, because a worker found the exchange after its deadline.
    ///
    /// # Errors
    ///
    /// `Answered` if the I/O thread was first.
    pub fn expire(&self) -> Result<(), ExchangeStage> {
        self.step(ExchangeStage::Queued, ExchangeStage::Answered)
    }

    /// Claims the exchange for a worker that has taken it off the queue. Returns the new stage: `Running`, or
    /// `Orphaned` if its client has disconnected.
    ///
    /// # Errors
    ///
    /// `Answered` if the I/O thread was first; the caller drops the entry.
    pub fn claim(&self) -> Result<ExchangeStage, ExchangeStage> {
        match self.step(ExchangeStage::Queued, ExchangeStage::Running) {
            Ok(()) => Ok(ExchangeStage::Running),
            // Only a worker leaves this stage.
            Err(ExchangeStage::Abandoned) => {
                self.step(ExchangeStage::Abandoned, ExchangeStage::Orphaned).map(|()| ExchangeStage::Orphaned)
            }
            Err(other) => Err(other),
        }
    }

    /// Records that the worker is about to send the head.
    ///
    /// # Errors
    ///
    /// `Orphaned` if the I/O thread was first, `Overdue` if the watchdog was; the worker must not send anything.
    pub fn respond(&self) -> Result<(), ExchangeStage> {
        self.step(ExchangeStage::Running, ExchangeStage::Responding)
    }

    /// Takes the response from a worker whose time limit has expired: from `Running`, or from `Responding` if the head
    /// was sent. Returns the previous stage; `None` if the exchange was in another one, and the caller does not own the
    /// response.
    pub fn overrun(&self, head_is_out: bool) -> Option<ExchangeStage> {
        let from = if head_is_out { ExchangeStage::Responding } else { ExchangeStage::Running };
        self.step(from, ExchangeStage::Overdue).is_ok().then_some(from)
    }

    /// Records that the worker has sent the end of the response; returns the previous stage.
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

    /// Takes the response from the workers, for the I/O thread; returns the previous stage.
    ///
    /// `Waiting`, `Queued`, `Answered` and `Running` mean that the caller owns the response; `Responding`, `Overdue`
    /// and `Done` mean that the response has already started and nothing changed.
    pub fn withdraw(&self) -> ExchangeStage {
        self.take_away(ExchangeStage::Answered)
    }

    /// Takes the response from the workers because the client has disconnected; a worker may still run the exchange.
    /// Returns the previous stage like [`withdraw`](Self::withdraw).
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

    /// Takes the response for the I/O thread if no worker has claimed the exchange. Returns the previous stage:
    /// `Waiting`, `Queued` and `Answered` mean that the caller owns the response.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn claim_after_withdraw_loses() {
        let state = ExchangeState::queued();
        assert_eq!(state.withdraw(), ExchangeStage::Queued);
        assert_eq!(state.claim(), Err(ExchangeStage::Answered));
    }

    #[test]
    fn an_abandoned_exchange_keeps_its_place_and_runs_without_a_client() {
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
    fn overrun_takes_a_response_only_when_its_head_is_out() {
        let state = ExchangeState::queued();
        assert_eq!(state.overrun(false), None, "no worker runs it");
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
