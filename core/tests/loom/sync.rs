//! Shared state of threads, under every interleaving that a bounded number of preemptions allows; `pool` has the models
//! of gate, queue and workers together.
//!
//! A model that can lose a wake-up ends in a deadlock, which the explorer reports. Preemptions are bounded (see
//! [`explore`]): bugs that need more of them are not found.

use std::collections::VecDeque;
use std::sync::Arc;

use loom::sync::atomic::{AtomicUsize, Ordering};
use loom::thread;
use svc_core::policy::rate_table::{RateDecision, RateTable};
use svc_core::pool::{Closed, End, Mailbox, Part, ReaderNotice, ResponseBatch};
use svc_core::spool::Spool;
use svc_core::sync::batch_queue::{BatchQueue, Enqueued};
use svc_core::sync::completion::{WakeSet, completion};
use svc_core::sync::counter::{Counter, UpDown};
use svc_core::sync::event_count::EventCount;
use svc_core::sync::exchange_state::{ExchangeStage, ExchangeState};
use svc_core::sync::histogram::Histogram;
use svc_core::sync::idle_workers::{Capacity, IdleWorkers, Wake};
use svc_core::sync::outbox::Outbox;
use svc_core::sync::permits::Permits;

use crate::exploring::explore;

#[test]
fn a_bell_rung_after_the_work_was_published_wakes_its_sleeper() {
    explore(3, || {
        let shared = Arc::new((EventCount::new(), Counter::new()));
        let sleeper = {
            let shared = Arc::clone(&shared);
            thread::spawn(move || {
                let (event_count, work) = &*shared;
                loop {
                    let ticket = event_count.prepare_wait();
                    if work.value() > 0 {
                        event_count.cancel_wait(ticket);
                        return;
                    }
                    event_count.wait(&ticket);
                }
            })
        };
        shared.1.incr();
        shared.0.notify_one();
        sleeper.join().unwrap();
    });
}

/// A worker's reactor: an event count and a counter of wake-ups, so that none is lost.
#[derive(Debug)]
struct ReactorModel(EventCount, Counter);

impl ReactorModel {
    fn on(idle_workers: &IdleWorkers, seat: usize) -> Arc<Self> {
        let reactor = Arc::new(Self(EventCount::new(), Counter::new()));
        idle_workers.set_waker(seat, Some(Arc::<Self>::clone(&reactor)));
        reactor
    }

    /// Waits for a wake-up beyond the first `seen`; returns their total.
    fn wait(&self, seen: u64) -> u64 {
        loop {
            let ticket = self.0.prepare_wait();
            let rings = self.1.value();
            if rings > seen {
                self.0.cancel_wait(ticket);
                return rings;
            }
            self.0.wait(&ticket);
        }
    }
}

impl Wake for ReactorModel {
    fn wake(&self) {
        self.1.incr();
        self.0.notify_one();
    }
}

#[test]
fn a_worker_in_its_reactor_is_woken_for_work_that_came_while_it_sat_down() {
    explore(3, || {
        let shared = Arc::new((IdleWorkers::new(1), Counter::new()));
        let reactor = ReactorModel::on(&shared.0, 0);
        let producer = {
            let shared = Arc::clone(&shared);
            thread::spawn(move || {
                shared.1.incr();
                shared.0.notify_one();
            })
        };
        let (idle_workers, work) = &*shared;
        let mut rings = 0;
        while work.value() == 0 {
            idle_workers.prepare_park(0, Capacity::Idle);
            if work.value() == 0 {
                rings = reactor.wait(rings);
            }
            idle_workers.unpark(0);
        }
        producer.join().unwrap();
    });
}

#[test]
fn an_order_reaches_a_worker_that_is_about_to_rest() {
    explore(3, || {
        let shared = Arc::new((IdleWorkers::new(1), Counter::new()));
        let worker = {
            let shared = Arc::clone(&shared);
            thread::spawn(move || {
                while shared.1.value() == 0 {
                    shared.0.park(0, || shared.1.value() > 0);
                }
            })
        };
        shared.1.incr();
        shared.0.wake(0);
        worker.join().unwrap();
    });
}

