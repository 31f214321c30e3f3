//! The plugin apm: each request that uses an object shared by the worker's requests has its calls in its own trace.
#![cfg(feature = "worker")]

use svc_testing::Svc;
use svc_testing::backend::Backend;
use svc_testing::spans::Spans;

fn server() -> Backend {
    Backend::http(|_| "answer".to_owned())
}

/// Returns a worker that runs `boot` once at its boot, and `serve` for each request.
fn worker(spans: &Spans, backend: &Backend, boot: &str, serve: &str) -> Svc {
    let script = format!(
        "<?php const URL = 'http://{}'; {boot} Svc\\Worker::serve(function () use (&$shared) {{ {serve} }});",
        backend.address()
    );
    let settings = [
        ("PLUGINS", "apm"),
        ("WORKER_MODE_ENABLED", "true"),
        ("ENTRY_FILE", "index.php"),
        ("PHP_WORKERS", "1"),
        ("RUNTIME_HOOKS", "all"),
    ];
    spans.svc(&[("index.php", &script)], &settings)
}

/// Returns the trace IDs of the requests with this path.
fn traces(backend: &Backend, path: &str) -> Vec<String> {
    let ours =
        backend.requests().into_iter().filter(|request| request.lines().next().unwrap().contains(path));
    let trace = |request: String| {
        let field =
            request.lines().find_map(|line| line.strip_prefix("traceparent: 00-")).unwrap_or_default();
        field.split('-').next().unwrap().to_owned()
    };
    ours.map(trace).collect()
}

#[test]
fn two_requests_open_streams_with_one_context() {
    let (spans, backend) = (Spans::collect(), server());
    let boot = "$shared = stream_context_create(['http' => ['header' => 'X-Own: 1']]);";
    let serve = "echo file_get_contents(URL . '/late?' . $_SERVER['QUERY_STRING'], false, $shared), json_encode(stream_context_get_options($shared));";
    let svc = worker(&spans, &backend, boot, serve);
    let mut clients = ["one", "two"].map(|name| {
        let mut client = svc.client();
        client.send(format!("GET /?{name} HTTP/1.1\r\nHost: x\r\n\r\n"));
        client
    });
    backend.gate().wait_until_held(2);
    backend.gate().open();
    for client in &mut clients {
        assert_eq!(client.response().text(), r#"answer{"http":{"header":"X-Own: 1"}}"#);
    }
    for name in ["one", "two"] {
        assert_eq!(traces(&backend, &format!("/late?{name}")), [spans.request(name).trace()]);
    }
}
