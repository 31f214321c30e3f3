//! Waiting for several tasks together.
//!
//! A watch ends once and completes one completion, however many tasks it covers; the task that ended it does not change
//! afterwards. A watch keeps neither tasks nor results alive: the waiter reads the outcomes from the tasks.

use svc_types::WatchMode;

use crate::sync::completion::{Awaited, WakeSet, completion};
use crate::sync::primitive::Arc;

use super::task::Task;
use super::task_watcher::{TaskWatchState, TaskWatcher};

/// Several tasks that are awaited together. Dropping the [`Awaited`] returned with it ends the watch.
#[derive(Debug)]
pub struct TaskWatch {
    state: Arc<TaskWatchState>,
    count: usize,
}

impl TaskWatch {
    /// Watches `tasks`, at least one, for a waiter on the thread of `wakes`. The completion completes when the watch
    /// ends, possibly at once.
    pub fn new(tasks: &[&Task], mode: WatchMode, wakes: &Arc<WakeSet>) -> (Self, Awaited) {
        let (awaited, completer) = completion(wakes);
        let state = Arc::new(TaskWatchState::new(mode, tasks.len(), completer));
        for (index, task) in tasks.iter().enumerate() {
            let watcher = TaskWatcher::new(&state, index);
            match mode {
                WatchMode::Left => task.watch_end(watcher),
                WatchMode::All | WatchMode::Any | WatchMode::Race => task.watch(watcher),
            }
        }
        (Self { state, count: tasks.len() }, awaited)
    }

    /// Returns the index of the task that ended the watch: the one that did not complete ([`All`](WatchMode::All)), that
    /// completed ([`Any`](WatchMode::Any)), or that came first. The number of tasks if the last of them ended it.
    pub fn winner(&self) -> usize {
        self.state.winner().min(self.count)
    }
}
