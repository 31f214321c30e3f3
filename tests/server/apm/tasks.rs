//! The plugin apm: calls inside background tasks belong to the trace of the task's requester.
#![cfg(feature = "async")]

use serde_json::{Value, json};

use svc_testing::IS_WORKER;
use svc_testing::backend::Backend;
use svc_testing::databases;
use svc_testing::pair::{Pair, constants_of};

/// Every case of these tests.
const PROGRAM: &str = include_str!("../../php/apm_tasks.php");

/// One thread, on which tasks take turns, or several.
const TASKS: [(&str, &str); 2] = [("ASYNC_WORKERS", "1"), ("RUNTIME_HOOKS", "all")];

fn server() -> Backend {
    Backend::http(|request| request.lines().next().unwrap_or_default().to_owned())
}

fn constants(backend: &Backend) -> Value {
    let url = format!("http://{}", backend.address());
    json!({"URL": url, "DSN": "sqlite::memory:", "USER": null, "PASSWORD": null})
}

fn tasks_are_observed(constants: &Value, backend: &Backend) {
    for is_worker in IS_WORKER {
        let pair = Pair::start(PROGRAM, constants, &TASKS, is_worker);
        let calls = pair.same("tasks");
        let dispatching = pair.spans.beside(&calls.request, "dispatching");
        for task in ["/a", "/b"] {
            for path in ["/curl", "/stream", "/multi"].map(|path| format!("{task}{path}")) {
                assert_eq!(calls.carried(backend, &path), 1);
                assert_eq!(calls.to(&path)[0].parent(), dispatching.id());
            }
            assert_eq!(calls.carried(backend, &format!("{task}/inside")), 1);
            assert_ne!(calls.to(&format!("{task}/inside"))[0].parent(), dispatching.id());
        }
        let queries = calls.calls.iter().filter(|span| span.name() == "SELECT");
        assert_eq!(queries.clone().count(), 10, "a query is prepared, too");
        assert!(queries.into_iter().all(|span| span.parent() == dispatching.id()));
        assert_eq!(
            calls.calls.iter().filter(|span| span.name() == "SELECT nowhere" && span.is_error()).count(),
            2
        );
        pair.same("fails");
    }
}

#[test]
fn calls_in_tasks_hang_below_their_requester() {
    let backend = server();
    tasks_are_observed(&constants(&backend), &backend);
}

#[test]
fn queries_in_tasks_hang_below_their_requester() {
    let backend = server();
    for database in [databases::mariadb(), databases::postgres()].into_iter().flatten() {
        let mut constants = constants_of(&database);
        constants["URL"] = json!(format!("http://{}", backend.address()));
        tasks_are_observed(&constants, &backend);
    }
}

#[test]
fn a_task_of_a_task_continues_the_trace() {
    let backend = server();
    for is_worker in IS_WORKER {
        let pair = Pair::start(PROGRAM, &constants(&backend), &TASKS, is_worker);
        let calls = pair.same("nested");
        let outer = pair.spans.beside(&calls.request, "outer");
        for path in ["/outer", "/inner"] {
            assert_eq!(calls.carried(&backend, path), 1);
            assert_eq!(calls.to(path)[0].parent(), outer.id());
        }
    }
}

#[test]
fn a_task_that_ends_in_a_call_leaves_nothing_behind() {
    for is_worker in IS_WORKER {
        let backend = server();
        let pair = Pair::start(PROGRAM, &constants(&backend), &TASKS, is_worker);
        let fatal = pair.same("fatal");
        assert_eq!(fatal.named("SELECT").says("svc.unfinished"), true);
        pair.same("nested");
        let mut client = pair.with.client();
        client.send("GET /?case=cancelled HTTP/1.1\r\nHost: x\r\n\r\n");
        backend.gate().wait_until_held(1);
        std::fs::write(pair.with.root().join("go"), "").unwrap();
        assert!(client.response().text().contains("CancelledException"));
        let request = pair.spans.request("case=cancelled");
        let dispatching = pair.spans.beside(&request, "dispatching");
        let cut = pair.spans.find("the call that was cut", |span| {
            span.says("url.full").as_str().is_some_and(|url| url.ends_with("/late"))
        });
        assert_eq!((cut.trace(), cut.parent()), (request.trace(), dispatching.id()));
        pair.same("nested");
    }
}
