//! The cost of counting while eight threads count: our sharded counters and one shared atomic.
//!
//! Each figure is processor time per operation and thread, so that it is comparable between two and eight cores.

use std::hint::black_box;
use std::sync::Barrier;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use criterion::Criterion;
use rustix::time::{ClockId, clock_gettime};
use svc_core::sync::counter::{Counter, UpDown};

const THREADS: u32 = 8;

/// Runs `operation` `iterations` times on each of the threads; returns the mean processor time of one thread.
fn on_all_threads(iterations: u64, operation: impl Fn() + Sync) -> Duration {
    let together = Barrier::new(THREADS as usize);
    let total = std::thread::scope(|scope| {
        let work = || {
            together.wait();
            let before = thread_time();
            for _ in 0..iterations {
                operation();
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

fn counters(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("count_on_8_threads");
    group.bench_function("counter", |bencher| {
        let counter = Counter::new();
        bencher.iter_custom(|iterations| on_all_threads(iterations, || counter.incr()));
        black_box(counter.value());
    });
    group.bench_function("enter_and_leave", |bencher| {
        let population = UpDown::new();
        let visit = || {
            population.enter();
            population.leave();
        };
        bencher.iter_custom(|iterations| on_all_threads(iterations, visit));
        black_box(population.value());
    });
    group.bench_function("one_shared_atomic", |bencher| {
        let shared = AtomicU64::new(0);
        let count = || {
            shared.fetch_add(1, Ordering::Relaxed);
        };
        bencher.iter_custom(|iterations| on_all_threads(iterations, count));
        black_box(shared.load(Ordering::Relaxed));
    });
    group.finish();
    criterion.bench_function("read_a_counter", |bencher| {
        let counter = Counter::new();
        bencher.iter(|| black_box(&counter).value());
    });
}

fn main() {
    let mut criterion = Criterion::default().configure_from_args();
    counters(&mut criterion);
    criterion.final_summary();
}