#[test]
fn an_armed_fallback_is_woken_for_unseen_work() {
    explore(3, || {
        let shared = Arc::new((IdleWorkers::new(1), Counter::new()));
        let fallback = Arc::new(ReactorModel(EventCount::new(), Counter::new()));
        shared.0.set_fallback(Arc::<ReactorModel>::clone(&fallback));
        let producer = {
            let shared = Arc::clone(&shared);
            thread::spawn(move || {
                shared.1.incr();
                shared.0.notify_one();
            })
        };
        shared.0.arm_fallback();
        // No worker is seated: either the supervisor sees the work after it armed the fallback, or it is woken.
        if shared.1.value() == 0 {
            fallback.wait(0);
        }
        producer.join().unwrap();
    });
}

/// Returns the reactor in which a worker's thread sleeps, and the set of its woken waiters.
fn thread_with_waiters() -> (Arc<ReactorModel>, Arc<WakeSet>) {
    let reactor = Arc::new(ReactorModel(EventCount::new(), Counter::new()));
    let wakes = WakeSet::new(Arc::<ReactorModel>::clone(&reactor));
    (reactor, wakes)
}

/// Checks and sleeps like a worker, until this waiter was woken. Without a timeout: a lost wake-up is a deadlock.
fn sleep_until_woken(reactor: &ReactorModel, wakes: &WakeSet, waiter: u32) {
    let mut seen = 0;
    loop {
        let mut is_woken = false;
        wakes.take(|woken| is_woken |= woken == waiter);
        if is_woken {
            return;
        }
        seen = reactor.wait(seen);
    }
}

#[test]
fn a_completion_that_is_waited_for_wakes_its_thread() {
    explore(3, || {
        let (reactor, wakes) = thread_with_waiters();
        let (awaited, completer) = completion(&wakes);
        let result = Arc::new(AtomicUsize::new(0));
        let job = {
            let result = Arc::clone(&result);
            thread::spawn(move || {
                result.store(7, Ordering::Relaxed);
                completer.complete();
            })
        };
        if awaited.wait(1) {
            sleep_until_woken(&reactor, &wakes, 1);
        }
        assert!(awaited.stop_waiting());
        assert_eq!(result.load(Ordering::Relaxed), 7, "what was written before it is seen");
        job.join().unwrap();
    });
}

#[test]
fn two_completions_of_one_thread_wake_both_their_waiters() {
    explore(2, || {
        let (reactor, wakes) = thread_with_waiters();
        let ends = [1, 2].map(|waiter| (waiter, completion(&wakes)));
        let mut waiting = Vec::new();
        let jobs = ends.map(|(waiter, (awaited, completer))| {
            assert!(awaited.wait(waiter));
            waiting.push(awaited);
            thread::spawn(move || completer.complete())
        });
        let (mut woken, mut seen) = (0, 0);
        // Their bits are in one word: the second completer relies on the wake-up of the first.
        while woken < 2 {
            let before = woken;
            wakes.take(|_| woken += 1);
            if woken == before {
                seen = reactor.wait(seen);
            }
        }
        assert!(waiting.iter().all(|awaited| awaited.is_complete()));
        for job in jobs {
            job.join().unwrap();
        }
    });
}

#[test]
fn a_waiter_that_stops_learns_whether_it_is_complete() {
    explore(3, || {
        let (reactor, wakes) = thread_with_waiters();
        let (awaited, completer) = completion(&wakes);
        let job = thread::spawn(move || completer.complete());
        // The wait ended for another reason first.
        if awaited.wait(1) && !awaited.stop_waiting() && awaited.wait(2) {
            sleep_until_woken(&reactor, &wakes, 2);
        }
        assert!(awaited.stop_waiting());
        job.join().unwrap();
    });
}

