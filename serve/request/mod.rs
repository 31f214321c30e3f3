//! One request, from its head to its record, over any protocol.
//!
//! | file | noun |
//! |---|---|
//! | `meta` | the state of a request |
//! | `start`, `dispatch`, `respond`, `accounting` | its steps: client, handler, the head of the response, its record |
//! | `named_file` | files that scripts name in their responses |
//! | `development`, `change_wait` | responses of a server for development |
//! | `cached`, `cache_use`, `cache_status` | the response cache, in front of the gate |
//! | `server_span` | its record as a span |
//! | `outcome` | how it ends |
//! | `client_context` | the client |
//! | `server_response` | responses that the server generates |

pub(crate) mod accounting;
mod cache_status;
mod cache_use;
pub(crate) mod cached;
mod change_wait;
pub(crate) mod client_context;
mod development;
pub(crate) mod dispatch;
pub(crate) mod meta;
pub(crate) mod named_file;
pub(crate) mod outcome;
pub(crate) mod respond;
pub(crate) mod server_response;
mod server_span;
pub(crate) mod start;
