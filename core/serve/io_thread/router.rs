//! What answers a path, as one io thread knows it.
//!
//! Promises: what answered a moment ago is not looked up again; the disk is asked by a file thread. Refuses: it runs
//! nothing and answers nobody.

use std::time::Instant;

use crate::files::{EVERYTHING_ELSE, Lookup, RouteCache};
use crate::policy::Rules;
use crate::policy::deny::Denial;
use crate::pool::{Script, StreamKey};
use crate::sync::primitive::Arc;

use crate::serve::disk::client::DiskClient;
use crate::serve::disk::file_job::{Chore, Job};
use crate::serve::disk::site::{Ready, Site};

/// Paths and what answers them.
#[derive(Debug)]
pub(in crate::serve) struct Router {
    site: Arc<Site>,
    disk: DiskClient,
    /// What stands in files, as this thread was told the last time.
    rules: Arc<Rules>,
    scripts: RouteCache<Script>,
}

/// What answers a path.
#[derive(Debug)]
pub(in crate::serve) enum Handler {
    /// Nothing may.
    Denied(Denial),
    /// A file that is ready.
    File(Ready),
    /// A script.
    Script(Arc<Script>),
    /// A file thread finds out.
    Unknown,
}

impl Router {
    /// Finds what answers in `site` under `rules`.
    pub(in crate::serve) fn new(site: Arc<Site>, disk: DiskClient, rules: Arc<Rules>) -> Self {
        Self { site, disk, rules, scripts: RouteCache::new() }
    }

    /// What stands in files.
    pub(in crate::serve) fn rules(&self) -> &Rules {
        &self.rules
    }

    /// Takes rules that were read anew; what was found under the old ones is found again.
    pub(in crate::serve) fn take_rules(&mut self, rules: Arc<Rules>) {
        self.rules = rules;
        self.scripts = RouteCache::new();
    }

    /// Finds what answers a normalised path; if that takes a disk, the result comes for the stream with `key`.
    pub(in crate::serve) fn find(&mut self, path: Vec<u8>, key: StreamKey, now: Instant) -> Handler {
        if let Some(denial) = self.site.denies(&self.rules, &path) {
            return Handler::Denied(denial);
        }
        if let Some(script) = self.scripts.get(&path, now) {
            return Handler::Script(Arc::clone(script));
        }
        match self.site.kept(&path, now) {
            Lookup::Absent | Lookup::Old => {
                if let Some(script) = self.scripts.get(EVERYTHING_ELSE, now)
                    && self.site.leaves_to_front_controller(&path)
                {
                    return Handler::Script(Arc::clone(script));
                }
                self.disk.order(Job::Find(Arc::clone(&self.site), path), key);
                Handler::Unknown
            }
            Lookup::Good(asset) => Handler::File(Ready { asset, was_kept: true }),
            Lookup::Stale(asset) => {
                self.disk.order_chore(Chore::Look(Arc::clone(&self.site), path));
                Handler::File(Ready { asset, was_kept: true })
            }
        }
    }

    /// Remembers that `script` answers a normalised path.
    pub(in crate::serve) fn learn(&mut self, path: Vec<u8>, script: &Arc<Script>, now: Instant) {
        if self.site.answers_everything_else(script) {
            self.scripts.insert(EVERYTHING_ELSE.to_vec(), Arc::clone(script), now);
        }
        self.scripts.insert(path, Arc::clone(script), now);
    }

    /// Looks anew for what answers a normalised path the next time.
    pub(in crate::serve) fn forget(&mut self, path: &[u8]) {
        self.scripts.forget(path);
        self.scripts.forget(EVERYTHING_ELSE);
    }
}
