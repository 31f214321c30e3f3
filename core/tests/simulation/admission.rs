//! The state machines of admission under thousands of random histories, with a simulated clock.
//!
//! Each is compared with a smaller model of its rules that counts in plain integers; properties that a model could get
//! wrong in the same way (bounds, sums, order) are checked separately. A failure names its seed, and a seed replays its
//! history.

use std::cell::Cell;
use std::collections::VecDeque;
use std::time::{Duration, Instant};

use svc_core::admission::{
    BudgetController, BudgetSample, Gate, OfferOutcome, Offered, Refusals, ShedReason, SheddingEpisodes,
    SheddingReport, Ticket, WaitingLimits,
};
use svc_core::policy::rate_table::{RateDecision, RateTable};
use svc_core::pool::{StallDetector, StallReport, StallSample};
use svc_core::time;

use svc_testing::dice::Dice;

/// The number of histories of each machine.
const SEEDS: u64 = 5000;

/// A simulated clock in milliseconds.
struct SecondClock {
    start: Instant,
    ms: u64,
}

impl SecondClock {
    fn new() -> Self {
        Self { start: time::now(), ms: 0 }
    }

    /// Advances to the next tick: a second later, or somewhat more on a busy machine.
    fn second(&mut self, dice: &mut Dice) {
        self.ms += if dice.one_in(8) { 1000 + dice.below(2000) } else { 1000 };
    }

    fn now(&self) -> Instant {
        self.start + Duration::from_millis(self.ms)
    }
}

/// A model of the wait budget, in nanoseconds.
struct BudgetModel {
    ceiling: u128,
    floor: u128,
    budget: u128,
    started: u64,
    abandoned: u64,
}

impl BudgetModel {
    fn new(ceiling: Duration) -> Self {
        let ceiling = ceiling.as_nanos();
        let floor = if ceiling < 10_000_000 { ceiling } else { (ceiling / 64).max(10_000_000) };
        Self { ceiling, floor, budget: ceiling, started: 0, abandoned: 0 }
    }

    /// Applies a tick: the numbers of requests started and abandoned since the last one.
    fn tick(&mut self, started: u64, abandoned: u64, backlog: bool) -> u128 {
        self.started += started;
        self.abandoned += abandoned;
        let quarter = self.started > 0 && self.abandoned * 4 >= self.started;
        match (self.started >= 8, quarter, backlog) {
            (true, true, _) => self.budget = self.floor.max(self.budget / 2),
            (_, false, false) => self.budget = self.ceiling.min(self.budget + self.ceiling / 8),
            (true, false, true) => {}
            (false, _, _) => return self.budget,
        }
        (self.started, self.abandoned) = (0, 0);
        self.budget
    }
}

#[test]
fn the_wait_budget_follows_its_rules() {
    for seed in 1..=SEEDS {
        let mut dice = Dice::new(seed);
        let ceiling = Duration::from_millis([0, 1, 10, 100, 640, 1000, 30_000][dice.below(7) as usize]);
        let (mut machine, mut model) = (BudgetController::new(ceiling), BudgetModel::new(ceiling));
        let (mut sample, mut before) = (BudgetSample::default(), ceiling);
        let (mut load, mut leavers) = (0, 0);
        for step in 0..200 {
            if dice.one_in(10) {
                (load, leavers) = ([0, 1, 3, 9, 500][dice.below(5) as usize], dice.below(5));
            }
            let started = dice.below(load + 1);
            let abandoned = if leavers == 0 { 0 } else { dice.below(started * leavers / 4 + 1).min(started) };
            sample.started += started;
            sample.abandoned += abandoned;
            sample.has_backlog = load > 3 && !dice.one_in(4);
            let budget = machine.tick(sample);
            let context = format!("seed {seed}, step {step}: {sample:?}, {before:?} -> {budget:?}");
            assert_eq!(budget.as_nanos(), model.tick(started, abandoned, sample.has_backlog), "{context}");
            assert!(model.floor <= budget.as_nanos() && budget <= ceiling, "{context}");
            assert!(budget >= before / 2, "halved twice in one tick; {context}");
            assert!(budget <= before || !sample.has_backlog, "up while work waits; {context}");
            before = budget;
        }
    }
}

