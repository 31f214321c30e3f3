use super::*;
use crate::config::{Config, RawConfig};

fn resolve(variables: &[(&str, &str)]) -> Result<Config, String> {
    let defaults = [("DOCUMENT_ROOT", "/tmp"), ("SPOOL_DIR", "/tmp"), ("OTEL_ENABLED", "true")];
    Config::resolve(&RawConfig::new(defaults.iter().chain(variables).copied()))
        .map_err(|error| error.to_string())
}

fn tracing(variables: &[(&str, &str)]) -> TraceConfig {
    resolve(variables).unwrap_or_else(|error| panic!("{error}")).tracing.expect("it is enabled")
}

/// Resolves variables none of which is ignored.
fn followed(variables: &[(&str, &str)]) -> TraceConfig {
    let config = tracing(variables);
    assert_eq!(config.ignored, [], "{variables:?}");
    config
}

fn export(variables: &[(&str, &str)]) -> ExportConfig {
    followed(variables).export.expect("spans are exported")
}

fn ignored(variables: &[(&str, &str)]) -> Vec<String> {
    tracing(variables).ignored.iter().map(ToString::to_string).collect()
}

#[test]
fn defaults_are_those_of_the_specification() {
    let config = followed(&[]);
    assert_eq!(config.sampler, Sampler { root: RootSampler::AlwaysOn, is_parent_based: true });
    assert_eq!(config.limits, SpanLimits::default());
    assert_eq!(config.resource, [("service.name".to_owned(), "unknown_service:svc".to_owned())]);
    assert_eq!(config.known_methods.len(), 10);
    assert_eq!(
        config.redacted_parameters,
        [
            "X-Amz-Signature",
            "X-Amz-Credential",
            "X-Amz-Security-Token",
            "AWSAccessKeyId",
            "Signature",
            "sig",
            "X-Goog-Signature"
        ]
    );
    assert!(config.has_trace_context && config.export.is_some() && !config.is_disabled);
    let batch = BatchConfig {
        schedule_delay: Duration::from_secs(5),
        export_timeout: Some(Duration::from_secs(30)),
        queue_items_max: 2048,
        batch_items_max: 512,
    };
    assert_eq!(config.batch, batch);
    let export = config.export.unwrap();
    assert_eq!(export.protocol, ExportProtocol::HttpProtobuf);
    assert_eq!(
        (export.endpoint.to_string().as_str(), export.timeout),
        ("http://localhost:4318/v1/traces", Some(Duration::from_secs(10)))
    );
    assert_eq!(
        (export.headers, export.has_gzip, export.trusted, export.identity),
        (Vec::new(), false, None, None)
    );
}

#[test]
fn without_otel_enabled_nothing_is_looked_at() {
    let bad = [
        ("OTEL_ENABLED", "false"),
        ("OTEL_EXPORTER_OTLP_ENDPOINT", "nonsense"),
        ("OTEL_EXPORTER_OTLP_CERTIFICATE", "/nowhere"),
        ("OTEL_BSP_SCHEDULE_DELAY", "soon"),
        ("OTEL_SERVICE_NAME", "shop"),
    ];
    let config = resolve(&bad).unwrap();
    assert!(config.tracing.is_none() && !config.logs.trace_context);
    assert_eq!(config.report(serde_json::Map::new())["otel_service_name"], "");
    assert_eq!(config.report(serde_json::Map::new())["otel_bsp_schedule_delay"], 5000);
}

#[test]
fn an_empty_variable_is_unset_and_one_for_traces_takes_precedence() {
    let chosen = export(&[
        ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://general:1/base/"),
        ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "https://traces"),
        ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc"),
        ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "HTTP/JSON"),
        ("OTEL_EXPORTER_OTLP_HEADERS", "a=1,b=2"),
        ("OTEL_EXPORTER_OTLP_TRACES_HEADERS", "c=3%204"),
        ("OTEL_EXPORTER_OTLP_TIMEOUT", "7"),
        ("OTEL_EXPORTER_OTLP_TRACES_TIMEOUT", "0"),
        ("OTEL_EXPORTER_OTLP_COMPRESSION", "none"),
        ("OTEL_EXPORTER_OTLP_TRACES_COMPRESSION", "gzip"),
    ]);
    assert_eq!(
        (chosen.protocol, chosen.endpoint.to_string().as_str()),
        (ExportProtocol::HttpJson, "https://traces/")
    );
    assert_eq!(chosen.headers, [("c".to_owned(), "3 4".to_owned())]);
    assert_eq!((chosen.timeout, chosen.has_gzip), (None, true));
    let general = export(&[
        ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://general:1/base/"),
        ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", ""),
        ("OTEL_EXPORTER_OTLP_TIMEOUT", "7"),
        ("OTEL_EXPORTER_OTLP_TRACES_TIMEOUT", ""),
        ("OTEL_BSP_SCHEDULE_DELAY", ""),
    ]);
    assert_eq!(general.endpoint.to_string(), "http://general:1/base/v1/traces");
    assert_eq!(general.timeout, Some(Duration::from_millis(7)));
}

