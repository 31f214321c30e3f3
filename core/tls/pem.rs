//! Certificates and private keys in PEM, in the variants that common tools write.
//!
//! Pure; for any other content, the error names the format and the command that converts it. No error contains a part
//! of a key. Encrypted keys are rejected, because the password would have to be stored beside the key.

use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

use super::x509::{INTEGER, SEQUENCE, element, first};

/// Why a file has no certificate, or no key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PemFault {
    /// It has no section of this kind, but sections with these labels.
    Without(Vec<String>),
    /// Its key is encrypted.
    Encrypted,
    /// It is DER; the OpenSSL command that reads it.
    Binary(&'static str),
    /// Its sections do not begin at the start of a line.
    Indented,
    /// A section is malformed.
    Malformed(String),
}

/// Reads all certificates, in order.
///
/// # Errors
///
/// If there is none, or if one is malformed.
pub(super) fn certificates(file: &[u8]) -> Result<Vec<CertificateDer<'static>>, PemFault> {
    let text = plain_labels(text_of(file)?);
    let sections: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&text).collect();
    let certificates = sections.map_err(|error| PemFault::Malformed(error.to_string()))?;
    if certificates.is_empty() {
        return Err(without(&text));
    }
    // In a TRUSTED CERTIFICATE, trust settings follow the certificate.
    let alone = |section: CertificateDer<'static>| match first(&section, SEQUENCE) {
        Some(certificate) => CertificateDer::from(certificate.to_vec()),
        None => section,
    };
    Ok(certificates.into_iter().map(alone).collect())
}

/// Reads the first key. Curve parameters before it, as written by `openssl`, are skipped.
///
/// # Errors
///
/// If there is none, or if it is encrypted or malformed.
pub(super) fn private_key(file: &[u8]) -> Result<PrivateKeyDer<'static>, PemFault> {
    let text = text_of(file)?;
    PrivateKeyDer::from_pem_slice(text).map_err(|error| match error {
        _ if is_encrypted(text) => PemFault::Encrypted,
        pem::Error::NoItemsFound => without(text),
        error => PemFault::Malformed(error.to_string()),
    })
}

/// Returns the text of a file without a byte order mark.
fn text_of(file: &[u8]) -> Result<&[u8], PemFault> {
    let has_sections = memchr::memmem::find(file, b"-----BEGIN ").is_some();
    let Some((content, _)) = element(file, SEQUENCE).filter(|_| !has_sections) else {
        return Ok(file.strip_prefix(b"\xef\xbb\xbf").unwrap_or(file));
    };
    let version = element(content, INTEGER).map(|(version, _)| version);
    Err(PemFault::Binary(match version {
        Some([3]) => "pkcs12",
        Some(_) => "pkey",
        None => "x509",
    }))
}

/// Replaces the two labels for certificates that only OpenSSL uses.
fn plain_labels(text: &[u8]) -> Vec<u8> {
    let lines = text.split_inclusive(|&byte| byte == b'\n');
    let plain = |line: &[u8]| -> Vec<u8> {
        for (side, kind) in [("BEGIN", "TRUSTED"), ("END", "TRUSTED"), ("BEGIN", "X509"), ("END", "X509")] {
            let label = format!("-----{side} {kind} CERTIFICATE-----");
            if let Some(rest) = line.strip_prefix(label.as_bytes()) {
                return [format!("-----{side} CERTIFICATE-----").as_bytes(), rest].concat();
            }
        }
        line.to_vec()
    };
    lines.flat_map(plain).collect()
}

/// Returns whether a private key is encrypted, in PKCS#8 or in the older format.
fn is_encrypted(text: &[u8]) -> bool {
    let has = |part: &[u8]| memchr::memmem::find(text, part).is_some();
    has(b"-----BEGIN ENCRYPTED PRIVATE KEY-----") || has(b"Proc-Type: 4,ENCRYPTED")
}

/// Returns the fault of a file without a section of the required kind, with the distinct labels of its sections.
fn without(text: &[u8]) -> PemFault {
    let (mut labels, mut is_indented) = (Vec::new(), false);
    for line in text.split(|&byte| byte == b'\n') {
        let Some(rest) = line.trim_ascii().strip_prefix(b"-----BEGIN ") else { continue };
        is_indented |= line.starts_with(b" ") || line.starts_with(b"\t");
        let label = rest.strip_suffix(b"-----").map(|label| String::from_utf8_lossy(label).into_owned());
        labels.extend(label.filter(|label| !labels.contains(label)));
    }
    if is_indented { PemFault::Indented } else { PemFault::Without(labels) }
}

