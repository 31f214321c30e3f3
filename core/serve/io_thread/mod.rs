//! What an io thread works with.
//!
//! | file | noun |
//! |---|---|
//! | `io` | its tools, lent to the connection whose turn it is |
//! | `inbox`, `arrival` | its messages, and the first of each connection |
//! | `request_id` | the names of requests |
//! | `indispensable` | why its panic ends the process |

pub(in crate::serve) mod arrival;
pub(in crate::serve) mod inbox;
pub(in crate::serve) mod indispensable;
pub(in crate::serve) mod io;
pub(in crate::serve) mod request_id;