#[test]
fn grpc_has_a_separate_port_and_no_path() {
    let grpc = ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc");
    let endpoint = |variables: &[(&str, &str)]| export(&[&[grpc], variables].concat()).endpoint.to_string();
    assert_eq!(endpoint(&[]), "http://localhost:4317/");
    assert_eq!(endpoint(&[("OTEL_EXPORTER_OTLP_ENDPOINT", "http://c:9")]), "http://c:9/");
    assert_eq!(endpoint(&[("OTEL_EXPORTER_OTLP_ENDPOINT", "c:9")]), "https://c:9/");
    let insecure = ("OTEL_EXPORTER_OTLP_INSECURE", "True");
    assert_eq!(endpoint(&[("OTEL_EXPORTER_OTLP_ENDPOINT", "c:9"), insecure]), "http://c:9/");
    assert_eq!(endpoint(&[("OTEL_EXPORTER_OTLP_ENDPOINT", "https://c:9"), insecure]), "https://c:9/");
}

#[test]
fn a_bad_endpoint_and_an_unreadable_file_stop_the_start() {
    let refused = resolve(&[
        ("OTEL_EXPORTER_OTLP_ENDPOINT", "localhost:4318"),
        ("OTEL_EXPORTER_OTLP_TRACES_CERTIFICATE", "/nowhere/ca.pem"),
        ("OTEL_EXPORTER_OTLP_CLIENT_KEY", "/tmp"),
        ("OTEL_BSP_SCHEDULE_DELAY", "soon"),
    ]);
    let refused = refused.unwrap_err();
    let lines: Vec<&str> = refused.lines().collect();
    assert_eq!(
        lines,
        [
            r#"OTEL_EXPORTER_OTLP_ENDPOINT: "localhost:4318" is not a valid URL; accepted: a URL such as http://localhost:4318"#,
            r#"OTEL_EXPORTER_OTLP_TRACES_CERTIFICATE: "/nowhere/ca.pem" is not a readable file (No such file or directory (os error 2)); accepted: the path of a readable PEM file"#,
            r#"OTEL_EXPORTER_OTLP_CLIENT_KEY: "/tmp" is not a readable file (not a regular file); accepted: the path of a readable PEM file"#,
        ]
    );
}

#[test]
fn a_bad_endpoint_is_shown_without_its_credentials() {
    for (endpoint, shown) in [
        ("http://u:SECRET@h:x?token=SECRET", "http://REDACTED@h:x?REDACTED"),
        ("ftp://SE@CR/ET:SECRET@h/path", "ftp://REDACTED@h/path"),
        ("u:SECRET@h", "REDACTED@h"),
        ("u:SECRET//SECRET@h", "REDACTED@h"),
        ("//h:x/a?b=SECRET&c=d@e", "REDACTED@e"),
        ("ftp://h#SECRET", "ftp://h#REDACTED"),
        ("ftp://h/?SECRET#SECRET", "ftp://h/?REDACTED"),
    ] {
        for variable in ["OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"] {
            let refused = resolve(&[(variable, endpoint)]).unwrap_err();
            assert!(refused.contains(&format!("{variable}: \"{shown}\" is not")), "{refused}");
            assert!(!refused.contains("SECRET"), "{refused}");
        }
    }
}

