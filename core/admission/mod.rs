//! Admission: which requests may wait for a worker, and why others are refused.
//!
//! The queue is bounded and first in, first out, and every refusal has a reason. This folder sends no responses; it
//! returns verdicts.

mod budget;
mod gate;
mod shedding;

pub use budget::{BudgetController, BudgetSample};
pub use gate::{Gate, GateFacts, OfferOutcome, Offered, ShedReason, Ticket, WaitingLimits};
pub use shedding::{Refusals, SheddingEpisodes, SheddingReport};
