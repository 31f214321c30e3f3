//! A connection to a collector, without its socket.
//!
//! ```text
//!   Idle ──begin──▶ Sending, receiving ──take_answer──▶ Idle, if is_reusable
//! ```
//!
//! Only the collector produces responses; a connection that ends before one is lost. Keeps no deadline.

use std::time::Duration;

use crate::config::{ExportConfig, ExportProtocol};

use super::answer::CollectorAnswer;
use super::connection_lost::ConnectionLost;
use super::grpc::Grpc;
use super::http1::Http1Conversation;
use super::payload::Payload;

/// A connection to a collector.
#[derive(Debug)]
pub struct Exchange(Inner);

#[derive(Debug)]
enum Inner {
    Grpc(Box<Grpc>),
    Http1(Box<Http1Conversation>),
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
    /// Creates the state of a new connection.
    pub fn new(config: &ExportConfig) -> Self {
        Self(match config.protocol {
            ExportProtocol::Grpc => Inner::Grpc(Box::new(Grpc::new(config))),
            ExportProtocol::HttpJson | ExportProtocol::HttpProtobuf => {
                Inner::Http1(Box::new(Http1Conversation::new(config)))
            }
        })
    }

    /// Begins an export; `time` is its timeout.
    pub fn begin(&mut self, payload: &Payload, time: Option<Duration>) {
        match &mut self.0 {
            Inner::Grpc(grpc) => grpc.begin(payload, time),
            Inner::Http1(http) => http.begin(payload),
        }
    }

    /// Returns the bytes to send; the caller removes those it has sent.
    pub fn output(&mut self) -> &mut Vec<u8> {
        either!(self, connection => connection.output())
    }

    /// Handles received bytes.
    pub fn receive(&mut self, bytes: &[u8]) {
        either!(self, connection => connection.receive(bytes));
    }

    /// Handles the end of the stream.
    pub fn end(&mut self) {
        either!(self, connection => connection.end());
    }

    /// Returns the response, once.
    pub fn take_answer(&mut self) -> Option<Result<CollectorAnswer, ConnectionLost>> {
        either!(self, connection => connection.take_answer())
    }

    /// Returns whether the connection can be used for another export.
    pub fn is_reusable(&mut self) -> bool {
        either!(self, connection => connection.is_reusable())
    }
}
