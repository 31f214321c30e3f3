//! The cost of a scrape: the facts of the process and the whole page, in both formats.

use std::hint::black_box;
use std::time::{Duration, SystemTime};

use criterion::Criterion;
use svc_core::admission::GateFacts;
use svc_core::http::MethodKind;
use svc_core::http::negotiate::OpenMetrics;
use svc_core::observe::exposition::{Format, render};
use svc_core::observe::process::ProcessFacts;
use svc_core::observe::{CertificateFacts, Metrics, ReloadFacts, ScrapeFacts, StaticCacheReading};
use svc_core::pool::{PoolFacts, SlotPhase, SlotReading};

/// Returns counters after some traffic, so that every series exists.
fn busy_metrics() -> Metrics {
    let metrics = Metrics::new();
    for (index, method) in MethodKind::ALL.into_iter().enumerate() {
        metrics.requests_by_method.incr(method);
        let status = [103, 200, 304, 404, 529][index % 5];
        metrics.answered(status, 12_345, Duration::from_micros(50 << index));
        metrics.queue_waited(Duration::from_micros(20 << index));
        metrics.php_ran(Duration::from_micros(30 << index));
    }
    metrics
}

fn facts() -> ScrapeFacts<'static> {
    ScrapeFacts {
        version: "1.0.0",
        php_version: Some("8.4.0"),
        started_at: SystemTime::UNIX_EPOCH,
        uptime: Duration::from_secs(86_400),
        has_interpreter: true,
        reload: ReloadFacts { is_successful: true, succeeded_at: SystemTime::UNIX_EPOCH },
        certificates: Some(CertificateFacts { first_expiry: Some(SystemTime::UNIX_EPOCH) }),
        gate: Some(GateFacts {
            depth: 3,
            capacity: 512,
            slots_available: 509,
            waiting: 0,
            wait_budget: Duration::from_millis(500),
            wait_budget_ceiling: Duration::from_millis(1000),
        }),
        queue_capacity: 512,
        pool: Some(PoolFacts { current: 4, busy: 3, min: 4, max: 4, spawned: 4, ..PoolFacts::default() }),
        slots: (0..4)
            .map(|slot| SlotReading { slot, phase: SlotPhase::Serving, ..SlotReading::default() })
            .collect(),
        io_workers_in_use: 1,
        worker_mode: false,
        runtime_hooks: false,
        tasks: None,
        tracing: None,
        plugins: Vec::new(),
        opcache: None,
        static_cache: StaticCacheReading::default(),
        response_cache: None,
        reply_memory_bytes: 1 << 20,
        spool_bytes: 0,
        spool_bytes_max: 1 << 30,
        log_dropped: 0,
        process: ProcessFacts::read(),
    }
}

fn scrape(criterion: &mut Criterion) {
    let metrics = busy_metrics();
    for (name, format) in
        [("scrape_text", Format::Text), ("scrape_openmetrics", Format::OpenMetrics(OpenMetrics::V1_0_0))]
    {
        criterion.bench_function(name, |bencher| {
            bencher.iter(|| black_box(render(&metrics, &facts(), format)).len());
        });
    }
    criterion.bench_function("process_facts", |bencher| bencher.iter(ProcessFacts::read));
}

fn main() {
    let mut criterion = Criterion::default().configure_from_args();
    scrape(&mut criterion);
    criterion.final_summary();
}
