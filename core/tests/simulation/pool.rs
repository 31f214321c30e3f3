//! A pool of variable size under hundreds of random days, on a simulated clock.
//!
//! A smaller model runs workers and work in steps of 10 ms and follows the rules; properties that a model could get
//! wrong in the same way are checked separately: bounds, that no busy worker is retired, that bursts are covered at
//! once, and that a quiet pool returns to its minimum. A failure names its seed, and a seed replays its history.

use std::time::{Duration, Instant};

use svc_core::pool::{
    Backoff, IdleWorker, OpcacheFacts, PoolSize, Renewal, RenewalSample, RenewalStep, Scale, Scaling,
    ScalingSample, SpawnLimit,
};
use svc_core::time;

use svc_testing::dice::Dice;

/// The number of histories.
const SEEDS: u64 = 150;

/// One step of time.
const STEP_MS: u64 = 10;

/// A worker of the model; times in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum WorkerModel {
    Booting { until: u64 },
    Busy { until: u64 },
    Idle { since: u64 },
}

struct PoolModel {
    size: PoolSize,
    idle_max: Duration,
    scaling: Scaling,
    workers: Vec<Option<WorkerModel>>,
    waiting: usize,
    boot_ms: u64,
    now: u64,
    spawned: u64,
    retired: u64,
}

impl PoolModel {
    fn new(dice: &mut Dice) -> Self {
        let min = 1 + dice.below(4) as usize;
        let size = PoolSize { min, max: min + dice.below(9) as usize };
        let idle_max = Duration::from_millis(100 * (1 + dice.below(30)));
        Self {
            size,
            idle_max,
            scaling: Scaling::new(size, idle_max),
            workers: vec![None; size.max],
            waiting: 0,
            boot_ms: STEP_MS * dice.below(10),
            now: 0,
            spawned: 0,
            retired: 0,
        }
    }

    fn active(&self) -> usize {
        self.workers.iter().flatten().count()
    }

    fn sample(&self) -> ScalingSample {
        let workers = self.workers.iter().enumerate();
        let idle = workers.filter_map(|(slot, worker)| match worker {
            Some(WorkerModel::Idle { since }) => {
                Some(IdleWorker { slot, idle_for: Duration::from_millis(self.now - since) })
            }
            _ => None,
        });
        let is_booting = |worker: &&WorkerModel| matches!(worker, WorkerModel::Booting { .. });
        ScalingSample {
            active: self.active(),
            booting: self.workers.iter().flatten().filter(is_booting).count(),
            idle: idle.collect(),
            waiting: self.waiting,
        }
    }

    /// Advances the time: boots and requests end, idle workers take waiting work.
    fn advance(&mut self, dice: &mut Dice, load_ms: u64) {
        self.now += STEP_MS;
        for worker in self.workers.iter_mut().flatten() {
            if let WorkerModel::Booting { until } | WorkerModel::Busy { until } = *worker
                && until <= self.now
            {
                *worker = WorkerModel::Idle { since: self.now };
            }
            if self.waiting > 0 && matches!(worker, WorkerModel::Idle { .. }) {
                self.waiting -= 1;
                *worker = WorkerModel::Busy { until: self.now + STEP_MS * (1 + dice.below(load_ms)) };
            }
        }
    }

    /// Calls the machine, checks its decision, and carries it out.
    fn tend(&mut self, context: &str) {
        let sample = self.sample();
        let scale = self.scaling.decide(&sample);
        let context = format!("{context}: {:?}, {sample:?} -> {scale:?}", self.size);
        assert_eq!(scale, self.rules(&sample), "{context}");
        for slot in &scale.retire {
            let worker = self.workers[*slot].take();
            let Some(WorkerModel::Idle { since }) = worker else { panic!("{worker:?} is in use; {context}") };
            assert!(Duration::from_millis(self.now - since) >= self.idle_max, "too soon; {context}");
        }
        self.retired += scale.retire.len() as u64;
        for _ in 0..scale.spawn {
            let vacant = self.workers.iter().position(Option::is_none);
            let slot = vacant.unwrap_or_else(|| panic!("no room; {context}"));
            self.workers[slot] = Some(WorkerModel::Booting { until: self.now + self.boot_ms });
        }
        self.spawned += scale.spawn as u64;
        assert!((self.size.min..=self.size.max).contains(&self.active()), "{context}");
        let sample = self.sample();
        let is_covered = sample.waiting <= sample.booting || !sample.idle.is_empty();
        assert!(is_covered || sample.active == self.size.max, "a worker could start; {context}");
    }

