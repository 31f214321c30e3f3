//! The seats on which idle workers sleep, and the choice of the one to wake.
//!
//! A worker that took its seat before its last check for work cannot miss work published afterwards. Of several
//! sleeping workers, one is woken: an idle one before one with spare capacity, the lowest seat first. The work is not
//! known here; a woken worker looks for it, and wakes the next one if some is left.

use std::sync::OnceLock;

use super::lock::ShortLock;
use super::primitive::{
    Arc, AtomicBool, AtomicU32, AtomicU64, AtomicUsize, CachePadded, Ordering, fence, wait, wake_one,
};

/// Wakes a thread from its sleep.
pub trait Wake: Send + Sync + std::fmt::Debug {
    /// Wakes the thread, or prevents its next sleep. May be called by any thread, even spuriously; must not block.
    fn wake(&self);
}

/// The capacity of a waiting worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Capacity {
    /// It has nothing in flight.
    Idle,
    /// It has jobs in flight, all of which wait, and could take more.
    Spare,
}

/// The seats on which the workers of a pool wait.
///
/// # Ordering
///
/// Both sides put a `SeqCst` fence between their own write (the sleeper's seat, the producer's work) and their read of
/// the other side's, so that at least one of them sees the other (store buffering). The same holds between a worker
/// that leaves work to an idle one and the idle one that leaves its seat.
///
/// # Progress
///
/// `notify_one` is lock-free until it has found a seat, and costs a few loads while no worker waits.
#[derive(Debug)]
pub struct IdleWorkers {
    idle: Marks,
    spare: Marks,
    seats: Box<[CachePadded<WorkerSeat>]>,
    /// The number of mark words ever used.
    words: AtomicUsize,
    fallback: Fallback,
}

/// One bit for each seat.
type Marks = Box<[CachePadded<AtomicU64>]>;

#[derive(Debug, Default)]
struct WorkerSeat {
    /// The number of wake-ups of the worker. A parked worker sleeps on this word.
    rings: AtomicU32,
    /// Held briefly: to copy a handle. `None` for a worker that sleeps on `rings`.
    waker: ShortLock<Option<Arc<dyn Wake>>>,
}

/// The fallback to wake if no worker waits: the supervisor.
#[derive(Debug, Default)]
struct Fallback {
    is_armed: AtomicBool,
    waker: OnceLock<Arc<dyn Wake>>,
}

impl IdleWorkers {
    /// Creates `seats` vacant seats.
    pub fn new(seats: usize) -> Self {
        let words = seats.div_ceil(SEATS_PER_WORD);
        let marks = || (0..words).map(|_| CachePadded::new(AtomicU64::new(0))).collect();
        Self {
            idle: marks(),
            spare: marks(),
            seats: (0..seats).map(|_| CachePadded::new(WorkerSeat::default())).collect(),
            words: AtomicUsize::new(0),
            fallback: Fallback::default(),
        }
    }

    /// Returns the number of seats.
    pub fn seats(&self) -> usize {
        self.seats.len()
    }

    /// Sets what wakes the worker of `seat`; `None` if the worker [parks](Self::park).
    pub fn set_waker(&self, seat: usize, waker: Option<Arc<dyn Wake>>) {
        let old = std::mem::replace(&mut *self.seats[seat].waker.lock(), waker);
        drop(old);
    }

    /// Sets the waker that is called if no worker waits, after [`arm_fallback`](Self::arm_fallback). Only the first
    /// call has an effect.
    pub fn set_fallback(&self, waker: Arc<dyn Wake>) {
        // Later calls are ignored.
        let _ = self.fallback.waker.set(waker);
    }

    /// Makes the next notification that finds no waiting worker wake the fallback, once. The caller must check for
    /// earlier work afterwards.
    pub fn arm_fallback(&self) {
        self.fallback.is_armed.store(true, Ordering::Relaxed);
        // SeqCst: pairs with the fence in `notify_one`.
        fence(Ordering::SeqCst);
    }

