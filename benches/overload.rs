//! Goodput, latency and probes while more requests arrive than the pool can handle; prints one table for each handler,
//! and checks after each run that the metrics add up.
//!
//! A separate program, because this is not a statistic of one function: `cargo bench --bench overload`. Arrivals are
//! open-loop. Capacity is measured first, with one client for each worker; goodput is a fraction of it. The load
//! generator shares the machine, so a handler that computes leaves less for it than one that waits.
#![expect(clippy::print_stdout, reason = "the table is what it is for")]

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use svc_testing::Svc;
use svc_testing::books::check_books;
use svc_testing::client::Client;
use svc_testing::load::{Load, Sample};

const WAITS: &str = "<?php usleep(20000); echo 'ok';";
const COMPUTES: &str = "<?php $end = hrtime(true) + 5_000_000; while (hrtime(true) < $end); echo 'ok';";

const ARTICLE: &str = "<?php header('Cache-Control: max-age=3, stale-while-revalidate=60');
    file_put_contents(__DIR__ . '/runs', 'x', FILE_APPEND); usleep(100000); echo 'ok';";
const ACCOUNT: &str = "<?php header('Cache-Control: private'); usleep(100000); echo 'ok';";
const CACHED_WORKERS: usize = 4;

const LOAD: Duration = Duration::from_secs(8);

fn main() {
    for (name, script, workers) in [("waits 20 ms", WAITS, 4), ("computes 5 ms", COMPUTES, 2)] {
        let capacity = capacity(script, workers);
        println!("\nhandler {name}, {workers} workers, capacity {capacity:.0}/s, {LOAD:?} each");
        println!(
            "| load | goodput | p50 | p99 | refused in p50 | 529: timeout, full, bytes | 499 | left | RSS | probe p99 | recovery |"
        );
        println!("|---|---|---|---|---|---|---|---|---|---|---|");
        for (times, patience) in
            [(0.5, None), (0.9, None), (1.5, None), (3.0, None), (10.0, None), (3.0, Some(400))]
        {
            row(script, workers, capacity, times, patience.map(Duration::from_millis));
        }
    }
    cached();
}

/// Ten times the capacity, with a response cache: of a page that it may store, and of a mix whose other half is private.
fn cached() {
    let capacity = capacity(ACCOUNT, CACHED_WORKERS);
    println!(
        "\nhandler waits 100 ms, {CACHED_WORKERS} workers, capacity {capacity:.0}/s, with a response cache"
    );
    println!(
        "| load | page: answered | p50 | p99 | private half: goodput | p50 | refused | runs of the page |"
    );
    println!("|---|---|---|---|---|---|---|---|");
    for private in [0.0, 0.5] {
        let svc = Svc::start(
            &[("article.php", ARTICLE), ("account.php", ACCOUNT)],
            &[
                ("PHP_WORKERS", &CACHED_WORKERS.to_string()),
                ("QUEUE_WAIT_TIMEOUT_MS", ""),
                ("RESPONSE_CACHE_BYTES", "16M"),
            ],
        );
        let load = |path, share: f64| {
            let rate = capacity * 10.0 * share;
            Load { addr: svc.main(), path, rate, duration: LOAD, patience: None }
        };
        let (pages, accounts) = std::thread::scope(|scope| {
            let accounts = (private > 0.0).then(|| scope.spawn(|| load("/account.php", private).run()));
            let pages = load("/article.php", 1.0 - private).run();
            (pages, accounts.map(|accounts| accounts.join().expect("the load")).unwrap_or_default())
        });
        let (page, account) = (latencies(&pages, 200), latencies(&accounts, 200));
        println!(
            "| 10 ×, {:.0} % private | {:.2} % | {:.2?} | {:.2?} | {:.1} % | {:.2?} | {} | {} |",
            private * 100.0,
            page.len() as f64 / pages.len() as f64 * 100.0,
            quantile(&page, 0.5),
            quantile(&page, 0.99),
            goodput(&accounts) / capacity * 100.0,
            quantile(&account, 0.5),
            latencies(&accounts, 529).len(),
            std::fs::read(svc.root().join("runs")).map_or(0, |runs| runs.len()),
        );
        check_books(&svc);
    }
}

