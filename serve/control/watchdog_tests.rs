//! Real stuck threads, seen by the watchdog with a threshold for the test.

use std::sync::mpsc::{Receiver, channel};

use super::*;
use crate::fixture::{Nobody, exchange};
use svc_core::config::{AccessLog, Level};
use svc_core::observe::Log;
use svc_core::pool::{Engine, Exchange, JobSource, PoolEvents, PoolSize, Started, Worker, WorkerStartError};
use svc_core::spool::Spool;
use svc_core::sync::counter::Flag;
use svc_core::sync::idle_workers::IdleWorkers;
use svc_core::sync::queue::WorkQueue;
use svc_core::time;

/// The behaviour of the worker with its single request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Act {
    /// Reads a pipe that stays silent.
    Read,
    /// Runs and answers questions, like a script's own instructions.
    Loop,
    /// Runs and answers no questions, like an internal function of PHP.
    Compute,
}

/// The engine, the queue and the event sink of a pool of one worker.
#[derive(Debug)]
struct Bench {
    act: Act,
    queue: WorkQueue<Arc<Exchange>>,
    asked: Flag,
    answered: Flag,
    released: Flag,
}

impl JobSource<Exchange> for Bench {
    fn try_take(&self) -> Option<Arc<Exchange>> {
        self.queue.try_take()
    }
    fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }
    fn backlog(&self) -> usize {
        self.queue.len()
    }
    fn is_queue_closed(&self) -> bool {
        self.queue.is_closed()
    }
    fn idle_workers(&self) -> &IdleWorkers {
        self.queue.idle_workers()
    }
}

impl ThreadProbe for Bench {
    fn ask(&self) {
        self.answered.clear();
        self.asked.set();
    }
    fn is_answered(&self) -> bool {
        self.answered.is_set()
    }
}

struct BenchEngine(Arc<Bench>, svc_core::sync::lock::ShortLock<Option<Receiver<()>>>);

impl Engine<Exchange> for BenchEngine {
    fn start(&self, _slot: usize) -> Result<Started<Exchange>, WorkerStartError> {
        let silence = self.1.lock().take().ok_or(WorkerStartError("one worker only".to_owned()))?;
        Ok(Started::Classic(Box::new(BenchWorker(Arc::clone(&self.0), silence))))
    }
}

struct BenchWorker(Arc<Bench>, Receiver<()>);

impl Worker<Exchange> for BenchWorker {
    fn serve(&mut self, _exchange: &Arc<Exchange>) {
        let Self(bench, silence) = self;
        match bench.act {
            Act::Read => drop(silence.recv()),
            Act::Loop | Act::Compute => {
                while !bench.released.is_set() {
                    if bench.act == Act::Loop && bench.asked.is_set() {
                        bench.asked.clear();
                        bench.answered.set();
                    }
                    std::hint::spin_loop();
                }
            }
        }
    }

    fn probe(&self) -> Option<Arc<dyn ThreadProbe>> {
        Some(Arc::<Bench>::clone(&self.0))
    }
}

/// Watches a worker that does `act` until its request is classified; returns the reading and the log.
fn classified(act: Act) -> (SlotReading, String) {
    let size = PoolSize { min: 1, max: 1 };
    let bench = Arc::new(Bench {
        act,
        queue: WorkQueue::new(1, size.slots()),
        asked: Flag::new(),
        answered: Flag::new(),
        released: Flag::new(),
    });
    let (ends_silence, silence) = channel();
    let engine: Arc<dyn Engine<Exchange>> =
        Arc::new(BenchEngine(Arc::clone(&bench), svc_core::sync::lock::ShortLock::new(Some(silence))));
    let (source, events): (Arc<dyn JobSource<Exchange>>, Arc<dyn PoolEvents<Exchange>>) =
        (bench.clone(), Arc::new(Nobody));
    let workers = WorkerPool::start("svc-php", size, &engine, source, &events).unwrap();
    let (mut reader, writer) = std::io::pipe().unwrap();
    let log = Log::start(Level::Info, AccessLog::Off, writer).unwrap();
    let mut watchdog = WatchdogRounds::new(Duration::from_secs(5));
    assert!(bench.queue.push(exchange(time::now(), Spool::new("/tmp".into(), 0))).is_ok());
    bench.queue.announce();
    let reading = |now| workers.slots(now)[0].clone();
    // The thread needs a moment to reach the place where it stays.
    let is_there = || {
        let blocked = thread_state::is_blocked(reading(time::now()).thread_id);
        reading(time::now()).is_busy && blocked == (act == Act::Read)
    };
    while !is_there() {
        std::thread::yield_now();
    }
    let begin = time::now();
    watchdog.tick(&workers, &log, begin);
    assert_eq!((reading(begin).long_running, reading(begin).stuck), (0, [0; 3]), "it is young");
    for second in 6..10 {
        watchdog.tick(&workers, &log, begin + Duration::from_secs(second));
        // A thread that answers does so within an instant.
        while act == Act::Loop && !bench.answered.is_set() {
            std::thread::yield_now();
        }
    }
    let found = reading(begin + Duration::from_secs(9));
    bench.released.set();
    drop(ends_silence);
    bench.queue.close();
    assert!(workers.join());
    assert!(log.shutdown());
    drop(log);
    let mut text = String::new();
    std::io::Read::read_to_string(&mut reader, &mut text).unwrap();
    (found, text)
}

#[test]
fn a_blocked_read_is_io() {
    let (found, log) = classified(Act::Read);
    assert_eq!((found.long_running, found.stuck), (4, [1, 0, 0]));
    assert!(log.contains("\"kind\":\"io\"") && log.matches("stuck in a request").count() == 1, "{log}");
    assert!(log.contains("\"request_id\":\"a-name\",\"path\":\"/\""), "{log}");
    assert!(found.oldest.is_some_and(|oldest| oldest.age >= Duration::from_secs(9)));
}

#[test]
fn a_loop_of_the_script_is_cpu() {
    let (found, _) = classified(Act::Loop);
    assert_eq!((found.long_running, found.stuck), (4, [0, 0, 1]));
    assert_eq!(StuckKind::ALL[2].as_str(), "cpu");
}

#[test]
fn a_function_that_does_not_come_back_is_c_call() {
    let (found, log) = classified(Act::Compute);
    assert_eq!((found.long_running, found.stuck), (4, [0, 1, 0]));
    assert!(log.contains("\"kind\":\"c_call\""), "{log}");
}
