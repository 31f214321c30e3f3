//! The path of spans from their queue to a collector under thousands of random histories, on a simulated clock: the
//! queue, the batches and the retries together, driven like the exporter's thread drives them.
//!
//! A failure names its seed, and a seed replays its history.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use svc_core::config::BatchConfig;
use svc_core::otlp::{
    AfterAttempt, AttemptEnd, BatchStep, Batcher, Export, ExportTimeouts, RetryAdvice, RetryRules,
};
use svc_core::sync::batch_queue::{BatchQueue, Enqueued};
use svc_core::time;

use svc_testing::dice::Dice;

const SEEDS: u64 = 5000;
const STEPS: u64 = 200;

/// A span: its number, and when it was offered.
type SpanModel = (u64, Instant);

struct World {
    dice: Dice,
    now: Instant,
    config: BatchConfig,
    timeouts: ExportTimeouts,
    rules: RetryRules,
    queue: BatchQueue<SpanModel>,
    batcher: Batcher,
    /// The exporter sleeps until this time, or until it is rung.
    asleep: Option<Option<Instant>>,
    /// When the exporter last did anything other than check its queue.
    busy_until: Instant,
    /// The collector has asked for no export before this time.
    held_until: Instant,
    /// The expected content of the queue, in order.
    model: VecDeque<u64>,
    offered: u64,
    /// How many of them arrived during exports.
    meanwhile: u64,
    dropped: u64,
    taken: u64,
}

impl World {
    fn new(seed: u64) -> Self {
        let mut dice = Dice::new(seed);
        let now = time::now();
        let queue_items_max = 1 + dice.below(20) as usize;
        let config = BatchConfig {
            schedule_delay: Duration::from_millis(dice.below(3) * dice.below(5000)),
            export_timeout: (!dice.one_in(4)).then(|| Duration::from_millis(1 + dice.below(30_000))),
            queue_items_max,
            batch_items_max: 1 + dice.below(queue_items_max as u64) as usize,
        };
        let attempt = (!dice.one_in(4)).then(|| Duration::from_millis(1 + dice.below(10_000)));
        Self {
            timeouts: ExportTimeouts { attempt, export: config.export_timeout },
            rules: if dice.one_in(2) { RetryRules::Once } else { RetryRules::Backoff { seed } },
            queue: BatchQueue::new(queue_items_max),
            batcher: Batcher::new(&config),
            dice,
            now,
            config,
            asleep: None,
            busy_until: now,
            held_until: now,
            model: VecDeque::new(),
            offered: 0,
            meanwhile: 0,
            dropped: 0,
            taken: 0,
        }
    }

    /// Ends a request.
    fn offer(&mut self) {
        self.offered += 1;
        let offered = self.queue.offer((self.offered, self.now));
        if self.queue.is_closed() || self.model.len() == self.config.queue_items_max {
            assert_eq!(offered, Enqueued::Dropped);
            self.dropped += 1;
            return;
        }
        self.model.push_back(self.offered);
        match offered {
            Enqueued::Dropped => panic!("there was room"),
            Enqueued::Ring => {
                assert!(self.asleep.is_some(), "no thread sleeps");
                self.asleep = None;
            }
            Enqueued::Queued => {}
        }
    }

    /// Runs the exporter until it sleeps or ends; returns false at its end.
    fn turn(&mut self) -> bool {
        loop {
            match self.batcher.next(self.queue.len(), self.queue.is_closed(), self.now) {
                BatchStep::End => return false,
                BatchStep::Export(spans) => self.export(spans),
                BatchStep::Sleep { items, until } => {
                    if self.queue.arm(items) {
                        assert!(until.is_none_or(|until| until > self.now), "a sleep that is over");
                        assert_eq!(until.is_none(), self.model.is_empty(), "something waits, or nothing");
                        self.asleep = Some(until);
                        return true;
                    }
                }
            }
        }
    }

    fn export(&mut self, spans: usize) {
        assert!((1..=self.config.batch_items_max).contains(&spans));
        assert_eq!(spans, self.model.len().min(self.config.batch_items_max), "as many as there are");
        for _ in 0..spans {
            let (number, offered) = self.queue.take().expect("as many as were there");
            assert_eq!(Some(number), self.model.pop_front(), "in order");
            let waited = self.now - offered.max(self.busy_until).max(self.held_until).min(self.now);
            assert!(waited <= self.config.schedule_delay, "{number} has waited for {waited:?}");
            self.taken += 1;
        }
        self.attempts();
        self.busy_until = self.now;
    }

