//! What threads share: counters, histograms, permits, the work queue, completions, the exchange's state word.
//!
//! Promises: each type owns its atomics, says its memory ordering, and has a loom model in `core/tests/loom.rs` or
//! `core/tests/loom_pool.rs` when more than one thread writes it. Refuses: nothing here knows what travels through it.

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
