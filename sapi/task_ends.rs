//! The requester's side of tasks: dispatch, and access to the results.
//!
//! Payloads are opaque here. A detached task that fails is logged. The task pool decides when a task runs; the
//! interpreter side implements awaiting.

use std::any::Any;
use std::sync::Arc;

use svc_core::observe::{Event, Log, WorkerEvent};
use svc_core::tasks::{Task, TaskEvents, TaskOrigin, TaskOutcome, TaskPool, TaskRejection};
use svc_core::trace::SpanContext;

use svc_ffi::{Parcel, TaskEnd, TaskReading, TaskRefusal, TaskRequester, Tasks};

/// The result of a task.
#[derive(Debug)]
pub(crate) enum TaskAnswer {
    /// The return value of its function.
    Result(Parcel),
    /// The exception, and its description for the log.
    Thrown(Parcel, String),
    /// Why there is neither.
    Lost(String),
}

/// Dispatches the tasks of scripts.
#[derive(Debug)]
pub(crate) struct TaskDispatcher {
    pool: Option<Arc<TaskPool>>,
    bytes_max: u64,
}

impl TaskDispatcher {
    /// Creates the dispatcher of the server's task pool, if there is one; `bytes_max` limits a payload.
    pub(crate) fn new(pool: Option<&Arc<TaskPool>>, bytes_max: u64, log: &Log) -> Self {
        if let Some(pool) = pool {
            pool.set_events(Arc::new(DetachedTasks(log.clone())));
        }
        Self { pool: pool.cloned(), bytes_max }
    }
}

impl Tasks for TaskDispatcher {
    fn bytes_max(&self) -> u64 {
        if self.pool.is_some() { self.bytes_max } else { 0 }
    }

    fn dispatch(
        &self,
        input: Parcel,
        requester: TaskRequester<'_>,
    ) -> Result<(u64, Box<dyn TaskEnd>), TaskRefusal> {
        let pool = self.pool.as_ref().ok_or(TaskRefusal::NoThread)?;
        let request_id = String::from_utf8_lossy(requester.request_id);
        let trace = requester.seat.and_then(|seat| seat.downcast::<SpanContext>().ok()).map(|seat| *seat);
        match pool.dispatch(Box::new(input), TaskOrigin { request_id: &request_id, trace }) {
            Ok(task) => Ok((task.id(), Box::new(CoreTaskEnd(task)))),
            Err(TaskRejection::Queue { capacity }) => Err(TaskRefusal::QueueFull(capacity)),
            Err(TaskRejection::InFlight { cap }) => Err(TaskRefusal::CapReached(cap)),
            Err(TaskRejection::NoThread) => Err(TaskRefusal::NoThread),
            Err(TaskRejection::Closed) => Err(TaskRefusal::Closed),
        }
    }
}

#[derive(Debug)]
struct CoreTaskEnd(Arc<Task>);

/// Returns the task behind `end`, if it belongs to this server.
pub(crate) fn task_of(end: &dyn TaskEnd) -> Option<&Task> {
    let end: &dyn Any = end;
    end.downcast_ref::<CoreTaskEnd>().map(|end| &*end.0)
}

impl TaskEnd for CoreTaskEnd {
    fn share(&self) -> Box<dyn TaskEnd> {
        Box::new(Self(Arc::clone(&self.0)))
    }

    fn read(&self) -> TaskReading<'_> {
        match self.0.outcome() {
            None => TaskReading::Open,
            Some(TaskOutcome::Completed(cargo) | TaskOutcome::Failed(cargo)) => {
                match cargo.downcast_ref::<TaskAnswer>() {
                    Some(TaskAnswer::Result(parcel)) => TaskReading::Completed(parcel),
                    Some(TaskAnswer::Thrown(parcel, _)) => TaskReading::Failed(parcel),
                    Some(TaskAnswer::Lost(why)) => TaskReading::Lost(why),
                    None => TaskReading::Lost("its answer is unknown"),
                }
            }
            Some(TaskOutcome::Lost(why)) => TaskReading::Lost(why),
            Some(TaskOutcome::Cancelled) => TaskReading::Cancelled,
        }
    }

    fn cancel(&self) -> bool {
        self.0.cancel()
    }

    fn detach(&self) {
        self.0.detach();
    }

    fn is_owned(&self) -> bool {
        self.0.is_owned()
    }

    fn is_stranded(&self) -> bool {
        self.0.is_stranded()
    }

    fn strand(&self) {
        self.0.strand();
    }
}

/// Logs the failures of detached tasks.
#[derive(Debug)]
struct DetachedTasks(Log);

impl TaskEvents for DetachedTasks {
    fn detached_settled(&self, task: u64, request_id: &str, outcome: &TaskOutcome) {
        let why = match outcome {
            TaskOutcome::Completed(_) | TaskOutcome::Cancelled => return,
            TaskOutcome::Lost(why) => *why,
            TaskOutcome::Failed(cargo) => match cargo.downcast_ref::<TaskAnswer>() {
                Some(TaskAnswer::Thrown(_, what) | TaskAnswer::Lost(what)) => what,
                Some(TaskAnswer::Result(_)) | None => return,
            },
        };
        let reason = why.as_bytes();
        self.0.emit(&Event::Worker(WorkerEvent::DetachedTaskFailed { task, request_id, reason }));
    }
}
