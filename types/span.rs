//! The kind and the status of spans.

use std::borrow::Cow;

/// The kind of a span.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpanKind {
    /// Work inside a process.
    Internal,
    /// Handling of an incoming request.
    Server,
    /// An outgoing request.
    Client,
    /// Sending of a message.
    Producer,
    /// Handling of a received message.
    Consumer,
}

/// The status of a span.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum SpanStatus<T = Cow<'static, str>> {
    /// No status was set.
    #[default]
    Unset,
    /// The application set OK.
    Ok,
    /// It failed; the text is the reason, and may be empty.
    Error(T),
}

impl<T> SpanStatus<T> {
    /// Converts the text.
    pub fn map<U>(self, convert: impl FnOnce(T) -> U) -> SpanStatus<U> {
        match self {
            Self::Unset => SpanStatus::Unset,
            Self::Ok => SpanStatus::Ok,
            Self::Error(text) => SpanStatus::Error(convert(text)),
        }
    }
}
