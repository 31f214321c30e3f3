//! What the protocol on a connection tells the connection.

/// What a step leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::serve) enum ConnectionStep {
    /// Another step.
    Again,
    /// The end of the connection, in order.
    Close,
    /// The end of the connection in the middle of a response.
    Cut,
    /// The client speaks HTTP/2.
    Upgrade,
    /// An event, a message or a deadline.
    Wait,
}
