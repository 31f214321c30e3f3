//! The effects of the settings of tracing, as a collector sees them.

use std::net::TcpListener;

use serde_json::Value;

use svc_testing::Svc;
use svc_testing::authority::Authority;
use svc_testing::client::{Response, eventually};
use svc_testing::collector::{Collector, Received};

/// Throws on demand.
const SCRIPT: (&str, &str) =
    ("index.php", "<?php if (isset($_GET['throw'])) { throw new LogicException('thrown'); } echo 'hello';");

const PARENT: &str = "traceparent: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

/// Starts a server that exports at once, with these settings.
fn traced(endpoint: &str, settings: &[(&str, &str)]) -> Svc {
    let own = [
        ("OTEL_ENABLED", "true"),
        ("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint),
        ("OTEL_BSP_SCHEDULE_DELAY", "1"),
    ];
    // The test's settings override these.
    let own = own.iter().filter(|(name, _)| settings.iter().all(|(other, _)| other != name));
    Svc::start(&[SCRIPT], &own.chain(settings).copied().collect::<Vec<_>>())
}

fn url(collector: &Collector) -> String {
    format!("http://{}", collector.addr())
}

fn ask(svc: &Svc, target: &str, fields: &str) -> Response {
    svc.client().request(&format!("GET {target} HTTP/1.1\r\nHost: x\r\n{fields}"))
}

/// Waits for the span of a request.
fn server_span(collector: &Collector) -> Value {
    let is_server = |span: &Value| span["kind"] == 2;
    eventually("the span of the request has come", || collector.spans().iter().any(is_server));
    collector.spans().into_iter().find(is_server).unwrap()
}

/// Returns the span of a request with these settings, and the export that contained it.
fn exported(target: &str, fields: &str, settings: &[(&str, &str)]) -> (Value, Received) {
    let collector = Collector::start();
    let svc = traced(&url(&collector), settings);
    ask(&svc, target, fields);
    let span = server_span(&collector);
    let has_it = |export: &&Received| export.spans().contains(&span);
    let export = collector.received().iter().find(has_it).unwrap().clone();
    (span, export)
}

fn attribute(span: &Value, key: &str) -> String {
    let attributes = span["attributes"].as_array().unwrap();
    let found = attributes.iter().find(|attribute| attribute["key"] == key);
    found.map_or_else(String::new, |found| found["value"]["stringValue"].as_str().unwrap().to_owned())
}

fn count(list: &Value) -> usize {
    list.as_array().map_or(0, Vec::len)
}

/// Returns the flags in the `traceparent` of a response.
fn flags(settings: &[(&str, &str)]) -> Option<String> {
    let collector = Collector::start();
    let response = ask(&traced(&url(&collector), settings), "/", "");
    response.field("traceparent").map(|field| field.rsplit('-').next().unwrap().to_owned())
}

/// Asserts that, with these settings, an export to a collector that never answers is abandoned.
fn gives_up(settings: &[(&str, &str)]) {
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let svc = traced(&format!("http://{}", silent.local_addr().unwrap()), settings);
    ask(&svc, "/", "");
    eventually("it is given up", || svc.metric("svc_otel_export_failures_total") > 0.0);
    assert_eq!(svc.log().expect("failed to export spans")["fields"]["reason"], "timed out");
}

/// Asserts that a collector that requires a client certificate gets the spans, with the files in the settings of these
/// names.
fn reaches_over_tls(ca: &str, cert: &str, key: &str) {
    let authority = Authority::new();
    let files = authority.files();
    let collector = Collector::start_with(Some(authority.terms()));
    let settings = [(ca, &*files[0]), (cert, &*files[1]), (key, &*files[2])];
    let svc = traced(&format!("https://{}", collector.addr()), &settings);
    ask(&svc, "/", "");
    server_span(&collector);
}

const CA: &str = "OTEL_EXPORTER_OTLP_CERTIFICATE";
const CERT: &str = "OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE";
const KEY: &str = "OTEL_EXPORTER_OTLP_CLIENT_KEY";

/// Asserts that a gRPC target without a scheme is reached without TLS.
fn is_reached_in_plain_text(insecure: &str) {
    let collector = Collector::start();
    let settings = [("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc"), (insecure, "true")];
    let svc = traced(&collector.addr().to_string(), &settings);
    ask(&svc, "/", "");
    server_span(&collector);
}

effects! {
    otel_enabled: "OTEL_ENABLED" {
        for (enabled, has_trace) in [("false", false), ("true", true)] {
            let collector = Collector::start();
            let svc = traced(&url(&collector), &[("OTEL_ENABLED", enabled)]);
            assert_eq!(ask(&svc, "/", "").field("traceparent").is_some(), has_trace);
            assert_eq!(svc.ask("/metrics").text().contains("svc_otel_"), has_trace);
            if has_trace {
                server_span(&collector);
            }
        }
    }

    otlp_endpoint: "OTEL_EXPORTER_OTLP_ENDPOINT" {
        let collector = Collector::start();
        let svc = traced(&format!("{}/base", url(&collector)), &[]);
        ask(&svc, "/", "");
        server_span(&collector);
        assert_eq!(collector.received()[0].path, "/base/v1/traces");
    }

    traces_endpoint: "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT" {
        let collector = Collector::start();
        let endpoint = format!("{}/own", url(&collector));
        let svc = traced("http://127.0.0.1:1", &[("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", &endpoint)]);
        ask(&svc, "/", "");
        server_span(&collector);
        assert_eq!(collector.received()[0].path, "/own");
    }

    otlp_protocol: "OTEL_EXPORTER_OTLP_PROTOCOL" {
        for (protocol, content) in
            [("grpc", "application/grpc"), ("http/json", "application/json"), ("", "application/x-protobuf")]
        {
            let (_, export) = exported("/", "", &[("OTEL_EXPORTER_OTLP_PROTOCOL", protocol)]);
            assert_eq!(export.field("content-type"), Some(content));
        }
    }

    traces_protocol: "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL" {
        let settings =
            [("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc"), ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "http/json")];
        assert_eq!(exported("/", "", &settings).1.field("content-type"), Some("application/json"));
    }

    otlp_headers: "OTEL_EXPORTER_OTLP_HEADERS" {
        let (_, export) = exported("/", "", &[("OTEL_EXPORTER_OTLP_HEADERS", "x-key=a%2Cb")]);
        assert_eq!(export.field("x-key"), Some("a,b"));
    }

    traces_headers: "OTEL_EXPORTER_OTLP_TRACES_HEADERS" {
        let settings = [("OTEL_EXPORTER_OTLP_HEADERS", "x-a=1"), ("OTEL_EXPORTER_OTLP_TRACES_HEADERS", "x-b=2")];
        let (_, export) = exported("/", "", &settings);
        assert_eq!((export.field("x-a"), export.field("x-b")), (None, Some("2")));
    }

    otlp_timeout: "OTEL_EXPORTER_OTLP_TIMEOUT" {
        gives_up(&[("OTEL_EXPORTER_OTLP_TIMEOUT", "50"), ("OTEL_BSP_EXPORT_TIMEOUT", "0")]);
    }

    traces_timeout: "OTEL_EXPORTER_OTLP_TRACES_TIMEOUT" {
        let general = [("OTEL_EXPORTER_OTLP_TIMEOUT", "0"), ("OTEL_BSP_EXPORT_TIMEOUT", "0")];
        gives_up(&[&general[..], &[("OTEL_EXPORTER_OTLP_TRACES_TIMEOUT", "50")]].concat());
    }

    otlp_compression: "OTEL_EXPORTER_OTLP_COMPRESSION" {
        let (_, export) = exported("/", "", &[("OTEL_EXPORTER_OTLP_COMPRESSION", "gzip")]);
        assert_eq!(export.field("content-encoding"), Some("gzip"));
    }

    traces_compression: "OTEL_EXPORTER_OTLP_TRACES_COMPRESSION" {
        let settings =
            [("OTEL_EXPORTER_OTLP_COMPRESSION", "gzip"), ("OTEL_EXPORTER_OTLP_TRACES_COMPRESSION", "none")];
        assert_eq!(exported("/", "", &settings).1.field("content-encoding"), None);
    }

    otlp_certificate: "OTEL_EXPORTER_OTLP_CERTIFICATE" {
        reaches_over_tls(CA, CERT, KEY);
    }

    traces_certificate: "OTEL_EXPORTER_OTLP_TRACES_CERTIFICATE" {
        reaches_over_tls("OTEL_EXPORTER_OTLP_TRACES_CERTIFICATE", CERT, KEY);
    }

    otlp_client_certificate: "OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE" {
        reaches_over_tls(CA, CERT, "OTEL_EXPORTER_OTLP_TRACES_CLIENT_KEY");
    }

    traces_client_certificate: "OTEL_EXPORTER_OTLP_TRACES_CLIENT_CERTIFICATE" {
        reaches_over_tls(CA, "OTEL_EXPORTER_OTLP_TRACES_CLIENT_CERTIFICATE", KEY);
    }

    otlp_client_key: "OTEL_EXPORTER_OTLP_CLIENT_KEY" {
        reaches_over_tls(CA, "OTEL_EXPORTER_OTLP_TRACES_CLIENT_CERTIFICATE", KEY);
    }

    traces_client_key: "OTEL_EXPORTER_OTLP_TRACES_CLIENT_KEY" {
        reaches_over_tls(CA, CERT, "OTEL_EXPORTER_OTLP_TRACES_CLIENT_KEY");
    }

    otlp_insecure: "OTEL_EXPORTER_OTLP_INSECURE" {
        is_reached_in_plain_text("OTEL_EXPORTER_OTLP_INSECURE");
    }

    traces_insecure: "OTEL_EXPORTER_OTLP_TRACES_INSECURE" {
        is_reached_in_plain_text("OTEL_EXPORTER_OTLP_TRACES_INSECURE");
    }

    service_name: "OTEL_SERVICE_NAME" {
        let (_, export) = exported("/", "", &[("OTEL_SERVICE_NAME", "shop")]);
        assert_eq!(export.resource("service.name").as_deref(), Some("shop"));
    }

    resource_attributes: "OTEL_RESOURCE_ATTRIBUTES" {
        let (_, export) = exported("/", "", &[("OTEL_RESOURCE_ATTRIBUTES", "service.name=till,k=v%20w")]);
        assert_eq!(export.resource("service.name").as_deref(), Some("till"));
        assert_eq!(export.resource("k").as_deref(), Some("v w"));
        assert_eq!(export.resource("process.runtime.name").as_deref(), Some("php"));
    }

    traces_sampler: "OTEL_TRACES_SAMPLER" {
        let sampled = |name| flags(&[("OTEL_TRACES_SAMPLER", name)]).unwrap().ends_with(['1', '3']);
        assert_eq!(["always_on", "always_off"].map(sampled), [true, false]);
    }

    traces_sampler_arg: "OTEL_TRACES_SAMPLER_ARG" {
        let sampled = |ratio| {
            let settings = [("OTEL_TRACES_SAMPLER", "traceidratio"), ("OTEL_TRACES_SAMPLER_ARG", ratio)];
            flags(&settings).unwrap().ends_with(['1', '3'])
        };
        assert_eq!(["1", "0"].map(sampled), [true, false]);
    }

    traces_exporter: "OTEL_TRACES_EXPORTER" {
        let collector = Collector::start();
        let mut svc = traced(&url(&collector), &[("OTEL_TRACES_EXPORTER", "none")]);
        assert!(ask(&svc, "/", "").field("traceparent").is_some());
        assert_eq!(svc.metric("svc_otel_export_failures_total"), 0.0);
        svc.stop();
        assert!(collector.received().is_empty());
    }

    propagators: "OTEL_PROPAGATORS" {
        assert!(flags(&[("OTEL_PROPAGATORS", "tracecontext")]).is_some());
        assert_eq!(flags(&[("OTEL_PROPAGATORS", "none")]), None);
    }

    bsp_schedule_delay: "OTEL_BSP_SCHEDULE_DELAY" {
        let collector = Collector::start();
        let mut svc = traced(&url(&collector), &[("OTEL_BSP_SCHEDULE_DELAY", "600000")]);
        (0..3).for_each(|_| drop(ask(&svc, "/", "")));
        svc.stop();
        assert_eq!(collector.received().len(), 1, "they have waited for each other");
    }

    bsp_export_timeout: "OTEL_BSP_EXPORT_TIMEOUT" {
        gives_up(&[("OTEL_EXPORTER_OTLP_TIMEOUT", "0"), ("OTEL_BSP_EXPORT_TIMEOUT", "50")]);
    }

    bsp_max_queue_size: "OTEL_BSP_MAX_QUEUE_SIZE" {
        let silent = TcpListener::bind("127.0.0.1:0").unwrap();
        let endpoint = format!("http://{}", silent.local_addr().unwrap());
        let svc = traced(&endpoint, &[("OTEL_BSP_MAX_QUEUE_SIZE", "1")]);
        eventually("there is no room", || {
            ask(&svc, "/", "");
            svc.metric("svc_otel_dropped_spans_total") > 0.0
        });
    }

    bsp_max_export_batch_size: "OTEL_BSP_MAX_EXPORT_BATCH_SIZE" {
        let collector = Collector::start();
        let settings = [("OTEL_BSP_SCHEDULE_DELAY", "600000"), ("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "1")];
        let svc = traced(&url(&collector), &settings);
        ask(&svc, "/", "");
        server_span(&collector);
        assert!(collector.received().iter().all(|export| export.spans().len() == 1));
    }

    attribute_value_length_limit: "OTEL_ATTRIBUTE_VALUE_LENGTH_LIMIT" {
        let (span, _) = exported("/?long=query", "", &[("OTEL_ATTRIBUTE_VALUE_LENGTH_LIMIT", "4")]);
        assert_eq!(attribute(&span, "url.query"), "long");
    }

    attribute_count_limit: "OTEL_ATTRIBUTE_COUNT_LIMIT" {
        let (span, _) = exported("/", "", &[("OTEL_ATTRIBUTE_COUNT_LIMIT", "2")]);
        assert_eq!(count(&span["attributes"]), 2);
        assert!(span["droppedAttributesCount"].as_u64() > Some(5));
    }

    span_attribute_value_length_limit: "OTEL_SPAN_ATTRIBUTE_VALUE_LENGTH_LIMIT" {
        let settings =
            [("OTEL_ATTRIBUTE_VALUE_LENGTH_LIMIT", "4"), ("OTEL_SPAN_ATTRIBUTE_VALUE_LENGTH_LIMIT", "6")];
        assert_eq!(attribute(&exported("/?long=query", "", &settings).0, "url.query"), "long=q");
    }

    span_attribute_count_limit: "OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT" {
        let settings = [("OTEL_ATTRIBUTE_COUNT_LIMIT", "2"), ("OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT", "3")];
        assert_eq!(count(&exported("/", "", &settings).0["attributes"]), 3);
    }

    span_event_count_limit: "OTEL_SPAN_EVENT_COUNT_LIMIT" {
        let (span, _) = exported("/?throw", "", &[]);
        assert_eq!((count(&span["events"]), span["events"][0]["name"].as_str()), (1, Some("exception")));
        let (span, _) = exported("/?throw", "", &[("OTEL_SPAN_EVENT_COUNT_LIMIT", "0")]);
        assert_eq!((count(&span["events"]), span["droppedEventsCount"].as_u64()), (0, Some(1)));
    }

    span_link_count_limit: "OTEL_SPAN_LINK_COUNT_LIMIT" {
        let distrust = ("TRUSTED_PROXIES", "203.0.113.1");
        let (span, _) = exported("/", PARENT, &[distrust]);
        assert_eq!(span["links"][0]["spanId"], "b7ad6b7169203331");
        assert!(span["parentSpanId"].is_null() && span["traceId"] != span["links"][0]["traceId"]);
        let (span, _) = exported("/", PARENT, &[distrust, ("OTEL_SPAN_LINK_COUNT_LIMIT", "0")]);
        assert_eq!((count(&span["links"]), span["droppedLinksCount"].as_u64()), (0, Some(1)));
    }

    event_attribute_count_limit: "OTEL_EVENT_ATTRIBUTE_COUNT_LIMIT" {
        let (span, _) = exported("/?throw", "", &[("OTEL_EVENT_ATTRIBUTE_COUNT_LIMIT", "1")]);
        let event = &span["events"][0];
        assert_eq!((count(&event["attributes"]), event["droppedAttributesCount"].as_u64()), (1, Some(2)));
    }

    link_attribute_count_limit: "OTEL_LINK_ATTRIBUTE_COUNT_LIMIT" {
        let settings = [("TRUSTED_PROXIES", "203.0.113.1"), ("OTEL_LINK_ATTRIBUTE_COUNT_LIMIT", "0")];
        let (span, _) = exported("/", PARENT, &settings);
        let link = &span["links"][0];
        assert_eq!((count(&link["attributes"]), link["droppedAttributesCount"].as_u64()), (0, Some(1)));
    }

    otel_sdk_disabled: "OTEL_SDK_DISABLED" {
        let collector = Collector::start();
        let mut svc = traced(&url(&collector), &[("OTEL_SDK_DISABLED", "true")]);
        assert!(ask(&svc, "/", "").field("traceparent").is_some(), "traces are passed on");
        for name in ["export_failures", "export_failed_spans", "export_retries", "dropped_spans"] {
            assert_eq!(svc.metric(&format!("svc_otel_{name}_total")), 0.0);
        }
        svc.stop();
        assert!(collector.received().is_empty());
    }

    known_methods: "OTEL_INSTRUMENTATION_HTTP_KNOWN_METHODS" {
        let method = |method: &str, settings: &[(&str, &str)]| {
            let collector = Collector::start();
            let svc = traced(&url(&collector), settings);
            svc.client().send(format!("{method} / HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n"));
            let span = server_span(&collector);
            let told = ["http.request.method", "http.request.method_original"].map(|key| attribute(&span, key));
            (span["name"].as_str().unwrap().to_owned(), told)
        };
        let known = |name: &str| (name.to_owned(), [name.to_owned(), String::new()]);
        let other = |name: &str| ("HTTP".to_owned(), ["_OTHER".to_owned(), name.to_owned()]);
        for name in ["QUERY", "TRACE", "CONNECT", "PATCH"] {
            assert_eq!(method(name, &[]), known(name));
        }
        assert_eq!(method("PROPFIND", &[]), other("PROPFIND"));
        let list = ("OTEL_INSTRUMENTATION_HTTP_KNOWN_METHODS", "PROPFIND, get,POST");
        assert_eq!(method("PROPFIND", &[list]), known("PROPFIND"));
        assert_eq!(method("GET", &[list]), other("GET"));
    }

    otel_redact_query: "OTEL_REDACT_QUERY" {
        let query = |settings: &[(&str, &str)]| attribute(&exported("/?sig=1&key=2", "", settings).0, "url.query");
        assert_eq!(query(&[]), "sig=REDACTED&key=2");
        let signed = "/?X-Amz-Algorithm=a&X-Amz-Credential=b&X-Amz-Signature=c&X-Amz-Security-Token=d&Signature=e";
        assert_eq!(
            attribute(&exported(signed, "", &[]).0, "url.query"),
            "X-Amz-Algorithm=a&X-Amz-Credential=REDACTED&X-Amz-Signature=REDACTED&X-Amz-Security-Token=REDACTED\
             &Signature=REDACTED"
        );
        assert_eq!(query(&[("OTEL_REDACT_QUERY", "key")]), "sig=1&key=REDACTED");
        assert_eq!(query(&[("OTEL_REDACT_QUERY", "none")]), "sig=1&key=2");
    }
}