fn start(script: &str, workers: usize) -> Svc {
    Svc::start(
        &[("index.php", script)],
        &[("PHP_WORKERS", &workers.to_string()), ("QUEUE_WAIT_TIMEOUT_MS", "")],
    )
}

/// Returns the responses per second with one client for each worker.
fn capacity(script: &str, workers: usize) -> f64 {
    let svc = start(script, workers);
    let begin = Instant::now();
    let answers: usize = std::thread::scope(|scope| {
        let client = || {
            let mut client = svc.client();
            let mut count = 0;
            while begin.elapsed() < Duration::from_secs(3) {
                assert_eq!(client.get("/index.php").status, 200);
                count += 1;
            }
            count
        };
        let clients: Vec<_> = (0..workers).map(|_| scope.spawn(client)).collect();
        clients.into_iter().map(|client| client.join().expect("a client")).sum()
    });
    answers as f64 / begin.elapsed().as_secs_f64()
}

fn row(script: &str, workers: usize, capacity: f64, times: f64, patience: Option<Duration>) {
    let svc = start(script, workers);
    let is_over = AtomicBool::new(false);
    let (samples, mut probes) = std::thread::scope(|scope| {
        let probing = scope.spawn(|| probe(&svc, &is_over));
        let load =
            Load { addr: svc.main(), path: "/index.php", rate: capacity * times, duration: LOAD, patience };
        let samples = load.run();
        is_over.store(true, Ordering::Relaxed);
        (samples, probing.join().expect("the prober"))
    });
    let recovery = recovery(&svc);
    let (served, refused) = (latencies(&samples, 200), latencies(&samples, 529));
    let reason = |reason: &str| svc.metric(&format!("svc_admission_refused_total{{reason=\"{reason}\"}}"));
    println!(
        "| {times} ×{} | {:.0} % | {:.3?} | {:.3?} | {:.2?} | {}, {}, {} | {} | {} | {:.0} MiB | {:.2?} | {:.0?} |",
        if patience.is_some() { ", leaving" } else { "" },
        goodput(&samples) / capacity * 100.0,
        quantile(&served, 0.5),
        quantile(&served, 0.99),
        quantile(&refused, 0.5),
        reason("wait_timeout"),
        reason("waiting_full"),
        reason("waiting_bytes"),
        svc.metric("svc_request_cancelled_total{reason=\"client_abort\"}"),
        latencies(&samples, 0).len(),
        svc.metric("process_resident_memory_bytes") / f64::from(1 << 20),
        {
            probes.sort_unstable();
            quantile(&probes, 0.99)
        },
        recovery,
    );
    check_books(&svc);
}

/// Returns the sorted latencies of the responses with a status.
fn latencies(samples: &[Sample], status: u16) -> Vec<Duration> {
    let of = samples.iter().filter(|sample| sample.status == status);
    let mut all: Vec<_> = of.map(|sample| sample.latency).collect();
    all.sort_unstable();
    all
}

/// Returns the responses of the handler per second. Excludes the first second, in which the queue fills, and responses
/// after the end of the load.
fn goodput(samples: &[Sample]) -> f64 {
    let steady = |sample: &&Sample| {
        let answered_at = sample.due + sample.latency;
        sample.status == 200 && answered_at >= Duration::from_secs(1) && answered_at < LOAD
    };
    samples.iter().filter(steady).count() as f64 / (LOAD.as_secs_f64() - 1.0)
}

/// Requests the readiness probe on one connection until the load is over.
fn probe(svc: &Svc, is_over: &AtomicBool) -> Vec<Duration> {
    let mut client = Client::connect(svc.ops());
    let mut all = Vec::new();
    while !is_over.load(Ordering::Relaxed) {
        let begin = Instant::now();
        assert_eq!(client.get("/readyz").status, 200);
        all.push(begin.elapsed());
        std::thread::sleep(Duration::from_millis(10));
    }
    all
}

/// Returns how long it takes until a request is answered without a wait.
fn recovery(svc: &Svc) -> Duration {
    let begin = Instant::now();
    while svc.get("/index.php").status != 200 || svc.metric("svc_queue_depth") > 0.0 {}
    begin.elapsed()
}

fn quantile(sorted: &[Duration], part: f64) -> Duration {
    let index = ((sorted.len() as f64 * part) as usize).min(sorted.len().saturating_sub(1));
    sorted.get(index).copied().unwrap_or_default()
}
