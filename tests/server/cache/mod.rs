//! The response cache.

mod ends;
mod flights;
mod responses;
mod traffic;
