//! Spans in Jaeger: the results of its query API are complete and connected.
//!
//! `make jaeger` builds Jaeger and runs this test; the other tracing tests use a Collector.
#![cfg(all(feature = "trace", feature = "worker"))]

use std::collections::{BTreeMap, BTreeSet};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::Command;

use serde_json::Value;

use svc_testing::Svc;
use svc_testing::client::{Client, eventually};
use svc_testing::daemon::Daemon;
use svc_testing::fetched::fetched;

/// A Jaeger that keeps its traces in memory.
struct Jaeger {
    grpc: SocketAddr,
    http: SocketAddr,
    query: SocketAddr,
    _daemon: Daemon,
}

impl Jaeger {
    /// Starts a Jaeger; `None` if it is not available on this machine.
    fn start() -> Option<Self> {
        let program = PathBuf::from(fetched("jaeger")?).join("jaeger");
        // All ports are free when they are chosen, and different.
        let held = [(); 7].map(|()| TcpListener::bind("127.0.0.1:0").unwrap());
        let addrs = held.map(|listener| listener.local_addr().unwrap());
        let names = [
            "collector.otlp.grpc.host-port",
            "collector.otlp.http.host-port",
            "query.http-server.host-port",
            "query.grpc-server.host-port",
            "collector.grpc-server.host-port",
            "collector.http-server.host-port",
            "admin.http.host-port",
        ];
        let command = || {
            let mut command = Command::new(&program);
            // Its queue drops spans when it is full.
            command.args(["--collector.otlp.enabled=true", "--collector.queue-size=100000"]);
            command.args(names.iter().zip(addrs).map(|(name, addr)| format!("--{name}={addr}")));
            command
        };
        let is_ready = || addrs[..3].iter().all(|addr| TcpStream::connect(addr).is_ok());
        let daemon = Daemon::start("KILL", |_, _| command(), |_| is_ready()).0;
        Some(Self { grpc: addrs[0], http: addrs[1], query: addrs[2], _daemon: daemon })
    }

    /// Returns the spans of a trace as `service name`, each below the name of its parent; `None` until all spans have one.
    fn trace(&self, id: &str) -> Option<BTreeMap<String, usize>> {
        let answer: Value =
            serde_json::from_slice(&Client::connect(self.query).get(&format!("/api/traces/{id}")).body)
                .unwrap();
        let spans = answer["data"][0]["spans"].as_array()?.clone();
        let name = |span: &Value| {
            let process = &answer["data"][0]["processes"][span["processID"].as_str().unwrap()];
            format!(
                "{} {}",
                process["serviceName"].as_str().unwrap(),
                span["operationName"].as_str().unwrap()
            )
        };
        let names: BTreeMap<_, _> =
            spans.iter().map(|span| (span["spanID"].as_str().unwrap(), name(span))).collect();
        let mut seen = BTreeMap::new();
        for span in &spans {
            let parent = span["references"][0]["spanID"].as_str()?;
            let above = if parent == PARENT { "" } else { names.get(parent)? };
            *seen.entry(format!("{above} > {}", name(span))).or_default() += 1;
        }
        Some(seen)
    }
}

/// The test's own span, which sends the requests.
const PARENT: &str = "00000000000000aa";

fn svc(name: &str, protocol: &str, endpoint: SocketAddr, script: &str, settings: &[(&str, &str)]) -> Svc {
    let endpoint = format!("http://{endpoint}");
    let own = [
        ("OTEL_ENABLED", "true"),
        ("OTEL_SERVICE_NAME", name),
        ("OTEL_EXPORTER_OTLP_ENDPOINT", &endpoint),
        ("OTEL_EXPORTER_OTLP_PROTOCOL", protocol),
        ("OTEL_BSP_MAX_QUEUE_SIZE", "65536"),
        ("PLUGINS", "apm"),
    ];
    Svc::start(&[("index.php", script)], &[&own[..], settings].concat())
}

const INNER: &str = "<?php (new PDO('sqlite::memory:'))->query('select 1'); echo 'inner';";

const EXPECTED: [(&str, usize); 13] = [
    (" > outer GET", 1),
    ("inner GET > inner CONNECT :memory:", 2),
    ("inner GET > inner PHP run", 2),
    ("inner GET > inner SELECT", 2),
    ("inner GET > inner admission wait", 2),
    ("outer GET > inner GET", 2),
    ("outer GET > outer CONNECT :memory:", 1),
    ("outer GET > outer GET", 1),
    ("outer GET > outer PHP run", 1),
    ("outer GET > outer SELECT", 1),
    ("outer GET > outer admission wait", 1),
    ("outer GET > outer calling", 1),
    ("outer calling > outer GET", 1),
];

#[test]
#[ignore = "`make jaeger` runs it"]
fn jaeger_returns_each_trace_as_a_whole() {
    let Some(jaeger) = Jaeger::start() else { return };
    let inner = svc("inner", "http/protobuf", jaeger.http, INNER, &[]);
    let script = format!(
        "<?php Svc\\Worker::serve(function () {{
            (new PDO('sqlite::memory:'))->query('select 1');
            $curl = curl_init('http://{0}/');
            curl_setopt($curl, CURLOPT_RETURNTRANSFER, true);
            echo Svc\\Trace\\span('calling', fn () => curl_exec($curl)), file_get_contents('http://{0}/');
        }});",
        inner.main()
    );
    let worker = [("WORKER_MODE_ENABLED", "true"), ("ENTRY_FILE", "index.php"), ("RUNTIME_HOOKS", "all")];
    let outer = svc("outer", "grpc", jaeger.grpc, &script, &worker);
    let ids: BTreeSet<_> = (1..=1000_u64).map(|number| format!("{number:016x}{number:016x}")).collect();
    let mut client = outer.client();
    for id in &ids {
        let response =
            client.request(&format!("GET / HTTP/1.1\r\nHost: x\r\ntraceparent: 00-{id}-{PARENT}-01"));
        assert_eq!(response.text(), "innerinner");
    }
    let expected: BTreeMap<_, _> =
        EXPECTED.iter().map(|(name, count)| ((*name).to_owned(), *count)).collect();
    for id in &ids {
        let mut seen = None;
        eventually("the trace is whole", || {
            seen = jaeger.trace(id);
            seen.as_ref() == Some(&expected)
        });
    }
}
