//! The operations port of the real binary: its pages, their formats and readers, and its behaviour under load.

use rustix::process::{Resource, Rlimit, prlimit};
use svc_core::limits::OPS_RESERVE_DESCRIPTORS;
use svc_testing::Svc;
use svc_testing::client::{Client, Response, eventually};
use svc_testing::exposition;
use svc_testing::exposition::{Dialect, Exposition};
use svc_testing::scraper::{Collector, Lint};
use svc_testing::skip::skipped;

const PAGES: &[(&str, &str)] =
    &[("index.php", "<?php echo 'hello';"), ("file.txt", "a file"), ("wait.php", WAITING)];

/// A script that reports that it runs, and answers when a file appears beside it.
const WAITING: &str = r#"<?php
set_time_limit(0);
touch(__DIR__ . '/inside');
while (!file_exists(__DIR__ . '/go')) { usleep(2000); clearstatcache(); }
echo 'done';
"#;

const PATHS: [&str; 11] = [
    "/health/liveness",
    "/healthz",
    "/health/readiness",
    "/readyz",
    "/health/startup",
    "/startupz",
    "/health",
    "/metrics",
    "/config",
    "/status",
    "/",
];

fn ask(svc: &Svc, head: &str) -> Response {
    Client::connect(svc.ops()).request(head)
}

fn scrape(svc: &Svc, dialect: Dialect) -> Exposition {
    let accept = match dialect {
        Dialect::Text => "text/plain",
        Dialect::OpenMetrics => "application/openmetrics-text;version=1.0.0,text/plain;q=0.5",
    };
    let response = ask(svc, &format!("GET /metrics HTTP/1.1\r\nAccept: {accept}"));
    assert_eq!(response.status, 200);
    exposition::read(&response.body, dialect).unwrap_or_else(|fault| panic!("{fault}"))
}

fn total(page: &Exposition, name: &str) -> f64 {
    page.value(name, &[]).unwrap_or_else(|| panic!("no {name}"))
}

/// Returns the sum of the series of a counter family.
fn sum(page: &Exposition, family: &str) -> f64 {
    // Its series appear with the first response of their class.
    let is_late = family == "svc_responses_by_status";
    let samples = page.families.get(family).map(|family| &family.samples);
    assert!(is_late || samples.is_some(), "there is no {family}");
    samples.into_iter().flatten().map(|one| one.value).sum()
}

/// Waits until every received request has ended.
fn settled(svc: &Svc) -> Exposition {
    let mut page = scrape(svc, Dialect::Text);
    eventually("all requests have ended", || {
        page = scrape(svc, Dialect::Text);
        total(&page, "svc_requests_total") == sum(&page, "svc_responses_by_status")
    });
    page
}

/// Sends some of every kind of traffic that a healthy server gets.
fn traffic(svc: &Svc) {
    assert_eq!(svc.get("/").text(), "hello");
    assert_eq!(svc.get("/file.txt").text(), "a file");
    assert_eq!(svc.get("/missing.txt").status, 404);
    assert_eq!(svc.client().post("/", b"12345").status, 200);
    assert_eq!(svc.client().request("HEAD /file.txt HTTP/1.1\r\nHost: x").status, 200);
    assert_eq!(svc.client().request("MADEUP / HTTP/1.1\r\nHost: x").field("x-unknown"), None);
    assert_eq!(svc.client().request("GET / HTTP/1.1").status, 400);
}

#[test]
fn every_endpoint_answers_and_head_is_the_same_without_a_body() {
    let svc = Svc::start(PAGES, &[]);
    for path in PATHS {
        let get = ask(&svc, &format!("GET {path} HTTP/1.1\r\nHost: localhost"));
        let head = ask(&svc, &format!("HEAD {path} HTTP/1.0"));
        assert_eq!((get.status, head.status), (200, 200), "{path}");
        for name in ["content-type", "cache-control", "x-content-type-options", "vary"] {
            assert_eq!(get.field(name), head.field(name), "{path} {name}");
        }
        assert_eq!(get.field("cache-control"), Some("no-store"));
        assert!(get.is_whole && !get.body.is_empty());
        assert_eq!(
            ask(&svc, &format!("POST {path} HTTP/1.1\r\nHost: localhost")).field("allow"),
            Some("GET, HEAD")
        );
    }
    for (path, name) in [("/healthz", "liveness"), ("/readyz", "readiness"), ("/startupz", "startup")] {
        let probe = svc.ask(path);
        assert_eq!((probe.text().as_str(), probe.field("content-type")), (name, Some("text/plain")));
    }
    assert_eq!(svc.ask("/unknown").status, 404);
}

