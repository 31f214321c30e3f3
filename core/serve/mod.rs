//! The server: threads, sockets, and the path of a request through them. Only this folder uses mio.
//!
//! A thread that serves clients waits only in its poller. The file threads wait for disks, the pool for PHP, and the log
//! thread for pipes. This folder contains no rule of HTTP, admission or observation; those folders decide, and this one
//! moves bytes and keeps accounts.
//!
//! A server is two types, one after the other. [`PreparedServer`] has bound its ports, and its operations port answers;
//! [`serve`](PreparedServer::serve) consumes it, starts all other threads and returns a [`Server`], which can be drained.
//!
//! | module | contents |
//! |---|---|
//! | `shared`, `lifecycle`, `reload_book` | the state that all threads share; the phase of the server; the progress of reloads |
//! | `backend` | the executor of requests for scripts: the pool behind its gate |
//! | `admit` | exchanges at the gate |
//! | `disk` | the file threads, their jobs, the site |
//! | `notices` | warnings that do not stop the start |
//! | `io_thread` | the tools of an io thread |
//! | `net` | sockets, TLS, the accepting thread |
//! | `request` | one request, from its head to its record |
//! | `connection` | client connections, and the threads that serve them |
//! | `ops` | the operations port |
//! | `export` | the thread that sends spans to the collector |
//! | `control` | the tick: pool, drain, reload |
//! | `ports` | its ports, bound or inherited |
//! | `server` | the server while it serves: reload, drain, end |
//! | `prepared` | the server before that: ports, pollers, the start of all threads |
//!
//! A module imports only modules above it in the table.

mod admit;
mod backend;
mod connection;
mod control;
mod disk;
mod export;
#[cfg(test)]
mod fixture;
mod io_thread;
mod lifecycle;
mod net;
mod notices;
pub mod ops;
mod ports;
mod prepared;
mod reload_book;
mod request;
mod server;
mod shared;

pub use crate::observe::ReloadReading;
pub use backend::{Backend, PoolBackend};
pub use lifecycle::{Lifecycle, Phase};
pub use notices::notices;
pub use ports::{InheritedSockets, PortError, unavailable_ports};
pub use prepared::{PreparedServer, StartError};
pub use reload_book::ReloadBook;
pub use server::Server;
pub use shared::{ExecutorFacts, Shared};
