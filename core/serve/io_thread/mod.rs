//! What an io thread works with.
//!
//! | file | noun |
//! |---|---|
//! | `io` | its tools, lent to the connection whose turn it is |
//! | `inbox`, `arrival` | its messages, and the first of each connection |
//! | `router` | what answers a path |
//! | `pool_client` | the pool and its gate, as the thread reaches them |
//! | `request_id` | the names of requests |
//! | `indispensable` | why its panic ends the process |

pub(in crate::serve) mod arrival;
pub(in crate::serve) mod inbox;
pub(in crate::serve) mod indispensable;
pub(in crate::serve) mod io;
pub(in crate::serve) mod pool_client;
pub(in crate::serve) mod request_id;
pub(in crate::serve) mod router;
