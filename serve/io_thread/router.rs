//! The handler of a path, as known to one I/O thread.
//!
//! A handler found a moment ago is not looked up again; only file threads access the disk. The router runs no handler
//! and sends no response.

use std::time::Instant;

use svc_core::files::{Lookup, RouteCache, SitePart};
use svc_core::policy::Rules;
use svc_core::policy::deny::Denial;
use svc_core::pool::{Script, StreamKey};
use svc_core::sync::primitive::Arc;

use crate::disk::client::DiskClient;
use crate::disk::file_job::{BackgroundJob, FileJob};
use crate::disk::site::{Ready, Site};

/// Paths and their handlers.
#[derive(Debug)]
pub(crate) struct Router {
    site: Arc<Site>,
    disk: DiskClient,
    /// The rules, as of the last reload that this thread was notified of.
    rules: Arc<Rules>,
    scripts: RouteCache<Script>,
    /// The number of reloads when they were found.
    reloads: u64,
}

/// The handler of a path.
#[derive(Debug)]
pub(crate) enum Handler {
    /// None: the path is blocked.
    Denied(Denial),
    /// A file that is ready to be sent.
    File(Ready),
    /// A script.
    Script(Arc<Script>),
    /// Not known yet: a file thread looks for it.
    Unknown,
}

impl Router {
    /// Looks for handlers in `site` under `rules`.
    pub(crate) fn new(site: Arc<Site>, disk: DiskClient, rules: Arc<Rules>) -> Self {
        let reloads = site.reloads();
        Self { site, disk, rules, scripts: RouteCache::new(), reloads }
    }

    /// Returns the site.
    pub(crate) fn site(&self) -> Arc<Site> {
        Arc::clone(&self.site)
    }

    /// Returns the rules.
    pub(crate) fn rules(&self) -> &Rules {
        &self.rules
    }

    /// Replaces the rules; handlers found under the old ones are looked up again.
    pub(crate) fn take_rules(&mut self, rules: Arc<Rules>) {
        self.rules = rules;
        self.scripts = RouteCache::new();
    }

    /// Finds the handler of a normalised path; if that requires a disk, the stream with `key` receives the result.
    pub(crate) fn find(&mut self, path: Vec<u8>, key: StreamKey, now: Instant) -> Handler {
        if let Some(denial) = self.site.denies(&self.rules, &path) {
            return Handler::Denied(denial);
        }
        let reloads = self.site.reloads();
        if self.reloads != reloads {
            // Links may have changed.
            self.scripts.clear();
            self.reloads = reloads;
        }
        let part = self.site.part(&path);
        // The common case in worker mode: nothing else needs to be looked up.
        if part.has_only_the_script(&path)
            && let Some(script) = self.front_controller(part, &path, now)
        {
            return Handler::Script(Arc::clone(script));
        }
        if let Some(script) = self.scripts.get(&path, now) {
            return Handler::Script(Arc::clone(script));
        }
        if let Some(file) = self.kept(&path, now) {
            return Handler::File(file);
        }
        if let Some(script) = self.front_controller(part, &path, now) {
            return Handler::Script(Arc::clone(script));
        }
        if let Some(file) = self.site.page_left_to(part, &path).and_then(|page| self.kept(page, now)) {
            return Handler::File(file);
        }
        self.disk.order(FileJob::Find(Arc::clone(&self.site), path), key);
        Handler::Unknown
    }

    /// Returns the file at a normalized path if the cache has it, and checks it on the disk if it is time to.
    fn kept(&self, path: &[u8], now: Instant) -> Option<Ready> {
        let asset = match self.site.kept(path, now) {
            Lookup::Absent | Lookup::Old => return None,
            Lookup::Good(asset) => asset,
            Lookup::Stale(asset) => {
                self.disk.order_background(BackgroundJob::Look(Arc::clone(&self.site), path.to_vec()));
                asset
            }
        };
        Some(Ready { asset, was_kept: true })
    }

    /// Returns the script that handles all remaining paths of `part` if it was found recently and certainly handles this
    /// one.
    fn front_controller(&self, part: &SitePart, path: &[u8], now: Instant) -> Option<&Arc<Script>> {
        let script = self.scripts.get(&part.key, now)?;
        self.site.leaves_to_front_controller(part, path).then_some(script)
    }

    /// Remembers that `script` handles a normalised path. A path that the front controller handles is not remembered:
    /// the script may create the file of that name, which has to answer the next request.
    pub(crate) fn learn(&mut self, path: &[u8], script: &Arc<Script>, now: Instant) {
        let part = self.site.part(path);
        if let Some(key) = part.route_key(path, &script.name, &script.path_info) {
            self.scripts.insert(key.to_vec(), Arc::clone(script), now);
        }
    }

    /// Makes the next request look up the handler of a normalised path again.
    pub(crate) fn forget(&mut self, path: &[u8]) {
        self.scripts.forget(path);
        self.scripts.forget(&self.site.part(path).key);
    }
}
