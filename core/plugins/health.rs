//! The health of a plugin.
//!
//! ```text
//!   Starting ──start returns──▶ Started ──answers──▶ its last answer stands until the next one
//!      └──start fails──▶ failed, permanently
//!
//!   a callback that runs for more than 5 s: at least degraded, no pages; more than 60 s: failed; until it returns
//! ```
//!
//! A hanging callback, whichever it is, is detected from its start time alone, without a call. The machine reads no
//! clock: the caller passes the time in.

use std::time::{Duration, Instant};

use svc_types::{HealthReport, PluginCall, PluginHealth};

use crate::limits::{PLUGIN_FAILED_AFTER, PLUGIN_LATE_AFTER};

/// A change of a plugin's health.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HealthChange {
    /// The previous health.
    pub from: PluginHealth,
    /// The current health.
    pub to: HealthReport,
}

/// Tracks the health of one plugin.
#[derive(Debug)]
pub(super) struct HealthWatch {
    /// The plugin has a `health` callback.
    reports: bool,
    answer: LastAnswer,
    /// The running callback and its start time.
    running: Option<(PluginCall, Instant)>,
}

#[derive(Debug)]
enum LastAnswer {
    /// `start` has not returned, or `health` has not been called since.
    None,
    /// The latest report.
    Report(HealthReport),
    /// `start` has returned an error.
    NotStarted(String),
}

impl HealthWatch {
    /// Creates the watch of a plugin that has not been started; `reports` if it has a `health` callback.
    pub(super) fn new(reports: bool) -> Self {
        Self { reports, answer: LastAnswer::None, running: None }
    }

    /// Records the start of a callback.
    pub(super) fn begin(&mut self, call: PluginCall, now: Instant) {
        debug_assert!(self.running.is_none(), "one at a time");
        self.running = Some((call, now));
    }

    /// Records the return of the callback.
    pub(super) fn end(&mut self) {
        self.running = None;
    }

    /// Returns the running callback.
    pub(super) fn running(&self) -> Option<PluginCall> {
        self.running.map(|(call, _)| call)
    }

    /// Records that `start` has returned an error.
    pub(super) fn start_failed(&mut self, why: String) {
        self.answer = LastAnswer::NotStarted(why);
    }

    /// Records the reported health.
    pub(super) fn answered(&mut self, report: HealthReport) {
        self.answer = LastAnswer::Report(report);
    }

    /// Returns whether callbacks may be called; false after a failed `start`.
    pub(super) fn is_started(&self) -> bool {
        !matches!(self.answer, LastAnswer::NotStarted(_))
    }

    /// Returns whether a callback has been running for too long to wait for it.
    pub(super) fn is_late(&self, now: Instant) -> bool {
        self.late(now).is_some()
    }

    /// Returns the health; `None` if the plugin does not report it.
    pub(super) fn report(&self, now: Instant) -> Option<HealthReport> {
        if let LastAnswer::NotStarted(why) = &self.answer {
            return Some(HealthReport::new(PluginHealth::Failed, format!("start failed: {why}")));
        }
        if !self.reports {
            return None;
        }
        let said = match &self.answer {
            LastAnswer::Report(report) => report.clone(),
            _ => HealthReport::new(PluginHealth::Degraded, "starting"),
        };
        match self.late(now) {
            Some(late) if late.health > said.health => Some(late),
            _ => Some(said),
        }
    }

    /// Like [`report`](Self::report), but `None` for a plugin that is still starting and not late.
    pub(super) fn settled_report(&self, now: Instant) -> Option<HealthReport> {
        let is_new = matches!(self.answer, LastAnswer::None) && !self.is_late(now);
        if is_new { None } else { self.report(now) }
    }

    fn late(&self, now: Instant) -> Option<HealthReport> {
        let (call, since) = self.running?;
        let health = match now.saturating_duration_since(since) {
            age if age > PLUGIN_FAILED_AFTER => PluginHealth::Failed,
            age if age > PLUGIN_LATE_AFTER => PluginHealth::Degraded,
            _ => return None,
        };
        let after: Duration =
            if health == PluginHealth::Failed { PLUGIN_FAILED_AFTER } else { PLUGIN_LATE_AFTER };
        let text = format!("{} has not returned for more than {} s", call.as_str(), after.as_secs());
        Some(HealthReport { health, text })
    }
}

/// Detects changes of a plugin's health.
#[derive(Debug)]
pub(super) struct HealthChanges {
    reported: PluginHealth,
}

