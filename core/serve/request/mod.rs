//! One request, from its head to its record, over any protocol.
//!
//! | file | noun |
//! |---|---|
//! | `meta` | the state of a request |
//! | `start`, `dispatch`, `respond`, `books` | its steps: client, handler, the head of the response, its record |
//! | `named_file` | files that scripts name in their responses |
//! | `cached`, `cache_use`, `cache_status` | the response cache, in front of the gate |
//! | `server_span` | its record as a span |
//! | `ending` | how it ends |
//! | `client_context`, `endpoints` | the client; the two ends of the connection |
//! | `answer` | responses that the server generates |

pub(in crate::serve) mod answer;
pub(in crate::serve) mod books;
mod cache_status;
mod cache_use;
pub(in crate::serve) mod cached;
pub(in crate::serve) mod client_context;
pub(in crate::serve) mod dispatch;
pub(in crate::serve) mod ending;
pub(in crate::serve) mod endpoints;
pub(in crate::serve) mod meta;
pub(in crate::serve) mod named_file;
pub(in crate::serve) mod respond;
mod server_span;
pub(in crate::serve) mod start;