#[test]
fn the_main_port_has_no_operations_endpoint() {
    let svc = Svc::start(PAGES, &[]);
    assert_eq!(svc.get("/").text(), "hello");
    for path in PATHS.into_iter().filter(|path| *path != "/") {
        assert_eq!(svc.get(path).status, 404, "{path}");
    }
}

#[test]
fn both_formats_are_strictly_valid_and_only_grow() {
    let svc = Svc::start(PAGES, &[]);
    let first = scrape(&svc, Dialect::Text);
    let first_openmetrics = scrape(&svc, Dialect::OpenMetrics);
    assert_eq!(
        first.families.keys().collect::<Vec<_>>(),
        first_openmetrics.families.keys().collect::<Vec<_>>()
    );
    traffic(&svc);
    settled(&svc);
    for (dialect, before) in [(Dialect::Text, first), (Dialect::OpenMetrics, first_openmetrics)] {
        let after = scrape(&svc, dialect);
        assert_eq!(after.faults_after(&before), [""; 0]);
        let new: Vec<_> = after.families.keys().filter(|name| !before.families.contains_key(*name)).collect();
        assert_eq!(
            new,
            ["svc_requests_by_method", "svc_responses_by_status"],
            "all others exist from the start"
        );
        for (family, label, values) in CLOSED_SETS {
            assert_eq!(after.strangers(family, label, values), [""; 0], "{family}");
        }
        for (family, one) in &after.families {
            let is_known = CLOSED_SETS.iter().any(|(known, ..)| known == family);
            let labels = one.samples.iter().flat_map(|sample| sample.labels.keys());
            assert!(is_known || labels.clone().all(|label| label == "le"), "{family} has other labels");
        }
    }
}

/// Every label with all of its possible values.
const CLOSED_SETS: &[(&str, &str, &[&str])] = &[
    ("svc_opcache_memory_bytes", "state", &["used", "free", "wasted"]),
    (
        "svc_requests_by_method",
        "method",
        &["GET", "POST", "PUT", "DELETE", "PATCH", "HEAD", "OPTIONS", "CONNECT", "QUERY", "OTHER"],
    ),
    ("svc_responses_by_status", "status", &["1xx", "2xx", "3xx", "4xx", "5xx"]),
    ("svc_request_cancelled", "reason", &["client_abort", "timeout", "shutdown"]),
    (
        "svc_admission_refused",
        "reason",
        &["wait_timeout", "waiting_full", "waiting_bytes", "queue_full", "shutting_down", "pool_unavailable"],
    ),
    (
        "svc_php_errors",
        "level",
        &[
            "error",
            "warning",
            "parse",
            "notice",
            "core_error",
            "core_warning",
            "compile_error",
            "compile_warning",
            "user_error",
            "user_warning",
            "user_notice",
            "recoverable_error",
            "deprecated",
            "user_deprecated",
            "uncaught",
        ],
    ),
    ("svc_worker_request_age_seconds", "worker_id", &["0", "1"]),
    ("svc_worker_long_running", "worker_id", &["0", "1"]),
    ("svc_worker_stuck", "worker_id", &["0", "1"]),
    ("svc_worker_stuck", "kind", &["io", "c_call", "cpu"]),
    ("svc_build", "version", &[env!("CARGO_PKG_VERSION")]),
];

