//! Spans, metrics and log records in a real OpenTelemetry Collector: its output file contains what it understood.
#![cfg(feature = "trace")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::Command;

use rustix::process::Signal;
use serde_json::Value;
use tempfile::TempDir;

use svc_testing::Svc;
use svc_testing::client::eventually;
use svc_testing::daemon::Daemon;
use svc_testing::databases;
use svc_testing::fetched::fetched;

/// A Collector.
struct RealCollector {
    program: PathBuf,
    dir: TempDir,
    addrs: [SocketAddr; 2],
    /// `None` while it is down.
    daemon: Option<Daemon>,
}

const SCRIPT: (&str, &str) = ("index.php", "<?php echo 'hello';");

impl RealCollector {
    /// Starts a Collector; `None` if it is not available on this machine.
    fn start() -> Option<Self> {
        let program = PathBuf::from(fetched("otelcol")?).join("otelcol");
        // Both ports are free when they are chosen, and different.
        let held = [(); 2].map(|()| TcpListener::bind("127.0.0.1:0").unwrap());
        let addrs = held.map(|listener| listener.local_addr().unwrap());
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("spans.json");
        let config = format!(
            "receivers: {{otlp: {{protocols: {{grpc: {{endpoint: \"{}\"}}, http: {{endpoint: \"{}\"}}}}}}}}\n\
             exporters: {{file: {{path: \"{}\", append: true, flush_interval: 10ms}}}}\n\
             service: {{pipelines: {{traces: &all {{receivers: [otlp], exporters: [file]}}, metrics: *all, logs: *all}}}}\n",
            addrs[0],
            addrs[1],
            file.display()
        );
        fs::write(dir.path().join("config.yaml"), config).unwrap();
        let mut collector = Self { program, dir, addrs, daemon: None };
        collector.launch();
        Some(collector)
    }

    fn launch(&mut self) {
        let command = || {
            let mut command = Command::new(&self.program);
            command.arg("--config").arg(self.dir.path().join("config.yaml"));
            command
        };
        // Killed without warning, as may happen in production.
        let is_ready = || self.addrs.iter().all(|addr| TcpStream::connect(addr).is_ok());
        self.daemon = Some(Daemon::start("KILL", |_, _| command(), |_| is_ready()).0);
    }

    fn kill(&mut self) {
        self.daemon = None;
    }

    fn endpoint(&self, protocol: &str) -> String {
        format!("http://{}", self.addrs[usize::from(protocol != "grpc")])
    }

    /// Returns the spans in its file, with the names of their services.
    fn spans(&self) -> Vec<(String, Value)> {
        self.items(["resourceSpans", "scopeSpans", "spans"])
    }

    /// Returns the items in these lists of its file, with the names of their services.
    fn items(&self, [resources, scopes, name]: [&str; 3]) -> Vec<(String, Value)> {
        let text = fs::read_to_string(self.dir.path().join("spans.json")).unwrap_or_default();
        let mut items = Vec::new();
        // The last line may be incomplete.
        for batch in text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok()) {
            for resource in list(&batch[resources]) {
                let service = text_of(&resource["resource"], "service.name").unwrap_or_default();
                for scope in list(&resource[scopes]) {
                    items.extend(list(&scope[name]).iter().map(|item| (service.clone(), item.clone())));
                }
            }
        }
        items
    }
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map(Vec::as_slice).unwrap_or_default()
}

fn text_of(holder: &Value, key: &str) -> Option<String> {
    let attribute = list(&holder["attributes"]).iter().find(|attribute| attribute["key"] == key)?;
    attribute["value"]["stringValue"].as_str().map(str::to_owned)
}

