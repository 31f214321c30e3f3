//! Compares the exposition with its table. (The strict reader of the formats is in the server's tests.)

use std::time::{Duration, UNIX_EPOCH};

use super::*;
use crate::admission::{GateFacts, ShedReason};
use crate::cache::CacheReading;
use crate::config::{ExportSignal, RuntimeHook};
use crate::http::MethodKind;
use crate::http::negotiate::OpenMetrics;
use crate::observe::HookObstacle;
use crate::observe::exporter::{Distribution, Labels, Number};
use crate::observe::families::{self, ALL};
use crate::observe::family::{Family, FamilyHead, MetricKind, MetricUnit};
use crate::observe::label::{CancelReason, TlsHandshake};
use crate::observe::process::ProcessFacts;
use crate::observe::{
    CertificateFacts, OpcacheMemory, PhpErrorLevel, ReloadFacts, StaticCacheReading, TaskFacts, TraceFacts,
};
use crate::plugins::{PluginFamily, PluginHealth, PluginMetricKind, PluginReading, PluginSample};
use crate::pool::{HeldJob, PoolFacts, RecycleReason, SlotPhase, SlotReading};
use crate::sync::counter::Flag;
use crate::sync::primitive::Arc;

const OPENMETRICS: Format = Format::OpenMetrics(OpenMetrics::V1_0_0);

fn task_facts() -> TaskFacts {
    TaskFacts {
        dispatched: 30,
        completed: 15,
        failed: 4,
        cancelled: 6,
        rejected: 2,
        stranded: 3,
        output_discarded_bytes: 512,
        in_flight: Some(5),
        in_flight_limit: 64,
    }
}

fn plugin_reading() -> PluginReading {
    let sample =
        |path: &str, value| PluginSample { labels: vec![("path".to_owned(), path.to_owned())], value };
    PluginReading {
        name: "disk".to_owned(),
        health: Some(PluginHealth::Degraded),
        errors: 16,
        facts_lost: Some(17),
        families: Arc::new(vec![PluginFamily {
            name: "svc_plugin_disk_reads_total".to_owned(),
            kind: PluginMetricKind::Counter,
            help: "Number of reads.".to_owned(),
            samples: vec![sample("/a \"b\"", 18.0), sample("/", 0.25)],
        }]),
    }
}

const OPCACHE: OpcacheMemory = OpcacheMemory {
    used_bytes: 21,
    free_bytes: 22,
    wasted_bytes: 23,
    scripts: 24,
    hits: 25,
    misses: 26,
    is_full: true,
};

#[expect(clippy::too_many_lines, reason = "one line for each fact")]
fn facts() -> ScrapeFacts<'static> {
    ScrapeFacts {
        version: "1.2.3",
        php_version: Some("8.4.\"1\\\n"),
        started_at: UNIX_EPOCH + Duration::from_millis(1_700_000_000_250),
        uptime: Duration::from_millis(1500),
        reload: ReloadFacts {
            is_successful: true,
            succeeded_at: UNIX_EPOCH + Duration::from_millis(1_700_000_001_500),
        },
        certificates: Some(CertificateFacts {
            first_expiry: Some(UNIX_EPOCH + Duration::from_secs(1_800_000_000)),
        }),
        gate: Some(GateFacts {
            depth: 1,
            capacity: 8,
            slots_available: 7,
            waiting: 2,
            wait_budget: Duration::from_millis(250),
            wait_budget_ceiling: Duration::from_millis(1000),
        }),
        queue_capacity: 8,
        pool: Some(PoolFacts {
            current: 4,
            busy: 3,
            lingering: 1,
            min: 4,
            max: 4,
            spawned: 5,
            ..PoolFacts::default()
        }),
        slots: vec![
            SlotReading {
                slot: 0,
                number: 2,
                phase: SlotPhase::Serving,
                oldest: Some(HeldJob { serial: 9, age: Duration::from_millis(61_500), is_parked: true }),
                fibers: 3,
                heap_bytes: 4096,
                handled: 7,
                uptime: Duration::from_millis(2500),
                long_running: 2,
                stuck: [1, 0, 4],
                ..SlotReading::default()
            },
            SlotReading { slot: 12, number: 1, ..SlotReading::default() },
        ],
        io_workers_in_use: 1,
        worker_mode: true,
        has_interpreter: true,
        runtime_hooks: true,
        tasks: Some(task_facts()),
        tracing: Some(TraceFacts { dropped: 17, records_dropped: 5 }),
        plugins: vec![plugin_reading()],
        opcache: Some(OPCACHE),
        static_cache: StaticCacheReading { files: 27, bytes: 28, bytes_max: 29 },
        response_cache: Some(CacheReading {
            entries: 31,
            bytes: 32,
            bytes_max: 33,
            evictions: [34, 35],
            purged: 36,
            refreshes: 37,
        }),
        reply_memory_bytes: 14,
        spool_bytes: 11,
        spool_bytes_max: 12,
        log_dropped: 13,
        process: ProcessFacts {
            cpu: Duration::from_millis(250),
            resident_bytes: Some(4096),
            open_fds: Some(9),
            max_fds: Some(1024),
            threads: Some(8),
        },
    }
}

