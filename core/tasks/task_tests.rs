use std::sync::Weak;

use svc_types::WatchMode;

use super::super::bounds::TaskLimits;
use super::super::task_accounting::TaskCounts;
use super::super::task_events::TaskEvents;
use super::super::task_watch::TaskWatch;
use super::*;
use crate::sync::completion::{Awaited, WakeSet};
use crate::sync::counter::Counter;
use crate::sync::idle_workers::Wake;
use crate::time;

/// Records the tasks whose cancellation was signalled.
#[derive(Debug, Default)]
struct Thread(ShortLock<Vec<u64>>);

impl TaskThread for Thread {
    fn cancel(&self, task: u64) {
        self.0.lock().push(task);
    }
}

impl Thread {
    fn told(&self) -> Vec<u64> {
        self.0.lock().clone()
    }
}

#[derive(Debug, Default)]
struct Heard(Counter);

impl TaskEvents for Heard {
    fn detached_settled(&self, _task: u64, request_id: &str, _outcome: &TaskOutcome) {
        assert_eq!(request_id, "request");
        self.0.incr();
    }
}

impl Heard {
    fn times(&self) -> u64 {
        self.0.value()
    }
}

#[derive(Debug)]
struct NoWaker;

impl Wake for NoWaker {
    fn wake(&self) {}
}

/// The accounting of one task, with its listeners.
struct Scene {
    accounting: Arc<TaskAccounting>,
    heard: Arc<Heard>,
    thread: Arc<Thread>,
    wakes: Arc<WakeSet>,
}

impl Scene {
    fn new() -> Self {
        let limits = TaskLimits { workers: 1, fibers_max: 4, queue_capacity: 4, in_flight_cap: 4 };
        let (accounting, heard) = (Arc::new(TaskAccounting::new(limits)), Arc::<Heard>::default());
        accounting.set_events(Arc::<Heard>::clone(&heard));
        Self { accounting, heard, thread: Arc::default(), wakes: WakeSet::new(Arc::new(NoWaker)) }
    }

    fn queued(&self) -> Task {
        Task::new(self.accounting.admit().unwrap(), "request".into(), Box::new(7_u8), &self.accounting)
    }

    fn running(&self) -> Task {
        let task = self.queued();
        assert_eq!(claim(&self.accounting, &task), Ok(()));
        assert!(task.run_on(self.own_thread()));
        task
    }

    fn own_thread(&self) -> Arc<dyn TaskThread> {
        Arc::<Thread>::clone(&self.thread)
    }

    fn awaited(&self, task: &Task) -> Awaited {
        TaskWatch::new(&[task], WatchMode::Race, &self.wakes).1
    }

    fn seen_off(&self, task: &Task) -> Awaited {
        TaskWatch::new(&[task], WatchMode::Left, &self.wakes).1
    }

    /// Returns completed, failed, cancelled, stranded, in flight.
    fn counts(&self) -> [u64; 5] {
        let counts = self.accounting.counts();
        assert_eq!(counts.broken_law(), None);
        let TaskCounts { completed, failed, cancelled, stranded, .. } = counts;
        [completed, failed, cancelled, stranded, counts.in_flight()]
    }
}

fn claim(accounting: &TaskAccounting, task: &Task) -> Result<(), NotClaimed> {
    accounting.taken();
    task.claim(1, time::now())
}

fn done() -> TaskOutcome {
    TaskOutcome::Completed(Box::new(42_u32))
}

#[test]
fn a_queued_task_is_claimed_run_settled_and_leaves() {
    let scene = Scene::new();
    let task = scene.queued();
    let (awaited, seen_off) = (scene.awaited(&task), scene.seen_off(&task));
    assert!(!task.began() && task.outcome().is_none() && !task.is_settled());
    assert_eq!(claim(&scene.accounting, &task), Ok(()));
    assert!(task.began() && task.run_on(scene.own_thread()));
    assert_eq!(*task.take_input().unwrap().downcast::<u8>().unwrap(), 7);
    assert!(task.take_input().is_none(), "once");
    assert!(task.settle(done()) && awaited.is_complete() && !seen_off.is_complete());
    let Some(TaskOutcome::Completed(payload)) = task.outcome() else { panic!("{task:?}") };
    assert_eq!(payload.downcast_ref::<u32>(), Some(&42));
    assert_eq!(scene.counts(), [0, 0, 0, 0, 1], "it holds its place");
    task.fail();
    task.left();
    assert!(seen_off.is_complete() && task.has_left());
    assert_eq!(scene.counts(), [1, 0, 0, 0, 0]);
    assert!(scene.thread.told().is_empty() && scene.heard.times() == 0);
}

#[test]
fn a_late_awaiter_is_answered_at_once() {
    let scene = Scene::new();
    let task = scene.running();
    task.settle(done());
    assert!(scene.awaited(&task).is_complete());
    assert!(!scene.seen_off(&task).is_complete());
    task.left();
    assert!(scene.seen_off(&task).is_complete());
}

