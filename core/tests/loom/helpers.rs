//! Helper threads under every interleaving that a bounded number of preemptions allows: submitting, running, retiring
//! and closing.
//!
//! A job that is never taken ends in a deadlock, which the explorer reports: models close the threads only after the
//! notification that they wait for.

use std::sync::Arc;

use loom::thread;
use svc_core::limits::HELPER_IDLE;
use svc_core::sync::counter::Counter;
use svc_core::sync::event_count::EventCount;
use svc_core::sync::helper_threads::HelperThreads;
use svc_core::time;

use crate::exploring::explore;

/// Closes the threads and waits for the last one: the state of the model's futex does not outlive its main thread.
fn end(helpers: &HelperThreads) {
    helpers.close();
    while helpers.threads() > 0 {
        thread::yield_now();
    }
}

/// Counts the jobs that were run or dropped.
struct Told {
    news: EventCount,
    ran: Counter,
    dropped: Counter,
}

impl Told {
    fn new() -> Arc<Self> {
        Arc::new(Self { news: EventCount::new(), ran: Counter::new(), dropped: Counter::new() })
    }

    fn job(self: &Arc<Self>) -> Box<dyn FnOnce() + Send> {
        let promise = Promise(Arc::clone(self), false);
        Box::new(move || promise.keep())
    }

    fn settled(&self) -> u64 {
        self.ran.value() + self.dropped.value()
    }

    /// Waits until `count` jobs have been run or dropped.
    fn wait(&self, count: u64) {
        loop {
            let ticket = self.news.prepare_wait();
            if self.settled() >= count {
                return self.news.cancel_wait(ticket);
            }
            self.news.wait(&ticket);
        }
    }
}

/// Reports on drop whether its job was run.
struct Promise(Arc<Told>, bool);

impl Promise {
    fn keep(mut self) {
        self.1 = true;
    }
}

impl Drop for Promise {
    fn drop(&mut self) {
        let counter = if self.1 { &self.0.ran } else { &self.0.dropped };
        counter.incr();
        self.0.news.notify_one();
    }
}

#[test]
fn a_job_is_run_however_the_threads_go_to_sleep() {
    explore(2, || {
        let (helpers, told) = (HelperThreads::bounded(1, 2), Told::new());
        assert!(helpers.submit(told.job()));
        told.wait(1);
        assert!(helpers.submit(told.job()));
        told.wait(2);
        end(&helpers);
        assert_eq!((told.ran.value(), told.dropped.value()), (2, 0));
    });
}

#[test]
fn jobs_of_two_threads_are_all_run() {
    // One preemption: with three threads and two preemptions, it would take minutes.
    explore(1, || {
        let (helpers, told) = (HelperThreads::bounded(2, 2), Told::new());
        let other = {
            let (helpers, told) = (Arc::clone(&helpers), Arc::clone(&told));
            thread::spawn(move || assert!(helpers.submit(told.job())))
        };
        assert!(helpers.submit(told.job()));
        told.wait(2);
        other.join().unwrap();
        end(&helpers);
        assert_eq!((told.ran.value(), told.dropped.value()), (2, 0));
    });
}

#[test]
fn a_job_is_run_although_its_thread_was_about_to_end() {
    // Read once, because a model must not depend on the clock.
    let now = time::now();
    explore(2, move || {
        let (helpers, told) = (HelperThreads::bounded(1, 2), Told::new());
        assert!(helpers.submit(told.job()));
        told.wait(1);
        let retiring = {
            let helpers = Arc::clone(&helpers);
            thread::spawn(move || (0..3).for_each(|period| helpers.retire(now + period * HELPER_IDLE)))
        };
        assert!(helpers.submit(told.job()));
        told.wait(2);
        retiring.join().unwrap();
        end(&helpers);
        assert_eq!((told.ran.value(), told.dropped.value()), (2, 0));
    });
}

#[test]
fn a_job_that_comes_while_the_threads_are_closed_is_run_or_dropped() {
    explore(2, || {
        let (helpers, told) = (HelperThreads::bounded(1, 2), Told::new());
        let other = {
            let (helpers, told) = (Arc::clone(&helpers), Arc::clone(&told));
            thread::spawn(move || helpers.submit(told.job()))
        };
        helpers.close();
        let is_accepted = other.join().unwrap();
        told.wait(1);
        assert!(is_accepted || told.ran.value() == 0);
        assert!(!helpers.submit(told.job()));
        assert_eq!(told.settled(), 2);
        end(&helpers);
    });
}
