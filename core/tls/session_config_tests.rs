//! Loads files from disk and runs sessions in memory.

use std::path::Path;

use rcgen::{CertificateParams, KeyPair};
use rustls::client::{Resumption, Tls12Resumption};
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, HandshakeKind, ProtocolVersion, RootCertStore};
use tempfile::TempDir;

use super::*;

/// Writes `NAME.pem` and `NAME.key` for a certificate with these `names`; returns the certificate.
fn write_pair(dir: &Path, file: &str, names: &[&str]) -> CertificateDer<'static> {
    let key = KeyPair::generate().unwrap();
    let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
    let certificate = CertificateParams::new(names).unwrap().self_signed(&key).unwrap();
    std::fs::write(dir.join(format!("{file}.pem")), certificate.pem()).unwrap();
    std::fs::write(dir.join(format!("{file}.key")), key.serialize_pem()).unwrap();
    certificate.der().clone()
}

fn settings(certificates: Vec<CertificateFiles>, min_version: TlsVersion) -> TlsConfig {
    TlsConfig { certificates, min_version, hsts: None }
}

fn terms(dir: &Path, files: &[&str], min: TlsVersion) -> SessionConfig {
    let pair = |file: &&str| CertificateFiles {
        cert: dir.join(format!("{file}.pem")),
        key: dir.join(format!("{file}.key")),
    };
    SessionConfig::open(&settings(files.iter().map(pair).collect(), min)).unwrap().unwrap()
}

fn refusal(dir: &Path, cert: &str, key: &str) -> String {
    let pair = CertificateFiles { cert: dir.join(cert), key: dir.join(key) };
    let error =
        SessionConfig::open(&settings(vec![pair], TlsVersion::Tls12)).expect_err("these files are no good");
    error.to_string().replace(dir.to_str().unwrap(), "DIR")
}

fn client(roots: &[CertificateDer<'static>], versions: &[&'static SupportedProtocolVersion]) -> ClientConfig {
    let mut store = RootCertStore::empty();
    for root in roots {
        store.add(root.clone()).unwrap();
    }
    let builder = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()));
    let mut config =
        builder.with_protocol_versions(versions).unwrap().with_root_certificates(store).with_no_client_auth();
    config.alpn_protocols = vec![b"unheard/0".to_vec(), b"http/1.1".to_vec()];
    config
}

/// Runs the handshake until neither end has data to send; returns the client's end.
fn shake_hands(
    terms: &SessionConfig,
    config: &Arc<ClientConfig>,
    name: &str,
) -> Result<ClientConnection, rustls::Error> {
    let name = ServerName::try_from(name.to_owned()).unwrap();
    let (mut client, mut server) =
        (ClientConnection::new(Arc::clone(config), name)?, terms.session().unwrap());
    let mut wire = Vec::new();
    while client.wants_write() || server.wants_write() {
        while client.wants_write() {
            client.write_tls(&mut wire).unwrap();
        }
        server.read_tls(&mut wire.as_slice()).unwrap();
        wire.clear();
        let verdict = server.process_new_packets();
        while server.wants_write() {
            server.write_tls(&mut wire).unwrap();
        }
        let mut rest = wire.as_slice();
        while !rest.is_empty() {
            client.read_tls(&mut rest).unwrap();
            client.process_new_packets()?;
        }
        wire.clear();
        verdict?;
    }
    Ok(client)
}

#[test]
fn a_session_begins_with_the_contents_of_the_files() {
    let dir = TempDir::new().unwrap();
    let roots = [write_pair(dir.path(), "a", &["a.example"]), write_pair(dir.path(), "b", &["*.b.example"])];
    let terms = terms(dir.path(), &["a", "b"], TlsVersion::Tls12);
    for (versions, version) in
        [(rustls::ALL_VERSIONS, ProtocolVersion::TLSv1_3), (&[&version::TLS12][..], ProtocolVersion::TLSv1_2)]
    {
        let config = Arc::new(client(&roots, versions));
        for (name, root) in [("a.example", &roots[0]), ("www.b.example", &roots[1])] {
            let client = shake_hands(&terms, &config, name).unwrap();
            assert_eq!(client.protocol_version(), Some(version));
            assert_eq!(client.alpn_protocol(), Some(&b"http/1.1"[..]));
            assert_eq!(client.peer_certificates().unwrap(), std::slice::from_ref(root));
        }
        assert!(shake_hands(&terms, &config, "c.example").is_err(), "no certificate is for that name");
    }
}

#[test]
fn a_version_below_the_lowest_is_refused() {
    let dir = TempDir::new().unwrap();
    let root = write_pair(dir.path(), "a", &["a.example"]);
    let terms = terms(dir.path(), &["a"], TlsVersion::Tls13);
    let old = Arc::new(client(std::slice::from_ref(&root), &[&version::TLS12]));
    assert!(shake_hands(&terms, &old, "a.example").is_err());
    let new = Arc::new(client(&[root], &[&version::TLS13]));
    assert!(shake_hands(&terms, &new, "a.example").is_ok());
}

