//! How a connection is lost.

use std::borrow::Cow;

/// The connection was lost before there was an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lost {
    /// How.
    pub reason: Cow<'static, str>,
}

impl Lost {
    /// The collector has closed the connection without an answer.
    pub fn closed() -> Self {
        Self { reason: "the connection was closed without an answer".into() }
    }
}
