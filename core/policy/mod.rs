//! What a client may do: who it is, how much of it, and what is not to be had.
//!
//! Promises: pure decisions over addresses, paths and time; the files that some of them follow are read when the server
//! starts, and again when somebody asks for that. Refuses: no socket, no clock, and no disk for a request.
//!
//! | file | decides |
//! |---|---|
//! | [`client`] | who a request is from, behind trusted proxies; who may read what is the operator's |
//! | [`rate`], [`rate_table`] | whether a client asks too often |
//! | [`deny`] | whether a path is denied, or PHP at it |
//! | [`never_public`] | whether a file that was found is for nobody |
//! | [`error_pages`] | what stands in the place of an error |
//! | [`load`] | whether all of it can be applied |

pub mod client;
pub mod deny;
pub mod error_pages;
pub mod load;
pub mod never_public;
pub mod rate;
pub mod rate_table;

pub use self::load::{Policy, PolicyError, Rules};
