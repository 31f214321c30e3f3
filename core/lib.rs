//! The engine of svc: everything between a socket and an interpreter, without either's unsafe code.
//!
//! Promises: the folders are layers, and a folder imports lower layers only; machines are pure (bytes, samples and
//! `now` in, values out) and the shells in `serve` own sockets, clocks and counters.
//!
//! Refuses: it knows no PHP. Whatever runs a request stands behind [`pool::Engine`].
//!
//! | layer | folders |
//! |---|---|
//! | 0 | `limits`, `time`, `sync` |
//! | 1 | `http`, `config`, `spool` |
//! | 2 | `policy`, `admission`, `pool`, `files`, `compress`, `tls` |
//! | 3 | `observe` |
//! | 4 | `serve` |
#![forbid(unsafe_code)]

pub mod limits;
pub mod sync;
pub mod time;

pub mod config;
pub mod http;
pub mod spool;

pub mod admission;
pub mod compress;
pub mod files;
pub mod policy;
pub mod pool;
pub mod tls;

pub mod observe;

pub mod serve;
