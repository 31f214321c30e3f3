//! Tests each group of fields with facts that the test sets.

use std::time::UNIX_EPOCH;

use super::*;
use crate::admission::GateFacts;
use crate::cache::{CacheOutcome, CacheReading};
use crate::observe::health::WorkerHealth;
use crate::observe::process::ProcessFacts;
use crate::observe::{
    BootFailure, CertificateFacts, EpisodeBook, EpisodeKind, EpisodeStep, EpisodeUpdate, History,
    OpcacheMemory, PhpErrorRaised, PhpErrors, ProbeFacts, ReloadFacts, ReloadReading, Sample, ScrapeFacts,
    StaticCacheReading, TaskFacts, TraceFacts, Usage,
};
use crate::pool::{BootFault, HeldJob, PoolFacts};
use crate::sync::primitive::Arc;

const PROBE: ProbeFacts = ProbeFacts {
    serving: true,
    workers: WorkerHealth::Running(2),
    pool_stalled: false,
    plugin_failed: false,
};

fn at(seconds: u64) -> SystemTime {
    UNIX_EPOCH + Duration::from_secs(seconds)
}

#[expect(clippy::too_many_lines, reason = "one line for each fact")]
fn facts() -> StatusFacts<'static> {
    let scrape = ScrapeFacts {
        version: "1.2.3",
        php_version: Some("8.4.1"),
        started_at: at(1000),
        uptime: Duration::from_millis(61_900),
        reload: ReloadFacts { is_successful: true, succeeded_at: at(1000) },
        certificates: None,
        gate: Some(GateFacts {
            depth: 3,
            capacity: 8,
            slots_available: 5,
            waiting: 2,
            wait_budget: Duration::from_millis(250),
            wait_budget_ceiling: Duration::from_millis(1000),
        }),
        queue_capacity: 8,
        pool: Some(PoolFacts { current: 2, busy: 1, min: 2, max: 4, spawned: 3, ..PoolFacts::default() }),
        slots: vec![serving(0), SlotReading::default()],
        io_workers_in_use: 1,
        worker_mode: true,
        has_interpreter: true,
        runtime_hooks: false,
        tasks: None,
        tracing: None,
        plugins: Vec::new(),
        opcache: Some(OpcacheMemory {
            used_bytes: 21,
            free_bytes: 22,
            wasted_bytes: 23,
            scripts: 24,
            hits: 25,
            misses: 26,
            is_full: true,
        }),
        static_cache: StaticCacheReading { files: 27, bytes: 28, bytes_max: 29 },
        response_cache: Some(CacheReading {
            entries: 31,
            bytes: 32,
            bytes_max: 33,
            evictions: [3, 4],
            purged: 5,
            refreshes: 6,
        }),
        reply_memory_bytes: 11,
        spool_bytes: 12,
        spool_bytes_max: 13,
        log_dropped: 14,
        process: ProcessFacts {
            cpu: Duration::from_millis(1250),
            resident_bytes: Some(15),
            open_fds: Some(16),
            max_fds: None,
            threads: Some(17),
        },
    };
    StatusFacts {
        scrape,
        probe: PROBE,
        phase: "running",
        at: at(1061),
        connections_max: 100,
        waiting_max: 50,
        opcache_enabled: Some(true),
        boot_failure: None,
        oldest_requests: Vec::new(),
        oldest_tasks: Vec::new(),
        php_errors: Vec::new(),
        reload: ReloadReading::default(),
        executor: Some("sapi".into()),
        trend: Vec::new(),
        task_slots: Vec::new(),
        window: None,
        episodes: Vec::new(),
    }
}

fn serving(slot: usize) -> SlotReading {
    let uptime = Duration::from_secs(60);
    let idle_for = Duration::from_millis(1500);
    SlotReading { slot, number: 1, phase: SlotPhase::Serving, uptime, idle_for, ..SlotReading::default() }
}

