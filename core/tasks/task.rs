//! One task: who runs it, and its outcome.
//!
//! Promises: exactly one outcome, decided once; its worker is told when another one has decided; it is counted once,
//! when it has left its thread or the queue. Refuses: it computes nothing and waits for nothing.

use std::sync::OnceLock;
use std::time::Instant;

use crate::pool::{Job, NotClaimed};
use crate::sync::lock::ShortLock;
use crate::sync::primitive::Arc;
use crate::trace::SpanContext;

use super::outcome::{Cargo, TaskFate, TaskOutcome};
use super::task_books::TaskBooks;
use super::task_thread::TaskThread;
use super::task_watcher::TaskWatcher;

/// One task, shared by whoever dispatched it, the queue, and the thread that runs it.
///
/// ```text
///                claim                 its worker drops the claim
///   Queued ───────────────▶ Running ─────────────────────────────▶ Left      (counted, its place is free)
///      │                                                            ▲
///      └──── claim is refused, because it has an outcome ───────────┘
///
///   and beside it, at any time before it has left, once:
///
///            settle (its worker) · fail (the pool) · cancel, strand (anybody)
///   no outcome ─────────────────────────────────────────────────────▶ outcome (watches are told)
/// ```
///
/// # Ownership
///
/// - The *input* belongs to the worker that [takes](Self::take_input) it. It is freed with the outcome if no worker has
///   claimed the task by then, and with the claim at the latest.
/// - The *outcome* belongs to the task, and lives as long as anybody holds it.
/// - The *thread* of a running task is known from [`run_on`](Self::run_on) until the task has left it.
///
/// # Invariants
///
/// - One outcome: of all calls that could decide it, one succeeds, and the others learn that they were late.
/// - A task with an outcome is not claimed. One that gets its outcome at the moment of its claim is claimed, and its
///   worker learns of it from `run_on`, or is told.
/// - A task that has left has an outcome: the pool [fails](Job::fail) what a worker drops.
/// - It is counted by that outcome, when it leaves; whatever its code did after it was cancelled changes nothing.
///
/// # Ordering
///
/// A lock of a few instructions decides. The outcome is published before watches are told, and read without the lock.
#[derive(Debug)]
pub struct Task {
    id: u64,
    request_id: Box<str>,
    trace: Option<SpanContext>,
    books: Arc<TaskBooks>,
    outcome: OnceLock<TaskOutcome>,
    /// Short: fields are compared, replaced or copied. Nobody is told, and no cargo is freed, while it is held.
    state: ShortLock<TaskState>,
}

/// Who dispatches a task.
#[derive(Clone, Debug, Default)]
pub struct TaskOrigin<'a> {
    /// The ID of the request.
    pub request_id: &'a str,
    /// The span that the request is in, if it has a trace.
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
    input: Option<Cargo>,
    thread: Option<Arc<dyn TaskThread>>,
    /// Those who wait for the outcome.
    awaiting: Vec<TaskWatcher>,
    /// Those who wait until it has left.
    seeing_off: Vec<TaskWatcher>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TaskStage {
    Queued,
    Running,
    Left,
}

/// What is to be done once the outcome is decided, outside of the lock.
struct Aftermath {
    awaiting: Vec<TaskWatcher>,
    /// Of a task that nobody will run.
    input: Option<Cargo>,
    thread: Option<Arc<dyn TaskThread>>,
    is_queued: bool,
    is_detached: bool,
}

impl Task {
    /// Makes a task that `books` have admitted under the number `id`, and that is about to be queued.
    pub(super) fn new(id: u64, origin: TaskOrigin<'_>, input: Cargo, books: &Arc<TaskBooks>) -> Self {
        let state = TaskState {
            stage: TaskStage::Queued,
            began: false,
            is_detached: false,
            is_stranded: false,
            input: Some(input),
            thread: None,
            awaiting: Vec::new(),
            seeing_off: Vec::new(),
        };
        Self {
            id,
            request_id: origin.request_id.into(),
            trace: origin.trace,
            books: Arc::clone(books),
            outcome: OnceLock::new(),
            state: ShortLock::new(state),
        }
    }

    /// Returns the number of the task, from 1, unique in its pool.
    pub fn id(&self) -> u64 {
        self.id
    }

    /// Returns the ID of the request that dispatched it.
    pub fn request_id(&self) -> &str {
        &self.request_id
    }

    /// Returns the span that dispatched it, if its request has a trace: what it does continues that trace.
    pub fn trace(&self) -> Option<&SpanContext> {
        self.trace.as_ref()
    }

    /// Takes what was dispatched with it, once; for the worker that runs it.
    pub fn take_input(&self) -> Option<Cargo> {
        self.state.lock().input.take()
    }

    /// Returns the outcome, once it is decided. Takes no lock.
    pub fn outcome(&self) -> Option<&TaskOutcome> {
        self.outcome.get()
    }

    /// Returns whether it was cancelled before it had another outcome: it should end.
    pub fn is_cancelled(&self) -> bool {
        matches!(self.outcome(), Some(TaskOutcome::Cancelled))
    }

    /// Returns whether a worker has claimed it.
    pub fn began(&self) -> bool {
        self.state.lock().began
    }

    /// Returns whether it has left its thread or the queue: nothing of it is left to run.
    pub fn has_left(&self) -> bool {
        self.state.lock().stage == TaskStage::Left
    }

