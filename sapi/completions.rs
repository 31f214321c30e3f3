//! Completions of a worker thread: adapts the core's completions to the interpreter's interface.
//!
//! A request that waits for a completion is resumed after another thread has completed it. The creator of a completion
//! decides what completes it.

use std::sync::Arc;

use svc_core::sync::completion::{Awaited, Completer, WakeSet, completion};
use svc_core::tasks::{TaskWatch, WatchMode};

use svc_ffi::{AwaitedEnd, CompleterEnd, Completions, TaskEnd, TaskWatchEnd, TaskWatchMode, WAITER_GROUPS};

use crate::task_ends::task_of;

const _: () = assert!(WAITER_GROUPS == WakeSet::GROUPS);

/// Creates completions for the requests of one thread.
#[derive(Debug)]
pub(crate) struct ThreadCompletions(pub(crate) Arc<WakeSet>);

impl Completions for ThreadCompletions {
    fn make(&self) -> (Box<dyn AwaitedEnd>, Box<dyn CompleterEnd>) {
        let (awaited, completer) = completion(&self.0);
        (Box::new(CoreAwaited(awaited)), Box::new(CoreCompleter(completer)))
    }

    fn take_woken(&self, woken: &mut dyn FnMut(u32)) {
        self.0.take(woken);
    }

    fn watch(
        &self,
        tasks: &[&dyn TaskEnd],
        mode: TaskWatchMode,
    ) -> Option<(Box<dyn AwaitedEnd>, Box<dyn TaskWatchEnd>)> {
        let tasks: Option<Vec<_>> = tasks.iter().map(|end| task_of(*end)).collect();
        let (watch, awaited) = TaskWatch::new(&tasks?, watch_mode(mode), &self.0);
        Some((Box::new(CoreAwaited(awaited)), Box::new(CoreWatch(watch))))
    }
}

#[derive(Debug)]
struct CoreAwaited(Awaited);

impl AwaitedEnd for CoreAwaited {
    fn wait(&self, waiter: u32) -> bool {
        self.0.wait(waiter)
    }

    fn stop_waiting(&self) {
        self.0.stop_waiting();
    }

    fn is_complete(&self) -> bool {
        self.0.is_complete()
    }
}

#[derive(Debug)]
struct CoreCompleter(Completer);

impl CompleterEnd for CoreCompleter {
    fn complete(self: Box<Self>) {
        self.0.complete();
    }
}

#[derive(Debug)]
struct CoreWatch(TaskWatch);

impl TaskWatchEnd for CoreWatch {
    fn winner(&self) -> usize {
        self.0.winner()
    }
}

fn watch_mode(mode: TaskWatchMode) -> WatchMode {
    match mode {
        TaskWatchMode::All => WatchMode::All,
        TaskWatchMode::Any => WatchMode::Any,
        TaskWatchMode::Race => WatchMode::Race,
        TaskWatchMode::Left => WatchMode::Left,
    }
}