fn busy_metrics() -> Metrics {
    let metrics = Metrics::new();
    metrics.requests_by_method.incr(MethodKind::Get);
    metrics.requests_by_method.incr(MethodKind::Other);
    metrics.answered(200, 5, Duration::from_micros(100));
    metrics.served(Duration::from_micros(100));
    metrics.answered(499, 0, Duration::from_secs(2));
    metrics.cancelled.incr(CancelReason::ClientAbort);
    metrics.refused.incr(ShedReason::QueueFull);
    metrics.queue_waited(Duration::from_micros(51));
    metrics.responses_coded.incr();
    metrics.coding_ended(1000, 300);
    metrics.responses_coded.incr();
    metrics.coding_ended(10, 25);
    metrics.work_abandoned();
    metrics.tls_handshakes.incr(TlsHandshake::Resumed);
    metrics.departed_work_taken();
    metrics.php_ran(Duration::from_micros(2000));
    metrics.worker_request_handled(Duration::from_micros(2000));
    metrics.workers_recycled.incr(RecycleReason::MaxMemory);
    metrics.workers_retired.incr();
    metrics.soft_resets.incr();
    metrics.pool_stalled.set();
    metrics.hook_blocked.incr(RuntimeHook::Dns, HookObstacle::Helpers);
    metrics.connection_waited(Duration::from_micros(1500));
    metrics
}

fn text(metrics: &Metrics, facts: &ScrapeFacts<'_>, format: Format) -> String {
    String::from_utf8(render(metrics, facts, format)).unwrap()
}

fn has_line(page: &str, line: &str) {
    assert!(page.lines().any(|one| one == line), "no {line:?} in\n{page}");
}

#[test]
fn every_family_of_the_table_appears_once_and_in_order() {
    let metrics = busy_metrics();
    let page = text(&metrics, &facts(), Format::Text);
    let types: Vec<_> =
        page.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split(' ').next()).collect();
    let table: Vec<_> = ALL.iter().map(|family| family.name).chain(["svc_plugin_disk_reads_total"]).collect();
    let mut sorted = (types.clone(), table.clone());
    sorted.0.sort_unstable();
    sorted.1.sort_unstable();
    assert_eq!(sorted.0, sorted.1);
    assert_eq!(types, table);
}

#[test]
fn caches_show_their_last_readings() {
    let page = text(&Metrics::new(), &facts(), Format::Text);
    for line in [
        r#"svc_opcache_memory_bytes{state="used"} 21"#,
        r#"svc_opcache_memory_bytes{state="wasted"} 23"#,
        "svc_opcache_full 1",
        "svc_opcache_scripts 24",
        "svc_opcache_hits_total 25",
        "svc_opcache_misses_total 26",
        "svc_static_cache_bytes 28",
        "svc_static_cache_limit_bytes 29",
        "svc_response_cache_entries 31",
        "svc_response_cache_bytes 32",
        "svc_response_cache_limit_bytes 33",
        r#"svc_response_cache_evictions_total{reason="memory"} 34"#,
        r#"svc_response_cache_evictions_total{reason="variants"} 35"#,
        "svc_response_cache_purged_total 36",
        "svc_response_cache_refreshes_total 37",
        r#"svc_response_cache_requests_total{result="collapsed"} 0"#,
        r#"svc_response_cache_stale_total{reason="overload"} 0"#,
    ] {
        assert!(page.lines().any(|one| one == line), "{line} is missing: {page}");
    }
    let off = text(&Metrics::new(), &ScrapeFacts { opcache: None, ..facts() }, Format::Text);
    assert!(!off.contains("svc_opcache_memory_bytes"));
}

