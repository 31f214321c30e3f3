//! Compares each event with the page that describes it.

use serde_json::Value;

use super::*;
use crate::admission::ShedReason;
use crate::config::{ExportSignal, Fault, Problem};
use crate::observe::PhpLevel;
use crate::plugins::{HealthChange, HealthReport, PluginHealth};
use crate::pool::{StuckKind, SupervisorReport};
use crate::time;

const ADDR: SocketAddr = SocketAddr::new(IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 80);

const GATE: GateFacts = GateFacts {
    depth: 7,
    capacity: 8,
    slots_available: 1,
    waiting: 6,
    wait_budget: Duration::from_millis(500),
    wait_budget_ceiling: Duration::from_millis(1000),
};
const REFUSED: Refusals = Refusals { queue_full: 1, wait_timeout: 20, waiting_full: 300, waiting_bytes: 0 };

static PROBLEM: Problem =
    Problem { setting: "S", value: None, fault: Fault::NotANumber, accepted: String::new() };

static FEWER: Warning = Warning::FewerConnections { max_connections: 1, initial: 2, descriptors: 3 };
static IGNORED: Warning = Warning::Ignored(Problem {
    setting: "S",
    value: None,
    fault: Fault::NotANumber,
    accepted: String::new(),
});
static UNKNOWN: Warning = Warning::Unknown { variable: String::new(), place: None, meant: None };

