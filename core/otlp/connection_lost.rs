//! The loss of a connection.

use std::borrow::Cow;

/// The connection was lost before a response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConnectionLost {
    /// The cause.
    pub reason: Cow<'static, str>,
}

impl ConnectionLost {
    /// Returns the loss of a connection that the collector closed without a response.
    pub fn closed() -> Self {
        Self { reason: "the connection was closed without an answer".into() }
    }
}
