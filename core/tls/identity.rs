//! A certificate chain with its key: the identity of the server.
//!
//! Promises: an existing identity has a chain whose first certificate was parsed and matches the key. Refuses: it does
//! not check who signed the chain, and an expired certificate is an identity like any other.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::sign::CertifiedKey;
use webpki::EndEntityCert;

use super::error::{CERT, KEY, TlsError};
use super::validity::Validity;
use crate::config::CertificateFiles;
use crate::limits::TLS_FILE_BYTES_MAX;
use crate::sync::primitive::Arc;

/// A certificate chain with its key.
#[derive(Clone, Debug)]
pub struct Identity {
    /// The file of the chain.
    pub path: PathBuf,
    /// The names of the first certificate, in lower case; a wildcard begins with `*.`.
    pub names: Vec<String>,
    /// Its validity period; `None` if it cannot be parsed.
    pub validity: Option<Validity>,
    /// The key in the form that the library signs with.
    pub signer: Arc<CertifiedKey>,
}

impl Identity {
    /// Reads the files of `pair`.
    ///
    /// # Errors
    ///
    /// Which of them cannot be used, and why.
    pub fn load(pair: &CertificateFiles, provider: &CryptoProvider) -> Result<Self, TlsError> {
        let chain = chain(&pair.cert)?;
        let Some(first) = chain.first() else {
            return Err(TlsError::NoCertificate { path: pair.cert.clone() });
        };
        let bad = |error: &dyn std::fmt::Display| TlsError::BadCertificate {
            path: pair.cert.clone(),
            why: error.to_string(),
        };
        let parsed = EndEntityCert::try_from(first).map_err(|error| bad(&error))?;
        let names = parsed.valid_dns_names().map(str::to_ascii_lowercase).collect();
        let validity = Validity::of(first);
        let key = provider
            .key_provider
            .load_private_key(key(&pair.key)?)
            .map_err(|error| TlsError::BadKey { path: pair.key.clone(), why: error.to_string() })?;
        let signer = CertifiedKey::new(chain, key);
        match signer.keys_match() {
            Ok(()) | Err(rustls::Error::InconsistentKeys(rustls::InconsistentKeys::Unknown)) => {}
            Err(rustls::Error::InconsistentKeys(_)) => {
                return Err(TlsError::KeyMismatch { cert: pair.cert.clone(), key: pair.key.clone() });
            }
            Err(error) => return Err(bad(&error)),
        }
        Ok(Self { path: pair.cert.clone(), names, validity, signer: Arc::new(signer) })
    }
}

impl Identity {
    /// Whether the certificate is for this name or address.
    pub(super) fn covers(&self, name: &str) -> bool {
        let Ok(name) = ServerName::try_from(name) else { return false };
        let certificate = self.signer.cert.first().and_then(|first| EndEntityCert::try_from(first).ok());
        certificate.is_some_and(|certificate| certificate.verify_is_valid_for_subject_name(&name).is_ok())
    }
}

fn chain(path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let text = read(CERT, path)?;
    let sections: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&text).collect();
    sections.map_err(|error| TlsError::BadCertificate { path: path.to_owned(), why: error.to_string() })
}

/// Returns the first key in the file. Curve parameters before it, as written by `openssl`, are skipped.
fn key(path: &Path) -> Result<PrivateKeyDer<'static>, TlsError> {
    PrivateKeyDer::from_pem_slice(&read(KEY, path)?).map_err(|error| match error {
        pem::Error::NoItemsFound => TlsError::NoKey { path: path.to_owned() },
        error => TlsError::BadKey { path: path.to_owned(), why: error.to_string() },
    })
}

fn read(variable: &'static str, path: &Path) -> Result<Vec<u8>, TlsError> {
    let unreadable = |error| TlsError::Unreadable { variable, path: path.to_owned(), error };
    // Checked by name first, because opening a pipe may block for ever.
    if !std::fs::metadata(path).map_err(unreadable)?.is_file() {
        return Err(unreadable(io::Error::other("not a file")));
    }
    let mut text = Vec::new();
    let mut file = File::open(path).map_err(unreadable)?.take(TLS_FILE_BYTES_MAX + 1);
    file.read_to_end(&mut text).map_err(unreadable)?;
    if text.len() as u64 > TLS_FILE_BYTES_MAX {
        return Err(TlsError::TooLong { variable, path: path.to_owned() });
    }
    Ok(text)
}
