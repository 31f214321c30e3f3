//! The barrier behind which OPcache restarts.
//!
//! A restart rewrites memory that running scripts execute from, so it may happen only while no thread except the
//! restarting one is inside a request. Waiting for that must not block the server on one slow script, so the wait is
//! bounded: new requests are held back for a moment. If the running ones do not end in time, the barrier opens again,
//! scripts run uncached (OPcache has disabled itself until it restarts), and a later request tries again.
//!
//! A thread is inside while it stops, and a worker while it starts up. After that, the worker either uses the cache for its
//! lifetime, and the barrier does not wait for it (the pool replaces workers), or, if it started up while a restart was
//! wanted, runs uncached: it never touches the cache and never delays a restart.
//!
//! A task that was dispatched from the cache is inside as well, until an uncached worker has copied its code or, on a
//! thread that uses the cache, until it has ended. Tasks that requests dispatch after they were held back are compiled outside
//! the cache. So the number inside falls to zero however many tasks are dispatched, and a task is never held back
//! unless its request is.
//!
//! ```text
//!          restart wanted, others inside, no user               time is up
//!   Open ─────────────────────────────────────▶ Gathering ──────────────────────▶ Open (rests)
//!    │                                              │ no one is inside: one request enters alone and asks to restart
//!    │                                              ▼
//!    └──── restart wanted, no others inside ────▶ Exclusive ── restart done ─────▶ Open
//! ```
//!
//! No request is held back for longer than `GATHER_MAX` and one restart: gathering ends in one of the two, and does not
//! begin again before the barrier has rested.
//!
//! The state machine is pure (times are arguments); [`Barrier`] is its shell.

use std::cell::Cell;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use svc_types::OpcacheFacts;

/// The longest time that new requests are held back for the running ones to end.
const GATHER_MAX: Duration = Duration::from_millis(250);

/// The time that requests run freely after a failed attempt to restart; doubled after each attempt.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// The maximum of this time.
const RETRY_AFTER_MAX: Duration = Duration::from_secs(32);

/// A report about restarts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RestartEvent {
    /// A restart is needed: the cache is full, or a script has reset it.
    Wanted,
    /// The first attempt failed because scripts ran for too long. Scripts run uncached until a later attempt succeeds.
    Delayed,
    /// The cache has restarted.
    Done {
        /// Whether the restart had been delayed.
        was_delayed: bool,
    },
}

/// The relation of the calling thread to the barrier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ThreadPlace {
    /// The thread is inside a request, or in none.
    Inside,
    /// Its worker uses the cache for its lifetime.
    User,
    /// Its worker does not use the cache.
    Uncached,
}

thread_local! {
    static PLACE: Cell<ThreadPlace> = const { Cell::new(ThreadPlace::Inside) };
}

/// How the barrier treats new requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    /// Lets them in.
    Open,
    /// Holds them back until all requests have left, but no longer than this.
    Gathering { until: Instant },
    /// Holds them back while the thread inside restarts the cache.
    Exclusive,
}

/// The state machine: counts the requests inside, and decides when a restart may happen.
#[derive(Debug)]
struct BarrierState {
    inside: u32,
    users: usize,
    is_wanted: bool,
    mode: Mode,
    /// The barrier does not gather before this time.
    rest_until: Option<Instant>,
    /// Failed attempts since the last restart.
    vain: u32,
    /// The delay has been reported.
    is_reported: bool,
}

impl BarrierState {
    const fn new() -> Self {
        Self {
            inside: 0,
            users: 0,
            is_wanted: false,
            mode: Mode::Open,
            rest_until: None,
            vain: 0,
            is_reported: false,
        }
    }

    /// Asks to begin a request. Returns `None` if it is inside, or the longest time to wait before asking again.
    fn enter(&mut self, now: Instant) -> Option<Duration> {
        if let Mode::Gathering { until } = self.mode
            && now >= until
        {
            if self.inside > 0 {
                let pause = RETRY_AFTER.saturating_mul(1 << self.vain.min(16)).min(RETRY_AFTER_MAX);
                self.rest_until = Some(now + pause);
                self.vain += 1;
            }
            self.mode = Mode::Open;
        }
        match self.mode {
            Mode::Exclusive => return Some(GATHER_MAX),
            // Another request could enter before the first one asks to restart.
            Mode::Gathering { until } if self.inside > 0 => return Some(until - now),
            Mode::Gathering { .. } | Mode::Open => {}
        }
        self.inside += 1;
        None
    }

    /// Records the end of a request. Returns whether waiting requests should ask again.
    fn leave(&mut self) -> bool {
        debug_assert!(self.inside > 0, "a request left that had not entered");
        self.inside -= 1;
        self.inside == 0 && self.mode != Mode::Open
    }

    /// Records that a worker inside has started up. Returns whether waiting requests should ask again.
    fn settle(&mut self, place: ThreadPlace) -> bool {
        self.users += usize::from(place == ThreadPlace::User);
        self.leave()
    }

    /// Records that a restart is wanted. Returns whether that is new.
    fn note_wanted(&mut self) -> bool {
        !std::mem::replace(&mut self.is_wanted, true)
    }