    /// Takes the seat of a worker that is about to sleep. The worker must then check for work once more, and sleep or
    /// [leave the seat](Self::unpark).
    pub fn prepare_park(&self, seat: usize, capacity: Capacity) {
        let (word, bit) = place(seat);
        if self.words.load(Ordering::Relaxed) <= word {
            self.words.fetch_max(word + 1, Ordering::Relaxed);
        }
        self.marks(capacity)[word].fetch_or(bit, Ordering::Relaxed);
        // SeqCst: pairs with the fences in `notify_one`, `wake` and `unpark`.
        fence(Ordering::SeqCst);
    }

    /// Leaves the seat. The worker must check for work afterwards, since it may have been notified in between.
    pub fn unpark(&self, seat: usize) {
        let (word, bit) = place(seat);
        for marks in [&self.idle, &self.spare] {
            if marks[word].load(Ordering::Relaxed) & bit != 0 {
                marks[word].fetch_and(!bit, Ordering::Relaxed);
            }
        }
        // SeqCst: pairs with the fence in `prepare_park` of a worker that leaves work to this one.
        fence(Ordering::SeqCst);
    }

    /// Sleeps on `seat` until woken, perhaps spuriously; not at all if `is_needed` returns true once the seat is taken.
    pub fn park(&self, seat: usize, is_needed: impl FnOnce() -> bool) {
        let rings = &self.seats[seat].rings;
        // Acquire: pairs with the Release in `wake`; what happened before a ring that is seen here is visible.
        let before = rings.load(Ordering::Acquire);
        self.prepare_park(seat, Capacity::Idle);
        if !is_needed() {
            wait(rings, before);
        }
        self.unpark(seat);
    }

    /// Returns whether an idle worker waits.
    pub fn has_idle(&self) -> bool {
        self.idle[..self.words_in_use()].iter().any(|word| word.load(Ordering::Relaxed) != 0)
    }

    /// Wakes one waiting worker, preferably an idle one, or else the fallback. The caller must have published its work.
    pub fn notify_one(&self) {
        // SeqCst: pairs with the fences in `prepare_park` and `arm_fallback`.
        fence(Ordering::SeqCst);
        let words = self.words_in_use();
        let taken = [&self.idle, &self.spare].into_iter().find_map(|marks| take_lowest(&marks[..words]));
        match taken {
            Some(seat) => self.wake(seat),
            None => self.wake_armed_fallback(),
        }
    }

    /// Wakes the fallback unconditionally.
    pub fn wake_fallback(&self) {
        if let Some(waker) = self.fallback.waker.get() {
            waker.wake();
        }
    }

    /// Wakes the worker of `seat`, even if it does not wait. The caller must have written the state for the worker
    /// before.
    pub fn wake(&self, seat: usize) {
        // SeqCst: pairs with the fence in `prepare_park`.
        fence(Ordering::SeqCst);
        let seat = &self.seats[seat];
        let waker = seat.waker.lock().clone();
        match waker {
            Some(waker) => waker.wake(),
            None => {
                // Release: pairs with the Acquire in `park`.
                seat.rings.fetch_add(1, Ordering::Release);
                wake_one(&raw const seat.rings);
            }
        }
    }

    /// Wakes all workers.
    pub fn wake_all(&self) {
        (0..self.seats.len()).for_each(|seat| self.wake(seat));
    }

    #[cold]
    fn wake_armed_fallback(&self) {
        if self.fallback.is_armed.load(Ordering::Relaxed)
            && self.fallback.is_armed.swap(false, Ordering::Relaxed)
        {
            self.wake_fallback();
        }
    }

    fn words_in_use(&self) -> usize {
        self.words.load(Ordering::Relaxed)
    }

    fn marks(&self, capacity: Capacity) -> &Marks {
        match capacity {
            Capacity::Idle => &self.idle,
            Capacity::Spare => &self.spare,
        }
    }
}

const SEATS_PER_WORD: usize = u64::BITS as usize;

/// Returns the word and the bit of a seat.
fn place(seat: usize) -> (usize, u64) {
    (seat / SEATS_PER_WORD, 1 << (seat % SEATS_PER_WORD))
}

