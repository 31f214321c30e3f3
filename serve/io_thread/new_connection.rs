//! A connection on its way from the accepting thread to its I/O thread, and its endpoints.

use std::net::SocketAddr;
use std::sync::OnceLock;

use mio::net::TcpStream;

use svc_core::pool::TlsFacts;
use svc_core::sync::permits::Permit;
use svc_core::sync::primitive::Arc;

/// A connection on its way to an I/O thread.
#[derive(Debug)]
pub(crate) struct NewConnection {
    /// The socket, not yet registered with a poller.
    pub(crate) socket: TcpStream,
    /// The client's address.
    pub(crate) peer: SocketAddr,
    /// The address that it connected to; `None` if the socket knows it.
    pub(crate) local: Option<SocketAddr>,
    /// The kind of listener that it came through.
    pub(crate) listener: ListenerKind,
    /// The connection's permit under `MAX_CONNECTIONS`, or among the late ones.
    pub(crate) permit: Permit,
}

/// The kinds of listeners whose connections the I/O threads serve.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ListenerKind {
    /// An address of the main port.
    Main,
    /// The port that redirects to HTTPS.
    Redirect,
    /// A Unix socket of the main port.
    Unix,
}

/// The endpoints of a connection, for its requests.
#[derive(Debug)]
pub(crate) struct Endpoints {
    /// The client's address.
    pub(crate) peer: SocketAddr,
    /// The address that it connected to.
    pub(crate) local: SocketAddr,
    /// The kind of listener that the connection came through.
    pub(crate) listener: ListenerKind,
    /// Whether the connection uses TLS.
    pub(crate) is_tls: bool,
    /// The facts about the TLS session, once there is one.
    pub(crate) tls: OnceLock<Arc<TlsFacts>>,
}
