//! A certificate chain with its key: the identity of the server.
//!
//! An existing identity has a chain whose first certificate was parsed and matches the key. The issuer of the chain is
//! not verified, and an expired certificate is an identity like any other.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use rustls::crypto::CryptoProvider;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::sign::CertifiedKey;
use webpki::EndEntityCert;

use super::error::{CERT, KEY, TlsError};
use super::pem;
use super::validity::Validity;
use super::x509::CertificateParts;
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
    /// If one of them cannot be used: names the file and the reason.
    pub fn load(pair: &CertificateFiles, provider: &CryptoProvider) -> Result<Self, TlsError> {
        let chain = chain(&pair.cert)?;
        let bad = |error: &dyn std::fmt::Display| TlsError::BadCertificate {
            path: pair.cert.clone(),
            why: error.to_string(),
        };
        let first = chain.first().ok_or_else(|| bad(&"there is none"))?;
        let names = match EndEntityCert::try_from(first) {
            Ok(parsed) => parsed.valid_dns_names().map(str::to_ascii_lowercase).collect(),
            // Certificates of version 1 have no subject alternative names.
            Err(webpki::Error::UnsupportedCertVersion) => Vec::new(),
            Err(error) => return Err(bad(&error)),
        };
        let parts = CertificateParts::of(first).ok_or_else(|| bad(&"it is not an X.509 certificate"))?;
        let validity = Validity::of(first);
        let key = provider
            .key_provider
            .load_private_key(key(&pair.key)?)
            .map_err(|error| TlsError::BadKey { path: pair.key.clone(), why: error.to_string() })?;
        if key.public_key().is_some_and(|own| own.as_ref() != parts.public_key) {
            return Err(TlsError::KeyMismatch { cert: pair.cert.clone(), key: pair.key.clone() });
        }
        let signer = Arc::new(CertifiedKey::new(chain, key));
        Ok(Self { path: pair.cert.clone(), names, validity, signer })
    }
}

impl Identity {
    /// Returns whether the certificate is for this name or address.
    pub(super) fn covers(&self, name: &str) -> bool {
        let Ok(name) = ServerName::try_from(name) else { return false };
        let certificate = self.signer.cert.first().and_then(|first| EndEntityCert::try_from(first).ok());
        certificate.is_some_and(|certificate| certificate.verify_is_valid_for_subject_name(&name).is_ok())
    }
}

fn chain(path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    pem::certificates(&read(CERT, path)?)
        .map_err(|fault| TlsError::NoCertificate { path: path.to_owned(), fault })
}

fn key(path: &Path) -> Result<PrivateKeyDer<'static>, TlsError> {
    pem::private_key(&read(KEY, path)?).map_err(|fault| TlsError::NoKey { path: path.to_owned(), fault })
}

fn read(variable: &'static str, path: &Path) -> Result<Vec<u8>, TlsError> {
    let unreadable = |error| TlsError::Unreadable { variable, path: path.to_owned(), error };
    // Checked by name first, because opening a pipe may block indefinitely.
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
