//! The FastCGI executor from its start to its end.

use std::sync::Arc;

use svc_core::config::{Config, FastcgiTarget};
use svc_core::observe::{Event, Hint, Log};
use svc_core::pool::{Engine, Exchange};
use svc_serve::{ExecutorFacts, PreparedServer};

use super::engine::FastcgiEngine;
use super::inspection::{self, PhpSelfReport};

/// The engine, and the facts about its PHP.
pub(crate) struct PreparedExecutor {
    pub(crate) engine: Arc<dyn Engine<Exchange>>,
    pub(crate) facts: ExecutorFacts,
}

/// Prepares the engine of the settings, and collects the facts about its PHP.
///
/// # Errors
///
/// The reasons why its requests would fail.
pub(crate) fn prepare(
    config: &Config,
    log: &Log,
    prepared: &PreparedServer,
) -> Result<PreparedExecutor, Vec<String>> {
    for (name, reason) in inspection::idle_directives(config) {
        log.emit(&Event::Hint(Hint::IdleDirective { name, reason }));
    }
    let report = match &config.php.fastcgi.target {
        FastcgiTarget::Addresses(_) => None,
        FastcgiTarget::Command(program) => inspection::ask(program, config)?,
    };
    if let Some(report) = &report {
        log.emit(&report.ready());
    }
    for what in report.iter().flat_map(PhpSelfReport::warnings) {
        log.emit(&Event::Failure { what });
    }
    let engine: Arc<dyn Engine<Exchange>> = Arc::new(FastcgiEngine::new(prepared.shared(), report.as_ref()));
    let facts = ExecutorFacts {
        php_version: report.as_ref().map(|report| report.version().to_owned()),
        report: report.map(|report| report.facts()).unwrap_or_default(),
        free_unused: Some(svc_ffi::allocator::free_unused),
    };
    Ok(PreparedExecutor { engine, facts })
}
