//! The result of a task; opaque to the task pool.

use svc_core::observe::{Event, Log, WorkerEvent};
use svc_core::tasks::{TaskEvents, TaskOutcome};

use svc_ffi::Payload;

/// The result of a task.
#[derive(Debug)]
pub(crate) enum TaskAnswer {
    /// The return value of its function.
    Result(Payload),
    /// The exception, and its description for the log.
    Thrown(Payload, String),
    /// Why there is neither.
    Lost(String),
}

/// Logs the failures of detached tasks.
#[derive(Debug)]
pub(crate) struct DetachedTasks(pub(crate) Log);

impl TaskEvents for DetachedTasks {
    fn detached_settled(&self, task: u64, request_id: &str, outcome: &TaskOutcome) {
        let why = match outcome {
            TaskOutcome::Completed(_) | TaskOutcome::Cancelled => return,
            TaskOutcome::Lost(why) => *why,
            TaskOutcome::Failed(payload) => match payload.downcast_ref::<TaskAnswer>() {
                Some(TaskAnswer::Thrown(_, what) | TaskAnswer::Lost(what)) => what,
                Some(TaskAnswer::Result(_)) | None => return,
            },
        };
        let reason = why.as_bytes();
        self.0.emit(&Event::Worker(WorkerEvent::DetachedTaskFailed { task, request_id, reason }));
    }
}
