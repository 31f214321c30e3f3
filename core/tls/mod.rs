//! TLS without sockets: certificates, keys, and the configuration of new sessions.
//!
//! A loaded configuration is consistent (a chain, its key, its names); otherwise loading reports the faulty file and
//! the accepted content. A failed reload keeps the previous state. There is no socket and no clock here;
//! [`SessionConfig::open`] and [`SessionConfig::reload`] read files and must not be called on threads that serve
//! requests.
//!
//! | file | noun |
//! |---|---|
//! | `session_config` | the configuration of new sessions, now and after a reload |
//! | `identity` | one certificate chain with its key |
//! | `pem` | certificates and keys in PEM files |
//! | `x509` | the parts of a certificate |
//! | `resolver` | which identity a client receives |
//! | `validity` | the validity period of a certificate |
//! | `error` | errors of certificate and key files |
//! | `client` | outgoing connections of the server |

mod client;
mod error;
mod identity;
mod pem;
mod resolver;
mod session_config;
mod validity;
mod x509;

pub use self::client::client_config;
pub use self::error::TlsError;
pub use self::identity::Identity;
pub use self::pem::PemFault;
pub use self::session_config::SessionConfig;
pub use self::validity::{Validity, ValidityStatus};

/// The protocols for ALPN, in order of preference.
pub const ALPN: &[&[u8]] = &[b"h2", b"http/1.1"];
