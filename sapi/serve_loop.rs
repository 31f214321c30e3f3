//! The loop of a thread that runs jobs in fibers: requests of worker mode, or tasks.
//!
//! The thread claims a new job when none of its jobs can run. A waiting job holds no thread. A thread that is being
//! replaced claims no more jobs and first completes its own, unless these wait for jobs that no other thread claims.
//! The owner of the loop begins the jobs.

use std::time::Duration;

use svc_core::pool::{Claim, Directive, Job, RecycleReason, WorkerContext, WorkerExit};
use svc_ffi::{PhpOutcome, PhpWorkerFacts, RequestProgress, WorkerRequests};

/// The state of the loop.
#[derive(Debug)]
pub(crate) struct ServeLoop<'a, J: Job> {
    context: &'a WorkerContext<J>,
    memory_max: Option<u64>,
    /// The number of jobs after which the thread ends.
    jobs_max: Option<u64>,
    /// The number of jobs that have ended.
    ended: u64,
    /// The number of waiting jobs.
    waiting: usize,
    leaves: Option<RecycleReason>,
    /// The loop is running, or a panic has ended it.
    is_running: bool,
}

impl<'a, J: Job> ServeLoop<'a, J> {
    /// Starts without jobs. The thread ends when its heap exceeds `memory_max_mib`, unless that is 0, and after
    /// `jobs_max` jobs.
    pub(crate) fn new(context: &'a WorkerContext<J>, memory_max_mib: u64, jobs_max: Option<u64>) -> Self {
        let memory_max = (memory_max_mib > 0).then_some(memory_max_mib << 20);
        Self { context, memory_max, jobs_max, ended: 0, waiting: 0, leaves: None, is_running: false }
    }

    /// Returns why the thread wants to be replaced, if it does.
    pub(crate) fn leaves(&self) -> Option<RecycleReason> {
        self.leaves
    }

    /// Returns why the thread ends, after its script has ended with `outcome`.
    pub(crate) fn exit(&self, outcome: PhpOutcome) -> WorkerExit {
        if self.is_running {
            // The state of the thread must not be used again.
            return WorkerExit::Lost("the engine panicked".to_owned());
        }
        match self.leaves {
            Some(reason) => WorkerExit::Recycled(reason),
            None if self.context.directive() != Directive::Serve => WorkerExit::Stopped,
            // The script returned on its own.
            None if outcome == PhpOutcome::Complete => WorkerExit::Recycled(RecycleReason::Scheduled),
            None => WorkerExit::Recycled(RecycleReason::Error),
        }
    }

    /// Runs jobs, started by `begin`, until the thread ends. `look` is called before each check for work.
    pub(crate) fn run(
        &mut self,
        requests: &mut WorkerRequests,
        mut look: impl FnMut(&mut WorkerRequests),
        mut begin: impl FnMut(&mut WorkerRequests, Claim<J>) -> RequestProgress,
    ) {
        self.is_running = true;
        loop {
            look(requests);
            self.resume_all(requests);
            if let Some(claim) = self.take() {
                let progress = begin(requests, claim);
                self.count(requests, progress);
            } else if !self.sleep(requests) {
                self.is_running = false;
                return;
            }
        }
    }

    /// Claims a job, unless the thread is being replaced.
    pub(crate) fn take(&self) -> Option<Claim<J>> {
        if self.takes_more() { self.context.try_take() } else { None }
    }

    /// Returns whether the thread takes jobs: until it is being replaced, and after that while its own jobs wait and no
    /// other thread takes the jobs that they may wait for.
    fn takes_more(&self) -> bool {
        self.leaves.is_none() || (self.waiting > 0 && self.context.carries_on())
    }

    /// Sleeps until there is work, or collects garbage that is due. Returns false if the thread ends.
    pub(crate) fn sleep(&mut self, requests: &mut WorkerRequests) -> bool {
        if !self.takes_more() || self.context.directive() != Directive::Serve {
            if self.waiting > 0 {
                requests.wait(None);
            }
            return self.waiting > 0;
        }
        let longest = if self.waiting == 0 { requests.time_to_garbage() } else { None };
        if longest == Some(Duration::ZERO) {
            self.collect_garbage(requests);
        } else if self.context.prepare_park() {
            let ready = requests.wait(longest);
            self.context.unpark(ready > 0);
        }
        true
    }

    /// Decides after the end of a job whether the thread continues, and collects garbage if there is much.
    pub(crate) fn look_after(&mut self, requests: &mut WorkerRequests) {
        self.ended += 1;
        let facts = self.decide(requests);
        if self.leaves.is_none() {
            self.context.note_soft_reset();
            if facts.collection_wanted {
                self.collect_garbage(requests);
            }
        }
    }

    /// Collects garbage. Destructors run scripts' code, so the thread may have to be replaced afterwards.
    fn collect_garbage(&mut self, requests: &mut WorkerRequests) {
        self.context.run(|| requests.collect_garbage());
        self.decide(requests);
    }

    /// Decides whether to replace the thread.
    fn decide(&mut self, requests: &mut WorkerRequests) -> PhpWorkerFacts {
        let facts = requests.facts();
        let heap_bytes = facts.heap_bytes as u64;
        self.context.note_heap(heap_bytes);
        if self.leaves.is_some() {
            return facts;
        }
        self.leaves = if facts.tainted {
            Some(RecycleReason::Error)
        } else if facts.exit_scheduled || self.jobs_max.is_some_and(|max| self.ended >= max) {
            Some(RecycleReason::Scheduled)
        } else if self.memory_max.is_some_and(|max| heap_bytes > max) {
            Some(RecycleReason::MaxMemory)
        } else {
            None
        };
        if let Some(reason) = self.leaves {
            requests.leaves(reason.as_str());
            self.context.close();
        }
        facts
    }

    fn count(&mut self, requests: &mut WorkerRequests, progress: RequestProgress) {
        match progress {
            RequestProgress::Waits => self.waiting += 1,
            RequestProgress::Ended => self.look_after(requests),
        }
    }

    /// Resumes the jobs that are ready.
    fn resume_all(&mut self, requests: &mut WorkerRequests) {
        if self.waiting == 0 {
            return;
        }
        // Only those that are ready now, so that a job that becomes ready again immediately does not starve the others.
        for _ in 0..requests.poll() {
            let Some(progress) = requests.resume() else { return };
            self.waiting -= 1;
            self.count(requests, progress);
        }
    }
}