#[test]
fn counts_are_shown_unchanged() {
    let metrics = busy_metrics();
    let page = text(&metrics, &facts(), Format::Text);
    for line in [
        "svc_uptime_seconds 1.5",
        r#"svc_build_info{version="1.2.3",php_version="8.4.\"1\\\n"} 1"#,
        "svc_requests_total 2",
        r#"svc_requests_by_method_total{method="OTHER"} 1"#,
        r#"svc_responses_by_status_total{status="4xx"} 1"#,
        "svc_response_bytes_total 5",
        r#"svc_request_duration_us_bucket{le="100"} 1"#,
        r#"svc_request_duration_us_bucket{le="1000000"} 1"#,
        r#"svc_request_duration_us_bucket{le="+Inf"} 2"#,
        "svc_request_duration_us_sum 2000100",
        "svc_request_duration_us_count 2",
        r#"svc_queue_wait_us_bucket{le="50"} 0"#,
        r#"svc_queue_wait_us_bucket{le="100"} 1"#,
        r#"svc_admission_refused_total{reason="queue_full"} 1"#,
        r#"svc_hook_blocked_total{hook="dns",reason="helpers"} 1"#,
        r#"svc_php_request_duration_seconds_bucket{le="0.0001"} 0"#,
        r#"svc_php_request_duration_seconds_bucket{le="0.0025"} 1"#,
        r#"svc_php_request_duration_seconds_bucket{le="1"} 1"#,
        "svc_php_request_duration_seconds_sum 0.002",
        "svc_admission_wait_budget_us 250000",
        "svc_admission_wait_budget_ceiling_us 1000000",
        "svc_abandoned_work_total 2",
        "svc_pool_stalled 1",
        r#"svc_tls_handshakes_total{result="resumed"} 1"#,
        r#"svc_tls_handshakes_total{result="failed"} 0"#,
        "svc_tls_certificate_expiry_timestamp_seconds 1800000000",
        "svc_config_last_reload_successful 1",
        "svc_config_last_reload_success_timestamp_seconds 1700000001.5",
        "svc_workers_idle 1",
        "svc_workers_retired_total 1",
        r#"svc_worker_request_age_seconds{worker_id="0"} 61.5"#,
        r#"svc_worker_request_age_seconds{worker_id="12"} 0"#,
        r#"svc_worker_long_running_total{worker_id="0"} 2"#,
        r#"svc_worker_stuck_total{worker_id="0",kind="io"} 1"#,
        r#"svc_worker_stuck_total{worker_id="0",kind="cpu"} 4"#,
        r#"svc_worker_stuck_total{worker_id="12",kind="c_call"} 0"#,
        "svc_worker_mode_enabled 1",
        "svc_workers_lingering 1",
        "svc_worker_requests_handled_total 1",
        "svc_worker_recycles_total 1",
        r#"svc_worker_recycles_by_reason_total{reason="scheduled"} 0"#,
        r#"svc_worker_recycles_by_reason_total{reason="max_memory"} 1"#,
        "svc_worker_soft_resets_total 1",
        r#"svc_worker_memory_bytes{worker="0"} 4096"#,
        r#"svc_worker_uptime_seconds{worker="0"} 2.5"#,
        r#"svc_worker_requests_count{worker="0"} 7"#,
        r#"svc_worker_request_fibers_active{worker="0"} 3"#,
        r#"svc_worker_request_duration_us_bucket{le="1000"} 0"#,
        r#"svc_worker_request_duration_us_bucket{le="2500"} 1"#,
        r#"svc_worker_request_duration_us_bucket{le="+Inf"} 1"#,
        "svc_busy_workers 3",
        "svc_async_tasks_dispatched_total 30",
        "svc_async_tasks_completed_total 15",
        "svc_async_tasks_failed_total 4",
        "svc_async_tasks_cancelled_total 6",
        "svc_async_tasks_rejected_total 2",
        "svc_async_tasks_stranded_total 3",
        "svc_async_tasks_in_flight 5",
        "svc_async_tasks_in_flight_limit 64",
        "svc_async_output_discarded_bytes_total 512",
        "svc_compressed_responses_total 2",
        "svc_compression_bytes_saved_total 700",
        "process_cpu_seconds_total 0.25",
        "process_start_time_seconds 1700000000.25",
    ] {
        has_line(&page, line);
    }
}

