//! Connections and sockets.
//!
//! | file | noun |
//! |---|---|
//! | `accept` | the accepting thread |
//! | `listener` | a socket on which connections arrive |
//! | `transport`, `tls_stream` | a socket, plain or encrypted, and what the poller has reported about it |

pub(in crate::serve) mod accept;
pub(in crate::serve) mod listener;
pub(in crate::serve) mod tls_stream;
pub(in crate::serve) mod transport;
