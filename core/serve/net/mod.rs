//! The way to clients: connections in, bytes out.
//!
//! | file | noun |
//! |---|---|
//! | `accept` | the accepting thread |
//! | `transport`, `tls_stream` | a socket, in the clear or encrypted |
//! | `wire` | a transport and what its poller has told |
//! | `flush` | writing the bytes that wait |

pub(in crate::serve) mod accept;
pub(in crate::serve) mod flush;
pub(in crate::serve) mod tls_stream;
pub(in crate::serve) mod transport;
pub(in crate::serve) mod wire;
