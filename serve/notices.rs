//! Warnings about settings and files that do not stop the start.
//!
//! The start logs the same warnings that `svc check` prints. The warnings have no other effect.

use svc_core::config::Config;
use svc_core::observe::{Event, Hint, TraceEvent};
use svc_core::policy::Policy;
use svc_core::policy::client::is_exposed;
use svc_core::policy::never_public::sign_of_project;
use svc_core::sync::primitive::Arc;
use svc_core::time;
use svc_core::tls::{SessionConfig, ValidityStatus};

use super::disk::site::Site;

/// Reports all warnings; does not need a server.
pub fn notices(
    config: &Config,
    policy: Policy,
    tls: Option<&SessionConfig>,
    tell: &mut dyn FnMut(&Event<'_>),
) {
    if let Some(addr) = config.operations.addr.filter(|addr| is_exposed(addr.ip()))
        && config.operations.allow_ips.is_none()
    {
        tell(&Event::OpsExposed { addr });
    }
    about_files(config, tls, tell);
    about_site(config, &Site::new(config, &Arc::new(policy)), tell);
}

/// Reports warnings that do not depend on the site.
pub(super) fn about_files(config: &Config, tls: Option<&SessionConfig>, tell: &mut dyn FnMut(&Event<'_>)) {
    for problem in config.tracing.iter().flat_map(|tracing| &tracing.ignored) {
        tell(&Event::Tracing(TraceEvent::SettingIgnored { problem }));
    }
    if let Some(terms) = tls {
        about_dates(terms, tell);
    }
    if let Some(found) = sign_of_project(&config.serving.document_root) {
        let path = &*config.serving.document_root.to_string_lossy();
        tell(&Event::Hint(Hint::ProjectAsRoot { path, found }));
    }
}

/// Reports warnings that depend on the site.
pub(super) fn about_site(config: &Config, site: &Site, tell: &mut dyn FnMut(&Event<'_>)) {
    if let Some(entry) = config.background.async_entry_file.as_ref().filter(|_| site.holds_task_entry()) {
        tell(&Event::Hint(Hint::TaskEntryInRoot { path: &entry.to_string_lossy() }));
    }
    if config.background.has_idle_hooks {
        tell(&Event::Hint(Hint::IdleHooks));
    }
}

/// Reports certificates that are not valid now.
pub(super) fn about_dates(terms: &SessionConfig, tell: &mut dyn FnMut(&Event<'_>)) {
    let now = time::wall();
    for identity in terms.identities() {
        let Some(validity) = identity.validity else { continue };
        let path = &*identity.path.to_string_lossy();
        match validity.status(now) {
            ValidityStatus::Valid => {}
            ValidityStatus::NotYetValid => {
                tell(&Event::CertificateNotYetValid { path, not_before: validity.not_before });
            }
            ValidityStatus::Expired => {
                tell(&Event::CertificateExpired { path, not_after: validity.not_after });
            }
        }
    }
}
