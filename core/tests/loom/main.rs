//! Concurrent code under every interleaving that a bounded number of preemptions allows.
//!
//! Run with `make loom`, or one module with `RUSTFLAGS="--cfg loom" cargo test -p svc-core --test loom -- tasks::`.
#![cfg(loom)]

mod exploring;
mod helpers;
mod plugins;
mod pool;
mod sync;
mod tasks;
