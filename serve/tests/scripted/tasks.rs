//! Tasks in a complete server: the operations port, reloads, failing boots and the drain.

use std::sync::Arc;

use crate::support::Site;
use crate::support::tasks::{TaskAct, TaskBoard};
use svc_core::tasks::{Task, TaskPool, TaskRejection};
use svc_testing::client::eventually;

const SETTINGS: [(&str, &str); 3] =
    [("ASYNC_WORKERS", "2"), ("ASYNC_MAX_FIBERS", "4"), ("INTERNAL_ADDR", "127.0.0.1:0")];

fn with_tasks(more: &[(&str, &str)]) -> Site {
    Site::start(&[&SETTINGS, more].concat())
}

fn pool(site: &Site) -> Arc<TaskPool> {
    Arc::clone(site.shared().tasks.as_ref().unwrap())
}

fn dispatch(site: &Site, act: TaskAct) -> Arc<Task> {
    pool(site).dispatch(act.payload(), "request".into()).unwrap()
}

/// Returns a task that has begun.
fn running(site: &Site, act: TaskAct) -> Arc<Task> {
    let task = dispatch(site, act);
    eventually("it has begun", || site.task_board.began().contains(&task.id()));
    task
}

/// Returns the metrics of tasks without their common prefix.
fn samples(site: &Site) -> Vec<String> {
    let page = site.ops("/metrics").text();
    page.lines().filter_map(|line| line.strip_prefix("svc_async_")).map(str::to_owned).collect()
}

#[test]
fn the_families_of_tasks_count_each_end_of_a_task() {
    let site = with_tasks(&[]);
    let gauges = ["tasks_in_flight 0", "tasks_in_flight_limit 8"];
    assert_eq!(samples(&site), gauges);
    let task = dispatch(&site, TaskAct::Return(1));
    eventually("it has left", || task.has_left());
    let parked = running(&site, TaskAct::Park("never"));
    assert!(parked.strand());
    eventually("it has left", || parked.has_left());
    let held = running(&site, TaskAct::Park("a"));
    let counters = [
        "tasks_dispatched_total 3",
        "tasks_completed_total 1",
        "tasks_failed_total 0",
        "tasks_cancelled_total 1",
        "tasks_rejected_total 0",
        "tasks_stranded_total 1",
        "tasks_in_flight 1",
        "tasks_in_flight_limit 8",
    ];
    assert_eq!(samples(&site), counters);
    pool(&site).discard_output(77);
    assert_eq!(samples(&site)[8..], ["output_discarded_bytes_total 77"]);
    site.task_board.open("a");
    eventually("it has left", || held.has_left());
    let page = site.ops("/metrics").text();
    assert!(page.contains("\nsvc_workers_current 2\n") && page.contains("\nsvc_workers_max 2\n"), "{page}");
    assert!(!page.contains("worker_id=\"2\""), "its threads are no workers");
}

#[test]
fn a_server_without_tasks_tells_of_none() {
    let site = Site::start(&[("INTERNAL_ADDR", "127.0.0.1:0")]);
    assert!(site.shared().tasks.is_none() && samples(&site).is_empty());
    assert!(!site.restart_workers(), "there is nothing to replace");
}