#[test]
fn reasons_exist_at_zero_and_methods_and_classes_do_not() {
    let metrics = Metrics::new();
    let page = text(&metrics, &facts(), Format::Text);
    for reason in ShedReason::ALL {
        has_line(&page, &format!("svc_admission_refused_total{{reason=\"{}\"}} 0", reason.as_str()));
    }
    for reason in CancelReason::ALL {
        has_line(&page, &format!("svc_request_cancelled_total{{reason=\"{}\"}} 0", reason.as_str()));
    }
    assert!(
        !page.contains("svc_requests_by_method_total") && !page.contains("svc_responses_by_status_total")
    );
}

#[test]
fn an_executor_without_a_queue_tells_of_an_empty_pool_and_of_no_wait() {
    let metrics = Metrics::new();
    let page =
        text(&metrics, &ScrapeFacts { gate: None, pool: None, php_version: None, ..facts() }, Format::Text);
    for absent in
        ["svc_queue_depth", "svc_admission_wait_budget", "svc_worker_", "svc_workers_lingering", "php"]
    {
        let series = page.lines().find(|line| !line.starts_with('#') && line.contains(absent));
        assert!(series.is_none_or(|line| line.starts_with("svc_php_deny_total")), "{series:?}");
    }
    for line in [
        r#"svc_build_info{version="1.2.3"} 1"#,
        "svc_queue_capacity 8",
        "svc_admission_slots_available 8",
        "svc_workers_current 0",
        "svc_workers_min 0",
        "svc_workers_max 0",
        "svc_workers_idle 0",
        "svc_busy_workers 0",
        "svc_workers_spawned_total 0",
        "svc_workers_retired_total 0",
    ] {
        has_line(&page, line);
    }
}

#[test]
fn histograms_have_the_bounds_that_alerts_use() {
    let metrics = Metrics::new();
    let page = text(&metrics, &facts(), Format::Text);
    let bounds = |family: &str| -> Vec<String> {
        let start = format!("{family}_bucket{{le=\"");
        let bounds = page.lines().filter_map(|line| line.strip_prefix(&start)?.split('"').next());
        bounds.map(str::to_owned).collect()
    };
    for (family, expected) in [
        (
            "svc_request_duration_us",
            "100 500 1000 2500 5000 10000 25000 50000 100000 250000 500000 1000000 +Inf",
        ),
        (
            "svc_served_duration_us",
            "100 500 1000 2500 5000 10000 25000 50000 100000 250000 500000 1000000 2500000 10000000 60000000 \
             +Inf",
        ),
        ("svc_queue_wait_us", "50 100 250 500 1000 2500 5000 10000 50000 100000 250000 500000 1000000 +Inf"),
        ("svc_worker_request_duration_us", "100 250 500 1000 2500 5000 10000 25000 50000 +Inf"),
        (
            "svc_php_request_duration_seconds",
            "0.0001 0.00025 0.0005 0.001 0.0025 0.005 0.01 0.025 0.05 0.1 0.25 0.5 1 +Inf",
        ),
    ] {
        assert_eq!(bounds(family).join(" "), expected, "{family}");
    }
}