#[test]
fn a_waiter_that_gives_up_leaves_a_job_that_frees_itself() {
    explore(3, || {
        let (reactor, wakes) = thread_with_waiters();
        let (awaited, completer) = completion(&wakes);
        assert!(awaited.wait(1));
        let job = thread::spawn(move || {
            completer.complete();
            completer.complete();
        });
        drop(awaited);
        // The number belongs to another waiter now, which may be woken spuriously and then keeps waiting.
        let (other, other_completer) = completion(&wakes);
        assert!(other.wait(1));
        let mut woken = 0;
        wakes.take(|_| woken += 1);
        assert!(woken <= 1 && !other.is_complete());
        job.join().unwrap();
        drop(other_completer);
        sleep_until_woken(&reactor, &wakes, 1);
        assert!(other.is_complete());
    });
}

#[test]
fn completing_is_safe_after_the_end_of_the_worker() {
    explore(3, || {
        let (reactor, wakes) = thread_with_waiters();
        let (awaited, completer) = completion(&wakes);
        assert!(awaited.wait(1));
        let job = thread::spawn(move || drop(completer));
        drop((awaited, wakes));
        job.join().unwrap();
        assert_eq!(Arc::strong_count(&reactor), 1, "and nothing is left");
    });
}

#[test]
fn an_exchange_is_answered_by_exactly_one_side() {
    explore(4, || {
        let state = Arc::new(ExchangeState::queued());
        let worker = {
            let state = Arc::clone(&state);
            thread::spawn(move || {
                if state.claim().is_err() {
                    return false;
                }
                let head_is_ours = state.respond().is_ok();
                let before = state.finish();
                assert_eq!(head_is_ours, before == ExchangeStage::Responding);
                head_is_ours
            })
        };
        let withdrawn = matches!(state.withdraw(), ExchangeStage::Queued | ExchangeStage::Running);
        let answered = worker.join().unwrap();
        assert!(withdrawn != answered, "withdrawn {withdrawn}, answered {answered}");
    });
}

#[test]
fn an_abandoned_exchange_still_runs_and_one_side_answers() {
    explore(4, || {
        let state = Arc::new(ExchangeState::queued());
        let worker = {
            let state = Arc::clone(&state);
            thread::spawn(move || {
                let claimed = state.claim().expect("only this worker takes it off the queue");
                let head_is_ours = state.respond().is_ok();
                assert!(claimed == ExchangeStage::Running || !head_is_ours);
                let before = state.finish();
                assert_eq!(head_is_ours, before == ExchangeStage::Responding);
                head_is_ours
            })
        };
        let abandoned = matches!(state.abandon(), ExchangeStage::Queued | ExchangeStage::Running);
        let answered = worker.join().unwrap();
        assert!(abandoned != answered, "abandoned {abandoned}, answered {answered}");
    });
}

#[test]
fn a_response_in_one_piece_is_given_or_taken_away() {
    explore(4, || {
        let state = Arc::new(ExchangeState::queued());
        let worker = {
            let state = Arc::clone(&state);
            thread::spawn(move || state.claim().is_ok() && state.finish() == ExchangeStage::Running)
        };
        let withdrawn = matches!(state.withdraw(), ExchangeStage::Queued | ExchangeStage::Running);
        let answered = worker.join().unwrap();
        assert!(withdrawn != answered, "withdrawn {withdrawn}, answered {answered}");
    });
}

