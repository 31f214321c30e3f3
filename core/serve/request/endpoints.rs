//! The two ends of a connection.

use std::net::SocketAddr;
use std::sync::OnceLock;

use crate::pool::TlsFacts;
use crate::sync::primitive::Arc;

use crate::serve::io_thread::arrival::Door;

/// The two ends of a connection.
#[derive(Debug)]
pub(in crate::serve) struct Endpoints {
    /// The client's address.
    pub(in crate::serve) peer: SocketAddr,
    /// The address that it connected to.
    pub(in crate::serve) local: SocketAddr,
    /// The kind of listener that the connection came through.
    pub(in crate::serve) door: Door,
    /// Whether the connection uses TLS.
    pub(in crate::serve) is_tls: bool,
    /// The facts about the TLS session, once there is one.
    pub(in crate::serve) tls: OnceLock<Arc<TlsFacts>>,
}
