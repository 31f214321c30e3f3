//! One task: its worker and its outcome.
//!
//! The outcome is decided exactly once; if another thread decides it, the worker is notified. The task is counted once,
//! when it leaves its thread or the queue. Nothing here blocks.

use std::sync::OnceLock;
use std::time::Instant;

use crate::pool::{Job, NotClaimed};
use crate::sync::lock::ShortLock;
use crate::sync::primitive::Arc;
use crate::trace::SpanContext;

use super::outcome::{Payload, TaskEnd, TaskOutcome};
use super::task_accounting::TaskAccounting;
use super::task_thread::TaskThread;
use super::task_watcher::TaskWatcher;

/// One task, shared by the request that dispatched it, the queue, and the thread that runs it.
///
/// ```text
///                claim                 its worker drops the claim
///   Queued ───────────────▶ Running ─────────────────────────────▶ Left      (counted, its place is free)
///      │                                                            ▲
///      └──── claim is refused, because it has an outcome ───────────┘
///
///   in parallel, at most once before it has left:
///
///            settle (its worker) · fail (the pool) · cancel, strand (any thread)
///   no outcome ─────────────────────────────────────────────────────▶ outcome (watches notified)
/// ```
///
/// # Ownership
///
/// - The *input* is owned by the worker that [takes](Self::take_input) it. It is freed with the outcome if no worker has
///   claimed the task by then, and with the claim at the latest.
/// - The *outcome* is owned by the task, and lives as long as the task.
/// - The *thread* of a running task is known from [`run_on`](Self::run_on) until the task has left it.
///
/// # Invariants
///
/// - One outcome: of all calls that could decide it, one succeeds, and the others return that they were late.
/// - A task with an outcome is not claimed. If it gets its outcome during its claim, it is claimed, and its worker learns
///   of the outcome from `run_on` or is notified.
/// - A task that has left has an outcome: if a worker drops its claim without one, the pool [fails](Job::fail) the task.
/// - It is counted by that outcome when it leaves; what its code does after a cancellation changes nothing.
///
/// # Ordering
///
/// A lock of a few instructions decides. The outcome is published before watches are notified, and read without the lock.
#[derive(Debug)]
pub struct Task {
    id: u64,
    request_id: Box<str>,
    trace: Option<SpanContext>,
    accounting: Arc<TaskAccounting>,
    outcome: OnceLock<TaskOutcome>,
    /// Held only to compare, replace or copy fields: no callback runs and no payload is freed under the lock.
    state: ShortLock<TaskState>,
}

/// The origin of a dispatch.
#[derive(Clone, Debug, Default)]
pub struct TaskOrigin<'a> {
    /// The ID of the request.
    pub request_id: &'a str,
    /// The span of the request at the dispatch, if it is traced.
    pub trace: Option<SpanContext>,
}

impl<'a> From<&'a str> for TaskOrigin<'a> {
    fn from(request_id: &'a str) -> Self {
        Self { request_id, trace: None }
    }
}

#[derive(Debug)]
struct TaskState {
    stage: TaskStage,
    /// A worker has claimed it.
    began: bool,
    is_detached: bool,
    is_stranded: bool,
    input: Option<Payload>,
    thread: Option<Arc<dyn TaskThread>>,
    /// Watchers of the outcome.
    awaiting: Vec<TaskWatcher>,
    /// Watchers of the departure.
    awaiting_end: Vec<TaskWatcher>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TaskStage {
    Queued,
    Running,
    Left,
}

/// Work that follows the decision of the outcome, done outside the lock.
struct Aftermath {
    awaiting: Vec<TaskWatcher>,
    /// The input of a task that will not run.
    input: Option<Payload>,
    thread: Option<Arc<dyn TaskThread>>,
    is_queued: bool,
    is_detached: bool,
}

impl Task {
    /// Creates a task that `accounting` have admitted under the number `id`; the caller queues it.
    pub(super) fn new(
        id: u64,
        origin: TaskOrigin<'_>,
        input: Payload,
        accounting: &Arc<TaskAccounting>,
    ) -> Self {
        let state = TaskState {
            stage: TaskStage::Queued,
            began: false,
            is_detached: false,
            is_stranded: false,
            input: Some(input),
            thread: None,
            awaiting: Vec::new(),
            awaiting_end: Vec::new(),
        };
        Self {
            id,
            request_id: origin.request_id.into(),
            trace: origin.trace,
            accounting: Arc::clone(accounting),
            outcome: OnceLock::new(),
            state: ShortLock::new(state),
        }
    }

