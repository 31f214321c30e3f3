//! Reloads everything that can change on disk while the server runs.
//!
//! Each part adopts its new state completely, or keeps the previous one; one log record and the metrics report the
//! outcome, once the last worker with old code has been replaced. Settings are read only at the start, and no request
//! waits for a reload.

use svc_core::cache::Purge;
use svc_core::observe::Event;
use svc_core::policy::PolicyError;
use svc_core::pool::BootFault;
use svc_core::time;

use crate::disk::site::Site;
use crate::notices::about_dates;
use crate::reload_book::ReloadPool;
use crate::shared::Shared;

/// Reloads every file. `has_code`: code is reloaded as well: OPcache was emptied, and the supervisors replace the workers
/// that keep code. `notify` notifies the I/O threads of new rules. Waits for the disk.
pub(crate) fn reload(shared: &Shared, site: &Site, has_code: bool, notify: impl FnOnce()) {
    forget_responses(shared);
    let rules = [deny_rules(shared), error_pages(shared), header_rules(shared)];
    if rules.iter().any(Option::is_some) {
        notify();
    }
    // Add new parts to this list. Files come after the rules that judge them.
    let [deny_rules, error_pages, header_rules] = rules;
    let outcomes = [certificates(shared), deny_rules, error_pages, header_rules, files(site)];
    let parts: Vec<Result<(), String>> = outcomes.into_iter().flatten().collect();
    let is_nothing = parts.is_empty() && !has_code;
    let errors: Vec<String> = parts.into_iter().filter_map(Result::err).collect();
    let has_ended = shared.reload.lock().files_read(errors, time::wall());
    if is_nothing {
        shared.log.emit(&Event::NothingToReload);
    } else if has_ended {
        log_outcome(shared);
    }
}

/// Notes the outcome of replacing the workers of a pool.
pub(super) fn pool_replaced(shared: &Shared, pool: ReloadPool, outcome: Result<(), BootFault>) {
    if matches!(pool, ReloadPool::Workers) {
        // The workers that were replaced have made some since the reload began.
        forget_responses(shared);
    }
    let error = outcome.err().map(|fault| match pool {
        ReloadPool::Workers => format!("a PHP worker failed to boot: {fault}"),
        ReloadPool::Tasks => format!("an async worker failed to boot: {fault}"),
    });
    let has_ended = shared.reload.lock().pool_ends(pool, error, time::wall());
    if has_ended {
        log_outcome(shared);
    }
}

/// Ends the current reload, because the server stops.
pub(crate) fn abandon(shared: &Shared) {
    let has_ended = shared.reload.lock().abandon(time::wall());
    if has_ended {
        log_outcome(shared);
    }
}

fn log_outcome(shared: &Shared) {
    match shared.reload.lock().reading().error {
        None => shared.log.emit(&Event::Reloaded),
        Some(error) => shared.log.emit(&Event::ReloadFailed { error: &error }),
    }
}

/// Reloads the rules of the document root; `None` if there are none and were none before.
fn deny_rules(shared: &Shared) -> Option<Result<(), String>> {
    concerning(shared.policy.read_deny_rules())
}

/// Reloads the fields for responses; `None` if there are none and were none before.
fn header_rules(shared: &Shared) -> Option<Result<(), String>> {
    concerning(shared.policy.read_header_rules())
}

/// Reloads the error pages; `None` if no directory is configured.
fn error_pages(shared: &Shared) -> Option<Result<(), String>> {
    concerning(shared.policy.read_error_pages())
}

/// Empties the response cache.
fn forget_responses(shared: &Shared) {
    if let Some(cache) = &shared.cache {
        cache.purge(&Purge::All);
    }
}

fn concerning(outcome: Result<bool, PolicyError>) -> Option<Result<(), String>> {
    match outcome {
        Ok(concerns) => concerns.then_some(Ok(())),
        Err(error) => Some(Err(error.to_string())),
    }
}

/// Empties the cache of static files, so that each is looked up before it is sent again; `None` if there is no cache.
fn files(site: &Site) -> Option<Result<(), String>> {
    site.forget_files().then_some(Ok(()))
}

/// Reloads the certificates; `None` without TLS.
fn certificates(shared: &Shared) -> Option<Result<(), String>> {
    let terms = shared.tls.as_ref()?;
    let outcome = terms.reload().map_err(|error| error.to_string());
    if outcome.is_ok() {
        about_dates(terms, &mut |event| shared.log.emit(event));
    }
    Some(outcome)
}