impl PemFault {
    /// Describes the fault of a file that should contain `what`, and the remedy.
    pub(super) fn of(&self, what: &str) -> String {
        match self {
            Self::Without(labels) if labels.is_empty() => format!("contains no {what}"),
            Self::Without(labels) => format!("contains no {what}, but {}", labels.join(", ")),
            Self::Encrypted => {
                format!("contains an encrypted {what}; decrypt it with 'openssl pkey -in OLD -out NEW'")
            }
            Self::Binary("pkcs12") => {
                "is a PKCS#12 archive; convert it with 'openssl pkcs12 -in OLD -nodes -out NEW', whose output serves as \
                 TLS_CERT and as TLS_KEY"
                    .to_owned()
            }
            Self::Indented => "has indented lines; a PEM section must begin at the start of a line".to_owned(),
            Self::Binary(program) => {
                format!("is binary; convert it with 'openssl {program} -inform der -in OLD -out NEW'")
            }
            Self::Malformed(why) => format!("contains an unusable {what} ({why})"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BODY: &str = "AAAA";

    fn section(label: &str) -> String {
        format!("-----BEGIN {label}-----\n{BODY}\n-----END {label}-----\n")
    }

    fn fault(file: &[u8]) -> (Option<PemFault>, Option<PemFault>) {
        (certificates(file).err(), private_key(file).err())
    }

    #[test]
    fn certificates_have_three_labels() {
        let sections = ["CERTIFICATE", "TRUSTED CERTIFICATE", "X509 CERTIFICATE"].map(section).concat();
        for text in [sections.clone(), format!("\u{feff}{sections}"), sections.replace('\n', "\r\n")] {
            assert_eq!(certificates(text.as_bytes()).unwrap().len(), 3, "{text}");
        }
        let other = section("CERTIFICATE REQUEST");
        let expected = PemFault::Without(vec!["CERTIFICATE REQUEST".to_owned()]);
        assert_eq!(fault(other.as_bytes()), (Some(expected.clone()), Some(expected)));
    }

    #[test]
    fn data_after_a_certificate_in_its_section_is_left_out() {
        // A sequence of one byte, and another one.
        let text = "-----BEGIN TRUSTED CERTIFICATE-----\nMAEHMAEI\n-----END TRUSTED CERTIFICATE-----\n";
        assert_eq!(&certificates(text.as_bytes()).unwrap()[0][..], [SEQUENCE, 1, 7]);
    }

    #[test]
    fn encrypted_keys_are_named() {
        let old = "-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES-128-CBC,00\n\nAAAA\n-----END RSA PRIVATE KEY-----\n";
        for text in [section("ENCRYPTED PRIVATE KEY"), old.to_owned()] {
            assert_eq!(private_key(text.as_bytes()).err(), Some(PemFault::Encrypted), "{text}");
        }
        // The first unencrypted key is used.
        let both = section("ENCRYPTED PRIVATE KEY") + &section("PRIVATE KEY");
        assert!(private_key(both.as_bytes()).is_ok());
        let twice = section("OPENSSH PRIVATE KEY") + &section("CERTIFICATE") + &section("CERTIFICATE");
        let expected = ["OPENSSH PRIVATE KEY", "CERTIFICATE"].map(str::to_owned);
        assert_eq!(private_key(twice.as_bytes()).err(), Some(PemFault::Without(expected.to_vec())));
    }

    #[test]
    fn indented_sections_are_named() {
        for label in ["CERTIFICATE", "PRIVATE KEY"] {
            let text = section(label).replace("-----BEGIN", "  -----BEGIN").replace("-----END", "\t-----END");
            assert_eq!(
                fault(text.as_bytes()),
                (Some(PemFault::Indented), Some(PemFault::Indented)),
                "{text}"
            );
        }
    }

    #[test]
    fn binary_formats_are_named() {
        for (file, program) in [
            (&[SEQUENCE, 3, INTEGER, 1, 3][..], "pkcs12"),
            (&[SEQUENCE, 3, INTEGER, 1, 0], "pkey"),
            (&[SEQUENCE, 2, SEQUENCE, 0], "x509"),
        ] {
            let expected = Some(PemFault::Binary(program));
            assert_eq!(fault(file), (expected.clone(), expected));
        }
        assert_eq!(fault(b""), (Some(PemFault::Without(vec![])), Some(PemFault::Without(vec![]))));
        // Text that begins with the same byte.
        assert_eq!(fault(b"0"), (Some(PemFault::Without(vec![])), Some(PemFault::Without(vec![]))));
    }
}