#[test]
fn each_family_of_background_tasks_appears_when_it_has_something_to_tell() {
    let metrics = Metrics::new();
    let shown = |tasks: Option<TaskFacts>| {
        let page = text(&metrics, &ScrapeFacts { tasks, ..facts() }, Format::Text);
        let families =
            page.lines().filter_map(|line| line.strip_prefix("# TYPE svc_async_")?.split(' ').next());
        families.map(str::to_owned).collect::<Vec<_>>()
    };
    let counters = ["dispatched", "completed", "failed", "cancelled", "rejected", "stranded"];
    let counters: Vec<_> = counters.iter().map(|what| format!("tasks_{what}_total")).collect();
    let gauges = ["tasks_in_flight", "tasks_in_flight_limit"];
    let none = TaskFacts { in_flight_limit: 8, ..TaskFacts::default() };
    assert!(shown(None).is_empty() && shown(Some(none)).is_empty());
    assert_eq!(shown(Some(TaskFacts { in_flight: Some(0), ..none })), gauges);
    assert_eq!(shown(Some(TaskFacts { dispatched: 1, ..none })), counters);
    assert_eq!(shown(Some(TaskFacts { rejected: 1, ..none })), counters);
    assert_eq!(
        shown(Some(TaskFacts { output_discarded_bytes: 1, ..none })),
        ["output_discarded_bytes_total"]
    );
}

#[test]
fn outside_worker_mode_there_is_no_family_of_stalls() {
    let metrics = Metrics::new();
    assert!(
        !text(&metrics, &ScrapeFacts { worker_mode: false, ..facts() }, Format::Text)
            .contains("pool_stalled")
    );
    has_line(&text(&metrics, &facts(), Format::Text), "svc_pool_stalled 0");
}

#[test]
fn a_slot_that_its_worker_has_left_keeps_its_counters_only() {
    let metrics = Metrics::new();
    let page = text(&metrics, &facts(), Format::Text);
    assert!(page.contains("worker_id=\"12\"") && !page.contains("worker=\"12\""), "{page}");
}

#[test]
fn outside_worker_mode_there_are_no_families_of_workers() {
    let metrics = busy_metrics();
    let page = text(&metrics, &ScrapeFacts { worker_mode: false, ..facts() }, Format::Text);
    let shown: Vec<_> = ALL.iter().filter(|family| page.contains(family.name)).collect();
    for absent in [
        families::WORKER_MODE_ENABLED,
        families::WORKER_REQUESTS_HANDLED,
        families::WORKER_RECYCLES,
        families::WORKER_RECYCLES_BY_REASON,
        families::WORKER_SOFT_RESETS,
        families::WORKER_MEMORY,
        families::WORKER_UPTIME,
        families::WORKER_REQUESTS,
        families::WORKER_REQUEST_FIBERS,
        families::WORKER_REQUEST_DURATION,
    ] {
        assert!(!shown.contains(&&absent), "{}", absent.name);
    }
    assert!(shown.contains(&&families::WORKER_STUCK));
}

#[test]
fn work_that_was_started_includes_what_was_popped_for_the_departed() {
    let metrics = busy_metrics();
    assert_eq!((metrics.work_started_total(), metrics.abandoned_total()), (2, 2));
    assert_eq!(metrics.work_finished_total(), 1);
}

#[test]
fn overload_refusals_are_those_of_the_four_reasons() {
    let metrics = Metrics::new();
    for (index, reason) in ShedReason::ALL.into_iter().enumerate() {
        (0..=index).for_each(|_| metrics.refused.incr(reason));
    }
    let refused = metrics.overload_refusals();
    for (reason, count) in [
        (ShedReason::QueueFull, refused.queue_full),
        (ShedReason::WaitTimeout, refused.wait_timeout),
        (ShedReason::WaitingFull, refused.waiting_full),
        (ShedReason::WaitingBytes, refused.waiting_bytes),
    ] {
        assert_eq!(metrics.refused.value(reason), count, "{}", reason.as_str());
    }
    assert_eq!((refused.sum(), metrics.refused.total()), (1 + 2 + 3 + 4, 21));
}

