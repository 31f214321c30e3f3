//! A certificate authority for tests, and servers that require its certificates.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};
use tempfile::TempDir;

/// An authority, and a certificate that it issued for the loopback address.
pub struct Authority {
    dir: TempDir,
    roots: RootCertStore,
}

impl Authority {
    pub fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let ca = params.self_signed(&key).unwrap();
        let issuer = Issuer::from_params(&params, &key);
        let own_key = KeyPair::generate().unwrap();
        let names = vec!["127.0.0.1".to_owned()];
        let own = CertificateParams::new(names).unwrap().signed_by(&own_key, &issuer).unwrap();
        let mut roots = RootCertStore::empty();
        roots.add(ca.der().clone()).unwrap();
        let authority = Self { dir, roots };
        for (name, text) in
            [("ca.pem", ca.pem()), ("own.pem", own.pem()), ("own.key", own_key.serialize_pem())]
        {
            std::fs::write(authority.path(name), text).unwrap();
        }
        authority
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Returns the files of its certificate, and of the issued certificate with its key.
    pub fn files(&self) -> [String; 3] {
        ["ca.pem", "own.pem", "own.key"].map(|name| self.path(name).to_str().unwrap().to_owned())
    }

    /// Returns the configuration of a server that requires a certificate of this authority.
    pub fn terms(&self) -> Arc<ServerConfig> {
        let provider = Arc::new(aws_lc_rs::default_provider());
        let verifier =
            WebPkiClientVerifier::builder_with_provider(Arc::new(self.roots.clone()), Arc::clone(&provider));
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_client_cert_verifier(verifier.build().unwrap())
            .with_single_cert(chain(&self.path("own.pem")), secret(&self.path("own.key")))
            .unwrap();
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Arc::new(config)
    }
}

fn chain(path: &Path) -> Vec<CertificateDer<'static>> {
    CertificateDer::pem_file_iter(path).unwrap().map(Result::unwrap).collect()
}

fn secret(path: &Path) -> PrivateKeyDer<'static> {
    PrivateKeyDer::from_pem_file(path).unwrap()
}
