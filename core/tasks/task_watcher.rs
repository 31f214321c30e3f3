//! What a task knows of a watch that it is part of.
//!
//! Promises: a watch is over once; what ended it does not change. Refuses: it does not know the tasks.

use crate::sync::completion::Completer;
use crate::sync::primitive::{Arc, AtomicUsize, Ordering};

/// When a watch is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WatchMode {
    /// When all tasks have completed, or one has ended otherwise.
    All,
    /// When one has completed, or all have ended otherwise.
    Any,
    /// When one has an outcome.
    Race,
    /// When all have [left](super::Task::has_left).
    Left,
}

/// What the tasks know of a watch.
///
/// # Ordering
///
/// What ended the watch is stored before the completion is complete.
///
/// # Progress
///
/// Wait-free.
#[derive(Debug)]
pub(super) struct TaskWatchState {
    mode: WatchMode,
    /// How many tasks have not been heard of.
    left: AtomicUsize,
    winner: AtomicUsize,
    completer: Completer,
}

impl TaskWatchState {
    /// Makes the state of a watch of so many tasks, which completes `completer`.
    pub(super) fn new(mode: WatchMode, count: usize, completer: Completer) -> Self {
        Self { mode, left: AtomicUsize::new(count), winner: AtomicUsize::new(usize::MAX), completer }
    }

    /// Returns the index of the task that ended the watch; `usize::MAX` if none did alone.
    pub(super) fn winner(&self) -> usize {
        // Acquire: pairs with the Release in `tell`.
        self.winner.load(Ordering::Acquire)
    }
}

/// Tells a watch of one of its tasks.
#[derive(Debug)]
pub(super) struct TaskWatcher {
    watch: Arc<TaskWatchState>,
    index: usize,
}

impl TaskWatcher {
    /// Makes the watcher of the task with this index.
    pub(super) fn new(watch: &Arc<TaskWatchState>, index: usize) -> Self {
        Self { watch: Arc::clone(watch), index }
    }

    /// The task has an outcome, or has left. To be called once.
    pub(super) fn tell(self, has_completed: bool) {
        let watch = &*self.watch;
        let ends = match watch.mode {
            WatchMode::All => !has_completed,
            WatchMode::Any => has_completed,
            WatchMode::Race => true,
            WatchMode::Left => false,
        };
        if ends {
            // Release: pairs with the Acquire in `winner`. The first one stays.
            let _ =
                watch.winner.compare_exchange(usize::MAX, self.index, Ordering::Release, Ordering::Relaxed);
            watch.completer.complete();
        } else if watch.left.fetch_sub(1, Ordering::AcqRel) == 1 {
            // AcqRel: the last one passes on what the others have published.
            watch.completer.complete();
        }
    }

    /// Whether anybody may still wait.
    pub(super) fn is_wanted(&self) -> bool {
        self.watch.completer.is_wanted()
    }
}