#[test]
fn openmetrics_names_families_without_their_suffix_and_ends_with_eof() {
    let metrics = busy_metrics();
    let page = text(&metrics, &facts(), OPENMETRICS);
    for line in [
        "# TYPE svc_requests counter",
        "svc_requests_total 2",
        "# TYPE svc_build info",
        r#"svc_request_duration_us_bucket{le="100.0"} 1"#,
        r#"svc_request_duration_us_bucket{le="+Inf"} 2"#,
        r#"svc_php_request_duration_seconds_bucket{le="0.0001"} 0"#,
        r#"svc_php_request_duration_seconds_bucket{le="1.0"} 1"#,
        "# TYPE process_cpu_seconds counter",
    ] {
        has_line(&page, line);
    }
    assert!(page.ends_with("\n# EOF\n") && page.matches("# EOF").count() == 1);
    let series = |page: &str| page.lines().filter(|line| !line.starts_with('#')).count();
    assert_eq!(series(&page), series(&text(&metrics, &facts(), Format::Text)));
}

#[test]
fn a_full_page_fits_its_buffer() {
    let metrics = busy_metrics();
    MethodKind::ALL.into_iter().for_each(|method| metrics.requests_by_method.incr(method));
    let slot = SlotReading {
        uptime: Duration::from_nanos(123_456_789_123_456_789),
        oldest: Some(HeldJob { serial: 1, age: Duration::from_nanos(12_345_123_456_789), is_parked: false }),
        ..facts().slots[0].clone()
    };
    for slots in [2, 500] {
        let slots: Vec<_> = (0..slots).map(|index| SlotReading { slot: index, ..slot.clone() }).collect();
        for format in [Format::Text, OPENMETRICS] {
            let page = render(&metrics, &ScrapeFacts { slots: slots.clone(), ..facts() }, format);
            let room = 30 * 1024 + slots.len() * 768;
            assert_eq!(page.capacity(), Vec::<u8>::with_capacity(room).capacity(), "{} bytes", page.len());
        }
    }
}

#[test]
fn every_kind_of_the_table_is_a_kind_of_the_text_format() {
    let metrics = busy_metrics();
    let page = text(&metrics, &facts(), Format::Text);
    for family in ALL {
        let kind = match family.kind {
            MetricKind::Counter => "counter",
            MetricKind::Histogram => "histogram",
            MetricKind::Gauge | MetricKind::Info => "gauge",
        };
        has_line(&page, &format!("# TYPE {} {kind}", family.name));
    }
}

#[test]
fn requests_by_method_add_up_to_all_while_they_come_in() {
    let metrics = Metrics::new();
    let done = Flag::new();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !done.is_set() {
                metrics.requests_by_method.incr(MethodKind::Get);
                metrics.requests_by_method.incr(MethodKind::Post);
            }
        });
        // Two pages prove nothing if no request was counted between them.
        let (mut pages, mut last, mut all_agree) = (0, 0, true);
        while pages < 300 && all_agree {
            let page = text(&metrics, &facts(), Format::Text);
            let total = sum_of(&page, "svc_requests_total ");
            all_agree = total == sum_of(&page, "svc_requests_by_method_total{");
            pages += u32::from(total != last);
            last = total;
        }
        done.set();
        assert!(all_agree, "after {pages} pages");
    });
}

/// Adds up the values of the series whose lines begin with `start`.
fn sum_of(page: &str, start: &str) -> u64 {
    let lines = page.lines().filter(|line| line.starts_with(start));
    lines.map(|line| line.rsplit(' ').next().unwrap().parse::<u64>().unwrap()).sum()
}

