//! The server: threads, sockets, and the straight line of a request through them. Only this folder names mio.
//!
//! Promises: nothing that serves clients waits for anything but its poller: disks belong to the file threads, PHP to
//! the pool, pipes to the log thread. Refuses: no rule of HTTP, admission or observation lives here; those folders
//! decide, this one moves bytes and keeps the books.
//!
//! | room | nouns |
//! |---|---|
//! | `shared`, `lifecycle` | what every thread can reach; where the server is in its life |
//! | `admit` | exchanges at the gate |
//! | `disk` | the file threads, their jobs, the site |
//! | `io_thread` | what an io thread works with |
//! | `net` | sockets, TLS, the accepting thread |
//! | `request` | one request, from its head to its place in the books |
//! | `connection` | HTTP/1 and HTTP/2, and the threads that carry them |
//! | `ops` | the operations port |
//! | `control` | the tick: pool, drain, reload |
//! | `server` | all threads, from first to last |
//!
//! A room imports those above it in the table only.

mod admit;
mod connection;
mod control;
mod disk;
#[cfg(test)]
mod fixture;
mod io_thread;
mod lifecycle;
mod net;
pub mod ops;
mod request;
mod server;
mod shared;

pub use lifecycle::{Lifecycle, Phase};
pub use server::{Server, StartError};
pub use shared::Shared;
