//! The schedule of the control thread: a list of jobs, and when to run it.
//!
//! Every run runs all jobs, in the order of the list. The next run is due at the earliest deadline of a job, at most a
//! second later. The schedule depends on no particular job and reads no clock.

use std::time::Instant;

use svc_core::limits::CONTROL_TICK;

/// A job of the control thread.
pub(crate) trait PeriodicJob: Send {
    /// Does the work that is due at `now`. Calls before the deadline must be harmless, because all jobs run together.
    /// Must not block.
    fn run(&mut self, now: Instant);

    /// Returns when to run again at the latest; `None` if it does not matter. May change with each [`run`](Self::run).
    fn deadline(&self) -> Option<Instant>;
}

/// The jobs, and when they run next.
pub(crate) struct Schedule {
    jobs: Vec<Box<dyn PeriodicJob>>,
    next: Instant,
}

impl Schedule {
    /// Creates a schedule that is due immediately.
    pub(crate) fn new(jobs: Vec<Box<dyn PeriodicJob>>, now: Instant) -> Self {
        Self { jobs, next: now }
    }

    /// Returns when to call [`run`](Self::run) at the latest.
    pub(crate) fn deadline(&self) -> Instant {
        self.next
    }

    /// Runs every job.
    pub(crate) fn run(&mut self, now: Instant) {
        self.jobs.iter_mut().for_each(|job| job.run(now));
        let deadlines = self.jobs.iter().filter_map(|job| job.deadline());
        self.next = deadlines.fold(now + CONTROL_TICK, Instant::min);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use svc_core::sync::lock::ShortLock;
    use svc_core::sync::primitive::Arc;
    use svc_core::time;

    type Runs = Arc<ShortLock<Vec<(&'static str, u64)>>>;

    /// A job that asks to run again after each of these pauses, and then has no deadline.
    struct ScriptedJob {
        name: &'static str,
        start: Instant,
        pauses: Vec<u64>,
        deadline: Option<Instant>,
        runs: Runs,
    }

    impl PeriodicJob for ScriptedJob {
        fn run(&mut self, now: Instant) {
            let millis = time::as_millis(now - self.start);
            self.runs.lock().push((self.name, millis));
            let pause = (!self.pauses.is_empty()).then(|| self.pauses.remove(0));
            self.deadline = pause.map(|pause| now + Duration::from_millis(pause));
        }

        fn deadline(&self) -> Option<Instant> {
            self.deadline
        }
    }

    /// Runs jobs with these pauses at each deadline of the schedule until `until`; returns which job ran when.
    fn ran(jobs: &[(&'static str, &[u64])], until: u64) -> Vec<(&'static str, u64)> {
        let start = time::now();
        let runs = Runs::default();
        let jobs = jobs.iter().map(|(name, pauses)| {
            let (pauses, runs) = (pauses.to_vec(), Arc::clone(&runs));
            Box::new(ScriptedJob { name, start, pauses, deadline: None, runs }) as Box<dyn PeriodicJob>
        });
        let mut schedule = Schedule::new(jobs.collect(), start);
        while schedule.deadline() <= start + Duration::from_millis(until) {
            schedule.run(schedule.deadline());
        }
        let runs = runs.lock();
        runs.clone()
    }

    #[test]
    fn jobs_run_at_once_in_their_order_and_then_once_a_second() {
        let expected = [("a", 0), ("b", 0), ("a", 1000), ("b", 1000), ("a", 2000), ("b", 2000)];
        assert_eq!(ran(&[("a", &[]), ("b", &[])], 2000), expected);
    }

    #[test]
    fn the_earliest_deadline_runs_all_and_none_delays_the_list() {
        let expected = [
            ("slow", 0),
            ("fast", 0),
            ("slow", 20),
            ("fast", 20),
            ("slow", 320),
            ("fast", 320),
            ("slow", 1320),
            ("fast", 1320),
        ];
        assert_eq!(ran(&[("slow", &[5000]), ("fast", &[20, 300])], 1320), expected);
    }

    #[test]
    fn a_deadline_that_has_passed_is_due_at_once() {
        let expected = [("late", 0), ("late", 0), ("late", 1000)];
        assert_eq!(ran(&[("late", &[0])], 1000), expected);
    }

    #[test]
    fn a_wake_runs_the_list_early_and_the_next_second_begins_there() {
        let start = time::now();
        let mut schedule = Schedule::new(Vec::new(), start);
        schedule.run(start + Duration::from_millis(400));
        assert_eq!(schedule.deadline(), start + Duration::from_millis(1400));
    }
}
