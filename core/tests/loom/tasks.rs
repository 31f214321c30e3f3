//! Tasks under every interleaving that a bounded number of preemptions allows: dispatching, claiming, settling,
//! cancelling, watching and leaving, on the server's own queue, accounting and threads.
//!
//! An awaiter that is not notified ends in a deadlock, which the explorer reports.

use std::sync::Arc;

use loom::thread;
use svc_core::pool::{Engine, Started, Worker, WorkerStartError};
use svc_core::sync::completion::WakeSet;
use svc_core::sync::counter::Counter;
use svc_core::sync::event_count::EventCount;
use svc_core::sync::idle_workers::Wake;
use svc_core::tasks::{
    Task, TaskCounts, TaskEvents, TaskLimits, TaskOutcome, TaskPool, TaskRejection, TaskThread, TaskWatch,
    WatchMode,
};
use svc_core::time;

use crate::exploring::explore;

/// A thread that awaits tasks.
#[derive(Debug)]
struct Awaiter(EventCount);

impl Wake for Awaiter {
    fn wake(&self) {
        self.0.notify_one();
    }
}

/// Waits like a thread that awaits a task.
fn wait(task: &Task, mode: WatchMode) {
    let awaiter = Arc::new(Awaiter(EventCount::new()));
    let wakes = WakeSet::new(Arc::<Awaiter>::clone(&awaiter));
    let (_watch, awaited) = TaskWatch::new(&[task], mode, &wakes);
    if !awaited.wait(0) {
        return;
    }
    loop {
        let ticket = awaiter.0.prepare_wait();
        wakes.take(|_| {});
        if awaited.is_complete() {
            return awaiter.0.cancel_wait(ticket);
        }
        awaiter.0.wait(&ticket);
    }
}

/// Counts the notifications to a task's thread, and about detached tasks.
#[derive(Debug)]
struct Told(Counter);

impl Told {
    fn new() -> Arc<Self> {
        Arc::new(Self(Counter::new()))
    }
}

impl TaskThread for Told {
    fn cancel(&self, _task: u64) {
        self.0.incr();
    }
}

impl TaskEvents for Told {
    fn detached_settled(&self, _task: u64, _request_id: &str, _outcome: &TaskOutcome) {
        self.0.incr();
    }
}

/// Classic workers, whose tasks return.
struct Returning {
    told: Arc<Told>,
    /// How often a task was run.
    ran: Arc<Told>,
    boots: bool,
}

impl Engine<Task> for Returning {
    fn start(&self, _slot: usize) -> Result<Started<Task>, WorkerStartError> {
        if !self.boots {
            return Err(WorkerStartError("no boot allowed".to_owned()));
        }
        let (told, ran) = (Arc::clone(&self.told), Arc::clone(&self.ran));
        Ok(Started::Classic(Box::new(Self { told, ran, boots: true })))
    }
}

impl Worker<Task> for Returning {
    fn serve(&mut self, task: &Arc<Task>) {
        if task.run_on(Arc::<Told>::clone(&self.told)) {
            assert!(task.take_input().is_some());
            self.ran.0.incr();
            task.settle(TaskOutcome::Completed(Box::new(1_u8)));
        }
    }
}

struct Scene {
    pool: Arc<TaskPool>,
    told: Arc<Told>,
    ran: Arc<Told>,
}

impl Scene {
    fn start() -> Self {
        let scene = Self::new();
        scene.begin(true);
        scene
    }

    fn new() -> Self {
        let limits = TaskLimits { workers: 1, fibers_max: 2, queue_capacity: 2, in_flight_cap: 2 };
        Self { pool: TaskPool::new(limits), told: Told::new(), ran: Told::new() }
    }

    fn begin(&self, boots: bool) {
        let (told, ran) = (Arc::clone(&self.told), Arc::clone(&self.ran));
        let engine: Arc<dyn Engine<Task>> = Arc::new(Returning { told, ran, boots });
        self.pool.start(&engine).unwrap();
    }

    fn dispatch(&self) -> Arc<Task> {
        self.pool.dispatch(Box::new(0_u8), "".into()).unwrap()
    }

