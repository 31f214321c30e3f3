//! The unusual conditions that `/status` lists.
//!
//! Pure. A condition spares operators the comparison of figures; the fields of the report have the details.

use std::time::SystemTime;

use crate::limits::{CERTIFICATE_WARNING, FAILING_PERCENT, FAILURES_MIN, TROUBLE_SHOWN_FOR};

use super::episode::EpisodeKind;
use super::families::Metrics;
use super::history::Window;
use super::status_facts::StatusFacts;
use super::worker_state::{JobKind, worker_state};

/// Returns the conditions that hold now, the worst first.
pub(super) fn conditions(facts: &StatusFacts<'_>, metrics: &Metrics) -> Vec<&'static str> {
    let probe = facts.probe;
    let goes_on =
        |kind: EpisodeKind| facts.episodes.iter().any(|one| one.ended_at.is_none() && one.kind == kind);
    let has_stuck = facts.scrape.slots.iter().any(|slot| worker_state(slot, JobKind::Requests) == "stuck")
        || facts.task_slots.iter().any(|slot| worker_state(slot, JobKind::Tasks) == "stuck");
    let expiry = facts.scrape.certificates.and_then(|known| known.first_expiry);
    let all = [
        (facts.phase == "starting", "starting"),
        (probe.serving && !probe.workers.can_serve(), "no_workers"),
        (probe.pool_stalled, "wedged"),
        (!probe.pool_stalled && goes_on(EpisodeKind::Wedge), "wedge_suspected"),
        (probe.plugin_failed, "plugin_failed"),
        (metrics.accept_stalled.is_set(), "accept_stalled"),
        (goes_on(EpisodeKind::Shedding), "shedding"),
        (expiry.is_some_and(|expiry| expiry <= facts.at), "certificate_expired"),
        (is_disk_full(facts), "disk_full"),
        (facts.window.as_ref().is_some_and(is_failing), "failing"),
        (facts.boot_failure.is_some() || goes_on(EpisodeKind::BootFailed), "boot_failed"),
        (has_stuck, "stuck"),
        (metrics.opcache_restart_delayed.is_set(), "opcache_restart_delayed"),
        (goes_on(EpisodeKind::ExportFailed), "export_failed"),
        (!facts.scrape.reload.is_successful, "reload_failed"),
        (metrics.restart_required.is_set(), "restart_required"),
        (
            expiry.is_some_and(|expiry| expiry > facts.at && expiry <= facts.at + CERTIFICATE_WARNING),
            "certificate_expires",
        ),
        (matches!(facts.phase, "draining" | "closing" | "stopped"), "draining"),
    ];
    all.into_iter().filter_map(|(holds, name)| holds.then_some(name)).collect()
}

/// Returns whether a significant part of the served requests failed.
fn is_failing(window: &Window) -> bool {
    let failures = window.failures();
    failures >= FAILURES_MIN && failures * 100 >= window.served_duration.count * FAILING_PERCENT
}

/// Returns whether svc or PHP has met a full disk recently.
fn is_disk_full(facts: &StatusFacts<'_>) -> bool {
    let is_recent = |at: SystemTime| facts.at.duration_since(at).unwrap_or_default() < TROUBLE_SHOWN_FOR;
    let spooling =
        facts.episodes.iter().filter(|one| one.kind == EpisodeKind::Spool && is_recent(one.last_at));
    let scripts = facts.php_errors.iter().filter(|one| is_recent(one.last_at));
    spooling
        .map(|one| one.detail.as_str())
        .chain(scripts.map(|one| one.message.as_str()))
        .any(|text| DISK_IS_FULL.iter().any(|words| text.contains(words)))
}

/// The system's text for `ENOSPC`, and PHP's for a short write.
const DISK_IS_FULL: [&str; 2] = ["No space left on device", "possibly out of free disk space"];
