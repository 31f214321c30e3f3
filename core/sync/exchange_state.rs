//! Who answers a request: one word, changed by compare-and-swap only.
//!
//! ```text
//!   Queued ──claim──▶ Running ──respond──▶ Responding ──finish──▶ Done
//!     │                 │                                          ▲
//!     │ withdraw        │ withdraw                                 │
//!     ▼                 ▼                                          │
//!   Answered          Orphaned ───────────────finish───────────────┘
//! ```
//!
//! The io thread that owns the client's connection withdraws (deadline, hang-up, drain); a worker claims, responds
//! and finishes. `Running ──finish──▶ Done` also exists: a reply that is handed over in one piece.

use super::primitive::{AtomicU8, Ordering};

/// Where an exchange is in its life; see the module's diagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Stage {
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
    /// The io thread answered it before a worker took it; it stays in the queue until popped.
    Answered = 5,
}

impl Stage {
    fn from_word(word: u8) -> Self {
        match word {
            0 => Self::Queued,
            1 => Self::Running,
            2 => Self::Responding,
            3 => Self::Done,
            4 => Self::Orphaned,
            _ => Self::Answered,
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
        Self(AtomicU8::new(Stage::Queued as u8))
    }

    /// Reads the stage; it may be older than the caller's next step.
    pub fn stage(&self) -> Stage {
        // Acquire: pairs with the AcqRel of the transition that wrote it.
        Stage::from_word(self.0.load(Ordering::Acquire))
    }

    /// A worker takes the exchange off the queue.
    ///
    /// # Errors
    ///
    /// `Answered` when the io thread was first; the caller drops the entry.
    pub fn claim(&self) -> Result<(), Stage> {
        self.step(Stage::Queued, Stage::Running)
    }

    /// The worker is about to hand over the first byte of the head.
    ///
    /// # Errors
    ///
    /// `Orphaned` when the io thread was first; nothing may be sent.
    pub fn respond(&self) -> Result<(), Stage> {
        self.step(Stage::Running, Stage::Responding)
    }

    /// The worker has said all; returns the stage before.
    pub fn finish(&self) -> Stage {
        // AcqRel: see the type.
        let before = Stage::from_word(self.0.swap(Stage::Done as u8, Ordering::AcqRel));
        debug_assert!(
            !matches!(before, Stage::Queued | Stage::Answered),
            "finished without a claim: {before:?}"
        );
        before
    }

    /// The io thread takes the answer away from the workers; returns the stage it found.
    ///
    /// `Queued` and `Running` mean that the caller now owns the answer; `Responding` and `Done` mean that the reply
    /// is already on its way and nothing changed.
    pub fn withdraw(&self) -> Stage {
        let mut seen = self.stage();
        loop {
            let next = match seen {
                Stage::Queued => Stage::Answered,
                Stage::Running => Stage::Orphaned,
                settled => return settled,
            };
            match self.step(seen, next) {
                Ok(()) => return seen,
                Err(actual) => seen = actual,
            }
        }
    }

    /// The io thread takes the answer if no worker has claimed the exchange; returns whether it has it now.
    pub fn withdraw_from_queue(&self) -> bool {
        self.step(Stage::Queued, Stage::Answered).is_ok()
    }

    fn step(&self, from: Stage, to: Stage) -> Result<(), Stage> {
        // AcqRel and Acquire: see the type.
        match self.0.compare_exchange(from as u8, to as u8, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => Ok(()),
            Err(actual) => Err(Stage::from_word(actual)),
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn claim_after_withdraw_loses() {
        let state = ExchangeState::queued();
        assert_eq!(state.withdraw(), Stage::Queued);
        assert_eq!(state.claim(), Err(Stage::Answered));
    }

    #[test]
    fn respond_after_withdraw_loses() {
        let state = ExchangeState::queued();
        state.claim().unwrap();
        assert_eq!(state.withdraw(), Stage::Running);
        assert_eq!(state.respond(), Err(Stage::Orphaned));
        assert_eq!(state.finish(), Stage::Orphaned);
        assert_eq!(state.stage(), Stage::Done);
    }

    #[test]
    fn withdraw_after_respond_changes_nothing() {
        let state = ExchangeState::queued();
        state.claim().unwrap();
        state.respond().unwrap();
        assert_eq!(state.withdraw(), Stage::Responding);
        assert_eq!(state.finish(), Stage::Responding);
        assert_eq!(state.withdraw(), Stage::Done);
    }

    #[test]
    fn only_one_worker_claims() {
        let state = ExchangeState::queued();
        state.claim().unwrap();
        assert_eq!(state.claim(), Err(Stage::Running));
    }
}
