//! TLS to a collector: trusted authorities and the client certificate.
//!
//! An error names the unusable file and its setting. There is no socket here; files are read, so do not call this on
//! threads that serve requests.

use std::path::Path;

use rustls::crypto::aws_lc_rs;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};

use super::pem;
use crate::config::{ExportConfig, ExportProtocol, Fault, PemFile, Problem};
use crate::limits::TLS_FILE_BYTES_MAX;
use crate::sync::primitive::Arc;

/// Loads the TLS configuration for the collector; `None` if connections are not encrypted. Configured files are read
/// even then, so that a mistake in them is not found only when the endpoint changes.
///
/// # Errors
///
/// If a file cannot be used: names the file and the reason.
pub fn client_config(export: &ExportConfig) -> Result<Option<Arc<ClientConfig>>, Problem> {
    let is_tls = export.endpoint.is_tls;
    let roots = match &export.trusted {
        Some(file) => roots_of(file)?,
        None if is_tls => system_roots(),
        None => RootCertStore::empty(),
    };
    let builder = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_protocol_versions(rustls::ALL_VERSIONS)
        .map_err(|error| unusable(&PemFile { setting: ENDPOINT, path: "".into() }, &error))?
        .with_root_certificates(roots);
    let mut config = match &export.identity {
        Some((cert, key)) => {
            let chain = certificates(cert)?;
            let secret = pem::private_key(&read(key)?);
            let secret = secret.map_err(|fault| unusable(key, &fault.of("private key")))?;
            builder.with_client_auth_cert(chain, secret).map_err(|error| unusable(key, &error))?
        }
        None => builder.with_no_client_auth(),
    };
    config.alpn_protocols = match export.protocol {
        ExportProtocol::Grpc => vec![b"h2".to_vec()],
        ExportProtocol::HttpJson | ExportProtocol::HttpProtobuf => vec![b"http/1.1".to_vec()],
    };
    Ok(is_tls.then(|| Arc::new(config)))
}

fn roots_of(file: &PemFile) -> Result<RootCertStore, Problem> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(file)? {
        roots.add(certificate).map_err(|error| unusable(file, &error))?;
    }
    Ok(roots)
}

/// Returns the authorities trusted by the system; empty if there is no list, so that verification of the collector
/// fails.
fn system_roots() -> RootCertStore {
    let mut roots = RootCertStore::empty();
    let bundle = SYSTEM_BUNDLES.iter().find_map(|path| std::fs::read(path).ok()).unwrap_or_default();
    // A bundle may contain certificates that the library does not support.
    roots.add_parsable_certificates(CertificateDer::pem_slice_iter(&bundle).filter_map(Result::ok));
    roots
}

fn certificates(file: &PemFile) -> Result<Vec<CertificateDer<'static>>, Problem> {
    pem::certificates(&read(file)?).map_err(|fault| unusable(file, &fault.of("certificate")))
}

fn read(file: &PemFile) -> Result<Vec<u8>, Problem> {
    let length = |path: &Path| std::fs::metadata(path).map(|metadata| metadata.len());
    match length(&file.path) {
        Ok(length) if length > TLS_FILE_BYTES_MAX => Err(unusable(file, &"it is too large")),
        _ => std::fs::read(&file.path).map_err(|error| unusable(file, &error)),
    }
}

fn unusable(file: &PemFile, why: &dyn std::fmt::Display) -> Problem {
    Problem {
        setting: file.setting,
        value: Some(file.path.display().to_string()),
        fault: Fault::Unusable(why.to_string()),
        accepted: "a PEM file with certificates, or with the unencrypted private key".to_owned(),
    }
}

const ENDPOINT: &str = "OTEL_EXPORTER_OTLP_ENDPOINT";

/// The locations of trusted authorities in common distributions.
const SYSTEM_BUNDLES: [&str; 4] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
];

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::config::{ExportEndpoint, ExportSignal};

    fn export(is_tls: bool, trusted: Option<PemFile>, identity: Option<(PemFile, PemFile)>) -> ExportConfig {
        ExportConfig {
            signal: ExportSignal::Traces,
            protocol: ExportProtocol::Grpc,
            endpoint: ExportEndpoint { is_tls, host: "c".to_owned(), port: 1, target: "/".to_owned() },
            headers: Vec::new(),
            timeout: None,
            has_gzip: false,
            trusted,
            identity,
        }
    }

    #[test]
    fn files_are_loaded_or_named() {
        let dir = tempfile::tempdir().unwrap();
        let file = |name: &str, text: &str| {
            let path = dir.path().join(name);
            fs::write(&path, text).unwrap();
            PemFile { setting: "S", path }
        };
        let made = rcgen::generate_simple_self_signed(["c".to_owned()]).unwrap();
        let (cert, key) = (file("cert", &made.cert.pem()), file("key", &made.signing_key.serialize_pem()));
        let junk = file("junk", "-----BEGIN NONSENSE-----\n");
        let identity = Some((cert.clone(), key.clone()));
        let config = client_config(&export(true, Some(cert.clone()), identity)).unwrap().unwrap();
        assert_eq!(config.alpn_protocols, [b"h2".to_vec()]);
        assert!(client_config(&export(false, Some(cert.clone()), None)).unwrap().is_none());
        assert!(client_config(&export(true, None, None)).unwrap().is_some());
        for bad in [
            export(true, Some(junk.clone()), None),
            export(false, Some(junk.clone()), None),
            export(false, None, Some((cert.clone(), junk.clone()))),
            export(true, Some(key), None),
            export(true, None, Some((junk.clone(), junk.clone()))),
            export(true, None, Some((cert.clone(), junk.clone()))),
            export(true, None, Some((cert.clone(), cert))),
        ] {
            let problem = client_config(&bad).unwrap_err().to_string();
            assert!(problem.starts_with("S: \"/") && problem.contains("cannot be used"), "{problem}");
        }
    }
}
