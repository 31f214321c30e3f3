//! The effects of the settings of exported metrics and logs, as a collector sees them.

use std::net::TcpListener;

use svc_testing::Svc;
use svc_testing::authority::Authority;
use svc_testing::client::eventually;
use svc_testing::collector::{Collector, Received, Says};

const METRICS: &str = "metrics";
const LOGS: &str = "logs";

const CA: &str = "OTEL_EXPORTER_OTLP_CERTIFICATE";
const CERT: &str = "OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE";
const KEY: &str = "OTEL_EXPORTER_OTLP_CLIENT_KEY";

/// Starts a server that exports this signal alone, often, unless these settings say otherwise.
fn exporting(signal: &str, settings: &[(&str, &str)]) -> Svc {
    let switch = if signal == METRICS { "OTEL_METRICS_ENABLED" } else { "OTEL_LOGS_ENABLED" };
    let own = [
        ("OTEL_ENABLED", "true"),
        ("OTEL_TRACES_EXPORTER", "none"),
        (switch, "true"),
        ("OTEL_METRIC_EXPORT_INTERVAL", "100"),
        ("OTEL_BLRP_SCHEDULE_DELAY", "1"),
    ];
    let own = own.iter().filter(|(name, _)| settings.iter().all(|(other, _)| other != name));
    Svc::start(&[], &own.chain(settings).copied().collect::<Vec<_>>())
}

