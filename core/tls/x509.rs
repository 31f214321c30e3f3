//! Parses the parts of an X.509 certificate that the server needs.
//!
//! The TLS library neither exposes the dates of the server's own certificates nor reads those of version 1, which have
//! no extensions. Malformed input has no parts, and never panics. Nothing is verified here.

/// The parts of a certificate.
#[derive(Clone, Copy, Debug)]
pub(super) struct CertificateParts<'a> {
    /// The content of its validity period.
    pub(super) validity: &'a [u8],
    /// Its SubjectPublicKeyInfo, as a whole element.
    pub(super) public_key: &'a [u8],
}

impl<'a> CertificateParts<'a> {
    /// Parses a DER certificate.
    pub(super) fn of(certificate: &'a [u8]) -> Option<Self> {
        let (certificate, _) = element(certificate, SEQUENCE)?;
        let (mut rest, _) = element(certificate, SEQUENCE)?;
        if let Some((_, after)) = element(rest, VERSION) {
            rest = after;
        }
        let (_serial, rest) = element(rest, INTEGER)?;
        let (_algorithm, rest) = element(rest, SEQUENCE)?;
        let (_issuer, rest) = element(rest, SEQUENCE)?;
        let (validity, rest) = element(rest, SEQUENCE)?;
        let (_subject, rest) = element(rest, SEQUENCE)?;
        Some(Self { validity, public_key: first(rest, SEQUENCE)? })
    }
}

pub(super) const INTEGER: u8 = 0x02;
pub(super) const SEQUENCE: u8 = 0x30;
/// The version is in a context-specific element, number 0.
const VERSION: u8 = 0xa0;

/// Takes the first element, which must have this tag, and returns its content and the rest.
pub(super) fn element(bytes: &[u8], tag: u8) -> Option<(&[u8], &[u8])> {
    let (&first, rest) = bytes.split_first()?;
    let (&short, rest) = rest.split_first()?;
    let (length, rest) = match short {
        0..=0x7f => (usize::from(short), rest),
        // Three bytes of length cover every file that is read.
        0x81..=0x83 => {
            let (digits, rest) = rest.split_at_checked(usize::from(short & 0x7f))?;
            (digits.iter().fold(0, |length, digit| length << 8 | usize::from(*digit)), rest)
        }
        _ => return None,
    };
    if first == tag { rest.split_at_checked(length) } else { None }
}

/// Returns the first element as a whole.
pub(super) fn first(bytes: &[u8], tag: u8) -> Option<&[u8]> {
    let (_, rest) = element(bytes, tag)?;
    bytes.get(..bytes.len() - rest.len())
}

#[cfg(test)]
mod tests {
    use rcgen::PublicKeyData;

    use super::*;

    #[test]
    fn the_key_of_a_certificate_is_found() {
        let key = rcgen::KeyPair::generate().unwrap();
        let params = rcgen::CertificateParams::new(["a.example".to_owned()]).unwrap();
        let certificate = params.self_signed(&key).unwrap();
        let parts = CertificateParts::of(certificate.der()).unwrap();
        assert_eq!(parts.public_key, key.subject_public_key_info());
        for length in 0..certificate.der().len() {
            // Truncated input must not panic.
            let _ = CertificateParts::of(&certificate.der()[..length]);
        }
    }

    #[test]
    fn an_element_ends_where_its_length_says() {
        assert_eq!(first(&[SEQUENCE, 1, 7, 9, 9], SEQUENCE), Some(&[SEQUENCE, 1, 7][..]));
        assert_eq!(first(&[SEQUENCE, 0x81, 1, 7, 9], SEQUENCE), Some(&[SEQUENCE, 0x81, 1, 7][..]));
        assert_eq!(first(&[SEQUENCE, 2, 7], SEQUENCE), None);
        assert_eq!(first(&[INTEGER, 1, 7], SEQUENCE), None);
        assert_eq!(first(&[SEQUENCE, 0x84, 0, 0, 0, 1, 7], SEQUENCE), None);
        assert_eq!(first(&[], SEQUENCE), None);
    }
}
