//! What the connections of one io thread share.

use std::time::Instant;

use crate::config::Config;
use crate::connection::ConnectionTerms;
use crate::files::RouteCache;
use crate::http::{DateCache, HeadLimits};
use crate::limits::{LINGER_TIMEOUT, READ_BYTES};
use crate::policy::Rules;
use crate::pool::{Notify, Script, StreamKey};
use crate::sync::primitive::Arc;

use super::inbox::Inbox;
use super::request_id::RequestIds;
use crate::serve::disk::file_job::Job;
use crate::serve::disk::site::Site;
use crate::serve::disk::threads::{Disk, JobClient};
use crate::serve::shared::Shared;

/// How many requests are offered before the workers are told.
const OFFERS_UNANNOUNCED_MAX: u32 = 16;

/// The tools of one io thread, lent to the connection whose turn it is.
#[derive(Debug)]
pub(in crate::serve) struct Io {
    pub(in crate::serve) shared: Arc<Shared>,
    /// What a connection may cost.
    pub(in crate::serve) terms: Arc<ConnectionTerms>,
    pub(in crate::serve) site: Arc<Site>,
    pub(in crate::serve) disk: Arc<Disk>,
    pub(in crate::serve) inbox: Arc<Inbox>,
    /// The inbox, as workers see it.
    pub(in crate::serve) notify: Arc<dyn Notify>,
    /// What stands in files, as this thread was told the last time.
    pub(in crate::serve) rules: Arc<Rules>,
    pub(in crate::serve) routes: RouteCache<Script>,
    pub(in crate::serve) date: DateCache,
    pub(in crate::serve) ids: RequestIds,
    /// Where sockets are read into.
    pub(in crate::serve) scratch: Vec<u8>,
    /// Connections that have more to do after the others had their turn.
    pub(in crate::serve) again: Vec<u64>,
    /// Streams that wait for room in the spool.
    pub(in crate::serve) starved: Vec<StreamKey>,
    /// The time of this turn.
    pub(in crate::serve) now: Instant,
    /// How many requests were offered to the pool and not announced yet.
    offers: u32,
}

impl Io {
    /// Makes the tools of the io thread that reads `inbox`.
    pub(in crate::serve) fn new(
        shared: Arc<Shared>,
        site: Arc<Site>,
        disk: Arc<Disk>,
        inbox: Arc<Inbox>,
        now: Instant,
    ) -> Self {
        Self {
            rules: shared.policy.rules(),
            terms: Arc::new(connection_terms(&shared.config)),
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
    pub(in crate::serve) fn order(&self, job: Job, key: StreamKey) {
        let client: Arc<dyn JobClient> = Arc::<Inbox>::clone(&self.inbox);
        self.disk.order(job, key, client);
    }

    /// Looks at what stands in files as it was read anew; what was found under the old rules is found again.
    pub(in crate::serve) fn take_rules(&mut self) {
        self.rules = self.shared.policy.rules();
        self.routes = RouteCache::new();
    }

    /// Notes that a request was offered; the workers hear of it at the end of the turn, or after a few offers.
    pub(in crate::serve) fn note_offer(&mut self) {
        self.offers += 1;
        if self.offers >= OFFERS_UNANNOUNCED_MAX {
            self.announce_offers();
        }
    }

    /// Tells the workers what was offered in this turn.
    pub(in crate::serve) fn announce_offers(&mut self) {
        if self.offers > 0
            && let Some(gate) = &self.shared.gate
        {
            gate.announce();
            self.offers = 0;
        }
    }
}

/// What a connection of the main port may cost.
fn connection_terms(config: &Config) -> ConnectionTerms {
    ConnectionTerms {
        head: HeadLimits::main_port(),
        header_timeout: config.header_timeout,
        body_timeout: config.body_timeout,
        write_timeout: config.write_timeout,
        keepalive_timeout: config.keepalive_timeout,
        linger_timeout: LINGER_TIMEOUT,
        exchange_timeout: None,
        accepts_http2: true,
    }
}
