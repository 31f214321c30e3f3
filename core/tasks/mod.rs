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
//! | `task_accounting` | the counters of dispatched and ended tasks |
//! | `task_queue` | the queue shared by all threads |
//! | `task_pool` | the threads, and the admission of tasks |
//!
//! The pool of tasks is a second user of [`pool`](crate::pool): its job is a task and its queue is separate; threads,
//! supervision, rolling restarts and back-off are those of the workers.
//!
//! - *One outcome.* The task's worker, a cancelling thread and the loss of the worker compete for it. A lock, held for a few
//!   instructions, decides; the outcome is then published, and read without the lock, before completions notify awaiters.
//! - *Two ends.* A task is settled when its outcome is decided, and *has left* when none of its code is left to run, on its
//!   thread or in the queue; until then it is in flight. A cancelled task may run long after its awaiters were notified: it
//!   keeps its place under the limit, and is counted, by its outcome, when it leaves. Both ends can be waited for.
//! - *Laws.* Counts that belong together change under one lock, so that every reading satisfies the laws (`task_accounting`).
//! - *Tasks never wait for a pool without threads.* The thread that sees the last one fail to boot clears the queue; a
//!   thread that queues a task then checks again whether the pool has threads.
//! - *The drain* waits for tasks as it does for requests, and cancels them at its deadline. The threads of tasks end after
//!   the workers, which may still wait for tasks.
//!
//! A *payload* holds the values and the code that a task or its result carries, in one block of memory that one thread
//! packs and another unpacks (in C, `shim_payload`). A task is *stranded* if it was running when the call that waited for
//! any of several gave up.

mod bounds;
mod outcome;
mod task;
mod task_accounting;
mod task_events;
mod task_pool;
mod task_queue;
mod task_thread;
mod task_watch;
mod task_watcher;

pub use bounds::TaskLimits;
pub use outcome::{Payload, TaskEnd, TaskOutcome};
pub use task::{Task, TaskOrigin};
pub use task_accounting::{TaskAccounting, TaskCounts};
pub use task_events::TaskEvents;
pub use task_pool::TaskPool;
pub use task_thread::TaskThread;
pub use task_watch::TaskWatch;

pub use svc_types::{TaskRejection, WatchMode};