/// One event of each variant; a variant that is missing here does not compile in [`is_listed`].
const ALL: &[Event<'_>] = &[
    Event::Starting { version: "1" },
    Event::PhpReady { version: "8", zts: true, opcache: true },
    Event::OpcacheOff,
    Event::ExtensionUnknown { extension: "e" },
    Event::OpcacheRestartDelayed,
    Event::OpcacheRestarted,
    Event::OpcacheFull { scripts: 1 },
    Event::UmaskShared,
    Event::OpsListening { addr: ADDR },
    Event::OpsExposed { addr: ADDR },
    Event::Listening { addr: "a" },
    Event::RedirectListening { addr: ADDR },
    Event::Ready { workers: 1 },
    Event::AcceptFailed { error: "e" },
    Event::OpsAcceptFailed { error: "e" },
    Event::OpsReserveUsed { error: "e" },
    Event::Worker(WorkerEvent::Supervised(SupervisorReport::Lost { slot: 1, reason: "r" })),
    Event::Worker(WorkerEvent::Supervised(SupervisorReport::NotBooted {
        slot: 1,
        reason: "r",
        retry_after: Duration::from_millis(100),
    })),
    Event::Worker(WorkerEvent::Supervised(SupervisorReport::BootAgain { failures: 1 })),
    Event::Worker(WorkerEvent::Supervised(SupervisorReport::RenewalDelayed { lingering: 1 })),
    Event::Worker(WorkerEvent::Supervised(SupervisorReport::RestartStarted { workers: 1 })),
    Event::Worker(WorkerEvent::Supervised(SupervisorReport::RestartFinished { workers: 1 })),
    Event::Worker(WorkerEvent::Supervised(SupervisorReport::RestartStopped {
        slot: 1,
        reason: "r",
        replaced: 1,
        left: 1,
    })),
    Event::Worker(WorkerEvent::Stuck {
        slot: 1,
        kind: StuckKind::Cpu,
        age: Duration::from_secs(61),
        request_id: "r-1",
        path: b"/slow.php",
    }),
    Event::Worker(WorkerEvent::ProcessEnded { slot: 1, pid: 2, status: "s", request_id: "r-1" }),
    Event::Worker(WorkerEvent::ResponderFailed { slot: 1, responder: "a", reason: "r", request_id: "r-1" }),
    Event::Worker(WorkerEvent::ResponderUnreachable { addr: "a", error: "e" }),
    Event::Worker(WorkerEvent::ResponderReachable { addr: "a" }),
    Event::Worker(WorkerEvent::ResponderAvoided { addr: "a" }),
    Event::Worker(WorkerEvent::ResponderRecovered { addr: "a" }),
    Event::Worker(WorkerEvent::TaskThreads(SupervisorReport::Lost { slot: 1, reason: "r" })),
    Event::Worker(WorkerEvent::TaskThreads(SupervisorReport::NotBooted {
        slot: 1,
        reason: "r",
        retry_after: Duration::from_millis(100),
    })),
    Event::Worker(WorkerEvent::TaskThreads(SupervisorReport::BootAgain { failures: 1 })),
    Event::Worker(WorkerEvent::TaskThreads(SupervisorReport::RenewalDelayed { lingering: 1 })),
    Event::Worker(WorkerEvent::TaskThreads(SupervisorReport::RestartStarted { workers: 1 })),
    Event::Worker(WorkerEvent::TaskThreads(SupervisorReport::RestartFinished { workers: 1 })),
    Event::Worker(WorkerEvent::TaskThreads(SupervisorReport::RestartStopped {
        slot: 1,
        reason: "r",
        replaced: 1,
        left: 1,
    })),
    Event::Worker(WorkerEvent::TaskStuck {
        slot: 1,
        kind: StuckKind::Cpu,
        age: Duration::from_secs(61),
        task: 7,
        request_id: "r-1",
    }),
    Event::Worker(WorkerEvent::DetachedTaskFailed { task: 7, request_id: "r-1", reason: b"r" }),
    Event::Watch(WatchEvent::Changed { path: "p", changes: 1 }),
    Event::Watch(WatchEvent::Incomplete { path: "p", error: "e" }),
    Event::Watch(WatchEvent::Revalidated),
    Event::Watch(WatchEvent::Watching { path: "p", directories: 1 }),
    Event::Setting(&FEWER),
    Event::Setting(&IGNORED),
    Event::Setting(&UNKNOWN),
    Event::Hint(Hint::TaskEntryInRoot { path: "p" }),
    Event::Hint(Hint::IdleDirective { name: "n", reason: "r" }),
    Event::Hint(Hint::IniFileChanged { path: "p" }),
    Event::Hint(Hint::IdleHooks),
    Event::Hint(Hint::UnreadableAtReload { path: "p" }),
    Event::Hint(Hint::HooksOutOfReach { library: "l" }),
    Event::Hint(Hint::FirstEpisode { reason: ShedReason::WaitTimeout, value: 1000, php_workers: 4 }),
    Event::Hint(Hint::ProjectAsRoot { path: "p", found: "composer.json" }),
    Event::Tracing(TraceEvent::SettingIgnored { problem: &PROBLEM }),
    Event::Tracing(TraceEvent::ExportFailed { signal: ExportSignal::Traces, reason: "r", items: 1 }),
    Event::Tracing(TraceEvent::ExportsFail {
        signal: ExportSignal::Traces,
        reason: "r",
        exports: 1,
        items: 1,
    }),
    Event::Tracing(TraceEvent::ExportsRecovered { signal: ExportSignal::Traces, exports: 1, items: 1 }),
    Event::Tracing(TraceEvent::PartialSuccess { signal: ExportSignal::Traces, rejected: 1, message: "m" }),
    Event::Tracing(TraceEvent::ItemsDropped { signal: ExportSignal::Traces, items: 1 }),
    Event::Tracing(TraceEvent::ItemsLeft { signal: ExportSignal::Traces, items: 1 }),
    Event::Tracing(TraceEvent::ExportFailed { signal: ExportSignal::Metrics, reason: "r", items: 1 }),
    Event::Tracing(TraceEvent::ExportsFail {
        signal: ExportSignal::Metrics,
        reason: "r",
        exports: 1,
        items: 1,
    }),
    Event::Tracing(TraceEvent::ExportsRecovered { signal: ExportSignal::Metrics, exports: 1, items: 1 }),
    Event::Tracing(TraceEvent::PartialSuccess { signal: ExportSignal::Metrics, rejected: 1, message: "m" }),
    Event::Tracing(TraceEvent::ItemsLeft { signal: ExportSignal::Metrics, items: 1 }),
    Event::Tracing(TraceEvent::ExportFailed { signal: ExportSignal::Logs, reason: "r", items: 1 }),
    Event::Tracing(TraceEvent::ExportsFail { signal: ExportSignal::Logs, reason: "r", exports: 1, items: 1 }),
    Event::Tracing(TraceEvent::ExportsRecovered { signal: ExportSignal::Logs, exports: 1, items: 1 }),
    Event::Tracing(TraceEvent::PartialSuccess { signal: ExportSignal::Logs, rejected: 1, message: "m" }),
    Event::Tracing(TraceEvent::ItemsDropped { signal: ExportSignal::Logs, items: 1 }),
    Event::Tracing(TraceEvent::ItemsLeft { signal: ExportSignal::Logs, items: 1 }),
    Event::Plugin("p", PluginEvent::Loaded { version: "1", path: "p" }),
    Event::Plugin("p", PluginEvent::HealthChanged(&CHANGES[0])),
    Event::Plugin("p", PluginEvent::HealthChanged(&CHANGES[1])),
    Event::Plugin("p", PluginEvent::HealthChanged(&CHANGES[2])),
    Event::Plugin("p", PluginEvent::CallbackFailed { callback: "serve", error: "e" }),
    Event::Plugin("p", PluginEvent::LeftBehind { callback: "stop" }),
    Event::SpoolTrouble { error: "e" },
    Event::FileRefused { file: b"f", reason: "r", request_id: "r-1" },
    Event::RecordsDropped { count: 1 },
    Event::CertificateExpired { path: "p", not_after: SystemTime::UNIX_EPOCH },
    Event::CertificateNotYetValid { path: "p", not_before: SystemTime::UNIX_EPOCH },
    Event::HandshakeFailed { client: ADDR.ip(), error: "e" },
    Event::NothingToReload,
    Event::Reloaded,
    Event::ReloadFailed { error: "e" },
    Event::WedgeWarning { gate: GATE, workers_idle: 2 },
    Event::PoolRecovered,
    Event::SheddingStarted { refused: REFUSED, gate: GATE },
    Event::SheddingContinues { refused: 5, episode: REFUSED },
    Event::SheddingStopped { episode: REFUSED, duration: Duration::from_millis(61_500), gate: GATE },
    Event::Draining { delay: Duration::ZERO, timeout: Duration::ZERO },
    Event::DrainTimeout { cut_off: 1 },
    Event::Stopped,
    Event::StartStopped,
    Event::SignalIgnored { number: 10, sender: Some(1) },
];

