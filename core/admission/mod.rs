//! Admission: who may wait for a worker, and what those hear who may not.
//!
//! Promises: the queue is bounded, first in first out, and a refusal has a reason. Refuses: it does not answer; it
//! returns a verdict.

pub mod budget;
mod gate;
pub mod shedding;

pub use budget::{BudgetController, BudgetSample};
pub use gate::{Gate, GateFacts, Offer, Offered, ShedReason, Ticket, WaitingLimits};
pub use shedding::{Refusals, SheddingEpisodes, SheddingReport};