fn exporting_to(collector: &Collector, signal: &str, settings: &[(&str, &str)]) -> Svc {
    let endpoint = format!("http://{}", collector.addr());
    exporting(signal, &[&[("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint.as_str())], settings].concat())
}

fn has(export: &Received, signal: &str) -> bool {
    !if signal == METRICS { export.metrics() } else { export.records() }.is_empty()
}

/// Waits for the first export of the signal.
fn first(collector: &Collector, signal: &str) -> Received {
    eventually("it is exported", || collector.received().iter().any(|export| has(export, signal)));
    collector.received().into_iter().find(|export| has(export, signal)).unwrap()
}

/// Returns the first export with these settings.
fn exported(signal: &str, settings: &[(&str, &str)]) -> Received {
    let collector = Collector::start();
    let _svc = exporting_to(&collector, signal, settings);
    first(&collector, signal)
}

/// Asserts that, with these settings, an export to a collector that never answers is abandoned.
fn gives_up(signal: &str, settings: &[(&str, &str)]) {
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let endpoint = format!("http://{}", silent.local_addr().unwrap());
    // One attempt, and no time for another one.
    let own = [
        ("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint.as_str()),
        ("OTEL_METRIC_EXPORT_TIMEOUT", "500"),
        ("OTEL_BLRP_EXPORT_TIMEOUT", "500"),
    ];
    let own = own.iter().filter(|(name, _)| settings.iter().all(|(other, _)| other != name));
    let svc = exporting(signal, &own.chain(settings).copied().collect::<Vec<_>>());
    let message = if signal == METRICS { "failed to export metrics" } else { "failed to export log records" };
    assert_eq!(svc.log().expect(message)["fields"]["reason"], "timed out");
}

/// Asserts that a collector that requires a client certificate is reached with the files in the settings of these names.
fn reaches_over_tls(signal: &str, names: [&str; 3]) {
    let authority = Authority::new();
    let files = authority.files();
    let collector = Collector::start_with(Some(authority.terms()));
    let endpoint = format!("https://{}", collector.addr());
    let mut settings = vec![("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint.as_str())];
    settings.extend(names.into_iter().zip(files.iter().map(|file| &**file)));
    let _svc = exporting(signal, &settings);
    first(&collector, signal);
}

/// Returns the temporality of a counter and of a histogram with this preference.
fn temporalities(preference: &str) -> [u64; 2] {
    let export = exported(METRICS, &[("OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE", preference)]);
    [("svc_requests_total", "sum"), ("svc_request_duration_us", "histogram")].map(|(name, kind)| {
        let metric = export.metrics().into_iter().find(|metric| metric["name"] == name).unwrap();
        metric[kind]["aggregationTemporality"].as_u64().unwrap()
    })
}

effects! {
    otel_metrics_enabled: "OTEL_METRICS_ENABLED" {
        exported(METRICS, &[]);
        let collector = Collector::start();
        exporting_to(&collector, METRICS, &[("OTEL_METRICS_ENABLED", "false")]).stop();
        assert!(collector.received().is_empty());
        let lonely = Svc::start(&[], &[("OTEL_METRICS_ENABLED", "true")]);
        let warning = lonely.log().expect("setting is ignored, and its default is used");
        assert_eq!(warning["fields"]["setting"], "OTEL_METRICS_ENABLED");
    }

    metrics_exporter: "OTEL_METRICS_EXPORTER" {
        let collector = Collector::start();
        exporting_to(&collector, METRICS, &[("OTEL_METRICS_EXPORTER", "none")]).stop();
        assert!(collector.received().is_empty());
    }

    metric_export_interval: "OTEL_METRIC_EXPORT_INTERVAL" {
        let collector = Collector::start();
        exporting_to(&collector, METRICS, &[("OTEL_METRIC_EXPORT_INTERVAL", "3600000")]).stop();
        assert_eq!(collector.received().len(), 1, "the one at the end");
    }

    metric_export_timeout: "OTEL_METRIC_EXPORT_TIMEOUT" {
        gives_up(METRICS, &[("OTEL_EXPORTER_OTLP_TIMEOUT", "0"), ("OTEL_METRIC_EXPORT_TIMEOUT", "50")]);
    }

    metrics_temporality: "OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE" {
        assert_eq!(temporalities(""), [2, 2]);
        assert_eq!(temporalities("Cumulative"), [2, 2]);
        assert_eq!(temporalities("DELTA"), [1, 1]);
        assert_eq!(temporalities("lowmemory"), [2, 1]);
    }

    metrics_endpoint: "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT" {
        let collector = Collector::start();
        let endpoint = format!("http://{}/own/metrics", collector.addr());
        let settings = [("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1"), ("OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", &*endpoint)];
        let _svc = exporting(METRICS, &settings);
        assert_eq!(first(&collector, METRICS).path, "/own/metrics");
        assert_eq!(exported(METRICS, &[]).path, "/v1/metrics");
    }

    metrics_protocol: "OTEL_EXPORTER_OTLP_METRICS_PROTOCOL" {
        let settings = [("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc"), ("OTEL_EXPORTER_OTLP_METRICS_PROTOCOL", "http/json")];
        assert_eq!(exported(METRICS, &settings).field("content-type"), Some("application/json"));
    }

    metrics_headers: "OTEL_EXPORTER_OTLP_METRICS_HEADERS" {
        let settings = [("OTEL_EXPORTER_OTLP_HEADERS", "x-a=1"), ("OTEL_EXPORTER_OTLP_METRICS_HEADERS", "x-b=2")];
        let export = exported(METRICS, &settings);
        assert_eq!((export.field("x-a"), export.field("x-b")), (None, Some("2")));
    }

    metrics_timeout: "OTEL_EXPORTER_OTLP_METRICS_TIMEOUT" {
        gives_up(METRICS, &[("OTEL_EXPORTER_OTLP_TIMEOUT", "0"), ("OTEL_EXPORTER_OTLP_METRICS_TIMEOUT", "50")]);
    }

    metrics_compression: "OTEL_EXPORTER_OTLP_METRICS_COMPRESSION" {
        let settings = [("OTEL_EXPORTER_OTLP_COMPRESSION", "gzip"), ("OTEL_EXPORTER_OTLP_METRICS_COMPRESSION", "none")];
        assert_eq!(exported(METRICS, &settings).field("content-encoding"), None);
        assert_eq!(exported(METRICS, &settings[..1]).field("content-encoding"), Some("gzip"));
    }

    metrics_certificate: "OTEL_EXPORTER_OTLP_METRICS_CERTIFICATE" {
        reaches_over_tls(METRICS, ["OTEL_EXPORTER_OTLP_METRICS_CERTIFICATE", CERT, KEY]);
    }

    metrics_client_certificate: "OTEL_EXPORTER_OTLP_METRICS_CLIENT_CERTIFICATE" {
        reaches_over_tls(METRICS, [CA, "OTEL_EXPORTER_OTLP_METRICS_CLIENT_CERTIFICATE", KEY]);
    }

    metrics_client_key: "OTEL_EXPORTER_OTLP_METRICS_CLIENT_KEY" {
        reaches_over_tls(METRICS, [CA, CERT, "OTEL_EXPORTER_OTLP_METRICS_CLIENT_KEY"]);
    }

    metrics_insecure: "OTEL_EXPORTER_OTLP_METRICS_INSECURE" {
        let collector = Collector::start();
        let addr = collector.addr().to_string();
        let settings = [
            ("OTEL_EXPORTER_OTLP_ENDPOINT", &*addr),
            ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc"),
            ("OTEL_EXPORTER_OTLP_METRICS_INSECURE", "true"),
        ];
        let _svc = exporting(METRICS, &settings);
        first(&collector, METRICS);
    }

    otel_logs_enabled: "OTEL_LOGS_ENABLED" {
        exported(LOGS, &[]);
        let collector = Collector::start();
        exporting_to(&collector, LOGS, &[("OTEL_LOGS_ENABLED", "false")]).stop();
        assert!(collector.received().is_empty());
    }

    logs_exporter: "OTEL_LOGS_EXPORTER" {
        let collector = Collector::start();
        exporting_to(&collector, LOGS, &[("OTEL_LOGS_EXPORTER", "none")]).stop();
        assert!(collector.received().is_empty());
    }

    blrp_schedule_delay: "OTEL_BLRP_SCHEDULE_DELAY" {
        let collector = Collector::start();
        exporting_to(&collector, LOGS, &[("OTEL_BLRP_SCHEDULE_DELAY", "3600000")]).stop();
        assert_eq!(collector.received().len(), 1, "the one at the end");
    }

    blrp_export_timeout: "OTEL_BLRP_EXPORT_TIMEOUT" {
        gives_up(LOGS, &[("OTEL_EXPORTER_OTLP_TIMEOUT", "0"), ("OTEL_BLRP_EXPORT_TIMEOUT", "50")]);
    }

    blrp_max_queue_size: "OTEL_BLRP_MAX_QUEUE_SIZE" {
        let collector = Collector::start();
        // The collector asks for a pause, so that the queue fills up.
        collector.say(Says::Later(3600));
        let settings = [("OTEL_BLRP_MAX_QUEUE_SIZE", "2"), ("OTEL_BLRP_EXPORT_TIMEOUT", "100"), ("ACCESS_LOG", "all")];
        let svc = exporting_to(&collector, LOGS, &settings);
        svc.log().expect("failed to export log records");
        (0..5).for_each(|_| drop(svc.get("/")));
        let dropped = r#"svc_otel_dropped_items_total{signal="logs"}"#;
        eventually("records are dropped", || svc.metric(dropped) >= 3.0);
    }

    blrp_max_export_batch_size: "OTEL_BLRP_MAX_EXPORT_BATCH_SIZE" {
        let collector = Collector::start();
        let settings = [("OTEL_BLRP_SCHEDULE_DELAY", "3600000"), ("OTEL_BLRP_MAX_EXPORT_BATCH_SIZE", "2")];
        exporting_to(&collector, LOGS, &settings).stop();
        let sizes: Vec<_> = collector.received().iter().map(|export| export.records().len()).collect();
        assert!(sizes.len() > 1 && sizes[..sizes.len() - 1].iter().all(|size| *size == 2), "{sizes:?}");
    }

    logs_endpoint: "OTEL_EXPORTER_OTLP_LOGS_ENDPOINT" {
        let collector = Collector::start();
        let endpoint = format!("http://{}/own/logs", collector.addr());
        let settings = [("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1"), ("OTEL_EXPORTER_OTLP_LOGS_ENDPOINT", &*endpoint)];
        let _svc = exporting(LOGS, &settings);
        assert_eq!(first(&collector, LOGS).path, "/own/logs");
        assert_eq!(exported(LOGS, &[]).path, "/v1/logs");
    }

    logs_protocol: "OTEL_EXPORTER_OTLP_LOGS_PROTOCOL" {
        let settings = [("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc"), ("OTEL_EXPORTER_OTLP_LOGS_PROTOCOL", "http/json")];
        assert_eq!(exported(LOGS, &settings).field("content-type"), Some("application/json"));
    }

    logs_headers: "OTEL_EXPORTER_OTLP_LOGS_HEADERS" {
        let settings = [("OTEL_EXPORTER_OTLP_HEADERS", "x-a=1"), ("OTEL_EXPORTER_OTLP_LOGS_HEADERS", "x-b=2")];
        let export = exported(LOGS, &settings);
        assert_eq!((export.field("x-a"), export.field("x-b")), (None, Some("2")));
    }

    logs_timeout: "OTEL_EXPORTER_OTLP_LOGS_TIMEOUT" {
        gives_up(LOGS, &[("OTEL_EXPORTER_OTLP_TIMEOUT", "0"), ("OTEL_EXPORTER_OTLP_LOGS_TIMEOUT", "50")]);
    }

    logs_compression: "OTEL_EXPORTER_OTLP_LOGS_COMPRESSION" {
        let settings = [("OTEL_EXPORTER_OTLP_COMPRESSION", "gzip"), ("OTEL_EXPORTER_OTLP_LOGS_COMPRESSION", "none")];
        assert_eq!(exported(LOGS, &settings).field("content-encoding"), None);
        assert_eq!(exported(LOGS, &settings[..1]).field("content-encoding"), Some("gzip"));
    }

    logs_certificate: "OTEL_EXPORTER_OTLP_LOGS_CERTIFICATE" {
        reaches_over_tls(LOGS, ["OTEL_EXPORTER_OTLP_LOGS_CERTIFICATE", CERT, KEY]);
    }

    logs_client_certificate: "OTEL_EXPORTER_OTLP_LOGS_CLIENT_CERTIFICATE" {
        reaches_over_tls(LOGS, [CA, "OTEL_EXPORTER_OTLP_LOGS_CLIENT_CERTIFICATE", KEY]);
    }

    logs_client_key: "OTEL_EXPORTER_OTLP_LOGS_CLIENT_KEY" {
        reaches_over_tls(LOGS, [CA, CERT, "OTEL_EXPORTER_OTLP_LOGS_CLIENT_KEY"]);
    }

    logs_insecure: "OTEL_EXPORTER_OTLP_LOGS_INSECURE" {
        let collector = Collector::start();
        let addr = collector.addr().to_string();
        let settings = [
            ("OTEL_EXPORTER_OTLP_ENDPOINT", &*addr),
            ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc"),
            ("OTEL_EXPORTER_OTLP_LOGS_INSECURE", "true"),
        ];
        let _svc = exporting(LOGS, &settings);
        first(&collector, LOGS);
    }
}