fn read(facts: &StatusFacts<'_>, metrics: &Metrics) -> Value {
    serde_json::from_str(&facts.to_json(metrics)).unwrap()
}

fn report(facts: &StatusFacts<'_>) -> Value {
    read(facts, &Metrics::new())
}

#[test]
fn it_contains_versions_and_the_start_time() {
    let report = report(&facts());
    assert_eq!((&report["version"], &report["php_version"]), (&"1.2.3".into(), &"8.4.1".into()));
    assert_eq!(report["time"], "1970-01-01T00:17:41.000000Z");
    assert_eq!((&report["uptime_seconds"], &report["phase"]), (&61.into(), &"running".into()));
    assert_eq!((&report["ready"], &report["conditions"]), (&true.into(), &json!([])));
}

#[test]
fn rates_and_latencies_are_those_of_the_window_and_absent_without_one() {
    let (metrics, start) = (Metrics::new(), crate::time::now());
    let first = report(&facts());
    assert_eq!(
        (&first["requests"]["per_second"], &first["latency"]["request"]),
        (&Value::Null, &Value::Null)
    );
    let mut history = History::default();
    history.note(Sample::read(&metrics, Duration::ZERO, start), Usage::default());
    for _ in 0..20 {
        metrics.requests_by_method.incr(crate::http::MethodKind::Get);
        metrics.answered(503, 1, Duration::from_micros(80));
        metrics.served(Duration::from_micros(800));
        metrics.refused.incr(ShedReason::QueueFull);
        metrics.queue_waited(Duration::from_micros(40));
        metrics.php_ran(Duration::from_millis(3));
    }
    (0..4).for_each(|_| metrics.pending_requests.enter());
    history.note(
        Sample::read(&metrics, Duration::from_secs(1), start + Duration::from_secs(2)),
        Usage::default(),
    );
    let report = read(&StatusFacts { window: history.window(), ..facts() }, &metrics);
    assert_eq!(report["window_seconds"], 2.0);
    let requests = &report["requests"];
    assert_eq!((&requests["total"], &requests["per_second"]), (&20.into(), &10.0.into()));
    assert_eq!(
        (&requests["responses"]["5xx"], &requests["responses_per_second"]["5xx"]),
        (&20.into(), &10.0.into())
    );
    assert_eq!(requests["pending"], 4);
    assert_eq!(report["latency"]["request"]["count"], 20);
    assert_eq!(report["latency"]["request"]["mean_us"], 80);
    assert_eq!(report["latency"]["request"]["p50_us"], 50);
    assert_eq!(report["latency"]["served"]["mean_us"], 800);
    assert_eq!(report["latency"]["queue_wait"]["p99_us"], 49);
    assert_eq!(report["latency"]["php"]["mean_us"], 3000);
    assert_eq!(report["refusals"]["overload_per_second"], 10.0);
    assert_eq!(report["refusals"]["per_second"], 10.0);
    assert_eq!((&requests["served_per_second"], &requests["failed_per_second"]), (&10.0.into(), &0.0.into()));
    assert_eq!(report["process"]["cpus_busy"], 0.5);
}

#[test]
fn a_busy_worker_has_its_request_beside_it() {
    let path = [b"/caf\xe9/".as_slice(), &[b'x'; 300]].concat();
    let work = OldestWork::Request { method: "PUT".into(), path };
    let oldest = OldestJob { slot: 0, work, request_id: "abc".into() };
    let report = report(&StatusFacts { oldest_requests: vec![oldest], ..facts() });
    let worker = &report["workers"][0];
    assert_eq!((&worker["method"], &worker["request_id"]), (&"PUT".into(), &"abc".into()));
    let shown = worker["path"].as_str().unwrap();
    assert!(shown.starts_with("/caf\u{fffd}/xx") && shown.ends_with("x…") && shown.len() < 210, "{shown}");
    assert_eq!(self::report(&facts())["workers"][0]["path"], Value::Null);
}