/// Counters with distinct values, so that a family that shows another family's value is detected.
fn distinct_metrics() -> Metrics {
    let metrics = busy_metrics();
    let times = |count: usize, fact: &dyn Fn()| (0..count).for_each(|_| fact());
    for (index, method) in MethodKind::ALL.into_iter().enumerate() {
        times(index, &|| metrics.requests_by_method.incr(method));
    }
    for (index, reason) in ShedReason::ALL.into_iter().enumerate() {
        times(20 + index, &|| metrics.refused.incr(reason));
    }
    for (index, reason) in CancelReason::ALL.into_iter().enumerate() {
        times(30 + index, &|| metrics.cancelled.incr(reason));
    }
    for (index, outcome) in TlsHandshake::ALL.into_iter().enumerate() {
        times(40 + index, &|| metrics.tls_handshakes.incr(outcome));
    }
    for (index, reason) in RecycleReason::ALL.into_iter().enumerate() {
        times(50 + index, &|| metrics.workers_recycled.incr(reason));
    }
    for (index, level) in PhpErrorLevel::ALL.into_iter().enumerate() {
        times(110 + index, &|| metrics.php_errors.incr(level));
    }
    let facts: [&dyn Fn(); 19] = [
        &|| metrics.wait_wasted.incr(),
        &|| metrics.dropped.incr(),
        &|| metrics.work_abandoned(),
        &|| metrics.departed_work_taken(),
        &|| metrics.workers_retired.incr(),
        &|| metrics.soft_resets.incr(),
        &|| metrics.accept_stalls.incr(),
        &|| metrics.streams_refused.incr(),
        &|| metrics.rate_limited.incr(),
        &|| metrics.php_denied.incr(),
        &|| metrics.path_denied.incr(),
        &|| metrics.builtin_denied.incr(),
        &|| metrics.static_hits.incr(),
        &|| metrics.static_misses.incr(),
        &|| metrics.responses_coded.incr(),
        &|| metrics.connections.enter(),
        &|| metrics.pending_requests.enter(),
        &|| metrics.opcache_restarts.incr(),
        &|| metrics.io_handovers.incr(),
    ];
    for (index, fact) in facts.into_iter().enumerate() {
        times(60 + index, fact);
    }
    metrics.request_bytes.add(101);
    metrics.otel_export_failures.add(102);
    metrics.otel_export_failed_spans.add(103);
    metrics.otel_export_retries.add(104);
    for (index, signal) in (130..).zip(ExportSignal::ALL) {
        metrics.otel_exported_items.add(signal, index);
        metrics.otel_lost_items.add(signal, index + 10);
        metrics.otel_failed_exports.add(signal, index + 20);
    }
    metrics.accept_stalled.set();
    metrics.opcache_restart_delayed.set();
    for micros in [10, 100, 101, 2500, 70_000, 3_000_000] {
        metrics.answered(304, micros, Duration::from_micros(2 * micros));
        metrics.queue_waited(Duration::from_micros(3 * micros));
        metrics.php_ran(Duration::from_micros(5 * micros));
        metrics.worker_request_handled(Duration::from_micros(7 * micros));
    }
    metrics
}

#[test]
fn each_format_writes_the_same_bytes_as_ever() {
    let (full, new) = (distinct_metrics(), Metrics::new());
    let with_all = facts();
    let without_pool = ScrapeFacts {
        php_version: None,
        certificates: None,
        gate: None,
        pool: None,
        slots: Vec::new(),
        worker_mode: false,
        has_interpreter: true,
        runtime_hooks: false,
        tasks: None,
        tracing: None,
        plugins: Vec::new(),
        response_cache: None,
        process: ProcessFacts {
            resident_bytes: None,
            open_fds: None,
            max_fds: None,
            threads: None,
            ..with_all.process
        },
        ..facts()
    };
    let with_plain_workers = ScrapeFacts {
        response_cache: None,
        certificates: Some(CertificateFacts { first_expiry: None }),
        worker_mode: false,
        has_interpreter: true,
        runtime_hooks: false,
        tasks: None,
        tracing: None,
        plugins: Vec::new(),
        ..facts()
    };
    for (metrics, facts, format, golden) in [
        (&full, &with_all, Format::Text, include_str!("golden/all.txt")),
        (&full, &with_all, OPENMETRICS, include_str!("golden/all.openmetrics")),
        (&new, &without_pool, Format::Text, include_str!("golden/no_pool.txt")),
        (&new, &without_pool, OPENMETRICS, include_str!("golden/no_pool.openmetrics")),
        (&new, &with_plain_workers, Format::Text, include_str!("golden/plain_workers.txt")),
        (&new, &with_plain_workers, OPENMETRICS, include_str!("golden/plain_workers.openmetrics")),
    ] {
        let page = text(metrics, facts, format);
        let difference = page.lines().zip(golden.lines()).find(|(page, golden)| page != golden);
        assert_eq!(difference, None, "{format:?}");
        assert!(page == golden, "{format:?}: one page is longer");
    }
}

