//! Plugins in C and Rust.

mod abi;
mod answers;
mod examples;
mod hostile;
mod load;
mod ops;
mod panics;
mod signals;
