//! The two ends of a connection.

use std::net::SocketAddr;
use std::sync::OnceLock;

use crate::pool::TlsFacts;
use crate::sync::primitive::Arc;

/// The two ends of a connection.
#[derive(Debug)]
pub(super) struct Endpoints {
    /// The client's address.
    pub(super) peer: SocketAddr,
    /// The address that it connected to.
    pub(super) local: SocketAddr,
    /// Whether it speaks TLS.
    pub(super) is_tls: bool,
    /// The session, once there is one.
    pub(super) tls: OnceLock<Arc<TlsFacts>>,
}