    /// Applies the rules, written out.
    fn rules(&self, sample: &ScalingSample) -> Scale {
        let mut scale = Scale::default();
        let mut active = sample.active;
        while active < self.size.min {
            (scale.spawn, active) = (scale.spawn + 1, active + 1);
        }
        if sample.active >= self.size.min && sample.idle.is_empty() {
            let mut booting = sample.booting;
            while booting < sample.waiting && active < self.size.max {
                (scale.spawn, active, booting) = (scale.spawn + 1, active + 1, booting + 1);
            }
        }
        if scale.spawn == 0 && sample.waiting == 0 {
            let mut idle = sample.idle.clone();
            while active > self.size.min {
                let longest = idle.iter().copied().max_by_key(|worker| (worker.idle_for, worker.slot));
                let Some(worker) = longest.filter(|worker| worker.idle_for >= self.idle_max) else { break };
                idle.retain(|one| *one != worker);
                scale.retire.push(worker.slot);
                active -= 1;
            }
        }
        scale
    }
}

#[test]
fn a_pool_of_changing_size_follows_its_rules() {
    let (mut spawned, mut retired, mut full) = (0, 0, 0);
    for seed in 1..=SEEDS {
        let mut dice = Dice::new(seed);
        let mut pool = PoolModel::new(&mut dice);
        let (mut arrivals, mut load) = (0, 1);
        for step in 0..2000 {
            if dice.one_in(150) {
                (arrivals, load) = ([0, 0, 1, 3, 40][dice.below(5) as usize], 1 + dice.below(40));
            }
            pool.advance(&mut dice, load);
            if dice.one_in(4) {
                pool.waiting += dice.below(arrivals + 1) as usize;
            }
            // A worker dies occasionally.
            if dice.one_in(400) {
                let slot = dice.below(pool.size.max as u64) as usize;
                pool.workers[slot] = None;
            }
            // Called when work finds no idle worker, and once a second.
            let is_called = pool.waiting > 0 && pool.sample().idle.is_empty();
            if is_called || pool.active() < pool.size.min || step % 100 == 0 {
                pool.tend(&format!("seed {seed}, step {step}"));
            }
            full += u64::from(pool.active() == pool.size.max && pool.size.max > pool.size.min);
        }
        // The day is over: the remaining work is done, and the pool shrinks to its minimum.
        for step in 0..8_000 {
            pool.advance(&mut dice, 1);
            if step % 100 == 0 || pool.active() < pool.size.min {
                pool.tend(&format!("seed {seed}, evening {step}"));
            }
        }
        assert_eq!((pool.active(), pool.waiting), (pool.size.min, 0), "seed {seed}");
        (spawned, retired) = (spawned + pool.spawned, retired + pool.retired);
    }
    // A simulation that never reaches these states proves nothing.
    assert!(
        spawned > 1000 && retired > 1000 && full > 1000,
        "{spawned} spawned, {retired} retired, {full} full"
    );
}

/// Boots fail for a while and then succeed: attempts become rare, and none is premature.
#[test]
fn a_pool_that_does_not_boot_never_spins() {
    for seed in 1..=SEEDS {
        let mut dice = Dice::new(seed);
        let (mut backoff, start) = (Backoff::default(), time::now());
        let at = |ms: u64| start + Duration::from_millis(ms);
        let trouble_ms = 1000 + dice.below(600_000);
        let (mut attempts, mut since_last, mut pause) = (Vec::new(), 0, 0);
        let mut booting: Option<u64> = None;
        for ms in (0..trouble_ms).step_by(10) {
            since_last += 10;
            if booting.is_some_and(|until| until <= ms) {
                booting = None;
                pause = backoff.failed(at(ms)).map_or(0, |pause| pause.as_millis() as u64);
                since_last = 0;
                assert!(pause > 0, "seed {seed}: a failure of the only attempt begins a pause");
                if dice.one_in(3) {
                    assert_eq!(backoff.failed(at(ms)), None, "seed {seed}: one that failed with it does not");
                }
            }
            if booting.is_none() && backoff.spawn_limit(at(ms)) != SpawnLimit::None {
                assert!(since_last >= pause, "seed {seed}: {since_last} ms after a pause of {pause}");
                backoff.tried();
                booting = Some(ms + 10 + dice.below(300));
                attempts.push(ms);
            }
        }
        // From 100 ms on, each pause is twice the previous one, up to 30 s.
        let bound = 10 + trouble_ms / 30_000;
        assert!(
            attempts.len() as u64 <= bound,
            "seed {seed}: {} attempts in {trouble_ms} ms",
            attempts.len()
        );
        assert!(backoff.booted() > 0, "seed {seed}");
        assert_eq!((backoff.spawn_limit(at(0)), backoff.deadline()), (SpawnLimit::Any, None::<Instant>));
    }
}

