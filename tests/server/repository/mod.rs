//! The laws of the repository: layers, cycles, documentation, generated files.

mod architecture;
mod benchmark;
mod circles;
mod containers;
pub(crate) mod docs;
mod stubs;
