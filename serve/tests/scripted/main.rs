//! The core without PHP: servers over real sockets, each with a separate pool, and engines that follow a script.
#![cfg(not(loom))]

mod any_job;
mod books;
mod cached;
mod drain;
mod export;
mod hostile_http2;
mod http2;
mod http2_ends;
mod io_threads;
mod leaving;
mod limits;
mod policy;
mod pool;
mod renewal;
mod requests;
mod responses;
mod support;
mod task_pool;
mod tasks;
mod workers;