#[test]
fn counts_equal_events() {
    let svc = Svc::start(PAGES, &[]);
    traffic(&svc);
    let page = settled(&svc);
    assert_eq!(total(&page, "svc_requests_total"), 7.0);
    assert_eq!(sum(&page, "svc_requests_by_method"), 7.0);
    assert_eq!(page.value("svc_requests_by_method_total", &[("method", "POST")]), Some(1.0));
    assert_eq!(page.value("svc_requests_by_method_total", &[("method", "PUT")]), None);
    assert_eq!(total(&page, "svc_request_bytes_total"), 5.0);
    assert_eq!(total(&page, "svc_request_duration_us_count"), 7.0);
    assert_eq!(total(&page, "svc_served_duration_us_count"), 7.0, "404 and redirects are answers too");
    assert_eq!(total(&page, "svc_pending_requests"), 0.0);
    assert_eq!(total(&page, "svc_busy_workers") + total(&page, "svc_workers_idle"), 2.0);
    assert_eq!(total(&page, "svc_workers_current"), 2.0);
    eventually("the scripts have ended", || {
        let page = scrape(&svc, Dialect::Text);
        total(&page, "svc_queue_wait_us_count") == total(&page, "svc_php_request_duration_seconds_count")
    });
    assert!(total(&page, "svc_response_bytes_total") >= 16.0);
    assert_eq!(total(&page, "svc_static_cache_misses_total"), 1.0, "HEAD reads no file");
    eventually("connections are closed", || {
        total(&scrape(&svc, Dialect::Text), "svc_active_connections") == 0.0
    });
    let health: serde_json::Value = serde_json::from_slice(&svc.ask("/health").body).unwrap();
    assert_eq!((&health["status"], &health["total_requests"]), (&"ok".into(), &7.into()));
    assert_eq!((&health["executor_healthy"], &health["pool_stalled"]), (&true.into(), &false.into()));
    assert_eq!(health["plugins"], serde_json::json!({}));
    assert!(health["uptime_secs"].is_u64() && health["active_connections"].is_u64());
}

#[test]
fn an_executor_without_a_queue_is_ready_and_tells_of_an_empty_pool() {
    let settings = [
        ("EXECUTOR", "stub"),
        ("WORKER_MODE_ENABLED", "true"),
        ("QUEUE_CAPACITY", "7"),
        ("ENTRY_FILE", "index.php"),
    ];
    let svc = Svc::start(PAGES, &settings);
    let page = scrape(&svc, Dialect::Text);
    for absent in ["svc_queue_depth", "svc_admission_wait_budget_us", "svc_pool_stalled"] {
        assert!(!page.families.contains_key(absent), "{absent}");
    }
    for (name, value) in [
        ("svc_queue_capacity", 7.0),
        ("svc_admission_slots_available", 7.0),
        ("svc_workers_current", 0.0),
        ("svc_workers_min", 0.0),
        ("svc_workers_max", 0.0),
        ("svc_workers_idle", 0.0),
        ("svc_busy_workers", 0.0),
    ] {
        assert_eq!(page.value(name, &[]), Some(value), "{name}");
    }
    assert!(page.families.contains_key("svc_admission_refused"));
    for path in PATHS {
        assert_eq!(ask(&svc, &format!("GET {path} HTTP/1.1\r\nHost: localhost")).status, 200, "{path}");
    }
}

#[test]
fn the_allow_list_guards_pages_about_the_server_and_no_probe() {
    for (list, guarded) in [("10.0.0.0/8", 403), ("10.0.0.0/8,127.0.0.1/32", 200)] {
        let svc = Svc::start(PAGES, &[("INTERNAL_ALLOW_IPS", list)]);
        for path in PATHS {
            let is_guarded = matches!(path, "/metrics" | "/config" | "/status" | "/");
            let expected = if is_guarded { guarded } else { 200 };
            let answer = ask(&svc, &format!("GET {path} HTTP/1.1\r\nHost: localhost"));
            assert_eq!(answer.status, expected, "{path} with {list}");
        }
        assert_eq!(svc.ask("/unknown").status, 404);
    }
}

#[test]
fn metrics_are_compressed_on_demand() {
    let svc = Svc::start(PAGES, &[]);
    let plain = ask(&svc, "GET /metrics HTTP/1.1\r\nHost: x\r\nAccept-Encoding: gzip;q=0");
    let coded = ask(&svc, "GET /metrics HTTP/1.1\r\nHost: x\r\nAccept-Encoding: deflate, gzip");
    assert_eq!((plain.field("content-encoding"), coded.field("content-encoding")), (None, Some("gzip")));
    assert_eq!(coded.field("vary"), Some("Accept, Accept-Encoding"));
    assert!(coded.body.starts_with(&[0x1f, 0x8b]) && coded.body.len() * 2 < plain.body.len());
}

