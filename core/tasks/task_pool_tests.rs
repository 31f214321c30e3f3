//! Hundreds of random histories of a pool without threads: the test claims, settles and drops tasks like threads do,
//! and checks the result against a small model after each step. A failure prints its seed, which replays the history.

use svc_testing::dice::Dice;

use super::*;
use crate::pool::Job;
use crate::sync::completion::{Awaited, WakeSet};
use crate::sync::idle_workers::Wake;
use crate::sync::lock::ShortLock;
use crate::tasks::{TaskEnd, TaskThread, TaskWatch, WatchMode};

const SEEDS: u64 = 300;
const STEPS: u64 = 400;

#[derive(Debug)]
struct NoWaker;

impl Wake for NoWaker {
    fn wake(&self) {}
}

/// Records the tasks whose cancellation was signalled.
#[derive(Debug, Default)]
struct Told(ShortLock<Vec<u64>>);

impl TaskThread for Told {
    fn cancel(&self, task: u64) {
        self.0.lock().push(task);
    }
}

impl TaskEvents for Told {
    fn detached_settled(&self, task: u64, _request_id: &str, _outcome: &TaskOutcome) {
        self.0.lock().push(task);
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ModelStage {
    Queued,
    Claimed,
    OnThread,
    Left,
}

/// The expected state of a task.
struct TaskModel {
    task: Arc<Task>,
    stage: ModelStage,
    began: bool,
    end: Option<TaskEnd>,
    detached: bool,
    /// Its thread was notified of the cancellation.
    told: bool,
    /// Its outcome was reported after a detach.
    heard: bool,
    awaited: Vec<Awaited>,
    seen_off: Vec<Awaited>,
}

struct History {
    dice: Dice,
    limits: TaskLimits,
    pool: Arc<TaskPool>,
    thread: Arc<Told>,
    heard: Arc<Told>,
    wakes: Arc<WakeSet>,
    tasks: Vec<TaskModel>,
    rejected: u64,
    stranded: u64,
    is_closed: bool,
}

impl History {
    fn new(seed: u64) -> Self {
        let mut dice = Dice::new(seed);
        let in_flight_cap = 1 + dice.below(12) as usize;
        let queue_capacity = 1 + dice.below(8) as usize;
        let limits = TaskLimits { workers: 1, fibers_max: 4, queue_capacity, in_flight_cap };
        let (pool, heard) = (TaskPool::new(limits), Arc::<Told>::default());
        pool.set_events(Arc::<Told>::clone(&heard));
        let wakes = WakeSet::new(Arc::new(NoWaker));
        let (tasks, thread) = (Vec::new(), Arc::default());
        Self { dice, limits, pool, thread, heard, wakes, tasks, rejected: 0, stranded: 0, is_closed: false }
    }

    fn step(&mut self) {
        match self.dice.below(20) {
            0..=5 => self.dispatch(),
            6..=9 => self.claim(),
            10..=12 => self.settle(),
            13 | 14 => self.leave(),
            15 => self.decide(Task::cancel, |_| true),
            16 => self.strand(),
            17 => self.detach(),
            18 => self.watch(),
            _ if self.dice.one_in(20) => self.clear(),
            _ if self.dice.one_in(100) => {
                self.pool.close();
                self.is_closed = true;
            }
            _ => {}
        }
    }

    fn count(&self, is: impl Fn(&TaskModel) -> bool) -> usize {
        self.tasks.iter().filter(|model| is(model)).count()
    }

    /// Returns the number of tasks in flight, and of those in the queue.
    fn loads(&self) -> (usize, usize) {
        let in_flight = self.count(|model| model.stage != ModelStage::Left);
        (in_flight, self.count(|model| model.stage == ModelStage::Queued))
    }

    fn dispatch(&mut self) {
        let TaskLimits { queue_capacity, in_flight_cap, .. } = self.limits;
        let (in_flight, queued) = self.loads();
        if in_flight == in_flight_cap || queued == queue_capacity {
            // Cancelled tasks in the queue are swept to make room.
            let is_stale = |model: &&mut TaskModel| model.stage == ModelStage::Queued && model.end.is_some();
            self.tasks.iter_mut().filter(is_stale).for_each(|model| model.stage = ModelStage::Left);
        }
        let (in_flight, queued) = self.loads();
        let expected = if self.is_closed {
            Some(TaskRejection::Closed)
        } else if in_flight == in_flight_cap {
            Some(TaskRejection::InFlight { cap: in_flight_cap })
        } else if queued == queue_capacity {
            Some(TaskRejection::Queue { capacity: queue_capacity })
        } else {
            None
        };
        let dispatched = self.pool.dispatch(Box::new(()), "".into());
        assert_eq!(dispatched.as_ref().err(), expected.as_ref());
        self.rejected += u64::from(expected.is_some() && !self.is_closed);
        if let Ok(task) = dispatched {
            assert_eq!(task.id(), self.tasks.len() as u64 + 1);
            self.tasks.push(TaskModel {
                task,
                stage: ModelStage::Queued,
                began: false,
                end: None,
                detached: false,
                told: false,
                heard: false,
                awaited: Vec::new(),
                seen_off: Vec::new(),
            });
        }
    }

    /// Claims the oldest task, as a thread does; sometimes the next step of the claim follows later.
    fn claim(&mut self) {
        let oldest = self.tasks.iter_mut().find(|model| model.stage == ModelStage::Queued);
        let taken = self.pool.queue.try_take();
        assert_eq!(taken.as_ref().map(|task| task.id()), oldest.as_ref().map(|model| model.task.id()));
        let Some((task, model)) = taken.zip(oldest) else { return };
        let claimed = task.claim(1, crate::time::now());
        assert_eq!(claimed.is_ok(), model.end.is_none());
        if claimed.is_err() {
            return model.stage = ModelStage::Left;
        }
        (model.stage, model.began) = (ModelStage::Claimed, true);
        if !self.dice.one_in(3) {
            self.run_on();
        }
    }

    fn run_on(&mut self) {
        let thread = Arc::clone(&self.thread);
        for model in self.tasks.iter_mut().filter(|model| model.stage == ModelStage::Claimed) {
            assert_eq!(model.task.run_on(Arc::<Told>::clone(&thread)), model.end.is_none());
            model.stage = ModelStage::OnThread;
        }
    }

    fn pick(&mut self, is: impl Fn(&TaskModel) -> bool) -> Option<&mut TaskModel> {
        let some = self.count(&is) as u64;
        let nth = if some > 0 { self.dice.below(some) as usize } else { return None };
        self.tasks.iter_mut().filter(|model| is(model)).nth(nth)
    }

    fn settle(&mut self) {
        self.run_on();
        let completes = self.dice.one_in(2);
        let Some(model) = self.pick(|model| model.stage == ModelStage::OnThread) else { return };
        let (end, outcome) = if completes {
            (TaskEnd::Completed, TaskOutcome::Completed(Box::new(())))
        } else {
            (TaskEnd::Failed, TaskOutcome::Failed(Box::new(())))
        };
        assert_eq!(model.task.settle(outcome), model.end.is_none());
        model.settled(end);
    }

    /// Drops a claim, as a thread does, whether the task has settled or not.
    fn leave(&mut self) {
        let is_claimed =
            |model: &TaskModel| matches!(model.stage, ModelStage::Claimed | ModelStage::OnThread);
        let Some(model) = self.pick(is_claimed) else { return };
        model.task.fail();
        model.settled(TaskEnd::Failed);
        model.task.left();
        model.stage = ModelStage::Left;
    }

    /// Decides the outcome of a random task.
    fn decide(&mut self, act: impl Fn(&Task) -> bool, may: impl Fn(&TaskModel) -> bool) {
        let Some(model) = self.pick(|_| true) else { return };
        let expected = model.end.is_none() && may(model);
        assert_eq!(act(&model.task), expected);
        if expected {
            model.told = model.stage == ModelStage::OnThread;
            model.settled(TaskEnd::Cancelled);
        }
    }

    fn strand(&mut self) {
        let before = self.pool.counts().stranded;
        self.decide(Task::strand, |model| model.began && !model.detached);
        self.stranded += self.pool.counts().stranded - before;
    }

    fn detach(&mut self) {
        let Some(model) = self.pick(|_| true) else { return };
        model.task.detach();
        model.detached = true;
        model.heard = model.end.is_some();
    }

    fn watch(&mut self) {
        let wakes = Arc::clone(&self.wakes);
        let leaving = self.dice.one_in(2);
        let gives_up = self.dice.one_in(3);
        let Some(model) = self.pick(|_| true) else { return };
        let (mode, kept) = if leaving {
            (WatchMode::Left, &mut model.seen_off)
        } else {
            (WatchMode::Race, &mut model.awaited)
        };
        let (_, awaited) = TaskWatch::new(&[&model.task], mode, &wakes);
        if !gives_up {
            kept.push(awaited);
        }
    }

    /// Clears the queue, as if the last thread had failed.
    fn clear(&mut self) {
        self.pool.queue.clear(|task| {
            task.settle(TaskOutcome::Lost("no thread"));
        });
        for model in self.tasks.iter_mut().filter(|model| model.stage == ModelStage::Queued) {
            model.settled(TaskEnd::Failed);
            model.stage = ModelStage::Left;
        }
    }

    fn check(&self) {
        let counts = self.pool.counts();
        assert_eq!(counts.broken_law(), None, "{counts:?}");
        let left = |end| self.count(|model| model.stage == ModelStage::Left && model.end == Some(end)) as u64;
        let expected = [
            self.tasks.len() as u64,
            left(TaskEnd::Completed),
            left(TaskEnd::Failed),
            left(TaskEnd::Cancelled),
            self.rejected,
            self.stranded,
        ];
        let TaskCounts { dispatched, completed, failed, cancelled, rejected, stranded, .. } = counts;
        assert_eq!([dispatched, completed, failed, cancelled, rejected, stranded], expected);
        for model in &self.tasks {
            model.check();
        }
        let named = |told: &Told| {
            let mut named = told.0.lock().clone();
            named.sort_unstable();
            named
        };
        let ids = |is: fn(&TaskModel) -> bool| -> Vec<u64> {
            self.tasks.iter().filter(|model| is(model)).map(|model| model.task.id()).collect()
        };
        assert_eq!(named(&self.thread), ids(|model| model.told));
        assert_eq!(named(&self.heard), ids(|model| model.heard));
    }

    /// Ends all tasks.
    fn end(mut self) {
        while self.count(|model| model.stage != ModelStage::Left) > 0 {
            self.claim();
            self.leave();
            self.check();
        }
        let counts = self.pool.counts();
        assert_eq!((counts.in_flight(), counts.stranded <= counts.cancelled), (0, true), "{counts:?}");
    }
}

impl TaskModel {
    fn settled(&mut self, end: TaskEnd) {
        if self.end.is_none() {
            self.end = Some(end);
            self.heard = self.detached;
        }
    }

    fn check(&self) {
        let task = &self.task;
        assert_eq!(task.outcome().map(TaskOutcome::end), self.end, "{task:?}");
        let facts = (task.began(), task.has_left(), task.is_detached(), task.is_cancelled());
        let (is_cancelled, has_left) = (self.end == Some(TaskEnd::Cancelled), self.stage == ModelStage::Left);
        assert_eq!(facts, (self.began, has_left, self.detached, is_cancelled), "{task:?}");
        assert!(self.awaited.iter().all(|one| one.is_complete() == self.end.is_some()), "{task:?}");
        assert!(self.seen_off.iter().all(|one| one.is_complete() == has_left), "{task:?}");
    }
}

#[test]
fn after_each_step_of_a_history_the_pool_is_as_the_model_says() {
    for seed in 0..SEEDS {
        let mut history = History::new(seed);
        // Shown only if the test fails.
        println!("seed {seed}");
        for _ in 0..STEPS {
            history.step();
            history.check();
        }
        history.end();
    }
}
