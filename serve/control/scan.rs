//! The scan: once a second, it checks admission and the pool, and acts on changes.
//!
//! It runs at most once a second, however often it is called, and does not catch up on missed runs. The state machines
//! decide; the scan sets the wait budget and one gauge, and writes the log. It waits for nothing, answers no request
//! whose time limit has not expired, and does nothing for an executor without a queue.

use std::time::{Duration, Instant};

use svc_core::admission::{
    BudgetController, BudgetSample, Gate, GateFacts, Offered, Refusals, ShedReason, SheddingEpisodes,
    SheddingReport,
};
use svc_core::config::Config;
use svc_core::limits::CONTROL_TICK;
use svc_core::observe::{EpisodeKind, EpisodeUpdate, Event, Hint, Log, Metrics};
use svc_core::pool::{PoolFacts, STUCK_THRESHOLD, StallDetector, StallReport, StallSample};

use svc_core::time;

use super::watchdog::WatchdogRounds;
use crate::backend::Backend;
use crate::shared::Shared;

/// The state machines that check the server once a second.
#[derive(Debug)]
pub(crate) struct Scan {
    budget: BudgetController,
    episodes: SheddingEpisodes,
    /// Watched only in worker mode.
    stall: Option<StallDetector>,
    watchdog: WatchdogRounds,
    task_watchdog: WatchdogRounds,
    /// Whether the hint was logged, which happens once.
    has_hinted: bool,
    /// When to scan again; `None` before the first scan.
    due: Option<Instant>,
}

impl Scan {
    /// Creates the state machines that `config` requires.
    pub(crate) fn new(config: &Config) -> Self {
        Self::with_stuck_threshold(config, STUCK_THRESHOLD)
    }

    /// Like [`new`](Self::new), with another threshold for stuck requests.
    fn with_stuck_threshold(config: &Config, threshold: Duration) -> Self {
        Self {
            budget: BudgetController::new(config.admission.queue_wait_timeout),
            episodes: SheddingEpisodes::default(),
            stall: config.php.worker_mode_enabled.then(StallDetector::default),
            watchdog: WatchdogRounds::new(threshold),
            task_watchdog: WatchdogRounds::new(threshold),
            has_hinted: false,
            due: None,
        }
    }

    /// Scans if a second has passed since the last scan; returns when to call again.
    pub(crate) fn scan(&mut self, shared: &Shared, now: Instant) -> Instant {
        if let Some(due) = self.due.filter(|due| now < *due) {
            return due;
        }
        if let Backend::Pool(pool) = &shared.backend {
            let Shared { metrics, log, config, .. } = shared;
            let facts = self.move_budget(&pool.gate, metrics);
            self.watch_pool(facts, pool.facts(), metrics, log, now);
            self.report_shedding(facts, metrics, log, config, now);
            if let Some(workers) = pool.workers() {
                self.watchdog.tick(workers, log, now);
            }
        }
        if let Some(workers) = shared.tasks.as_ref().and_then(|tasks| tasks.workers()) {
            self.task_watchdog.tick_tasks(workers, &shared.log, now);
        }
        shared.helpers.retire(now);
        let due = now + CONTROL_TICK;
        self.due = Some(due);
        due
    }

    /// Sets the gate's wait budget; returns the gate's facts with the new budget.
    fn move_budget<T: Offered>(&mut self, gate: &Gate<T>, metrics: &Metrics) -> GateFacts {
        let mut facts = gate.facts();
        // Abandoned work was started before. Read in this order, it never exceeds the started work.
        let abandoned = metrics.abandoned_total();
        let started = metrics.work_started_total();
        let has_backlog = facts.depth > 0 || facts.waiting > 0;
        facts.wait_budget = self.budget.tick(BudgetSample { started, abandoned, has_backlog });
        gate.set_wait_budget(facts.wait_budget);
        facts
    }

    fn watch_pool(&mut self, gate: GateFacts, pool: PoolFacts, metrics: &Metrics, log: &Log, now: Instant) {
        let Some(stall) = &mut self.stall else { return };
        // Lingering workers take nothing off the queue, by design.
        let workers_idle = pool.current.saturating_sub(pool.busy + pool.lingering_idle);
        let sample = StallSample {
            queued: gate.depth as u64,
            refused: metrics.refused.total(),
            workers_idle,
            finished: metrics.work_finished_total(),
        };
        let was_stalled = stall.is_stalled();
        let report = stall.tick(sample, now);
        if was_stalled && !stall.is_stalled() && report.is_none() {
            // A minute without a sign of a stall: no finished request that a record could report.
            log.note(EpisodeUpdate::ended(EpisodeKind::Wedge));
        }
        if stall.is_stalled() {
            metrics.pool_stalled.set();
        } else {
            metrics.pool_stalled.clear();
        }
        match report {
            Some(StallReport::Recovered) => log.emit(&Event::PoolRecovered),
            Some(StallReport::Warning) => {
                log.emit(&Event::WedgeWarning { gate, workers_idle: workers_idle as u64 });
            }
            None => {}
        }
    }

    fn report_shedding(
        &mut self,
        gate: GateFacts,
        metrics: &Metrics,
        log: &Log,
        config: &Config,
        now: Instant,
    ) {
        match self.episodes.tick(metrics.overload_refusals(), now) {
            Some(SheddingReport::Continues { refused, episode }) => {
                log.emit(&Event::SheddingContinues { refused, episode });
            }
            Some(SheddingReport::Started(refused)) => {
                log.emit(&Event::SheddingStarted { refused, gate });
                if !std::mem::replace(&mut self.has_hinted, true) {
                    log.emit(&Event::Hint(first_episode(refused, config)));
                }
            }
            Some(SheddingReport::Stopped { episode, duration }) => {
                log.emit(&Event::SheddingStopped { episode, duration, gate });
            }
            // The log reports refusals once a minute; readers of the status see them immediately.
            None => {
                if let Some(refused) = self.episodes.refused_lately(now) {
                    log.note(EpisodeUpdate::refused_so_far(refused.sum()));
                }
            }
        }
    }
}

/// Names the setting that caused most of the refusals.
fn first_episode(refused: Refusals, config: &Config) -> Hint<'static> {
    let waited = time::as_millis(config.admission.queue_wait_timeout);
    let by_reason = [
        (refused.queue_full, ShedReason::QueueFull, config.admission.queue_capacity as u64),
        (refused.waiting_full, ShedReason::WaitingFull, config.admission.queue_max_waiting as u64),
        (refused.waiting_bytes, ShedReason::WaitingBytes, config.admission.queue_max_waiting_bytes),
        // Of several equal counts, the last wins.
        (refused.wait_timeout, ShedReason::WaitTimeout, waited),
    ];
    let most = by_reason.into_iter().max_by_key(|(count, ..)| *count);
    let (_, reason, value) = most.unwrap_or((0, ShedReason::WaitTimeout, waited));
    Hint::FirstEpisode { reason, value, php_workers: config.php.workers.max as u64 }
}

#[cfg(test)]
#[path = "scan_tests.rs"]
mod tests;
