//! Waiting for several tasks together.
//!
//! Promises: a watch is over once, and completes one completion, however many tasks it is about; what ended it does not
//! change. Refuses: it keeps no task alive and no answer; who waits reads them from the tasks.

use crate::sync::completion::{Awaited, WakeSet, completion};
use crate::sync::primitive::Arc;

use super::task::Task;
use super::task_watcher::{TaskWatchState, TaskWatcher, WatchMode};

/// Several tasks that somebody waits for together. Dropping the [`Awaited`] beside it ends the watch.
#[derive(Debug)]
pub struct TaskWatch {
    state: Arc<TaskWatchState>,
    count: usize,
}

impl TaskWatch {
    /// Watches `tasks`, at least one, for a waiter of the thread of `wakes`. The completion is complete once the watch is
    /// over, which may be at once.
    pub fn new(tasks: &[&Task], mode: WatchMode, wakes: &Arc<WakeSet>) -> (Self, Awaited) {
        let (awaited, completer) = completion(wakes);
        let state = Arc::new(TaskWatchState::new(mode, tasks.len(), completer));
        for (index, task) in tasks.iter().enumerate() {
            let watcher = TaskWatcher::new(&state, index);
            match mode {
                WatchMode::Left => task.see_off(watcher),
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
