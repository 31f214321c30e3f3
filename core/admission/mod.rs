//! Admission: who may wait for a worker, and what those hear who may not.
//!
//! Promises: the queue is bounded, first in first out, and a refusal has a reason. Refuses: it does not answer; it
//! returns a verdict.

mod gate;

pub use gate::{Gate, GateFacts, Offer, ShedReason};
