//! TLS without sockets: certificates, keys, and what new sessions begin with.
//!
//! Promises: what is loaded fits together (a chain, its key, the names it is for), or loading says which file is wrong
//! and what is right; a reload that fails leaves what was there. Refuses: it owns no socket and reads no clock of its
//! own; [`Terms::open`] and [`Terms::reload`] read files and belong to no thread that serves.
//!
//! | file | noun |
//! |---|---|
//! | [`terms`] | what new sessions begin with, now and after a reload |
//! | [`identity`] | one certificate chain with its key |
//! | [`selection`] | which identity a client is shown |
//! | [`validity`] | from when until when a certificate is valid |
//! | [`error`] | why the files are no good |

pub mod error;
pub mod identity;
pub mod selection;
pub mod terms;
pub mod validity;

pub use self::error::TlsError;
pub use self::identity::Identity;
pub use self::terms::Terms;
pub use self::validity::Validity;

/// The protocols that clients may choose from above TLS, the preferred one first.
pub const ALPN: &[&[u8]] = &[b"h2", b"http/1.1"];
