//! The settings of all workers, completed by PHP's report.

use std::hash::{BuildHasher, RandomState};
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;
use std::time::Duration;

use svc_core::config::{Config, FastcgiTarget};
use svc_core::observe::Log;
use svc_core::pool::lifetime;

use super::endpoints::Endpoints;
use super::inspection::PhpSelfReport;
use super::process::ProcessCommand;

/// The settings of all workers.
#[derive(Debug)]
pub(super) struct Plan {
    pub(super) target: Target,
    pub(super) keeps_connections: bool,
    /// The document root as PHP sees it, if that is another path.
    pub(super) root: Option<Vec<u8>>,
    /// When a client gets 504.
    pub(super) time_limit: Option<Duration>,
    /// When a process is ended.
    pub(super) hard_limit: Option<Duration>,
    /// The number of requests after which a process is replaced, on average; 0 means no limit.
    requests_mean: u64,
}

/// Where PHP is.
#[derive(Debug)]
pub(super) enum Target {
    /// In processes of svc.
    Managed(ProcessCommand),
    /// At these addresses.
    External(Arc<Endpoints>),
}

impl Plan {
    /// Creates the plan of the settings.
    pub(super) fn new(config: &Config, report: Option<&PhpSelfReport>, log: &Log) -> Self {
        let fastcgi = &config.php.fastcgi;
        let seconds = |name: &str, reported: Option<u64>| {
            let set = config.php.ini.iter().rev().find(|(set, _)| set == name);
            set.and_then(|(_, value)| value.trim().parse().ok()).or(reported).map(Duration::from_secs)
        };
        let time_limit = seconds("max_execution_time", report.map(|report| report.max_execution_time))
            .filter(|limit| !limit.is_zero());
        let beyond = seconds("hard_timeout", report.map(|report| report.hard_timeout)).unwrap_or_default();
        Self {
            target: match &fastcgi.target {
                FastcgiTarget::Addresses(addrs) => {
                    Target::External(Arc::new(Endpoints::new(addrs.clone(), log.clone())))
                }
                FastcgiTarget::Command(program) => Target::Managed(ProcessCommand::new(program, config)),
            },
            keeps_connections: fastcgi.keeps_connections,
            root: fastcgi.root.as_ref().map(|root| root.as_os_str().as_bytes().to_vec()),
            time_limit,
            hard_limit: time_limit.map(|limit| limit.saturating_add(beyond)),
            requests_mean: config.php.worker_max_requests,
        }
    }

    /// Returns the number of requests of one process; `None` means no limit.
    pub(super) fn requests_max(&self) -> Option<u64> {
        lifetime(self.requests_mean, RandomState::new().hash_one(()))
    }

    /// Returns the name of the other side in log records.
    pub(super) fn name(&self) -> String {
        match &self.target {
            Target::Managed(command) => command.program.display().to_string(),
            Target::External(endpoints) => endpoints.to_string(),
        }
    }
}
