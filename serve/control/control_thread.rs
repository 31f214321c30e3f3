//! The control thread: it runs the jobs, and the operations port if there is one.
//!
//! It starts before everything that can fail or be slow, and ends last. It waits only in its poller, so that probes are
//! answered however busy the rest is. A client occupies one of a few places, for a few seconds at most: if all places
//! are taken, a new connection replaces the one that has waited longest. A few descriptors are held in reserve, so that
//! a script that exhausts the others cannot silence the port. Jobs must not block.

use std::io;
use std::net::SocketAddr;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use mio::net::{TcpListener, TcpStream};
use mio::{Events, Interest, Poll, Registry, Token, Waker};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use slab::Slab;

use svc_core::connection::{ConnectionTerms, Input};
use svc_core::descriptor;
use svc_core::http::DateCache;
use svc_core::limits::{OPS_CONNECTIONS_MAX, OPS_STEPS_PER_TURN};
use svc_core::observe::Event;
use svc_core::policy::client::{AllowList, is_exposed};
use svc_core::sync::idle_workers::Wake;
use svc_core::sync::primitive::{Arc, AtomicBool, Ordering};
use svc_core::time::{self, Clock};

use super::schedule::{PeriodicJob, Schedule};
use crate::net::transport::{ReadResult, Transport};
use crate::ops::connection::{OpsConnection, OpsStep, TURN, terms};
use crate::ops::facts::OpsFacts;
use crate::ops::port::OpsResponder;
use crate::ops::reserve::{Reserve, is_out_of_descriptors};
use crate::shared::Shared;

/// The handle of the control thread.
#[derive(Debug)]
pub(crate) struct Control {
    waker: Arc<ControlWaker>,
    ending: Arc<AtomicBool>,
    thread: JoinHandle<()>,
}

impl Control {
    /// Starts the thread, which uses `clock`. The jobs run about once a second, after each [`wake`](Self::wake), and at
    /// their deadlines.
    ///
    /// # Errors
    ///
    /// If the system cannot create a poller or a thread.
    pub(crate) fn start(
        mut listener: Option<TcpListener>,
        shared: &Arc<Shared>,
        clock: Clock,
        jobs: Vec<Box<dyn PeriodicJob>>,
    ) -> io::Result<Self> {
        let poll = Poll::new()?;
        if let Some(listener) = &mut listener {
            poll.registry().register(listener, LISTENER, Interest::READABLE)?;
            announce(listener.local_addr()?, shared);
        }
        let waker = Arc::new(ControlWaker(Waker::new(poll.registry(), WAKE)?));
        let mut reserve = Reserve::default();
        if let Some(listener) = &listener {
            reserve.fill(listener);
        }
        let ending = Arc::new(AtomicBool::new(false));
        let allowed = AllowList::new(shared.config.operations.allow_ips.clone());
        let is_bound_to =
            |listener: &TcpListener| listener.local_addr().is_ok_and(|addr| addr.ip().is_loopback());
        let is_loopback = listener.as_ref().is_some_and(is_bound_to);
        let thread_of_control = ControlThread {
            shared: Arc::clone(shared),
            ending: Arc::clone(&ending),
            clock,
            schedule: Schedule::new(jobs, clock()),
            port: OpsPort {
                listener,
                responder: OpsResponder::new(OpsFacts::new(Arc::clone(shared)), allowed, is_loopback),
                places: Slab::with_capacity(OPS_CONNECTIONS_MAX),
                unfinished: Vec::new(),
                backlog: false,
                in_trouble: false,
                reserve,
                date: DateCache::new(),
                terms: Arc::new(terms()),
            },
        };
        let thread = thread::Builder::new()
            .name("svc-control".to_owned())
            .spawn(move || thread_of_control.run(poll))?;
        Ok(Self { waker, ending, thread })
    }

    /// Runs the jobs now.
    pub(crate) fn wake(&self) {
        self.waker.wake();
    }

    /// Returns a handle for other threads that runs the jobs.
    pub(crate) fn waker(&self) -> Arc<dyn Wake> {
        Arc::<ControlWaker>::clone(&self.waker)
    }

    /// Closes the operations port and ends the thread.
    pub(crate) fn stop(self) {
        // Release: pairs with the Acquire in `ControlThread::run`.
        self.ending.store(true, Ordering::Release);
        self.wake();
        // If the control thread panicked, that was reported on standard error, and nothing is left to end.
        let _ = self.thread.join();
    }
}

/// Wakes the control thread.
#[derive(Debug)]
struct ControlWaker(Waker);