#[test]
fn unusable_values_are_listed_and_count_as_unset() {
    let table = [
        (
            "OTEL_EXPORTER_OTLP_PROTOCOL",
            "thrift",
            "is not a valid value; accepted: grpc, http/protobuf, http/json",
        ),
        (
            "OTEL_EXPORTER_OTLP_TIMEOUT",
            "10s",
            "is not an integer; accepted: a number of milliseconds from 0 to 2147483647",
        ),
        (
            "OTEL_EXPORTER_OTLP_TRACES_TIMEOUT",
            "-1",
            "is too small; accepted: a number of milliseconds from 0 to 2147483647",
        ),
        ("OTEL_EXPORTER_OTLP_COMPRESSION", "zstd", "is not a valid value; accepted: none, gzip"),
        ("OTEL_EXPORTER_OTLP_INSECURE", "1", "is not a boolean; accepted: true or false"),
        (
            "OTEL_RESOURCE_ATTRIBUTES",
            "a=1,b",
            "is not a list of pairs; accepted: comma-separated key=value pairs",
        ),
        (
            "OTEL_TRACES_SAMPLER",
            "xray",
            "is not a valid value; accepted: always_on, always_off, traceidratio, parentbased_always_on, parentbased_always_off, parentbased_traceidratio",
        ),
        (
            "OTEL_TRACES_EXPORTER",
            "zipkin",
            r#"contains "zipkin", which is not supported; accepted: otlp, none"#,
        ),
        (
            "OTEL_PROPAGATORS",
            "b3",
            r#"contains "b3", which is not supported; accepted: tracecontext, baggage, none"#,
        ),
        ("OTEL_BSP_MAX_QUEUE_SIZE", "0", "is too small; accepted: an integer from 1 to 1048576"),
        ("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "4096", "is too large; accepted: at most OTEL_BSP_MAX_QUEUE_SIZE"),
        (
            "OTEL_SPAN_EVENT_COUNT_LIMIT",
            "many",
            "is not an integer; accepted: an integer from 0 to 2147483647",
        ),
        ("OTEL_SDK_DISABLED", "yes", "is not a boolean; accepted: true or false"),
        ("OTEL_REDACT_QUERY", ",", "is an empty list; accepted: comma-separated names"),
        ("OTEL_INSTRUMENTATION_HTTP_KNOWN_METHODS", ",", "is an empty list; accepted: comma-separated names"),
    ];
    let defaults = format!("{:?}", TraceConfig { ignored: Vec::new(), ..tracing(&[]) });
    for (variable, value, rest) in table {
        assert_eq!(ignored(&[(variable, value)]), [format!("{variable}: {value:?} {rest}")]);
        let resolved = TraceConfig { ignored: Vec::new(), ..tracing(&[(variable, value)]) };
        assert_eq!(format!("{resolved:?}"), defaults, "{variable}");
    }
}

#[test]
fn headers_that_cannot_be_sent_are_named_without_their_values() {
    let config = tracing(&[(
        "OTEL_EXPORTER_OTLP_HEADERS",
        "x-key=hunter2,Content-Length=7,a b=hunter3,c=hunter4%0D%0A,grpc-x=1",
    )]);
    assert_eq!(config.export.unwrap().headers, [("x-key".to_owned(), "hunter2".to_owned())]);
    let said: Vec<String> = config.ignored.iter().map(ToString::to_string).collect();
    assert_eq!(said.len(), 4);
    assert!(
        said[0].starts_with(r#"OTEL_EXPORTER_OTLP_HEADERS: contains "Content-Length", which is not a field"#),
        "{said:?}"
    );
    assert!(said.iter().all(|line| !line.contains("hunter")), "{said:?}");
    let malformed = ignored(&[("OTEL_EXPORTER_OTLP_HEADERS", "hunter5")]);
    assert_eq!(
        malformed,
        ["OTEL_EXPORTER_OTLP_HEADERS: is not a list of pairs; accepted: comma-separated key=value pairs"]
    );
}

#[test]
fn half_an_identity_is_none() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.pem");
    std::fs::write(&path, "").unwrap();
    let path = path.to_str().unwrap();
    let cert = ("OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE", path);
    let key = ("OTEL_EXPORTER_OTLP_TRACES_CLIENT_KEY", path);
    assert_eq!(export(&[cert, key]).identity.unwrap().0.path.to_str(), Some(path));
    for (half, missing) in
        [(cert, "OTEL_EXPORTER_OTLP_CLIENT_KEY"), (key, "OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE")]
    {
        assert_eq!(
            ignored(&[half]),
            [format!("{}: {path:?} has no effect without {missing}; accepted: both or neither", half.0)]
        );
        assert_eq!(tracing(&[half]).export.unwrap().identity, None);
    }
}

#[test]
fn samplers_have_their_argument() {
    let sampler = |name: &str, arg: &str| {
        followed(&[("OTEL_TRACES_SAMPLER", name), ("OTEL_TRACES_SAMPLER_ARG", arg)]).sampler
    };
    let of = |root, is_parent_based| Sampler { root, is_parent_based };
    assert_eq!(sampler("always_on", ""), of(RootSampler::AlwaysOn, false));
    assert_eq!(sampler("ALWAYS_OFF", ""), of(RootSampler::AlwaysOff, false));
    assert_eq!(sampler("traceidratio", "0.25"), of(RootSampler::Ratio(0.25), false));
    assert_eq!(sampler("traceidratio", ""), of(RootSampler::Ratio(1.0), false));
    assert_eq!(sampler("parentbased_always_on", ""), of(RootSampler::AlwaysOn, true));
    assert_eq!(sampler("parentbased_always_off", ""), of(RootSampler::AlwaysOff, true));
    assert_eq!(sampler("parentbased_traceidratio", "1e-3"), of(RootSampler::Ratio(0.001), true));
    for arg in ["1.5", "-0.1", "half", "NaN", "inf"] {
        let settings = [("OTEL_TRACES_SAMPLER", "traceidratio"), ("OTEL_TRACES_SAMPLER_ARG", arg)];
        assert_eq!(tracing(&settings).sampler.root, RootSampler::Ratio(1.0));
        assert_eq!(
            ignored(&settings),
            [format!(
                "OTEL_TRACES_SAMPLER_ARG: {arg:?} is not a number from 0 to 1; accepted: a number from 0 to 1"
            )]
        );
    }
    assert_eq!(ignored(&[("OTEL_TRACES_SAMPLER_ARG", "0.5")]).len(), 1, "no sampler takes it");
}

#[test]
fn the_resource_has_one_name() {
    let resource = |variables: &[(&str, &str)]| {
        let pairs = followed(variables).resource;
        pairs.iter().map(|(key, value)| format!("{key}={value}")).collect::<Vec<_>>().join(" ")
    };
    let attributes = ("OTEL_RESOURCE_ATTRIBUTES", "k=v%2Cw,service.name=shop");
    assert_eq!(resource(&[attributes]), "service.name=shop k=v,w");
    assert_eq!(resource(&[attributes, ("OTEL_SERVICE_NAME", "till")]), "service.name=till k=v,w");
}

#[test]
fn a_batch_is_not_larger_than_the_queue() {
    let sizes = |variables: &[(&str, &str)]| {
        let batch = tracing(variables).batch;
        (batch.queue_items_max, batch.batch_items_max)
    };
    assert_eq!(sizes(&[("OTEL_BSP_MAX_QUEUE_SIZE", "100")]), (100, 100));
    assert_eq!(ignored(&[("OTEL_BSP_MAX_QUEUE_SIZE", "100")]).len(), 0);
    let both = [("OTEL_BSP_MAX_QUEUE_SIZE", "1000"), ("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "2000")];
    assert_eq!((sizes(&both), ignored(&both).len()), ((1000, 512), 1));
    let unlimited = followed(&[("OTEL_BSP_EXPORT_TIMEOUT", "0"), ("OTEL_BSP_SCHEDULE_DELAY", "0")]).batch;
    assert_eq!((unlimited.export_timeout, unlimited.schedule_delay), (None, Duration::ZERO));
}

#[test]
fn limits_have_a_general_and_a_special_form() {
    let general =
        followed(&[("OTEL_ATTRIBUTE_COUNT_LIMIT", "7"), ("OTEL_ATTRIBUTE_VALUE_LENGTH_LIMIT", "8")]).limits;
    assert_eq!([general.attributes, general.attributes_per_event, general.attributes_per_link], [7; 3]);
    assert_eq!(general.value_chars, Some(8));
    let special = followed(&[
        ("OTEL_ATTRIBUTE_COUNT_LIMIT", "7"),
        ("OTEL_ATTRIBUTE_VALUE_LENGTH_LIMIT", "8"),
        ("OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT", "0"),
        ("OTEL_SPAN_ATTRIBUTE_VALUE_LENGTH_LIMIT", "1"),
        ("OTEL_EVENT_ATTRIBUTE_COUNT_LIMIT", "2"),
        ("OTEL_LINK_ATTRIBUTE_COUNT_LIMIT", "3"),
        ("OTEL_SPAN_EVENT_COUNT_LIMIT", "4"),
        ("OTEL_SPAN_LINK_COUNT_LIMIT", "5"),
    ]);
    let expected = SpanLimits {
        attributes: 0,
        value_chars: Some(1),
        attributes_per_event: 2,
        attributes_per_link: 3,
        events: 4,
        links: 5,
    };
    assert_eq!(special.limits, expected);
}

#[test]
fn without_an_exporter_nothing_is_recorded_and_traces_are_propagated() {
    for variable in [("OTEL_TRACES_EXPORTER", "none"), ("OTEL_SDK_DISABLED", "TRUE")] {
        let config = followed(&[variable]);
        assert!(config.export.is_none() && config.has_trace_context, "{variable:?}");
    }
    assert!(!followed(&[("OTEL_PROPAGATORS", "none")]).has_trace_context);
    assert!(!followed(&[("OTEL_PROPAGATORS", "baggage")]).has_trace_context);
    assert!(followed(&[("OTEL_PROPAGATORS", "none"), ("TRACE_CONTEXT", "true")]).has_trace_context);
    assert_eq!(ignored(&[("OTEL_PROPAGATORS", "b3,TraceContext,jaeger")]).len(), 2);
    assert!(tracing(&[("OTEL_PROPAGATORS", "b3,TraceContext,jaeger")]).has_trace_context);
}

#[test]
fn the_report_shows_effective_values_and_no_secrets() {
    let config = resolve(&[
        ("OTEL_EXPORTER_OTLP_ENDPOINT", "https://user:hunter2@c/base?key=hunter2"),
        ("OTEL_EXPORTER_OTLP_HEADERS", "authorization=hunter2"),
        ("OTEL_RESOURCE_ATTRIBUTES", "k=v"),
        ("OTEL_BSP_MAX_QUEUE_SIZE", "10"),
        ("OTEL_SDK_DISABLED", "1"),
    ]);
    let report = config.unwrap().report(serde_json::Map::new());
    assert_eq!(report["otel_enabled"], true);
    assert_eq!(report["trace_context"], true, "it is implied");
    assert_eq!(report["otel_exporter_otlp_endpoint"], "https://c/base");
    assert_eq!(report["otel_service_name"], "unknown_service:svc");
    assert_eq!(report["otel_resource_attributes"], serde_json::json!(["k=v"]));
    assert_eq!(report["otel_bsp_max_export_batch_size"], 10);
    assert_eq!(report["otel_sdk_disabled"], false);
    assert_eq!(report["otel_exporter_otlp_traces_timeout"], serde_json::Value::Null);
    assert!(!report.contains_key("otel_exporter_otlp_headers"));
    assert!(!serde_json::Value::Object(report).to_string().contains("hunter2"));
}

#[test]
fn metrics_and_logs_are_exported_only_with_their_switches() {
    let odd = [
        ("OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", "nonsense"),
        ("OTEL_EXPORTER_OTLP_LOGS_CERTIFICATE", "/nowhere"),
        ("OTEL_METRIC_EXPORT_INTERVAL", "soon"),
        ("OTEL_LOGS_EXPORTER", "console"),
    ];
    let config = followed(&odd);
    assert_eq!((config.metrics, config.logs), (None, None));
    let both = [("OTEL_METRICS_ENABLED", "true"), ("OTEL_LOGS_ENABLED", "true")];
    let error = resolve(&[&both[..], &odd].concat()).unwrap_err();
    for name in ["OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", "OTEL_EXPORTER_OTLP_LOGS_CERTIFICATE"] {
        assert!(error.contains(name), "{error}");
    }
    let disabled = followed(&[&both[..], &[("OTEL_SDK_DISABLED", "true")]].concat());
    assert_eq!((disabled.metrics, disabled.logs), (None, None));
    let without_spans = followed(&[&both[..], &[("OTEL_TRACES_EXPORTER", "none")]].concat());
    assert!(
        without_spans.export.is_none() && without_spans.metrics.is_some() && without_spans.logs.is_some()
    );
    for (exporter, variable) in [("OTEL_METRICS_EXPORTER", 0), ("OTEL_LOGS_EXPORTER", 1)] {
        let config = followed(&[&both[..], &[(exporter, "none")]].concat());
        assert_eq!([config.metrics.is_none(), config.logs.is_none()], [variable == 0, variable == 1]);
    }
}

#[test]
fn a_switch_without_otel_enabled_is_warned_about() {
    let config = resolve(&[("OTEL_ENABLED", "false"), ("OTEL_LOGS_ENABLED", "true")]).unwrap();
    let warnings: Vec<_> = config.warnings.iter().map(ToString::to_string).collect();
    assert!(
        warnings[0].contains("OTEL_LOGS_ENABLED") && warnings[0].contains("OTEL_ENABLED"),
        "{warnings:?}"
    );
    assert_eq!(config.report(serde_json::Map::new())["otel_logs_enabled"], false);
}

#[test]
fn each_signal_has_its_transport_and_the_general_one_is_shared() {
    let config = followed(&[
        ("OTEL_METRICS_ENABLED", "true"),
        ("OTEL_LOGS_ENABLED", "true"),
        ("OTEL_EXPORTER_OTLP_ENDPOINT", "https://user:password@c:1/base?key=secret"),
        ("OTEL_EXPORTER_OTLP_TIMEOUT", "7"),
        ("OTEL_EXPORTER_OTLP_LOGS_PROTOCOL", "grpc"),
        ("OTEL_EXPORTER_OTLP_METRICS_HEADERS", "a=1"),
        ("OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE", "lowMemory"),
        ("OTEL_METRIC_EXPORT_TIMEOUT", "0"),
        ("OTEL_BLRP_MAX_QUEUE_SIZE", "5"),
    ]);
    let (metrics, logs) = (config.metrics.unwrap(), config.logs.unwrap());
    // Each has the query, which the settings do not show.
    assert_eq!(config.export.unwrap().endpoint.target, "/base/v1/traces?key=secret");
    assert_eq!(metrics.export.endpoint.target, "/base/v1/metrics?key=secret");
    assert_eq!(
        (logs.export.protocol, logs.export.endpoint.target.as_str()),
        (ExportProtocol::Grpc, "/base?key=secret")
    );
    assert_eq!(metrics.export.headers, [("a".to_owned(), "1".to_owned())]);
    assert_eq!([metrics.export.signal, logs.export.signal], [ExportSignal::Metrics, ExportSignal::Logs]);
    assert_eq!(metrics.export.timeout, Some(Duration::from_millis(7)));
    assert_eq!((metrics.interval, metrics.timeout), (Duration::from_secs(60), None));
    assert_eq!(metrics.temporality, TemporalityPreference::LowMemory);
    let batch = BatchConfig {
        schedule_delay: Duration::from_secs(1),
        export_timeout: Some(Duration::from_secs(30)),
        queue_items_max: 5,
        batch_items_max: 5,
    };
    assert_eq!(logs.batch, batch);
    let initial =
        followed(&[("OTEL_METRICS_ENABLED", "true"), ("OTEL_EXPORTER_OTLP_METRICS_PROTOCOL", "grpc")]);
    assert_eq!(initial.metrics.unwrap().export.endpoint.port, 4317);
    assert_eq!(initial.export.unwrap().endpoint.port, 4318);
}

#[test]
fn a_problem_of_a_general_variable_is_reported_once() {
    let bad = [
        ("OTEL_METRICS_ENABLED", "true"),
        ("OTEL_LOGS_ENABLED", "true"),
        ("OTEL_EXPORTER_OTLP_ENDPOINT", "nonsense"),
        ("OTEL_EXPORTER_OTLP_CERTIFICATE", "/nowhere"),
    ];
    let error = resolve(&bad).unwrap_err();
    assert_eq!(error.matches("nonsense").count(), 1, "{error}");
    assert_eq!(error.matches("/nowhere").count(), 1, "{error}");
    let odd = [bad[0], bad[1], ("OTEL_EXPORTER_OTLP_HEADERS", "host=a")];
    assert_eq!(ignored(&odd).len(), 1);
}