static CHANGES: [HealthChange; 3] =
    [to(PluginHealth::Ok), to(PluginHealth::Degraded), to(PluginHealth::Failed)];

const fn to(health: PluginHealth) -> HealthChange {
    HealthChange { from: PluginHealth::Ok, to: HealthReport { health, text: String::new() } }
}

/// To add a variant, add it here and to [`ALL`], and write its line in the page.
fn is_listed(event: &Event<'_>) -> bool {
    match event {
        Event::Starting { .. }
        | Event::PhpReady { .. }
        | Event::OpcacheOff
        | Event::ExtensionUnknown { .. }
        | Event::OpcacheRestartDelayed
        | Event::OpcacheRestarted
        | Event::OpcacheFull { .. }
        | Event::UmaskShared
        | Event::OpsListening { .. }
        | Event::OpsExposed { .. }
        | Event::Listening { .. }
        | Event::RedirectListening { .. }
        | Event::Ready { .. }
        | Event::AcceptFailed { .. }
        | Event::OpsAcceptFailed { .. }
        | Event::OpsReserveUsed { .. }
        | Event::SignalIgnored { .. }
        | Event::Watch(
            WatchEvent::Changed { .. }
            | WatchEvent::Incomplete { .. }
            | WatchEvent::Revalidated
            | WatchEvent::Watching { .. },
        )
        | Event::Setting(Warning::FewerConnections { .. } | Warning::Ignored(_) | Warning::Unknown { .. })
        | Event::Hint(
            Hint::FirstEpisode { .. }
            | Hint::ProjectAsRoot { .. }
            | Hint::IdleHooks
            | Hint::HooksOutOfReach { .. }
            | Hint::UnreadableAtReload { .. }
            | Hint::IdleDirective { .. }
            | Hint::IniFileChanged { .. }
            | Hint::TaskEntryInRoot { .. },
        )
        | Event::SpoolTrouble { .. }
        | Event::FileRefused { .. }
        | Event::RecordsDropped { .. }
        | Event::CertificateExpired { .. }
        | Event::CertificateNotYetValid { .. }
        | Event::HandshakeFailed { .. }
        | Event::NothingToReload
        | Event::Reloaded
        | Event::ReloadFailed { .. }
        | Event::WedgeWarning { .. }
        | Event::PoolRecovered
        | Event::SheddingStarted { .. }
        | Event::SheddingContinues { .. }
        | Event::SheddingStopped { .. }
        | Event::Draining { .. }
        | Event::DrainTimeout { .. }
        | Event::Stopped
        | Event::StartStopped => true,
        Event::Worker(event) => is_worker_listed(event),
        Event::Tracing(event) => is_tracing_listed(event),
        Event::Plugin(_, event) => is_plugin_listed(event),
        // Their messages are not fixed, or their fields have a separate table.
        Event::PhpMessage(_) | Event::PluginMessage { .. } | Event::Access(_) | Event::Failure { .. } => {
            false
        }
    }
}