#[test]
fn a_pool_that_starts_nothing_keeps_its_budget_while_work_waits() {
    for seed in 1..=SEEDS {
        let mut dice = Dice::new(seed);
        let mut machine = BudgetController::new(Duration::from_secs(1));
        let started = dice.below(100);
        let sample = BudgetSample { started, abandoned: dice.below(started + 1), has_backlog: true };
        let budget = machine.tick(sample);
        assert!((0..50).all(|_| machine.tick(sample) == budget), "seed {seed}: {sample:?}");
    }
}

/// A clean load restores the budget to its ceiling within eight ticks, whatever it was.
#[test]
fn the_wait_budget_recovers_in_eight_quiet_scans() {
    for seed in 1..=SEEDS {
        let mut dice = Dice::new(seed);
        let ceiling = Duration::from_millis(dice.below(60_000));
        let mut machine = BudgetController::new(ceiling);
        let mut sample = BudgetSample { has_backlog: true, ..BudgetSample::default() };
        for _ in 0..dice.below(12) {
            sample.started += 8 + dice.below(100);
            sample.abandoned = sample.started;
            machine.tick(sample);
        }
        sample.has_backlog = false;
        let quiet = (0..9).map(|_| machine.tick(sample)).last();
        assert_eq!(quiet, Some(ceiling), "seed {seed}");
    }
}

/// A model of shedding episodes, in milliseconds; it returns the expected reports.
#[derive(Default)]
struct SheddingModel {
    episode: Option<EpisodeModel>,
}

struct EpisodeModel {
    refused: Refusals,
    began: u64,
    last: u64,
    reported: u64,
}

impl SheddingModel {
    /// Applies a tick: the refusals since the last one.
    fn tick(&mut self, refused: Refusals, ms: u64) -> Option<SheddingReport> {
        let any = refused != Refusals::default();
        match &mut self.episode {
            None if any => {
                self.episode = Some(EpisodeModel { refused, began: ms, last: ms, reported: ms });
                Some(SheddingReport::Started(refused))
            }
            Some(episode) if any => {
                episode.refused = plus(episode.refused, refused);
                episode.last = ms;
                let due = ms - episode.reported >= 60_000;
                episode.reported = if due { ms } else { episode.reported };
                due.then_some(SheddingReport::Continues { refused: sum(refused), episode: episode.refused })
            }
            Some(episode) if ms - episode.last >= 60_000 => {
                let duration = Duration::from_millis(episode.last - episode.began);
                let report = SheddingReport::Stopped { episode: episode.refused, duration };
                self.episode = None;
                Some(report)
            }
            _ => None,
        }
    }
}

fn plus(one: Refusals, other: Refusals) -> Refusals {
    Refusals {
        queue_full: one.queue_full + other.queue_full,
        wait_timeout: one.wait_timeout + other.wait_timeout,
        waiting_full: one.waiting_full + other.waiting_full,
        waiting_bytes: one.waiting_bytes + other.waiting_bytes,
    }
}

fn sum(refused: Refusals) -> u64 {
    [refused.queue_full, refused.wait_timeout, refused.waiting_full, refused.waiting_bytes].iter().sum()
}

#[test]
fn shedding_episodes_follow_their_rules() {
    let mut episodes = 0;
    for seed in 1..=SEEDS {
        let (mut dice, mut clock) = (Dice::new(seed), SecondClock::new());
        let (mut machine, mut model) = (SheddingEpisodes::default(), SheddingModel::default());
        let mut totals = Refusals::default();
        let (mut closed, mut lines, mut rarely) = (0, Vec::new(), 1);
        for step in 0..400 {
            clock.second(&mut dice);
            if dice.one_in(30) {
                rarely = [1, 3, 40, 1000][dice.below(4) as usize];
            }
            let mut some = || if dice.one_in(rarely * 2) { 1 + dice.below(1000) } else { 0 };
            let refused = Refusals {
                queue_full: some(),
                wait_timeout: some(),
                waiting_full: some(),
                waiting_bytes: some(),
            };
            totals = plus(totals, refused);
            let report = machine.tick(totals, clock.now());
            assert_eq!(report, model.tick(refused, clock.ms), "seed {seed}, step {step}");
            if report.is_some() {
                lines.push(clock.ms);
            }
            if let Some(SheddingReport::Stopped { episode, .. }) = report {
                closed += sum(episode);
                episodes += 1;
                assert_eq!(closed, sum(totals), "seed {seed}, step {step}: refusals outside of episodes");
            }
        }
        let crowd = lines.windows(3).find(|three| three[2] - three[0] < 60_000);
        assert_eq!(crowd, None, "seed {seed}: three records within a minute");
    }
    assert!(episodes > SEEDS / 2, "{episodes} episodes have ended");
}

