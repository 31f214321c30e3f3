//! A connection to a collector, without its socket: what is sent on it, and what the answer is.
//!
//! ```text
//!   Idle ──begin──▶ Sending, receiving ──take_answer──▶ Idle, if is_reusable
//! ```
//!
//! Promises: an answer is one that the collector has given; a connection that ended before that is lost. Refuses: it keeps
//! no deadline.

use std::borrow::Cow;
use std::time::Duration;

use crate::config::{ExportConfig, ExportProtocol};

use super::answer::Answer;
use super::grpc::Grpc;
use super::http1::Http1;
use super::payload::Payload;

/// A connection to a collector.
#[derive(Debug)]
pub struct Exchange(Inner);

#[derive(Debug)]
enum Inner {
    Grpc(Box<Grpc>),
    Http1(Box<Http1>),
}

/// The connection was lost before there was an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lost {
    /// How.
    pub reason: Cow<'static, str>,
}

macro_rules! either {
    ($self:ident, $connection:ident => $act:expr) => {
        match &mut $self.0 {
            Inner::Grpc($connection) => $act,
            Inner::Http1($connection) => $act,
        }
    };
}

impl Exchange {
    /// A connection that was just made.
    pub fn new(config: &ExportConfig) -> Self {
        Self(match config.protocol {
            ExportProtocol::Grpc => Inner::Grpc(Box::new(Grpc::new(config))),
            ExportProtocol::HttpJson | ExportProtocol::HttpProtobuf => {
                Inner::Http1(Box::new(Http1::new(config)))
            }
        })
    }

    /// Begins an export, for which there is so much time.
    pub fn begin(&mut self, payload: &Payload, time: Option<Duration>) {
        match &mut self.0 {
            Inner::Grpc(grpc) => grpc.begin(payload, time),
            Inner::Http1(http) => http.begin(payload),
        }
    }

    /// What is to be sent; whoever sends removes it.
    pub fn output(&mut self) -> &mut Vec<u8> {
        either!(self, connection => connection.output())
    }

    /// These bytes have come.
    pub fn receive(&mut self, bytes: &[u8]) {
        either!(self, connection => connection.receive(bytes));
    }

    /// The collector has closed the connection.
    pub fn end(&mut self) {
        either!(self, connection => connection.end());
    }

    /// Returns the answer, once.
    pub fn take_answer(&mut self) -> Option<Result<Answer, Lost>> {
        either!(self, connection => connection.take_answer())
    }

    /// Whether another export can begin on the connection.
    pub fn is_reusable(&mut self) -> bool {
        either!(self, connection => connection.is_reusable())
    }
}

impl Lost {
    /// The collector has closed the connection without an answer.
    pub fn closed() -> Self {
        Self { reason: "the connection was closed without an answer".into() }
    }
}

/// Fields of each request that do not depend on the protocol. Who sets a user agent means it.
pub(super) fn fields(config: &ExportConfig) -> impl Iterator<Item = (&str, &str)> {
    let chosen = config.headers.iter().map(|(name, value)| (name.as_str(), value.as_str()));
    let has_agent = config.headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("user-agent"));
    let own = (!has_agent).then_some(("user-agent", USER_AGENT));
    own.into_iter().chain(chosen)
}

/// The server, and the exporter in OpenTelemetry's form.
const USER_AGENT: &str =
    concat!("svc/", env!("CARGO_PKG_VERSION"), " OTel-OTLP-Exporter-Rust/", env!("CARGO_PKG_VERSION"));
