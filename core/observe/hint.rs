//! Log records that point operators to a setting.
//!
//! As for [`Event`](super::Event), of which a hint is a part. Each hint is logged once, when there is a reason for
//! it.

use super::record::Record;
use crate::admission::ShedReason;
use crate::config::Level;

/// A hint for the operator.
#[derive(Clone, Copy, Debug)]
pub enum Hint<'a> {
    /// Requests were refused under overload for the first time.
    FirstEpisode {
        /// The reason for most of the refusals.
        reason: ShedReason,
        /// The value of the setting behind that reason.
        value: u64,
        /// The maximum number of threads that run PHP.
        php_workers: u64,
    },
    /// The document root looks like the root of a project, of which only a part should be served.
    ProjectAsRoot {
        /// The document root.
        path: &'a str,
        /// The file that indicates a project.
        found: &'a str,
    },
    /// Runtime hooks were selected that have no effect.
    IdleHooks,
    /// Calls of a library do not reach the runtime hooks.
    HooksOutOfReach {
        /// The file name of the library.
        library: &'a str,
    },
    /// A file of the TLS configuration cannot be read by the user of `RUN_AS`.
    UnreadableAtReload {
        /// The file.
        path: &'a str,
    },
    /// A directive of the command line has no effect.
    IdleDirective {
        /// Its name.
        name: &'a str,
        /// Why it has no effect.
        reason: &'a str,
    },
    /// A reload found that an ini file of PHP has changed since the start.
    IniFileChanged {
        /// The file.
        path: &'a str,
    },
    /// The entry file of background tasks is in the document root.
    TaskEntryInRoot {
        /// The file.
        path: &'a str,
    },
}

impl Hint<'_> {
    /// Returns the level of the hint.
    pub fn level(self) -> Level {
        match self {
            Self::FirstEpisode { .. } => Level::Info,
            Self::ProjectAsRoot { .. }
            | Self::TaskEntryInRoot { .. }
            | Self::IdleDirective { .. }
            | Self::IniFileChanged { .. }
            | Self::IdleHooks
            | Self::UnreadableAtReload { .. }
            | Self::HooksOutOfReach { .. } => Level::Warn,
        }
    }

    /// Creates its record.
    pub(super) fn record(self, begin: impl Fn(&str) -> Record) -> Record {
        match self {
            Self::FirstEpisode { reason, value, php_workers } => begin(FIRST_EPISODE)
                .text("setting", setting_of(reason))
                .number("value", value)
                .number("php_workers", php_workers),
            Self::IdleHooks => begin(IDLE_HOOKS),
            Self::HooksOutOfReach { library } => begin(HOOKS_OUT_OF_REACH).text("library", library),
            Self::ProjectAsRoot { path, found } => {
                begin(PROJECT_AS_ROOT).text("path", path).text("found", found)
            }
            Self::UnreadableAtReload { path } => begin(UNREADABLE_AT_RELOAD).text("path", path),
            Self::IdleDirective { name, reason } => {
                begin(IDLE_DIRECTIVE).text("directive", name).text("reason", reason)
            }
            Self::IniFileChanged { path } => begin(INI_FILE_CHANGED).text("path", path),
            Self::TaskEntryInRoot { path } => begin(TASK_ENTRY_IN_ROOT).text("path", path),
        }
    }
}

/// Returns the setting that determines when requests are refused for this reason.
fn setting_of(reason: ShedReason) -> &'static str {
    match reason {
        ShedReason::QueueFull => "QUEUE_CAPACITY",
        ShedReason::WaitingBytes => "QUEUE_MAX_WAITING_BYTES",
        ShedReason::WaitingFull => "QUEUE_MAX_WAITING",
        _ => "QUEUE_WAIT_TIMEOUT_MS",
    }
}

const IDLE_HOOKS: &str = "RUNTIME_HOOKS has no effect: neither WORKER_MODE_ENABLED nor ASYNC_WORKERS is set";
const HOOKS_OUT_OF_REACH: &str =
    "runtime hooks do not reach this library: its calls block their thread while they wait";
const FIRST_EPISODE: &str =
    "this setting and the number of PHP_WORKERS determine when the server starts shedding requests";
const PROJECT_AS_ROOT: &str =
    "document root looks like a project directory: usually only a subdirectory of it should be served";
const UNREADABLE_AT_RELOAD: &str = "the user of RUN_AS cannot read this file: a reload on SIGHUP will fail and keep the present certificates";
const IDLE_DIRECTIVE: &str = "a directive of -d has no effect";
/// The message of [`Hint::IniFileChanged`].
pub const INI_FILE_CHANGED: &str =
    "an ini file of PHP has changed since the start: a reload cannot apply it, a restart does";
const TASK_ENTRY_IN_ROOT: &str = "ASYNC_ENTRY_FILE is in the document root, where requests for it are answered with 404: it should be outside";
