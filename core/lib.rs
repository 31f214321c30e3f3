//! The engine of svc: everything between the sockets and the interpreter, without unsafe code.
//!
//! The folders are layers, and a folder imports lower layers only. State machines are pure: they take bytes, samples
//! and `now`, and return values. The shells in the crate `svc-serve` own the sockets, clocks and counters. The core does
//! not depend on PHP: an engine that runs requests implements [`pool::Engine`].
//!
//! | layer | folders |
//! |---|---|
//! | 0 | `allocation`, `limits`, `time` |
//! | 1 | `descriptor`, `sync` |
//! | 2 | `config`, `fastcgi`, `http`, `spool` |
//! | 3 | `trace` |
//! | 4 | `admission`, `compress`, `files`, `plugins`, `policy`, `pool`, `tls` |
//! | 5 | `admit`, `cache`, `dev`, `otlp` |
//! | 6 | `connection`, `observe`, `tasks` |
#![forbid(unsafe_code)]
#![deny(clippy::expect_used, clippy::unwrap_used)]

pub mod allocation;
pub mod limits;
pub mod time;

pub mod descriptor;
pub mod sync;

pub mod config;
pub mod fastcgi;
pub mod http;
pub mod spool;

pub mod trace;

pub mod admission;
pub mod compress;
pub mod files;
pub mod plugins;
pub mod policy;
pub mod pool;
pub mod tls;

mod admit;
pub mod cache;
pub mod dev;

pub mod connection;
pub mod observe;
pub mod otlp;
pub mod tasks;
