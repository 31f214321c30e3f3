//! A pool of tasks: the server's threads, queue, accounting and supervisor, with an engine that takes its commands from
//! a task's input. The accounting must balance after each history.

use std::sync::Arc;
use std::time::Duration;

use svc_core::pool::{Engine, Supervisor, SupervisorReport};
use svc_core::sync::completion::WakeSet;
use svc_core::sync::event_count::EventCount;
use svc_core::sync::idle_workers::Wake;
use svc_core::sync::lock::ShortLock;
use svc_core::tasks::{
    Task, TaskCounts, TaskEvents, TaskLimits, TaskOutcome, TaskPool, TaskRejection, TaskWatch, WatchMode,
};
use svc_core::time;

use crate::support::tasks::{TaskAct, TaskBoard, TaskEngine};

/// Wakes the test.
#[derive(Debug, Default)]
struct Awaiter(EventCount);

impl Wake for Awaiter {
    fn wake(&self) {
        self.0.notify_all();
    }
}

/// A pool, and the board that controls it.
struct Scene {
    pool: Arc<TaskPool>,
    board: Arc<TaskBoard>,
    supervisor: Supervisor,
    reports: Vec<String>,
    awaiter: Arc<Awaiter>,
    wakes: Arc<WakeSet>,
}

const LIMITS: TaskLimits = TaskLimits { workers: 1, fibers_max: 8, queue_capacity: 4, in_flight_cap: 8 };

impl Scene {
    fn new(limits: TaskLimits) -> Self {
        let pool = TaskPool::new(limits);
        let supervisor = Supervisor::new(pool.size(), Duration::MAX);
        let awaiter = Arc::<Awaiter>::default();
        let wakes = WakeSet::new(Arc::<Awaiter>::clone(&awaiter));
        Self { pool, board: Arc::default(), supervisor, reports: Vec::new(), awaiter, wakes }
    }

    fn start(limits: TaskLimits) -> Self {
        let scene = Self::new(limits);
        scene.begin();
        scene
    }

    fn begin(&self) {
        let engine: Arc<dyn Engine<Task>> = Arc::new(TaskEngine(Arc::clone(&self.board)));
        self.pool.start(&engine).unwrap();
    }

    fn dispatch(&self, act: TaskAct) -> Arc<Task> {
        self.pool.dispatch(act.payload(), "request".into()).unwrap()
    }

    /// Returns a task that has begun.
    fn running(&self, act: TaskAct) -> Arc<Task> {
        let task = self.dispatch(act);
        self.until(|| self.board.began().contains(&task.id()));
        task
    }

    fn rejected(&self) -> TaskRejection {
        self.pool.dispatch(TaskAct::Return(0).payload(), "request".into()).unwrap_err()
    }

    /// Waits for the outcome like a thread that awaits a task.
    fn awaited<'a>(&self, task: &'a Task) -> &'a TaskOutcome {
        self.wait(task, WatchMode::Race);
        task.outcome().unwrap()
    }

    /// Waits until the task is completely released.
    fn await_end(&self, task: &Task) {
        self.wait(task, WatchMode::Left);
        assert!(task.has_left());
    }

    fn wait(&self, task: &Task, mode: WatchMode) {
        let (_watch, awaited) = TaskWatch::new(&[task], mode, &self.wakes);
        if awaited.wait(0) {
            loop {
                let ticket = self.awaiter.0.prepare_wait();
                self.wakes.take(|_| {});
                if awaited.is_complete() {
                    break self.awaiter.0.cancel_wait(ticket);
                }
                self.awaiter.0.wait(&ticket);
            }
        }
    }

    fn result(&self, task: &Task) -> u32 {
        let TaskOutcome::Completed(payload) = self.awaited(task) else { panic!("{task:?}") };
        *payload.downcast_ref().unwrap()
    }

    fn until(&self, condition: impl Fn() -> bool) {
        while !condition() {
            self.lawful();
            std::thread::yield_now();
        }
    }

    fn lawful(&self) -> TaskCounts {
        let counts = self.pool.counts();
        assert_eq!(counts.broken_law(), None, "{counts:?}");
        counts
    }

    /// Returns the counts of completed, failed, cancelled, stranded and in-flight tasks.
    fn counts(&self) -> [u64; 5] {
        let counts = self.lawful();
        [counts.completed, counts.failed, counts.cancelled, counts.stranded, counts.in_flight()]
    }

    fn tend(&mut self, now: std::time::Instant) -> Option<std::time::Instant> {
        let (reports, workers) = (&mut self.reports, self.pool.workers().unwrap());
        self.supervisor.tend(workers, &mut |report| reports.push(word(&report)), now)
    }

    /// Ends the pool; returns the final counts.
    fn end(self) -> TaskCounts {
        self.board.open_all();
        self.until(|| self.pool.counts().in_flight() == 0);
        self.pool.close_queue();
        assert!(self.pool.join(), "every thread ended in order");
        assert_eq!(self.rejected(), TaskRejection::Closed);
        let counts = self.lawful();
        assert_eq!(counts.dispatched, counts.completed + counts.failed + counts.cancelled, "{counts:?}");
        assert!(counts.stranded <= counts.cancelled, "{counts:?}");
        counts
    }
}