/// A format other than text: the calls that a collector of OTLP would receive.
#[derive(Default)]
struct Collected {
    families: Vec<String>,
    numbers: Vec<(String, OwnLabels, Number)>,
    distributions: Vec<(String, Buckets, u64, Number)>,
}

type OwnLabels = Vec<(String, String)>;
type Buckets = Vec<(Option<Number>, u64)>;

impl Collected {
    fn name(&self) -> String {
        self.families.last().expect("a family comes before its series").clone()
    }
}

impl Exporter for Collected {
    fn family(&mut self, family: FamilyHead<'_>) {
        self.families.push(family.name.to_owned());
    }

    fn number(&mut self, labels: Labels<'_>, value: Number) {
        let labels = labels.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        self.numbers.push((self.name(), labels, value));
    }

    fn histogram(&mut self, labels: Labels<'_>, distribution: &Distribution<'_>) {
        assert!(labels.is_empty());
        let buckets = distribution.buckets().collect();
        self.distributions.push((self.name(), buckets, distribution.count(), distribution.sum()));
    }
}

#[test]
fn an_exporter_learns_all_that_a_format_needs() {
    let metrics = busy_metrics();
    let mut collected = Collected::default();
    export(&metrics, &facts(), &mut collected);
    let own = ALL.iter().map(|family| family.name);
    assert!(collected.families.iter().map(String::as_str).eq(own.chain(["svc_plugin_disk_reads_total"])));
    let number = |name: &str, labels: &[(&str, &str)]| {
        let labels: Vec<_> = labels.iter().map(|(n, v)| ((*n).to_owned(), (*v).to_owned())).collect();
        let mut found = collected.numbers.iter().filter(|(n, l, _)| *n == name && *l == labels);
        let value = found.next().map(|(_, _, value)| *value);
        assert!(found.next().is_none(), "{name} twice");
        value
    };
    assert_eq!(number("svc_requests_total", &[]), Some(Number::Whole(2)));
    assert_eq!(number("svc_uptime_seconds", &[]), Some(Number::Decimal(1.5)));
    assert_eq!(number("svc_requests_by_method_total", &[("method", "GET")]), Some(Number::Whole(1)));
    assert_eq!(number("svc_requests_by_method_total", &[("method", "PUT")]), None);
    assert_eq!(
        number("svc_worker_stuck_total", &[("worker_id", "0"), ("kind", "cpu")]),
        Some(Number::Whole(4))
    );
    let unescaped = [("version", "1.2.3"), ("php_version", "8.4.\"1\\\n")];
    assert_eq!(number("svc_build_info", &unescaped), Some(Number::Whole(1)));
    let (_, buckets, count, sum) =
        collected.distributions.iter().find(|(name, ..)| name.ends_with("duration_seconds")).unwrap();
    assert_eq!((buckets[0], buckets[13]), ((Some(Number::Decimal(0.0001)), 0), (None, 1)));
    assert_eq!((*count, *sum), (1, Number::Decimal(0.002)));
    let unit = |name: &str| ALL.iter().find(|family| family.name == name).and_then(Family::unit);
    assert_eq!(unit("svc_php_request_duration_seconds"), Some(MetricUnit::Seconds));
    assert_eq!(unit("svc_request_duration_us"), Some(MetricUnit::Microseconds));
    assert_eq!(unit("svc_compression_bytes_saved_total"), Some(MetricUnit::Bytes));
    assert_eq!(unit("svc_requests_total"), None);
}

#[test]
fn families_without_series_are_not_exported() {
    let mut collected = Collected::default();
    export(&Metrics::new(), &ScrapeFacts { certificates: None, ..facts() }, &mut collected);
    let has = |name: &str| collected.families.iter().any(|family| family == name);
    assert!(has("svc_requests_total") && !has("svc_requests_by_method_total"));
    assert!(!has("svc_tls_handshakes_total") && !has("svc_tls_certificate_expiry_timestamp_seconds"));
}
