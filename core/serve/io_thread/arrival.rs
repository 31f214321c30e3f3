//! A connection on its way from the accepting thread to its io thread.

use std::net::SocketAddr;

use mio::net::TcpStream;

use crate::sync::permits::Permit;

/// A connection on its way to an io thread.
#[derive(Debug)]
pub(in crate::serve) struct Arrival {
    /// The socket, not yet registered with a poller.
    pub(in crate::serve) socket: TcpStream,
    /// The client's address.
    pub(in crate::serve) peer: SocketAddr,
    /// The connection's permit under `MAX_CONNECTIONS`, or among the late ones.
    pub(in crate::serve) permit: Permit,
}
