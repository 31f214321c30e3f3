//! Delivers one batch after another to the collector: the attempts of an export, and their deadlines.
//!
//! A connection is kept between exports, and reused only if it was idle for a short time and the collector has not
//! closed it, so that a stale connection costs no attempt. The client decides nothing about retries and logs nothing;
//! it returns the answer.

use std::io;
use std::time::{Duration, Instant};

use mio::{Events, Poll, Token, Waker};
use rustls::ClientConfig;

use svc_core::config::ExportConfig;
use svc_core::limits::EXPORT_IDLE_MAX;
use svc_core::otlp::{
    AfterAttempt, AttemptEnd, BatchEncoder, CollectorAnswer, ConnectionLost, Export, ExportTimeouts,
    PartialSuccess, Payload, Resource, RetryRules,
};
use svc_core::sync::primitive::Arc;

use super::connection::Connection;

/// Delivers batches to the collector.
pub(crate) struct OtlpClient {
    config: ExportConfig,
    timeouts: ExportTimeouts,
    rules: RetryRules,
    encoder: BatchEncoder,
    tls: Option<Arc<ClientConfig>>,
    poll: Poll,
    events: Events,
    /// The connection of the last export, and the time at which that export ended.
    idle: Option<(Connection, Instant)>,
    next_token: usize,
    clock: Box<dyn Fn() -> Instant + Send>,
}

/// The result of an export.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Delivery {
    /// The collector's answer, or why it did not get the batch.
    pub(crate) result: Result<PartialSuccess, String>,
    /// Whether there was a second attempt.
    pub(crate) is_retried: bool,
    /// The collector asks for no export before this time.
    pub(crate) not_before: Option<Instant>,
}

/// The token of the waker.
const WAKER: Token = Token(0);

impl OtlpClient {
    /// Creates a client, whose exports have this time with all their attempts. `clock` returns the time.
    pub(crate) fn new(
        config: &ExportConfig,
        (export_timeout, rules): (Option<Duration>, RetryRules),
        tls: Option<Arc<ClientConfig>>,
        poll: Poll,
        resource: Resource,
        clock: impl Fn() -> Instant + Send + 'static,
    ) -> Self {
        Self {
            encoder: BatchEncoder::new(config, resource),
            timeouts: ExportTimeouts { attempt: config.timeout, export: export_timeout },
            rules,
            config: config.clone(),
            tls,
            poll,
            events: Events::with_capacity(EVENTS_MAX),
            idle: None,
            next_token: WAKER.0 + 1,
            clock: Box::new(clock),
        }
    }

    /// Makes the waker of the thread that waits in `poll`.
    pub(crate) fn waker(poll: &Poll) -> io::Result<Waker> {
        Waker::new(poll.registry(), WAKER)
    }

    /// Returns the time.
    pub(crate) fn now(&self) -> Instant {
        (self.clock)()
    }

    /// Sleeps until a wake-up, a message from the collector, or `until`.
    pub(crate) fn sleep(&mut self, until: Option<Instant>) {
        self.wait(until);
        // The collector may have closed the connection, or sent a PING.
        let Some((mut connection, since)) = self.idle.take() else { return };
        if connection.pump(self.poll.registry()).is_ok() && connection.exchange().is_reusable() {
            self.idle = Some((connection, since));
        }
    }

