//! What the log tells an operator who may want to change a setting.
//!
//! Promises: as [`Event`](super::Event) does, of which it is a part; each is told once, when there is a reason.

use super::record::Record;
use crate::admission::ShedReason;
use crate::config::Level;

/// Something that an operator may want to look at.
#[derive(Clone, Copy, Debug)]
pub enum Hint<'a> {
    /// Requests were refused under overload for the first time.
    FirstEpisode {
        /// For which reason most of them.
        reason: ShedReason,
        /// What the setting behind that reason is.
        value: u64,
        /// The most threads that run PHP.
        php_workers: u64,
    },
    /// The document root looks like the directory of a project, of which only a part is for clients.
    ProjectAsRoot {
        /// The document root.
        path: &'a str,
        /// What it looks like that for.
        found: &'a str,
    },
}

impl Hint<'_> {
    /// How important it is.
    pub fn level(self) -> Level {
        match self {
            Self::FirstEpisode { .. } => Level::Info,
            Self::ProjectAsRoot { .. } => Level::Warn,
        }
    }

    /// Makes a record of it.
    pub(super) fn record(self, begin: impl Fn(&str) -> Record) -> Record {
        match self {
            Self::FirstEpisode { reason, value, php_workers } => begin(FIRST_EPISODE)
                .text("setting", setting_of(reason))
                .number("value", value)
                .number("php_workers", php_workers),
            Self::ProjectAsRoot { path, found } => {
                begin(PROJECT_AS_ROOT).text("path", path).text("found", found)
            }
        }
    }
}

/// The setting that decides when requests are refused for this reason.
fn setting_of(reason: ShedReason) -> &'static str {
    match reason {
        ShedReason::QueueFull => "QUEUE_CAPACITY",
        ShedReason::WaitingBytes => "QUEUE_MAX_WAITING_BYTES",
        ShedReason::WaitingFull => "QUEUE_MAX_WAITING",
        _ => "QUEUE_WAIT_TIMEOUT_MS",
    }
}

const FIRST_EPISODE: &str =
    "this setting and the number of PHP_WORKERS determine when the server starts shedding requests";
const PROJECT_AS_ROOT: &str =
    "document root looks like a project directory: usually only a subdirectory of it should be served";