fn svc(collector: &RealCollector, protocol: &str, settings: &[(&str, &str)]) -> Svc {
    let endpoint = collector.endpoint(protocol);
    let own = [
        ("OTEL_ENABLED", "true"),
        ("OTEL_SERVICE_NAME", protocol),
        ("OTEL_EXPORTER_OTLP_ENDPOINT", &endpoint),
        ("OTEL_EXPORTER_OTLP_PROTOCOL", protocol),
        ("OTEL_BSP_SCHEDULE_DELAY", "50"),
    ];
    Svc::start(&[SCRIPT], &[&own[..], settings].concat())
}

/// Sends requests, each in a separate trace whose ID contains its number; returns how many of them were sampled.
fn send(svc: &Svc, numbers: std::ops::Range<u64>) -> usize {
    let mut client = svc.client();
    numbers
        .filter(|number| {
            // The last seven bytes are the randomness: this covers its range evenly.
            let random = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 8;
            let fields = format!(
                "tracestate: test=1,n={number}\r\ntraceparent: 00-{:016x}00{random:014x}-{:016x}-00",
                number + 1,
                number + 1
            );
            let response = client.request(&format!("GET /?n={number} HTTP/1.1\r\nHost: x\r\n{fields}\r\n"));
            assert_eq!(response.status, 200);
            response.field("traceparent").unwrap().ends_with(['1', '3'])
        })
        .count()
}

/// Asserts that all spans are well-formed and connected: the parent is the caller's span or another received span.
fn check(spans: &[(String, Value)]) {
    let id = |span: &Value, name: &str| span[name].as_str().unwrap_or_default().to_owned();
    let mut ids = BTreeMap::new();
    for (_, span) in spans {
        assert_eq!((id(span, "traceId").len(), id(span, "spanId").len()), (32, 16), "{span}");
        let other = ids.insert((id(span, "traceId"), id(span, "spanId")), span);
        assert!(other.is_none(), "a span twice: {span}");
        let time = |name: &str| id(span, name).parse::<u64>().unwrap();
        assert!(
            0 < time("startTimeUnixNano") && time("startTimeUnixNano") <= time("endTimeUnixNano"),
            "{span}"
        );
        assert!(id(span, "traceState").starts_with("test=1,n="), "{span}");
    }
    for (_, span) in spans {
        let parent = id(span, "parentSpanId");
        if span["kind"] == 2 {
            // The caller's span ID is the first half of the trace ID.
            assert_eq!(parent, id(span, "traceId")[..16], "{span}");
        } else {
            assert!(ids.contains_key(&(id(span, "traceId"), parent)), "{span} has an unknown parent");
        }
    }
}

#[test]
fn a_real_collector_understands_every_protocol() {
    let Some(collector) = RealCollector::start() else { return };
    let protocols = ["grpc", "http/protobuf", "http/json"];
    for (index, protocol) in protocols.into_iter().enumerate() {
        for (turn, gzip) in ["none", "gzip"].into_iter().enumerate() {
            let settings = [("OTEL_TRACES_SAMPLER", "always_on"), ("OTEL_EXPORTER_OTLP_COMPRESSION", gzip)];
            let mut svc = svc(&collector, protocol, &settings);
            let first = (2 * index + turn) as u64 * 100;
            assert_eq!(send(&svc, first..first + 20), 20);
            svc.stop();
        }
    }
    let requests = |spans: &[(String, Value)]| spans.iter().filter(|(_, span)| span["kind"] == 2).count();
    eventually("all have arrived", || requests(&collector.spans()) == 120);
    let spans = collector.spans();
    check(&spans);
    let services: BTreeSet<_> = spans.iter().map(|(service, _)| service.as_str()).collect();
    assert_eq!(services, protocols.into_iter().collect());
}

