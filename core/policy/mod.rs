//! What a client may do: who it is, and where its request leads.
//!
//! Promises: pure decisions over addresses and paths. Refuses: no socket, no disk, no clock.

pub mod client;
pub mod rate;
pub mod rate_table;
