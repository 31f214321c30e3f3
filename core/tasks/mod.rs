//! Background tasks: work that a request hands to the threads of a second pool, and may wait for.
//!
//! Promises: each task has exactly one outcome, whoever else wanted to give it another; whoever waits for it is told;
//! the numbers in flight are bounded, and what is over a bound is refused immediately. Refuses: it does not know what a
//! task computes, nor what travels to it and back ([`Cargo`]); it waits for nothing and logs nothing.
//!
//! | file | noun |
//! |---|---|
//! | `outcome` | what a task comes to |
//! | `bounds` | the limits of a pool, and what a dispatch over one of them gets |
//! | `task_thread`, `task_events` | who is told that a task was cancelled, and who is told of detached ones |
//! | `task_watch`, `task_watcher` | waiting for several tasks together, and what each of them knows of it |
//! | `task` | one task: who runs it, and its outcome |
//! | `task_books` | what was dispatched, and what became of it |
//! | `task_queue` | the one queue of all threads |
//! | `task_pool` | the threads, and who may dispatch |

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

pub use bounds::{TaskLimits, TaskRejection};
pub use outcome::{Cargo, TaskFate, TaskOutcome};
pub use task::{Task, TaskOrigin};
pub use task_books::{TaskBooks, TaskCounts};
pub use task_events::TaskEvents;
pub use task_pool::TaskPool;
pub use task_thread::TaskThread;
pub use task_watch::TaskWatch;
pub use task_watcher::WatchMode;