    /// Returns the number of the task, counted from 1 in its pool.
    pub fn id(&self) -> u64 {
        self.id
    }

    /// Returns the ID of the request that dispatched the task.
    pub fn request_id(&self) -> &str {
        &self.request_id
    }

    /// Returns the span that dispatched the task, if its request is traced; the task continues that trace.
    pub fn trace(&self) -> Option<&SpanContext> {
        self.trace.as_ref()
    }

    /// Takes the input, once; for the worker that runs the task.
    pub fn take_input(&self) -> Option<Payload> {
        self.state.lock().input.take()
    }

    /// Returns the outcome once it is decided. Takes no lock.
    pub fn outcome(&self) -> Option<&TaskOutcome> {
        self.outcome.get()
    }

    /// Returns whether the task was cancelled before it had another outcome; it should then end.
    pub fn is_cancelled(&self) -> bool {
        matches!(self.outcome(), Some(TaskOutcome::Cancelled))
    }

    /// Returns whether a worker has claimed the task.
    pub fn began(&self) -> bool {
        self.state.lock().began
    }

    /// Returns whether the task has left its thread or the queue, so that no part of it is left to run. For tests;
    /// other code watches its end.
    pub fn has_left(&self) -> bool {
        self.state.lock().stage == TaskStage::Left
    }

    /// Returns whether the task was [stranded](Self::strand) and has not left.
    pub fn is_stranded(&self) -> bool {
        let state = self.state.lock();
        state.is_stranded && state.stage != TaskStage::Left
    }

    /// Returns whether the end of the request affects the task: it is [stranded](Self::is_stranded), or it has no
    /// outcome and is not detached.
    pub fn is_owned(&self) -> bool {
        (self.outcome().is_none() && !self.is_detached()) || self.is_stranded()
    }

    /// Returns whether the task was [detached](Self::detach).
    pub fn is_detached(&self) -> bool {
        self.state.lock().is_detached
    }

    /// Sets the thread that runs the task, which is notified of a later cancellation. Called by the worker that has
    /// claimed the task, before it runs. Returns false if the task has its outcome already and should not run.
    pub fn run_on(&self, thread: Arc<dyn TaskThread>) -> bool {
        let mut state = self.state.lock();
        debug_assert_eq!(state.stage, TaskStage::Running, "no thread has claimed it");
        let before = state.thread.replace(thread);
        // Under the lock, so that either this call sees the outcome, or the thread that decides it sees `thread`.
        let is_open = self.outcome.get().is_none();
        drop(state);
        drop(before);
        is_open
    }

    /// Decides the outcome; for the worker. Returns false, and drops `outcome`, if it was decided before.
    pub fn settle(&self, outcome: TaskOutcome) -> bool {
        self.decide(outcome, |_| true).map(|aftermath| self.carry_out(aftermath, false)).is_ok()
    }

    /// Cancels the task; returns false if it had an outcome before. Its watchers are notified at once. If it is queued,
    /// it never starts; if it is running, its thread is notified, but may keep running it for a long time.
    pub fn cancel(&self) -> bool {
        let decided = self.decide(TaskOutcome::Cancelled, |_| true);
        decided.map(|aftermath| self.carry_out(aftermath, true)).is_ok()
    }

    /// Cancels the task like [`cancel`](Self::cancel) and counts it as stranded, provided that it is running, has no
    /// outcome and is not detached. Otherwise has no effect and returns false.
    pub fn strand(&self) -> bool {
        let may = |state: &TaskState| state.stage == TaskStage::Running && !state.is_detached;
        let Ok(aftermath) = self.decide(TaskOutcome::Cancelled, may) else { return false };
        self.state.lock().is_stranded = true;
        // Correct even if the task has left meanwhile: it is either in flight or counted as cancelled.
        self.accounting.strand();
        self.carry_out(aftermath, true);
        true
    }

    /// Detaches the task: its outcome is not awaited, but reported once to [`TaskEvents`](super::TaskEvents). Later
    /// calls have no effect.
    pub fn detach(&self) {
        let mut state = self.state.lock();
        let was_detached = std::mem::replace(&mut state.is_detached, true);
        // Under the lock, so that exactly one of the two possible reporters reports it.
        let outcome = self.outcome.get();
        drop(state);
        if let Some(outcome) = outcome.filter(|_| !was_detached) {
            self.report(outcome);
        }
    }

    /// Notifies `watcher` when the outcome is decided, or immediately if it is.
    pub(super) fn watch(&self, watcher: TaskWatcher) {
        self.keep(watcher, |state| (self.outcome.get().is_none()).then_some(&mut state.awaiting));
    }

