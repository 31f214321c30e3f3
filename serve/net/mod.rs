//! Connections and sockets.
//!
//! | file | noun |
//! |---|---|
//! | `accept` | the accepting thread |
//! | `listener` | a socket on which connections arrive |
//! | `transport`, `tls_stream` | a socket, plain or encrypted, and what the poller has reported about it |

pub(crate) mod accept;
pub(crate) mod listener;
pub(crate) mod tls_stream;
pub(crate) mod transport;
