//! The completions and tasks of the core, for the interpreter.
//!
//! Payloads are opaque here. The task pool decides when a task runs; the interpreter implements awaiting.

use std::cell::RefCell;
use std::sync::{Arc, OnceLock};

use svc_core::observe::Log;
use svc_core::sync::completion::{Awaited, Completer, WakeSet, completion};
use svc_core::tasks::{Task, TaskOrigin, TaskOutcome, TaskPool, TaskRejection, TaskWatch, WatchMode};
use svc_core::trace::SpanContext;

use svc_ffi::{Payload, Runtime, TaskReading, TaskRequester, WAITER_GROUPS};

use crate::task_answer::{DetachedTasks, TaskAnswer};

const _: () = assert!(WAITER_GROUPS == WakeSet::GROUPS);

/// The runtime of the server. There is one server in a process.
#[derive(Debug)]
pub(crate) enum ServerRuntime {}

/// The task pool of the server.
static TASKS: OnceLock<TaskDispatcher> = OnceLock::new();

thread_local! {
    /// The waiters of this thread, once it has a waker.
    static WAKES: RefCell<Option<Arc<WakeSet>>> = const { RefCell::new(None) };
}

#[derive(Debug)]
struct TaskDispatcher {
    pool: Arc<TaskPool>,
    bytes_max: u64,
}

impl ServerRuntime {
    /// Sets the task pool, before scripts run; `bytes_max` limits a payload.
    pub(crate) fn set_tasks(pool: &Arc<TaskPool>, bytes_max: u64, log: &Log) {
        pool.set_events(Arc::new(DetachedTasks(log.clone())));
        // Called once: a process has one server.
        let _ = TASKS.set(TaskDispatcher { pool: Arc::clone(pool), bytes_max });
    }

    /// Lets requests of the calling thread wait for completions.
    pub(crate) fn set_wakes(wakes: Arc<WakeSet>) {
        WAKES.set(Some(wakes));
    }
}

impl Runtime for ServerRuntime {
    type Awaited = Awaited;
    type Completer = Completer;
    type Task = Arc<Task>;
    type Watch = TaskWatch;

    fn completion() -> Option<(Awaited, Completer)> {
        WAKES.with_borrow(|wakes| wakes.as_ref().map(completion))
    }

    fn take_woken(woken: &mut dyn FnMut(u32)) {
        WAKES.with_borrow(|wakes| wakes.iter().for_each(|wakes| wakes.take(&mut *woken)));
    }

    fn wait(awaited: &Awaited, waiter: u32) -> bool {
        awaited.wait(waiter)
    }

    fn stop_waiting(awaited: &Awaited) {
        awaited.stop_waiting();
    }

    fn is_complete(awaited: &Awaited) -> bool {
        awaited.is_complete()
    }

    fn bytes_max() -> u64 {
        TASKS.get().map_or(0, |tasks| tasks.bytes_max)
    }

    fn dispatch(input: Payload, requester: TaskRequester<'_>) -> Result<Arc<Task>, TaskRejection> {
        let tasks = TASKS.get().ok_or(TaskRejection::NoThread)?;
        let request_id = String::from_utf8_lossy(requester.request_id);
        let trace =
            requester.trace.and_then(|trace| trace.downcast::<SpanContext>().ok()).map(|trace| *trace);
        tasks.pool.dispatch(Box::new(input), TaskOrigin { request_id: &request_id, trace })
    }

    fn id(task: &Arc<Task>) -> u64 {
        task.id()
    }

    fn read(task: &Arc<Task>) -> TaskReading<'_> {
        match task.outcome() {
            None => TaskReading::Open,
            Some(TaskOutcome::Completed(payload) | TaskOutcome::Failed(payload)) => {
                match payload.downcast_ref::<TaskAnswer>() {
                    Some(TaskAnswer::Result(payload)) => TaskReading::Completed(payload),
                    Some(TaskAnswer::Thrown(payload, _)) => TaskReading::Failed(payload),
                    Some(TaskAnswer::Lost(why)) => TaskReading::Lost(why),
                    None => TaskReading::Lost("its answer is unknown"),
                }
            }
            Some(TaskOutcome::Lost(why)) => TaskReading::Lost(why),
            Some(TaskOutcome::Cancelled) => TaskReading::Cancelled,
        }
    }

    fn cancel(task: &Arc<Task>) -> bool {
        task.cancel()
    }

    fn detach(task: &Arc<Task>) {
        task.detach();
    }

    fn is_owned(task: &Arc<Task>) -> bool {
        task.is_owned()
    }

    fn is_stranded(task: &Arc<Task>) -> bool {
        task.is_stranded()
    }

    fn strand(task: &Arc<Task>) {
        task.strand();
    }

    fn watch(tasks: &[&Arc<Task>], mode: WatchMode) -> Option<(TaskWatch, Awaited)> {
        let tasks: Vec<&Task> = tasks.iter().map(|task| &***task).collect();
        WAKES.with_borrow(|wakes| wakes.as_ref().map(|wakes| TaskWatch::new(&tasks, mode, wakes)))
    }

    fn winner(watch: &TaskWatch) -> usize {
        watch.winner()
    }
}
