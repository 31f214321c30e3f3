//! A proxy between a client and a real server that holds, trickles or cuts the traffic.
//!
//! A test's orders apply to all connections, including open ones, and to bytes that have not been forwarded yet. Each
//! direction has a [`Gate`], open at first: `gate(ToClient).close()` holds answers, and `wait_until_held` returns once an
//! answer is held.

use std::collections::HashMap;
use std::io::{self, ErrorKind, Read, Write};
use std::net::Shutdown;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::gate::Gate;
use crate::socket::{Address, Listener, Socket};

/// The direction of bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    ToClient,
    ToServer,
}

/// A running proxy. Dropping it ends the proxy and cuts its connections.
#[derive(Debug)]
pub struct Proxy {
    listener: Arc<Listener>,
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    server: Address,
    gates: [Gate; 2],
    rules: Mutex<Rules>,
    connections: Mutex<HashMap<usize, Connection>>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Rules {
    /// The pause after each byte, for directions that trickle.
    trickle: [Option<Duration>; 2],
    /// How many bytes still pass before the connection is cut.
    left: [Option<usize>; 2],
}

#[derive(Clone, Debug)]
struct Connection {
    client: Socket,
    server: Socket,
    is_cut: Arc<AtomicBool>,
}

/// How long a write blocks before the proxy checks whether the connection was cut.
const LOOK_AGAIN: Duration = Duration::from_millis(50);

impl Proxy {
    /// Starts a proxy on a free port.
    pub fn tcp(server: Address) -> Self {
        Self::start(Listener::tcp(), server)
    }

    /// Starts a proxy on a Unix socket.
    pub fn unix(path: PathBuf, server: Address) -> Self {
        Self::start(Listener::unix(path), server)
    }

    fn start(listener: Listener, server: Address) -> Self {
        let gates = [Gate::default(), Gate::default()];
        gates.iter().for_each(Gate::open);
        let shared = Shared { server, gates, rules: Mutex::default(), connections: Mutex::default() };
        let (listener, shared) = (Arc::new(listener), Arc::new(shared));
        let proxy = Self { listener: Arc::clone(&listener), shared: Arc::clone(&shared) };
        std::thread::spawn(move || {
            for number in 0.. {
                let Some(client) = listener.accept() else { return };
                let shared = Arc::clone(&shared);
                std::thread::spawn(move || shared.serve(number, client));
            }
        });
        proxy
    }

    pub fn address(&self) -> Address {
        self.listener.address()
    }

    /// Returns the gate of a direction.
    pub fn gate(&self, direction: Direction) -> &Gate {
        &self.shared.gates[direction as usize]
    }

    /// Forwards bytes one by one with a pause after each; `None` restores normal forwarding.
    pub fn trickle(&self, direction: Direction, pause: Option<Duration>) {
        self.shared.rules.lock().unwrap().trickle[direction as usize] = pause;
    }

    /// Cuts the connection that forwards the last of `count` more bytes.
    pub fn cut_after(&self, direction: Direction, count: usize) {
        self.shared.rules.lock().unwrap().left[direction as usize] = Some(count);
    }

    /// Cuts all connections; both sides see a reset.
    pub fn cut(&self) {
        for connection in self.shared.connections.lock().unwrap().values() {
            connection.cut();
        }
        self.shared.gates.iter().for_each(Gate::look_again);
    }

    /// Returns how many connections are open.
    pub fn connected(&self) -> usize {
        self.shared.connections.lock().unwrap().len()
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.listener.shut_down();
        self.shared.gates.iter().for_each(Gate::end);
        self.cut();
    }
}

impl Shared {
    fn serve(&self, number: usize, client: Socket) {
        // A client whose server cannot be reached gets a reset.
        client.reset_at_close();
        let Ok(server) = self.server.connect() else { return };
        for socket in [&client, &server] {
            socket.write_timeout(LOOK_AGAIN);
        }
        let connection = Connection { client, server, is_cut: Arc::default() };
        self.connections.lock().unwrap().insert(number, connection.clone());
        std::thread::scope(|scope| {
            scope.spawn(|| self.pump(&connection, Direction::ToServer));
            self.pump(&connection, Direction::ToClient);
        });
        self.connections.lock().unwrap().remove(&number);
    }

    /// Forwards bytes and the end of one direction; cuts the connection at an error.
    fn pump(&self, connection: &Connection, direction: Direction) {
        let (from, to) = match direction {
            Direction::ToClient => (&connection.server, &connection.client),
            Direction::ToServer => (&connection.client, &connection.server),
        };
        let (mut from, mut to) = (from.clone(), to.clone());
        let mut bytes = [0; 16 * 1024];
        loop {
            match from.read(&mut bytes) {
                Ok(0) if !connection.is_cut() => return to.shut_down(Shutdown::Write),
                Ok(count) if count > 0 => {
                    if self.pass(connection, direction, &mut to, &bytes[..count]).is_err() {
                        break;
                    }
                }
                _ => break,
            }
        }
        connection.cut();
        // The gate may hold the other direction.
        self.gates.iter().for_each(Gate::look_again);
    }

    fn pass(
        &self,
        connection: &Connection,
        direction: Direction,
        to: &mut Socket,
        bytes: &[u8],
    ) -> io::Result<()> {
        let gate = &self.gates[direction as usize];
        if !gate.hold_unless(|| connection.is_cut()) {
            return Err(ErrorKind::Interrupted.into());
        }
        let mut rest = bytes;
        while !rest.is_empty() {
            if connection.is_cut() {
                return Err(ErrorKind::ConnectionReset.into());
            }
            let (trickle, left) = self.rules(direction);
            let at_most = left.unwrap_or(rest.len()).min(rest.len());
            if at_most == 0 {
                return Err(ErrorKind::ConnectionReset.into());
            }
            let count = match to.write(&rest[..if trickle.is_some() { 1 } else { at_most }]) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => continue,
                count => count?,
            };
            rest = &rest[count..];
            self.has_passed(direction, count);
            if trickle.is_some_and(|pause| !gate.pause(pause)) {
                return Err(ErrorKind::Interrupted.into());
            }
        }
        Ok(())
    }

    fn rules(&self, direction: Direction) -> (Option<Duration>, Option<usize>) {
        let rules = *self.rules.lock().unwrap();
        (rules.trickle[direction as usize], rules.left[direction as usize])
    }

    fn has_passed(&self, direction: Direction, count: usize) {
        if let Some(left) = &mut self.rules.lock().unwrap().left[direction as usize] {
            *left = left.saturating_sub(count);
        }
    }
}

impl Connection {
    /// Wakes both pumps, whose ends close the sockets. Only reading is shut down: shutting down writing would send an
    /// orderly end.
    fn cut(&self) {
        self.is_cut.store(true, Ordering::Release);
        for socket in [&self.client, &self.server] {
            socket.reset_at_close();
            socket.shut_down(Shutdown::Read);
        }
    }

    fn is_cut(&self) -> bool {
        self.is_cut.load(Ordering::Acquire)
    }
}
