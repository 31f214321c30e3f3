//! Selects the identity for a client.
//!
//! A certificate with exactly the requested name takes precedence over a wildcard certificate, and that over the first
//! one in the list, which is the default. Among several matches, the first one whose key type the client supports is
//! used, so a name may have an RSA and an ECDSA certificate. No client is rejected because of its name; whether it
//! trusts the certificate is up to the client.

use std::collections::HashMap;

use rustls::SignatureScheme;
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;

use super::identity::Identity;
use crate::sync::primitive::Arc;

/// The identities of a server, by name.
#[derive(Debug)]
pub(super) struct CertificateResolver {
    signers: Vec<Arc<CertifiedKey>>,
    /// By full name; a wildcard includes its `*.`.
    by_name: HashMap<String, Vec<usize>>,
}

impl CertificateResolver {
    /// Indexes `identities`, the default one first.
    pub(super) fn new(identities: &[Identity]) -> Self {
        let mut by_name: HashMap<String, Vec<usize>> = HashMap::new();
        for (index, identity) in identities.iter().enumerate() {
            for name in &identity.names {
                by_name.entry(name.clone()).or_default().push(index);
            }
        }
        Self { signers: identities.iter().map(|one| Arc::clone(&one.signer)).collect(), by_name }
    }

    /// Selects the identity for a client that requests `name` and supports `schemes`.
    fn pick(&self, name: Option<&str>, schemes: &[SignatureScheme]) -> Option<&Arc<CertifiedKey>> {
        let known = |signer: &&Arc<CertifiedKey>| signer.key.choose_scheme(schemes).is_some();
        let named = name.and_then(|name| {
            let name = name.to_ascii_lowercase();
            let wildcard = name.split_once('.').map(|(_, parent)| format!("*.{parent}"));
            let exact = self.by_name.get(&name);
            let wide = wildcard.and_then(|wildcard| self.by_name.get(&wildcard));
            let found = exact.into_iter().chain(wide).flatten();
            found.filter_map(|index| self.signers.get(*index)).find(known)
        });
        named.or_else(|| self.signers.iter().find(known)).or(self.signers.first())
    }
}

impl ResolvesServerCert for CertificateResolver {
    fn resolve(&self, client: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        self.pick(client.server_name(), client.signature_schemes()).cloned()
    }
}

#[cfg(test)]
mod tests {
    use rcgen::{KeyPair, PKCS_ECDSA_P256_SHA256, PKCS_ED25519, SignatureAlgorithm};
    use rustls::crypto::aws_lc_rs::sign::any_supported_type;
    use rustls::pki_types::PrivateKeyDer;

    use super::*;

    const ALL: &[SignatureScheme] = &[SignatureScheme::ECDSA_NISTP256_SHA256, SignatureScheme::ED25519];

    fn identity(names: &[&str], algorithm: &'static SignatureAlgorithm) -> Identity {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let key = KeyPair::generate_for(algorithm).unwrap();
        let certificate = rcgen::CertificateParams::new(names.clone()).unwrap().self_signed(&key).unwrap();
        let key = any_supported_type(&PrivateKeyDer::Pkcs8(key.serialize_der().into())).unwrap();
        let signer = Arc::new(CertifiedKey::new(vec![certificate.der().clone()], key));
        Identity { path: "x".into(), names, validity: None, signer }
    }

    fn picked(identities: &[Identity], name: Option<&str>, schemes: &[SignatureScheme]) -> usize {
        let selection = CertificateResolver::new(identities);
        let signer = selection.pick(name, schemes).unwrap();
        identities.iter().position(|one| Arc::ptr_eq(&one.signer, signer)).unwrap()
    }

    #[test]
    fn an_exact_name_goes_before_a_wildcard_and_that_before_the_first() {
        let all = [
            identity(&["first.example"], &PKCS_ECDSA_P256_SHA256),
            identity(&["*.b.example", "b.example"], &PKCS_ECDSA_P256_SHA256),
            identity(&["www.b.example"], &PKCS_ECDSA_P256_SHA256),
        ];
        for (name, expected) in [
            ("www.b.example", 2),
            ("WWW.B.example", 2),
            ("img.b.example", 1),
            ("b.example", 1),
            // A wildcard matches one label.
            ("a.img.b.example", 0),
            ("example", 0),
            ("first.example", 0),
        ] {
            assert_eq!(picked(&all, Some(name), ALL), expected, "{name}");
        }
        assert_eq!(picked(&all, None, ALL), 0);
    }

    #[test]
    fn a_client_is_shown_the_kind_of_key_that_it_knows() {
        let all =
            [identity(&["a.example"], &PKCS_ED25519), identity(&["a.example"], &PKCS_ECDSA_P256_SHA256)];
        assert_eq!(picked(&all, Some("a.example"), ALL), 0);
        assert_eq!(picked(&all, Some("a.example"), &ALL[..1]), 1);
        assert_eq!(picked(&all, None, &ALL[..1]), 1);
        // No identity is suitable: the handshake with the first one fails, and the client learns the reason.
        assert_eq!(picked(&all, None, &[]), 0);
    }
}
