//! What the connections of one io thread share.

use std::time::Instant;

use crate::files::RouteCache;
use crate::http::DateCache;
use crate::limits::READ_BYTES;
use crate::policy::Rules;
use crate::pool::{Notify, Script, StreamKey};
use crate::sync::primitive::Arc;

use super::disk::{Disk, JobClient};
use super::file_job::Job;
use super::inbox::Inbox;
use super::request_id::RequestIds;
use super::shared::Shared;
use super::site::Site;

/// How many requests are offered before the workers are told.
const OFFERS_UNANNOUNCED_MAX: u32 = 16;

/// The tools of one io thread, lent to the connection whose turn it is.
#[derive(Debug)]
pub(super) struct Io {
    pub(super) shared: Arc<Shared>,
    pub(super) site: Arc<Site>,
    pub(super) disk: Arc<Disk>,
    pub(super) inbox: Arc<Inbox>,
    /// The inbox, as workers see it.
    pub(super) notify: Arc<dyn Notify>,
    /// What stands in files, as this thread was told the last time.
    pub(super) rules: Arc<Rules>,
    pub(super) routes: RouteCache<Script>,
    pub(super) date: DateCache,
    pub(super) ids: RequestIds,
    /// Where sockets are read into.
    pub(super) scratch: Vec<u8>,
    /// Connections that have more to do after the others had their turn.
    pub(super) again: Vec<u64>,
    /// Streams that wait for room in the spool.
    pub(super) starved: Vec<StreamKey>,
    /// The time of this turn.
    pub(super) now: Instant,
    /// How many requests were offered to the pool and not announced yet.
    offers: u32,
}

impl Io {
    /// Makes the tools of the io thread that reads `inbox`.
    pub(super) fn new(
        shared: Arc<Shared>,
        site: Arc<Site>,
        disk: Arc<Disk>,
        inbox: Arc<Inbox>,
        now: Instant,
    ) -> Self {
        Self {
            rules: shared.policy.rules(),
            shared,
            site,
            disk,
            notify: Arc::<Inbox>::clone(&inbox),
            inbox,
            routes: RouteCache::new(),
            date: DateCache::new(),
            ids: RequestIds::new(),
            scratch: vec![0; READ_BYTES],
            again: Vec::new(),
            starved: Vec::new(),
            now,
            offers: 0,
        }
    }

    /// Asks the file threads for `job`; its result comes as a message for the stream with `key`.
    pub(super) fn order(&self, job: Job, key: StreamKey) {
        let client: Arc<dyn JobClient> = Arc::<Inbox>::clone(&self.inbox);
        self.disk.order(job, key, client);
    }

    /// Looks at what stands in files as it was read anew; what was found under the old rules is found again.
    pub(super) fn take_rules(&mut self) {
        self.rules = self.shared.policy.rules();
        self.routes = RouteCache::new();
    }

    /// Notes that a request was offered; the workers hear of it at the end of the turn, or after a few offers.
    pub(super) fn note_offer(&mut self) {
        self.offers += 1;
        if self.offers >= OFFERS_UNANNOUNCED_MAX {
            self.announce_offers();
        }
    }

    /// Tells the workers what was offered in this turn.
    pub(super) fn announce_offers(&mut self) {
        if self.offers > 0
            && let Some(gate) = &self.shared.gate
        {
            gate.announce();
            self.offers = 0;
        }
    }
}
