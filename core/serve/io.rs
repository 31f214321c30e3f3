//! What the connections of one io thread share.

use std::time::Instant;

use crate::files::RouteCache;
use crate::http::DateCache;
use crate::limits::READ_BYTES;
use crate::pool::{Notify, Script};
use crate::sync::primitive::Arc;

use super::disk::Disk;
use super::inbox::Inbox;
use super::request_id::RequestIds;
use super::shared::Shared;
use super::site::Site;

/// The tools of one io thread, lent to the connection whose turn it is.
#[derive(Debug)]
pub(super) struct Io {
    pub(super) shared: Arc<Shared>,
    pub(super) site: Arc<Site>,
    pub(super) disk: Arc<Disk>,
    pub(super) inbox: Arc<Inbox>,
    /// The inbox, as workers see it.
    pub(super) notify: Arc<dyn Notify>,
    pub(super) routes: RouteCache<Script>,
    pub(super) date: DateCache,
    pub(super) ids: RequestIds,
    /// Where sockets are read into.
    pub(super) scratch: Vec<u8>,
    /// Connections that have more to do after the others had their turn.
    pub(super) again: Vec<u64>,
    /// Connections that wait for room in the spool.
    pub(super) starved: Vec<u64>,
    /// The time of this turn.
    pub(super) now: Instant,
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
        }
    }
}
