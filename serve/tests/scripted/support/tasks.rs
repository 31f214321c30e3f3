//! A pool of tasks that take their commands from their input and run several at a time on one thread.

use std::collections::HashSet;
use std::sync::Arc;

use svc_core::pool::{
    Claim, Directive, Engine, PersistentWorker, Started, WorkerContext, WorkerExit, WorkerStartError,
};
use svc_core::sync::counter::Flag;
use svc_core::sync::event_count::EventCount;
use svc_core::sync::idle_workers::Wake;
use svc_core::sync::lock::ShortLock;
use svc_core::tasks::{Payload, Task, TaskOutcome, TaskThread};

/// The action of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TaskAct {
    /// Returns this.
    Return(u32),
    Fail,
    /// Waits in its fiber until the place is open or the task is cancelled.
    Park(&'static str),
    /// Blocks its thread until the place is open, even if the task is cancelled.
    Block(&'static str),
    /// Ends without an outcome.
    Silent,
    Panic,
}

impl TaskAct {
    pub(crate) fn payload(self) -> Payload {
        Box::new(self)
    }
}

/// Controls the tasks of a test.
#[derive(Debug, Default)]
pub(crate) struct TaskBoard {
    state: ShortLock<BoardState>,
    changed: EventCount,
}

#[derive(Debug, Default)]
struct BoardState {
    open: HashSet<&'static str>,
    all_open: bool,
    boots: u32,
    refuses_boots: bool,
    /// The numbers of the started tasks, in order.
    began: Vec<u64>,
}

impl TaskBoard {
    pub(crate) fn open(&self, place: &'static str) {
        self.state.lock().open.insert(place);
        self.changed.notify_all();
    }

    pub(crate) fn open_all(&self) {
        self.state.lock().all_open = true;
        self.changed.notify_all();
    }

    pub(crate) fn refuse_boots(&self, refuses: bool) {
        self.state.lock().refuses_boots = refuses;
    }

    /// Returns the number of attempts to boot a thread.
    pub(crate) fn boots(&self) -> u32 {
        self.state.lock().boots
    }

    /// Returns the started tasks.
    pub(crate) fn began(&self) -> Vec<u64> {
        self.state.lock().began.clone()
    }

    fn is_open(&self, place: &str) -> bool {
        let state = self.state.lock();
        state.all_open || state.open.contains(place)
    }

    fn boot(&self) -> Result<(), String> {
        let mut state = self.state.lock();
        state.boots += 1;
        if state.refuses_boots { Err("no boot allowed".to_owned()) } else { Ok(()) }
    }

    fn begin(&self, task: u64) {
        self.state.lock().began.push(task);
    }

    fn wait_until(&self, condition: impl Fn() -> bool) {
        loop {
            let ticket = self.changed.prepare_wait();
            if condition() {
                return self.changed.cancel_wait(ticket);
            }
            self.changed.wait(&ticket);
        }
    }
}

/// The engine.
#[derive(Debug)]
pub(crate) struct TaskEngine(pub(crate) Arc<TaskBoard>);

impl Engine<Task> for TaskEngine {
    fn start(&self, _slot: usize) -> Result<Started<Task>, WorkerStartError> {
        let ring = Arc::new(TaskRing { rung: Flag::new(), board: Arc::clone(&self.0) });
        Ok(Started::Persistent(Box::new(TaskRunner { board: Arc::clone(&self.0), ring, fibers: Vec::new() })))
    }
}

/// Wakes a thread for a new task or a cancelled one.
#[derive(Debug)]
struct TaskRing {
    rung: Flag,
    board: Arc<TaskBoard>,
}

impl Wake for TaskRing {
    fn wake(&self) {
        self.rung.set();
        self.board.changed.notify_all();
    }
}

impl TaskThread for TaskRing {
    fn cancel(&self, _task: u64) {
        self.wake();
    }
}

struct TaskRunner {
    board: Arc<TaskBoard>,
    ring: Arc<TaskRing>,
    fibers: Vec<(Claim<Task>, &'static str)>,
}

impl PersistentWorker<Task> for TaskRunner {
    fn waker(&self) -> Arc<dyn Wake> {
        Arc::<TaskRing>::clone(&self.ring)
    }

    fn run(&mut self, context: &WorkerContext<Task>) -> WorkerExit {
        if let Err(why) = self.board.boot() {
            return WorkerExit::NotBooted(why.into());
        }
        context.booted();
        loop {
            self.go_on();
            while let Some(claim) = context.try_take() {
                self.begin(claim);
            }
            match context.directive() {
                Directive::Stop => return WorkerExit::Stopped,
                Directive::Drain if self.fibers.is_empty() => return WorkerExit::Stopped,
                _ => {}
            }
            if context.prepare_park() {
                self.board.wait_until(|| self.ring.rung.is_set() || self.has_runnable());
                self.ring.rung.clear();
                context.unpark(self.has_runnable());
            }
        }
    }
}

impl TaskRunner {
    fn has_runnable(&self) -> bool {
        self.fibers.iter().any(|(claim, place)| self.board.is_open(place) || claim.job().is_cancelled())
    }

    /// Runs the fibers that can finish.
    fn go_on(&mut self) {
        for (mut claim, place) in std::mem::take(&mut self.fibers) {
            if !self.board.is_open(place) && !claim.job().is_cancelled() {
                self.fibers.push((claim, place));
                continue;
            }
            claim.run();
            claim.job().settle(TaskOutcome::Completed(Box::new(0_u32)));
            claim.finish();
            claim.park();
        }
    }

    fn begin(&mut self, mut claim: Claim<Task>) {
        claim.run();
        let task = Arc::clone(claim.job());
        if !task.run_on(Arc::<TaskRing>::clone(&self.ring)) {
            return claim.finish();
        }
        self.board.begin(task.id());
        let act = *task.take_input().unwrap().downcast::<TaskAct>().unwrap();
        let outcome = match act {
            TaskAct::Return(number) => TaskOutcome::Completed(Box::new(number)),
            TaskAct::Fail => TaskOutcome::Failed(Box::new("on request")),
            TaskAct::Park(place) => {
                claim.park();
                return self.fibers.push((claim, place));
            }
            TaskAct::Block(place) => {
                self.board.wait_until(|| self.board.is_open(place));
                TaskOutcome::Completed(Box::new(0_u32))
            }
            TaskAct::Silent => return claim.finish(),
            TaskAct::Panic => panic!("on request"),
        };
        task.settle(outcome);
        claim.finish();
    }
}