/// A model of the stall detection, in milliseconds.
#[derive(Default)]
struct StallModel {
    last: Option<StallSample>,
    /// The number of consecutive suspect ticks before the first warning.
    streak: u32,
    warned: Option<u64>,
    /// Since when every tick after the warning was suspect.
    held: Option<u64>,
    looked: u64,
    stalled: bool,
}

impl StallModel {
    fn tick(&mut self, sample: StallSample, ms: u64) -> Option<StallReport> {
        let last = self.last.replace(sample)?;
        if sample.finished != last.finished {
            let report = self.warned.map(|_| StallReport::Recovered);
            *self = Self { last: self.last, ..Self::default() };
            return report;
        }
        let waits = sample.queued > 0 || sample.refused != last.refused;
        if !(waits && sample.workers_idle > 0 && sample.finished > 0) {
            (self.streak, self.held) = (0, None);
            if self.stalled && ms - self.looked >= 60_000 {
                *self = Self { last: self.last, ..Self::default() };
            }
            return None;
        }
        self.looked = ms;
        self.streak += 1;
        if self.warned.is_some() {
            self.stalled |= ms - *self.held.get_or_insert(ms) >= 60_000;
        } else if self.streak == 2 {
            self.held = Some(ms);
        } else {
            return None;
        }
        let due = self.warned.is_none_or(|warned| ms - warned >= 60_000);
        due.then(|| {
            self.warned = Some(ms);
            StallReport::Warning
        })
    }
}

#[test]
fn a_stalled_pool_is_found_by_its_rules() {
    let (mut stalls, mut quiet_ends, mut recoveries) = (0, 0, 0);
    for seed in 1..=SEEDS {
        let (mut dice, mut clock) = (Dice::new(seed), SecondClock::new());
        let (mut machine, mut model) = (StallDetector::default(), StallModel::default());
        let mut sample = StallSample::default();
        let (mut works, mut waits, mut idles) = (1, 2, 2);
        for step in 0..500 {
            clock.second(&mut dice);
            if dice.one_in(90) {
                // From a pool that finishes work at each tick to one that hardly ever does.
                works = [1, 4, 100, 100_000][dice.below(4) as usize];
                waits = [1, 1, 50, 100_000, 100_000][dice.below(5) as usize];
                idles = [1, 200][dice.below(2) as usize];
            }
            sample.finished += u64::from(dice.one_in(works));
            // Waiting work is queued, or refused, or both.
            let waiting = if dice.one_in(waits) { 0 } else { 1 + dice.below(3) };
            sample.queued = waiting & 1;
            sample.refused += waiting >> 1;
            sample.workers_idle = if dice.one_in(idles * 3) { 0 } else { 1 };
            let was_stalled = machine.is_stalled();
            let report = machine.tick(sample, clock.now());
            let context = format!("seed {seed}, step {step}: {sample:?}");
            assert_eq!(report, model.tick(sample, clock.ms), "{context}");
            assert_eq!(machine.is_stalled(), model.stalled, "{context}");
            assert!(!machine.is_stalled() || sample.finished > 0, "before the first result; {context}");
            stalls += u32::from(!was_stalled && machine.is_stalled());
            let ended = was_stalled && !machine.is_stalled();
            recoveries += u32::from(ended && report == Some(StallReport::Recovered));
            quiet_ends += u32::from(ended && report.is_none());
        }
    }
    // A simulation that never reaches these states proves nothing.
    let seen = format!("{stalls} stalls, {recoveries} recoveries, {quiet_ends} quiet ends");
    assert!(stalls > 100 && recoveries > 100 && quiet_ends > 100, "the histories miss something: {seen}");
}

/// A request offered to the gate.
#[derive(Debug)]
struct OfferedRequest {
    name: usize,
    bytes: u64,
    answered: Cell<bool>,
}

