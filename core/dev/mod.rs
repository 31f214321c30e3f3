//! Development (`svc dev`): pages about failures of scripts, and the reload of browsers after a change.
//!
//! All of it exists only while `svc_serve::Shared` has a [`Development`], which only the command `svc dev`
//! creates: no setting and no variable does. Each entry point below checks for it first, so no other mode reaches this
//! folder.
//!
//! | entry point | effect |
//! |---|---|
//! | the error hook of the shim, then `Host::fail` in `sapi` | a [`Failure`] is made of class, message and trace |
//! | the end of the response in `sapi` | [`DevResponse`] replaces it by a page or JSON, or appends a script |
//! | the dispatch of a request in `serve` | a file that is a document gets the script; [`CHANGES_PATH`] waits for a change |
//! | the offer of a request in `serve` | while workers do not boot, the reason answers it |
//! | the watcher of `--watch` in `sapi` | [`Changes::note`] ends the waits of browsers |
//!
//! The engine knows class and trace only while it reports the failure, when there may be no memory left and no script
//! code may run. C therefore only formats the trace as text, outside of PHP's heap; the page is rendered here once the
//! script has ended. It therefore replaces the whole response, and passes through no output buffer, handler or header of
//! the script.
//!
//! A browser reloads by one inline script at the end of each complete HTML document. It waits for
//! [`CHANGES_PATH`]`?since=REVISION`, a response that the server holds back until the revision is another one. A hidden
//! page does not wait, because browsers open only six connections to a host.
//!
//! Functions here are pure, except that [`FailureReport::read`] reads source files, on a thread that runs scripts, and
//! that [`Changes`] notifies I/O threads.

mod accepts;
mod changes;
mod csp;
mod document;
mod excerpt;
mod failure;
mod failure_report;
mod html;
mod json;
mod masking;
mod page;
mod response;

use std::net::IpAddr;
use std::path::PathBuf;

use crate::config::DevelopmentConfig;
use crate::http::{Fields, Head};
use crate::sync::lock::ShortLock;
use crate::sync::primitive::{Arc, AtomicBool, Ordering};

pub use self::changes::{CHANGES_PATH, Changes};
pub use self::document::is_document_request;
pub use self::failure::{Failure, Frame};
pub use self::failure_report::FailureReport;
pub use self::response::DevResponse;

/// The state of a server that runs for development.
#[derive(Debug)]
pub struct Development {
    /// The changes that browsers wait for.
    pub changes: Changes,
    /// The environment, with secrets masked.
    environment: Vec<(String, String)>,
    /// The directory with the application's code.
    project: PathBuf,
    /// Whether the next reload of code is due to files that were saved.
    has_save: AtomicBool,
    /// Why workers do not boot; locked only to copy or replace it.
    boot_failure: ShortLock<Option<Arc<FailureReport>>>,
}

/// The request that a page about a failure shows.
#[derive(Clone, Copy, Debug)]
pub struct ShownRequest<'a> {
    /// Its head.
    pub head: &'a Head,
    /// The address of its client.
    pub client: IpAddr,
    /// The status of the response.
    pub status: u16,
}

/// A complete response about a failure.
#[derive(Debug)]
pub struct FailureResponse {
    /// The header fields.
    pub fields: Fields,
    /// The body.
    pub body: Vec<u8>,
}

impl Development {
    /// Creates the state. `instance` differs from that of servers that ran before: browsers that wait across a restart
    /// reload.
    pub fn new(config: &DevelopmentConfig, instance: u64) -> Arc<Self> {
        let masked =
            |(name, value): &(String, String)| (name.clone(), masking::masked(name, value).into_owned());
        let mut environment: Vec<_> = config.environment.iter().map(masked).collect();
        environment.sort();
        Arc::new(Self {
            changes: Changes::new(instance),
            environment,
            project: config.project.clone(),
            has_save: AtomicBool::new(false),
            boot_failure: ShortLock::default(),
        })
    }

    /// Notes that files with code were saved, directly before the reload that this causes.
    pub fn note_save(&self) {
        self.has_save.store(true, Ordering::Relaxed);
    }

    /// Returns whether saved files have caused this reload. An operator's reload also applies changes that files do not
    /// show in their time.
    pub fn take_save(&self) -> bool {
        self.has_save.swap(false, Ordering::Relaxed)
    }

    /// Notes why a worker has not booted, or that one has. Reads source files.
    pub fn set_boot_failure(&self, failure: Option<Failure>) {
        let report = failure.map(|failure| Arc::new(FailureReport::read(failure)));
        *self.boot_failure.lock() = report;
    }

    /// Returns why workers do not boot.
    pub fn boot_failure(&self) -> Option<Arc<FailureReport>> {
        self.boot_failure.lock().clone()
    }

    /// Renders the response about a failure, in the form that the client accepts.
    pub fn respond(
        &self,
        report: &FailureReport,
        request: ShownRequest<'_>,
        revision: &str,
    ) -> FailureResponse {
        let mut fields = Fields::new();
        fields.push_own(b"Cache-Control", b"no-store");
        fields.push_own(b"X-Content-Type-Options", b"nosniff");
        let body = if accepts::only_json(request.head) {
            fields.push_own(b"Content-Type", b"application/json");
            json::render(&report.failure)
        } else {
            fields.push_own(b"Content-Type", b"text/html; charset=utf-8");
            fields.push_own(b"Content-Security-Policy", page::POLICY.as_bytes());
            let mut page = page::render(self, report, request).into_bytes();
            if request.head.method() == "GET" {
                page.extend_from_slice(document::script(revision).as_bytes());
            }
            page
        };
        FailureResponse { fields, body }
    }
}
