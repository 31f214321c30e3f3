//! The gate in front of the pool: a queue with as many permits as places, and a waiting set in front of it.
//!
//! The waiting set and the queue are first come, first served. The waiting set is bounded by count and by bytes, and
//! requests that leave it leave immediately. Entering a queue with free slots, and leaving the queue, takes no lock.
//! The gate sends no responses and watches no deadlines; the caller of `offer` does.
//!
//! ```text
//!   offer ── permit free, none waiting ──▶ queue ── try_take (gives the permit back) ──▶ a worker
//!     │                                        ▲
//!     └── no permit, room in the set ──▶ waiting set (promoted in order when a permit is given back)
//!     └── else ──▶ refused
//! ```

use std::collections::BTreeMap;
use std::time::Duration;

use crate::sync::idle_workers::IdleWorkers;
use crate::sync::lock::ShortLock;
use crate::sync::permit_state::{EnterOutcome, PermitState, Returned};
use crate::sync::primitive::{Arc, AtomicU64, Ordering};
use crate::sync::queue::WorkQueue;
use crate::time::as_micros;

/// Why a request was not admitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShedReason {
    /// No worker thread is left.
    PoolUnavailable,
    /// The queue is full, and waiting for a slot is disabled.
    QueueFull,
    /// The server is draining.
    ShuttingDown,
    /// The bodies of waiting requests reached their limit.
    WaitingBytes,
    /// The waiting set is full.
    WaitingFull,
    /// The wait budget was used up.
    WaitTimeout,
}

impl ShedReason {
    /// All reasons, in the order of the exposition.
    pub const ALL: [Self; 6] = [
        Self::WaitTimeout,
        Self::WaitingFull,
        Self::WaitingBytes,
        Self::QueueFull,
        Self::ShuttingDown,
        Self::PoolUnavailable,
    ];

    /// Returns the value of the label `reason`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::PoolUnavailable => "pool_unavailable",
            Self::QueueFull => "queue_full",
            Self::ShuttingDown => "shutting_down",
            Self::WaitingBytes => "waiting_bytes",
            Self::WaitingFull => "waiting_full",
            Self::WaitTimeout => "wait_timeout",
        }
    }

    /// Returns the status code for a request refused for this reason.
    pub fn status(self) -> u16 {
        match self {
            Self::PoolUnavailable => 500,
            Self::ShuttingDown => 503,
            Self::QueueFull | Self::WaitingBytes | Self::WaitingFull | Self::WaitTimeout => 529,
        }
    }
}

/// An entry that passes the gate.
pub trait Offered {
    /// Returns the number of bytes it holds while it waits.
    fn parked_bytes(&self) -> u64;
    /// Moves it from the waiting set to the queue. Returns false if it has been answered meanwhile and is not queued.
    fn promote(&self) -> bool;
    /// Notes that it enters the waiting set instead of the queue.
    fn park(&self);
    /// Returns whether its client has left and it has waited long enough, so that another entry may take its place.
    fn is_forgotten(&self) -> bool {
        false
    }
}

impl<T: Offered> Offered for Arc<T> {
    fn parked_bytes(&self) -> u64 {
        T::parked_bytes(self)
    }

    fn promote(&self) -> bool {
        T::promote(self)
    }

    fn park(&self) {
        T::park(self);
    }

    fn is_forgotten(&self) -> bool {
        T::is_forgotten(self)
    }
}

/// A place in the waiting set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Ticket(u64);

/// The result of an offer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OfferOutcome {
    /// The entry is in the queue; a worker will take it.
    Queued,
    /// The entry was not admitted; the caller sends the response.
    Refused(ShedReason),
    /// The entry is in the waiting set, until it is promoted or [leaves](Gate::leave).
    Waiting(Ticket),
}

/// The limits of the waiting set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WaitingLimits {
    /// The maximum number of waiting entries.
    pub count_max: usize,
    /// The maximum number of bytes that waiting entries may hold together.
    pub bytes_max: u64,
}

/// The state of the gate at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GateFacts {
    /// The number of entries in the queue, including those already answered.
    pub depth: usize,
    /// The number of queue slots.
    pub capacity: usize,
    /// The number of free permits.
    pub slots_available: usize,
    /// The number of entries in the waiting set.
    pub waiting: usize,
    /// How long an offer made now may wait; zero in fail-fast mode.
    pub wait_budget: Duration,
    /// The upper limit of the wait budget.
    pub wait_budget_ceiling: Duration,
}