    /// Runs the attempts of an export, while requests continue to end.
    fn attempts(&mut self) {
        let began = self.now;
        let mut export = Export::begin(self.timeouts, self.rules, began);
        for attempt in 1.. {
            let attempt_began = self.now;
            let limit = export.deadline();
            let mut took = Duration::from_millis(self.dice.below(2) * self.dice.below(2500));
            let end = match self.dice.below(4) {
                _ if limit.is_some_and(|limit| attempt_began + took >= limit) => {
                    took = limit.unwrap() - attempt_began;
                    AttemptEnd::TimedOut
                }
                0 | 1 => AttemptEnd::Lost,
                2 => AttemptEnd::Refused(match self.dice.below(3) {
                    0 => RetryAdvice::Never,
                    1 => RetryAdvice::Later,
                    _ => RetryAdvice::After(Duration::from_secs(self.dice.below(40))),
                }),
                _ => AttemptEnd::Accepted,
            };
            self.now += took;
            // An exporter of single spans must terminate.
            for _ in 0..self.dice.below(4).min(STEPS.saturating_sub(self.meanwhile)) {
                self.meanwhile += 1;
                self.offer();
            }
            // The rules as documented.
            let half = self.timeouts.attempt.map_or(Duration::MAX, |timeout| timeout / 2);
            let may_retry = match self.rules {
                RetryRules::Once => {
                    attempt == 1 && end == AttemptEnd::Lost && took <= half.min(Duration::from_secs(1))
                }
                RetryRules::Backoff { .. } => {
                    !matches!(end, AttemptEnd::Accepted | AttemptEnd::Refused(RetryAdvice::Never))
                }
            };
            let total = match self.rules {
                RetryRules::Once => self.timeouts.export.unwrap_or(Duration::MAX),
                RetryRules::Backoff { .. } => self.timeouts.export.unwrap_or(Duration::from_secs(60)),
            };
            match export.ended(end, self.now) {
                AfterAttempt::Retry(at) => {
                    assert!(may_retry && at >= self.now);
                    match (self.rules, end) {
                        (RetryRules::Once, _) => assert_eq!(at, self.now),
                        (_, AttemptEnd::Refused(RetryAdvice::After(pause))) => {
                            assert!(at >= self.now + pause.max(Duration::from_millis(750)));
                        }
                        _ => assert!(at - self.now >= Duration::from_millis(750)),
                    }
                    self.now = at;
                }
                AfterAttempt::Delivered => return assert_eq!(end, AttemptEnd::Accepted),
                AfterAttempt::Failed { not_before } => {
                    assert_ne!(end, AttemptEnd::Accepted);
                    if let Some(until) = not_before {
                        self.batcher.hold(until);
                        self.held_until = until;
                    }
                    let has_backoff = self.rules != RetryRules::Once;
                    return assert!(!may_retry || has_backoff, "a second attempt was due");
                }
            }
            assert!(self.now - began < total, "all attempts share the time");
        }
    }

    fn run(&mut self) {
        assert!(self.turn());
        for _ in 0..STEPS {
            if self.dice.one_in(2) {
                self.offer();
            } else {
                self.now += Duration::from_millis(self.dice.below(4) * self.dice.below(2000));
            }
            // Time advances to the alarm, not beyond it.
            if let Some(Some(until)) = self.asleep
                && self.now >= until
            {
                self.now = until;
                self.asleep = None;
                self.queue.disarm();
            }
            if self.asleep.is_none() {
                assert!(self.turn());
            }
        }
        self.queue.close();
        assert!(!self.turn(), "at the end everything goes");
        assert_eq!(self.taken + self.dropped, self.offered);
        assert_eq!(self.queue.dropped_total(), self.dropped);
    }
}

#[test]
fn each_span_is_exported_in_time_or_dropped_and_exports_keep_to_the_rules() {
    for seed in 0..SEEDS {
        let history = std::panic::catch_unwind(|| World::new(seed).run());
        assert!(history.is_ok(), "seed {seed}");
    }
}
