//! Client policy: the identity of clients, their rate limits, and blocked paths.
//!
//! Decisions are pure functions of addresses, paths and time. The files that some of them use are read at startup and
//! on reload. There is no socket and no clock, and no request accesses the disk.
//!
//! | file | decides |
//! |---|---|
//! | [`client`] | the client of a request behind trusted proxies; which peers may read restricted pages |
//! | [`rate`], [`rate_table`] | whether a client exceeds its rate limit |
//! | [`deny`] | whether a path is blocked, or PHP at that path |
//! | [`never_public`] | whether a file is one that must never be public |
//! | [`error_pages`] | which page replaces the body of an error |
//! | [`header_rules`] | which fields the operator adds to a response |
//! | `rules_file` | whether a file of rules can be read |
//! | `load` | whether all of this can be loaded |

pub mod client;
pub mod deny;
pub mod error_pages;
pub mod header_rules;
mod load;
pub mod never_public;
pub mod rate;
pub mod rate_table;
mod rules_file;

pub use self::load::{Policy, PolicyError, Rules};
pub use self::rules_file::{InvalidLines, RulesFileError};