    /// Asks, for a request inside, to restart the cache. Returns whether it may.
    fn want_restart(&mut self, now: Instant) -> bool {
        debug_assert!(self.inside > 0, "the thread that restarts is inside");
        if self.users > 0 {
            // These workers stay longer than requests can be held back.
            return false;
        }
        if self.inside == 1 && self.mode != Mode::Exclusive {
            self.mode = Mode::Exclusive;
            return true;
        }
        if self.mode == Mode::Open && self.rest_until.is_none_or(|rest| now >= rest) {
            self.mode = Mode::Gathering { until: now + GATHER_MAX };
        }
        false
    }

    fn restart_done(&mut self) -> RestartEvent {
        debug_assert_eq!(self.mode, Mode::Exclusive, "a restart ended that had not begun");
        self.mode = Mode::Open;
        self.is_wanted = false;
        self.rest_until = None;
        self.is_reported = false;
        RestartEvent::Done { was_delayed: std::mem::take(&mut self.vain) > 0 }
    }

    /// Returns true once after a delay, for the caller to report it.
    fn claim_news(&mut self) -> bool {
        !std::mem::replace(&mut self.is_reported, true)
    }
}

/// Lets requests in, or holds them back for a restart of the cache.
///
/// # Progress
///
/// `enter` blocks for at most `GATHER_MAX` while running requests end, and for the startup of one request while the
/// cache restarts.
#[derive(Debug)]
pub(crate) struct Barrier {
    state: Mutex<BarrierState>,
    changed: Condvar,
}

impl Default for Barrier {
    fn default() -> Self {
        Self::new()
    }
}

impl Barrier {
    /// Creates an open barrier with no request inside.
    pub(crate) const fn new() -> Self {
        Self { state: Mutex::new(BarrierState::new()), changed: Condvar::new() }
    }

    /// Begins a request; each `enter` is followed by one `leave` on the same thread. Returns a report, if there is one.
    pub(crate) fn enter(&self) -> Option<RestartEvent> {
        let mut state = self.lock();
        // The clock is read only if there is a request to wait for.
        if state.mode == Mode::Open {
            state.inside += 1;
            return None;
        }
        let vain = state.vain;
        while let Some(wait) = state.enter(now()) {
            state = self.changed.wait_timeout(state, wait).unwrap_or_else(PoisonError::into_inner).0;
        }
        // The thread that opens the barrier after the first failed attempt reports it.
        (vain == 0 && state.vain > 0 && state.claim_news()).then_some(RestartEvent::Delayed)
    }

    /// Ends a request, or the life of a worker.
    pub(crate) fn leave(&self) {
        let mut state = self.lock();
        let look_again = match PLACE.replace(ThreadPlace::Inside) {
            ThreadPlace::Inside => state.leave(),
            ThreadPlace::User => {
                state.users -= 1;
                false
            }
            ThreadPlace::Uncached => false,
        };
        drop(state);
        if look_again {
            self.changed.notify_all();
        }
    }

    /// Counts code that executes from the cache, on its way to another thread, as inside until the pin is dropped. Must
    /// be called by a thread that is inside or a user.
    pub(crate) fn pin(&'static self) -> CachePin {
        let mut state = self.lock();
        debug_assert_ne!(state.mode, Mode::Exclusive, "the cache is in use while it restarts");
        state.inside += 1;
        CachePin(self)
    }

    /// Records that the calling thread's worker has started up; `uses_cache` holds for its lifetime.
    pub(crate) fn worker_started(&self, uses_cache: bool) {
        let place = if uses_cache { ThreadPlace::User } else { ThreadPlace::Uncached };
        PLACE.set(place);
        let look_again = self.lock().settle(place);
        if look_again {
            self.changed.notify_all();
        }
    }

    /// Returns whether the calling thread's worker does not use the cache because the cache was waiting for a restart.
    pub(crate) fn is_uncached(&self) -> bool {
        PLACE.get() == ThreadPlace::Uncached
    }

    /// Records that a restart is wanted. Returns whether that is new.
    pub(crate) fn note_wanted(&self) -> bool {
        self.lock().note_wanted()
    }

    /// Returns the state of the cache.
    pub(crate) fn cache(&self) -> OpcacheFacts {
        let state = self.lock();
        OpcacheFacts { is_stale: state.is_wanted, users: state.users, is_occupied: state.inside > 0 }
    }

    /// Asks, from inside a request, to be the only one inside until [`end_exclusive`](Self::end_exclusive).
    pub(crate) fn try_exclusive(&self) -> bool {
        self.lock().want_restart(now())
    }

    /// Ends the exclusive phase, and lets other requests in. Returns the report.
    pub(crate) fn end_exclusive(&self) -> RestartEvent {
        let news = self.lock().restart_done();
        self.changed.notify_all();
        news
    }

    fn lock(&self) -> MutexGuard<'_, BarrierState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The barrier of this process.
pub(crate) static BARRIER: Barrier = Barrier::new();

/// Prevents OPcache from restarting until it is dropped, on any thread.
#[derive(Debug)]
pub(crate) struct CachePin(&'static Barrier);

impl Drop for CachePin {
    fn drop(&mut self) {
        let look_again = self.0.lock().leave();
        if look_again {
            self.0.changed.notify_all();
        }
    }
}

fn now() -> Instant {
    Instant::now()
}

#[cfg(test)]
#[path = "restart_barrier_tests.rs"]
mod tests;
