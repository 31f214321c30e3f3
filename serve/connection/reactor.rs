//! An I/O thread: a poller, connections, their deadlines, and an inbox.
//!
//! Each turn handles messages from other threads first, then events of sockets, then deadlines; a busy connection yields
//! to the others after a few steps; a connection moves to another thread only at rest. Nothing here waits except the
//! poller.

use std::io;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use mio::{Events, Interest, Poll, Token};
use slab::Slab;

use svc_core::connection::Deadlines;
use svc_core::limits::POLL_EVENTS;
use svc_core::sync::load_sharing::ThreadUse;
use svc_core::sync::primitive::Arc;
use svc_core::time;

use super::client_connection::{ClientConnection, ConnectionState};
use super::migration::{Handover, Migration};
use crate::disk::site::Site;
use crate::disk::threads::Disk;
use crate::io_thread::abort_on_panic::AbortOnPanic;
use crate::io_thread::inbox::{Inbox, Message};
use crate::io_thread::io::Io;
use crate::io_thread::new_connection::NewConnection;
use crate::shared::Shared;

/// An I/O thread. It has a poller and an inbox before it starts.
#[derive(Debug)]
pub(crate) struct Reactor {
    poll: Poll,
    connections: Slab<ClientConnection>,
    /// Distinguishes the keys of connections that use the same slot of the slab.
    generation: u32,
    deadlines: Deadlines,
    inbox: Arc<Inbox>,
    io: Io,
    /// The number of the thread.
    index: usize,
    migration: Arc<Migration>,
    handover: Handover,
    /// The total time during which the thread had something to do.
    awake: Duration,
    /// When it reports its use next.
    use_due: Instant,
    /// Whether the drain deadline has passed: connections that arrive from other threads are cut off.
    is_cut_off: bool,
}

const WAKE: Token = Token(usize::MAX);

/// The longest sleep while a connection waits for room in the spool, which sends no notification.
const SPOOL_RETRY_PAUSE: Duration = Duration::from_millis(20);

/// How often a thread reports its use.
const USE_PAUSE: Duration = Duration::from_millis(25);

impl Reactor {
    /// Prepares all I/O threads of a server, as many as its settings require.
    pub(crate) fn all(shared: &Arc<Shared>, site: &Arc<Site>, disk: &Arc<Disk>) -> io::Result<Vec<Self>> {
        let count = shared.config.serving.io_workers.max(1);
        let polls = (0..count).map(|_| Poll::new()).collect::<io::Result<Vec<_>>>()?;
        let inboxes = polls.iter().map(|poll| Inbox::new(poll, WAKE)).collect::<io::Result<Vec<_>>>()?;
        let migration = Migration::new(&inboxes);
        let now = time::now();
        let new = |(index, (poll, inbox))| Self {
            io: Io::new(Arc::clone(shared), Arc::clone(site), Arc::clone(disk), &inbox, now),
            poll,
            connections: Slab::new(),
            generation: 0,
            deadlines: Deadlines::default(),
            inbox,
            index,
            migration: Arc::clone(&migration),
            handover: Handover::default(),
            awake: Duration::ZERO,
            use_due: now,
            is_cut_off: false,
        };
        Ok(polls.into_iter().zip(inboxes).enumerate().map(new).collect())
    }

    /// Returns the inbox, for other threads.
    pub(crate) fn inbox(&self) -> Arc<Inbox> {
        Arc::clone(&self.inbox)
    }

    /// Starts the thread.
    pub(crate) fn start(self) -> io::Result<JoinHandle<()>> {
        thread::Builder::new().name(format!("svc-io-{}", self.index)).spawn(move || self.run())
    }

