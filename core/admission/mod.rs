//! Admission: which requests may wait for a worker, and why others are refused.
//!
//! The queue is bounded and first in, first out, and every refusal has a reason. This folder sends no responses; it
//! returns verdicts.
//!
//! A *permit* is the right to one place, in the queue or among the connections. The *waiting set* holds the requests in
//! front of a full queue, in order, bounded in number and in bytes of bodies.

mod budget;
mod gate;
mod shedding;

pub use budget::{BudgetController, BudgetSample};
pub use gate::{Gate, GateFacts, OfferOutcome, Offered, ShedReason, Ticket, WaitingLimits};
pub use shedding::{Refusals, SheddingEpisodes, SheddingReport};