#[test]
fn probes_answer_while_no_connection_is_left_on_the_main_port() {
    let svc = Svc::start(PAGES, &[("MAX_CONNECTIONS", "1")]);
    let mut holder = svc.client();
    assert_eq!(holder.get("/").status, 200);
    let mut waiting = svc.client();
    waiting.send("GET / HTTP/1.1\r\nHost: x\r\n\r\n");
    eventually("the accept loop is stalled", || svc.metric("svc_accept_stalled") == 1.0);
    svc.assert_metric("svc_active_connections", 1.0);
    for path in PATHS {
        assert_eq!(ask(&svc, &format!("GET {path} HTTP/1.1\r\nHost: localhost")).status, 200, "{path}");
    }
    drop(holder);
    assert_eq!(waiting.response().text(), "hello");
    svc.assert_metric("svc_accept_stalled", 0.0);
    svc.assert_metric("svc_accept_stalls_total", 1.0);
}

#[test]
fn overload_is_refused_counted_and_no_fault() {
    let settings = [("PHP_WORKERS", "1"), ("QUEUE_CAPACITY", "1"), ("QUEUE_WAIT_TIMEOUT_MS", "0")];
    let svc = Svc::start(PAGES, &settings);
    let mut running = svc.client();
    running.send("GET /wait.php HTTP/1.1\r\nHost: x\r\n\r\n");
    eventually("the script runs", || svc.root().join("inside").exists());
    let mut queued = svc.client();
    queued.send("GET / HTTP/1.1\r\nHost: x\r\n\r\n");
    eventually("the queue is full", || svc.metric("svc_admission_slots_available") == 0.0);
    let refused = svc.get("/");
    assert_eq!((refused.status, refused.reason.as_str()), (529, "Site is overloaded"));
    let page = scrape(&svc, Dialect::Text);
    for (name, value) in [
        ("svc_busy_workers", 1.0),
        ("svc_workers_idle", 0.0),
        ("svc_queue_depth", 1.0),
        ("svc_queue_capacity", 1.0),
        ("svc_pending_requests", 2.0),
    ] {
        assert_eq!(total(&page, name), value, "{name}");
    }
    assert_eq!(page.value("svc_admission_refused_total", &[("reason", "queue_full")]), Some(1.0));
    assert_eq!((svc.ask("/readyz").status, svc.ask("/health").status), (200, 200));
    std::fs::write(svc.root().join("go"), "").unwrap();
    assert_eq!((running.response().text().as_str(), queued.response().text().as_str()), ("done", "hello"));
    let page = settled(&svc);
    assert_eq!((total(&page, "svc_queue_depth"), total(&page, "svc_pending_requests")), (0.0, 0.0));
    assert_eq!(total(&page, "svc_queue_wait_us_count"), 2.0, "a refusal is not in it");
}

#[test]
fn clients_that_hold_connections_keep_no_probe_out() {
    let svc = Svc::start(PAGES, &[]);
    let holders: Vec<_> = (0..200)
        .map(|_| {
            let mut holder = Client::connect(svc.ops());
            holder.try_send("GET /met");
            holder
        })
        .collect();
    assert_eq!(svc.ask("/healthz").text(), "liveness");
    assert_eq!(svc.ask("/metrics").status, 200);
    drop(holders);
}

#[test]
fn hostile_requests_are_refused_and_the_port_lives_on() {
    let svc = Svc::start(PAGES, &[]);
    let long = format!("GET /healthz HTTP/1.1\r\nX: {}", "x".repeat(9000));
    for (request, status) in [
        ("\u{0}\u{1}\u{2}\u{3}\r\n", 400),
        ("GET /healthz HTTP/1.1\r\nContent-Length: 3\r\nContent-Length: 4", 400),
        ("GET /healthz HTTP/1.1\r\nContent-Length: 9", 413),
        (&long, 431),
    ] {
        let response = ask(&svc, request);
        assert_eq!((response.status, response.field("connection")), (status, Some("close")), "{request:.40}");
    }
    assert_eq!(svc.ask("/healthz").status, 200);
}

