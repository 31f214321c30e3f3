//! The link from a task to a watch.
//!
//! A watch ends once; the task that ended it does not change afterwards. This module does not refer to tasks.

use svc_types::WatchMode;

use crate::sync::completion::Completer;
use crate::sync::primitive::{Arc, AtomicUsize, Ordering};

/// The state of a watch, shared by its tasks.
///
/// # Ordering
///
/// The winner is stored before the completion completes.
///
/// # Progress
///
/// Wait-free.
#[derive(Debug)]
pub(super) struct TaskWatchState {
    mode: WatchMode,
    /// The number of tasks that have not reported.
    left: AtomicUsize,
    winner: AtomicUsize,
    completer: Completer,
}

impl TaskWatchState {
    /// Creates the state of a watch of `count` tasks, which completes `completer`.
    pub(super) fn new(mode: WatchMode, count: usize, completer: Completer) -> Self {
        Self { mode, left: AtomicUsize::new(count), winner: AtomicUsize::new(usize::MAX), completer }
    }

    /// Returns the index of the task that ended the watch; `usize::MAX` if the watch ended with the last report.
    pub(super) fn winner(&self) -> usize {
        // Acquire: pairs with the Release in `report`.
        self.winner.load(Ordering::Acquire)
    }
}

/// Reports one task to its watch.
#[derive(Debug)]
pub(super) struct TaskWatcher {
    watch: Arc<TaskWatchState>,
    index: usize,
}

impl TaskWatcher {
    /// Creates the watcher of the task at `index`.
    pub(super) fn new(watch: &Arc<TaskWatchState>, index: usize) -> Self {
        Self { watch: Arc::clone(watch), index }
    }

    /// Reports that the task has an outcome, or has left. Must be called once.
    pub(super) fn report(self, has_completed: bool) {
        let watch = &*self.watch;
        let ends = match watch.mode {
            WatchMode::All => !has_completed,
            WatchMode::Any => has_completed,
            WatchMode::Race => true,
            WatchMode::Left => false,
        };
        if ends {
            // Release: pairs with the Acquire in `winner`. The first winner stays.
            let _ =
                watch.winner.compare_exchange(usize::MAX, self.index, Ordering::Release, Ordering::Relaxed);
            watch.completer.complete();
        } else if watch.left.fetch_sub(1, Ordering::AcqRel) == 1 {
            // AcqRel: the last report passes on the writes of the others.
            watch.completer.complete();
        }
    }

    /// Returns whether a waiter may still be there.
    pub(super) fn is_wanted(&self) -> bool {
        self.watch.completer.is_wanted()
    }
}
