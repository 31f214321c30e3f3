//! State shared by threads: counters, histograms, permits, the work queue, completions, the state word of exchanges.
//!
//! Each type owns its atomics, documents its memory ordering, and has a loom model in `core/tests/loom/sync.rs` or
//! `core/tests/loom/pool.rs` if several threads write it. The types do not depend on the values that they carry.

pub mod batch_queue;
pub mod completion;
pub mod counter;
pub mod event_count;
pub mod exchange_state;
pub mod helper_threads;
pub mod histogram;
pub mod idle_workers;
pub mod last_time;
pub mod load_sharing;
pub mod lock;
pub mod outbox;
pub mod permit_state;
pub mod permits;
pub mod primitive;
pub mod queue;
pub mod stripe;
