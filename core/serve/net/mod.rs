//! The way to clients: connections in, bytes out.
//!
//! | file | noun |
//! |---|---|
//! | `accept` | the accepting thread |
//! | `transport`, `tls_stream` | a socket, in the clear or encrypted |
//! | `wire` | a transport and what its poller has told |
//! | `output` | the bytes that wait |

pub(in crate::serve) mod accept;
pub(in crate::serve) mod output;
pub(in crate::serve) mod tls_stream;
pub(in crate::serve) mod transport;
pub(in crate::serve) mod wire;
