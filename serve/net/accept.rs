//! The accepting thread: it accepts connections, takes a permit for each, and distributes them round robin to the I/O
//! threads that are in use.
//!
//! A connection without a permit waits here, accepted but not served, and the metrics show it. When the server shuts
//! down, every connection that waits here or in the backlog is handed over before the listener closes, even beyond
//! `MAX_CONNECTIONS`. If the system has no descriptors left, accepting is retried at a slow pace. The thread reads and
//! writes nothing.

use std::io;
use std::thread;
use std::time::Duration;

use mio::net::TcpStream;
use mio::{Events, Poll, Token, Waker};
use rustix::io::Errno;

use svc_core::descriptor;
use svc_core::limits::LATE_CONNECTIONS_MAX;
use svc_core::observe::Event;
use svc_core::sync::permits::{Permit, Permits};
use svc_core::sync::primitive::{Arc, AtomicBool, Ordering};

use super::listener::{Addresses, Listener};
use crate::io_thread::abort_on_panic::AbortOnPanic;
use crate::io_thread::inbox::{Inbox, Message};
use crate::io_thread::new_connection::{ListenerKind, NewConnection};
use crate::lifecycle::Phase;
use crate::shared::Shared;

/// The handle of the accepting thread, which may not have started yet.
///
/// # Ordering
///
/// `is_accepting` is cleared with Release and read with Acquire: a thread that sees the end of accepting sees the permits
/// of all connections.
#[derive(Debug)]
pub(crate) struct Acceptor {
    waker: Waker,
    late: Arc<Permits>,
    /// Whether another process accepts the connections that still wait when this one ends.
    has_successor: bool,
    /// Whether the thread has started and not ended.
    is_accepting: AtomicBool,
}

impl Acceptor {
    /// Creates the handle of a thread that waits in `poll`.
    pub(crate) fn new(poll: &Poll, has_successor: bool) -> io::Result<Arc<Self>> {
        let waker = Waker::new(poll.registry(), WAKE)?;
        let late = Permits::new(LATE_CONNECTIONS_MAX);
        Ok(Arc::new(Self { waker, late, has_successor, is_accepting: AtomicBool::new(false) }))
    }

    /// Notifies the thread that the phase of the server has changed.
    pub(crate) fn wake(&self) {
        // The only possible error is a full counter, and then the thread is already being woken.
        let _ = self.waker.wake();
    }

    /// Returns whether connections that arrived during the shutdown are still open.
    pub(crate) fn has_late(&self) -> bool {
        self.late.free() < LATE_CONNECTIONS_MAX
    }

    /// Returns whether another process accepts the connections that still wait when this one ends.
    pub(crate) fn has_successor(&self) -> bool {
        self.has_successor
    }

    /// Returns whether connections are accepted; `false` once the listener is closed and every connection has been handed
    /// over.
    pub(crate) fn is_accepting(&self) -> bool {
        // Acquire: pairs with the Release in `Accepting::start`.
        self.is_accepting.load(Ordering::Acquire)
    }
}

/// The listeners have the tokens from 0 upwards.
const WAKE: Token = Token(usize::MAX >> 1);

/// How long to wait before accepting again when the system has no descriptor or memory for a connection.
const TROUBLE_PAUSE: Duration = Duration::from_millis(100);

/// The accepting thread. It has a poller and a handle before it starts.
#[derive(Debug)]
pub(crate) struct Accepting {
    poll: Poll,
    listeners: Vec<(Listener, ListenerKind)>,
    inboxes: Vec<Arc<Inbox>>,
    shared: Arc<Shared>,
    handle: Arc<Acceptor>,
    turn: usize,
    in_trouble: bool,
}

impl Accepting {
    /// Prepares the thread to accept on `listeners`; connections are distributed round robin to the inboxes in use.
    pub(crate) fn new(
        mut listeners: Vec<(Listener, ListenerKind)>,
        inboxes: Vec<Arc<Inbox>>,
        shared: Arc<Shared>,
    ) -> io::Result<Self> {
        let poll = Poll::new()?;
        for (index, (listener, _)) in listeners.iter_mut().enumerate() {
            listener.register(poll.registry(), Token(index))?;
        }
        let handle = Acceptor::new(&poll, listeners.iter().any(|(listener, _)| listener.is_inherited()))?;
        Ok(Self { poll, listeners, inboxes, shared, handle, turn: 0, in_trouble: false })
    }

    /// Returns the handle, for other threads.
    pub(crate) fn handle(&self) -> Arc<Acceptor> {
        Arc::clone(&self.handle)
    }

