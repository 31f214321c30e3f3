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
    /// The address that it connected to; `None` if the socket knows it.
    pub(in crate::serve) local: Option<SocketAddr>,
    /// The kind of listener that it came through.
    pub(in crate::serve) door: Door,
    /// The connection's permit under `MAX_CONNECTIONS`, or among the late ones.
    pub(in crate::serve) permit: Permit,
}

/// The kinds of listeners whose connections the I/O threads serve.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::serve) enum Door {
    /// An address of the main port.
    Main,
    /// The port that redirects to HTTPS.
    Redirect,
    /// A Unix socket of the main port.
    Unix,
}
