//! The gate and its alternatives: a list under a mutex with a condition variable, and a channel.
//!
//! `offer and take` is one thread that does both, so no thread sleeps; `8 threads` is four that offer and four that
//! take, through a queue of 64 places; `hand-off` is a round trip to a sleeping thread.

use std::collections::VecDeque;
use std::hint::black_box;
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use criterion::Criterion;

use svc_core::admission::{Gate, OfferOutcome, Offered, WaitingLimits};

/// An entry of the size of a pointer, like an exchange.
struct Entry(u64);

impl Offered for Entry {
    fn parked_bytes(&self) -> u64 {
        0
    }
    fn promote(&self) -> bool {
        true
    }
    fn park(&self) {}
}

/// A bounded queue.
trait Queue: Send + Sync {
    fn offer(&self, entry: u64) -> bool;
    /// Takes an entry, waiting for one; each concurrent consumer has a separate seat.
    fn take(&self, seat: usize) -> u64;
}

const PLACES: usize = 64;

const SEATS: usize = 4;

struct OurGate(Gate<Entry>);

impl Queue for OurGate {
    fn offer(&self, entry: u64) -> bool {
        let admitted = matches!(self.0.offer(Entry(entry)), OfferOutcome::Queued);
        self.0.announce();
        admitted
    }
    /// Takes an entry like a worker takes its next job.
    fn take(&self, seat: usize) -> u64 {
        loop {
            if let Some(entry) = self.0.try_take() {
                return entry.0;
            }
            self.0.idle_workers().park(seat, || !self.0.is_empty() || self.0.is_queue_closed());
        }
    }
}

#[derive(Default)]
struct LockedList(Mutex<VecDeque<u64>>, Condvar);

impl Queue for LockedList {
    fn offer(&self, entry: u64) -> bool {
        let mut list = self.0.lock().expect("no panics here");
        if list.len() == PLACES {
            return false;
        }
        list.push_back(entry);
        drop(list);
        self.1.notify_one();
        true
    }
    fn take(&self, _seat: usize) -> u64 {
        let mut list = self.0.lock().expect("no panics here");
        loop {
            if let Some(entry) = list.pop_front() {
                return entry;
            }
            list = self.1.wait(list).expect("no panics here");
        }
    }
}

struct Channel(crossbeam_channel::Sender<u64>, crossbeam_channel::Receiver<u64>);

impl Queue for Channel {
    fn offer(&self, entry: u64) -> bool {
        self.0.try_send(entry).is_ok()
    }
    fn take(&self, _seat: usize) -> u64 {
        self.1.recv().unwrap_or(0)
    }
}

fn queues() -> Vec<(&'static str, Arc<dyn Queue>)> {
    // Fail-fast, so that a full queue refuses like the others do.
    let gate = Gate::new(PLACES, SEATS, WaitingLimits { count_max: 0, bytes_max: 0 }, Duration::ZERO);
    let (sender, receiver) = crossbeam_channel::bounded(PLACES);
    vec![
        ("gate", Arc::new(OurGate(gate))),
        ("mutex and condvar", Arc::new(LockedList::default())),
        ("crossbeam-channel", Arc::new(Channel(sender, receiver))),
    ]
}

fn offer_and_take(c: &mut Criterion) {
    let mut group = c.benchmark_group("offer and take");
    for (name, queue) in queues() {
        group.bench_function(name, |b| {
            b.iter(|| {
                queue.offer(black_box(1));
                black_box(queue.take(0))
            });
        });
    }
    group.finish();
}

/// Moves `count` entries with four offering and four taking threads.
fn move_through(queue: &Arc<dyn Queue>, count: u64) -> Duration {
    let begin = Instant::now();
    std::thread::scope(|scope| {
        for seat in 0..SEATS {
            scope.spawn(|| {
                for entry in 0..count / 4 {
                    while !queue.offer(entry) {
                        std::thread::yield_now();
                    }
                }
            });
            scope.spawn(move || {
                for _ in 0..count / 4 {
                    black_box(queue.take(seat));
                }
            });
        }
    });
    begin.elapsed()
}

fn contended(c: &mut Criterion) {
    let mut group = c.benchmark_group("8 threads");
    group.sample_size(10);
    for (name, queue) in queues() {
        group.bench_function(name, |b| b.iter_custom(|count| move_through(&queue, count.max(4) / 4 * 4)));
    }
    group.finish();
}

fn hand_off(c: &mut Criterion) {
    let mut group = c.benchmark_group("hand-off");
    for ((name, there), (_, back)) in queues().into_iter().zip(queues()) {
        let echo = {
            let (there, back) = (Arc::clone(&there), Arc::clone(&back));
            std::thread::spawn(move || {
                while there.take(0) != 0 {
                    back.offer(1);
                }
            })
        };
        group.bench_function(name, |b| {
            b.iter(|| {
                there.offer(1);
                back.take(0)
            });
        });
        there.offer(0);
        echo.join().expect("the echo ends");
    }
    group.finish();
}

fn main() {
    let mut criterion = Criterion::default().configure_from_args();
    offer_and_take(&mut criterion);
    contended(&mut criterion);
    hand_off(&mut criterion);
    criterion.final_summary();
}