#[test]
fn errors_of_php_are_counted_by_level_and_the_last_ones_have_a_place() {
    let metrics = Metrics::new();
    metrics.php_errors.incr(PhpErrorLevel::Uncaught);
    let errors = PhpErrors::default();
    let (level, message) = (PhpErrorLevel::Uncaught, b"Uncaught E: no\nStack trace:".as_slice());
    errors.note(&PhpErrorRaised { level, message, file: b"/a.php", line: 7 }, at(1001));
    errors.note(&PhpErrorRaised { level: PhpErrorLevel::CoreError, message, file: b"", line: 0 }, at(1000));
    let seen = read(&StatusFacts { php_errors: errors.last(), ..facts() }, &metrics)["php_errors"].clone();
    assert_eq!((&seen["by_level"]["uncaught"], &seen["by_level"]["warning"]), (&1.into(), &0.into()));
    let when = "1970-01-01T00:16:41.000000Z";
    assert_eq!(
        seen["last"][0],
        json!({ "level": "uncaught", "message": "Uncaught E: no", "file": "/a.php", "line": 7, "count": 1,
                "first_at": when, "last_at": when })
    );
    assert_eq!((&seen["last"][1]["file"], &seen["last"][1]["line"]), (&Value::Null, &Value::Null));
    let mut elsewhere = facts();
    elsewhere.scrape.has_interpreter = false;
    assert_eq!(report(&elsewhere)["php_errors"], Value::Null, "PHP runs in other processes");
}

#[test]
fn other_ends_are_counted_by_reason() {
    let metrics = Metrics::new();
    metrics.cancelled.incr(CancelReason::Timeout);
    metrics.refused.incr(ShedReason::WaitTimeout);
    metrics.refused.incr(ShedReason::ShuttingDown);
    metrics.dropped.incr();
    metrics.rate_limited.incr();
    metrics.path_denied.incr();
    metrics.wait_wasted.incr();
    metrics.work_abandoned();
    let report = read(&facts(), &metrics);
    let requests = &report["requests"];
    assert_eq!(requests["cancelled"], json!({ "client_abort": 0, "timeout": 1, "shutdown": 0 }));
    for name in ["dropped", "rate_limited", "blocked", "abandoned"] {
        assert_eq!(requests[name], 1, "{name}");
    }
    let refusals = &report["refusals"];
    assert_eq!((&refusals["overload"], &refusals["wait_wasted"]), (&1.into(), &1.into()));
    assert_eq!(refusals["by_reason"]["shutting_down"], 1);
    assert_eq!(refusals["by_reason"].as_object().unwrap().len(), 6);
}

#[test]
fn admission_has_four_figures_and_is_absent_without_a_queue() {
    let metrics = Metrics::new();
    (0..7).for_each(|_| metrics.connections.enter());
    metrics.accept_stalled.set();
    metrics.accept_stalls.incr();
    let report = read(&facts(), &metrics);
    let connections = json!({ "open": 7, "max": 100, "accept_stalled": true, "accept_stalls": 1 });
    assert_eq!(report["connections"], connections);
    assert_eq!(report["queue"], json!({ "depth": 3, "capacity": 8, "waiting": 2, "waiting_max": 50 }));
    assert_eq!(report["slots"], json!({ "available": 5, "capacity": 8 }));
    assert_eq!(report["budget"], json!({ "wait_us": 250_000, "ceiling_us": 1_000_000 }));
    assert_eq!(report["conditions"], json!(["accept_stalled"]));
    let mut stub = facts();
    (stub.scrape.gate, stub.scrape.pool, stub.opcache_enabled) = (None, None, None);
    let report = self::report(&stub);
    for absent in ["queue", "slots", "budget", "pool", "tasks", "tracing", "certificates"] {
        assert_eq!(report[absent], Value::Null, "{absent}");
    }
    assert_eq!(report["caches"]["opcache"], Value::Null);
}

