//! The operator's rules for clients: addresses, rates, denied paths, error pages.

mod clients;
mod deny;
mod error_pages;