#[test]
fn a_reload_replaces_the_threads() {
    let site = with_tasks(&[]);
    eventually("both have booted", || pool(&site).workers().unwrap().booted_total() == 2);
    let held = running(&site, TaskAct::Park("a"));
    assert!(site.restart_workers());
    eventually("all are replaced", || site.log().contains("rolling restart of async workers finished"));
    assert_eq!(site.task_board.boots(), 4);
    assert!(held.outcome().is_none(), "it goes on where it began");
    let line = site.log().lines().find(|line| line.contains("async workers finished")).map(str::to_owned);
    assert!(line.unwrap().contains(r#""pool":"async""#));
}

#[test]
fn task_threads_that_do_not_boot_are_logged_and_do_not_affect_health() {
    let board = Arc::new(TaskBoard::default());
    board.refuse_boots(true);
    let root = tempfile::tempdir().unwrap();
    std::fs::write(root.path().join("index.php"), "script").unwrap();
    let site = Site::start_steered(root, &SETTINGS, board);
    eventually("it is logged", || site.log().contains("async worker failed to boot"));
    let log = site.log();
    let line = log.lines().find(|line| line.contains("async worker failed to boot")).unwrap();
    assert!(line.contains(r#""level":"WARN""#) && line.contains(r#""retry_ms":100"#), "{line}");
    eventually("none is left", || pool(&site).workers().unwrap().taking() == 0);
    let rejected = pool(&site).dispatch(TaskAct::Return(1).payload(), "request".into());
    assert_eq!(rejected.unwrap_err(), TaskRejection::NoThread);
    assert_eq!((site.ops("/health").status, site.ops("/readyz").status), (200, 200));
    assert_eq!(site.client().get("/hello").status, 200);
    site.task_board.refuse_boots(false);
    eventually("they boot", || site.log().contains("async workers are booting again"));
    let task = dispatch(&site, TaskAct::Return(1));
    eventually("it is run", || task.has_left());
}

#[test]
fn a_drain_lets_tasks_end_and_requests_dispatch_more() {
    for worker_mode in ["false", "true"] {
        let mut site = with_tasks(&[("WORKER_MODE_ENABLED", worker_mode)]);
        let task = running(&site, TaskAct::Park("a"));
        site.drain();
        eventually("it drains", || site.shared().lifecycle.is_draining());
        let another = running(&site, TaskAct::Park("b"));
        site.task_board.open("a");
        eventually("the first has left", || task.has_left());
        assert!(!site.shared().lifecycle.is_stopped(), "the other is waited for");
        site.task_board.open("b");
        assert!(site.wait(), "threads are left");
        let counts = pool(&site).counts();
        assert_eq!((counts.completed, counts.in_flight()), (2, 0), "{another:?}");
        let late = pool(&site).dispatch(TaskAct::Return(1).payload(), "request".into());
        assert_eq!((late.unwrap_err(), counts.rejected), (TaskRejection::Closed, 0));
    }
}

#[test]
fn the_deadline_of_the_drain_cancels_tasks() {
    let mut site = with_tasks(&[("DRAIN_TIMEOUT_SECONDS", "0")]);
    let parked = running(&site, TaskAct::Park("never"));
    site.drain();
    assert!(site.wait(), "threads are left");
    assert!(parked.is_cancelled() && parked.has_left());
    assert_eq!(pool(&site).counts().cancelled, 1);
}

#[test]
fn the_entry_file_of_tasks_is_not_for_clients() {
    let root = tempfile::tempdir().unwrap();
    for name in ["index.php", "tasks.php", "other.php"] {
        std::fs::write(root.path().join(name), "script").unwrap();
    }
    std::os::unix::fs::symlink("tasks.php", root.path().join("link.php")).unwrap();
    let entry = root.path().join("tasks.php");
    let settings =
        [("ASYNC_WORKERS", "1"), ("ASYNC_ENTRY_FILE", entry.to_str().unwrap()), ("ENTRY_FILE", "")];
    let site = Site::start_in(root, &settings);
    let statuses = ["/tasks.php", "/link.php", "/tasks.php/more"].map(|path| site.client().get(path).status);
    assert_eq!(statuses, [404, 404, 404]);
    site.client().get("/other.php");
    eventually("others are run", || site.metrics().work_finished_total() == 1);
    eventually("it is logged", || site.log().contains("ASYNC_ENTRY_FILE is in the document root"));
}

#[test]
fn an_entry_file_outside_of_the_root_causes_no_warning() {
    let elsewhere = tempfile::tempdir().unwrap();
    let entry = elsewhere.path().join("index.php");
    std::fs::write(&entry, "script").unwrap();
    let site = Site::start(&[("ASYNC_WORKERS", "1"), ("ASYNC_ENTRY_FILE", entry.to_str().unwrap())]);
    assert_eq!(site.client().get("/hello").status, 200);
    assert!(!site.log().contains("ASYNC_ENTRY_FILE"));
}
