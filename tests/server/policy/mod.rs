//! What the operator allows clients: addresses, rates, denied paths, error pages.

mod clients;
mod deny;
mod error_pages;