#[test]
fn a_response_is_given_or_taken_away_or_overrun() {
    explore(4, || {
        let state = Arc::new(ExchangeState::queued());
        state.claim().unwrap();
        let worker = {
            let state = Arc::clone(&state);
            thread::spawn(move || {
                let head_is_ours = state.respond().is_ok();
                let before = state.finish();
                assert_eq!(head_is_ours, before == ExchangeStage::Responding);
                head_is_ours
            })
        };
        let watcher = {
            let state = Arc::clone(&state);
            thread::spawn(move || state.overrun(false).is_some())
        };
        let withdrawn = state.withdraw() == ExchangeStage::Running;
        let sides = [worker.join().unwrap(), watcher.join().unwrap(), withdrawn];
        assert_eq!(sides.iter().filter(|answered| **answered).count(), 1, "{sides:?}");
    });
}

/// The mailbox and the state of a response, with the operations of the worker and the watchdog.
struct HeldResponse(ExchangeState, Mailbox);

impl HeldResponse {
    fn complete(&self) -> bool {
        let is_ours = self.0.finish() == ExchangeStage::Running;
        if is_ours {
            let _ = self.1.put(Part::End(End::Complete));
        }
        is_ours
    }

    fn overrun(&self) -> bool {
        let end = || ResponseBatch::default().before(End::Broken);
        self.1.cut(|has_head| self.0.overrun(has_head).map(|_| end())).is_some()
    }
}

#[test]
fn an_overdue_exchange_has_a_visible_answer() {
    explore(3, || {
        let held = Arc::new(HeldResponse(
            ExchangeState::queued(),
            Mailbox::new(Spool::new("/nonexistent".into(), 0)),
        ));
        held.0.claim().unwrap();
        let [worker, watcher] = [HeldResponse::complete, HeldResponse::overrun].map(|side| {
            let held = Arc::clone(&held);
            thread::spawn(move || side(&held))
        });
        let found = held.0.withdraw();
        let mut parts = VecDeque::new();
        held.1.collect(&mut parts);
        let (completed, overran) = (worker.join().unwrap(), watcher.join().unwrap());
        match found {
            ExchangeStage::Running => assert!(!completed && !overran),
            ExchangeStage::Overdue => {
                assert!(
                    overran && parts.len() == 1 && matches!(parts[0], Part::End(End::Broken)),
                    "{parts:?}"
                );
            }
            // The response was sent or will be; the worker has finished in either case.
            _ => assert!(completed != overran || found == ExchangeStage::Done),
        }
        assert!(!(completed && overran));
    });
}

#[test]
fn two_workers_cannot_claim_one_exchange() {
    explore(4, || {
        let state = Arc::new(ExchangeState::queued());
        let other = {
            let state = Arc::clone(&state);
            thread::spawn(move || state.claim().is_ok())
        };
        let here = state.claim().is_ok();
        assert!(here != other.join().unwrap());
    });
}

fn put_data(mailbox: &Mailbox, bytes: Vec<u8>) -> Result<ReaderNotice, Closed> {
    mailbox.deliver(&mut ResponseBatch::of(bytes))
}

/// Returns a mailbox without room: every further part has to wait for the reader.
fn full_mailbox() -> Arc<Mailbox> {
    // The directory does not exist, so that spooling always fails.
    let mailbox = Mailbox::new(Spool::new("/nonexistent".into(), 0));
    put_data(&mailbox, vec![0; svc_core::limits::RESPONSE_MEMORY_MAX]).unwrap();
    Arc::new(mailbox)
}

#[test]
fn a_writer_that_waits_for_room_is_woken_by_the_reader() {
    explore(3, || {
        let mailbox = full_mailbox();
        let writer = {
            let mailbox = Arc::clone(&mailbox);
            thread::spawn(move || put_data(&mailbox, b"late".to_vec()).is_ok())
        };
        let mut parts = VecDeque::new();
        mailbox.collect(&mut parts);
        assert!(writer.join().unwrap());
        mailbox.collect(&mut parts);
        assert_eq!(parts.len(), 2);
    });
}

#[test]
fn a_writer_that_waits_for_room_is_woken_when_the_reader_leaves() {
    explore(3, || {
        let mailbox = full_mailbox();
        let writer = {
            let mailbox = Arc::clone(&mailbox);
            thread::spawn(move || put_data(&mailbox, b"late".to_vec()).is_err())
        };
        mailbox.close();
        assert!(writer.join().unwrap());
    });
}