    /// Exports a batch of encoded items. During waits, calls `stop` for the latest time at which to give up.
    pub(crate) fn deliver<B: AsRef<[u8]>>(
        &mut self,
        items: &[B],
        stop: &dyn Fn() -> Option<Instant>,
    ) -> Delivery {
        let payload = match self.encoder.encode(items) {
            Ok(payload) => payload,
            Err(error) => {
                return Delivery { result: Err(error.to_string()), is_retried: false, not_before: None };
            }
        };
        let mut export = Export::begin(self.timeouts, self.rules, self.now());
        let (mut is_retried, mut is_ending) = (false, stop().is_some());
        loop {
            let answer = self.attempt(&payload, &export, stop);
            let (end, result) = match answer {
                Ok(Some(CollectorAnswer::Accepted(success))) => (AttemptEnd::Accepted, Ok(success)),
                Ok(Some(CollectorAnswer::Refused { reason, advice })) => {
                    (AttemptEnd::Refused(advice), Err(format!("the collector answered {reason}")))
                }
                Ok(None) => (AttemptEnd::TimedOut, Err("timed out".to_owned())),
                Err(lost) => (AttemptEnd::Lost, Err(lost.reason.into_owned())),
            };
            let not_before = match export.ended(end, self.now()) {
                AfterAttempt::Retry(at) if self.pause(at, stop, &mut is_ending) => {
                    is_retried = true;
                    continue;
                }
                AfterAttempt::Failed { not_before } => not_before,
                AfterAttempt::Delivered | AfterAttempt::Retry(_) => None,
            };
            return Delivery { result, is_retried, not_before };
        }
    }

    /// Waits until the time of the next attempt. The end of the exporter ends the wait, once: after that, there are no
    /// further attempts, so that a collector that is down does not delay the end of the server. Returns whether to make
    /// the attempt.
    fn pause(&mut self, until: Instant, stop: &dyn Fn() -> Option<Instant>, is_ending: &mut bool) -> bool {
        loop {
            let now = self.now();
            if let Some(end) = stop() {
                return !std::mem::replace(is_ending, true) && now < end;
            }
            if until <= now {
                return true;
            }
            self.wait(Some(until));
        }
    }

    /// Makes one attempt; `None` if it timed out.
    fn attempt(
        &mut self,
        payload: &Payload,
        export: &Export,
        stop: &dyn Fn() -> Option<Instant>,
    ) -> Result<Option<CollectorAnswer>, ConnectionLost> {
        let mut connection = match self.take_idle() {
            Some(connection) => connection,
            None => self.connect()?,
        };
        let left = export.deadline().map(|deadline| deadline.saturating_duration_since(self.now()));
        connection.exchange().begin(payload, left);
        loop {
            let pumped = connection.pump(self.poll.registry());
            if let Some(answer) = connection.exchange().take_answer() {
                // A connection that lost a stream is not reused.
                if pumped.is_ok() && answer.is_ok() && connection.exchange().is_reusable() {
                    self.idle = Some((connection, self.now()));
                }
                // The system's error is more specific than the protocol's if a connection was lost.
                return match (answer, pumped) {
                    (Err(_), Err(lost)) => Err(lost),
                    (answer, _) => answer.map(Some),
                };
            }
            pumped?;
            let deadline = export.deadline().into_iter().chain(stop()).min();
            if deadline.is_some_and(|deadline| deadline <= self.now()) {
                return Ok(None);
            }
            self.wait(deadline);
        }
    }

    /// Returns the connection of the last export if it is certainly usable.
    fn take_idle(&mut self) -> Option<Connection> {
        let (mut connection, since) = self.idle.take()?;
        let is_fresh = self.now().saturating_duration_since(since) <= EXPORT_IDLE_MAX;
        let is_there =
            is_fresh && connection.pump(self.poll.registry()).is_ok() && connection.exchange().is_reusable();
        is_there.then_some(connection)
    }

    fn connect(&mut self) -> Result<Connection, ConnectionLost> {
        let token = Token(self.next_token);
        self.next_token = self.next_token.wrapping_add(1).max(WAKER.0 + 1);
        Connection::open(&self.config, self.tls.as_ref(), self.poll.registry(), token)
    }

    /// Waits for an event. Spurious wake-ups are harmless.
    fn wait(&mut self, until: Option<Instant>) {
        let timeout = until.map(|until| until.saturating_duration_since(self.now()));
        // Rounded up: the poller counts milliseconds, and would otherwise spin through the last one.
        let timeout = timeout.map(|timeout| timeout + Duration::from_millis(1));
        // An interrupted wait is a spurious wake-up.
        let _ = self.poll.poll(&mut self.events, timeout);
    }
}

const EVENTS_MAX: usize = 16;

#[cfg(test)]
#[path = "otlp_client_tests.rs"]
mod tests;