fn word(report: &SupervisorReport<'_>) -> String {
    match report {
        SupervisorReport::Lost { reason, .. } => format!("lost: {reason}"),
        SupervisorReport::NotBooted { reason, .. } => format!("not booted: {reason}"),
        SupervisorReport::BootAgain { failures } => format!("boots again after {failures}"),
        SupervisorReport::RestartStarted { workers } => format!("restart of {workers}"),
        SupervisorReport::RestartFinished { workers } => format!("restarted {workers}"),
        other => format!("{other:?}"),
    }
}

#[test]
fn each_task_is_run_once_and_its_awaiter_gets_its_result() {
    let limits = TaskLimits { workers: 2, queue_capacity: 500, in_flight_cap: 500, ..LIMITS };
    let scene = Scene::start(limits);
    let tasks: Vec<_> = (0..500).map(|n| scene.dispatch(TaskAct::Return(n))).collect();
    for (n, task) in (0..).zip(&tasks) {
        assert_eq!((scene.result(task), task.id(), task.request_id()), (n, u64::from(n) + 1, "request"));
        assert!(task.began() && !task.cancel());
    }
    let mut began = scene.board.began();
    began.sort_unstable();
    assert_eq!(began, (1..=500).collect::<Vec<_>>());
    let counts = scene.end();
    assert_eq!((counts.dispatched, counts.completed, counts.rejected), (500, 500, 0));
}

#[test]
fn a_task_that_fails_or_has_no_result_is_counted_as_failed() {
    let scene = Scene::start(LIMITS);
    assert!(matches!(scene.awaited(&scene.dispatch(TaskAct::Fail)), TaskOutcome::Failed(_)));
    assert!(matches!(scene.awaited(&scene.dispatch(TaskAct::Silent)), TaskOutcome::Lost(_)));
    assert_eq!(scene.end().failed, 2);
}

#[test]
fn past_the_queue_and_past_the_cap_a_dispatch_is_rejected_and_counted() {
    let scene = Scene::start(LIMITS);
    scene.running(TaskAct::Block("a"));
    let queued: Vec<_> = (0..4).map(|n| scene.dispatch(TaskAct::Return(n))).collect();
    assert_eq!(scene.rejected(), TaskRejection::Queue { capacity: 4 });
    assert_eq!((scene.counts(), scene.lawful().rejected), ([0, 0, 0, 0, 5], 1));
    scene.board.open("a");
    queued.iter().for_each(|task| scene.await_end(task));
    let parked: Vec<_> = (0..8).map(|_| scene.running(TaskAct::Park("b"))).collect();
    assert_eq!(scene.rejected(), TaskRejection::InFlight { cap: 8 });
    assert!(parked[0].cancel());
    scene.await_end(&parked[0]);
    scene.await_end(&scene.dispatch(TaskAct::Fail));
    assert_eq!((scene.counts(), scene.lawful().rejected), ([5, 1, 1, 0, 7], 2));
    assert_eq!(scene.end().dispatched, 14);
}