#[test]
fn a_reader_is_notified_of_every_unread_part() {
    explore(3, || {
        let mailbox = Arc::new(Mailbox::new(Spool::new("/nonexistent".into(), 0)));
        let told = Arc::new(Counter::new());
        let writer = {
            let (mailbox, told) = (Arc::clone(&mailbox), Arc::clone(&told));
            thread::spawn(move || {
                let notices = [put_data(&mailbox, vec![1]), mailbox.put(Part::End(End::Complete))];
                notices.iter().filter(|notice| **notice == Ok(ReaderNotice::Due)).for_each(|_| told.incr());
            })
        };
        let mut parts = VecDeque::new();
        mailbox.collect(&mut parts);
        let (seen, told_before) = (parts.len(), told.value());
        writer.join().unwrap();
        // Parts that arrive after `collect` are announced afterwards, or by a message that is already on its way.
        mailbox.collect(&mut parts);
        assert_eq!(parts.len(), 2);
        assert!(seen == 2 || told.value() >= 1, "{seen} seen, told {told_before} before");
    });
}

#[test]
fn an_outbox_gives_or_drops_each_item_and_its_consumer_ends() {
    explore(3, || {
        let outbox = Arc::new(Outbox::new(1));
        let consumer = {
            let outbox = Arc::clone(&outbox);
            thread::spawn(move || {
                let mut taken = Vec::new();
                loop {
                    taken.extend(std::iter::from_fn(|| outbox.take()));
                    if !outbox.wait() {
                        taken.extend(std::iter::from_fn(|| outbox.take()));
                        return taken;
                    }
                }
            })
        };
        let producer = {
            let outbox = Arc::clone(&outbox);
            thread::spawn(move || outbox.offer(10))
        };
        outbox.offer(1);
        outbox.offer(2);
        outbox.close();
        producer.join().unwrap();
        let taken = consumer.join().unwrap();
        let left: Vec<_> = std::iter::from_fn(|| outbox.take()).collect();
        let kept: Vec<_> = taken.iter().chain(&left).filter(|item| **item < 10).collect();
        assert!(kept.is_sorted(), "{kept:?}");
        assert!(!left.iter().any(|item| *item < 10), "offered before the end, and not taken: {left:?}");
        assert_eq!(taken.len() + left.len() + usize::try_from(outbox.dropped_total()).unwrap(), 3);
    });
}

#[test]
fn a_population_is_never_negative() {
    explore(3, || {
        let population = Arc::new(UpDown::new());
        let visitors: Vec<_> = (0..2)
            .map(|_| {
                let population = Arc::clone(&population);
                thread::spawn(move || {
                    population.enter();
                    population.leave();
                })
            })
            .collect();
        assert!(population.value() <= 2);
        visitors.into_iter().for_each(|visitor| visitor.join().unwrap());
        assert_eq!(population.value(), 0);
    });
}

#[test]
fn a_guard_may_be_dropped_on_another_thread() {
    explore(3, || {
        let population = Arc::new(UpDown::new());
        population.enter();
        let leaving = {
            let population = Arc::clone(&population);
            thread::spawn(move || population.leave())
        };
        assert!(population.value() <= 1);
        leaving.join().unwrap();
        assert_eq!(population.value(), 0);
    });
}

#[test]
fn the_count_of_a_histogram_is_the_sum_of_its_buckets_at_any_moment() {
    explore(2, || {
        let histogram = Arc::new(Histogram::new(&[10]));
        let recorder = {
            let histogram = Arc::clone(&histogram);
            thread::spawn(move || {
                histogram.record(5);
                histogram.record(50);
            })
        };
        let during = histogram.snapshot();
        assert!(during.count() <= 2 && during.buckets().iter().sum::<u64>() == during.count());
        recorder.join().unwrap();
        let after = histogram.snapshot();
        assert_eq!((after.count(), after.sum), (2, 55));
    });
}

