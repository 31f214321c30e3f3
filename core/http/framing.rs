//! The fields that describe the message itself: its framing, its host, and the persistence of the connection.
//!
//! A message has exactly one length or is rejected, so that two servers cannot see different lengths. Rejected are a
//! repeated `Content-Length` (equal or not), a length together with a transfer coding, a transfer coding in HTTP/1.0,
//! and `chunked` that is not last.
//! HTTP/1.0, and `chunked` that is not last.

use super::head::Version;
use super::head_error::HeadError;
use super::target::is_host;
use super::token::{decimal, list_contains, trim_ows};

/// How the body of a request is delimited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BodyFraming {
    /// There is no body and no length.
    None,
    /// The length in `Content-Length`; it may be 0.
    Length(u64),
    /// The chunked transfer coding.
    Chunked,
    /// The protocol below signals its end, as in HTTP/2; never derived from the fields.
    Framed,
}

/// The properties of the message and the connection according to the fields.
pub(super) struct Traits {
    pub(super) framing: BodyFraming,
    pub(super) keep_alive: bool,
    pub(super) expect_continue: bool,
}

impl Traits {
    /// Parses the fields; contradictions are rejected.
    pub(super) fn gather(
        fields: &[httparse::Header<'_>],
        version: Version,
        host_required: bool,
    ) -> Result<Self, HeadError> {
        let values = |name: &'static str| {
            fields.iter().filter(move |field| field.name.eq_ignore_ascii_case(name)).map(|field| field.value)
        };
        check_host(values("host"), host_required, version)?;
        let framing = framing(values("content-length"), values("transfer-encoding"), version)?;
        let keep_alive = match version {
            Version::Http10 => {
                list_contains(values("connection"), b"keep-alive")
                    && !list_contains(values("connection"), b"close")
            }
            Version::Http11 | Version::Http2 => !list_contains(values("connection"), b"close"),
        };
        let has_body = !matches!(framing, BodyFraming::None | BodyFraming::Length(0));
        let expect_continue =
            version == Version::Http11 && has_body && list_contains(values("expect"), b"100-continue");
        Ok(Self { framing, keep_alive, expect_continue })
    }
}

fn check_host<'a>(
    mut values: impl Iterator<Item = &'a [u8]>,
    required: bool,
    version: Version,
) -> Result<(), HeadError> {
    match (values.next(), values.next()) {
        (_, Some(_)) => Err(HeadError::HostRepeated),
        (None, None) if required && version != Version::Http10 => Err(HeadError::HostMissing),
        (Some(b""), None) if !required => Ok(()),
        (Some(host), None) if !is_host(trim_ows(host)) => Err(HeadError::HostInvalid),
        _ => Ok(()),
    }
}

fn framing<'a>(
    mut lengths: impl Iterator<Item = &'a [u8]>,
    codings: impl Iterator<Item = &'a [u8]> + Clone,
    version: Version,
) -> Result<BodyFraming, HeadError> {
    let length = lengths.next();
    if lengths.next().is_some() {
        return Err(HeadError::ContentLengthRepeated);
    }
    if codings.clone().next().is_some() {
        return if length.is_some() || version == Version::Http10 {
            Err(HeadError::TransferEncodingInvalid)
        } else {
            transfer_coding(codings.flat_map(|value| value.split(|&byte| byte == b',').map(trim_ows)))
        };
    }
    match length.map(|value| decimal(trim_ows(value))) {
        None => Ok(BodyFraming::None),
        Some(Some(length)) => Ok(BodyFraming::Length(length)),
        Some(None) => Err(HeadError::ContentLengthInvalid),
    }
}

