//! The tools that the connections of one I/O thread share.

use std::time::Instant;

use svc_core::connection::ConnectionTerms;
use svc_core::http::{DateCache, HeadLimits};
use svc_core::limits::{LINGER_TIMEOUT, READ_BYTES};
use svc_core::pool::StreamKey;
use svc_core::sync::primitive::Arc;

use super::inbox::Inbox;
use super::pool_client::PoolClient;
use super::request_id::RequestIds;
use super::router::Router;
use crate::disk::client::DiskClient;
use crate::disk::site::Site;
use crate::disk::threads::Disk;
use crate::shared::Shared;

/// The tools of one I/O thread, lent to the connection whose turn it is.
#[derive(Debug)]
pub(crate) struct Io {
    pub(crate) shared: Arc<Shared>,
    /// The limits of a connection.
    pub(crate) terms: Arc<ConnectionTerms>,
    pub(crate) disk: DiskClient,
    pub(crate) pool: PoolClient,
    pub(crate) router: Router,
    pub(crate) date: DateCache,
    pub(crate) ids: RequestIds,
    /// The buffer that sockets are read into.
    pub(crate) scratch: Vec<u8>,
    /// Connections that continue once the others have had their turn.
    pub(crate) again: Vec<u64>,
    /// Streams that wait for room in the spool.
    pub(crate) starved: Vec<StreamKey>,
    /// The time at the start of this turn.
    pub(crate) now: Instant,
}

impl Io {
    /// Creates the tools of the I/O thread that reads `inbox`.
    pub(crate) fn new(
        shared: Arc<Shared>,
        site: Arc<Site>,
        disk: Arc<Disk>,
        inbox: &Arc<Inbox>,
        now: Instant,
    ) -> Self {
        let disk = DiskClient::new(disk, Arc::<Inbox>::clone(inbox));
        Self {
            terms: Arc::new(connection_terms(&shared)),
            router: Router::new(site, disk.clone(), shared.policy.rules()),
            disk,
            pool: PoolClient::new(Arc::clone(&shared), Arc::<Inbox>::clone(inbox)),
            shared,
            date: DateCache::new(),
            ids: RequestIds::new(),
            scratch: vec![0; READ_BYTES],
            again: Vec::new(),
            starved: Vec::new(),
            now,
        }
    }
}

/// Returns the limits of a connection on the main port.
fn connection_terms(shared: &Shared) -> ConnectionTerms {
    let timeouts = &shared.config.timeouts;
    ConnectionTerms {
        head: HeadLimits::main_port(),
        header_timeout: timeouts.header,
        body_timeout: timeouts.body,
        write_timeout: timeouts.write,
        keepalive_timeout: timeouts.keepalive,
        linger_timeout: LINGER_TIMEOUT,
        exchange_timeout: None,
        accepts_http2: true,
        window_permits: Arc::clone(&shared.window_permits),
    }
}
