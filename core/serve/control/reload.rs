//! Reloading: what can change on disk while the server runs.
//!
//! Promises: each part that can be reloaded takes over what is good as a whole, or stays as it was; one record tells
//! how it went, and the metrics remember it. Refuses: settings are read once, at the start; and nobody who serves
//! waits for it.

use crate::observe::{Event, ReloadFacts};
use crate::policy::PolicyError;
use crate::time;
use crate::tls::Terms;
use crate::tls::validity::Standing;

use crate::serve::disk::site::Site;
use crate::serve::shared::Shared;

/// Reloads every part; `has_new_code` says whether scripts are read anew: persistent workers are being replaced, of which
/// their supervisor tells, or a cache is emptied. `tell` lets io threads know of new rules. Waits for disks.
pub(in crate::serve) fn reload(shared: &Shared, site: &Site, has_new_code: bool, tell: impl FnOnce()) {
    let rules = [deny_rules(shared), error_pages(shared)];
    if rules.iter().any(Option::is_some) {
        tell();
    }
    // A further part stands in this list; files come behind the rules that they are judged by.
    let [deny_rules, error_pages] = rules;
    let outcomes =
        [certificates(shared), deny_rules, error_pages, files(site), has_new_code.then_some(Ok(()))];
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

/// Reads the rules of the document root anew; `None` if there are none and were none.
fn deny_rules(shared: &Shared) -> Option<Result<(), String>> {
    concerning(shared.policy.read_deny_rules())
}

/// Reads the pages of errors anew; `None` if the settings name none.
fn error_pages(shared: &Shared) -> Option<Result<(), String>> {
    concerning(shared.policy.read_error_pages())
}

fn concerning(outcome: Result<bool, PolicyError>) -> Option<Result<(), String>> {
    match outcome {
        Ok(concerns) => concerns.then_some(Ok(())),
        Err(error) => Some(Err(error.to_string())),
    }
}

/// Forgets the static files that are kept ready, so that each is looked up before it is sent again; `None` when none are
/// ever kept.
fn files(site: &Site) -> Option<Result<(), String>> {
    site.forget_files().then_some(Ok(()))
}

/// Loads the certificates anew; `None` without TLS.
fn certificates(shared: &Shared) -> Option<Result<(), String>> {
    let terms = shared.tls.get()?;
    let outcome = terms.reload().map_err(|error| error.to_string());
    if outcome.is_ok() {
        warn_about_dates(shared, terms);
    }
    Some(outcome)
}

/// Tells which certificates clients will not believe.
pub(in crate::serve) fn warn_about_dates(shared: &Shared, terms: &Terms) {
    let now = time::wall();
    for identity in terms.identities() {
        let Some(validity) = identity.validity else { continue };
        let path = &*identity.path.to_string_lossy();
        match validity.standing(now) {
            Standing::Valid => {}
            Standing::Early => {
                shared.log.emit(&Event::CertificateNotYetValid { path, not_before: validity.not_before });
            }
            Standing::Expired => {
                shared.log.emit(&Event::CertificateExpired { path, not_after: validity.not_after });
            }
        }
    }
}
