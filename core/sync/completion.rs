//! Completions: a one-shot signal from any thread to a waiter on another thread.
//!
//! A waiter that starts to wait before the completion is woken; one that starts later finds it complete. Writes of the
//! completing thread before the completion are visible to the waiter. The ends are independent: a waiter may give up,
//! its thread may end, and a completer may be dropped. A completion carries no result (publish it before completing).
//! This module never sleeps; the waiter's thread does, until its [`Wake`] is called.

use super::idle_workers::Wake;
use super::primitive::{Arc, AtomicU32, AtomicU64, CachePadded, Ordering, fence};

/// The waiters of one thread for which other threads have completed something.
///
/// The thread numbers its waiters, and may reuse the number of a waiter that has stopped waiting. Waiters whose numbers
/// leave the same remainder when divided by [`GROUPS`](Self::GROUPS) form a group and are woken together. A woken
/// waiter must therefore check its completion, which may still be pending.
///
/// # Ordering
///
/// A completion is stored before the waiter's bit (Release), and the bit is taken (Acquire) before the waiter checks.
/// The thread that sets the first bit of a word calls [`Wake`] afterwards; later bits in that word are taken together
/// with the first one, or set a first bit again. The woken thread sees the bits set before the wake-up, even if its
/// [`Wake`] orders nothing: on both sides, a fence separates the bits from the wake-up.
///
/// # Progress
///
/// `wake` is wait-free: one atomic operation, and a call of [`Wake`] unless another one is pending.
#[derive(Debug)]
pub struct WakeSet {
    /// Written by all completing threads; padded because the waiters' thread writes the neighbouring fields.
    words: CachePadded<[AtomicU64; Self::WORDS]>,
    thread: Arc<dyn Wake>,
}

impl WakeSet {
    const WORDS: usize = 4;

    /// The number of groups.
    pub const GROUPS: u32 = 64 * Self::WORDS as u32;

    /// Creates the set of a thread that `thread` wakes.
    pub fn new(thread: Arc<dyn Wake>) -> Arc<Self> {
        Arc::new(Self { words: CachePadded::new(std::array::from_fn(|_| AtomicU64::new(0))), thread })
    }

    /// Takes the groups of woken waiters. Called by their thread, after it has consumed its wake-ups and before it
    /// sleeps.
    pub fn take(&self, mut woken: impl FnMut(u32)) {
        // Acquire: pairs with the fence in `wake`.
        fence(Ordering::Acquire);
        for (first, word) in (0..).step_by(64).zip(self.words.iter()) {
            // Relaxed: a bit that is missed here is followed by a wake-up.
            if word.load(Ordering::Relaxed) == 0 {
                continue;
            }
            // Acquire: pairs with the Release in `wake`; the completions of these waiters are seen.
            let mut bits = word.swap(0, Ordering::Acquire);
            while bits != 0 {
                woken(first + bits.trailing_zeros());
                bits &= bits - 1;
            }
        }
    }

    fn wake(&self, waiter: u32) {
        let group = waiter % Self::GROUPS;
        let (word, bit) = (&self.words[group as usize / 64], 1 << (group % 64));
        // Release: pairs with the Acquire in `take`.
        if word.fetch_or(bit, Ordering::Release) == 0 {
            // Release: pairs with the fence in `take`.
            fence(Ordering::Release);
            self.thread.wake();
        }
    }
}

/// Creates a completion that waiters of the thread of `wakes` can wait for, and returns its two ends.
///
/// The ends share one word, which is freed with the second of them. Each end may be dropped at any time, in any order,
/// even after the waiter's thread has ended: the word keeps the [`WakeSet`] alive, and waking a thread that has ended
/// has no effect.
///
/// ```text
///              wait(w)
///   Pending ─────────────▶ Waited by w
///      │    ◀─────────────      │
///      │      stop_waiting      │ complete, or drop the Completer: w is woken, once
///      ▼                        ▼
///   Complete ◀────────────────────
///
///   any of them ─▶ Abandoned            drop the Awaited: no task is woken
/// ```
pub fn completion(wakes: &Arc<WakeSet>) -> (Awaited, Completer) {
    let shared = Arc::new(CompletionState { bits: AtomicU32::new(0), wakes: Arc::clone(wakes) });
    (Awaited(Arc::clone(&shared)), Completer(shared))
}

/// The word that the two ends share.
///
/// # Ordering
///
/// Writes of the completing thread are published by the bit `COMPLETE` (Release) and visible to a thread that finds it
/// (Acquire). The other bits publish nothing.
///
/// # Progress
///
/// All operations are wait-free.
#[derive(Debug)]
struct CompletionState {
    /// [`COMPLETE`], [`ABANDONED`], and above them the number of the waiter plus one; 0 without a waiter.
    bits: AtomicU32,
    wakes: Arc<WakeSet>,
}

const COMPLETE: u32 = 1;
const ABANDONED: u32 = 2;
const WAITER_SHIFT: u32 = 2;

/// The waiting end. Dropping it abandons the completion.
#[derive(Debug)]
pub struct Awaited(Arc<CompletionState>);

impl Awaited {
    /// Registers the waiter with this number. Returns false if the completion is already complete; the waiter is not
    /// woken then.
    pub fn wait(&self, waiter: u32) -> bool {
        debug_assert!(waiter < u32::MAX >> WAITER_SHIFT, "{waiter}");
        // Acquire: pairs with the Release in `complete`.
        let before = self.0.bits.fetch_or((waiter + 1) << WAITER_SHIFT, Ordering::Acquire);
        let others = before & !COMPLETE & !((waiter + 1) << WAITER_SHIFT);
        debug_assert!(others == 0, "one waiter at a time: {before:b}");
        before & COMPLETE == 0
    }