#[test]
fn of_many_sampled_requests_all_arrive_and_only_spans_are_lost_with_the_collector() {
    const REQUESTS: u64 = 4000;
    let Some(mut collector) = RealCollector::start() else { return };
    let settings = [("OTEL_TRACES_SAMPLER", "traceidratio"), ("OTEL_TRACES_SAMPLER_ARG", "0.1")];
    let mut svc = svc(&collector, "grpc", &settings);
    let sampled = send(&svc, 0..REQUESTS);
    assert!((300..500).contains(&sampled), "{sampled} of {REQUESTS}");
    let servers =
        |collector: &RealCollector| collector.spans().iter().filter(|(_, span)| span["kind"] == 2).count();
    eventually("all of them have arrived", || servers(&collector) == sampled);

    collector.kill();
    let lost = send(&svc, REQUESTS..2 * REQUESTS);
    assert!(lost > 0);
    eventually("exports fail", || svc.metric("svc_otel_export_failures_total") > 0.0);
    collector.launch();
    let again = send(&svc, 2 * REQUESTS..3 * REQUESTS);
    svc.signal(Signal::TERM);
    assert_eq!(svc.wait(), Some(0));
    eventually("what came after it was back has arrived", || servers(&collector) >= sampled + again);
    check(&collector.spans());
}

#[test]
fn a_real_collector_understands_metrics_and_log_records_over_every_protocol() {
    const REQUESTS: u64 = 25;
    let Some(collector) = RealCollector::start() else { return };
    for protocol in ["grpc", "http/protobuf", "http/json"] {
        for (temporality, number) in [("delta", 1), ("cumulative", 2)] {
            let service = format!("{protocol} {temporality}");
            let settings = [
                ("OTEL_SERVICE_NAME", &*service),
                ("OTEL_METRICS_ENABLED", "true"),
                ("OTEL_METRIC_EXPORT_INTERVAL", "100"),
                ("OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE", temporality),
                ("OTEL_LOGS_ENABLED", "true"),
                ("OTEL_BLRP_SCHEDULE_DELAY", "50"),
                ("ACCESS_LOG", "all"),
            ];
            let mut svc = svc(&collector, protocol, &settings);
            send(&svc, 0..REQUESTS);
            svc.whole_log();
            let own = |items: Vec<(String, Value)>| {
                items.into_iter().filter(|(of, _)| *of == service).map(|(_, item)| item).collect::<Vec<_>>()
            };
            let records = || own(collector.items(["resourceLogs", "scopeLogs", "logRecords"]));
            let printed = svc.log().records();
            eventually("all records have arrived", || records().len() == printed.len());
            for (record, printed) in records().iter().zip(&printed) {
                assert_eq!(record["body"]["stringValue"], printed["fields"]["message"]);
                assert_eq!(record["severityText"], printed["level"]);
                let trace = printed["fields"]["trace_id"].as_str().unwrap_or_default();
                assert_eq!(record["traceId"].as_str().unwrap_or_default(), trace);
            }
            let metrics = || own(collector.items(["resourceMetrics", "scopeMetrics", "metrics"]));
            let named = |name: &str| -> Vec<Value> {
                metrics().into_iter().filter(|metric| metric["name"] == name).collect()
            };
            // The file has every export; the collector acknowledges one before it has written it.
            let counts = || -> Vec<u64> {
                let points = named("svc_requests_total");
                let value = |metric: &Value| metric["sum"]["dataPoints"][0]["asInt"].as_str().map(str::parse);
                points.iter().map(|metric| value(metric).unwrap().unwrap()).collect()
            };
            eventually("the last export has arrived", || match temporality {
                "delta" => counts().iter().sum::<u64>() == REQUESTS,
                _ => counts().last() == Some(&REQUESTS),
            });
            for metric in named("svc_request_duration_us") {
                let histogram = &metric["histogram"];
                assert_eq!(histogram["aggregationTemporality"], number);
                let point = &histogram["dataPoints"][0];
                assert_eq!(list(&point["bucketCounts"]).len(), list(&point["explicitBounds"]).len() + 1);
                let time = |name: &str| point[name].as_str().unwrap().parse::<u64>().unwrap();
                assert!(time("startTimeUnixNano") < time("timeUnixNano"));
            }
            assert!(named("svc_build_info").iter().all(|metric| metric["gauge"].is_object()));
        }
    }
}