/// Accepts only `chunked`. It must be the last coding and appear once; any coding before it is not supported.
fn transfer_coding<'a>(mut codings: impl Iterator<Item = &'a [u8]>) -> Result<BodyFraming, HeadError> {
    let is_chunked = |coding: &[u8]| coding.eq_ignore_ascii_case(b"chunked");
    let Some(mut last) = codings.next() else { return Err(HeadError::TransferEncodingInvalid) };
    let mut is_alone = true;
    for coding in codings {
        if is_chunked(last) || last.is_empty() {
            return Err(HeadError::TransferEncodingInvalid);
        }
        is_alone = false;
        last = coding;
    }
    match (is_chunked(last), is_alone) {
        (true, true) => Ok(BodyFraming::Chunked),
        (true, false) => Err(HeadError::TransferCodingUnknown),
        (false, _) => Err(HeadError::TransferEncodingInvalid),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn traits(fields: &[(&str, &str)], version: Version) -> Result<(BodyFraming, bool, bool), HeadError> {
        let fields: Vec<_> =
            fields.iter().map(|&(name, value)| httparse::Header { name, value: value.as_bytes() }).collect();
        Traits::gather(&fields, version, false)
            .map(|traits| (traits.framing, traits.keep_alive, traits.expect_continue))
    }

    fn framing_of(fields: &[(&str, &str)]) -> Result<BodyFraming, HeadError> {
        traits(fields, Version::Http11).map(|(framing, ..)| framing)
    }

    #[test]
    fn a_single_decimal_length_frames_the_body() {
        assert_eq!(framing_of(&[]), Ok(BodyFraming::None));
        assert_eq!(framing_of(&[("content-length", "0")]), Ok(BodyFraming::Length(0)));
        assert_eq!(framing_of(&[("CONTENT-LENGTH", "007")]), Ok(BodyFraming::Length(7)));
        for bad in ["", "+1", "-1", "1 1", "1,1", "1, 1", "0x1", "1.0", "18446744073709551616"] {
            assert_eq!(
                framing_of(&[("Content-Length", bad)]),
                Err(HeadError::ContentLengthInvalid),
                "{bad:?}"
            );
        }
    }

    #[test]
    fn two_lengths_are_refused_even_when_equal() {
        let twice = [("Content-Length", "5"), ("content-length", "5")];
        assert_eq!(framing_of(&twice), Err(HeadError::ContentLengthRepeated));
    }

    #[test]
    fn a_length_beside_a_coding_is_refused_in_either_order() {
        let (length, coding) = (("Content-Length", "5"), ("Transfer-Encoding", "chunked"));
        assert_eq!(framing_of(&[length, coding]), Err(HeadError::TransferEncodingInvalid));
        assert_eq!(framing_of(&[coding, length]), Err(HeadError::TransferEncodingInvalid));
    }

    #[test]
    fn chunked_alone_is_the_coding_that_is_known() {
        assert_eq!(framing_of(&[("Transfer-Encoding", "Chunked")]), Ok(BodyFraming::Chunked));
        for unknown in ["gzip, chunked", "identity,chunked", "xchunked , chunked"] {
            let result = framing_of(&[("Transfer-Encoding", unknown)]);
            assert_eq!(result, Err(HeadError::TransferCodingUnknown), "{unknown}");
        }
        for invalid in [
            "",
            "gzip",
            "identity",
            "chunked, gzip",
            "chunked, chunked",
            "chunked,",
            ",chunked",
            "chunked;q=1",
            "xchunked",
            "\"chunked\"",
            "chunked chunked",
        ] {
            let result = framing_of(&[("Transfer-Encoding", invalid)]);
            assert_eq!(result, Err(HeadError::TransferEncodingInvalid), "{invalid:?}");
        }
    }

    #[test]
    fn codings_in_two_fields_are_one_list() {
        let fields = |first, second| [("Transfer-Encoding", first), ("Transfer-Encoding", second)];
        assert_eq!(framing_of(&fields("chunked", "chunked")), Err(HeadError::TransferEncodingInvalid));
        assert_eq!(framing_of(&fields("chunked", "")), Err(HeadError::TransferEncodingInvalid));
        assert_eq!(framing_of(&fields("gzip", "chunked")), Err(HeadError::TransferCodingUnknown));
    }

    #[test]
    fn a_coding_in_http_1_0_is_refused() {
        let result = traits(&[("Transfer-Encoding", "chunked")], Version::Http10);
        assert_eq!(result, Err(HeadError::TransferEncodingInvalid));
    }

    #[test]
    fn the_connection_lives_by_version_and_wish() {
        let keeps =
            |value, version| traits(&[("Connection", value)], version).map(|(_, keep_alive, _)| keep_alive);
        assert_eq!(traits(&[], Version::Http11).map(|all| all.1), Ok(true));
        assert_eq!(traits(&[], Version::Http10).map(|all| all.1), Ok(false));
        assert_eq!(keeps("Close", Version::Http11), Ok(false));
        assert_eq!(keeps("te, close", Version::Http11), Ok(false));
        assert_eq!(keeps("Keep-Alive", Version::Http10), Ok(true));
        assert_eq!(keeps("keep-alive, close", Version::Http10), Ok(false));
        assert_eq!(keeps("closed", Version::Http11), Ok(true));
    }

    #[test]
    fn a_client_waits_only_with_a_body_to_send() {
        let waits = |fields: &[(&str, &str)], version| traits(fields, version).map(|(.., expects)| expects);
        let expect = ("Expect", "100-Continue");
        assert_eq!(waits(&[expect, ("Content-Length", "5")], Version::Http11), Ok(true));
        assert_eq!(waits(&[expect, ("Transfer-Encoding", "chunked")], Version::Http11), Ok(true));
        assert_eq!(waits(&[expect, ("Content-Length", "0")], Version::Http11), Ok(false));
        assert_eq!(waits(&[expect], Version::Http11), Ok(false));
        assert_eq!(waits(&[expect, ("Content-Length", "5")], Version::Http10), Ok(false));
    }
}