fn is_worker_listed(event: &WorkerEvent<'_>) -> bool {
    match event {
        WorkerEvent::Supervised(SupervisorReport::Lost { .. })
        | WorkerEvent::Supervised(SupervisorReport::NotBooted { .. })
        | WorkerEvent::Supervised(SupervisorReport::BootAgain { .. })
        | WorkerEvent::Supervised(SupervisorReport::RenewalDelayed { .. })
        | WorkerEvent::Supervised(SupervisorReport::RestartStarted { .. })
        | WorkerEvent::Supervised(SupervisorReport::RestartFinished { .. })
        | WorkerEvent::Supervised(SupervisorReport::RestartStopped { .. })
        | WorkerEvent::TaskThreads(SupervisorReport::Lost { .. })
        | WorkerEvent::TaskThreads(SupervisorReport::NotBooted { .. })
        | WorkerEvent::TaskThreads(SupervisorReport::BootAgain { .. })
        | WorkerEvent::TaskThreads(SupervisorReport::RenewalDelayed { .. })
        | WorkerEvent::TaskThreads(SupervisorReport::RestartStarted { .. })
        | WorkerEvent::TaskThreads(SupervisorReport::RestartFinished { .. })
        | WorkerEvent::TaskThreads(SupervisorReport::RestartStopped { .. })
        | WorkerEvent::TaskStuck { .. }
        | WorkerEvent::DetachedTaskFailed { .. }
        | WorkerEvent::ProcessEnded { .. }
        | WorkerEvent::ResponderFailed { .. }
        | WorkerEvent::ResponderAvoided { .. }
        | WorkerEvent::ResponderReachable { .. }
        | WorkerEvent::ResponderRecovered { .. }
        | WorkerEvent::ResponderUnreachable { .. }
        | WorkerEvent::Stuck { .. } => true,
    }
}

fn is_tracing_listed(event: &TraceEvent<'_>) -> bool {
    match event {
        TraceEvent::SettingIgnored { .. }
        | TraceEvent::ExportFailed { .. }
        | TraceEvent::ExportsFail { .. }
        | TraceEvent::ExportsRecovered { .. }
        | TraceEvent::PartialSuccess { .. }
        | TraceEvent::ItemsDropped { .. }
        | TraceEvent::ItemsLeft { .. } => true,
    }
}

fn is_plugin_listed(event: &PluginEvent<'_>) -> bool {
    match event {
        PluginEvent::Loaded { .. }
        | PluginEvent::HealthChanged(_)
        | PluginEvent::CallbackFailed { .. }
        | PluginEvent::LeftBehind { .. } => true,
    }
}

fn rendered(event: &Event<'_>) -> Value {
    serde_json::from_slice(&event.render(time::wall())).unwrap()
}

