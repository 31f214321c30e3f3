//! `Svc\Trace\route()`: `http.route` and the name of the request's span, by itself and with the listeners that
//! docs/tracing.md gives for frameworks.
#![cfg(feature = "trace")]

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};
use tempfile::TempDir;

use svc_testing::Svc;
use svc_testing::fetched::fetched;
use svc_testing::spans::Spans;

const CASES: &str = r#"
use function Svc\Trace\{current, route, span};
function act(string $case): void
{
    match ($case) {
        'plain' => route('/users/{id}'),
        'twice' => [route('/a'), route('/b')],
        'empty' => [route('/kept'), route('')],
        'none' => null,
        'in-span' => span('inner', fn () => route('/outer')),
        'attribute' => current()->setAttribute('http.route', '/by/attribute'),
        'number' => current()->setAttribute('http.route', 7),
        'bytes' => route("/caf\xe9"),
        'fiber' => (new Fiber(fn () => route('/in/fiber')))->start(),
        'late' => register_shutdown_function(fn () => route('/in/shutdown')),
        'after' => [svc_finish_request(), route('/after')],
        'task' => Svc\async(static function () { \Svc\Trace\route('/task'); return 1; })->await(),
        'fails' => throw new LogicException(route('/fails') ?? 'no'),
    };
    echo 'done';
}
"#;

/// The thread of the case `task`.
const TASKS: &[(&str, &str)] = if cfg!(feature = "async") { &[("ASYNC_WORKERS", "1")] } else { &[] };

/// The name of the request's span in each case, and its `http.route`.
fn expected() -> Vec<(&'static str, &'static str, Value)> {
    vec![
        ("plain", "GET /users/{id}", json!("/users/{id}")),
        ("twice", "GET /b", json!("/b")),
        ("empty", "GET /kept", json!("/kept")),
        ("none", "GET", Value::Null),
        ("in-span", "GET /outer", json!("/outer")),
        ("attribute", "GET /by/attribute", json!("/by/attribute")),
        ("number", "GET", json!(7)),
        ("bytes", "GET /caf\u{fffd}", json!("/caf\u{fffd}")),
        ("fiber", "GET /in/fiber", json!("/in/fiber")),
        ("late", "GET /in/shutdown", json!("/in/shutdown")),
        ("task", "GET", Value::Null),
        ("fails", "GET /fails", json!("/fails")),
    ]
}

#[track_caller]
fn each_case_is_named(spans: &Spans, svc: &Svc) {
    let is_there = |case: &str| cfg!(feature = "async") || case != "task";
    for (case, name, route) in expected().into_iter().filter(|(case, ..)| is_there(case)) {
        svc.get(&format!("/?{case}"));
        let span = spans.request(case);
        assert_eq!((span.name(), &span.says("http.route")), (name, &route), "{case}");
    }
}

#[test]
fn the_route_is_part_of_the_name_in_classic_mode() {
    let spans = Spans::collect();
    let index = format!("<?php{CASES} act($_SERVER['QUERY_STRING']);");
    let svc = spans.svc(&[("index.php", &index)], TASKS);
    each_case_is_named(&spans, &svc);
    // The response was complete before: the request may have been recorded without its route.
    svc.get("/?after");
    assert!(["GET", "GET /after"].contains(&spans.request("after").name()));
}

#[cfg(feature = "worker")]
#[test]
fn the_route_is_part_of_the_name_in_worker_mode_and_ends_with_its_request() {
    let spans = Spans::collect();
    let worker = format!("<?php{CASES} Svc\\Worker::serve(fn () => act($_SERVER['QUERY_STRING']));");
    let settings = [("ENTRY_FILE", "worker.php"), ("PHP_WORKERS", "1"), ("WORKER_MODE_ENABLED", "true")];
    each_case_is_named(&spans, &spans.svc(&[("worker.php", &worker)], &[&settings, TASKS].concat()));
}

#[test]
fn without_a_trace_it_has_no_effect() {
    let svc = Svc::start(&[("index.php", "<?php var_dump(Svc\\Trace\\route('/x'));")], &[]);
    assert_eq!(svc.get("/").text(), "NULL\n");
    let spans = Spans::collect();
    let svc = spans.svc(
        &[("index.php", "<?php Svc\\Trace\\route('/x'); echo 1;")],
        &[("OTEL_TRACES_SAMPLER", "always_off")],
    );
    assert_eq!(svc.get("/").text(), "1");
}

/// Returns the block of PHP after this text of docs/tracing.md.
fn listener(after: &str) -> String {
    let page = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/tracing.md")).unwrap();
    let (_, rest) = page.split_once(after).unwrap();
    let (_, block) = rest.split_once("```php\n").unwrap();
    block.split_once("```").unwrap().0.to_owned()
}

/// Copies the tests' application of a framework, and adds folders that its installation would make.
fn project(name: &str, folders: &[&str]) -> TempDir {
    let root = tempfile::tempdir().unwrap();
    let from = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/php").join(name).join(".");
    assert!(Command::new("cp").arg("-rpL").arg(from).arg(root.path()).status().unwrap().success());
    folders.iter().for_each(|folder| fs::create_dir_all(root.path().join(folder)).unwrap());
    fs::write(root.path().join("index.php"), "<?php require __DIR__ . '/classic.php';").unwrap();
    root
}

#[test]
fn the_listener_of_the_page_names_symfony_s_routes() {
    let Some(classes) = fetched("symfony") else { return };
    let root = project("symfony", &["var/twig"]);
    fs::write(root.path().join("TraceRoute.php"), listener("Symfony, as")).unwrap();
    let spans = Spans::collect();
    let svc = spans.svc_in(root, &[("SYMFONY", &classes), ("ENTRY_FILE", "index.php")]);
    assert!(svc.get("/json/7?one").text().contains("\"id\":7"));
    assert_eq!(spans.request("one").name(), "GET json");
    assert_eq!(svc.get("/nowhere?two").status, 404);
    assert_eq!(spans.request("two").name(), "GET", "no route has matched");
    svc.get("/teapot?three");
    assert_eq!(spans.request("three").says("http.route"), "teapot", "the error page has not replaced it");
}

#[test]
fn the_listener_of_the_page_names_laravel_s_routes() {
    let Some(classes) = fetched("laravel") else { return };
    let root =
        project("laravel", &["bootstrap/cache", "storage/framework/sessions", "storage/framework/views"]);
    let addition = listener("Laravel, in `boot()`");
    fs::write(root.path().join("addition.php"), format!("<?php\n{addition}")).unwrap();
    let spans = Spans::collect();
    let svc = spans.svc_in(root, &[("LARAVEL", &classes), ("ENTRY_FILE", "index.php")]);
    assert_eq!(svc.get("/?one").status, 200);
    assert_eq!(spans.request("one").name(), "GET /");
    let answer = svc.client().request("PUT /json/7?two HTTP/1.1\r\nHost: x\r\nContent-Length: 0");
    assert_ne!(answer.status, 404, "the route is found, and its object is missing");
    assert_eq!(spans.request("two").name(), "PUT /json/{id}");
    assert_eq!(svc.get("/nowhere?three").status, 404);
    assert_eq!(spans.request("three").name(), "GET");
}