#[test]
fn a_permit_that_comes_back_reaches_the_waiter() {
    explore(3, || {
        let permits = Permits::new(1);
        let held = permits.acquire();
        let waiter = {
            let permits = Arc::clone(&permits);
            thread::spawn(move || permits.acquire().is_some())
        };
        drop(held);
        assert!(waiter.join().unwrap());
        assert_eq!(permits.free(), 1);
    });
}

#[test]
fn closing_the_permits_ends_the_waiting() {
    explore(3, || {
        let permits = Permits::new(0);
        let waiter = {
            let permits = Arc::clone(&permits);
            thread::spawn(move || permits.acquire().is_none())
        };
        permits.close();
        assert!(waiter.join().unwrap());
    });
}

#[test]
fn two_requests_of_one_client_never_both_get_the_last_place() {
    explore(3, || {
        let table = Arc::new(RateTable::new(1, 1, 0));
        let other = {
            let table = Arc::clone(&table);
            thread::spawn(move || table.take(1 << 40, 5))
        };
        let own = table.take(1 << 40, 5);
        let takes = [own, other.join().unwrap()];
        assert_eq!(
            takes.iter().filter(|take| matches!(take, RateDecision::Granted { .. })).count(),
            1,
            "{takes:?}"
        );
    });
}

#[test]
fn clients_of_one_set_are_counted_apart_while_there_is_room() {
    explore(3, || {
        let table = Arc::new(RateTable::new(1, 2, 0));
        let other = {
            let table = Arc::clone(&table);
            thread::spawn(move || (table.take(1 << 40, 5), table.take(1 << 40, 5)))
        };
        let both = (RateDecision::Granted { used: 16 }, RateDecision::Granted { used: 32 });
        assert_eq!((table.take(2 << 40, 5), table.take(2 << 40, 5)), both);
        assert_eq!(other.join().unwrap(), both);
        assert_eq!(table.take(1 << 40, 5), RateDecision::Refused { wait: 16 });
        assert_eq!(table.take(2 << 40, 5), RateDecision::Refused { wait: 16 });
    });
}

/// A producer rings the bell when `offer` asks it to; the consumer sleeps only if it may.
#[test]
fn a_batch_that_is_complete_wakes_its_consumer_and_so_does_the_end() {
    explore(3, || {
        let shared = Arc::new((BatchQueue::new(2), EventCount::new()));
        let offer = |shared: &Arc<(BatchQueue<u32>, EventCount)>, item| {
            if shared.0.offer(item) == Enqueued::Ring {
                shared.1.notify_one();
            }
        };
        let consumer = {
            let shared = Arc::clone(&shared);
            thread::spawn(move || {
                let (queue, bell) = &*shared;
                let sleep = |wanted| {
                    let ticket = bell.prepare_wait();
                    if queue.arm(wanted) {
                        bell.wait(&ticket);
                        queue.disarm();
                    } else {
                        bell.cancel_wait(ticket);
                    }
                };
                // A batch of two, and then the close: these are its only wake-ups.
                while queue.len() < 2 {
                    sleep(2);
                }
                let mut taken: Vec<u32> = std::iter::from_fn(|| queue.take()).collect();
                while !queue.is_closed() {
                    sleep(2);
                }
                taken.extend(std::iter::from_fn(|| queue.take()));
                taken
            })
        };
        let producer = {
            let shared = Arc::clone(&shared);
            thread::spawn(move || offer(&shared, 1))
        };
        offer(&shared, 2);
        producer.join().unwrap();
        shared.0.close();
        shared.1.notify_all();
        let mut taken = consumer.join().unwrap();
        taken.sort_unstable();
        assert_eq!((taken, shared.0.dropped_total()), (vec![1, 2], 0));
    });
}
