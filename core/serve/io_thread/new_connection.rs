//! A connection on its way from the accepting thread to its io thread, and its endpoints.

use std::net::SocketAddr;
use std::sync::OnceLock;

use mio::net::TcpStream;

use crate::pool::TlsFacts;
use crate::sync::permits::Permit;
use crate::sync::primitive::Arc;

/// A connection on its way to an io thread.
#[derive(Debug)]
pub(in crate::serve) struct NewConnection {
    /// The socket, not yet registered with a poller.
    pub(in crate::serve) socket: TcpStream,
    /// The client's address.
    pub(in crate::serve) peer: SocketAddr,
    /// The address that it connected to; `None` if the socket knows it.
    pub(in crate::serve) local: Option<SocketAddr>,
    /// The kind of listener that it came through.
    pub(in crate::serve) listener: ListenerKind,
    /// The connection's permit under `MAX_CONNECTIONS`, or among the late ones.
    pub(in crate::serve) permit: Permit,
}

/// The kinds of listeners whose connections the I/O threads serve.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::serve) enum ListenerKind {
    /// An address of the main port.
    Main,
    /// The port that redirects to HTTPS.
    Redirect,
    /// A Unix socket of the main port.
    Unix,
}

/// The endpoints of a connection, for its requests.
#[derive(Debug)]
pub(in crate::serve) struct Endpoints {
    /// The client's address.
    pub(in crate::serve) peer: SocketAddr,
    /// The address that it connected to.
    pub(in crate::serve) local: SocketAddr,
    /// The kind of listener that the connection came through.
    pub(in crate::serve) listener: ListenerKind,
    /// Whether the connection uses TLS.
    pub(in crate::serve) is_tls: bool,
    /// The facts about the TLS session, once there is one.
    pub(in crate::serve) tls: OnceLock<Arc<TlsFacts>>,
}
