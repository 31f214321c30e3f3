//! A connection to the collector: its socket, a TLS session if there is one, and the protocol.
//!
//! Only name resolution blocks; bytes that arrived before the connection ended are read before it counts as lost. The
//! connection keeps no deadline, and only the poller reports when to continue.
//!
//! ```text
//!   Connecting ──refused: the next address──▶ Connecting
//!       └──connected──▶ Open ──▶ an answer, or lost
//! ```

use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, ToSocketAddrs};

use mio::net::TcpStream;
use mio::{Interest, Registry, Token};
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection};

use svc_core::config::ExportConfig;
use svc_core::descriptor;
use svc_core::otlp::{ConnectionLost, Exchange};
use svc_core::sync::primitive::Arc;

/// A connection to the collector.
#[derive(Debug)]
pub(crate) struct Connection {
    socket: TcpStream,
    is_connected: bool,
    /// Further addresses of the collector.
    addresses: VecDeque<SocketAddr>,
    session: Option<Box<ClientConnection>>,
    exchange: Exchange,
    token: Token,
}

impl Connection {
    /// Begins to connect. Waits for the resolution of the collector's name.
    pub(crate) fn open(
        config: &ExportConfig,
        tls: Option<&Arc<ClientConfig>>,
        registry: &Registry,
        token: Token,
    ) -> Result<Self, ConnectionLost> {
        let endpoint = &config.endpoint;
        let found = (endpoint.host.as_str(), endpoint.port).to_socket_addrs();
        let mut addresses: VecDeque<SocketAddr> =
            found.map_err(|error| lost(format!("cannot resolve {:?}: {error}", endpoint.host)))?.collect();
        let session = match tls {
            None => None,
            Some(config) => {
                let name = ServerName::try_from(endpoint.host.clone());
                let name = name.map_err(|error| lost(format!("TLS: {error}")))?;
                let session = ClientConnection::new(Arc::clone(config), name);
                let mut session = session.map_err(|error| lost(format!("TLS: {error}")))?;
                // No limit is needed: a batch is bounded.
                session.set_buffer_limit(None);
                Some(Box::new(session))
            }
        };
        let socket = connect(&mut addresses, registry, token)?;
        let exchange = Exchange::new(config);
        Ok(Self { socket, is_connected: false, addresses, session, exchange, token })
    }

    /// Returns the protocol state.
    pub(crate) fn exchange(&mut self) -> &mut Exchange {
        &mut self.exchange
    }

    /// Sends and receives as much as is possible now.
    pub(crate) fn pump(&mut self, registry: &Registry) -> Result<(), ConnectionLost> {
        if !self.is_connected && !self.connected(registry)? {
            return Ok(());
        }
        let sent = self.receive().and_then(|()| self.send());
        if let Err(error) = sent {
            // The collector's last bytes before it closed the connection may be an answer.
            let _ = self.receive();
            self.exchange.end();
            return Err(lost(error.to_string()));
        }
        Ok(())
    }

    /// Returns whether the connection is established; tries the next address if it was refused.
    fn connected(&mut self, registry: &Registry) -> Result<bool, ConnectionLost> {
        let failure = self.socket.take_error().ok().flatten();
        match failure {
            None => match self.socket.peer_addr() {
                Ok(_) => {
                    self.is_connected = true;
                    // A request is written immediately, and its last segment must not wait for an acknowledgement.
                    let _ = self.socket.set_nodelay(true);
                    Ok(true)
                }
                Err(error) if error.kind() == io::ErrorKind::NotConnected => Ok(false),
                Err(error) => Err(lost(error.to_string())),
            },
            Some(error) if self.addresses.is_empty() => Err(lost(error.to_string())),
            Some(_) => {
                let next = connect(&mut self.addresses, registry, self.token)?;
                let _ = registry.deregister(&mut self.socket);
                self.socket = next;
                Ok(false)
            }
        }
    }

    fn receive(&mut self) -> io::Result<()> {
        let mut buffer = [0; READ_BYTES];
        loop {
            match self.socket.read(&mut buffer) {
                Ok(0) => {
                    self.exchange.end();
                    return Ok(());
                }
                Ok(count) => self.take_in(&buffer[..count])?,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }

    fn take_in(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        let Some(session) = &mut self.session else {
            self.exchange.receive(bytes);
            return Ok(());
        };
        let mut plain = [0; READ_BYTES];
        while !bytes.is_empty() {
            session.read_tls(&mut bytes)?;
            if let Err(error) = session.process_new_packets() {
                // The alert carries the reason; it does not matter whether it arrives.
                let _ = session.write_tls(&mut self.socket);
                return Err(io::Error::other(format!("TLS: {error}")));
            }
            loop {
                match session.reader().read(&mut plain) {
                    Ok(0) => {
                        self.exchange.end();
                        return Ok(());
                    }
                    Ok(count) => self.exchange.receive(&plain[..count]),
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                    Err(error) => return Err(error),
                }
            }
        }
        Ok(())
    }

    fn send(&mut self) -> io::Result<()> {
        let output = self.exchange.output();
        match &mut self.session {
            None => {
                let sent = write_all(output.len(), |at| self.socket.write(&output[at..]));
                sent.map(|count| drop(output.drain(..count)))
            }
            Some(session) => {
                session.writer().write_all(output)?;
                output.clear();
                while session.wants_write() {
                    match session.write_tls(&mut self.socket) {
                        Ok(_) => {}
                        Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                        Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                        Err(error) => return Err(error),
                    }
                }
                Ok(())
            }
        }
    }
}

/// Writes `length` bytes, or as many as the socket accepts; returns their number.
fn write_all(length: usize, mut write: impl FnMut(usize) -> io::Result<usize>) -> io::Result<usize> {
    let mut at = 0;
    while at < length {
        match write(at) {
            Ok(count) => at += count,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(at)
}

/// Begins to connect to the first address for which that succeeds.
fn connect(
    addresses: &mut VecDeque<SocketAddr>,
    registry: &Registry,
    token: Token,
) -> Result<TcpStream, ConnectionLost> {
    let mut failure = None;
    while let Some(address) = addresses.pop_front() {
        let begun = TcpStream::connect(address).map(descriptor::move_up).and_then(|mut socket| {
            registry.register(&mut socket, token, Interest::READABLE | Interest::WRITABLE)?;
            Ok(socket)
        });
        match begun {
            Ok(socket) => return Ok(socket),
            Err(error) => failure = Some(error),
        }
    }
    Err(lost(failure.map_or_else(|| "the collector has no address".to_owned(), |error| error.to_string())))
}

fn lost(reason: String) -> ConnectionLost {
    ConnectionLost { reason: reason.into() }
}

const READ_BYTES: usize = 16 * 1024;