    /// Ends the pool; returns the final counts.
    fn end(&self) -> TaskCounts {
        self.pool.close_queue();
        assert!(self.pool.join());
        let counts = self.pool.counts();
        assert_eq!((counts.broken_law(), counts.in_flight()), (None, 0), "{counts:?}");
        assert!(counts.stranded <= counts.cancelled, "{counts:?}");
        counts
    }
}

#[test]
fn a_task_runs_and_its_awaiter_is_notified() {
    explore(3, || {
        let scene = Scene::start();
        let task = scene.dispatch();
        wait(&task, WatchMode::Race);
        assert!(matches!(task.outcome(), Some(TaskOutcome::Completed(_))));
        wait(&task, WatchMode::Left);
        assert_eq!(scene.pool.counts().completed, 1, "it is counted before its end is visible");
        scene.end();
    });
}

#[test]
fn a_task_that_is_cancelled_while_it_is_claimed_and_settled_has_one_outcome() {
    explore(3, || {
        let scene = Scene::start();
        let task = scene.dispatch();
        let has_cancelled = task.cancel();
        wait(&task, WatchMode::Left);
        let counts = scene.end();
        let (ran, told) = (scene.ran.0.value(), scene.told.0.value());
        assert_eq!((task.is_cancelled(), counts.cancelled == 1), (has_cancelled, has_cancelled));
        assert_eq!(counts.completed == 1, !has_cancelled, "{counts:?}");
        assert!(has_cancelled || (ran, told) == (1, 0), "its thread is not notified of its own action");
        assert!(told <= 1 && (ran == 0 || task.began()));
    });
}

#[test]
fn a_task_that_its_thread_begins_learns_that_it_was_cancelled() {
    explore(3, || {
        let scene = Scene::start();
        let task = scene.dispatch();
        let other = {
            let task = Arc::clone(&task);
            thread::spawn(move || task.cancel())
        };
        let has_stranded = task.strand();
        let has_cancelled = other.join().unwrap();
        assert!(!(has_stranded && has_cancelled), "one of them");
        wait(&task, WatchMode::Left);
        let counts = scene.end();
        assert_eq!(
            (counts.stranded == 1, counts.cancelled == 1),
            (has_stranded, has_stranded || has_cancelled)
        );
    });
}

#[test]
fn the_outcome_of_a_detached_task_is_reported_once() {
    explore(3, || {
        let (scene, heard) = (Scene::new(), Told::new());
        scene.pool.set_events(Arc::<Told>::clone(&heard));
        scene.begin(true);
        let task = scene.dispatch();
        task.detach();
        wait(&task, WatchMode::Left);
        assert_eq!(heard.0.value(), 1);
        scene.end();
    });
}

#[test]
fn no_task_waits_for_a_thread_that_does_not_boot() {
    explore(3, || {
        let scene = Scene::new();
        let early = scene.dispatch();
        scene.begin(false);
        match scene.pool.dispatch(Box::new(0_u8), "".into()) {
            Ok(late) => {
                wait(&late, WatchMode::Left);
                assert!(matches!(late.outcome(), Some(TaskOutcome::Lost(_))));
            }
            Err(rejection) => assert_eq!(rejection, TaskRejection::NoThread),
        }
        wait(&early, WatchMode::Left);
        assert_eq!(scene.end().failed, scene.pool.counts().dispatched);
    });
}

#[test]
fn a_reading_keeps_the_laws_while_tasks_come_and_go() {
    explore(2, || {
        let scene = Scene::start();
        let reader = {
            let pool = Arc::clone(&scene.pool);
            thread::spawn(move || {
                let (first, second) = (pool.counts(), pool.counts());
                assert_eq!((first.broken_law(), second.broken_law()), (None, None));
                assert!(first.dispatched <= second.dispatched && first.completed <= second.completed);
            })
        };
        let tasks = [scene.dispatch(), scene.dispatch()];
        tasks[0].strand();
        reader.join().unwrap();
        tasks.iter().for_each(|task| wait(task, WatchMode::Left));
        scene.end();
    });
}

#[test]
fn the_end_of_the_pool_ends_all_waits() {
    explore(3, || {
        let scene = Scene::start();
        let task = scene.dispatch();
        scene.pool.cancel_all(time::now());
        let counts = scene.end();
        assert!(task.has_left() && task.outcome().is_some());
        assert_eq!((counts.dispatched, counts.failed), (1, 0));
    });
}