/// The gate. I/O threads offer entries, workers take them.
#[derive(Debug)]
pub struct Gate<T> {
    queue: WorkQueue<T>,
    permit_state: PermitState,
    /// Held only briefly: an entry is inserted, removed, or moved to the queue. No thread is woken while it is held.
    waiting: ShortLock<WaitingSet<T>>,
    limits: WaitingLimits,
    budget_us: AtomicU64,
    ceiling: Duration,
}

#[derive(Debug)]
struct WaitingSet<T> {
    /// Sorted by ticket, that is, in the order of arrival.
    entries: BTreeMap<Ticket, T>,
    bytes: u64,
    next: u64,
}

impl<T: Offered> Gate<T> {
    /// Makes an open gate in front of an empty queue of `capacity` slots, with seats for `seats` workers. A `ceiling`
    /// of zero is fail-fast mode: requests never wait in front of the queue.
    ///
    /// # Panics
    ///
    /// If `capacity` is 0.
    pub fn new(capacity: usize, seats: usize, limits: WaitingLimits, ceiling: Duration) -> Self {
        Self {
            queue: WorkQueue::new(capacity, seats),
            permit_state: PermitState::new(u32::try_from(capacity).unwrap_or(u32::MAX)),
            waiting: ShortLock::new(WaitingSet { entries: BTreeMap::new(), bytes: 0, next: 0 }),
            limits,
            budget_us: AtomicU64::new(as_micros(ceiling)),
            ceiling,
        }
    }

    /// Admits `entry`, lets it wait, or returns why it is refused. The caller calls [`announce`](Self::announce) after
    /// its last offer.
    pub fn offer(&self, entry: T) -> OfferOutcome {
        match self.permit_state.enter() {
            EnterOutcome::Closed => OfferOutcome::Refused(ShedReason::ShuttingDown),
            EnterOutcome::Permit => self.admit(entry),
            EnterOutcome::Wait if self.ceiling.is_zero() => OfferOutcome::Refused(ShedReason::QueueFull),
            EnterOutcome::Wait => self.offer_to_waiting(entry),
        }
    }

    /// Notifies the workers of admitted entries.
    pub fn announce(&self) {
        self.queue.announce();
    }

    /// Takes the oldest entry, if there is one, for a worker, and releases its permit.
    pub fn try_take(&self) -> Option<T> {
        let entry = self.queue.try_take()?;
        self.give_back();
        Some(entry)
    }

    /// Returns the seats on which workers sleep.
    pub fn idle_workers(&self) -> &IdleWorkers {
        self.queue.idle_workers()
    }

    /// Returns whether the queue is empty.
    pub fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// Returns whether workers may end once the queue is empty.
    pub fn is_queue_closed(&self) -> bool {
        self.queue.is_closed()
    }

    /// Removes an entry from the waiting set because it was answered. Has no effect if it has been promoted meanwhile.
    pub fn leave(&self, ticket: Ticket) {
        let mut waiting = self.waiting.lock();
        let left = waiting.entries.remove(&ticket);
        if let Some(entry) = &left {
            waiting.bytes -= entry.parked_bytes();
            self.permit_state.stop_waiting();
        }
        drop(waiting);
        // Outside of the lock: it may be the last holder of a body.
        drop(left);
    }

    /// Stops admitting. Queued entries stay queued, and waiting entries wait for their answer.
    pub fn stop_admitting(&self) {
        self.permit_state.close();
    }

    /// Stops admitting, and allows workers to end once the queue is empty.
    pub fn close_queue(&self) {
        self.stop_admitting();
        self.queue.close();
    }

    /// Returns how long an offer made now may wait; zero in fail-fast mode.
    pub fn wait_budget(&self) -> Duration {
        Duration::from_micros(self.budget_us.load(Ordering::Relaxed))
    }

    /// Sets how long offers may wait from now on.
    pub fn set_wait_budget(&self, budget: Duration) {
        debug_assert!(budget <= self.ceiling, "the budget exceeds its ceiling");
        self.budget_us.store(as_micros(budget), Ordering::Relaxed);
    }

    /// Reads the state. Permits are read first, so that an entry on its way is missed rather than counted twice.
    pub fn facts(&self) -> GateFacts {
        let slots_available = self.permit_state.free();
        GateFacts {
            slots_available,
            depth: self.queue.len(),
            capacity: self.queue.capacity(),
            waiting: self.permit_state.waiting(),
            wait_budget: self.wait_budget(),
            wait_budget_ceiling: self.ceiling,
        }
    }

    /// Inserts an entry that has a permit, and therefore a slot, into the queue.
    fn admit(&self, entry: T) -> OfferOutcome {
        let queued = self.queue.push(entry);
        debug_assert!(queued.is_ok(), "a permit without a place");
        OfferOutcome::Queued
    }