impl Offered for &OfferedRequest {
    fn parked_bytes(&self) -> u64 {
        self.bytes
    }

    fn promote(&self) -> bool {
        !self.answered.get()
    }

    fn park(&self) {}
}

/// A model of the gate: two lists.
struct GateModel<'a> {
    capacity: usize,
    limits: WaitingLimits,
    fail_fast: bool,
    closed: bool,
    queue: VecDeque<&'a OfferedRequest>,
    waiting: VecDeque<&'a OfferedRequest>,
}

impl<'a> GateModel<'a> {
    /// Returns the result of an offer; `Ok` with whether it went straight into the queue.
    fn offer(&mut self, request: &'a OfferedRequest) -> Result<bool, ShedReason> {
        let parked: u64 = self.waiting.iter().map(|one| one.bytes).sum();
        if self.closed {
            return Err(ShedReason::ShuttingDown);
        }
        if self.waiting.is_empty() && self.queue.len() < self.capacity {
            self.queue.push_back(request);
            return Ok(true);
        }
        if self.fail_fast {
            return Err(ShedReason::QueueFull);
        }
        if self.waiting.len() == self.limits.count_max {
            return Err(ShedReason::WaitingFull);
        }
        if request.bytes > 0 && parked + request.bytes > self.limits.bytes_max {
            return Err(ShedReason::WaitingBytes);
        }
        self.waiting.push_back(request);
        Ok(false)
    }

    fn take(&mut self) -> Option<&'a OfferedRequest> {
        let taken = self.queue.pop_front()?;
        while !self.closed && self.queue.len() < self.capacity {
            let Some(next) = self.waiting.pop_front() else { break };
            if !next.answered.get() {
                self.queue.push_back(next);
            }
        }
        Some(taken)
    }
}

/// The gate, its model, and the waiting requests.
struct GateScene<'a> {
    gate: Gate<&'a OfferedRequest>,
    model: GateModel<'a>,
    tickets: Vec<(Ticket, &'a OfferedRequest)>,
    taken: Vec<usize>,
}

impl<'a> GateScene<'a> {
    fn new(dice: &mut Dice) -> Self {
        let capacity = 1 + dice.below(6) as usize;
        let limits = WaitingLimits { count_max: dice.below(6) as usize, bytes_max: dice.below(60) };
        let fail_fast = dice.one_in(5);
        let ceiling = if fail_fast { Duration::ZERO } else { Duration::from_secs(1) };
        let (queue, waiting) = (VecDeque::new(), VecDeque::new());
        let model = GateModel { capacity, limits, fail_fast, closed: false, queue, waiting };
        Self { gate: Gate::new(capacity, 1, limits, ceiling), model, tickets: Vec::new(), taken: Vec::new() }
    }

    fn offer(&mut self, request: &'a OfferedRequest, context: &str) {
        let expected = self.model.offer(request);
        let said = self.gate.offer(request);
        self.gate.announce();
        match (said, expected) {
            (OfferOutcome::Queued, Ok(true)) => {}
            (OfferOutcome::Waiting(ticket), Ok(false)) => self.tickets.push((ticket, request)),
            (OfferOutcome::Refused(reason), Err(expected)) => assert_eq!(reason, expected, "{context}"),
            (said, expected) => panic!("{context}: {said:?} instead of {expected:?}"),
        }
    }

    fn take(&mut self, context: &str) {
        let Some(expected) = self.model.take() else {
            assert!(self.gate.try_take().is_none(), "{context}");
            return;
        };
        let taken = self.gate.try_take().map(|request| request.name);
        assert_eq!(taken, Some(expected.name), "{context}");
        self.taken.push(expected.name);
    }

    /// Answers a request that waits or has waited; sometimes the gate is notified late or twice.
    fn leave(&mut self, dice: &mut Dice) {
        if self.tickets.is_empty() {
            return;
        }
        let (ticket, request) = self.tickets[dice.below(self.tickets.len() as u64) as usize];
        request.answered.set(true);
        if !dice.one_in(3) {
            self.model.waiting.retain(|one| one.name != request.name);
            self.gate.leave(ticket);
        }
    }

