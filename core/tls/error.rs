//! Errors of certificate and key files.
//!
//! An error is one line that names the setting, the file and the accepted content. The contents of keys are never
//! shown.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use super::pem::PemFault;
use crate::limits::TLS_FILE_BYTES_MAX;

/// Why the files in `TLS_CERT` and `TLS_KEY` cannot be used.
#[derive(Debug)]
pub enum TlsError {
    /// A certificate cannot be used.
    BadCertificate {
        /// The file.
        path: PathBuf,
        /// The reason.
        why: String,
    },
    /// A key cannot be used.
    BadKey {
        /// The file.
        path: PathBuf,
        /// The reason.
        why: String,
    },
    /// The key belongs to another certificate.
    KeyMismatch {
        /// The certificate's file.
        cert: PathBuf,
        /// The key's file.
        key: PathBuf,
    },
    /// The file contains no certificate, or one that cannot be read.
    NoCertificate {
        /// The file.
        path: PathBuf,
        /// The fault of the file.
        fault: PemFault,
    },
    /// The file contains no key, or one that cannot be read.
    NoKey {
        /// The file.
        path: PathBuf,
        /// The fault of the file.
        fault: PemFault,
    },
    /// The system provides no randomness, or the library failed for another reason.
    Library(rustls::Error),
    /// The file exceeds the size limit.
    TooLong {
        /// The setting that names it.
        variable: &'static str,
        /// The file.
        path: PathBuf,
    },
    /// The file cannot be read.
    Unreadable {
        /// The setting that names it.
        variable: &'static str,
        /// The file.
        path: PathBuf,
        /// The error reported by the system.
        error: io::Error,
    },
}

/// The setting that names certificates.
pub(super) const CERT: &str = "TLS_CERT";

/// The setting that names keys.
pub(super) const KEY: &str = "TLS_KEY";

impl fmt::Display for TlsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut line = |variable: &str, path: &Path, fault: fmt::Arguments<'_>, accepted: &str| {
            write!(f, "{variable}: {:?} {fault}; accepted: {accepted}", path.display().to_string())
        };
        match self {
            Self::BadCertificate { path, why } => {
                line(CERT, path, format_args!("contains an unusable certificate ({why})"), CHAIN)
            }
            Self::BadKey { path, why } => {
                line(KEY, path, format_args!("contains an unusable private key ({why})"), PRIVATE_KEY)
            }
            Self::KeyMismatch { cert, key } => {
                let cert = cert.display().to_string();
                let accepted = "the private key of that certificate";
                line(KEY, key, format_args!("does not match the certificate in {cert:?}"), accepted)
            }
            Self::NoCertificate { path, fault } => {
                line(CERT, path, format_args!("{}", fault.of("certificate")), CHAIN)
            }
            Self::NoKey { path, fault } => {
                line(KEY, path, format_args!("{}", fault.of("private key")), PRIVATE_KEY)
            }
            Self::Library(error) => write!(f, "cannot set up TLS: {error}"),
            Self::TooLong { variable, path } => line(
                variable,
                path,
                format_args!("is larger than {TLS_FILE_BYTES_MAX} bytes"),
                accepted_by(variable),
            ),
            Self::Unreadable { variable, path, error } => {
                line(variable, path, format_args!("cannot be read ({error})"), accepted_by(variable))
            }
        }
    }
}

impl std::error::Error for TlsError {}

/// The expected contents of a certificate file.
const CHAIN: &str = "a PEM file with the server certificate, followed by its chain";

/// The expected contents of a key file.
pub(super) const PRIVATE_KEY: &str = "a PEM file with an unencrypted private key (PKCS#8, PKCS#1 or SEC1): RSA of 2048 to \
                                      8192 bits, ECDSA on P-256, P-384 or P-521, or Ed25519";

fn accepted_by(variable: &str) -> &'static str {
    if variable == CERT { CHAIN } else { PRIVATE_KEY }
}