#[test]
fn the_configuration_has_every_field_in_its_type() {
    let svc = Svc::start(PAGES, &[]);
    let response = svc.ask("/config");
    assert_eq!(response.field("content-type"), Some("application/json"));
    let report: serde_json::Value = serde_json::from_slice(&response.body).unwrap();
    for (fields, is_of_type) in CONFIG_FIELDS {
        for field in fields.split_whitespace() {
            assert!(is_of_type(&report[field]), "{field} is {}", report[field]);
        }
    }
    assert!(report["deny_file"]["loaded"].is_boolean());
    for omitted in ["internal_addr", "error_pages_dir", "tls_cert", "tls_key"] {
        assert!(report.get(omitted).is_none(), "{omitted}");
    }
}

type IsOfType = fn(&serde_json::Value) -> bool;

const CONFIG_FIELDS: &[(&str, IsOfType)] = &[
    (
        "access_log document_root entry_file executor_type listen_addr log_level php_workers tls_min_version",
        serde_json::Value::is_string,
    ),
    (
        "async_in_flight_cap async_max_fibers async_queue_capacity async_workers brotli_level \
         drain_timeout_seconds gzip_level header_timeout_seconds max_connections max_query_body queue_capacity \
         queue_max_waiting queue_max_waiting_bytes queue_wait_timeout_ms rate_limit rate_window_seconds \
         static_max_age io_workers worker_max_memory_mib worker_max_requests zstd_level",
        serde_json::Value::is_u64,
    ),
    (
        "static_revalidate superglobals_enabled tls_enabled trace_context trusted_proxies worker_mode_enabled",
        serde_json::Value::is_boolean,
    ),
    ("deny_file plugins", serde_json::Value::is_object),
    ("runtime_hooks", serde_json::Value::is_array),
];

#[test]
fn promtool_finds_nothing_but_the_names_that_are_given() {
    let svc = Svc::start(PAGES, &[]);
    traffic(&svc);
    let page = svc.ask("/metrics").body;
    let Some(lint) = Lint::of(&page) else {
        return skipped("promtool is not installed");
    };
    assert_eq!(lint.unexpected(), [""; 0]);
    let found = |page: &str| Lint::of(page.as_bytes()).is_some_and(|lint| !lint.unexpected().is_empty());
    assert!(
        found("a{b=\"c\"\n") && found("# TYPE svc_novel_us gauge\nsvc_novel_us 1\n"),
        "it looks at pages"
    );
}

#[test]
fn a_prometheus_server_scrapes_it() {
    let svc = Svc::start(PAGES, &[]);
    traffic(&svc);
    let Some(collector) = Collector::start(svc.ops()) else {
        return skipped("prometheus is not installed");
    };
    eventually("the target is up", || collector.query("up") == Some(1.0));
    eventually("the requests are stored", || collector.query("svc_requests_total") == Some(7.0));
    assert_eq!(collector.query("svc_request_duration_us_bucket{le=\"+Inf\"}"), Some(7.0));
    let targets = collector.targets();
    assert_eq!(targets["data"]["activeTargets"][0]["lastError"], "", "{targets}");
}

/// Starts a server with a script that takes all descriptors and holds them until there is a file "go". The returned client
/// has requested that script; its connection occupies one descriptor.
fn without_descriptors() -> (Svc, Client) {
    const GREEDY: &str = "<?php
        $held = [];
        while ($one = @fopen('/dev/null', 'r')) { $held[] = $one; }
        echo count($held);
        svc_finish_request();
        set_time_limit(0);
        while (!file_exists(__DIR__ . '/go')) { usleep(2000); clearstatcache(); }
    ";
    let svc = Svc::start(&[("greedy.php", GREEDY)], &[("MAX_CONNECTIONS", "10")]);
    eventually("all workers have booted", || svc.metric("svc_workers_idle") == svc.metric("svc_workers_max"));
    let limit = Rlimit { current: Some(1600), maximum: Some(1600) };
    prlimit(Some(svc.pid()), Resource::Nofile, limit).unwrap();
    let mut client = Client::connect(svc.main());
    let held: u32 = client.get("/greedy.php").text().parse().unwrap();
    assert!(held > 500, "{held}");
    (svc, client)
}

