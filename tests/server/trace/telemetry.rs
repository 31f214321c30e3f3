//! Metrics and log records over OTLP, as a scripted collector sees them.

use std::collections::{BTreeMap, BTreeSet};
use std::net::TcpListener;

use rustix::process::Signal;
use serde_json::Value;

use svc_testing::Svc;
use svc_testing::client::eventually;
use svc_testing::collector::{Collector, Received, Says};

const PROTOCOLS: [&str; 3] = ["grpc", "http/protobuf", "http/json"];
const HELLO: (&str, &str) = ("index.php", "<?php echo 'hello';");

/// Starts a server that exports metrics and logs, often, and no spans.
fn exporting(endpoint: &str, settings: &[(&str, &str)]) -> Svc {
    let own = [
        ("OTEL_ENABLED", "true"),
        ("OTEL_TRACES_EXPORTER", "none"),
        ("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint),
        ("OTEL_METRIC_EXPORT_INTERVAL", "100"),
        ("OTEL_BLRP_SCHEDULE_DELAY", "20"),
    ];
    let own = own.iter().filter(|(name, _)| settings.iter().all(|(other, _)| other != name));
    Svc::start(&[HELLO, LOGGING], &own.chain(settings).copied().collect::<Vec<_>>())
}

const LOGGING: (&str, &str) = (
    "log.php",
    r#"<?php frankenphp_log("from PHP", FRANKENPHP_LOG_LEVEL_WARN, ["order" => 7, "items" => ["a", null]]);"#,
);

fn to(collector: &Collector, settings: &[(&str, &str)]) -> Svc {
    exporting(&format!("http://{}", collector.addr()), settings)
}

const METRICS: (&str, &str) = ("OTEL_METRICS_ENABLED", "true");
const LOGS: (&str, &str) = ("OTEL_LOGS_ENABLED", "true");
const DELTA: (&str, &str) = ("OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE", "delta");

/// Returns the exports of metrics.
fn exports(collector: &Collector) -> Vec<Received> {
    collector.received().into_iter().filter(|export| !export.metrics().is_empty()).collect()
}

fn metric(export: &Received, name: &str) -> Value {
    export.metrics().into_iter().find(|metric| metric["name"] == name).unwrap_or(Value::Null)
}

fn points(metric: &Value) -> Vec<Value> {
    let data = ["sum", "gauge", "histogram"].iter().find_map(|kind| metric.get(*kind));
    data.map_or_else(Vec::new, |data| data["dataPoints"].as_array().unwrap().clone())
}

fn number(value: &Value) -> u64 {
    value.as_str().unwrap().parse().unwrap()
}

/// Returns the value of the only point of a counter, and the time from its start to its end.
fn count(export: &Received, name: &str) -> (u64, u64, u64) {
    let points = points(&metric(export, name));
    let [point] = &points[..] else { panic!("{name}: {points:?}") };
    (number(&point["asInt"]), number(&point["startTimeUnixNano"]), number(&point["timeUnixNano"]))
}

/// Returns the labels of the points of each metric, as `/metrics` would name them.
fn series(export: &Received) -> BTreeMap<String, BTreeSet<String>> {
    let label = |attribute: &Value| {
        format!(
            "{}={}",
            attribute["key"].as_str().unwrap(),
            attribute["value"]["stringValue"].as_str().unwrap()
        )
    };
    let labels = |point: &Value| {
        let attributes = point["attributes"].as_array().cloned().unwrap_or_default();
        attributes.iter().map(label).collect::<Vec<_>>().join(",")
    };
    let named = |metric: Value| {
        let labels = points(&metric).iter().map(labels).collect();
        (metric["name"].as_str().unwrap().to_owned(), labels)
    };
    export.metrics().into_iter().map(named).collect()
}

/// Returns the same for a page in the text format.
fn series_of_page(page: &str) -> BTreeMap<String, BTreeSet<String>> {
    let mut all = BTreeMap::<String, BTreeSet<String>>::new();
    let mut family = String::new();
    for line in page.lines() {
        match line.split(' ').collect::<Vec<_>>()[..] {
            ["#", "TYPE", name, _] => family = name.to_owned(),
            ["#", ..] => {}
            [series, _] if series.starts_with(&family) => {
                let labels = series.split_once('{').map_or("", |(_, labels)| labels.trim_end_matches('}'));
                let is_bucket = labels.starts_with("le=");
                let labels = if is_bucket { "" } else { labels };
                all.entry(family.clone()).or_default().insert(labels.replace('"', ""));
            }
            _ => panic!("{line}"),
        }
    }
    all
}

#[test]
fn every_protocol_brings_the_families_of_the_page() {
    for protocol in PROTOCOLS {
        for gzip in ["none", "gzip"] {
            let collector = Collector::start();
            let settings = [
                METRICS,
                ("OTEL_EXPORTER_OTLP_PROTOCOL", protocol),
                ("OTEL_EXPORTER_OTLP_COMPRESSION", gzip),
                ("OTEL_SERVICE_NAME", "shop"),
                ("OTEL_EXPORTER_OTLP_HEADERS", "x-key=a%20b"),
            ];
            let mut svc = to(&collector, &settings);
            assert_eq!(svc.get("/").status, 200);
            // A response is counted an instant after its client has read it.
            svc.assert_metric(r#"svc_responses_by_status_total{status="2xx"}"#, 1.0);
            let page = svc.ask("/metrics").text();
            svc.stop();
            let all = exports(&collector);
            let last = all.last().unwrap();
            assert_eq!(
                (last.field("x-key"), last.resource("service.name").as_deref()),
                (Some("a b"), Some("shop"))
            );
            assert!(all.iter().all(|export| export.connection == 0), "the connection is kept");
            assert_eq!(series(last), series_of_page(&page), "{protocol}");
            let (requests, start, time) = count(last, "svc_requests_total");
            assert!(requests == 1 && start < time);
            let histogram = metric(last, "svc_request_duration_us");
            let point = &points(&histogram)[0];
            assert_eq!(
                (&point["count"], point["explicitBounds"].as_array().unwrap().len()),
                (&"1".into(), 12)
            );
            assert_eq!(point["bucketCounts"].as_array().unwrap().len(), 13);
            assert_eq!(histogram["histogram"]["aggregationTemporality"], 2);
            let sum = metric(last, "svc_requests_total")["sum"].clone();
            assert_eq!((&sum["aggregationTemporality"], &sum["isMonotonic"]), (&2.into(), &true.into()));
            assert!(metric(last, "svc_active_connections")["gauge"].is_object());
        }
    }
}

#[test]
fn differences_survive_failed_exports_and_end_with_the_drain() {
    for (index, protocol) in PROTOCOLS.into_iter().enumerate() {
        let collector = Collector::start();
        // A permanent rejection, so that the export is not repeated.
        let refusal = [Says::Garbage, Says::Status(400), Says::Nothing][index];
        let timeout = ("OTEL_METRIC_EXPORT_TIMEOUT", "1000");
        let mut svc = to(&collector, &[METRICS, DELTA, timeout, ("OTEL_EXPORTER_OTLP_PROTOCOL", protocol)]);
        assert_eq!(svc.get("/").status, 200);
        eventually("it is exported", || {
            exports(&collector).iter().any(|one| count(one, "svc_requests_total").0 > 0)
        });
        collector.say(refusal);
        let failed = r#"svc_otel_failed_exports_total{signal="metrics"}"#;
        eventually("exports fail", || svc.metric(failed) >= 2.0);
        assert_eq!(svc.get("/").status, 200);
        let failures = svc.metric(failed);
        eventually("one with the request fails", || svc.metric(failed) >= failures + 2.0);
        collector.say(Says::Accepted);
        let seen = collector.received().len();
        eventually("they are accepted again", || collector.received().len() >= seen + 2);
        assert_eq!(svc.get("/").status, 200);
        assert_eq!(svc.metric(r#"svc_otel_dropped_items_total{signal="metrics"}"#), 0.0);
        svc.stop();
        // A backend adds up the accepted ones: each difference starts where the one before ended.
        let all = exports(&collector);
        let accepted: Vec<_> = all
            .iter()
            .filter(|export| export.is_accepted)
            .map(|export| count(export, "svc_requests_total"))
            .collect();
        assert_eq!(accepted.iter().map(|(value, ..)| value).sum::<u64>(), 3, "{protocol}: {accepted:?}");
        for pair in accepted.windows(2) {
            assert_eq!(pair[0].2, pair[1].1, "{protocol}: a gap or an overlap");
        }
        let temporality = &metric(&all[0], "svc_requests_total")["sum"]["aggregationTemporality"];
        assert_eq!(*temporality, 1);
    }
}

#[test]
fn the_last_metrics_are_exported_at_the_end() {
    let collector = Collector::start();
    let mut svc = to(&collector, &[METRICS, ("OTEL_METRIC_EXPORT_INTERVAL", "600000")]);
    for _ in 0..5 {
        assert_eq!(svc.get("/").status, 200);
    }
    svc.stop();
    let all = exports(&collector);
    assert_eq!(all.len(), 1);
    assert_eq!(count(&all[0], "svc_requests_total").0, 5);
}

/// Returns the text of an attribute.
fn attribute(record: &Value, key: &str) -> Value {
    let attributes = record["attributes"].as_array().unwrap();
    let found = attributes.iter().find(|attribute| attribute["key"] == key);
    found.map_or(Value::Null, |found| found["value"].clone())
}

fn find(collector: &Collector, body: &str) -> Value {
    let has_body = |record: &Value| record["body"]["stringValue"] == body;
    eventually(body, || collector.records().iter().any(has_body));
    collector.records().into_iter().find(has_body).unwrap()
}

#[test]
fn every_protocol_brings_the_records_of_the_log() {
    const PARENT: &str = "traceparent: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    for protocol in PROTOCOLS {
        let collector = Collector::start();
        let settings = [LOGS, ("OTEL_EXPORTER_OTLP_PROTOCOL", protocol), ("ACCESS_LOG", "all")];
        let mut svc = to(&collector, &settings);
        let response = svc.client().request(&format!("GET /log.php HTTP/1.1\r\nHost: x\r\n{PARENT}\r\n"));
        assert_eq!(response.status, 200);
        let access = find(&collector, "request");
        assert_eq!((&access["severityNumber"], &access["severityText"]), (&9.into(), &"INFO".into()));
        assert_eq!(access["traceId"], "0af7651916cd43dd8448eb211c80319c");
        let span = response.field("traceparent").unwrap().split('-').nth(2).unwrap().to_owned();
        assert_eq!((&access["spanId"], &access["flags"]), (&Value::from(span), &1.into()));
        assert_eq!(attribute(&access, "target")["stringValue"], "access");
        assert_eq!(attribute(&access, "path")["stringValue"], "/log.php");
        assert_eq!(attribute(&access, "status")["intValue"], "200");
        assert_eq!(attribute(&access, "referer"), Value::Null);
        let message = find(&collector, "from PHP");
        assert_eq!((&message["severityNumber"], &message["severityText"]), (&13.into(), &"WARN".into()));
        assert_eq!(message["traceId"], access["traceId"]);
        let context = attribute(&message, "context")["kvlistValue"]["values"].to_string();
        assert!(context.contains(r#""intValue":"7""#) && context.contains("arrayValue"), "{context}");
        // Records from before the exporter exists are not lost.
        let starting = find(&collector, "svc is starting");
        assert!(starting.get("traceId").is_none());
        let printed = svc.whole_log().records();
        let exported = collector.records();
        let bodies: Vec<_> = exported.iter().map(|record| &record["body"]["stringValue"]).collect();
        let messages: Vec<_> = printed.iter().map(|record| &record["fields"]["message"]).collect();
        assert_eq!(bodies, messages, "{protocol}: all of them, in order, to the last");
        assert_eq!(*bodies[bodies.len() - 1], "svc has stopped");
    }
}

#[test]
fn records_about_exports_are_not_exported() {
    let collector = Collector::start();
    collector.say(Says::Status(400));
    let mut svc = to(&collector, &[LOGS, METRICS, ("LOG_LEVEL", "debug")]);
    svc.log().expect("failed to export log records");
    svc.log().expect("failed to export metrics");
    let failures = || svc.metric(r#"svc_otel_failed_exports_total{signal="logs"}"#);
    assert!(failures() >= 1.0);
    // Nothing is logged while nothing happens, so there is nothing to export either.
    let metrics = exports(&collector).len();
    eventually("metrics are exported some more", || exports(&collector).len() > metrics + 5);
    let batches = failures();
    let metrics = exports(&collector).len();
    eventually("metrics are exported some more", || exports(&collector).len() > metrics + 5);
    assert_eq!(failures(), batches);
    collector.say(Says::Accepted);
    svc.log().expect("metrics are exported again");
    svc.stop();
    let about = |record: &Value| record["body"]["stringValue"].as_str().unwrap().contains("export");
    assert_eq!(collector.records().iter().filter(|record| about(record)).count(), 0);
}

#[test]
fn a_rejection_for_now_is_repeated_after_the_pause_that_it_asks_for() {
    for (says, protocol) in
        [(Says::Later(0), "http/protobuf"), (Says::Status(503), "http/json"), (Says::Status(503), "grpc")]
    {
        let collector = Collector::start();
        collector.say(says);
        let settings = [LOGS, ("OTEL_EXPORTER_OTLP_LOGS_PROTOCOL", protocol)];
        let mut svc = to(&collector, &settings);
        eventually("it is repeated", || {
            let first = collector
                .records()
                .iter()
                .filter(|one| one["body"]["stringValue"] == "svc is starting")
                .count();
            first >= 2
        });
        collector.say(Says::Accepted);
        let exported = r#"svc_otel_exported_items_total{signal="logs"}"#;
        eventually("it is accepted", || svc.metric(exported) > 0.0);
        assert_eq!(svc.metric(r#"svc_otel_dropped_items_total{signal="logs"}"#), 0.0);
        assert_eq!(svc.metric(r#"svc_otel_failed_exports_total{signal="logs"}"#), 0.0);
        svc.stop();
    }
}

#[test]
fn a_full_queue_drops_records_and_standard_output_has_them() {
    let collector = Collector::start();
    let settings = [
        LOGS,
        ("OTEL_BLRP_SCHEDULE_DELAY", "600000"),
        ("OTEL_BLRP_MAX_QUEUE_SIZE", "4"),
        ("OTEL_BLRP_MAX_EXPORT_BATCH_SIZE", "4"),
        ("ACCESS_LOG", "all"),
    ];
    collector.say(Says::Later(3600));
    let mut svc = to(&collector, &settings);
    let dropped = r#"svc_otel_dropped_items_total{signal="logs"}"#;
    let mut client = svc.client();
    for _ in 0..50 {
        assert_eq!(client.get("/").status, 200);
    }
    eventually("records are dropped", || svc.metric(dropped) >= 40.0);
    let printed = |svc: &Svc| svc.log().records().iter().filter(|line| line["target"] == "access").count();
    eventually("standard output has all", || printed(&svc) == 50);
    svc.log().expect("failed to export log records");
    svc.stop();
}

#[test]
fn partial_rejections_are_counted_and_logged() {
    for protocol in PROTOCOLS {
        let collector = Collector::start();
        collector.say(Says::Partial);
        let svc = to(&collector, &[LOGS, METRICS, ("OTEL_EXPORTER_OTLP_PROTOCOL", protocol)]);
        if protocol == "http/json" {
            // The scripted answer is in Protocol Buffers, so that it has no meaning here.
            eventually("all is accepted", || {
                svc.metric(r#"svc_otel_exported_items_total{signal="logs"}"#) > 1.0
            });
            continue;
        }
        svc.log().expect("collector rejected log records, or has a warning");
        svc.log().expect("collector rejected data points, or has a warning");
        for signal in ["metrics", "logs"] {
            assert!(svc.metric(&format!("svc_otel_dropped_items_total{{signal=\"{signal}\"}}")) >= 1.0);
        }
    }
}

#[test]
fn a_collector_that_does_not_answer_delays_no_request_and_no_end() {
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let endpoint = format!("http://{}", silent.local_addr().unwrap());
    let mut svc = exporting(&endpoint, &[LOGS, METRICS, ("DRAIN_TIMEOUT_SECONDS", "1")]);
    for _ in 0..100 {
        assert_eq!(svc.get("/").status, 200);
    }
    svc.signal(Signal::TERM);
    assert_eq!(svc.wait(), Some(0));
}

#[test]
fn without_their_switch_neither_is_exported_and_their_variables_are_not_looked_at() {
    let collector = Collector::start();
    let odd = [
        ("OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", "nonsense"),
        ("OTEL_EXPORTER_OTLP_LOGS_CERTIFICATE", "/nowhere"),
        ("OTEL_METRIC_EXPORT_INTERVAL", "soon"),
        ("OTEL_BLRP_SCHEDULE_DELAY", "soon"),
    ];
    let mut svc = to(&collector, &odd);
    assert_eq!(svc.get("/").status, 200);
    let printed = svc.whole_log().records();
    assert!(collector.received().is_empty());
    assert!(!printed.iter().any(|line| line["level"] == "WARN"));
}