impl Wake for ControlWaker {
    fn wake(&self) {
        // The only possible error is a full counter, and then the thread is already being woken.
        let _ = self.0.wake();
    }
}

/// Logs the address of the port, and warns if other hosts can reach it without restriction.
fn announce(addr: SocketAddr, shared: &Shared) {
    shared.log.emit(&Event::OpsListening { addr });
    if is_exposed(addr.ip()) && shared.config.operations.allow_ips.is_none() {
        shared.log.emit(&Event::OpsExposed { addr });
    }
}

const LISTENER: Token = Token(usize::MAX);
const WAKE: Token = Token(usize::MAX - 1);

struct ControlThread {
    shared: Arc<Shared>,
    ending: Arc<AtomicBool>,
    clock: Clock,
    schedule: Schedule,
    port: OpsPort,
}

impl ControlThread {
    fn run(mut self, mut poll: Poll) {
        let mut events = Events::with_capacity(2 * OPS_CONNECTIONS_MAX);
        let mut woken = true;
        // Acquire: pairs with the Release in `Control::stop`.
        while !self.ending.load(Ordering::Acquire) {
            let now = (self.clock)();
            if woken || now >= self.schedule.deadline() {
                self.schedule.run(now);
            }
            woken = false;
            // An interrupted wait returns without events.
            let _ = poll.poll(&mut events, Some(self.pause((self.clock)())));
            let now = (self.clock)();
            for event in &events {
                match event.token() {
                    LISTENER => self.port.backlog = true,
                    WAKE => woken = true,
                    Token(place) => self.port.on_event(place, event, now),
                }
            }
            self.port.turn(poll.registry(), &self.shared, now);
        }
    }

    /// Returns how long to wait unless an event arrives.
    fn pause(&self, now: Instant) -> Duration {
        let tick_at = self.schedule.deadline();
        let until = self.port.deadline().map_or(tick_at, |deadline| deadline.min(tick_at));
        if self.port.has_work() { Duration::ZERO } else { until.saturating_duration_since(now) }
    }
}

/// The sockets of the operations port.
struct OpsPort {
    listener: Option<TcpListener>,
    responder: OpsResponder<OpsFacts>,
    places: Slab<OpsPlace>,
    /// Connections that have more to do than one turn allows; no further event will announce them.
    unfinished: Vec<usize>,
    /// Whether the listener may have more connections.
    backlog: bool,
    /// Whether the system could not accept a connection; accepting is retried at each tick.
    in_trouble: bool,
    reserve: Reserve,
    date: DateCache,
    terms: Arc<ConnectionTerms>,
}

struct OpsPlace {
    transport: Transport,
    connection: OpsConnection,
}

impl OpsPort {
    fn has_work(&self) -> bool {
        (self.backlog && !self.in_trouble) || !self.unfinished.is_empty()
    }

    fn deadline(&self) -> Option<Instant> {
        self.places.iter().filter_map(|(_, place)| place.connection.deadline()).min()
    }

    /// Continues what the last turn left, accepts, and closes connections whose deadline has passed.
    fn turn(&mut self, registry: &Registry, shared: &Shared, now: Instant) {
        for place in std::mem::take(&mut self.unfinished) {
            self.drive(place, now);
        }
        // No event reports which plugin has answered.
        let is_asking = |(key, place): (usize, &OpsPlace)| place.connection.is_asking().then_some(key);
        let asking: Vec<usize> = self.places.iter().filter_map(is_asking).collect();
        for place in asking {
            self.drive(place, now);
        }
        self.accept(registry, shared, now);
        self.places.retain(|_, place| place.connection.deadline().is_none_or(|deadline| now < deadline));
        if let Some(listener) = &self.listener {
            self.reserve.fill(listener);
        }
    }

    /// Accepts as many connections as one turn allows. Each is driven once before the next one may replace it.
    fn accept(&mut self, registry: &Registry, shared: &Shared, now: Instant) {
        if !(self.backlog || self.in_trouble) {
            return;
        }
        for _ in 0..OPS_CONNECTIONS_MAX {
            let Some(accepted) = self.listener.as_ref().map(TcpListener::accept) else { return };
            match accepted {
                Ok((socket, peer)) => {
                    self.in_trouble = false;
                    self.seat(registry, socket, OpsConnection::new(&self.terms, peer.ip(), now), now);
                }
                Err(error) => match error.kind() {
                    io::ErrorKind::WouldBlock => {
                        (self.backlog, self.in_trouble) = (false, false);
                        return;
                    }
                    io::ErrorKind::Interrupted | io::ErrorKind::ConnectionAborted => {}
                    // Without a descriptor, the system does not report whether a connection is pending.
                    _ if !self.has_pending() => {
                        (self.backlog, self.in_trouble) = (false, false);
                        return;
                    }
                    _ if is_out_of_descriptors(&error) && self.reserve.draw() => {
                        if self.reserve.is_news(now) {
                            shared.log.emit(&Event::OpsReserveUsed { error: &error.to_string() });
                        }
                    }
                    // Closes another connection of the port, to make room for a probe.
                    _ if give_up_oldest(&mut self.places) => {}
                    _ => {
                        if !std::mem::replace(&mut self.in_trouble, true) {
                            shared.log.emit(&Event::OpsAcceptFailed { error: &error.to_string() });
                        }
                        return;
                    }
                },
            }
        }
    }

