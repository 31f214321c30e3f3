//! A connection of the operations port: the main port's state machine with stricter limits and the port's answers.
//!
//! It holds at most one request header and one response at a time, whatever the client does. Its deadline is absolute,
//! from the first byte of a request to the last byte of its response. The connection owns no socket and reads no
//! clock.

use std::net::IpAddr;
use std::time::{Duration, Instant};

use svc_core::connection::{
    Announced, Ask, Command, Connection, ConnectionTerms, Decision, Grant, Incoming, Input, Output, Peer,
    Rejected, Sent, Unreadable,
};
use svc_core::http::{BodyFraming, HeadLimits};
use svc_core::limits::{OPS_EXCHANGE_TIMEOUT, OPS_IDLE_TIMEOUT, OPS_LEAVE_TIMEOUT};
use svc_core::plugins::PageTicket;
use svc_core::sync::permits::Permits;
use svc_core::sync::primitive::Arc;

use super::port::{OpsResponder, OpsResponse, OpsSource, page_response, refusal};

/// One connection.
#[derive(Debug)]
pub(crate) struct OpsConnection {
    peer: IpAddr,
    connection: Connection<()>,
    /// The page that was requested from a plugin.
    asked: Option<AskedPage>,
    /// How long the present exchange has waited for a plugin, which does not count against its client.
    excused: Duration,
}

/// A page that was requested from a plugin.
#[derive(Debug)]
struct AskedPage {
    stream: u32,
    ticket: PageTicket,
    since: Instant,
}

/// The next action of the socket's owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OpsStep {
    /// Close it.
    Close,
    /// Read once, then pass [`Input::Bytes`], [`Input::End`] or [`Input::WouldBlock`].
    Read,
    /// Close the sending side.
    ShutDown,
    /// Write: [`OpsConnection::transmit`].
    Transmit,
    /// Wait for the socket or the deadline.
    Wait,
    /// Let other connections have their turn.
    Yield,
}

/// The beginning of a turn, in which the socket may be read again. The port answers while the server lives, even when it is
/// closing.
pub(crate) const TURN: Input<'_> = Input::Turn { is_closing: false, is_memory_tight: false };

/// The maximum time between the end of the wait for a plugin and the answer.
const ANSWER_GRACE: Duration = Duration::from_secs(1);

/// Returns the limits of a connection.
pub(crate) fn terms() -> ConnectionTerms {
    ConnectionTerms {
        head: HeadLimits::ops_port(),
        header_timeout: OPS_EXCHANGE_TIMEOUT,
        body_timeout: OPS_EXCHANGE_TIMEOUT,
        write_timeout: OPS_EXCHANGE_TIMEOUT,
        keepalive_timeout: OPS_IDLE_TIMEOUT,
        linger_timeout: OPS_LEAVE_TIMEOUT,
        exchange_timeout: Some(OPS_EXCHANGE_TIMEOUT),
        accepts_http2: false,
        window_permits: Permits::new(0),
    }
}

impl OpsConnection {
    /// Starts with a connection from `peer` that was just accepted.
    pub(crate) fn new(terms: &Arc<ConnectionTerms>, peer: IpAddr, now: Instant) -> Self {
        let connection = Connection::new(Arc::clone(terms), false, now);
        Self { peer, connection, asked: None, excused: Duration::ZERO }
    }