/// Workers that share a cache: each uses it or not, and a replaced one lingers for a while.
#[derive(Default)]
struct Company {
    renewal: Renewal,
    /// Whether each active worker uses the cache.
    active: Vec<bool>,
    /// The same for lingering workers, and when they end.
    lingering: Vec<(bool, u64)>,
    is_stale: bool,
    renewals: u64,
    /// The number of active workers still to be replaced.
    to_restart: usize,
    restarts: Vec<u64>,
    held: u64,
}

impl Company {
    fn users(&self) -> usize {
        let lingering = self.lingering.iter().filter(|(uses, _)| *uses);
        self.active.iter().filter(|uses| **uses).count() + lingering.count()
    }

    /// Boots a worker; the state of the cache at this time decides whether it uses it.
    fn boot(&mut self) -> bool {
        if self.is_stale && self.users() == 0 {
            (self.is_stale, self.renewals) = (false, self.renewals + 1);
        }
        !self.is_stale
    }

    /// Advances by 100 ms; `breaks` makes new workers fail to boot, `long` is the maximum time that old ones linger.
    fn step(&mut self, dice: &mut Dice, now: u64, at: Instant, breaks: bool, long: u64) {
        self.lingering.retain(|(_, until)| *until > now);
        if self.to_restart > 0 && breaks {
            self.to_restart = 0;
            self.renewal.stopped(at);
        } else if self.to_restart > 0 {
            let new = self.boot();
            let old = std::mem::replace(&mut self.active[self.to_restart - 1], new);
            self.lingering.push((old, now + dice.below(long)));
            self.to_restart -= 1;
        }
        if dice.one_in(60) {
            // One ends and is replaced.
            let one = dice.below(self.active.len() as u64) as usize;
            self.active[one] = false;
            self.active[one] = self.boot();
        }
        if self.to_restart > 0 {
            return;
        }
        let active_users = self.active.iter().filter(|uses| **uses).count();
        let sample = RenewalSample {
            cache: OpcacheFacts { is_stale: self.is_stale, users: self.users(), is_occupied: false },
            active_users,
            active_uncached: self.active.len() - active_users,
            is_behind: false,
        };
        match self.renewal.decide(sample, at) {
            Some(RenewalStep::Restart) => {
                assert!(self.is_stale || sample.active_uncached > 0, "for nothing: {sample:?}");
                (self.to_restart, self.restarts) = (self.active.len(), [&self.restarts[..], &[now]].concat());
            }
            Some(RenewalStep::Held) => {
                assert!(self.is_stale && self.users() > 0 && active_users == 0, "no user: {sample:?}");
                self.held += 1;
            }
            None => {}
        }
    }
}

/// The cache becomes stale now and then, workers come and go, some linger for long, some fail to boot: in the end all
/// use a fresh one, and the pool never restarts endlessly.
#[test]
fn a_cache_is_renewed_in_the_end_and_never_without_end() {
    let (mut renewals, mut held) = (0, 0);
    for seed in 1..=SEEDS {
        let (mut dice, start) = (Dice::new(seed), time::now());
        let at = |now: u64| start + Duration::from_millis(now);
        let mut company = Company { active: vec![true; 1 + dice.below(6) as usize], ..Company::default() };
        let (mut now, mut long, mut breaks) = (0, 1, false);
        for _ in 0..6000 {
            now += 100;
            if dice.one_in(300) {
                (long, breaks) = ([1, 1000, 60_000][dice.below(3) as usize], dice.one_in(4));
            }
            company.is_stale |= dice.one_in(200);
            company.step(&mut dice, now, at(now), breaks, long);
        }
        // Per ten minutes: the immediate ones, and those that the growing pauses allow without a quiet period.
        let bound = 4 + 600 / 5;
        assert!(
            company.restarts.len() < bound,
            "seed {seed}: {} restarts in ten minutes",
            company.restarts.len()
        );
        // From here on there are no failures, so every pause ends.
        for _ in 0..8000 {
            now += 100;
            company.step(&mut dice, now, at(now), false, 1000);
        }
        assert!(
            !company.is_stale && company.active.iter().all(|uses| *uses),
            "seed {seed}: it was never renewed"
        );
        let restarts = company.restarts.len();
        for _ in 0..100 {
            now += 100;
            company.step(&mut dice, now, at(now), false, 1);
        }
        assert_eq!(company.restarts.len(), restarts, "seed {seed}: a fresh one is left alone");
        (renewals, held) = (renewals + company.renewals, held + company.held);
    }
    assert!(renewals > 1000 && held > 100, "{renewals} renewals, {held} held");
}