#[test]
fn the_pool_and_each_worker_have_a_state_and_an_age() {
    let metrics = Metrics::new();
    metrics.workers_recycled.incr(RecycleReason::Error);
    metrics.workers_retired.incr();
    let held = |age, is_parked| Some(HeldJob { serial: 1, age: Duration::from_millis(age), is_parked });
    let mut facts = facts();
    facts.scrape.slots = vec![
        SlotReading { heap_bytes: 4096, handled: 9, stuck: [1, 0, 2], ..serving(0) },
        SlotReading { is_busy: true, oldest: held(2500, false), fibers: 3, ..serving(1) },
        SlotReading { is_busy: true, oldest: held(60_000, true), ..serving(2) },
        SlotReading { phase: SlotPhase::Booting, ..serving(3) },
        SlotReading { leaving_for: Some(Duration::from_secs(4)), is_uncached: true, ..serving(4) },
        SlotReading { fibers: 256, ..serving(5) },
        SlotReading::default(),
    ];
    let report = read(&facts, &metrics);
    let pool = &report["pool"];
    assert_eq!((&pool["mode"], &pool["busy"], &pool["idle"]), (&"worker".into(), &1.into(), &1.into()));
    assert_eq!(
        (&pool["recycled"]["error"], &pool["retired"], &pool["max"]),
        (&1.into(), &1.into(), &4.into())
    );
    let workers = report["workers"].as_array().unwrap();
    let seen = workers
        .iter()
        .map(|one| (one["state"].as_str().unwrap(), one["state_age_seconds"].as_f64().unwrap()));
    let expected = [
        ("idle", 1.5),
        ("busy", 2.5),
        ("stuck", 60.0),
        ("booting", 60.0),
        ("leaving", 4.0),
        ("answered", 1.5),
    ];
    assert_eq!(seen.collect::<Vec<_>>(), expected);
    let first = &workers[0];
    assert_eq!((&first["memory_bytes"], &first["requests_handled"]), (&4096.into(), &9.into()));
    assert_eq!((&first["uptime_seconds"], &first["request_age_seconds"]), (&60.into(), &Value::Null));
    assert_eq!(first["stuck"], json!({ "io": 1, "c_call": 0, "cpu": 2 }));
    assert_eq!((&workers[1]["requests_in_flight"], &workers[4]["uses_opcache"]), (&3.into(), &false.into()));
    assert_eq!(
        (&report["memory"]["workers_bytes"], &report["conditions"]),
        (&4096.into(), &json!(["stuck"]))
    );
    facts.scrape.worker_mode = false;
    let report = self::report(&facts);
    assert_eq!(
        (&report["workers"][1]["requests_in_flight"], &report["workers"][0]["memory_bytes"]),
        (&1.into(), &Value::Null)
    );
}

#[test]
fn tasks_are_reported_and_a_waiting_one_is_not_stuck() {
    let mut facts = facts();
    let tasks = TaskFacts {
        dispatched: 3,
        failed: 1,
        in_flight: Some(2),
        in_flight_limit: 64,
        ..TaskFacts::default()
    };
    facts.scrape.tasks = Some(tasks);
    let age = Duration::from_secs(90);
    let slot = |is_parked| SlotReading {
        is_busy: true,
        oldest: Some(HeldJob { serial: 1, age, is_parked }),
        ..serving(0)
    };
    facts.task_slots = vec![slot(true)];
    let waits = report(&facts);
    assert_eq!((&waits["tasks"]["dispatched"], &waits["tasks"]["in_flight_max"]), (&3.into(), &64.into()));
    assert_eq!((&waits["tasks"]["workers"][0]["state"], &waits["conditions"]), (&"busy".into(), &json!([])));
    facts.task_slots = vec![slot(false)];
    facts.oldest_tasks = vec![OldestJob { slot: 0, work: OldestWork::Task(7), request_id: "abc".into() }];
    let stuck = report(&facts);
    assert_eq!(stuck["conditions"], json!(["stuck"]));
    let worker = &stuck["tasks"]["workers"][0];
    assert_eq!(
        (&worker["task"], &worker["request_id"], &worker["path"]),
        (&7.into(), &"abc".into(), &Value::Null)
    );
}