    /// Returns whether it was counted as [stranded](Self::strand), and has not left.
    pub fn is_stranded(&self) -> bool {
        let state = self.state.lock();
        state.is_stranded && state.stage != TaskStage::Left
    }

    /// Returns whether the end of its request has to do with it: it has no outcome and is not detached, or it is
    /// [stranded](Self::is_stranded).
    pub fn is_owned(&self) -> bool {
        (self.outcome().is_none() && !self.is_detached()) || self.is_stranded()
    }

    /// Returns whether it was [detached](Self::detach).
    pub fn is_detached(&self) -> bool {
        self.state.lock().is_detached
    }

    /// Names the thread that runs it, which is told if it is cancelled from now on. Called by the worker that has
    /// claimed it, before anything of it runs. Returns false if it has its outcome already: nothing of it should run.
    pub fn run_on(&self, thread: Arc<dyn TaskThread>) -> bool {
        let mut state = self.state.lock();
        debug_assert_eq!(state.stage, TaskStage::Running, "nobody has claimed it");
        let before = state.thread.replace(thread);
        // Under the lock, so that either this sees the outcome, or whoever decides it sees the thread.
        let is_open = self.outcome.get().is_none();
        drop(state);
        drop(before);
        is_open
    }

    /// Decides the outcome; for its worker. Returns false if it was decided before, and drops this one.
    pub fn settle(&self, outcome: TaskOutcome) -> bool {
        self.decide(outcome, |_| true).map(|aftermath| self.carry_out(aftermath, false)).is_ok()
    }

    /// Cancels it. Returns true if it will not complete, and false if it had its outcome before. Its watches are told
    /// at once. If it is queued, it never starts; if it runs, its thread is told, and may go on for long.
    pub fn cancel(&self) -> bool {
        let decided = self.decide(TaskOutcome::Cancelled, |_| true);
        decided.map(|aftermath| self.carry_out(aftermath, true)).is_ok()
    }

    /// Cancels it like [`cancel`](Self::cancel), and counts it as stranded, if a worker has claimed it, it has no
    /// outcome and is not detached. Otherwise nothing changes, and it returns false.
    pub fn strand(&self) -> bool {
        let may = |state: &TaskState| state.stage == TaskStage::Running && !state.is_detached;
        let Ok(aftermath) = self.decide(TaskOutcome::Cancelled, may) else { return false };
        self.state.lock().is_stranded = true;
        // Whether it has left meanwhile or not: it is in flight, or was counted as cancelled.
        self.books.strand();
        self.carry_out(aftermath, true);
        true
    }

    /// Lets go of it: its outcome interests nobody, except that [`TaskEvents`](super::TaskEvents) hear of it once.
    /// Later calls change nothing.
    pub fn detach(&self) {
        let mut state = self.state.lock();
        let was_detached = std::mem::replace(&mut state.is_detached, true);
        // Under the lock, so that one of the two that could report it does.
        let outcome = self.outcome.get();
        drop(state);
        if let Some(outcome) = outcome.filter(|_| !was_detached) {
            self.report(outcome);
        }
    }

    /// Tells `watcher` once the outcome is decided, or at once if it is.
    pub(super) fn watch(&self, watcher: TaskWatcher) {
        self.keep(watcher, |state| (self.outcome.get().is_none()).then_some(&mut state.awaiting));
    }

    /// Tells `watcher` once the task [has left](Self::has_left), or at once if it has.
    pub(super) fn see_off(&self, watcher: TaskWatcher) {
        self.keep(watcher, |state| (state.stage != TaskStage::Left).then_some(&mut state.seeing_off));
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
                // Now and then, so that a watch that is given up again and again costs no memory.
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
            watcher.tell(self.has_completed());
        }
    }

    /// Whether its outcome is a result.
    fn has_completed(&self) -> bool {
        matches!(self.outcome(), Some(TaskOutcome::Completed(_)))
    }

    /// Decides the outcome if it is open and the state allows it; otherwise gives it back.
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

    fn carry_out(&self, aftermath: Aftermath, tell_thread: bool) {
        let Aftermath { awaiting, input, thread, is_queued, is_detached } = aftermath;
        if is_queued {
            self.books.note_stale();
        }
        let has_completed = self.has_completed();
        awaiting.into_iter().for_each(|watcher| watcher.tell(has_completed));
        if let Some(thread) = thread.filter(|_| tell_thread) {
            thread.cancel(self.id);
        }
        if let Some(outcome) = self.outcome().filter(|_| is_detached) {
            self.report(outcome);
        }
        drop(input);
    }

    fn report(&self, outcome: &TaskOutcome) {
        if let Some(events) = self.books.events() {
            events.detached_settled(self.id, &self.request_id, outcome);
        }
    }

    /// Counts it, and notes that nothing of it is left to run.
    pub(super) fn leave(&self) {
        let end = self.outcome().map(TaskOutcome::fate);
        debug_assert!(end.is_some(), "it leaves without an outcome");
        // First, so that whoever sees that it has left finds it in the books.
        self.books.leave(end.unwrap_or(TaskFate::Failed));
        let mut state = self.state.lock();
        debug_assert_ne!(state.stage, TaskStage::Left, "it leaves once");
        state.stage = TaskStage::Left;
        let (input, thread) = (state.input.take(), state.thread.take());
        let seeing_off = std::mem::take(&mut state.seeing_off);
        drop(state);
        seeing_off.into_iter().for_each(|watcher| watcher.tell(true));
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
        // Its worker has taken it off the queue.
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
