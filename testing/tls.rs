//! Certificates for tests, clients that trust them, and OpenSSL's client as a second opinion.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;

use rcgen::{CertificateParams, KeyPair};
use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, NamedGroup, RootCertStore, SupportedProtocolVersion, version};
use tempfile::TempDir;

use crate::client::Client;

/// A folder of certificates.
#[derive(Debug)]
pub struct Certificates {
    dir: TempDir,
    roots: RootCertStore,
}

impl Certificates {
    /// Creates one certificate for each list of names; the files are `0.pem`, `0.key` and so on.
    pub fn new(names: &[&[&str]]) -> Self {
        let mut certificates = Self { dir: tempfile::tempdir().unwrap(), roots: RootCertStore::empty() };
        for (index, names) in names.iter().enumerate() {
            certificates.renew(index, names);
        }
        certificates
    }

    /// Replaces certificate number `index` and its key; clients trust both.
    pub fn renew(&mut self, index: usize, names: &[&str]) -> CertificateDer<'static> {
        self.write(index, names, (1975, 4096))
    }

    /// Writes a certificate that expires after this time.
    pub fn write_until(&mut self, index: usize, names: &[&str], left: std::time::Duration) {
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
        let epoch = rcgen::date_time_ymd(1970, 1, 1);
        self.write_with(index, names, |params| {
            (params.not_before, params.not_after) = (epoch, epoch + now + left);
        });
    }

    /// Writes a certificate that is valid for these years.
    pub fn write(
        &mut self,
        index: usize,
        names: &[&str],
        (from, until): (i32, i32),
    ) -> CertificateDer<'static> {
        self.write_with(index, names, |params| {
            params.not_before = rcgen::date_time_ymd(from, 1, 1);
            params.not_after = rcgen::date_time_ymd(until, 1, 1);
        })
    }

    fn write_with(
        &mut self,
        index: usize,
        names: &[&str],
        validity: impl FnOnce(&mut CertificateParams),
    ) -> CertificateDer<'static> {
        let key = KeyPair::generate().unwrap();
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let mut params = CertificateParams::new(names).unwrap();
        validity(&mut params);
        let certificate = params.self_signed(&key).unwrap();
        std::fs::write(self.cert(index), certificate.pem()).unwrap();
        std::fs::write(self.key(index), key.serialize_pem()).unwrap();
        self.roots.add(certificate.der().clone()).unwrap();
        certificate.der().clone()
    }

    /// Returns the path of a certificate.
    pub fn cert(&self, index: usize) -> PathBuf {
        self.dir.path().join(format!("{index}.pem"))
    }

    /// Returns the path of a certificate's key.
    pub fn key(&self, index: usize) -> PathBuf {
        self.dir.path().join(format!("{index}.key"))
    }

    /// Returns the folder.
    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// Returns the values of `TLS_CERT` and `TLS_KEY` for the first `count` certificates.
    pub fn settings(&self, count: usize) -> [(&'static str, String); 2] {
        let list = |path: &dyn Fn(usize) -> PathBuf| {
            (0..count).map(|index| path(index).display().to_string()).collect::<Vec<_>>().join(",")
        };
        [("TLS_CERT", list(&|index| self.cert(index))), ("TLS_KEY", list(&|index| self.key(index)))]
    }

    /// Returns a client configuration that trusts the certificates.
    pub fn trust(&self, alpn: &[&str], versions: &[&'static SupportedProtocolVersion]) -> Arc<ClientConfig> {
        let mut config = self.config(aws_lc_rs::default_provider(), versions);
        config.alpn_protocols = alpn.iter().map(|name| name.as_bytes().to_vec()).collect();
        Arc::new(config)
    }

    fn config(
        &self,
        provider: CryptoProvider,
        versions: &[&'static SupportedProtocolVersion],
    ) -> ClientConfig {
        ClientConfig::builder_with_provider(Arc::new(provider))
            .with_protocol_versions(versions)
            .unwrap()
            .with_root_certificates(self.roots.clone())
            .with_no_client_auth()
    }

    /// Returns a session that requests `name` and offers these key exchange groups.
    pub fn session_with(&self, groups: &[NamedGroup], name: &str) -> ClientConnection {
        let mut provider = aws_lc_rs::default_provider();
        provider.kx_groups.retain(|group| groups.contains(&group.name()));
        provider.kx_groups.sort_by_key(|group| groups.iter().position(|name| *name == group.name()));
        session(&Arc::new(self.config(provider, &[&version::TLS13])), name)
    }

    /// Returns a client that requests `name`.
    pub fn client(&self, addr: SocketAddr, name: &str) -> Client {
        Client::connect_tls(addr, session(&self.trust(&[], &[&version::TLS13]), name))
    }
}

/// Returns a session that requests `name`.
pub fn session(config: &Arc<ClientConfig>, name: &str) -> ClientConnection {
    ClientConnection::new(Arc::clone(config), ServerName::try_from(name.to_owned()).unwrap()).unwrap()
}

/// Connects to `addr` with `openssl s_client` and returns its output. The session ends after the handshake.
pub fn s_client(addr: SocketAddr, words: &[&str]) -> String {
    let output = Command::new("openssl")
        .args(["s_client", "-connect", &addr.to_string()])
        .args(words)
        .stdin(Stdio::null())
        .output()
        .expect("openssl is there");
    String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned()
}