impl Default for HealthChanges {
    /// Starts from `Ok`, so that a healthy plugin causes no change.
    fn default() -> Self {
        Self { reported: PluginHealth::Ok }
    }
}

impl HealthChanges {
    /// Takes the current health; returns the change, if any.
    pub(super) fn step(&mut self, now: Option<HealthReport>) -> Option<HealthChange> {
        let to = now?;
        let from = std::mem::replace(&mut self.reported, to.health);
        (from != to.health).then_some(HealthChange { from, to })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn watch() -> (HealthWatch, Instant) {
        (HealthWatch::new(true), crate::time::now())
    }

    fn ok() -> HealthReport {
        HealthReport::new(PluginHealth::Ok, "")
    }

    fn at(start: Instant, millis: u64) -> Instant {
        start + Duration::from_millis(millis)
    }

    fn health(watch: &HealthWatch, now: Instant) -> Option<PluginHealth> {
        watch.report(now).map(|report| report.health)
    }

    #[test]
    fn a_plugin_that_starts_is_degraded_until_its_first_answer_and_that_is_no_news() {
        let (mut watch, now) = watch();
        watch.begin(PluginCall::Start, now);
        assert_eq!(watch.report(now), Some(HealthReport::new(PluginHealth::Degraded, "starting")));
        assert_eq!(watch.settled_report(at(now, 5000)), None);
        watch.end();
        watch.answered(ok());
        assert_eq!((watch.report(now), watch.settled_report(now)), (Some(ok()), Some(ok())));
    }

    #[test]
    fn the_last_answer_stands_while_a_callback_runs_until_it_is_late() {
        let (mut watch, now) = watch();
        watch.answered(ok());
        for call in [PluginCall::Health, PluginCall::Serve, PluginCall::Metrics, PluginCall::RequestEnded] {
            watch.begin(call, now);
            let steps =
                [0, 4999, 5000, 5001, 60_000, 60_001, 3_600_000].map(|ms| health(&watch, at(now, ms)));
            let [one, two, three] = PluginHealth::ALL.map(Some);
            assert_eq!(steps, [one, one, one, two, two, three, three], "{}", call.as_str());
            assert_eq!([5000, 5001].map(|ms| watch.is_late(at(now, ms))), [false, true]);
            watch.end();
            assert_eq!(health(&watch, at(now, 3_600_000)), one);
        }
    }

    #[test]
    fn being_late_makes_nothing_better() {
        let (mut watch, now) = watch();
        watch.answered(HealthReport::new(PluginHealth::Failed, "the disk is full"));
        watch.begin(PluginCall::Health, now);
        let late = watch.report(at(now, 6000)).unwrap();
        assert_eq!((late.health, late.text.as_str()), (PluginHealth::Failed, "the disk is full"));
        watch.end();
        watch.answered(HealthReport::new(PluginHealth::Degraded, "nearly"));
        watch.begin(PluginCall::Health, now);
        let hung = watch.report(at(now, 61_000)).unwrap();
        assert_eq!(hung.text, "health has not returned for more than 60 s");
    }

    #[test]
    fn a_plugin_without_a_report_is_absent() {
        let (mut watch, now) = (HealthWatch::new(false), crate::time::now());
        watch.begin(PluginCall::Serve, now);
        assert_eq!(watch.report(at(now, 61_000)), None);
        assert!(watch.is_late(at(now, 61_000)));
    }

    #[test]
    fn a_start_that_fails_is_failed_for_ever_and_for_all() {
        for reports in [true, false] {
            let (mut watch, now) = (HealthWatch::new(reports), crate::time::now());
            watch.start_failed("no disk".to_owned());
            let report = watch.report(now).unwrap();
            assert_eq!(
                (report.health, report.text.as_str()),
                (PluginHealth::Failed, "start failed: no disk")
            );
            assert!(!watch.is_started());
        }
    }

    #[test]
    fn changes_are_reported_once_and_a_healthy_start_is_not() {
        let mut changes = HealthChanges::default();
        let report = |health| Some(HealthReport::new(health, "x"));
        assert_eq!(changes.step(None), None);
        assert_eq!(changes.step(report(PluginHealth::Ok)), None);
        let change = changes.step(report(PluginHealth::Failed)).unwrap();
        assert_eq!((change.from, change.to.health), (PluginHealth::Ok, PluginHealth::Failed));
        assert_eq!(changes.step(report(PluginHealth::Failed)), None);
        assert_eq!(changes.step(report(PluginHealth::Ok)).unwrap().from, PluginHealth::Failed);
    }
}
