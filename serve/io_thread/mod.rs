//! The tools of an I/O thread.
//!
//! | file | noun |
//! |---|---|
//! | `io` | the tools, lent to the connection whose turn it is |
//! | `inbox`, `new_connection` | its messages; a connection that was just accepted |
//! | `router` | the handler of a path |
//! | `pool_client` | access to the pool and its gate |
//! | `request_id` | request IDs |
//! | `abort_on_panic` | the guard that aborts the process if a thread panics |

pub(crate) mod abort_on_panic;
pub(crate) mod inbox;
pub(crate) mod io;
pub(crate) mod new_connection;
pub(crate) mod pool_client;
pub(crate) mod request_id;
pub(crate) mod router;
