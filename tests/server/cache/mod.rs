//! The response cache.

mod case;
mod ends;
mod flights;
mod responses;
mod traffic;