#[test]
fn of_several_outcomes_the_first_stands() {
    for first in 0..3 {
        let scene = Scene::new();
        let task = scene.running();
        let acts =
            [|task: &Task| task.settle(done()), |task: &Task| task.cancel(), |task: &Task| task.strand()];
        assert!(acts[first](&task));
        assert!(acts.iter().all(|act| !act(&task)), "after {first}");
        task.fail();
        task.left();
        let expected = [[1, 0, 0, 0, 0], [0, 0, 1, 0, 0], [0, 0, 1, 1, 0]];
        assert_eq!(scene.counts(), expected[first]);
    }
}

#[test]
fn a_queued_task_that_is_cancelled_never_starts_and_leaves_with_the_queue() {
    let scene = Scene::new();
    let task = scene.queued();
    let (awaited, seen_off) = (scene.awaited(&task), scene.seen_off(&task));
    assert!(task.cancel() && awaited.is_complete() && task.is_cancelled());
    assert!(task.take_input().is_none(), "its input is freed");
    assert_eq!((scene.counts(), seen_off.is_complete()), ([0, 0, 0, 0, 1], false));
    assert_eq!(claim(&scene.accounting, &task), Err(NotClaimed));
    assert_eq!((scene.counts(), seen_off.is_complete()), ([0, 0, 1, 0, 0], true));
    assert!(!task.began() && scene.thread.told().is_empty());
}

#[test]
fn the_thread_of_a_running_task_is_notified_once_of_its_cancellation() {
    let scene = Scene::new();
    let task = scene.running();
    assert!(task.cancel() && !task.cancel());
    assert_eq!(scene.thread.told(), [task.id()]);
    assert!(!task.settle(done()), "too late");
    assert_eq!(scene.counts(), [0, 0, 0, 0, 1], "it holds its place, whatever its awaiters received");
    task.left();
    assert_eq!(scene.counts(), [0, 0, 1, 0, 0]);
}

#[test]
fn a_task_that_is_cancelled_before_its_thread_is_known_is_not_run() {
    let scene = Scene::new();
    let task = scene.queued();
    assert_eq!(claim(&scene.accounting, &task), Ok(()));
    assert!(task.cancel());
    assert!(!task.run_on(scene.own_thread()));
    assert!(scene.thread.told().is_empty(), "it knows already");
    task.left();
    assert_eq!(Arc::strong_count(&scene.thread), 1, "it is forgotten");
}

#[test]
fn a_thread_that_settles_is_not_notified() {
    let scene = Scene::new();
    let task = scene.running();
    assert!(task.settle(TaskOutcome::Failed(Box::new(()))) && !task.cancel() && !task.is_cancelled());
    task.left();
    assert!(scene.thread.told().is_empty());
    assert_eq!(scene.counts(), [0, 1, 0, 0, 0]);
}

#[test]
fn a_task_dropped_by_its_worker_is_lost() {
    let scene = Scene::new();
    let task = scene.running();
    let awaited = scene.awaited(&task);
    task.fail();
    task.left();
    assert!(awaited.is_complete());
    assert!(matches!(task.outcome(), Some(TaskOutcome::Lost("its thread was lost"))));
    assert_eq!(scene.counts(), [0, 1, 0, 0, 0]);
}

#[test]
fn only_a_running_task_without_an_outcome_is_stranded() {
    let scene = Scene::new();
    let queued = scene.queued();
    assert!(!queued.strand() && queued.outcome().is_none(), "it has not begun");
    let detached = scene.running();
    detached.detach();
    assert!(!detached.strand() && !detached.is_settled(), "no timeout ends it");
    let running = scene.running();
    assert!(running.strand() && running.is_cancelled());
    assert_eq!(scene.thread.told(), [running.id()]);
    assert_eq!(scene.counts(), [0, 0, 0, 1, 3]);
}

#[test]
fn the_outcome_of_a_detached_task_is_reported_once() {
    for detached_first in [true, false] {
        let scene = Scene::new();
        let task = scene.running();
        if detached_first {
            task.detach();
        }
        assert!(!task.is_detached() || detached_first);
        task.settle(done());
        task.detach();
        task.detach();
        task.cancel();
        assert_eq!(scene.heard.times(), 1);
    }
    let scene = Scene::new();
    let task = scene.queued();
    task.detach();
    assert!(task.cancel(), "it can be cancelled nevertheless");
    assert_eq!(scene.heard.times(), 1);
}

#[test]
fn awaiters_that_gave_up_cost_no_memory() {
    let scene = Scene::new();
    let task = scene.running();
    let first = scene.awaited(&task);
    for _ in 0..1000 {
        drop(scene.awaited(&task));
    }
    assert!(task.state.lock().awaiting.capacity() <= 8);
    task.settle(done());
    assert!(first.is_complete(), "the others are still notified");
}

#[test]
fn a_task_without_handles_is_freed_with_its_values() {
    let scene = Scene::new();
    let payload = Arc::new(());
    let held: Weak<()> = Arc::downgrade(&payload);
    let task = Task::new(scene.accounting.admit().unwrap(), "".into(), Box::new(payload), &scene.accounting);
    assert_eq!(claim(&scene.accounting, &task), Ok(()));
    task.settle(done());
    assert!(held.upgrade().is_some(), "its worker may still read it");
    task.left();
    assert!(held.upgrade().is_none());
}
