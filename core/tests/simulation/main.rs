//! State machines under thousands of random histories, on a simulated clock. A failure names its seed, and a seed replays
//! its history.
#![cfg(not(loom))]

mod admission;
mod connection;
mod export;
mod fastcgi;
mod pool;