    #[cold]
    fn offer_to_waiting(&self, entry: T) -> OfferOutcome {
        let bytes = entry.parked_bytes();
        // Dropped after the lock is released, so that the contents of an entry are freed outside of it.
        let mut forgotten = Vec::new();
        let mut waiting = self.waiting.lock();
        let refusal = loop {
            let refusal = waiting.refusal(bytes, self.limits);
            // Only entries at the front are checked: they arrived first, so they usually expire first.
            if refusal.is_none()
                || !waiting.entries.first_entry().is_some_and(|entry| entry.get().is_forgotten())
            {
                break refusal;
            }
            forgotten.extend(waiting.pop_first());
            self.permit_state.stop_waiting();
        };
        if let Some(reason) = refusal {
            return OfferOutcome::Refused(reason);
        }
        match self.permit_state.enter_or_wait() {
            EnterOutcome::Closed => OfferOutcome::Refused(ShedReason::ShuttingDown),
            EnterOutcome::Permit => self.admit(entry),
            EnterOutcome::Wait => {
                entry.park();
                let ticket = Ticket(waiting.next);
                waiting.next += 1;
                waiting.bytes += bytes;
                waiting.entries.insert(ticket, entry);
                OfferOutcome::Waiting(ticket)
            }
        }
    }

    /// Releases a permit, or passes it to the entry that has waited longest.
    fn give_back(&self) {
        while self.permit_state.leave() == Returned::Owed {
            if self.promote_next() {
                self.queue.announce();
                return;
            }
        }
    }

    /// Moves the entry that has waited longest to the queue. Returns false if it was answered meanwhile, or if all have
    /// left.
    fn promote_next(&self) -> bool {
        let mut waiting = self.waiting.lock();
        let Some(entry) = waiting.pop_first() else { return false };
        let promoted = entry.promote();
        let dropped = if promoted {
            // Inside the lock, and before the waiter is uncounted: a newcomer cannot get in front of it.
            self.admit(entry);
            None
        } else {
            Some(entry)
        };
        self.permit_state.stop_waiting();
        drop(waiting);
        drop(dropped);
        promoted
    }
}

impl<T: Offered> WaitingSet<T> {
    /// Returns why an entry that holds this many bytes does not fit.
    fn refusal(&self, bytes: u64, limits: WaitingLimits) -> Option<ShedReason> {
        if self.entries.len() >= limits.count_max {
            Some(ShedReason::WaitingFull)
        } else if bytes > 0 && self.bytes + bytes > limits.bytes_max {
            Some(ShedReason::WaitingBytes)
        } else {
            None
        }
    }

