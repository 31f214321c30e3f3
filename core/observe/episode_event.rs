//! Which events are part of an episode, and how they describe it.
//!
//! The log level makes no difference. Nothing is decided here; the emitter of an event has decided.

use super::episode::{EpisodeKind, EpisodeStep, EpisodeUpdate};
use super::event::Event;
use super::plugin_event::PluginEvent;
use super::trace_event::TraceEvent;
use super::worker_event::WorkerEvent;
use crate::config::ExportSignal;
use crate::plugins::PluginHealth;
use crate::pool::{StuckKind, SupervisorReport};

use EpisodeStep::{Ended, Happened, Holds};

impl EpisodeUpdate {
    /// Returns the effect of `event` on the episodes, if it has any.
    pub(super) fn of(event: &Event<'_>) -> Option<Self> {
        use EpisodeKind as Kind;
        Some(match *event {
            Event::Worker(ref event) => of_worker(event)?,
            Event::Tracing(event) => of_tracing(event)?,
            Event::Plugin(plugin, PluginEvent::HealthChanged(change)) => {
                let step = if change.to.health == PluginHealth::Ok { Ended(None) } else { Holds };
                let detail = format!("{}: {}", change.to.health.as_str(), change.to.text);
                Self { subject: plugin.to_owned(), ..update(Kind::Plugin, step, detail) }
            }
            Event::Draining { delay, timeout } => {
                let (delay, timeout) = (delay.as_secs(), timeout.as_secs());
                let detail = format!("requests have {timeout} s to end, after {delay} s of usual service");
                update(Kind::Drain, Holds, detail)
            }
            Event::DrainTimeout { cut_off } => {
                let detail = format!("the deadline has passed: {cut_off} requests were aborted");
                update(Kind::Drain, Holds, detail)
            }
            Event::Stopped => update(Kind::Drain, Ended(None), ""),
            Event::Reloaded => update(Kind::Reload, Happened, "succeeded"),
            Event::ReloadFailed { error } => update(Kind::Reload, Happened, format!("failed: {error}")),
            Event::WedgeWarning { gate, workers_idle } => {
                let depth = gate.depth;
                let detail =
                    format!("{depth} requests queued, {workers_idle} workers idle, nothing finished");
                update(Kind::Wedge, Holds, detail)
            }
            Event::PoolRecovered => update(Kind::Wedge, Ended(None), ""),
            Event::SheddingStarted { refused, .. } => refused_so_far(Holds, refused.sum()),
            Event::SheddingContinues { episode, .. } => refused_so_far(Holds, episode.sum()),
            Event::SheddingStopped { episode, duration, .. } => {
                refused_so_far(Ended(Some(duration)), episode.sum())
            }
            Event::SpoolTrouble { error } => update(Kind::Spool, Happened, error),
            Event::AcceptFailed { error } | Event::OpsAcceptFailed { error } => {
                update(Kind::AcceptFailed, Happened, error)
            }
            Event::OpsReserveUsed { error } => update(Kind::Descriptors, Happened, error),
            Event::OpcacheRestartDelayed => update(
                Kind::OpcacheRestart,
                Holds,
                "waits for scripts that run long; others are compiled each time",
            ),
            Event::OpcacheRestarted => update(Kind::OpcacheRestart, Ended(None), ""),
            Event::CertificateExpired { path, .. } => {
                update(Kind::Certificate, Happened, format!("{path} has expired"))
            }
            Event::CertificateNotYetValid { path, .. } => {
                update(Kind::Certificate, Happened, format!("{path} is not valid yet"))
            }
            _ => return None,
        })
    }
}

fn update(kind: EpisodeKind, step: EpisodeStep, detail: impl Into<String>) -> EpisodeUpdate {
    EpisodeUpdate { kind, subject: String::new(), step, total: None, detail: detail.into() }
}

impl EpisodeUpdate {
    /// Returns the update for this number of requests refused since the episode of shedding began.
    pub fn refused_so_far(refused: u64) -> Self {
        refused_so_far(Holds, refused)
    }
}

fn refused_so_far(step: EpisodeStep, refused: u64) -> EpisodeUpdate {
    let detail = format!("{refused} requests refused");
    EpisodeUpdate { total: Some(refused), ..update(EpisodeKind::Shedding, step, detail) }
}

fn of_worker(event: &WorkerEvent<'_>) -> Option<EpisodeUpdate> {
    match *event {
        WorkerEvent::Supervised(report) => of_supervisor("", report),
        WorkerEvent::TaskThreads(report) => of_supervisor("async", report),
        WorkerEvent::Stuck { slot, kind, age, path, .. } => {
            let path = String::from_utf8_lossy(path);
            Some(stuck(format!("worker {slot}, {}, {} s: {path}", kind_text(kind), age.as_secs())))
        }
        WorkerEvent::TaskStuck { slot, kind, age, task, .. } => {
            Some(stuck(format!("async worker {slot}, {}, {} s: task {task}", kind_text(kind), age.as_secs())))
        }
        WorkerEvent::DetachedTaskFailed { .. }
        | WorkerEvent::ProcessEnded { .. }
        | WorkerEvent::ResponderFailed { .. }
        | WorkerEvent::ResponderAvoided { .. }
        | WorkerEvent::ResponderReachable { .. }
        | WorkerEvent::ResponderRecovered { .. }
        | WorkerEvent::ResponderUnreachable { .. } => None,
    }
}

fn stuck(detail: String) -> EpisodeUpdate {
    update(EpisodeKind::Stuck, Happened, detail)
}

