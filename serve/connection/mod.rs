//! Client connections and the threads that serve them.
//!
//! | file | noun |
//! |---|---|
//! | `reactor` | an I/O thread |
//! | `client_connection` | one connection and its socket |
//! | `migration` | the transfer of a connection from one I/O thread to another |

pub(crate) mod client_connection;
pub(crate) mod migration;
pub(crate) mod reactor;