    fn run(mut self) {
        let _abort_on_panic = AbortOnPanic;
        let mut events = Events::with_capacity(POLL_EVENTS);
        // The thread was prepared before PHP started, which takes a while.
        self.io.now = time::now();
        loop {
            let ended_at = time::now();
            self.awake += ended_at.saturating_duration_since(self.io.now);
            let timeout = self.timeout(ended_at);
            // An interrupted wait is treated as one without events.
            let _ = self.poll.poll(&mut events, timeout);
            self.inbox.awake();
            self.io.now = time::now();
            self.take_orders();
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

    /// Adopts the present handover order, and reports how busy the thread is.
    fn take_orders(&mut self) {
        let io_load = &self.io.shared.io_load;
        self.handover.follow(io_load.order_of(self.index));
        if self.io.now >= self.use_due {
            self.use_due = self.io.now + USE_PAUSE;
            io_load.note(self.index, ThreadUse { cpu: time::thread_cpu(), awake: self.awake });
        }
    }

    /// Returns how long the poller may wait.
    fn timeout(&mut self, now: Instant) -> Option<Duration> {
        if !self.io.again.is_empty() || !self.inbox.prepare_sleep() {
            return Some(Duration::ZERO);
        }
        let next = self.deadlines.next().map(|at| at.saturating_duration_since(now));
        if self.io.starved.is_empty() {
            return next;
        }
        Some(next.map_or(SPOOL_RETRY_PAUSE, |next| next.min(SPOOL_RETRY_PAUSE)))
    }

    fn receive(&mut self, message: Message) {
        match message {
            Message::NewConnection(new) => self.admit(new),
            Message::ResponseReady(key) => {
                self.drive(key.connection, |connection, io| connection.on_response_ready(io, key.stream));
            }
            Message::Disk(key, done) => {
                self.drive(key.connection, |connection, io| connection.on_disk(io, key.stream, done));
            }
            Message::PhaseChanged => self.drive_all(ClientConnection::advance),
            Message::PoolGone => self.drive_all(ClientConnection::on_pool_gone),
            Message::CutOff => {
                self.is_cut_off = true;
                self.drive_all(ClientConnection::cut_off);
            }
            Message::HandedOver => self.take_over(),
            Message::RulesChanged => self.io.router.take_rules(self.io.shared.policy.rules()),
            Message::Stop => {}
        }
    }

    fn admit(&mut self, new: NewConnection) {
        let Ok(connection) = ClientConnection::new(new, &self.io) else { return };
        if let Some(key) = self.keep(connection) {
            // Data that has already arrived causes an event.
            self.drive(key, |_, _| ConnectionState::Open);
        }
    }

    /// Takes a connection that another thread has handed over.
    fn take_over(&mut self) {
        let Some(connection) = self.migration.take(self.index) else { return };
        let Some(key) = self.keep(connection) else { return };
        // It missed the broadcasts to all threads while it was in transfer.
        let act = if self.is_cut_off { ClientConnection::cut_off } else { ClientConnection::advance };
        self.drive(key, act);
    }

    /// Watches a connection; returns its key, or `None` if it cannot be watched and was dropped.
    fn keep(&mut self, mut connection: ClientConnection) -> Option<u64> {
        self.generation = self.generation.wrapping_add(1);
        let entry = self.connections.vacant_entry();
        let key = key_of(entry.key(), self.generation);
        let interest = Interest::READABLE | Interest::WRITABLE;
        let token = Token(usize::try_from(key).unwrap_or(0));
        self.poll.registry().register(connection.socket(), token, interest).ok()?;
        connection.key = key;
        entry.insert(connection);
        Some(key)
    }

    /// Hands over the connection in `place` to another thread.
    fn hand_over(&mut self, place: usize, to: usize) {
        let mut connection = self.connections.remove(place);
        self.deadlines.disarm(connection.key, &mut connection.armed);
        // If the socket stays with this poller, the other one cannot watch it and closes it.
        let _ = self.poll.registry().deregister(connection.socket());
        self.io.shared.metrics.io_handovers.incr();
        self.migration.send(connection, to);
    }

    /// Lets `act` use a connection, then arms its deadline or removes it. Does nothing if the connection is gone.
    fn drive(&mut self, key: u64, act: impl FnOnce(&mut ClientConnection, &mut Io) -> ConnectionState) {
        let place = place_of(key);
        let Some(connection) = self.connections.get_mut(place).filter(|connection| connection.key == key)
        else {
            return;
        };
        match act(connection, &mut self.io) {
            ConnectionState::Open => {
                if self.handover.is_pending()
                    && connection.is_at_rest()
                    && let Some(to) = self.handover.goes(&mut connection.handover_round)
                {
                    return self.hand_over(place, to);
                }
                let deadline = connection.deadline();
                self.deadlines.arm(key, &mut connection.armed, deadline);
            }
            ConnectionState::Ended => {
                connection.on_closed(&self.io);
                self.deadlines.disarm(key, &mut connection.armed);
                self.connections.remove(place);
            }
        }
    }

    fn drive_all(&mut self, mut act: impl FnMut(&mut ClientConnection, &mut Io) -> ConnectionState) {
        let keys: Vec<u64> = self.connections.iter().map(|(_, connection)| connection.key).collect();
        for key in keys {
            self.drive(key, &mut act);
        }
    }

    /// Handles passed deadlines, connections that have more to do, and those that waited for room.
    fn catch_up(&mut self) {
        while let Some(key) = self.deadlines.pop(self.io.now) {
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

/// Returns a connection's key: its slot in the slab in the lower half, its generation in the upper half.
fn key_of(place: usize, generation: u32) -> u64 {
    u64::from(generation) << 32 | (place as u64 & u64::from(u32::MAX))
}

fn place_of(key: u64) -> usize {
    usize::try_from(key & u64::from(u32::MAX)).unwrap_or(usize::MAX)
}

/// A key is also the token of its socket.
const _: () = assert!(usize::BITS == 64, "a poller's token holds a place and its generation");
