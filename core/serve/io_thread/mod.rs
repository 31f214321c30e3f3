//! The tools of an io thread.
//!
//! | file | noun |
//! |---|---|
//! | `io` | the tools, lent to the connection whose turn it is |
//! | `inbox`, `new_connection` | its messages; a connection that was just accepted |
//! | `router` | the handler of a path |
//! | `pool_client` | access to the pool and its gate |
//! | `request_id` | request IDs |
//! | `abort_on_panic` | the guard that aborts the process if a thread panics |

pub(in crate::serve) mod abort_on_panic;
pub(in crate::serve) mod inbox;
pub(in crate::serve) mod io;
pub(in crate::serve) mod new_connection;
pub(in crate::serve) mod pool_client;
pub(in crate::serve) mod request_id;
pub(in crate::serve) mod router;