    /// Stops waiting. Returns whether the completion is complete. A concurrent completion may still wake the waiter
    /// spuriously.
    pub fn stop_waiting(&self) -> bool {
        // Acquire: pairs with the Release in `complete`.
        self.0.bits.fetch_and(COMPLETE, Ordering::Acquire) & COMPLETE != 0
    }

    /// Returns whether it is complete.
    pub fn is_complete(&self) -> bool {
        // Acquire: pairs with the Release in `complete`.
        self.0.bits.load(Ordering::Acquire) & COMPLETE != 0
    }
}

impl Drop for Awaited {
    fn drop(&mut self) {
        self.0.bits.fetch_or(ABANDONED, Ordering::Relaxed);
    }
}

/// The completing end. Dropping it completes, so that no waiter hangs on a lost job.
#[derive(Debug)]
pub struct Completer(Arc<CompletionState>);

impl Completer {
    /// Completes and wakes the waiter. Later calls have no effect. May be called on any thread.
    pub fn complete(&self) {
        // Release: pairs with the Acquires of `Awaited`.
        let before = self.0.bits.fetch_or(COMPLETE, Ordering::Release);
        if before & (COMPLETE | ABANDONED) != 0 {
            return;
        }
        if let Some(waiter) = (before >> WAITER_SHIFT).checked_sub(1) {
            self.0.wakes.wake(waiter);
        }
    }

    /// Returns whether a waiter may still need the completion. If not, the job can be skipped.
    pub fn is_wanted(&self) -> bool {
        self.0.bits.load(Ordering::Relaxed) & ABANDONED == 0
    }
}

impl Drop for Completer {
    fn drop(&mut self) {
        self.complete();
    }
}

#[cfg(test)]
mod tests {
    use super::super::counter::Counter;
    use super::*;

    #[derive(Debug, Default)]
    struct Thread(Counter);

    impl Wake for Thread {
        fn wake(&self) {
            self.0.incr();
        }
    }

    fn thread() -> (Arc<Thread>, Arc<WakeSet>) {
        let thread = Arc::new(Thread::default());
        (Arc::clone(&thread), WakeSet::new(thread))
    }

    fn taken(wakes: &WakeSet) -> Vec<u32> {
        let mut taken = Vec::new();
        wakes.take(|waiter| taken.push(waiter));
        taken
    }

    #[test]
    fn a_waiter_is_woken_once() {
        let (thread, wakes) = thread();
        let (awaited, completer) = completion(&wakes);
        assert!(awaited.wait(7) && !awaited.is_complete());
        completer.complete();
        completer.complete();
        drop(completer);
        assert_eq!((taken(&wakes), thread.0.value()), (vec![7], 1));
        assert!(awaited.stop_waiting() && taken(&wakes).is_empty());
    }

    #[test]
    fn a_late_waiter_does_not_wait() {
        let (thread, wakes) = thread();
        let (awaited, completer) = completion(&wakes);
        completer.complete();
        assert!(!awaited.wait(0) && awaited.stop_waiting());
        assert!(!awaited.wait(1), "and is notified each time");
        assert_eq!((taken(&wakes), thread.0.value()), (vec![], 0));
    }

    #[test]
    fn a_waiter_that_gave_up_is_not_woken_and_may_wait_again() {
        let (thread, wakes) = thread();
        let (awaited, completer) = completion(&wakes);
        assert!(awaited.wait(3) && !awaited.stop_waiting());
        assert!(awaited.wait(255));
        completer.complete();
        assert_eq!((taken(&wakes), thread.0.value()), (vec![255], 1));
    }

    #[test]
    fn an_abandoned_job_is_noticed_and_wakes_no_waiter() {
        let (thread, wakes) = thread();
        let (awaited, completer) = completion(&wakes);
        assert!(awaited.wait(3) && completer.is_wanted());
        drop(awaited);
        assert!(!completer.is_wanted());
        completer.complete();
        assert!(!completer.is_wanted());
        assert_eq!((taken(&wakes), thread.0.value()), (vec![], 0));
    }

    #[test]
    fn a_lost_job_is_complete() {
        let (_, wakes) = thread();
        let (awaited, completer) = completion(&wakes);
        assert!(awaited.wait(3));
        drop(completer);
        assert!(awaited.is_complete());
        assert_eq!(taken(&wakes), [3]);
    }

    #[test]
    fn a_completion_outlives_the_thread_that_it_was_for() {
        let (thread, wakes) = thread();
        let (awaited, completer) = completion(&wakes);
        assert!(awaited.wait(3));
        drop((awaited, wakes));
        completer.complete();
        drop(completer);
        assert_eq!(Arc::strong_count(&thread), 1, "and frees what was left of it");
    }

    #[test]
    fn waiters_of_a_group_are_woken_together_whatever_their_numbers() {
        let (thread, wakes) = thread();
        let ends: Vec<_> = [3, 256 + 3, 65_536 + 3].map(|waiter| (waiter, completion(&wakes))).into();
        for (waiter, (awaited, completer)) in &ends {
            assert!(awaited.wait(*waiter));
            completer.complete();
        }
        assert_eq!((taken(&wakes), thread.0.value()), (vec![3], 1));
        assert!(ends.iter().all(|(_, (awaited, _))| awaited.is_complete()));
    }

    #[test]
    fn a_thread_is_woken_once_for_all_completions_of_a_group() {
        let (thread, wakes) = thread();
        let ends: Vec<_> = [1, 63, 64, 255, 2].map(|waiter| (waiter, completion(&wakes))).into();
        for (waiter, (awaited, completer)) in &ends {
            assert!(awaited.wait(*waiter));
            completer.complete();
        }
        assert_eq!((taken(&wakes), thread.0.value()), (vec![1, 2, 63, 64, 255], 3));
    }
}