    /// Removes the entry that has waited longest.
    fn pop_first(&mut self) -> Option<T> {
        let (_, entry) = self.entries.pop_first()?;
        self.bytes -= entry.parked_bytes();
        Some(entry)
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    /// An entry with a body of this many bytes.
    #[derive(Debug)]
    struct Waiter {
        name: u32,
        bytes: u64,
        answered: Cell<bool>,
        forgotten: Cell<bool>,
    }

    impl Offered for &Waiter {
        fn parked_bytes(&self) -> u64 {
            self.bytes
        }
        fn promote(&self) -> bool {
            !self.answered.get()
        }
        fn park(&self) {}
        fn is_forgotten(&self) -> bool {
            self.forgotten.get()
        }
    }

    const SECOND: Duration = Duration::from_secs(1);

    fn requests() -> Vec<Waiter> {
        (0..20)
            .map(|name| Waiter { name, bytes: 10, answered: Cell::new(false), forgotten: Cell::new(false) })
            .collect()
    }

    fn gate<'a>(capacity: usize, count_max: usize, bytes_max: u64) -> Gate<&'a Waiter> {
        Gate::new(capacity, 1, WaitingLimits { count_max, bytes_max }, SECOND)
    }

    fn ticket(offer: OfferOutcome) -> Ticket {
        let OfferOutcome::Waiting(ticket) = offer else { panic!("expected to wait: {offer:?}") };
        ticket
    }

    #[test]
    fn a_full_queue_makes_newcomers_wait_and_they_follow_in_order() {
        let (requests, gate) = (requests(), gate(2, 10, 1000));
        assert_eq!(
            (gate.offer(&requests[0]), gate.offer(&requests[1])),
            (OfferOutcome::Queued, OfferOutcome::Queued)
        );
        for late in &requests[2..5] {
            ticket(gate.offer(late));
        }
        let taken: Vec<_> = (0..5).map(|_| gate.try_take().unwrap().name).collect();
        assert_eq!(taken, [0, 1, 2, 3, 4]);
        let facts = gate.facts();
        assert_eq!((facts.slots_available, facts.depth, facts.waiting), (2, 0, 0));
    }

    #[test]
    fn a_new_request_does_not_overtake_waiting_ones() {
        let (requests, gate) = (requests(), gate(1, 10, 1000));
        gate.offer(&requests[0]);
        ticket(gate.offer(&requests[1]));
        assert_eq!(gate.try_take().unwrap().name, 0);
        ticket(gate.offer(&requests[2]));
        assert_eq!((gate.try_take().unwrap().name, gate.try_take().unwrap().name), (1, 2));
    }

    #[test]
    fn the_waiting_set_is_bounded_by_count() {
        let (requests, gate) = (requests(), gate(1, 1, 1000));
        gate.offer(&requests[0]);
        ticket(gate.offer(&requests[1]));
        assert_eq!(gate.offer(&requests[2]), OfferOutcome::Refused(ShedReason::WaitingFull));
    }

    #[test]
    fn the_waiting_set_is_bounded_by_bytes_except_for_requests_without_a_body() {
        let (mut requests, gate) = (requests(), gate(1, 10, 15));
        requests[3].bytes = 0;
        gate.offer(&requests[0]);
        let first = ticket(gate.offer(&requests[1]));
        assert_eq!(gate.offer(&requests[2]), OfferOutcome::Refused(ShedReason::WaitingBytes));
        ticket(gate.offer(&requests[3]));
        gate.leave(first);
        ticket(gate.offer(&requests[4]));
    }

    #[test]
    fn a_request_that_left_the_set_is_not_promoted() {
        let (requests, gate) = (requests(), gate(1, 10, 1000));
        gate.offer(&requests[0]);
        let second = ticket(gate.offer(&requests[1]));
        ticket(gate.offer(&requests[2]));
        gate.leave(second);
        assert_eq!(gate.facts().waiting, 1);
        assert_eq!((gate.try_take().unwrap().name, gate.try_take().unwrap().name), (0, 2));
        gate.leave(second);
        assert_eq!(gate.facts().waiting, 0);
    }

    #[test]
    fn an_answered_waiter_is_passed_over_and_its_permit_is_kept() {
        let (requests, gate) = (requests(), gate(1, 10, 1000));
        gate.offer(&requests[0]);
        ticket(gate.offer(&requests[1]));
        requests[1].answered.set(true);
        assert_eq!(gate.try_take().unwrap().name, 0);
        let facts = gate.facts();
        assert_eq!((facts.slots_available, facts.depth, facts.waiting), (1, 0, 0));
    }

    #[test]
    fn fail_fast_mode_refuses_at_once() {
        let requests = requests();
        let gate = Gate::new(1, 1, WaitingLimits { count_max: 10, bytes_max: 10 }, Duration::ZERO);
        gate.offer(&requests[0]);
        assert_eq!(gate.offer(&requests[1]), OfferOutcome::Refused(ShedReason::QueueFull));
    }

    #[test]
    fn a_closed_gate_neither_admits_nor_promotes() {
        let (requests, gate) = (requests(), gate(1, 10, 1000));
        gate.offer(&requests[0]);
        let second = ticket(gate.offer(&requests[1]));
        gate.stop_admitting();
        assert_eq!(gate.offer(&requests[2]), OfferOutcome::Refused(ShedReason::ShuttingDown));
        assert_eq!(gate.try_take().unwrap().name, 0);
        gate.close_queue();
        assert!(gate.try_take().is_none());
        gate.leave(second);
        assert_eq!(gate.facts().slots_available, 1);
    }

    #[test]
    fn reasons_have_their_statuses() {
        let statuses = ShedReason::ALL.map(ShedReason::status);
        assert_eq!(statuses, [529, 529, 529, 529, 503, 500]);
    }

    #[test]
    fn a_forgotten_client_makes_room_when_needed() {
        let (requests, gate) = (requests(), gate(1, 2, 1 << 20));
        gate.offer(&requests[0]);
        let second = ticket(gate.offer(&requests[1]));
        ticket(gate.offer(&requests[2]));
        requests[2].forgotten.set(true);
        assert_eq!(
            gate.offer(&requests[3]),
            OfferOutcome::Refused(ShedReason::WaitingFull),
            "it is not in front"
        );
        gate.leave(second);
        ticket(gate.offer(&requests[3]));
        assert_eq!(gate.facts().waiting, 2, "there was room");
        ticket(gate.offer(&requests[4]));
        assert_eq!(gate.facts().waiting, 2);
        assert_eq!(gate.try_take().map(|request| request.name), Some(0));
        assert_eq!(gate.try_take().map(|request| request.name), Some(3));
        assert_eq!(gate.try_take().map(|request| request.name), Some(4));
        assert_eq!((gate.facts().waiting, gate.facts().slots_available), (0, 1));
    }
}
