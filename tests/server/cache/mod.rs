//! The response cache.

mod flights;
mod responses;
