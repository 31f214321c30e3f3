//! Reloading what can change on disk while the server runs.
//!
//! Promises: each part takes over its new state completely, or keeps the previous one; one log record and the metrics
//! say which. Refuses: settings are read only at the start, and no request waits for a reload.

use crate::observe::{Event, ReloadFacts};
use crate::policy::PolicyError;
use crate::time;
use crate::tls::{SessionConfig, ValidityStatus};

use crate::serve::disk::site::Site;
use crate::serve::shared::Shared;

/// Reloads every part. `has_new_code` says whether scripts are reloaded: the supervisor replaces the persistent workers
/// and logs it, or a cache was emptied. `tell` notifies the I/O threads of new rules. Waits for the disk.
pub(in crate::serve) fn reload(shared: &Shared, site: &Site, has_new_code: bool, tell: impl FnOnce()) {
    let rules = [deny_rules(shared), error_pages(shared), header_rules(shared)];
    if rules.iter().any(Option::is_some) {
        tell();
    }
    // Add new parts to this list. Files come after the rules by which they are judged.
    let [deny_rules, error_pages, header_rules] = rules;
    let new_code = has_new_code.then_some(Ok(()));
    let outcomes = [certificates(shared), deny_rules, error_pages, header_rules, files(site), new_code];
    let parts: Vec<Result<(), String>> = outcomes.into_iter().flatten().collect();
    if parts.is_empty() {
        return shared.log.emit(&Event::NothingToReload);
    }
    let errors: Vec<String> = parts.into_iter().filter_map(Result::err).collect();
    let mut facts = shared.reload.lock();
    if errors.is_empty() {
        *facts = ReloadFacts { is_successful: true, succeeded_at: time::wall() };
        drop(facts);
        shared.log.emit(&Event::Reloaded);
    } else {
        facts.is_successful = false;
        drop(facts);
        shared.log.emit(&Event::ReloadFailed { error: &errors.join("; ") });
    }
}

/// Reloads the rules of the document root; `None` if there are none and were none.
fn deny_rules(shared: &Shared) -> Option<Result<(), String>> {
    concerning(shared.policy.read_deny_rules())
}

/// Reloads the fields for responses; `None` if there are none and were none.
fn header_rules(shared: &Shared) -> Option<Result<(), String>> {
    concerning(shared.policy.read_header_rules())
}

/// Reloads the error pages; `None` if no directory is configured.
fn error_pages(shared: &Shared) -> Option<Result<(), String>> {
    concerning(shared.policy.read_error_pages())
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
        warn_about_dates(shared, terms);
    }
    Some(outcome)
}

/// Logs which certificates are not valid now.
pub(in crate::serve) fn warn_about_dates(shared: &Shared, terms: &SessionConfig) {
    let now = time::wall();
    for identity in terms.identities() {
        let Some(validity) = identity.validity else { continue };
        let path = &*identity.path.to_string_lossy();
        match validity.status(now) {
            ValidityStatus::Valid => {}
            ValidityStatus::NotYetValid => {
                shared.log.emit(&Event::CertificateNotYetValid { path, not_before: validity.not_before });
            }
            ValidityStatus::Expired => {
                shared.log.emit(&Event::CertificateExpired { path, not_after: validity.not_after });
            }
        }
    }
}