fn kind_text(kind: StuckKind) -> &'static str {
    match kind {
        StuckKind::Io => "waiting",
        StuckKind::CCall => "in an internal function",
        StuckKind::Cpu => "computing",
    }
}

/// Returns the update for a pool; `pool` is its name, empty for the pool that answers requests.
fn of_supervisor(pool: &str, report: SupervisorReport<'_>) -> Option<EpisodeUpdate> {
    use EpisodeKind as Kind;
    let one = match report {
        SupervisorReport::Lost { slot, reason } => {
            update(Kind::WorkerLost, Happened, format!("worker {slot}: {reason}"))
        }
        SupervisorReport::NotBooted { slot, reason, .. } => {
            update(Kind::BootFailed, Holds, format!("worker {slot}: {reason}"))
        }
        SupervisorReport::BootAgain { .. } => update(Kind::BootFailed, Ended(None), ""),
        SupervisorReport::RestartStarted { workers } => {
            update(Kind::RollingRestart, Holds, format!("of {workers} workers"))
        }
        SupervisorReport::RestartFinished { .. } => update(Kind::RollingRestart, Ended(None), ""),
        SupervisorReport::RestartStopped { slot, reason, left, .. } => {
            let detail = format!("stopped, {left} old workers stay: worker {slot}: {reason}");
            update(Kind::RollingRestart, Ended(None), detail)
        }
        SupervisorReport::RenewalDelayed { lingering } => {
            update(Kind::OpcacheRestart, Holds, format!("waits for {lingering} old workers to end"))
        }
    };
    Some(EpisodeUpdate { subject: pool.to_owned(), ..one })
}

fn of_tracing(event: TraceEvent<'_>) -> Option<EpisodeUpdate> {
    use EpisodeKind as Kind;
    // Exports of spans are the usual ones; the others are named.
    let about = |signal: ExportSignal, step, detail: &str| EpisodeUpdate {
        subject: if signal == ExportSignal::Traces { String::new() } else { signal.as_str().to_owned() },
        ..update(Kind::ExportFailed, step, detail)
    };
    match event {
        TraceEvent::ExportFailed { signal, reason, .. } => Some(about(signal, Holds, reason)),
        TraceEvent::ExportsFail { signal, reason, exports, .. } => {
            Some(EpisodeUpdate { total: Some(exports), ..about(signal, Holds, reason) })
        }
        TraceEvent::ExportsRecovered { signal, exports, .. } => {
            Some(EpisodeUpdate { total: Some(exports), ..about(signal, Ended(None), "") })
        }
        TraceEvent::ItemsDropped { signal: ExportSignal::Traces, items } => {
            Some(update(Kind::SpansDropped, Happened, format!("{items} more spans")))
        }
        TraceEvent::SettingIgnored { .. }
        | TraceEvent::PartialSuccess { .. }
        | TraceEvent::ItemsDropped { .. }
        | TraceEvent::ItemsLeft { .. } => None,
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::admission::{GateFacts, Refusals};

    fn of(event: &Event<'_>) -> Option<(EpisodeKind, EpisodeStep)> {
        EpisodeUpdate::of(event).map(|update| (update.kind, update.step))
    }

    #[test]
    fn each_kind_that_begins_can_end() {
        use EpisodeKind as Kind;
        let gate = GateFacts {
            depth: 1,
            capacity: 1,
            slots_available: 0,
            waiting: 0,
            wait_budget: Duration::ZERO,
            wait_budget_ceiling: Duration::ZERO,
        };
        let (refused, episode) = (Refusals::default(), Refusals::default());
        let lost = SupervisorReport::NotBooted { slot: 0, reason: "", retry_after: Duration::ZERO };
        let again = SupervisorReport::BootAgain { failures: 1 };
        let started = SupervisorReport::RestartStarted { workers: 2 };
        let finished = SupervisorReport::RestartFinished { workers: 2 };
        let failed = TraceEvent::ExportFailed { signal: ExportSignal::Logs, reason: "", items: 1 };
        let recovered = TraceEvent::ExportsRecovered { signal: ExportSignal::Logs, exports: 1, items: 1 };
        let (delay, duration) = (Duration::ZERO, Duration::ZERO);
        let pairs = [
            (Kind::Wedge, Event::WedgeWarning { gate, workers_idle: 1 }, Event::PoolRecovered),
            (
                Kind::Shedding,
                Event::SheddingStarted { refused, gate },
                Event::SheddingStopped { episode, duration, gate },
            ),
            (Kind::Drain, Event::Draining { delay, timeout: delay }, Event::Stopped),
            (Kind::OpcacheRestart, Event::OpcacheRestartDelayed, Event::OpcacheRestarted),
            (Kind::ExportFailed, Event::Tracing(failed), Event::Tracing(recovered)),
            (
                Kind::BootFailed,
                Event::Worker(WorkerEvent::Supervised(lost)),
                Event::Worker(WorkerEvent::Supervised(again)),
            ),
            (
                Kind::RollingRestart,
                Event::Worker(WorkerEvent::Supervised(started)),
                Event::Worker(WorkerEvent::Supervised(finished)),
            ),
        ];
        for (kind, begins, ends) in pairs {
            assert_eq!(of(&begins), Some((kind, Holds)));
            assert!(matches!(of(&ends), Some((of, Ended(_))) if of == kind), "{kind:?}");
        }
    }

    #[test]
    fn most_events_are_no_episode() {
        assert_eq!(of(&Event::Ready { workers: 1 }), None);
        assert_eq!(of(&Event::NothingToReload), None);
    }
}
