//! The server's completions and tasks, whose handles C holds.

use svc_types::{TaskRejection, WatchMode};

use crate::payload::Payload;
use crate::script_spans::TraceContext;

/// Creates the completions that requests wait for, and runs tasks.
///
/// The handles that C holds are the server's own types. Each is returned to the server when C releases it, on whatever
/// thread that happens.
pub trait Runtime: 'static {
    /// The waiting end of a completion, used on the thread that has created it. Dropping it abandons the completion.
    type Awaited;
    /// The completing end of a completion, for any thread. Dropping it completes the completion.
    type Completer: Send;
    /// The requester's handle of a task. Dropping it changes nothing about the task.
    type Task: Clone + Send + Sync;
    /// Several tasks that a request awaits together.
    type Watch;

    /// Creates a completion for a request of the calling thread; `None` if its requests cannot wait.
    fn completion() -> Option<(Self::Awaited, Self::Completer)>;
    /// Passes the groups of waiters of the calling thread whose completions other threads have completed to `woken`.
    /// Called each time after the worker has consumed its wake-ups, so a later completion wakes it again.
    fn take_woken(woken: &mut dyn FnMut(u32));
    /// Registers the waiter with this number: when the completion completes, [`take_woken`](Self::take_woken) yields the
    /// waiter's group, and the thread is woken. Returns false if the completion is already complete.
    fn wait(awaited: &Self::Awaited, waiter: u32) -> bool;
    /// Unregisters the waiter.
    fn stop_waiting(awaited: &Self::Awaited);
    /// Returns whether the completion is complete.
    fn is_complete(awaited: &Self::Awaited) -> bool;

    /// Returns the maximum size of a payload in bytes; 0 if there are no task threads.
    fn bytes_max() -> u64;
    /// Dispatches a task on behalf of a request.
    ///
    /// # Errors
    ///
    /// A [`TaskRejection`] if it will not run.
    fn dispatch(input: Payload, requester: TaskRequester<'_>) -> Result<Self::Task, TaskRejection>;
    /// Returns the number of the task.
    fn id(task: &Self::Task) -> u64;
    /// Returns the state of the task; does not change once it is settled.
    fn read(task: &Self::Task) -> TaskReading<'_>;
    /// Cancels the task. Returns false if it was settled before.
    fn cancel(task: &Self::Task) -> bool;
    /// Detaches the task: its result is not wanted.
    fn detach(task: &Self::Task);
    /// Returns whether the end of its request affects the task.
    fn is_owned(task: &Self::Task) -> bool;
    /// Returns whether the task is counted as stranded and still on its thread.
    fn is_stranded(task: &Self::Task) -> bool;
    /// Counts the task as stranded, if it has begun and is not settled.
    fn strand(task: &Self::Task);

    /// Watches these tasks, at least one, for a request of the calling thread; `None` if its requests cannot wait.
    fn watch(tasks: &[&Self::Task], mode: WatchMode) -> Option<(Self::Watch, Self::Awaited)>;
    /// Returns the index of the task that ended the watch; the number of tasks, or more, if none did alone.
    fn winner(watch: &Self::Watch) -> usize;
}

/// The request that dispatches a task.
#[derive(Default)]
pub struct TaskRequester<'a> {
    /// Its ID in logs.
    pub request_id: &'a [u8],
    /// The span that it is in, if it is traced.
    pub trace: Option<TraceContext>,
}

/// The state of a task.
#[derive(Debug)]
pub enum TaskReading<'a> {
    /// Not settled.
    Open,
    /// The result.
    Completed(&'a Payload),
    /// The exception.
    Failed(&'a Payload),
    /// It has failed without a result, for this reason.
    Lost(&'a str),
    /// It was cancelled.
    Cancelled,
}
