//! The threads of the pool.
//!
//! Promises: a worker counts as busy from the claim of an exchange until its engine has returned, and as current
//! while its thread serves; both readings come from facts, so a thread that dies cannot stay in them. Refuses: it
//! neither scales nor replaces threads.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use crate::limits::PHP_STACK_BYTES;
use crate::sync::lock::ShortLock;
use crate::sync::primitive::{Arc, AtomicBool, AtomicU64, AtomicUsize, CachePadded, Ordering};
use crate::time;

use super::engine::Engine;
use super::exchange::Exchange;

/// Where workers get their work.
pub trait Source: Send + Sync + std::fmt::Debug + 'static {
    /// Takes the oldest exchange; sleeps until there is one; `None` when there will be no more.
    fn take(&self) -> Option<Arc<Exchange>>;
}

/// Told what happens on worker threads. Called on the worker's thread; must not block.
pub trait PoolEvents: Send + Sync + 'static {
    /// A worker took an exchange that waited for `waited`, and runs it.
    fn taken(&self, exchange: &Exchange, waited: Duration);
    /// A worker took an exchange off the queue that had been answered meanwhile, or was too late to run.
    fn found_answered(&self, exchange: &Exchange);
    /// A worker ran an exchange for `ran`.
    fn served(&self, exchange: &Exchange, ran: Duration);
    /// A worker failed after it had accepted the exchange, which got its 500 if nothing had been sent.
    fn dropped(&self, exchange: &Exchange);
    /// The thread of slot `slot` could not start or has ended, for this reason.
    fn worker_lost(&self, slot: usize, reason: &str);
}

/// A reading of the pool.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PoolFacts {
    /// Threads that serve or are about to.
    pub current: usize,
    /// Threads that run at least one request; never more than `current`.
    pub busy: usize,
    /// The configured minimum.
    pub min: usize,
    /// The configured maximum.
    pub max: usize,
    /// Threads started since the server started.
    pub spawned: u64,
}

/// A static set of worker threads.
#[derive(Debug)]
pub struct Workers {
    shared: Arc<Shared>,
    threads: ShortLock<Vec<JoinHandle<()>>>,
}

#[derive(Debug)]
struct Shared {
    source: Arc<dyn Source>,
    /// One word a slot, each written by its own thread only.
    busy: Vec<CachePadded<AtomicBool>>,
    current: AtomicUsize,
    spawned: AtomicU64,
}

impl Workers {
    /// Starts `count` threads that take from `source` and run through `engine`.
    ///
    /// # Errors
    ///
    /// When the system gives no thread. Threads whose engine does not start are reported to `events` instead.
    pub fn start(
        count: usize,
        engine: &Arc<dyn Engine>,
        source: Arc<dyn Source>,
        events: &Arc<dyn PoolEvents>,
    ) -> io::Result<Self> {
        let shared = Arc::new(Shared {
            source,
            busy: (0..count).map(|_| CachePadded::new(AtomicBool::new(false))).collect(),
            current: AtomicUsize::new(0),
            spawned: AtomicU64::new(0),
        });
        let mut threads = Vec::with_capacity(count);
        for slot in 0..count {
            let (shared, engine, events) = (Arc::clone(&shared), Arc::clone(engine), Arc::clone(events));
            shared.current.fetch_add(1, Ordering::Relaxed);
            shared.spawned.fetch_add(1, Ordering::Relaxed);
            let thread = thread::Builder::new()
                .name(format!("svc-php-{slot}"))
                .stack_size(PHP_STACK_BYTES)
                .spawn(move || run(slot, &shared, &*engine, &*events))?;
            threads.push(thread);
        }
        Ok(Self { shared, threads: ShortLock::new(threads) })
    }

    /// Reads the pool. The readings are taken one after the other, `busy` first, and made consistent.
    pub fn facts(&self) -> PoolFacts {
        let busy = self.shared.busy.iter().filter(|slot| slot.load(Ordering::Relaxed)).count();
        let current = self.shared.current.load(Ordering::Relaxed);
        let count = self.shared.busy.len();
        let spawned = self.shared.spawned.load(Ordering::Relaxed);
        PoolFacts { current, busy: busy.min(current), min: count, max: count, spawned }
    }

    /// The number of threads that serve or are about to.
    pub fn current(&self) -> usize {
        self.shared.current.load(Ordering::Relaxed)
    }

    /// Waits until every thread has ended; the source must have ended. Returns whether all ended in order.
    pub fn join(&self) -> bool {
        let threads = std::mem::take(&mut *self.threads.lock());
        // Every one is waited for, also behind one that failed.
        threads.into_iter().filter_map(|thread| thread.join().err()).count() == 0
    }

    /// The number of threads that have not ended.
    pub fn unfinished(&self) -> usize {
        self.threads.lock().iter().filter(|thread| !thread.is_finished()).count()
    }
}

/// Takes the thread out of the pool's facts, however it ends.
struct Presence<'a> {
    shared: &'a Shared,
    slot: usize,
}

impl Drop for Presence<'_> {
    fn drop(&mut self) {
        self.shared.busy[self.slot].store(false, Ordering::Relaxed);
        self.shared.current.fetch_sub(1, Ordering::Relaxed);
    }
}

fn run(slot: usize, shared: &Shared, engine: &dyn Engine, events: &dyn PoolEvents) {
    let presence = Presence { shared, slot };
    let mut worker = match engine.start(slot) {
        Ok(worker) => worker,
        Err(error) => {
            drop(presence);
            events.worker_lost(slot, &error.to_string());
            return;
        }
    };
    while let Some(exchange) = shared.source.take() {
        let taken_at = time::now();
        if exchange.claim(taken_at).is_err() {
            events.found_answered(&exchange);
            continue;
        }
        shared.busy[slot].store(true, Ordering::Relaxed);
        events.taken(&exchange, taken_at.saturating_duration_since(exchange.offered_at));
        // A worker that panicked is not used again: what it held on this thread may be half done.
        let survived = catch_unwind(AssertUnwindSafe(|| worker.serve(&exchange))).is_ok();
        shared.busy[slot].store(false, Ordering::Relaxed);
        events.served(&exchange, time::now().saturating_duration_since(taken_at));
        if exchange.fail() {
            events.dropped(&exchange);
        }
        if !survived {
            drop(presence);
            events.worker_lost(slot, "the engine panicked");
            return;
        }
    }
}
