//! Client connections and the threads that serve them.
//!
//! | file | noun |
//! |---|---|
//! | `reactor` | an io thread |
//! | `client_connection` | one connection and its socket |
//! | `migration` | the transfer of a connection from one I/O thread to another |

pub(in crate::serve) mod client_connection;
pub(in crate::serve) mod migration;
pub(in crate::serve) mod reactor;
