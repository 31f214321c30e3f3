//! The server: threads, sockets, and the path of a request through them. Only this crate uses mio.
//!
//! A thread that serves clients waits only in its poller. The file threads wait for disks, the pool for PHP, and the log
//! thread for pipes. This crate contains no rule of HTTP, admission or observation: `svc_core` decides, and this crate
//! moves bytes and updates counters.
//!
//! A server is two types, one after the other. [`PreparedServer`] has bound its ports, and its operations port answers;
//! [`serve`](PreparedServer::serve) consumes it, starts all other threads and returns a [`Server`], which can be drained.
//!
//! | module | contents |
//! |---|---|
//! | `backend` | the executor of requests for scripts: the pool behind its gate |
//! | `shared`, `lifecycle`, `reload_book` | the state that all threads share; the phase of the server; the progress of reloads |
//! | `disk` | the file threads, their jobs, the site |
//! | `notices` | warnings that do not stop the start |
//! | `io_thread` | the tools of an I/O thread |
//! | `net` | sockets, TLS, the accepting thread |
//! | `request` | one request, from its head to its record |
//! | `connection` | client connections, and the threads that serve them |
//! | `ops` | the operations port |
//! | `export` | the threads that send spans, metrics and log records to the collector |
//! | `control` | the tick: pool, drain, reload |
//! | `ports` | its ports, bound or inherited |
//! | `server` | the server while it serves: reload, drain, end |
//! | `prepared` | the server before that: ports, pollers, the start of all threads |
//!
//! A module imports only modules above it in the table.
//!
//! # The path of a request
//!
//! 1. `svc-accept` accepts a connection, takes a connection permit (and parks without one), and passes the socket to an I/O
//!    thread.
//! 2. The I/O thread reads, and the connection (`svc_core::connection`) parses a request header or rejects it (400, 414, 431, 501,
//!    505).
//! 3. `policy` determines the client, its rate limit and whether the path is blocked (429, 404). `files` resolves the path to
//!    a file, a script, a redirect or nothing. The deny rules are then applied to the file found.
//! 4. A cached file is sent immediately. Any other file is opened, checked and read on `svc-file-N`, and then cached.
//! 5. For a script, the request body is read completely, into memory or a temporary file. A slow sender occupies a buffer,
//!    not a worker.
//! 6. If there is a response cache, it may answer the request here, or let it wait for the response to another one.
//!    Otherwise, `gate.offer` queues the request, lets it wait, or sheds it with 529. Its deadline is the time of the offer
//!    plus the budget at that time. The I/O thread enforces it, and a worker checks it again when it claims the exchange.
//! 7. A worker claims the exchange and runs the script; a persistent worker gives it a fiber. The response, compressed if the
//!    client accepts that, passes through the mailbox in parts. A slow reader uses memory up to its own limit and the limit
//!    for all responses, then a temporary file.
//! 8. The connection frames the parts and the I/O thread writes them. If the client disconnects, the I/O thread withdraws
//!    the exchange.
//! 9. Status, bytes, duration, outcome and the access record are accounted in one place
//!    (`request/outcome.rs` has the rules). The connection waits for its next request.
#![forbid(unsafe_code)]
#![deny(clippy::expect_used, clippy::unwrap_used)]

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

pub use backend::{Backend, PoolBackend};
pub use lifecycle::{Lifecycle, Phase};
pub use notices::notices;
pub use ports::{InheritedSockets, PortError, unavailable_ports};
pub use prepared::{PreparedServer, StartError};
pub use reload_book::ReloadBook;
pub use server::Server;
pub use shared::{ExecutorFacts, Shared};
pub use svc_core::observe::ReloadReading;