/// Removes the lowest mark and returns its seat.
fn take_lowest(marks: &[CachePadded<AtomicU64>]) -> Option<usize> {
    for (index, word) in marks.iter().enumerate() {
        let mut bits = word.load(Ordering::Relaxed);
        while bits != 0 {
            let bit = bits & bits.wrapping_neg();
            // AcqRel: only one of several callers gets the mark, and it sees the writes of the worker before it took
            // the seat.
            let before = word.fetch_and(!bit, Ordering::AcqRel);
            if before & bit != 0 {
                return Some(index * SEATS_PER_WORD + bit.trailing_zeros() as usize);
            }
            bits = before & !bit;
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Counts its wake-ups.
    #[derive(Debug, Default)]
    struct Rung(AtomicU32);

    impl Wake for Rung {
        fn wake(&self) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    impl Rung {
        fn on(idle_workers: &IdleWorkers, seat: usize) -> Arc<Self> {
            let rung = Arc::<Self>::default();
            idle_workers.set_waker(seat, Some(Arc::<Self>::clone(&rung)));
            rung
        }

        fn times(&self) -> u32 {
            self.0.load(Ordering::Relaxed)
        }
    }

    #[test]
    fn an_idle_seat_is_called_before_a_spare_one_and_the_lowest_first() {
        let idle_workers = IdleWorkers::new(130);
        let rung: Vec<_> = (0..130).map(|seat| Rung::on(&idle_workers, seat)).collect();
        idle_workers.prepare_park(0, Capacity::Spare);
        idle_workers.prepare_park(129, Capacity::Idle);
        idle_workers.prepare_park(70, Capacity::Idle);
        let mut order = Vec::new();
        for _ in 0..4 {
            let before: Vec<_> = rung.iter().map(|one| one.times()).collect();
            idle_workers.notify_one();
            order.extend((0..130).find(|seat| rung[*seat].times() > before[*seat]));
        }
        assert_eq!(order, [70, 129, 0]);
        assert!(!idle_workers.has_idle());
    }

    #[test]
    fn a_worker_that_wakes_is_not_called() {
        let idle_workers = IdleWorkers::new(1);
        let rung = Rung::on(&idle_workers, 0);
        idle_workers.prepare_park(0, Capacity::Idle);
        idle_workers.unpark(0);
        idle_workers.notify_one();
        assert_eq!(rung.times(), 0);
    }

    #[test]
    fn a_needed_worker_does_not_rest() {
        let idle_workers = IdleWorkers::new(1);
        idle_workers.park(0, || true);
        idle_workers.park(0, || {
            idle_workers.notify_one();
            false
        });
        assert!(!idle_workers.has_idle());
    }

    #[test]
    fn the_fallback_is_woken_once_if_armed_and_no_worker_is_idle() {
        let (idle_workers, fallback) = (IdleWorkers::new(1), Arc::<Rung>::default());
        let rung = Rung::on(&idle_workers, 0);
        idle_workers.set_fallback(Arc::<Rung>::clone(&fallback));
        idle_workers.notify_one();
        assert_eq!(fallback.times(), 0, "it is not armed");
        idle_workers.arm_fallback();
        idle_workers.prepare_park(0, Capacity::Idle);
        idle_workers.notify_one();
        assert_eq!((rung.times(), fallback.times()), (1, 0));
        idle_workers.notify_one();
        idle_workers.notify_one();
        assert_eq!((rung.times(), fallback.times()), (1, 1));
    }

    #[test]
    fn all_workers_can_be_woken() {
        let (idle_workers, ended) = (IdleWorkers::new(3), AtomicBool::new(false));
        std::thread::scope(|scope| {
            for seat in 0..3 {
                let (idle_workers, ended) = (&idle_workers, &ended);
                scope.spawn(move || {
                    while !ended.load(Ordering::Acquire) {
                        idle_workers.park(seat, || ended.load(Ordering::Acquire));
                    }
                });
            }
            ended.store(true, Ordering::Release);
            idle_workers.wake_all();
        });
    }
}
