//! The events that are logged: a closed list, and the only place where events become text.
//!
//! An event borrows its data, so an event below the log level costs nothing. There are no free-form messages; a new
//! message is a new variant and a new line in docs/events.md.

use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, SystemTime};

use super::access::Access;
use super::hint::Hint;
use super::php_message::PhpMessage;
use super::plugin_event::PluginEvent;
use super::record::Record;
use super::setting_event;
use super::text_line::text_line;
use super::timestamp::timestamp;
use super::trace_event::TraceEvent;
use super::watch_event::WatchEvent;
use super::worker_event::WorkerEvent;
use crate::admission::{GateFacts, Refusals};
use crate::config::{Level, Warning};
use crate::http::{Trace, Traceparent};
use crate::time::{as_micros, as_millis};

/// An event that may interest an operator.
#[derive(Clone, Copy, Debug)]
pub enum Event<'a> {
    /// The process is starting.
    Starting {
        /// The version of the server.
        version: &'a str,
    },
    /// PHP has started on the first thread.
    PhpReady {
        /// The version of PHP.
        version: &'a str,
        /// Whether PHP is thread-safe.
        zts: bool,
        /// Whether OPcache is enabled.
        opcache: bool,
    },
    /// OPcache is disabled: scripts are compiled on every request.
    OpcacheOff,
    /// In worker mode: an extension keeps per-request state where svc does not look for it.
    ExtensionUnknown {
        /// The name of the extension.
        extension: &'a str,
    },
    /// An OPcache restart waits for long-running scripts.
    OpcacheRestartDelayed,
    /// OPcache restarted after a delay.
    OpcacheRestarted,
    /// OPcache takes no further scripts, and no restart is due.
    OpcacheFull {
        /// The number of scripts that it holds.
        scripts: u64,
    },
    /// The system does not allow a umask per thread.
    UmaskShared,
    /// The main port accepts connections.
    Listening {
        /// An address of it, or the path of a socket.
        addr: &'a str,
    },
    /// The port that redirects to HTTPS accepts connections.
    RedirectListening {
        /// Its address.
        addr: SocketAddr,
    },
    /// The operations port accepts connections.
    OpsListening {
        /// Its address.
        addr: SocketAddr,
    },
    /// The operations port is reachable from other hosts, and access is not restricted.
    OpsExposed {
        /// Its address.
        addr: SocketAddr,
    },
    /// The server is ready to serve requests.
    Ready {
        /// The number of threads that run PHP.
        workers: u64,
    },
    /// The drain has begun.
    Draining {
        /// How long the server keeps serving as usual.
        delay: Duration,
        /// How long requests may take after that.
        timeout: Duration,
    },
    /// The drain deadline has passed while requests were still in progress.
    DrainTimeout {
        /// The number of aborted requests.
        cut_off: u64,
    },
    /// The server has stopped.
    Stopped,
    /// A signal stopped the server before it served.
    StartStopped,
    /// An event of the worker pool.
    Worker(WorkerEvent<'a>),
    /// An event of tracing.
    Tracing(TraceEvent<'a>),
    /// A warning about the settings.
    Setting(&'a Warning),
    /// An event of `--watch`.
    Watch(WatchEvent<'a>),
    /// A hint for the operator.
    Hint(Hint<'a>),
    /// An event of the plugin with this name.
    Plugin(&'a str, PluginEvent<'a>),
    /// A script named a file that is not sent.
    FileRefused {
        /// The name as written by the script.
        file: &'a [u8],
        /// The reason.
        reason: &'a str,
        /// The ID of the request.
        request_id: &'a str,
    },
    /// A body could not be written to a temporary file.
    SpoolTrouble {
        /// The error reported by the system.
        error: &'a str,
    },
    /// Connections cannot be accepted at the moment.
    AcceptFailed {
        /// The error reported by the system.
        error: &'a str,
    },
    /// Connections to the operations port cannot be accepted at the moment.
    OpsAcceptFailed {
        /// The error reported by the system.
        error: &'a str,
    },
    /// No file descriptor is free; the operations port accepts connections with its reserve.
    OpsReserveUsed {
        /// The error reported by the system.
        error: &'a str,
    },
    /// Log records were dropped because the log output was too slow.
    RecordsDropped {
        /// The number of records dropped since the last such event.
        count: u64,
    },
    /// A certificate has expired; it is still used.
    CertificateExpired {
        /// Its file.
        path: &'a str,
        /// When its validity ended.
        not_after: SystemTime,
    },
    /// A certificate is not valid yet; it is still used.
    CertificateNotYetValid {
        /// Its file.
        path: &'a str,
        /// When its validity begins.
        not_before: SystemTime,
    },
    /// A client failed to complete the TLS handshake.
    HandshakeFailed {
        /// The client's address.
        client: IpAddr,
        /// The error.
        error: &'a str,
    },
    /// SIGHUP was received, and there is nothing to reload.
    NothingToReload,
    /// SIGHUP was received, and the reload succeeded.
    Reloaded,
    /// SIGHUP was received, and a part could not be reloaded; its previous state stays in effect.
    ReloadFailed {
        /// The error.
        error: &'a str,
    },
    /// Requests wait although workers are idle, and nothing is finished.
    WedgeWarning {
        /// The state of the queue at the scan.
        gate: GateFacts,
        /// The number of threads without a request.
        workers_idle: u64,
    },
    /// Work is being finished again after a wedge warning.
    PoolRecovered,
    /// A scan found the first refusals under overload.
    SheddingStarted {
        /// The refusals that the scan found.
        refused: Refusals,
        /// The state of the queue at the scan.
        gate: GateFacts,
    },
    /// Requests are still being refused.
    SheddingContinues {
        /// The number of refusals that this scan found.
        refused: u64,
        /// All refusals since the episode began.
        episode: Refusals,
    },
    /// There were no refusals for a minute.
    SheddingStopped {
        /// All refusals of the episode.
        episode: Refusals,
        /// The time from its first refusal to its last.
        duration: Duration,
        /// The state of the queue at the scan.
        gate: GateFacts,
    },
    /// A signal arrived that has no meaning for the server.
    SignalIgnored {
        /// Its number.
        number: i32,
        /// The process that sent it; `None` if the kernel sent it.
        sender: Option<u32>,
    },
    /// A message from PHP: an error, `error_log()` or `frankenphp_log()`.
    PhpMessage(PhpMessage<'a>),
    /// A message from a plugin.
    PluginMessage {
        /// The plugin.
        plugin: &'a str,
        /// The level that it chose.
        level: Level,
        /// The text.
        message: &'a [u8],
    },
    /// A request has ended.
    Access(Access<'a>),
    /// Another failure, described by the text.
    Failure {
        /// The failure, as a sentence without a full stop.
        what: &'a str,
    },
}

impl Event<'_> {
    /// Returns the level of the event.
    pub fn level(&self) -> Level {
        match self {
            Self::Worker(event) => event.level(),
            Self::Tracing(event) => event.level(),
            Self::Watch(event) => event.level(),
            Self::Hint(hint) => hint.level(),
            Self::Plugin(_, event) => event.level(),
            Self::PluginMessage { level, .. } => *level,
            Self::Failure { .. } | Self::SpoolTrouble { .. } | Self::ReloadFailed { .. } => Level::Error,
            Self::PhpMessage(message) => message.level.of_record(),
            Self::OpsExposed { .. }
            | Self::CertificateExpired { .. }
            | Self::CertificateNotYetValid { .. }
            | Self::Setting(_)
            | Self::OpcacheOff
            | Self::ExtensionUnknown { .. }
            | Self::OpcacheRestartDelayed
            | Self::OpcacheFull { .. }
            | Self::UmaskShared
            | Self::DrainTimeout { .. }
            | Self::AcceptFailed { .. }
            | Self::FileRefused { .. }
            | Self::OpsAcceptFailed { .. }
            | Self::OpsReserveUsed { .. }
            | Self::RecordsDropped { .. }
            | Self::WedgeWarning { .. }
            | Self::SignalIgnored { .. }
            | Self::SheddingStarted { .. }
            | Self::SheddingContinues { .. } => Level::Warn,
            Self::Starting { .. }
            | Self::PhpReady { .. }
            | Self::Listening { .. }
            | Self::RedirectListening { .. }
            | Self::OpsListening { .. }
            | Self::Ready { .. }
            | Self::Draining { .. }
            | Self::Stopped
            | Self::StartStopped
            | Self::NothingToReload
            | Self::Reloaded
            | Self::PoolRecovered
            | Self::SheddingStopped { .. }
            | Self::OpcacheRestarted
            | Self::Access(_) => Level::Info,
            Self::HandshakeFailed { .. } => Level::Debug,
        }
    }

    /// Returns whether the event is about an exporter. Its record is not exported: it would be about itself.
    pub(super) fn is_about_export(&self) -> bool {
        matches!(self, Self::Tracing(event) if event.is_about_export())
    }

    /// Returns the flags of the trace that the record names.
    pub(super) fn trace_flags(&self) -> u8 {
        match self {
            Self::Access(access) => access.trace.map_or(0, Trace::flags),
            Self::PhpMessage(message) => message.traceparent.as_ref().map_or(0, Traceparent::flags),
            _ => 0,
        }
    }

    /// Renders the event as a line of text, without time and level.
    pub fn to_line(&self) -> String {
        let line = text_line(&self.render(SystemTime::UNIX_EPOCH));
        let line = String::from_utf8_lossy(&line);
        line.split_once(": ").map_or(&*line, |(_, text)| text).trim_end().to_owned()
    }

    /// Renders the event as a line of the log.
    pub fn render(&self, at: SystemTime) -> Vec<u8> {
        let svc = |message: &str| Record::begin(at, self.level().as_str(), "svc", message);
        match *self {
            Self::Starting { version } => svc("svc is starting").text("version", version),
            Self::PhpReady { version, zts, opcache } => {
                svc("PHP is ready").text("version", version).boolean("zts", zts).boolean("opcache", opcache)
            }
            Self::OpcacheOff => svc("OPcache is disabled: scripts are compiled on every request"),
            Self::ExtensionUnknown { extension } => svc(EXTENSION_UNKNOWN).text("extension", extension),
            Self::OpcacheRestartDelayed => svc(OPCACHE_RESTART_DELAYED),
            Self::OpcacheRestarted => svc("OPcache restarted after a delay"),
            Self::OpcacheFull { scripts } => svc(OPCACHE_FULL).number("scripts", scripts),
            Self::UmaskShared => svc(UMASK_SHARED),
            Self::Listening { addr } => svc("main port is listening").text("addr", addr),
            Self::RedirectListening { addr } => svc(REDIRECTING).text("addr", addr.to_string()),
            Self::OpsListening { addr } => svc("operations port is listening").text("addr", addr.to_string()),
            Self::OpsExposed { addr } => svc(OPS_EXPOSED).text("addr", addr.to_string()),
            Self::Ready { workers } => svc("svc is ready").number("workers", workers),
            Self::Draining { delay, timeout } => svc("svc is draining")
                .number("delay_ms", as_millis(delay))
                .number("timeout_ms", as_millis(timeout)),
            Self::DrainTimeout { cut_off } => svc(CUT_OFF).number("cut_off", cut_off),
            Self::Stopped => svc("svc has stopped"),
            Self::StartStopped => svc("svc was stopped during its start"),
            Self::Worker(event) => event.record(svc),
            Self::Tracing(event) => event.record(svc),
            Self::Setting(warning) => setting_event::record(warning, svc),
            Self::Watch(event) => event.record(svc),
            Self::Hint(hint) => hint.record(svc),
            Self::Plugin(plugin, event) => event.record(plugin, svc),
            Self::FileRefused { file, reason, request_id } => {
                not_sent(svc(NOT_SENT), file, reason, request_id)
            }
            Self::SpoolTrouble { error } => svc("failed to spool a body").text("error", error),
            Self::AcceptFailed { error } => svc("main port cannot accept connections").text("error", error),
            Self::OpsAcceptFailed { error } => svc(OPS_NOT_ACCEPTING).text("error", error),
            Self::OpsReserveUsed { error } => svc(OPS_RESERVE_USED).text("error", error),
            Self::RecordsDropped { count } => svc(RECORDS_DROPPED).number("count", count),
            Self::CertificateExpired { path, not_after } => dated(svc(EXPIRED), path, "not_after", not_after),
            Self::CertificateNotYetValid { path, not_before } => {
                dated(svc(EARLY), path, "not_before", not_before)
            }
            Self::HandshakeFailed { client, error } => {
                svc("TLS handshake failed").text("client", client.to_string()).text("error", error)
            }
            Self::Reloaded => svc("reload finished"),
            Self::ReloadFailed { error } => svc(NOT_RELOADED).text("error", error),
            Self::SignalIgnored { number, sender } => signal_fields(svc(SIGNAL_IGNORED), number, sender),
            Self::NothingToReload => svc("SIGHUP received; nothing to reload"),
            Self::WedgeWarning { gate, workers_idle } => wedge_fields(svc(WEDGE_WARNING), gate, workers_idle),
            Self::PoolRecovered => svc("PHP pool is reaching workers again"),
            Self::SheddingStarted { refused, gate } => {
                let record = svc("PHP admission has started shedding requests under overload");
                shedding_fields(record, refused, gate)
            }
            Self::SheddingContinues { refused, episode } => {
                let record = svc("PHP admission is still shedding requests under overload");
                episode_fields(record.number("refused", refused), episode)
            }
            Self::SheddingStopped { episode, duration, gate } => {
                episode_fields(svc("PHP admission has stopped shedding requests"), episode)
                    .number("duration_ms", as_millis(duration))
                    .number("queue_depth", gate.depth as u64)
                    .number("admission_slots_available", gate.slots_available as u64)
            }
            Self::PhpMessage(message) => message.record(at),
            Self::PluginMessage { plugin, level, message } => said(at, plugin, level, message),
            Self::Access(access) => access.record(at),
            Self::Failure { what } => svc(what),
        }
        .end()
    }
}

/// Adds the fields of a file that is not sent.
fn not_sent(record: Record, file: &[u8], reason: &str, request_id: &str) -> Record {
    record.text("file", file).text("reason", reason).text("request_id", request_id)
}

/// Makes the record of a message from a plugin.
fn said(at: SystemTime, plugin: &str, level: Level, message: &[u8]) -> Record {
    Record::begin(at, level.as_str(), "plugin", message).text("plugin", plugin)
}

const WEDGE_WARNING: &str =
    "PHP requests are waiting while the pool has idle workers and got nothing done since the last scan";

const OPS_EXPOSED: &str = "operations port is reachable from other hosts and INTERNAL_ALLOW_IPS is not set";
const EXTENSION_UNKNOWN: &str =
    "unknown version of a PHP extension: all requests of a worker share its per-request state";
const OPCACHE_RESTART_DELAYED: &str = "OPcache restart is delayed by long-running scripts: scripts are compiled on every request until it completes";
const OPCACHE_FULL: &str = "OPcache is full: scripts that it does not hold are compiled on every request; reload svc after a deployment, or raise opcache.memory_consumption or opcache.max_accelerated_files";
const OPS_RESERVE_USED: &str = "no file descriptor is free; operations port is using its reserve";
const SIGNAL_IGNORED: &str = "a signal that svc does not handle was ignored";
const UMASK_SHARED: &str = "umask() affects all requests: the system does not allow a umask per thread";

const EXPIRED: &str = "certificate has expired";

const EARLY: &str = "certificate is not valid yet";

const CUT_OFF: &str = "drain deadline passed; remaining requests were aborted";
const RECORDS_DROPPED: &str = "log output was too slow; records were dropped";
const NOT_SENT: &str = "file named by a script is not sent";
const OPS_NOT_ACCEPTING: &str = "operations port cannot accept connections";
const REDIRECTING: &str = "redirect port is listening";
const NOT_RELOADED: &str = "reload failed; the previous state stays in effect";

fn dated(record: Record, path: &str, name: &str, at: SystemTime) -> Record {
    record.text("path", path).text(name, timestamp(at))
}

fn signal_fields(record: Record, number: i32, sender: Option<u32>) -> Record {
    let record = record.number("signal", number.unsigned_abs().into());
    sender.into_iter().fold(record, |record, sender| record.number("sender_pid", sender.into()))
}

fn wedge_fields(record: Record, gate: GateFacts, workers_idle: u64) -> Record {
    queue_fields(record, gate).number("workers_idle", workers_idle)
}

fn shedding_fields(record: Record, refused: Refusals, gate: GateFacts) -> Record {
    let record = record
        .number("refused", refused.sum())
        .number("refused_queue_full", refused.queue_full)
        .number("refused_wait_timeout", refused.wait_timeout)
        .number("refused_waiting_full", refused.waiting_full)
        .number("refused_waiting_bytes", refused.waiting_bytes);
    queue_fields(record, gate)
        .number("wait_budget_us", as_micros(gate.wait_budget))
        .number("wait_budget_ceiling_us", as_micros(gate.wait_budget_ceiling))
}

fn queue_fields(record: Record, gate: GateFacts) -> Record {
    record
        .number("queue_depth", gate.depth as u64)
        .number("queue_capacity", gate.capacity as u64)
        .number("admission_slots_available", gate.slots_available as u64)
}

fn episode_fields(record: Record, episode: Refusals) -> Record {
    record
        .number("episode_refused", episode.sum())
        .number("episode_refused_queue_full", episode.queue_full)
        .number("episode_refused_wait_timeout", episode.wait_timeout)
        .number("episode_refused_waiting_full", episode.waiting_full)
        .number("episode_refused_waiting_bytes", episode.waiting_bytes)
}

#[cfg(test)]
#[path = "event_tests.rs"]
mod tests;