#[test]
fn a_thread_runs_no_more_tasks_at_a_time_than_it_may() {
    let scene = Scene::start(TaskLimits { fibers_max: 2, ..LIMITS });
    let parked = [scene.running(TaskAct::Park("a")), scene.running(TaskAct::Park("b"))];
    let queued = scene.dispatch(TaskAct::Return(3));
    assert_eq!(scene.pool.workers().unwrap().backlog(), 1);
    scene.board.open("b");
    assert_eq!((scene.result(&queued), parked[0].began(), parked[0].outcome().is_none()), (3, true, true));
    scene.end();
}

#[test]
fn queued_tasks_that_are_cancelled_never_start_and_make_room_for_others() {
    let scene = Scene::start(LIMITS);
    scene.running(TaskAct::Block("a"));
    let queued: Vec<_> = (0..4).map(|n| scene.dispatch(TaskAct::Return(n))).collect();
    assert!(queued.iter().all(|task| task.cancel()));
    assert!(queued.iter().all(|task| matches!(scene.awaited(task), TaskOutcome::Cancelled)));
    assert_eq!(scene.counts(), [0, 0, 0, 0, 5], "no thread has looked at the queue");
    // The only thread is busy.
    let more: Vec<_> = (0..4).map(|n| scene.dispatch(TaskAct::Return(n))).collect();
    assert_eq!(scene.counts(), [0, 0, 4, 0, 5]);
    assert_eq!(scene.rejected(), TaskRejection::Queue { capacity: 4 });
    assert!(more[0].cancel());
    scene.pool.sweep();
    assert_eq!(scene.counts(), [0, 0, 5, 0, 4], "as it is swept once a second");
    scene.board.open("a");
    queued.iter().chain(&more).for_each(|task| scene.await_end(task));
    assert!(queued.iter().chain(&more[..1]).all(|task| !task.began()));
    let counts = scene.end();
    assert_eq!((counts.completed, counts.cancelled), (4, 5));
}

#[test]
fn a_running_task_that_is_cancelled_is_counted_when_it_has_left_its_thread() {
    // One on each thread.
    let scene = Scene::start(TaskLimits { workers: 2, fibers_max: 1, ..LIMITS });
    let (parked, blocked) = (scene.running(TaskAct::Park("never")), scene.running(TaskAct::Block("a")));
    assert!(parked.cancel() && blocked.strand());
    assert!(matches!(scene.awaited(&blocked), TaskOutcome::Cancelled));
    scene.await_end(&parked);
    assert_eq!(scene.counts(), [0, 0, 1, 1, 1], "it was cancelled, and continues");
    scene.board.open("a");
    scene.await_end(&blocked);
    assert!(matches!(blocked.outcome(), Some(TaskOutcome::Cancelled)), "whatever its code returned");
    assert_eq!(scene.end().cancelled, 2);
}

#[test]
fn a_lost_thread_loses_its_own_tasks_and_no_waiting_ones() {
    let mut scene = Scene::start(LIMITS);
    let parked = scene.running(TaskAct::Park("a"));
    let dies = scene.dispatch(TaskAct::Panic);
    assert!(matches!(scene.awaited(&dies), TaskOutcome::Lost("its thread was lost")));
    assert!(matches!(scene.awaited(&parked), TaskOutcome::Lost("its thread was lost")));
    scene.await_end(&parked);
    scene.until(|| scene.pool.workers().unwrap().taking() == 0);
    assert_eq!(scene.rejected(), TaskRejection::NoThread);
    let again = scene.tend(time::now()).expect("it is tried again after a pause");
    assert_eq!(scene.reports, ["lost: the engine panicked"]);
    scene.tend(again);
    scene.until(|| scene.pool.workers().unwrap().taking() == 1);
    assert_eq!(scene.result(&scene.dispatch(TaskAct::Return(9))), 9);
    let counts = scene.end();
    assert_eq!((counts.completed, counts.failed, counts.rejected), (1, 2, 0), "no bound was reached");
}