#[test]
fn clients_resume_with_tickets_and_without() {
    let dir = TempDir::new().unwrap();
    let root = write_pair(dir.path(), "a", &["a.example"]);
    let terms = terms(dir.path(), &["a"], TlsVersion::Tls12);
    for (versions, has_tickets) in
        [(&[&version::TLS13][..], true), (&[&version::TLS12], true), (&[&version::TLS12], false)]
    {
        let mut config = client(std::slice::from_ref(&root), versions);
        if !has_tickets {
            config.resumption =
                Resumption::in_memory_sessions(8).tls12_resumption(Tls12Resumption::SessionIdOnly);
        }
        let config = Arc::new(config);
        let kinds = [(); 2].map(|()| shake_hands(&terms, &config, "a.example").unwrap().handshake_kind());
        assert_eq!(kinds, [Some(HandshakeKind::Full), Some(HandshakeKind::Resumed)]);
    }
}

#[test]
fn a_reload_affects_new_sessions_and_lets_old_clients_resume() {
    let dir = TempDir::new().unwrap();
    let before = write_pair(dir.path(), "a", &["a.example"]);
    let terms = terms(dir.path(), &["a"], TlsVersion::Tls12);
    let old = Arc::new(client(std::slice::from_ref(&before), rustls::ALL_VERSIONS));
    assert!(shake_hands(&terms, &old, "a.example").is_ok());
    let after = write_pair(dir.path(), "a", &["a.example"]);
    terms.reload().unwrap();
    let new = Arc::new(client(std::slice::from_ref(&after), rustls::ALL_VERSIONS));
    assert_eq!(shake_hands(&terms, &new, "a.example").unwrap().peer_certificates().unwrap(), &[after]);
    let resumed = shake_hands(&terms, &old, "a.example").unwrap();
    assert_eq!(resumed.handshake_kind(), Some(HandshakeKind::Resumed));
}

#[test]
fn a_reload_that_fails_changes_nothing() {
    let dir = TempDir::new().unwrap();
    let root = write_pair(dir.path(), "a", &["a.example"]);
    let terms = terms(dir.path(), &["a"], TlsVersion::Tls12);
    for broken in ["", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"] {
        std::fs::write(dir.path().join("a.pem"), broken).unwrap();
        assert!(terms.reload().is_err());
    }
    let config = Arc::new(client(&[root], rustls::ALL_VERSIONS));
    assert!(shake_hands(&terms, &config, "a.example").is_ok());
}

#[test]
fn each_fault_of_the_files_has_its_line() {
    let dir = TempDir::new().unwrap();
    let dir = dir.path();
    for file in ["a", "b"] {
        write_pair(dir, file, &["a.example"]);
    }
    std::fs::write(dir.join("empty"), "").unwrap();
    std::fs::write(dir.join("junk"), "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n")
        .unwrap();
    std::fs::write(dir.join("torn"), "-----BEGIN CERTIFICATE-----\nAAAA\n").unwrap();
    std::fs::write(dir.join("junk.key"), "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n")
        .unwrap();
    std::fs::write(dir.join("long"), vec![b'-'; 1024 * 1024 + 1]).unwrap();
    let chain = "accepted: a PEM file with the server certificate, followed by its chain";
    let private = format!("accepted: {}", super::super::error::PRIVATE_KEY);
    let gone = "cannot be read (No such file or directory (os error 2))";
    for (cert, key, expected) in [
        ("gone", "a.key", format!(r#"TLS_CERT: "DIR/gone" {gone}; {chain}"#)),
        ("a.pem", "gone", format!(r#"TLS_KEY: "DIR/gone" {gone}; {private}"#)),
        (".", "a.key", format!(r#"TLS_CERT: "DIR/." cannot be read (not a file); {chain}"#)),
        ("empty", "a.key", format!(r#"TLS_CERT: "DIR/empty" contains no certificate; {chain}"#)),
        ("a.key", "a.key", format!(r#"TLS_CERT: "DIR/a.key" contains no certificate, but PRIVATE KEY; {chain}"#)),
        ("a.pem", "a.pem", format!(r#"TLS_KEY: "DIR/a.pem" contains no private key, but CERTIFICATE; {private}"#)),
        ("long", "a.key", format!(r#"TLS_CERT: "DIR/long" is larger than 1048576 bytes; {chain}"#)),
        (
            "a.pem",
            "b.key",
            r#"TLS_KEY: "DIR/b.key" does not match the certificate in "DIR/a.pem"; accepted: the private key of that certificate"#.to_owned(),
        ),
    ] {
        assert_eq!(refusal(dir, cert, key), expected);
    }
    for cert in ["junk", "torn"] {
        let line = refusal(dir, cert, "a.key");
        assert!(
            line.starts_with(&format!(r#"TLS_CERT: "DIR/{cert}" contains an unusable certificate ("#)),
            "{line}"
        );
    }
    let line = refusal(dir, "a.pem", "junk.key");
    assert!(line.starts_with(r#"TLS_KEY: "DIR/junk.key" contains an unusable private key ("#), "{line}");
}

#[test]
fn the_first_certificate_to_expire_is_known() {
    let dir = TempDir::new().unwrap();
    for (file, year) in [("a", 2040), ("b", 2031)] {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(["a.example".to_owned()]).unwrap();
        params.not_after = rcgen::date_time_ymd(year, 1, 1);
        std::fs::write(dir.path().join(format!("{file}.pem")), params.self_signed(&key).unwrap().pem())
            .unwrap();
        std::fs::write(dir.path().join(format!("{file}.key")), key.serialize_pem()).unwrap();
    }
    let expiry = terms(dir.path(), &["a", "b"], TlsVersion::Tls12).first_expiry().unwrap();
    assert_eq!(expiry.duration_since(std::time::UNIX_EPOCH).unwrap().as_secs(), 1_924_992_000);
}
