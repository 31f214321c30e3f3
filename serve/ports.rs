//! The ports of a server: bound to the configured addresses, or inherited from the parent process.
//!
//! Either all ports are available, or the error names a setting. No connections are accepted here.
//!
//! A socket is *inherited* if a service manager has bound it.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;

use mio::net::TcpListener;

use crate::io_thread::new_connection::ListenerKind;
use crate::net::listener::Listener;
use svc_core::config::{Config, ListenAddr, ServingConfig};

/// Sockets that a service manager has bound for this process, and keeps open.
#[derive(Debug, Default)]
pub struct InheritedSockets {
    /// The sockets of the main port, which replace `LISTEN_ADDR`.
    pub main: Vec<OwnedFd>,
    /// The socket of the operations port, which replaces `INTERNAL_ADDR`.
    pub ops: Option<OwnedFd>,
}

/// Why a port is unavailable.
#[derive(Debug)]
pub enum PortError {
    /// The server cannot listen on the address of this setting.
    Bind {
        /// The setting.
        variable: &'static str,
        /// The address.
        addr: String,
        /// The error of the system.
        error: io::Error,
    },
    /// A socket that a service manager has passed cannot be used.
    Inherited {
        /// Its name.
        name: &'static str,
        /// The error of the system.
        error: io::Error,
    },
}

impl fmt::Display for PortError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bind { variable, addr, error } => {
                write!(f, "{variable}: cannot listen on {addr}: {error}")
            }
            Self::Inherited { name, error } => {
                write!(
                    f,
                    "LISTEN_FDS: the descriptor {name:?} cannot be used: {error}; accepted: a listening socket"
                )
            }
        }
    }
}

impl std::error::Error for PortError {}

/// The ports of the threads that serve clients.
#[derive(Debug)]
pub(super) struct Ports {
    pub(super) listeners: Vec<(Listener, ListenerKind)>,
}

impl Ports {
    /// Binds the ports, or inherits those of the main port.
    pub(super) fn open(config: &ServingConfig, inherited: Vec<OwnedFd>) -> Result<Self, PortError> {
        let mut listeners = Vec::new();
        for descriptor in inherited {
            listeners.push(inherit("http", descriptor)?);
        }
        if listeners.is_empty() {
            for place in &config.listen_addr {
                listeners.push(bind("LISTEN_ADDR", place, config.listen_unix_mode)?);
            }
        }
        let kind = |listener: Listener| {
            let kind = if listener.is_unix() { ListenerKind::Unix } else { ListenerKind::Main };
            (listener, kind)
        };
        let mut listeners: Vec<_> = listeners.into_iter().map(kind).collect();
        if let Some(addr) = config.redirect_addr {
            listeners.push((bind("REDIRECT_ADDR", &ListenAddr::Tcp(addr), 0)?, ListenerKind::Redirect));
        }
        Ok(Self { listeners })
    }

    /// Returns the addresses of the main port.
    pub(super) fn main(&self) -> Vec<ListenAddr> {
        let is_main = |(_, kind): &&(Listener, ListenerKind)| *kind != ListenerKind::Redirect;
        self.listeners.iter().filter(is_main).map(|(listener, _)| listener.place().clone()).collect()
    }

    /// Returns the address of the port that redirects to HTTPS.
    pub(super) fn redirect(&self) -> Option<SocketAddr> {
        let (listener, _) = self.listeners.iter().find(|(_, kind)| *kind == ListenerKind::Redirect)?;
        listener.place().tcp()
    }
}

/// Binds the operations port, or inherits it.
pub(super) fn open_ops(
    addr: Option<SocketAddr>,
    inherited: Option<OwnedFd>,
) -> Result<Option<(TcpListener, SocketAddr)>, PortError> {
    let listener = match (inherited, addr) {
        (Some(descriptor), _) => inherit("ops", descriptor)?,
        (None, Some(addr)) => bind("INTERNAL_ADDR", &ListenAddr::Tcp(addr), 0)?,
        (None, None) => return Ok(None),
    };
    let addr = listener.place().tcp().unwrap_or_else(|| SocketAddr::from(([0, 0, 0, 0], 0)));
    let listener = listener.into_tcp().map_err(|error| PortError::Inherited { name: "ops", error })?;
    Ok(Some((listener, addr)))
}

/// Returns the ports that would be unavailable to a server with this configuration, without binding any.
pub fn unavailable_ports(config: &Config) -> Vec<PortError> {
    let tcp = |variable, addr: Option<SocketAddr>| addr.map(|addr| (variable, ListenAddr::Tcp(addr)));
    let main = config.serving.listen_addr.iter().map(|place| ("LISTEN_ADDR", place.clone()));
    let redirect = tcp("REDIRECT_ADDR", config.serving.redirect_addr);
    let all = main.chain(redirect).chain(tcp("INTERNAL_ADDR", config.operations.addr));
    all.filter_map(|(variable, place)| refused(variable, &place, Listener::try_out(&place)).err()).collect()
}

fn inherit(name: &'static str, descriptor: OwnedFd) -> Result<Listener, PortError> {
    Listener::inherit(descriptor).map_err(|error| PortError::Inherited { name, error })
}

pub(super) fn bind(variable: &'static str, place: &ListenAddr, mode: u32) -> Result<Listener, PortError> {
    refused(variable, place, Listener::bind(place, mode))
}

fn refused<T>(variable: &'static str, place: &ListenAddr, result: io::Result<T>) -> Result<T, PortError> {
    result.map_err(|error| PortError::Bind { variable, addr: place.to_string(), error })
}