#[test]
fn connections_of_the_port_are_kept_while_the_reserve_lasts() {
    let (svc, _client) = without_descriptors();
    let mut clients: Vec<Client> = (0..OPS_RESERVE_DESCRIPTORS).map(|_| Client::connect(svc.ops())).collect();
    for client in &mut clients {
        assert_eq!(client.get("/healthz").text(), "liveness");
    }
    for client in &mut clients {
        assert_eq!(client.get("/healthz").text(), "liveness");
    }
    assert_eq!(svc.ask("/healthz").text(), "liveness", "one is given up for it");
}

#[test]
fn a_script_that_takes_every_descriptor_does_not_silence_the_port() {
    let (svc, client) = without_descriptors();
    drop(client);
    // It takes the free descriptors, so that the others need the reserve.
    let mut holder = Client::connect(svc.ops());
    assert_eq!(holder.get("/healthz").text(), "liveness");
    for _ in 0..20 {
        assert_eq!(svc.ask("/healthz").text(), "liveness");
    }
    assert_eq!(svc.ask("/metrics").status, 200);
    let warned = |record: &serde_json::Value| {
        record["fields"]["message"].as_str().unwrap().starts_with("no file descriptor is free")
    };
    eventually("it is logged", || svc.log().of("svc").iter().any(warned));
    assert_eq!(svc.log().of("svc").iter().filter(|record| warned(record)).count(), 1);
    std::fs::write(svc.root().join("go"), "").unwrap();
    eventually("the script has ended", || svc.metric("svc_busy_workers") == 0.0);
    assert_eq!(svc.get("/missing").status, 404);
}

#[test]
fn the_page_of_a_pool_of_persistent_workers_is_well_formed() {
    use svc_core::observe::exposition::{Format, render};
    use svc_core::observe::process::ProcessFacts;
    use svc_core::observe::{ReloadFacts, ScrapeFacts};
    use svc_core::pool::{PoolFacts, SlotPhase, SlotReading};
    let metrics = svc_core::observe::Metrics::new();
    metrics.worker_request_handled(std::time::Duration::from_millis(3));
    let slot = |slot| SlotReading { slot, number: 1, phase: SlotPhase::Serving, ..SlotReading::default() };
    let facts = ScrapeFacts {
        version: "1",
        php_version: None,
        started_at: std::time::SystemTime::UNIX_EPOCH,
        uptime: std::time::Duration::ZERO,
        queue_capacity: 8,
        gate: None,
        pool: Some(PoolFacts { current: 3, min: 2, max: 4, ..PoolFacts::default() }),
        slots: (0..3).map(slot).collect(),
        io_workers_in_use: 1,
        has_interpreter: true,
        worker_mode: true,
        runtime_hooks: true,
        reload: ReloadFacts { is_successful: true, succeeded_at: std::time::SystemTime::UNIX_EPOCH },
        certificates: None,
        tasks: None,
        tracing: None,
        plugins: Vec::new(),
        opcache: None,
        static_cache: svc_core::observe::StaticCacheReading::default(),
        response_cache: None,
        reply_memory_bytes: 0,
        spool_bytes: 0,
        spool_bytes_max: 0,
        log_dropped: 0,
        process: ProcessFacts::read(),
    };
    let text = render(&metrics, &facts, Format::Text);
    let page = exposition::read(&text, Dialect::Text).unwrap_or_else(|fault| panic!("{fault}"));
    assert_eq!(page.value("svc_worker_requests_count", &[("worker", "2")]), Some(0.0));
    assert_eq!(page.value("svc_worker_stuck_total", &[("worker_id", "2"), ("kind", "c_call")]), Some(0.0));
    assert_eq!(total(&page, "svc_worker_request_duration_us_count"), 1.0);
    let strangers = page.strangers("svc_worker_stuck_total", "kind", &["io", "c_call", "cpu"]);
    assert!(strangers.is_empty(), "{strangers:?}");
}