#[test]
fn tasks_wait_for_the_first_boot_and_fail_if_it_fails() {
    let mut scene = Scene::new(LIMITS);
    let early = scene.dispatch(TaskAct::Return(1));
    assert!(early.outcome().is_none(), "no boot was tried");
    scene.board.refuse_boots(true);
    scene.begin();
    assert!(matches!(scene.awaited(&early), TaskOutcome::Lost("no thread for tasks boots")));
    scene.until(|| scene.pool.workers().unwrap().taking() == 0);
    assert_eq!(scene.rejected(), TaskRejection::NoThread);
    let mut now = time::now();
    for attempt in 2..5 {
        now = scene.tend(now).expect("it is tried again after a pause");
        scene.tend(now);
        scene.until(|| scene.board.boots() == attempt && scene.pool.workers().unwrap().unfinished() == 0);
        assert_eq!(scene.rejected(), TaskRejection::NoThread, "while it is tried again, too");
    }
    scene.board.refuse_boots(false);
    now = scene.tend(now).unwrap();
    scene.tend(now);
    scene.until(|| scene.pool.workers().unwrap().taking() == 1);
    scene.tend(now);
    assert_eq!(scene.reports.last().map(String::as_str), Some("boots again after 4"));
    assert_eq!(scene.result(&scene.dispatch(TaskAct::Return(2))), 2);
    let counts = scene.end();
    assert_eq!((counts.dispatched, counts.failed, counts.completed), (2, 1, 1));
}

#[test]
fn a_rolling_restart_refuses_nothing_and_loses_no_task() {
    let mut scene =
        Scene::start(TaskLimits { workers: 2, queue_capacity: 300, in_flight_cap: 300, ..LIMITS });
    scene.until(|| scene.pool.workers().unwrap().booted_total() == 2);
    let held = [scene.running(TaskAct::Park("a")), scene.running(TaskAct::Park("a"))];
    scene.supervisor.want_restart();
    let mut tasks = Vec::new();
    while !scene.reports.iter().any(|report| report.starts_with("restarted")) {
        scene.tend(time::now());
        if tasks.len() < 200 {
            tasks.push(scene.dispatch(TaskAct::Return(5)));
        }
        std::thread::yield_now();
    }
    assert!(tasks.iter().all(|task| scene.result(task) == 5));
    assert!(held.iter().all(|task| task.outcome().is_none()), "the old threads linger with what they run");
    assert_eq!(scene.board.boots(), 4);
    assert_eq!(scene.end().failed, 0);
}

#[test]
fn the_end_of_the_pool_cancels_queued_and_running_tasks() {
    let scene = Scene::start(LIMITS);
    let parked = [scene.running(TaskAct::Park("never")), scene.running(TaskAct::Park("never"))];
    let blocked = scene.running(TaskAct::Block("a"));
    let queued = scene.dispatch(TaskAct::Return(1));
    scene.pool.cancel_all(time::now());
    assert_eq!(scene.rejected(), TaskRejection::Closed);
    for task in [&parked[0], &parked[1], &blocked, &queued] {
        assert!(task.is_cancelled());
    }
    assert!(queued.has_left() && !queued.began());
    scene.board.open("a");
    let counts = scene.end();
    assert_eq!((counts.cancelled, counts.completed, counts.rejected), (4, 0, 0));
}

#[test]
fn a_pool_that_never_started_settles_its_tasks() {
    let scene = Scene::new(LIMITS);
    let task = scene.dispatch(TaskAct::Return(1));
    scene.pool.close_queue();
    assert!(scene.pool.join() && matches!(scene.awaited(&task), TaskOutcome::Cancelled));
    assert_eq!(scene.end().cancelled, 1);
}

#[test]
fn a_detached_task_is_heard_of_once_and_its_output_is_counted() {
    #[derive(Debug, Default)]
    struct Heard(ShortLock<Vec<(u64, bool)>>);
    impl TaskEvents for Heard {
        fn detached_settled(&self, task: u64, _request_id: &str, outcome: &TaskOutcome) {
            self.0.lock().push((task, matches!(outcome, TaskOutcome::Failed(_))));
        }
    }
    let (scene, heard) = (Scene::new(LIMITS), Arc::<Heard>::default());
    scene.pool.set_events(Arc::<Heard>::clone(&heard));
    let fails = scene.dispatch(TaskAct::Fail);
    fails.detach();
    scene.begin();
    let kept = scene.dispatch(TaskAct::Return(1));
    scene.await_end(&fails);
    scene.await_end(&kept);
    kept.detach();
    scene.pool.discard_output(12);
    scene.pool.discard_output(30);
    assert_eq!(*heard.0.lock(), [(1, true), (2, false)]);
    assert_eq!(scene.end().output_discarded_bytes, 42);
}