#[test]
fn caches_memory_and_the_process_are_reported() {
    let metrics = Metrics::new();
    metrics.static_hits.incr();
    metrics.cache_requests.incr(CacheOutcome::Hit);
    metrics.cache_requests.incr(CacheOutcome::Collapsed);
    metrics.cache_requests.incr(CacheOutcome::Stale);
    metrics.opcache_restarts.incr();
    metrics.opcache_restart_delayed.set();
    let report = read(&facts(), &metrics);
    assert_eq!(
        report["caches"]["opcache"],
        json!({
            "enabled": true, "restarts": 1, "restart_delayed": true,
            "used_bytes": 21, "free_bytes": 22, "wasted_bytes": 23, "scripts": 24, "hits": 25, "misses": 26,
            "full": true,
        })
    );
    assert_eq!(
        report["caches"]["static"],
        json!({ "hits": 1, "misses": 0, "files": 27, "bytes": 28, "bytes_max": 29 })
    );
    assert_eq!(
        report["caches"]["responses"],
        json!({
            "hits": 2, "misses": 0, "stale": 1, "bypassed": 0, "entries": 31, "bytes": 32, "bytes_max": 33,
            "evictions": 7, "purged": 5,
        })
    );
    let memory = &report["memory"];
    assert_eq!((&memory["responses_bytes"], &memory["spool_bytes_max"]), (&11.into(), &13.into()));
    assert_eq!((&memory["resident_bytes"], &report["log"]["records_dropped"]), (&15.into(), &14.into()));
    let process = &report["process"];
    assert_eq!(
        (&process["cpu_seconds"], &process["threads"], &process["max_fds"]),
        (&1.25.into(), &17.into(), &Value::Null)
    );
    assert_eq!(report["conditions"], json!(["opcache_restart_delayed"]));
}

#[test]
fn certificates_tracing_plugins_and_reloads_are_reported() {
    let mut facts = facts();
    facts.scrape.certificates = Some(CertificateFacts { first_expiry: Some(at(86_400)) });
    facts.scrape.tracing = Some(TraceFacts { dropped: 5, records_dropped: 0 });
    facts.scrape.reload.is_successful = false;
    facts.probe.plugin_failed = true;
    let reading = |name: &str, health| PluginReading {
        name: name.to_owned(),
        health,
        errors: 0,
        facts_lost: None,
        families: Arc::default(),
    };
    facts.scrape.plugins = vec![reading("disk", Some(PluginHealth::Failed)), reading("mute", None)];
    let report = report(&facts);
    assert_eq!(report["certificates"]["first_expiry"], "1970-01-02T00:00:00.000000Z");
    assert_eq!(report["tracing"], json!({ "failed_exports": 0, "failed_spans": 0, "dropped_spans": 5 }));
    assert_eq!(report["plugins"], json!({ "disk": "failed", "mute": null }));
    assert_eq!((&report["reload"]["successful"], &report["ready"]), (&false.into(), &false.into()));
    assert_eq!(report["conditions"], json!(["plugin_failed", "reload_failed", "certificate_expires"]));
}