#[test]
fn the_page_of_the_events_has_each_with_its_level_and_fields() {
    let page = include_str!("../../docs/events.md");
    for event in ALL {
        assert!(is_listed(event));
        let record = rendered(event);
        let fields = record["fields"].as_object().unwrap();
        let names: Vec<_> =
            fields.keys().filter(|name| *name != "message").map(|name| format!("`{name}`")).collect();
        let line = page
            .lines()
            .find(|line| line.contains(&format!("| {} |", fields["message"].as_str().unwrap())))
            .unwrap_or_else(|| panic!("{event:?} is not in the page"));
        assert!(line.starts_with(&format!("| {} |", record["level"].as_str().unwrap())), "{line}");
        assert_eq!(line.matches('`').count(), 2 * names.len(), "{line}");
        assert!(names.iter().all(|name| line.contains(name)), "{line} has not {names:?}");
        assert_eq!(record["target"], "svc");
    }
}

#[test]
fn the_records_of_the_scan_have_their_messages_and_whole_numbers() {
    let started = Event::SheddingStarted { refused: REFUSED, gate: GATE };
    let continues = Event::SheddingContinues { refused: 5, episode: REFUSED };
    let stopped =
        Event::SheddingStopped { episode: REFUSED, duration: Duration::from_millis(61_500), gate: GATE };
    let expected = [
        (
            Event::WedgeWarning { gate: GATE, workers_idle: 2 },
            "WARN",
            r#"{"message":"PHP requests are waiting while the pool has idle workers and got nothing done since the last scan","queue_depth":7,"queue_capacity":8,"admission_slots_available":1,"workers_idle":2}"#,
        ),
        (Event::PoolRecovered, "INFO", r#"{"message":"PHP pool is reaching workers again"}"#),
        (
            started,
            "WARN",
            r#"{"message":"PHP admission has started shedding requests under overload","refused":321,"refused_queue_full":1,"refused_wait_timeout":20,"refused_waiting_full":300,"refused_waiting_bytes":0,"queue_depth":7,"queue_capacity":8,"admission_slots_available":1,"wait_budget_us":500000,"wait_budget_ceiling_us":1000000}"#,
        ),
        (
            continues,
            "WARN",
            r#"{"message":"PHP admission is still shedding requests under overload","refused":5,"episode_refused":321,"episode_refused_queue_full":1,"episode_refused_wait_timeout":20,"episode_refused_waiting_full":300,"episode_refused_waiting_bytes":0}"#,
        ),
        (
            stopped,
            "INFO",
            r#"{"message":"PHP admission has stopped shedding requests","episode_refused":321,"episode_refused_queue_full":1,"episode_refused_wait_timeout":20,"episode_refused_waiting_full":300,"episode_refused_waiting_bytes":0,"duration_ms":61500,"queue_depth":7,"admission_slots_available":1}"#,
        ),
    ];
    for (event, level, fields) in expected {
        let line = String::from_utf8(event.render(time::wall())).unwrap();
        assert!(line.contains(&format!(r#""level":"{level}""#)), "{line}");
        assert!(line.ends_with(&format!("\"fields\":{fields}}}\n")), "{line}");
    }
}

#[test]
fn a_message_of_php_has_its_level_and_place() {
    for (level, expected) in [
        (PhpLevel::Error, "ERROR"),
        (PhpLevel::Warning, "WARN"),
        (PhpLevel::Notice, "INFO"),
        (PhpLevel::Deprecated, "INFO"),
        (PhpLevel::Info, "INFO"),
        (PhpLevel::Debug, "DEBUG"),
    ] {
        let record = rendered(&Event::PhpMessage(PhpMessage {
            level,
            message: b"broken\nline",
            context: None,
            file: Some(b"/a.php"),
            line: Some(3),
            request_id: None,
            traceparent: None,
        }));
        assert_eq!((record["level"].as_str(), record["target"].as_str()), (Some(expected), Some("php")));
        assert_eq!(
            record["fields"],
            serde_json::json!({
                "message": "broken\nline", "php_level": level.as_str(), "file": "/a.php", "line": 3,
                "request_id": null,
            })
        );
    }
}
