use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use super::*;
use crate::time;

/// Submits a job that reports its start and then blocks until the returned sender sends or is dropped.
fn hold(helpers: &Arc<HelperThreads>, begun: &Sender<String>) -> Option<Sender<()>> {
    let (release, released) = channel();
    let begun = begun.clone();
    let is_accepted = helpers.submit(Box::new(move || {
        begun.send(std::thread::current().name().unwrap_or_default().to_owned()).unwrap();
        // Dropping the sender releases the job, too.
        let _ = released.recv();
    }));
    is_accepted.then_some(release)
}

fn names(begun: &Receiver<String>, count: usize) -> Vec<String> {
    let mut names: Vec<_> = (0..count).map(|_| begun.recv().unwrap()).collect();
    names.sort_unstable();
    names
}

/// Polls until `idle` threads are idle, as there is no notification.
fn settle(helpers: &HelperThreads, idle: usize) {
    while helpers.state.lock().idle != idle {
        std::thread::yield_now();
    }
}

fn await_threads(helpers: &HelperThreads, count: usize) {
    while helpers.threads() != count {
        std::thread::yield_now();
    }
}

#[test]
fn a_thread_is_started_for_a_job_that_finds_none_idle() {
    let (helpers, (begun, seen)) = (HelperThreads::bounded(3, 8), channel());
    assert_eq!(helpers.threads(), 0, "none without a job");
    let first = hold(&helpers, &begun).unwrap();
    assert_eq!(names(&seen, 1), ["svc-helper-0"]);
    let second = hold(&helpers, &begun).unwrap();
    assert_eq!(names(&seen, 1), ["svc-helper-1"]);
    drop(first);
    settle(&helpers, 1);
    let third = hold(&helpers, &begun).unwrap();
    assert_eq!(names(&seen, 1), ["svc-helper-0"], "an idle one is used again");
    assert_eq!(helpers.threads(), 2);
    drop((second, third));
}

#[test]
fn jobs_beyond_the_threads_wait_in_order_and_beyond_the_queue_are_refused() {
    let (helpers, (begun, seen)) = (HelperThreads::bounded(2, 2), channel());
    let held: Vec<_> = (0..2)
        .map(|_| {
            let held = hold(&helpers, &begun).unwrap();
            names(&seen, 1);
            held
        })
        .collect();
    let (order, ordered) = channel();
    for number in [1, 2] {
        let order = order.clone();
        assert!(helpers.submit(Box::new(move || order.send(number).unwrap())));
    }
    assert!(!helpers.submit(Box::new(|| unreachable!("it was refused"))));
    assert_eq!(helpers.threads(), 2);
    drop(held.into_iter().next());
    assert_eq!([ordered.recv(), ordered.recv()], [Ok(1), Ok(2)]);
    assert!(helpers.submit(Box::new(|| {})), "there is room again");
}

#[test]
fn threads_that_were_spared_all_the_time_end() {
    let (helpers, (begun, seen)) = (HelperThreads::bounded(3, 8), channel());
    let held: Vec<_> = (0..3).map(|_| hold(&helpers, &begun).unwrap()).collect();
    names(&seen, 3);
    let mut now = time::now();
    helpers.retire(now);
    drop(held);
    settle(&helpers, 3);
    now += HELPER_IDLE;
    helpers.retire(now);
    assert_eq!(helpers.threads(), 3, "they were busy at the beginning of the period");
    // One thread is needed in between, and never more than one at a time.
    let needed = hold(&helpers, &begun).unwrap();
    names(&seen, 1);
    drop(needed);
    settle(&helpers, 3);
    helpers.retire(now + HELPER_IDLE - Duration::from_millis(1));
    assert_eq!(helpers.threads(), 3, "it is too early");
    now += HELPER_IDLE;
    helpers.retire(now);
    await_threads(&helpers, 1);
    now += HELPER_IDLE;
    helpers.retire(now);
    await_threads(&helpers, 0);
    // Threads start again.
    drop(hold(&helpers, &begun).unwrap());
    assert_eq!(names(&seen, 1), ["svc-helper-0"]);
}

#[test]
fn a_job_that_panics_costs_no_thread() {
    let (helpers, (begun, seen)) = (HelperThreads::bounded(1, 8), channel());
    // Bypasses the panic hook, to keep its message out of the test output.
    let panic = || std::panic::resume_unwind(Box::new("on request"));
    assert!(helpers.submit(Box::new(panic)));
    drop(hold(&helpers, &begun).unwrap());
    assert_eq!(names(&seen, 1), ["svc-helper-0"]);
    assert_eq!(helpers.threads(), 1);
}

/// Reports its drop.
struct Dropped(Sender<()>);

impl Drop for Dropped {
    fn drop(&mut self) {
        let _ = self.0.send(());
    }
}

#[test]
fn closing_drops_waiting_jobs_and_does_not_wait_for_running_ones() {
    let (helpers, (begun, seen), (dropped, drops)) = (HelperThreads::bounded(1, 8), channel(), channel());
    let hanging = hold(&helpers, &begun).unwrap();
    names(&seen, 1);
    let waiting = Dropped(dropped);
    let job = move || {
        let _own = waiting;
        unreachable!("it never begins");
    };
    assert!(helpers.submit(Box::new(job)));
    helpers.close();
    drops.recv().unwrap();
    assert!(!helpers.submit(Box::new(|| {})));
    assert_eq!(helpers.threads(), 1, "the hanging one");
    drop(hanging);
    await_threads(&helpers, 0);
}

#[test]
fn where_the_system_gives_no_thread_the_job_comes_back() {
    let helpers = HelperThreads::with_stack(2, 8, usize::MAX / 4);
    assert!(!helpers.submit(Box::new(|| {})));
    let state = helpers.state.lock();
    assert_eq!((state.threads(), state.idle, state.unborn, state.demand), (0, 0, 0, 0));
}