/// Returns the span with this service, name and kind.
fn find<'a>(spans: &'a [(String, Value)], service: &str, name: &str, kind: u64) -> Option<&'a Value> {
    let is_meant =
        |(of, span): &&(String, Value)| of == service && span["name"] == name && span["kind"] == kind;
    spans.iter().find(is_meant).map(|(_, span)| span)
}

#[test]
fn a_request_of_symfony_is_one_trace_with_its_queries_and_the_server_that_it_asks() {
    const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
    const CALLER: &str = "00f067aa0ba902b7";
    let found = (fetched("symfony"), databases::postgres(), RealCollector::start());
    let (Some(symfony), Some(database), Some(collector)) = found else { return };
    let stock = svc(&collector, "grpc", &[("OTEL_SERVICE_NAME", "stock")]);
    let (url, endpoint, dsn) =
        (format!("http://{}/", stock.main()), collector.endpoint("http/protobuf"), database.dsn());
    let modes = [
        ("classic.php", "false"),
        #[cfg(feature = "worker")]
        ("fibers.php", "true"),
    ];
    for (entry, worker_mode) in modes {
        let root = tempfile::tempdir().unwrap();
        let from = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/php/symfony/.");
        assert!(Command::new("cp").arg("-rp").arg(from).arg(root.path()).status().unwrap().success());
        let settings = [
            ("ENTRY_FILE", entry),
            ("WORKER_MODE_ENABLED", worker_mode),
            ("RUNTIME_HOOKS", if worker_mode == "true" { "all" } else { "none" }),
            ("SYMFONY", &symfony),
            ("ORDERS_DSN", &dsn),
            ("ORDERS_USER", databases::USER),
            ("ORDERS_PASSWORD", databases::PASSWORD),
            ("STOCK_URL", &url),
            ("PLUGINS", "apm"),
            ("OTEL_ENABLED", "true"),
            ("OTEL_SERVICE_NAME", entry),
            ("OTEL_EXPORTER_OTLP_ENDPOINT", &endpoint),
            ("OTEL_BSP_SCHEDULE_DELAY", "50"),
        ];
        let shop = Svc::start_in(root, &settings);
        let head =
            format!("GET /orders HTTP/1.1\r\nHost: shop.test\r\ntraceparent: 00-{TRACE}-{CALLER}-01\r\n");
        let answer = shop.client().request(&head).text();
        assert_eq!(answer, r#"{"orders":0,"stock":"hello"}"#);
        let mut spans = Vec::new();
        eventually("the whole trace has arrived", || {
            spans = collector.spans();
            spans.retain(|(_, span)| span["traceId"] == TRACE);
            let asked = find(&spans, entry, "GET", 3);
            let is_answered =
                |asked: &Value| spans.iter().any(|(_, span)| span["parentSpanId"] == asked["spanId"]);
            find(&spans, entry, "PHP run", 1).is_some() && asked.is_some_and(is_answered)
        });
        let request = find(&spans, entry, "GET", 2).unwrap();
        assert_eq!(request["parentSpanId"], CALLER);
        let query = find(&spans, entry, "SELECT orders", 3).unwrap();
        assert_eq!(text_of(query, "db.query.text").unwrap(), "SELECT id FROM orders WHERE name = ?");
        assert_eq!(text_of(query, "db.system.name").unwrap(), "postgresql");
        let asked = find(&spans, entry, "GET", 3).unwrap();
        assert_eq!(text_of(asked, "url.full").unwrap(), url);
        for call in [query, asked] {
            assert_eq!(call["parentSpanId"], request["spanId"]);
        }
        let answered = spans.iter().find(|(_, span)| span["parentSpanId"] == asked["spanId"]).unwrap();
        assert_eq!((answered.0.as_str(), &answered.1["kind"]), ("stock", &Value::from(2)));
    }
}