    /// Returns whether a connection is pending, as far as the system can tell.
    fn has_pending(&self) -> bool {
        let Some(listener) = &self.listener else { return false };
        let mut watched = [PollFd::new(listener, PollFlags::IN)];
        poll(&mut watched, Some(&Timespec::default())).map_or(true, |ready| ready > 0)
    }

    /// Gives a connection a place; if all are taken, the place of another connection.
    fn seat(&mut self, registry: &Registry, socket: TcpStream, connection: OpsConnection, now: Instant) {
        let mut socket = descriptor::move_up(socket);
        // Responses are sent when they are complete. If the option cannot be set, the client is served anyway.
        let _ = socket.set_nodelay(true);
        if self.places.len() >= OPS_CONNECTIONS_MAX {
            give_up_oldest(&mut self.places);
        }
        let entry = self.places.vacant_entry();
        let key = entry.key();
        if registry.register(&mut socket, Token(key), Interest::READABLE | Interest::WRITABLE).is_ok() {
            let mut transport = Transport::plain(socket);
            // It is driven before its first event.
            transport.is_readable = true;
            entry.insert(OpsPlace { transport, connection });
            self.drive(key, now);
        }
    }

    /// Processes an event of a connection.
    fn on_event(&mut self, key: usize, event: &mio::event::Event, now: Instant) {
        if let Some(place) = self.places.get_mut(key) {
            place.transport.note(event);
        }
        self.drive(key, now);
    }

    /// Gives a connection its turn.
    fn drive(&mut self, key: usize, now: Instant) {
        let Some(place) = self.places.get_mut(key) else { return };
        let date = *self.date.at(time::wall());
        match place.take_turn(&self.responder, date, now) {
            TurnEnd::Close => drop(self.places.remove(key)),
            TurnEnd::Wait => {}
            TurnEnd::Yield => self.unfinished.push(key),
        }
    }
}

/// Closes the connection that has waited longest for its client; returns whether there was one.
fn give_up_oldest(places: &mut Slab<OpsPlace>) -> bool {
    let oldest = places.iter().min_by_key(|(_, place)| place.connection.waiting_since()).map(|(key, _)| key);
    oldest.map(|key| places.remove(key)).is_some()
}

/// The end of a turn.
enum TurnEnd {
    Close,
    Wait,
    /// The connection has used up its steps.
    Yield,
}

impl OpsPlace {
    /// Reads, answers and writes until the socket is empty, or the turn is over.
    fn take_turn(&mut self, responder: &OpsResponder<OpsFacts>, date: [u8; 29], now: Instant) -> TurnEnd {
        self.connection.handle(TURN, now);
        for _ in 0..OPS_STEPS_PER_TURN {
            match self.connection.poll(responder, date, self.transport.peer(), now) {
                OpsStep::Close => return TurnEnd::Close,
                OpsStep::Read => self.read(now),
                OpsStep::ShutDown => self.transport.shut_down(),
                OpsStep::Transmit => self.write(now),
                OpsStep::Wait => return TurnEnd::Wait,
                OpsStep::Yield => return TurnEnd::Yield,
            }
        }
        TurnEnd::Yield
    }

    fn read(&mut self, now: Instant) {
        let mut bytes = [0; 4096];
        let input = match self.transport.read(&mut bytes) {
            ReadResult::Bytes(count) => Input::Bytes(&bytes[..count]),
            ReadResult::End => Input::End,
            ReadResult::Nothing => Input::WouldBlock,
        };
        self.connection.handle(input, now);
    }

    fn write(&mut self, now: Instant) {
        let transport = &mut self.transport;
        let result = self.connection.transmit(now, |output| transport.flush(output));
        drop(result);
    }
}

#[cfg(test)]
#[path = "control_thread_tests.rs"]
mod tests;
