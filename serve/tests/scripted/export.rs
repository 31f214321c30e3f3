//! The exporter of a complete server, with a collector over real sockets.

use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, TcpListener};

use rustix::net::{AddressFamily, SocketType};

use svc_core::trace::{Span, SpanContext, SpanId, SpanKind, TraceId, UnixNanos};

use crate::support::Site;
use svc_testing::authority::Authority;
use svc_testing::client::eventually;
use svc_testing::collector::{Collector, Says};

const FAILURES: &str = "svc_otel_export_failures_total";
const FAILED_SPANS: &str = "svc_otel_export_failed_spans_total";
const RETRIES: &str = "svc_otel_export_retries_total";
const DROPPED: &str = "svc_otel_dropped_spans_total";

/// Starts a server that exports to `endpoint` as soon as there is a span.
fn site(endpoint: &str, settings: &[(&str, &str)]) -> Site {
    let own = [
        ("OTEL_ENABLED", "true"),
        ("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint),
        ("OTEL_BSP_SCHEDULE_DELAY", "1"),
        // Requests have no spans: only the test offers some.
        ("OTEL_TRACES_SAMPLER", "always_off"),
    ];
    start(&[&own[..], settings].concat())
}

fn start(settings: &[(&str, &str)]) -> Site {
    Site::start(&[&[("INTERNAL_ADDR", "127.0.0.1:0")], settings].concat())
}

fn to(collector: &Collector, settings: &[(&str, &str)]) -> Site {
    site(&format!("http://{}", collector.addr()), settings)
}

/// Offers spans with these names.
fn offer(site: &Site, names: &[&'static str]) {
    for (number, name) in names.iter().enumerate() {
        let context = SpanContext::new(
            TraceId::new(0xabc).unwrap(),
            SpanId::new(number as u64 + 1).unwrap(),
            SpanContext::SAMPLED,
        );
        let span = Span::new(context, *name, SpanKind::Server, UnixNanos::default());
        site.shared().spans.as_ref().expect("spans are exported").offer(&span);
    }
}

fn names(collector: &Collector) -> Vec<String> {
    collector.spans().iter().map(|span| span["name"].as_str().unwrap().to_owned()).collect()
}

fn metric(site: &Site, name: &str) -> Option<f64> {
    let page = site.ops("/metrics").text();
    let line = page.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ').map(str::to_owned));
    line.map(|value| value.parse().unwrap())
}

fn metrics(site: &Site) -> [f64; 4] {
    [FAILURES, FAILED_SPANS, RETRIES, DROPPED].map(|name| metric(site, name).unwrap_or(f64::NAN))
}

#[test]
fn every_protocol_brings_the_same_spans() {
    for (protocol, content, path) in [
        ("http/protobuf", "application/x-protobuf", "/base/v1/traces"),
        ("http/json", "application/json", "/base/v1/traces"),
        ("grpc", "application/grpc", "/opentelemetry.proto.collector.trace.v1.TraceService/Export"),
    ] {
        for gzip in ["none", "gzip"] {
            let collector = Collector::start();
            let site = site(
                &format!("http://{}/base", collector.addr()),
                &[
                    ("OTEL_EXPORTER_OTLP_PROTOCOL", protocol),
                    ("OTEL_EXPORTER_OTLP_COMPRESSION", gzip),
                    ("OTEL_EXPORTER_OTLP_HEADERS", "X-Key=a%20b"),
                    ("OTEL_SERVICE_NAME", "shop"),
                ],
            );
            offer(&site, &["GET", "POST"]);
            eventually("both have come", || names(&collector) == ["GET", "POST"]);
            let first = &collector.received()[0];
            assert_eq!(
                (first.path.as_str(), first.field("content-type")),
                (path, Some(content)),
                "{protocol}"
            );
            assert_eq!(first.field("x-key"), Some("a b"));
            assert_eq!(first.resource("service.name").as_deref(), Some("shop"));
            assert_eq!(first.resource("process.pid"), Some(std::process::id().to_string()));
            assert_eq!(metrics(&site), [0.0; 4], "{protocol} {gzip}");
            // The next export reuses the connection.
            offer(&site, &["HEAD"]);
            eventually("one more has come", || names(&collector).len() == 3);
            assert!(collector.received().iter().all(|export| export.connection == 0), "{protocol}");
        }
    }
}

#[test]
fn a_refusal_of_the_collector_is_counted_and_logged_once() {
    for protocol in ["http/protobuf", "grpc"] {
        let collector = Collector::start();
        collector.say(Says::Status(503));
        let site = to(&collector, &[("OTEL_EXPORTER_OTLP_PROTOCOL", protocol)]);
        offer(&site, &["a", "b"]);
        eventually("both were refused", || metric(&site, FAILED_SPANS) == Some(2.0));
        offer(&site, &["c"]);
        eventually("one more was refused", || metric(&site, FAILED_SPANS) == Some(3.0));
        assert_eq!(metric(&site, RETRIES), Some(0.0), "an answer is not asked for twice");
        eventually("it is logged", || site.log().contains("failed to export spans"));
        assert_eq!(site.log().matches("failed to export spans").count(), 1);
        collector.say(Says::Accepted);
        offer(&site, &["d"]);
        eventually("the end is logged", || site.log().contains("spans are exported again"));
        assert!(names(&collector).ends_with(&["d".to_owned()]));
    }
}

#[test]
fn a_collector_that_is_gone_costs_a_retry_for_each_export() {
    // The port is bound, but not listening.
    let down = rustix::net::socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
    rustix::net::bind(&down, &SocketAddrV4::new(Ipv4Addr::LOCALHOST, 0)).unwrap();
    let addr = SocketAddr::try_from(rustix::net::getsockname(&down).unwrap()).unwrap();
    // The request below has no span.
    let site = site(&format!("http://{addr}"), &[("OTEL_TRACES_SAMPLER", "always_off")]);
    offer(&site, &["a"]);
    eventually("it has failed", || metrics(&site) == [1.0, 1.0, 1.0, 0.0]);
    assert_eq!(site.client().get("/hello").status, 200);
    // The collector returns on the same port.
    rustix::net::listen(&down, 8).unwrap();
    let collector = Collector::listen(TcpListener::from(down), None);
    offer(&site, &["b"]);
    eventually("the second one has come", || names(&collector) == ["b"]);
    assert_eq!(metrics(&site), [1.0, 1.0, 1.0, 0.0]);
}

#[test]
fn a_retry_that_delivers_counts_as_nothing_else() {
    for protocol in ["http/protobuf", "grpc"] {
        let collector = Collector::start();
        collector.say(Says::Nothing);
        let site = to(&collector, &[("OTEL_EXPORTER_OTLP_PROTOCOL", protocol)]);
        offer(&site, &["a"]);
        eventually("both attempts failed", || metrics(&site) == [1.0, 1.0, 1.0, 0.0]);
        assert_eq!(names(&collector), ["a", "a"], "an export that failed may have arrived");
    }
}

#[test]
fn a_partial_success_is_logged_and_no_failure() {
    for protocol in ["http/protobuf", "grpc"] {
        let collector = Collector::start();
        collector.say(Says::Partial);
        let site = to(&collector, &[("OTEL_EXPORTER_OTLP_PROTOCOL", protocol)]);
        offer(&site, &["a"]);
        eventually("it is logged", || site.log().contains(r#""rejected":1,"reason":"old""#));
        assert_eq!(metrics(&site), [0.0; 4]);
    }
}

#[test]
fn a_full_queue_drops_and_a_complete_batch_does_not_wait() {
    let collector = Collector::start();
    let settings = [
        ("OTEL_BSP_SCHEDULE_DELAY", "600000"),
        ("OTEL_BSP_MAX_QUEUE_SIZE", "4"),
        ("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "3"),
    ];
    let site = to(&collector, &settings);
    offer(&site, &["a", "b", "c"]);
    eventually("the batch is complete", || names(&collector) == ["a", "b", "c"]);
    // The thread is about to sleep again: whatever it takes before makes room.
    eventually("the queue is full", || {
        offer(&site, &["d"; 8]);
        metric(&site, DROPPED) > Some(0.0)
    });
    assert_eq!(metric(&site, FAILURES), Some(0.0));
}

#[test]
fn a_drain_exports_waiting_records() {
    let collector = Collector::start();
    let mut site =
        to(&collector, &[("OTEL_BSP_SCHEDULE_DELAY", "600000"), ("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "2")]);
    offer(&site, &["a"]);
    site.drain();
    assert!(site.wait());
    assert_eq!(names(&collector), ["a"]);
}

#[test]
fn a_drain_does_not_wait_for_a_silent_collector() {
    // It never accepts, so that the connection is established and nothing more.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let settings = [("DRAIN_TIMEOUT_SECONDS", "0"), ("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "1")];
    let mut site = site(&format!("http://{}", silent.local_addr().unwrap()), &settings);
    offer(&site, &["a", "b", "c"]);
    site.drain();
    assert!(site.wait());
    eventually("the rest is logged", || site.log().contains("remaining spans were not exported"));
    assert!(site.log().contains(r#""reason":"timed out","spans":1"#), "{}", site.log());
}

#[test]
fn a_disabled_sdk_leaves_the_metrics_at_0_and_no_tracing_has_none() {
    for settings in [("OTEL_SDK_DISABLED", "true"), ("OTEL_TRACES_EXPORTER", "none")] {
        let site = start(&[("OTEL_ENABLED", "true"), settings]);
        assert!(site.shared().spans.is_none());
        assert_eq!(metrics(&site), [0.0; 4]);
    }
    let site = start(&[]);
    assert_eq!(metric(&site, FAILURES), None);
    assert!(site.shared().spans.is_none());
}

#[test]
fn ignored_settings_are_logged_at_the_start_without_secrets() {
    let settings = [
        ("OTEL_ENABLED", "true"),
        ("OTEL_TRACES_SAMPLER", "xray"),
        ("OTEL_EXPORTER_OTLP_HEADERS", "hunter2"),
        ("OTEL_PROPAGATORS", "b3,tracecontext"),
    ];
    let site = start(&settings);
    eventually("each is logged", || site.log().matches("setting of tracing is ignored").count() == 3);
    let log = site.log();
    assert!(
        log.contains(r#""setting":"OTEL_TRACES_SAMPLER","value":"xray","error":"is not a valid value""#),
        "{log}"
    );
    assert!(!log.contains("hunter2") && !site.ops("/config").text().contains("hunter2"));
}

#[test]
fn tls_has_a_separate_authority_and_client_certificate() {
    let authority = Authority::new();
    let [ca, cert, key] = authority.files();
    for protocol in ["http/protobuf", "grpc"] {
        let collector = Collector::start_with(Some(authority.terms()));
        let endpoint = format!("https://{}", collector.addr());
        let trust = [("OTEL_EXPORTER_OTLP_PROTOCOL", protocol), ("OTEL_EXPORTER_OTLP_CERTIFICATE", &ca)];
        let identity =
            [("OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE", &*cert), ("OTEL_EXPORTER_OTLP_CLIENT_KEY", &*key)];
        let known = site(&endpoint, &[&trust[..], &identity].concat());
        offer(&known, &["a"]);
        eventually("it has come", || names(&collector) == ["a"]);
        let report = known.ops("/config").text();
        assert!(!report.contains(&ca) && !report.contains(&key), "{report}");

        let nobody = site(&endpoint, &trust);
        offer(&nobody, &["b"]);
        eventually("who has no certificate is refused", || metric(&nobody, FAILURES) == Some(1.0));
        let stranger = site(&endpoint, &[("OTEL_EXPORTER_OTLP_PROTOCOL", protocol)]);
        offer(&stranger, &["c"]);
        eventually("who does not know the authority refuses", || metric(&stranger, FAILURES) == Some(1.0));
        eventually("the reason is logged", || stranger.log().contains("TLS: invalid peer certificate"));
        assert_eq!(names(&collector), ["a"]);
    }
}