    /// Starts the thread. It is not joined; see [`is_accepting`](Acceptor::is_accepting).
    pub(crate) fn start(self) -> io::Result<()> {
        let handle = self.handle();
        // Before the thread exists, so that no drain ends before its first round.
        handle.is_accepting.store(true, Ordering::Relaxed);
        let run = move || {
            self.run();
            // Release: pairs with the Acquire in `Acceptor::is_accepting`.
            handle.is_accepting.store(false, Ordering::Release);
        };
        thread::Builder::new().name("svc-accept".to_owned()).spawn(run).map(drop)
    }

    fn run(mut self) {
        let _abort_on_panic = AbortOnPanic;
        let mut events = Events::with_capacity(8);
        loop {
            // The phase is read before accepting, so that the last round includes every client that connected before
            // the listener closes.
            let phase = self.shared.lifecycle.phase();
            self.accept_all(matches!(phase, Phase::Closing | Phase::Stopped));
            if phase == Phase::Stopped || (phase == Phase::Closing && !self.in_trouble) {
                return;
            }
            let pause = self.in_trouble.then_some(TROUBLE_PAUSE);
            if let Err(error) = self.poll.poll(&mut events, pause)
                && error.kind() != io::ErrorKind::Interrupted
            {
                self.report(&error);
                return;
            }
        }
    }

    /// Accepts the connections that wait, from each listener in turn. When the server shuts down, the backlog of an
    /// inherited listener is left to the process that takes it over.
    fn accept_all(&mut self, is_closing: bool) {
        let mut are_open = true;
        while std::mem::take(&mut are_open) {
            for index in 0..self.listeners.len() {
                if is_closing && self.listeners[index].0.is_inherited() {
                    continue;
                }
                match self.accept_one(index) {
                    Accepted::One => are_open = true,
                    Accepted::Nothing => {}
                    Accepted::Trouble => return,
                }
            }
        }
        self.in_trouble = false;
    }

    fn accept_one(&mut self, index: usize) -> Accepted {
        let (listener, kind) = &self.listeners[index];
        match listener.accept() {
            Ok((socket, addresses)) => {
                let kind = *kind;
                self.in_trouble = false;
                if let Some(permit) = self.permit() {
                    self.hand_over(socket, addresses, kind, permit);
                }
                Accepted::One
            }
            Err(error) => match error.kind() {
                io::ErrorKind::WouldBlock => Accepted::Nothing,
                // The client disconnected before its connection was accepted.
                io::ErrorKind::ConnectionAborted
                | io::ErrorKind::ConnectionReset
                | io::ErrorKind::Interrupted => Accepted::One,
                _ if is_network_trouble(&error) => Accepted::One,
                _ => {
                    if !std::mem::replace(&mut self.in_trouble, true) {
                        self.report(&error);
                    }
                    Accepted::Trouble
                }
            },
        }
    }

    /// Takes a permit for the connection; `None` if the server is shutting down and even those permits are used up.
    fn permit(&self) -> Option<Permit> {
        let permits = &self.shared.permits;
        if let Some(permit) = permits.try_acquire() {
            return Some(permit);
        }
        if self.shared.lifecycle.is_closing() {
            return self.handle.late.try_acquire();
        }
        let metrics = &self.shared.metrics;
        metrics.accept_stalls.incr();
        metrics.accept_stalled.set();
        let permit = permits.acquire();
        metrics.accept_stalled.clear();
        // Without a permit, the wait has ended because the server is shutting down.
        permit.or_else(|| self.handle.late.try_acquire())
    }

    fn hand_over(&mut self, socket: TcpStream, addresses: Addresses, kind: ListenerKind, permit: Permit) {
        let socket = descriptor::move_up(socket);
        // Responses are sent when they are complete. If the option cannot be set, as on a Unix socket, the client is
        // served anyway.
        let _ = socket.set_nodelay(true);
        self.turn = (self.turn + 1) % self.shared.io_load.in_use();
        self.inboxes[self.turn].send(Message::NewConnection(NewConnection {
            socket,
            peer: addresses.peer,
            local: addresses.local,
            listener: kind,
            permit,
        }));
    }

    fn report(&self, error: &io::Error) {
        self.shared.log.emit(&Event::AcceptFailed { error: &error.to_string() });
    }
}

/// The result of an attempt to accept a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Accepted {
    /// A connection was accepted, which may have ended since.
    One,
    /// No connection waits.
    Nothing,
    /// The system has no resources for more connections.
    Trouble,
}

/// Returns whether the error belongs to the connection being accepted; Linux passes such errors on.
fn is_network_trouble(error: &io::Error) -> bool {
    let Some(errno) = Errno::from_io_error(error) else { return false };
    [
        Errno::NETDOWN,
        Errno::PROTO,
        Errno::NOPROTOOPT,
        Errno::HOSTDOWN,
        Errno::NONET,
        Errno::HOSTUNREACH,
        Errno::OPNOTSUPP,
        Errno::NETUNREACH,
        Errno::PERM,
    ]
    .contains(&errno)
}