#[test]
fn failures_are_a_condition_and_refusals_and_single_ones_are_none() {
    let of = |served: u64, failed: u64, refused: u64| {
        let (metrics, start) = (Metrics::new(), crate::time::now());
        let mut history = History::default();
        history.note(Sample::read(&metrics, Duration::ZERO, start), Usage::default());
        (0..served).for_each(|_| metrics.served(Duration::from_micros(80)));
        (0..failed).for_each(|_| metrics.answered(500, 1, Duration::from_micros(80)));
        for _ in 0..refused {
            metrics.answered(529, 1, Duration::from_micros(80));
            metrics.refused.incr(ShedReason::QueueFull);
        }
        let later = start + Duration::from_secs(1);
        history.note(Sample::read(&metrics, Duration::ZERO, later), Usage::default());
        let report = read(&StatusFacts { window: history.window(), ..facts() }, &metrics);
        report["conditions"] == json!(["failing"])
    };
    assert!(of(10, 3, 0) && of(60, 3, 0) && of(100, 5, 50));
    assert!(!of(100, 4, 0) && !of(2, 2, 0) && !of(0, 0, 100) && !of(0, 0, 0));
}

#[test]
fn a_full_disk_is_a_condition_for_a_minute() {
    let of = |facts: StatusFacts<'_>| report(&facts)["conditions"].clone();
    let spool = |error: &str, when| {
        let mut book = EpisodeBook::default();
        let (kind, step) = (EpisodeKind::Spool, EpisodeStep::Happened);
        let detail = error.to_owned();
        book.note(EpisodeUpdate { kind, subject: String::new(), step, total: None, detail }, when);
        StatusFacts { episodes: book.episodes(), ..facts() }
    };
    let php = |message: &str, when| {
        let (errors, message) = (PhpErrors::default(), message.as_bytes());
        let level = PhpErrorLevel::Warning;
        errors.note(&PhpErrorRaised { level, message, file: b"/a.php", line: 1 }, when);
        StatusFacts { php_errors: errors.last(), ..facts() }
    };
    let full = "No space left on device (os error 28)";
    assert_eq!(of(spool(full, at(1060))), json!(["disk_full"]));
    assert_eq!(of(spool("the limit is reached", at(1060))), json!([]));
    let short = "file_put_contents(): Only 0 of 5 bytes written, possibly out of free disk space";
    assert_eq!(of(php(short, at(1060))), json!(["disk_full"]));
    assert_eq!(
        of(php("fwrite(): Write of 5 bytes failed with errno=28 No space left on device", at(1002))),
        json!(["disk_full"])
    );
    assert_eq!(of(php(short, at(1001))), json!([]), "a minute ago");
    assert_eq!(of(php(short, at(1900))), json!(["disk_full"]), "the clock was set back");
}

#[test]
fn a_certificate_is_a_condition_before_and_after_it_expires() {
    let of = |seconds: u64| {
        let mut facts = facts();
        facts.scrape.certificates = Some(CertificateFacts { first_expiry: Some(at(seconds)) });
        report(&facts)["conditions"].clone()
    };
    assert_eq!(of(1061 + 15 * 86_400), json!([]));
    assert_eq!(of(1061 + 13 * 86_400), json!(["certificate_expires"]));
    assert_eq!(of(1061), json!(["certificate_expired"]));
}

#[test]
fn the_trend_has_series_of_one_length() {
    let (metrics, start) = (Metrics::new(), crate::time::now());
    let mut history = History::default();
    for second in 0..25 {
        let usage = Usage { busy: 2, waiting: 3, connections: 4 };
        history.note(Sample::read(&metrics, Duration::ZERO, start + Duration::from_secs(second)), usage);
        metrics.served(Duration::from_micros(700));
    }
    let trend = report(&StatusFacts { trend: history.trend(), ..facts() })["trend"].clone();
    assert_eq!((&trend["step_seconds"], &trend["points_max"]), (&10.into(), &60.into()));
    for (name, expected) in [
        ("served_per_second", json!([1.0, 1.0])),
        ("refused_per_second", json!([0.0, 0.0])),
        ("failed_per_second", json!([0.0, 0.0])),
        ("p50_us", json!([750, 750])),
        ("p99_us", json!([995, 995])),
        ("busy_workers", json!([2, 2])),
        ("waiting", json!([3, 3])),
        ("connections", json!([4, 4])),
    ] {
        assert_eq!(trend[name], expected, "{name}");
    }
}

