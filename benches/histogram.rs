//! The cost of recording a value while eight threads record: our histogram and plain shared buckets.
//!
//! Each figure is processor time per operation and thread, so that it is comparable between two and eight cores.

use std::hint::black_box;
use std::sync::Barrier;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use criterion::Criterion;
use rustix::time::{ClockId, clock_gettime};
use svc_core::sync::histogram::Histogram;

const THREADS: u32 = 8;

/// The same number of bounds as for the duration of requests.
const BOUNDS: &[u64] =
    &[100, 500, 1000, 2500, 5000, 10_000, 25_000, 50_000, 100_000, 250_000, 500_000, 1_000_000];

/// Runs `operation` on each of the threads with many values; returns the mean processor time of one thread.
fn on_all_threads(iterations: u64, operation: impl Fn(u64) + Sync) -> Duration {
    let together = Barrier::new(THREADS as usize);
    let total = std::thread::scope(|scope| {
        let work = || {
            together.wait();
            let before = thread_time();
            let mut value = 88_172_645_463_325_252_u64;
            for _ in 0..iterations {
                // Unpredictable values, spread over all buckets.
                value ^= value << 13;
                value ^= value >> 7;
                value ^= value << 17;
                operation((value & 0xfffff) >> (value >> 60));
            }
            thread_time() - before
        };
        let threads: Vec<_> = (0..THREADS).map(|_| scope.spawn(work)).collect();
        threads.into_iter().map(|thread| thread.join().unwrap_or_default()).sum::<Duration>()
    });
    total / THREADS
}

fn thread_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap_or(0))
}

fn histogram(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("record_on_8_threads");
    group.bench_function("histogram", |bencher| {
        let histogram = Histogram::new(BOUNDS);
        bencher.iter_custom(|iterations| on_all_threads(iterations, |value| histogram.record(value)));
        black_box(histogram.snapshot().count());
    });
    group.bench_function("shared_buckets", |bencher| {
        let buckets: [AtomicU64; 13] = std::array::from_fn(|_| AtomicU64::new(0));
        let sum = AtomicU64::new(0);
        let record = |value: u64| {
            let bucket = BOUNDS.partition_point(|bound| *bound < value);
            buckets[bucket].fetch_add(1, Ordering::Relaxed);
            sum.fetch_add(value, Ordering::Relaxed);
        };
        bencher.iter_custom(|iterations| on_all_threads(iterations, record));
        black_box(sum.load(Ordering::Relaxed));
    });
    group.bench_function("values_alone", |bencher| {
        bencher.iter_custom(|iterations| {
            on_all_threads(iterations, |value| {
                black_box(value);
            })
        });
    });
    group.finish();
    criterion.bench_function("snapshot", |bencher| {
        let histogram = Histogram::new(BOUNDS);
        bencher.iter(|| black_box(&histogram).snapshot().count());
    });
}

fn main() {
    let mut criterion = Criterion::default().configure_from_args();
    histogram(&mut criterion);
    criterion.final_summary();
}
