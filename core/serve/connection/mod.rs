//! Client connections and the threads that carry them.
//!
//! | file | noun |
//! |---|---|
//! | `reactor` | an io thread |
//! | `client_connection`, `step` | one connection, and what its protocol tells it |
//! | `http1`, `http2` | the protocols |
//! | `http2_stream`, `ready`, `duplex` | what HTTP/2 needs: one stream, who has something to do, bytes in memory |

pub(in crate::serve) mod client_connection;
pub(in crate::serve) mod duplex;
pub(in crate::serve) mod http1;
pub(in crate::serve) mod http2;
pub(in crate::serve) mod http2_stream;
pub(in crate::serve) mod reactor;
pub(in crate::serve) mod ready;
pub(in crate::serve) mod step;