#[test]
fn a_failed_deployment_is_reported_with_file_and_line() {
    assert_eq!(report(&facts())["boot_failure"], Value::Null);
    let fault = BootFault { message: "no database".to_owned(), place: Some(("/app/a.php".to_owned(), 3)) };
    let first = BootFailure::after(None, "no thread".to_owned().into(), at(1000));
    let second = BootFailure::after(Some(&first), fault, at(1030));
    let seen = report(&StatusFacts { boot_failure: Some(second), ..facts() });
    assert_eq!(seen["conditions"], json!(["boot_failed"]));
    let expected = json!({
        "message": "no database", "file": "/app/a.php", "line": 3, "since": "1970-01-01T00:16:40.000000Z", "attempts": 2,
    });
    assert_eq!(seen["boot_failure"], expected);
    let seen = report(&StatusFacts { boot_failure: Some(first), ..facts() });
    let place = (&seen["boot_failure"]["file"], &seen["boot_failure"]["line"]);
    assert_eq!(place, (&Value::Null, &Value::Null));
}

#[test]
fn unusual_conditions_have_names() {
    let of = |facts: StatusFacts<'_>| report(&facts)["conditions"].clone();
    let probe = |workers, pool_stalled| ProbeFacts { workers, pool_stalled, ..PROBE };
    let none = probe(WorkerHealth::Running(0), false);
    assert_eq!(of(StatusFacts { probe: none, ..facts() }), json!(["no_workers"]));
    assert_eq!(
        of(StatusFacts { probe: ProbeFacts { serving: false, ..none }, phase: "starting", ..facts() }),
        json!(["starting"])
    );
    for phase in ["draining", "closing", "stopped"] {
        assert_eq!(of(StatusFacts { phase, ..facts() }), json!(["draining"]));
    }
    let mut book = EpisodeBook::default();
    for kind in
        [EpisodeKind::Wedge, EpisodeKind::Shedding, EpisodeKind::BootFailed, EpisodeKind::ExportFailed]
    {
        book.note(EpisodeUpdate { step: EpisodeStep::Holds, ..EpisodeUpdate::ended(kind) }, at(1000));
    }
    let episodes = || book.episodes();
    assert_eq!(
        of(StatusFacts { episodes: episodes(), ..facts() }),
        json!(["wedge_suspected", "shedding", "boot_failed", "export_failed"])
    );
    let wedged = probe(WorkerHealth::Running(2), true);
    assert_eq!(of(StatusFacts { probe: wedged, episodes: episodes(), ..facts() })[0], "wedged");
}

#[test]
fn episodes_have_a_beginning_and_an_end() {
    let mut book = EpisodeBook::default();
    let update = EpisodeUpdate {
        detail: "9 \"requests\" refused".to_owned(),
        ..EpisodeUpdate::ended(EpisodeKind::Shedding)
    };
    book.note(EpisodeUpdate { step: EpisodeStep::Holds, total: Some(9), ..update }, at(60));
    let first = report(&StatusFacts { episodes: book.episodes(), ..facts() });
    let expected = json!({
        "kind": "shedding", "subject": null, "began_at": "1970-01-01T00:01:00.000000Z",
        "last_at": "1970-01-01T00:01:00.000000Z", "ended_at": null, "count": 9, "detail": "9 \"requests\" refused",
    });
    assert_eq!(first["episodes"][0], expected);
    book.note(EpisodeUpdate::ended(EpisodeKind::Shedding), at(120));
    let last = report(&StatusFacts { episodes: book.episodes(), ..facts() });
    assert_eq!(last["episodes"][0]["ended_at"], "1970-01-01T00:02:00.000000Z");
}
