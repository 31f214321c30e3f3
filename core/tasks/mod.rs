//! Background tasks: work that a request hands to a second thread pool, and may await.
//!
//! Each task has exactly one outcome, even if several threads try to decide it, and each awaiter is notified. The
//! number of tasks in flight is bounded; a dispatch beyond a limit is rejected immediately. The computation of a task
//! and its payloads ([`Payload`]) are opaque here. This module never blocks and logs nothing.
//!
//! | file | content |
//! |---|---|
//! | `outcome` | the outcome of a task |
//! | `bounds` | the limits of a pool |
//! | `task_thread`, `task_events` | notifications of cancelled and of detached tasks |
//! | `task_watch`, `task_watcher` | waiting for several tasks together, and its link in each task |
//! | `task` | one task: its worker and its outcome |
//! | `task_books` | the counters of dispatched and ended tasks |
//! | `task_queue` | the queue shared by all threads |
//! | `task_pool` | the threads, and the admission of tasks |

mod bounds;
mod outcome;
mod task;
mod task_books;
mod task_events;
mod task_pool;
mod task_queue;
mod task_thread;
mod task_watch;
mod task_watcher;

pub use bounds::TaskLimits;
pub use outcome::{Payload, TaskEnd, TaskOutcome};
pub use task::{Task, TaskOrigin};
pub use task_books::{TaskBooks, TaskCounts};
pub use task_events::TaskEvents;
pub use task_pool::TaskPool;
pub use task_thread::TaskThread;
pub use task_watch::TaskWatch;

pub use svc_types::{TaskRejection, WatchMode};