    /// Returns when the connection must be closed.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        match &self.asked {
            // By then there is an answer, if only that the plugin is late.
            Some(asked) => Some(asked.ticket.until() + ANSWER_GRACE),
            None => self.connection.deadline().map(|deadline| deadline + self.excused),
        }
    }

    /// Returns whether the answer depends on a plugin.
    pub(crate) fn is_asking(&self) -> bool {
        self.asked.is_some()
    }

    /// Returns when the current wait began: the connection with the earliest time is closed first.
    pub(crate) fn waiting_since(&self) -> Option<Instant> {
        self.connection.waiting_since()
    }

    /// Handles an event.
    pub(crate) fn handle(&mut self, input: Input<'_>, now: Instant) {
        self.connection.handle(input, now);
    }

    /// Passes pending output to `write`.
    ///
    /// # Errors
    ///
    /// The error of `write`, which ends the connection.
    pub(crate) fn transmit<E>(
        &mut self,
        now: Instant,
        write: impl FnOnce(&mut Output) -> Result<Sent, E>,
    ) -> Result<(), E> {
        self.connection.transmit(now, write)
    }

    /// Answers all requests that can be answered, and returns the next action.
    pub(crate) fn poll<S: OpsSource>(
        &mut self,
        responder: &OpsResponder<S>,
        date: [u8; 29],
        peer: Peer,
        now: Instant,
    ) -> OpsStep {
        self.take_page(now);
        loop {
            return match self.connection.poll_command(peer, now) {
                Command::Close { .. } => OpsStep::Close,
                Command::Read { .. } => OpsStep::Read,
                Command::ShutDown { .. } => OpsStep::ShutDown,
                Command::Transmit => OpsStep::Transmit,
                Command::Wait => OpsStep::Wait,
                Command::Yield => OpsStep::Yield,
                // Requests on this port are not counted.
                Command::Ended(_) | Command::Rejected(_) => {
                    (self.asked, self.excused) = (None, Duration::ZERO);
                    continue;
                }
                Command::Request(incoming) => {
                    self.answer(responder, &incoming, now);
                    continue;
                }
                Command::Unreadable(unreadable) => {
                    self.refuse(&unreadable, now);
                    continue;
                }
                Command::Stream(stream, Ask::Announce { head, length, head_only }) => {
                    let announced = Announced {
                        status: head.status,
                        reason: head.reason,
                        fields: head.fields,
                        length,
                        has_body: !head_only,
                        page: None,
                        date,
                    };
                    if let Some(stream) = self.connection.stream(stream) {
                        stream.announce(announced);
                    }
                    continue;
                }
                Command::Stream(_, ask) => {
                    debug_assert!(false, "an answer that is all here asks for {ask:?}");
                    OpsStep::Close
                }
            };
        }
    }

    fn answer<S: OpsSource>(&mut self, responder: &OpsResponder<S>, incoming: &Incoming, now: Instant) {
        let has_body = !matches!(incoming.framing, BodyFraming::None | BodyFraming::Length(0));
        let fits = self.connection.begin((), Grant::default(), now);
        let response = match responder.respond(&incoming.head, has_body, self.peer, now) {
            OpsResponse::Now(response) => response,
            OpsResponse::Later(ticket) => {
                self.asked = Some(AskedPage { stream: incoming.stream, ticket, since: now });
                return;
            }
        };
        // Bodies are not read: after a request with a body, the next request cannot be found.
        let refuses = has_body || !fits;
        let decision = if refuses { Decision::Refuse(response) } else { Decision::Respond(response) };
        self.decide(incoming.stream, decision, now);
    }

    /// Answers with the page of a plugin, once it has arrived, or with an error once it is late or has failed.
    fn take_page(&mut self, now: Instant) {
        let Some((asked, outcome)) =
            self.asked.as_ref().and_then(|asked| Some((asked, asked.ticket.poll(now)?)))
        else {
            return;
        };
        self.excused = now.saturating_duration_since(asked.since);
        self.decide(asked.stream, Decision::Respond(page_response(outcome)), now);
        self.asked = None;
    }

    fn decide(&mut self, stream: u32, decision: Decision, now: Instant) {
        if let Some(stream) = self.connection.stream(stream) {
            stream.decide(decision, now);
        }
    }

    fn refuse(&mut self, unreadable: &Unreadable, now: Instant) {
        // It has no body.
        let _ = self.connection.begin((), Grant::default(), now);
        // The other reasons are those of TLS, and of a deadline that closes the connection instead.
        let Rejected::Head(error) = unreadable.error else { return self.handle(Input::Abort, now) };
        self.decide(unreadable.stream, Decision::Refuse(refusal(error)), now);
    }
}

#[cfg(test)]
#[path = "connection_tests.rs"]
mod tests;
