//! Completions: one thread completes something once, at any time, and a waiter on another thread may wait for that.
//!
//! Promises: a waiter that has started to wait before the completion is woken, and one that starts later finds it
//! complete. Whatever the completing thread wrote before is visible to the waiter. Neither end needs the other: a
//! waiter may give up, its thread may end, and a completer may be lost. Refuses: a completion carries no result (its
//! users publish one before they complete), and nothing here sleeps: the waiter's thread does, until its [`Wake`] is
//! called.

use super::idle_workers::Wake;
use super::primitive::{Arc, AtomicU32, AtomicU64, CachePadded, Ordering, fence};

/// The waiters of one thread for which other threads have completed something.
///
/// The thread numbers its waiters, and may reuse the number of a waiter that has stopped waiting. Waiters whose numbers
/// leave the same remainder when divided by [`GROUPS`](Self::GROUPS) are a group, and woken together. A waiter that is
/// woken therefore checks what is complete, and may find nothing.
///
/// # Ordering
///
/// A completion is stored before the waiter's bit (Release), and the bit is taken (Acquire) before the waiter checks.
/// Whoever sets the first bit of a word wakes the thread afterwards; later bits in that word are taken together with
/// the first one, or set a first bit again. The thread sees the bits of whoever has woken it, even if its [`Wake`]
/// orders nothing: on both sides, a fence separates the bits from the wake-up.
///
/// # Progress
///
/// `wake` is wait-free: one atomic operation, and a call of [`Wake`] unless another one is pending.
#[derive(Debug)]
pub struct WakeSet {
    /// Written by all threads that complete something; padded because the waiters' thread writes what is around it.
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

    /// Takes the groups of the waiters that have been woken. Called by their thread, after it has consumed its wake-ups and before it
    /// sleeps.
    pub fn take(&self, mut woken: impl FnMut(u32)) {
        // Acquire: pairs with the fence in `wake`.
        fence(Ordering::Acquire);
        for (first, word) in (0..).step_by(64).zip(self.words.iter()) {
            // Relaxed: the wake-up of a bit that is missed here is still to come.
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
///   any of them ─▶ Abandoned            drop the Awaited: nobody is woken
/// ```
pub fn completion(wakes: &Arc<WakeSet>) -> (Awaited, Completer) {
    let shared = Arc::new(CompletionState { bits: AtomicU32::new(0), wakes: Arc::clone(wakes) });
    (Awaited(Arc::clone(&shared)), Completer(shared))
}

/// The word that the two ends share.
///
/// # Ordering
///
/// What the completing thread wrote is published by the bit `COMPLETE` (Release) and seen by whoever finds it (Acquire).
/// The other bits publish nothing.
///
/// # Progress
///
/// All operations are wait-free.
#[derive(Debug)]
struct CompletionState {
    /// [`COMPLETE`], [`ABANDONED`], and above them the number of the waiter plus one; 0 if nobody waits.
    bits: AtomicU32,
    wakes: Arc<WakeSet>,
}

const COMPLETE: u32 = 1;
const ABANDONED: u32 = 2;
const WAITER_SHIFT: u32 = 2;

/// The end that is waited for. Dropping it abandons the completion.
#[derive(Debug)]
pub struct Awaited(Arc<CompletionState>);

impl Awaited {
    /// The waiter with this number waits from now on. Returns false if the completion is complete already; nobody is
    /// woken then.
    pub fn wait(&self, waiter: u32) -> bool {
        debug_assert!(waiter < u32::MAX >> WAITER_SHIFT, "{waiter}");
        // Acquire: pairs with the Release in `complete`.
        let before = self.0.bits.fetch_or((waiter + 1) << WAITER_SHIFT, Ordering::Acquire);
        let others = before & !COMPLETE & !((waiter + 1) << WAITER_SHIFT);
        debug_assert!(others == 0, "one waiter at a time: {before:b}");
        before & COMPLETE == 0
    }

    /// Stops waiting. Returns whether the completion is complete. Whoever completes it at this moment may still wake the
    /// waiter, needlessly.
    pub fn stop_waiting(&self) -> bool {
        // Acquire: pairs with the Release in `complete`.
        self.0.bits.fetch_and(COMPLETE, Ordering::Acquire) & COMPLETE != 0
    }

    /// Whether it is complete.
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

/// The end that completes. Dropping it completes, so that nobody waits for a lost job.
#[derive(Debug)]
pub struct Completer(Arc<CompletionState>);

impl Completer {
    /// Completes it, and wakes its waiter. Later calls change nothing. On any thread.
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

    /// Whether anybody may still wait for it. If not, the job need not be done.
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
    fn who_waits_is_woken_once() {
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
    fn who_comes_late_does_not_wait() {
        let (thread, wakes) = thread();
        let (awaited, completer) = completion(&wakes);
        completer.complete();
        assert!(!awaited.wait(0) && awaited.stop_waiting());
        assert!(!awaited.wait(1), "and is told each time");
        assert_eq!((taken(&wakes), thread.0.value()), (vec![], 0));
    }

    #[test]
    fn who_has_given_up_waiting_is_not_woken_and_may_wait_again() {
        let (thread, wakes) = thread();
        let (awaited, completer) = completion(&wakes);
        assert!(awaited.wait(3) && !awaited.stop_waiting());
        assert!(awaited.wait(255));
        completer.complete();
        assert_eq!((taken(&wakes), thread.0.value()), (vec![255], 1));
    }

    #[test]
    fn an_abandoned_job_learns_of_it_and_wakes_nobody() {
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
    fn a_thread_is_woken_once_for_neighbours_and_hears_of_all() {
        let (thread, wakes) = thread();
        let ends: Vec<_> = [1, 63, 64, 255, 2].map(|waiter| (waiter, completion(&wakes))).into();
        for (waiter, (awaited, completer)) in &ends {
            assert!(awaited.wait(*waiter));
            completer.complete();
        }
        assert_eq!((taken(&wakes), thread.0.value()), (vec![1, 2, 63, 64, 255], 3));
    }
}