    /// Notifies `watcher` when the task [has left](Self::has_left), or immediately if it has.
    pub(super) fn watch_end(&self, watcher: TaskWatcher) {
        self.keep(watcher, |state| (state.stage != TaskStage::Left).then_some(&mut state.awaiting_end));
    }

    fn keep(
        &self,
        watcher: TaskWatcher,
        place: impl FnOnce(&mut TaskState) -> Option<&mut Vec<TaskWatcher>>,
    ) {
        let mut unwanted = Vec::new();
        let mut state = self.state.lock();
        let rest = match place(&mut state) {
            Some(watchers) => {
                // Purge before the list grows, so that repeated watches that are given up do not use up memory.
                if watchers.len() == watchers.capacity() {
                    unwanted.extend(watchers.extract_if(.., |one| !one.is_wanted()));
                }
                watchers.push(watcher);
                None
            }
            None => Some(watcher),
        };
        drop(state);
        drop(unwanted);
        if let Some(watcher) = rest {
            watcher.report(self.has_completed());
        }
    }

    /// Returns whether its outcome is a result.
    fn has_completed(&self) -> bool {
        matches!(self.outcome(), Some(TaskOutcome::Completed(_)))
    }

    /// Decides the outcome if it is open and the state allows it; otherwise returns it.
    fn decide(
        &self,
        outcome: TaskOutcome,
        may: impl FnOnce(&TaskState) -> bool,
    ) -> Result<Aftermath, TaskOutcome> {
        let mut state = self.state.lock();
        if !may(&state) {
            return Err(outcome);
        }
        self.outcome.set(outcome)?;
        debug_assert_ne!(state.stage, TaskStage::Left, "it has left without an outcome");
        let is_queued = state.stage == TaskStage::Queued;
        Ok(Aftermath {
            awaiting: std::mem::take(&mut state.awaiting),
            input: if is_queued { state.input.take() } else { None },
            thread: state.thread.clone(),
            is_queued,
            is_detached: state.is_detached,
        })
    }

    fn carry_out(&self, aftermath: Aftermath, notifies_thread: bool) {
        let Aftermath { awaiting, input, thread, is_queued, is_detached } = aftermath;
        if is_queued {
            self.accounting.note_stale();
        }
        let has_completed = self.has_completed();
        awaiting.into_iter().for_each(|watcher| watcher.report(has_completed));
        if let Some(thread) = thread.filter(|_| notifies_thread) {
            thread.cancel(self.id);
        }
        if let Some(outcome) = self.outcome().filter(|_| is_detached) {
            self.report(outcome);
        }
        drop(input);
    }

    fn report(&self, outcome: &TaskOutcome) {
        if let Some(events) = self.accounting.events() {
            events.detached_settled(self.id, &self.request_id, outcome);
        }
    }

    /// Counts the task, and records that no part of it is left to run.
    pub(super) fn leave(&self) {
        let end = self.outcome().map(TaskOutcome::end);
        debug_assert!(end.is_some(), "it leaves without an outcome");
        // Counted first, so that a thread that sees that the task has left also finds it in the accounting.
        self.accounting.leave(end.unwrap_or(TaskEnd::Failed));
        let mut state = self.state.lock();
        debug_assert_ne!(state.stage, TaskStage::Left, "it leaves once");
        state.stage = TaskStage::Left;
        let (input, thread) = (state.input.take(), state.thread.take());
        let awaiting_end = std::mem::take(&mut state.awaiting_end);
        drop(state);
        awaiting_end.into_iter().for_each(|watcher| watcher.report(true));
        drop((input, thread));
    }
}

impl Job for Task {
    fn claim(&self, _serial: u64, _now: Instant) -> Result<(), NotClaimed> {
        let mut state = self.state.lock();
        debug_assert_eq!(state.stage, TaskStage::Queued, "it is in the queue once");
        if self.outcome.get().is_none() {
            state.stage = TaskStage::Running;
            state.began = true;
            return Ok(());
        }
        drop(state);
        // The caller has taken it off the queue.
        self.leave();
        Err(NotClaimed)
    }

    fn is_settled(&self) -> bool {
        self.outcome().is_some()
    }

    fn fail(&self) {
        self.settle(TaskOutcome::Lost("its thread was lost"));
    }

    fn left(&self) {
        self.leave();
    }
}

#[cfg(test)]
#[path = "task_tests.rs"]
mod tests;
