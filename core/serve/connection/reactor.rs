//! An io thread: a poller, connections, their deadlines, and an inbox.
//!
//! Promises: each turn handles messages from other threads first, then events of sockets, then deadlines; a busy connection
//! yields to the others after a few steps. Refuses: nothing here waits but the poller.

use std::io;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use mio::{Events, Interest, Poll, Token};
use slab::Slab;

use crate::connection::Timers;
use crate::limits::POLL_EVENTS;
use crate::sync::primitive::Arc;
use crate::time;

use super::client_connection::{ClientConnection, Fate};
use crate::serve::disk::site::Site;
use crate::serve::disk::threads::Disk;
use crate::serve::io_thread::arrival::Arrival;
use crate::serve::io_thread::inbox::{Inbox, Message};
use crate::serve::io_thread::indispensable::Indispensable;
use crate::serve::io_thread::io::Io;
use crate::serve::shared::Shared;

/// An io thread. It has a poller and an inbox before it starts.
#[derive(Debug)]
pub(in crate::serve) struct Reactor {
    poll: Poll,
    connections: Slab<ClientConnection>,
    /// Distinguishes the keys of connections that use the same slot of the slab.
    generation: u32,
    timers: Timers,
    inbox: Arc<Inbox>,
    io: Io,
}

const WAKE: Token = Token(usize::MAX);

/// The longest sleep while a connection waits for room in the spool, of which there is no notification.
const SPOOL_RETRY_PAUSE: Duration = Duration::from_millis(20);

impl Reactor {
    /// Prepares an io thread.
    pub(in crate::serve) fn new(shared: Arc<Shared>, site: Arc<Site>, disk: Arc<Disk>) -> io::Result<Self> {
        let poll = Poll::new()?;
        let inbox = Inbox::new(&poll, WAKE)?;
        let io = Io::new(shared, site, disk, &inbox, time::now());
        Ok(Self { poll, connections: Slab::new(), generation: 0, timers: Timers::default(), inbox, io })
    }

    /// The inbox, for other threads.
    pub(in crate::serve) fn inbox(&self) -> Arc<Inbox> {
        Arc::clone(&self.inbox)
    }

    /// Starts the thread.
    pub(in crate::serve) fn start(self, index: usize) -> io::Result<JoinHandle<()>> {
        thread::Builder::new().name(format!("svc-io-{index}")).spawn(move || self.run())
    }

    fn run(mut self) {
        let _indispensable = Indispensable;
        let mut events = Events::with_capacity(POLL_EVENTS);
        loop {
            let timeout = self.timeout();
            // An interrupted wait is treated as one without events.
            let _ = self.poll.poll(&mut events, timeout);
            self.inbox.awake();
            self.io.now = time::now();
            while let Some(message) = self.inbox.take() {
                if matches!(message, Message::Stop) {
                    return;
                }
                self.receive(message);
            }
            for event in &events {
                if event.token() != WAKE {
                    self.drive(event.token().0 as u64, |connection, io| connection.on_event(io, event));
                }
            }
            self.catch_up();
            self.io.pool.announce();
        }
    }

    /// How long the poller may wait.
    fn timeout(&mut self) -> Option<Duration> {
        if !self.io.again.is_empty() || !self.inbox.prepare_sleep() {
            return Some(Duration::ZERO);
        }
        let next = self.timers.next().map(|at| at.saturating_duration_since(time::now()));
        if self.io.starved.is_empty() {
            return next;
        }
        Some(next.map_or(SPOOL_RETRY_PAUSE, |next| next.min(SPOOL_RETRY_PAUSE)))
    }

    fn receive(&mut self, message: Message) {
        match message {
            Message::Arrival(arrival) => self.admit(arrival),
            Message::ReplyReady(key) => {
                self.drive(key.connection, |connection, io| connection.on_reply_ready(io, key.stream));
            }
            Message::Disk(key, done) => {
                self.drive(key.connection, |connection, io| connection.on_disk(io, key.stream, done));
            }
            Message::PhaseChanged => self.drive_all(ClientConnection::advance),
            Message::PoolGone => self.drive_all(ClientConnection::on_pool_gone),
            Message::CutOff => self.drive_all(ClientConnection::cut_off),
            Message::RulesChanged => self.io.router.take_rules(self.io.shared.policy.rules()),
            Message::Stop => {}
        }
    }

    fn admit(&mut self, arrival: Arrival) {
        self.generation = self.generation.wrapping_add(1);
        let entry = self.connections.vacant_entry();
        let key = key_of(entry.key(), self.generation);
        let Ok(mut connection) = ClientConnection::new(arrival, key, &self.io) else { return };
        let interest = Interest::READABLE | Interest::WRITABLE;
        let token = Token(usize::try_from(key).unwrap_or(0));
        if self.poll.registry().register(connection.socket(), token, interest).is_ok() {
            self.io.shared.metrics.connections.enter();
            entry.insert(connection);
            // Data that has already arrived causes an event.
            self.drive(key, |_, _| Fate::Lives);
        }
    }

    /// Lets `act` use a connection, then arms its deadline or removes it. Does nothing if the connection is gone.
    fn drive(&mut self, key: u64, act: impl FnOnce(&mut ClientConnection, &mut Io) -> Fate) {
        let place = place_of(key);
        let Some(connection) = self.connections.get_mut(place).filter(|connection| connection.key == key)
        else {
            return;
        };
        match act(connection, &mut self.io) {
            Fate::Lives => {
                let deadline = connection.deadline();
                self.timers.arm(key, &mut connection.armed, deadline);
            }
            Fate::Ended => {
                connection.on_closed(&self.io);
                self.timers.disarm(key, &mut connection.armed);
                self.connections.remove(place);
                self.io.shared.metrics.connections.leave();
            }
        }
    }

    fn drive_all(&mut self, mut act: impl FnMut(&mut ClientConnection, &mut Io) -> Fate) {
        let keys: Vec<u64> = self.connections.iter().map(|(_, connection)| connection.key).collect();
        for key in keys {
            self.drive(key, &mut act);
        }
    }

    /// Handles passed deadlines, connections that have more to do, and those that waited for room.
    fn catch_up(&mut self) {
        while let Some(key) = self.timers.pop(self.io.now) {
            self.drive(key, ClientConnection::on_deadline);
        }
        for key in std::mem::take(&mut self.io.again) {
            self.drive(key, ClientConnection::advance);
        }
        if !self.io.starved.is_empty() && !self.io.shared.spool.is_full() {
            for key in std::mem::take(&mut self.io.starved) {
                self.drive(key.connection, |connection, io| connection.retry_spool(io, key.stream));
            }
        }
    }
}

impl Drop for Reactor {
    fn drop(&mut self) {
        for _ in self.connections.drain() {
            self.io.shared.metrics.connections.leave();
        }
    }
}

/// A connection's key: its slot in the slab in the lower half, its generation in the upper half.
fn key_of(place: usize, generation: u32) -> u64 {
    u64::from(generation) << 32 | (place as u64 & u64::from(u32::MAX))
}

fn place_of(key: u64) -> usize {
    usize::try_from(key & u64::from(u32::MAX)).unwrap_or(usize::MAX)
}

/// A key is also the token of its socket.
const _: () = assert!(usize::BITS == 64, "a poller's token holds a place and its generation");