    fn check(&self, context: &str) {
        let (facts, model) = (self.gate.facts(), &self.model);
        assert_eq!((facts.depth, facts.waiting), (model.queue.len(), model.waiting.len()), "{context}");
        assert_eq!(facts.slots_available + facts.depth, facts.capacity, "{context}");
        assert!(facts.waiting == 0 || facts.slots_available == 0 || model.closed, "{context}");
        assert!(self.taken.is_sorted(), "{context}: overtaken: {:?}", self.taken);
    }
}

#[test]
fn the_gate_follows_its_rules() {
    for seed in 1..=SEEDS {
        let mut dice = Dice::new(seed);
        let requests: Vec<_> = (0..120)
            .map(|name| OfferedRequest {
                name,
                bytes: dice.below(3) * dice.below(20),
                answered: Cell::new(false),
            })
            .collect();
        let mut scene = GateScene::new(&mut dice);
        let mut offered = requests.iter();
        let mut eager = 2;
        for step in 0..250 {
            let context = format!("seed {seed}, step {step}");
            if dice.one_in(20) {
                eager = 1 + dice.below(4);
            }
            match dice.below(6) {
                5 if dice.one_in(60) => {
                    scene.gate.stop_admitting();
                    scene.model.closed = true;
                }
                4 | 5 => scene.leave(&mut dice),
                roll if roll < eager => {
                    if let Some(request) = offered.next() {
                        scene.offer(request, &context);
                    }
                }
                _ => scene.take(&context),
            }
            scene.check(&context);
        }
        // The queue is drained, and every permit is returned.
        while !scene.model.queue.is_empty() {
            scene.take(&format!("seed {seed}, at the end"));
        }
        scene.check(&format!("seed {seed}, at the end"));
        let facts = scene.gate.facts();
        assert_eq!(facts.slots_available, facts.capacity, "seed {seed}: a permit was lost");
    }
}

/// A model of the rate limiter for one client: an allowance that refills over time.
#[derive(Clone, Copy)]
struct Allowance {
    /// The remaining allowance, in ticks, at time `at`.
    left: u64,
    at: u64,
}

impl Allowance {
    fn take(&mut self, full: u64, now: u64) -> bool {
        self.left = full.min(self.left + (now - self.at));
        self.at = now;
        let is_granted = self.left >= 16;
        if is_granted {
            self.left -= 16;
        }
        is_granted
    }
}

#[test]
fn the_rate_limiter_follows_its_rule_while_its_table_has_room() {
    for seed in 1..=SEEDS / 10 {
        let mut dice = Dice::new(seed);
        let requests = [1, 2, 3, 10, 1000][dice.below(5) as usize];
        let full = requests * 16;
        // Sixteen clients fill a set that no other client uses.
        let (table, mut now) = (RateTable::new(1, requests, 100), dice.below(1 << 40));
        let mut allowances = [Allowance { left: full, at: now }; 16];
        for step in 0..400 {
            if dice.one_in(3) {
                let pause = [2, 20, 3 * full][dice.below(3) as usize];
                now += dice.below(pause);
            }
            let client = dice.below(16);
            let take = table.take((client + 1) << 40 | 1 << 20, now);
            let allowance = &mut allowances[client as usize];
            let is_granted = allowance.take(full, now);
            let expected = if is_granted {
                RateDecision::Granted { used: full - allowance.left }
            } else {
                RateDecision::Refused { wait: 16 - allowance.left }
            };
            assert_eq!(take, expected, "seed {seed}, step {step}");
        }
    }
}

#[test]
fn a_full_table_of_the_rate_limiter_keeps_exceeded_limits() {
    for seed in 1..=SEEDS / 100 {
        let mut dice = Dice::new(seed);
        let (table, mut now) = (RateTable::new(4, 10, 100), dice.below(1 << 40));
        let (rude, mut granted) = (dice.roll(), 0);
        let began = now;
        for _ in 0..2000 {
            now += dice.below(4);
            // One request each from other clients: far more clients than the table has entries.
            table.take(dice.roll() << 24 ^ dice.roll(), now);
            let is_granted = matches!(table.take(rude, now), RateDecision::Granted { .. });
            granted += u64::from(is_granted);
        }
        let bound = 10 + (now - began) / 16 + 1;
        assert!(granted <= bound, "seed {seed}: {granted} of {bound}");
    }
}
