//! Servers with one thread and runtime hooks, and checks of their state.

use std::time::Duration;

use crate::Svc;
use crate::tasks::{TaskServer, TaskSvc, assert_like};

/// Adds one worker, one async thread and these runtime hooks to `server`.
pub fn one_thread(server: TaskServer, hooks: &str) -> TaskServer {
    // Some requests write more than the default limit allows.
    server
        .directive("memory_limit=-1")
        .set("RUNTIME_HOOKS", hooks)
        .set("PHP_WORKERS", "1")
        .set("ASYNC_WORKERS", "1")
}

/// Returns the processor time that the server has used.
pub fn cpu_time(svc: &Svc) -> Duration {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", svc.pid().as_raw_nonzero())).unwrap();
    let fields: Vec<_> = stat.rsplit(") ").next().unwrap().split(' ').collect();
    let ticks: u64 = fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap();
    Duration::from_millis(ticks * 1000 / rustix::param::clock_ticks_per_second())
}

/// Returns the numbers in a mark, sorted.
pub fn sorted(server: &TaskSvc, mark: &str) -> Vec<usize> {
    let mut numbers: Vec<_> = server.lines(mark).iter().map(|line| line.parse().unwrap()).collect();
    numbers.sort_unstable();
    numbers
}

/// Asserts that the thread is free for the next request.
#[track_caller]
pub fn assert_serves(server: &TaskSvc) {
    assert_like(&server.tell("strrev"), "\"*\"");
}

/// Removes marks of an earlier part of the test.
pub fn forget(server: &TaskSvc, marks: &[&str]) {
    for mark in marks {
        let _ = std::fs::remove_file(server.path(mark));
    }
}
