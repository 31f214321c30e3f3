//! HTTP/2 requests: turns pseudo-header fields and header fields into the same [`Head`](super::Head) as for HTTP/1.
//!
//! A request is parsed by the rules and within the limits of [`parse`](super::parse), regardless of its protocol, so
//! there is one interpretation of it. The framing library enforces the additional rules of RFC 9113 (misplaced
//! pseudo-header fields, connection-specific fields).

use super::framing::BodyFraming;
use super::head::Version;
use super::head_error::HeadError;
use super::parse::{HeadLimits, Parsed, complete};
use super::token::{is_token, is_value_byte, list_contains, trim_ows};

/// A request as HTTP/2 delivers it.
#[derive(Clone, Copy, Debug)]
pub struct Pseudo<'a> {
    /// `:method`.
    pub method: &'a str,
    /// `:path`, with the query; the authority for `CONNECT`.
    pub target: &'a [u8],
    /// `:authority`, which replaces `Host`.
    pub authority: Option<&'a [u8]>,
    /// Whether the request ends with its header.
    pub is_bodiless: bool,
}

/// Parses an HTTP/2 request.
///
/// # Errors
///
/// As for an HTTP/1.1 header with the same content, and if a `Host` differs from the authority.
pub fn head_of<'a>(
    request: Pseudo<'_>,
    fields: impl Iterator<Item = (&'a [u8], &'a [u8])>,
    limits: HeadLimits,
) -> Result<Parsed, HeadError> {
    let mut bytes = Vec::with_capacity(HEAD_BYTES_TYPICAL);
    let is_line_byte = |&byte: &u8| byte > b' ' && byte != 0x7f;
    if !is_token(request.method.as_bytes()) || !request.target.iter().all(is_line_byte) {
        return Err(HeadError::RequestLineInvalid);
    }
    for part in [request.method.as_bytes(), b" ", request.target, b" HTTP/1.1\r\n"] {
        bytes.extend_from_slice(part);
    }
    if let Some(authority) = request.authority {
        field(&mut bytes, b"host", authority)?;
    }
    let mut cookies: Option<Vec<u8>> = None;
    for (name, value) in fields {
        match request.authority {
            // Clients may send each cookie as a field; they are joined before they are counted (RFC 9113, 8.2.3).
            _ if name.eq_ignore_ascii_case(b"cookie") => {
                check(name, value)?;
                match &mut cookies {
                    None => cookies = Some(value.to_vec()),
                    Some(joined) => joined.extend([b"; ", value].concat()),
                }
            }
            Some(authority) if name.eq_ignore_ascii_case(b"host") => {
                if !authority.eq_ignore_ascii_case(value) {
                    return Err(HeadError::HostInvalid);
                }
            }
            _ => field(&mut bytes, name, value)?,
        }
    }
    if let Some(cookies) = cookies {
        field(&mut bytes, b"cookie", &cookies)?;
    }
    bytes.extend_from_slice(b"\r\n");
    if bytes.len() > limits.bytes_max {
        return Err(HeadError::TooLarge);
    }
    match complete(&bytes, bytes.len(), limits)? {
        Parsed::Partial => Err(HeadError::RequestLineInvalid),
        Parsed::Complete { head, length, framing, keep_alive, .. } => {
            let framing = match framing {
                _ if request.is_bodiless => BodyFraming::None,
                BodyFraming::Length(length) => BodyFraming::Length(length),
                _ => BodyFraming::Framed,
            };
            let expect_continue =
                !request.is_bodiless && list_contains(head.header_values("expect"), b"100-continue");
            let head = head.with_version(Version::Http2);
            Ok(Parsed::Complete { head, length, framing, keep_alive, expect_continue })
        }
    }
}

/// Refuses a field that would become several lines or be parsed differently.
fn check(name: &[u8], value: &[u8]) -> Result<(), HeadError> {
    let is_trimmed = trim_ows(value).len() == value.len();
    let is_valid = is_trimmed && is_token(name) && value.iter().all(|&byte| is_value_byte(byte));
    is_valid.then_some(()).ok_or(HeadError::FieldInvalid)
}

/// Appends a field as a line.
fn field(bytes: &mut Vec<u8>, name: &[u8], value: &[u8]) -> Result<(), HeadError> {
    check(name, value)?;
    bytes.extend_from_slice(name);
    bytes.extend_from_slice(b": ");
    bytes.extend_from_slice(value);
    bytes.extend_from_slice(b"\r\n");
    Ok(())
}

/// The usual size of a request header, in bytes.
const HEAD_BYTES_TYPICAL: usize = 1024;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::Head;

    fn read(request: Pseudo<'_>, fields: &[(&str, &str)]) -> Result<(Head, BodyFraming, bool), HeadError> {
        let fields = fields.iter().map(|(name, value)| (name.as_bytes(), value.as_bytes()));
        match head_of(request, fields, HeadLimits::main_port())? {
            Parsed::Complete { head, framing, expect_continue, .. } => Ok((head, framing, expect_continue)),
            Parsed::Partial => panic!("partial"),
        }
    }

    const POST: Pseudo<'_> =
        Pseudo { method: "POST", target: b"/a?b", authority: Some(b"h:8"), is_bodiless: false };

    #[test]
    fn it_is_the_head_that_the_older_protocol_would_give() {
        let (head, framing, expects) = read(POST, &[("x-a", "1"), ("cookie", "a"), ("cookie", "b")]).unwrap();
        assert_eq!((head.method(), head.version()), ("POST", Version::Http2));
        assert_eq!(head.path_and_query(), (&b"/a"[..], Some(&b"b"[..])));
        assert_eq!((head.host(), head.header("X-A")), (Some(&b"h:8"[..]), Some(&b"1"[..])));
        assert_eq!(head.header_values("cookie").collect::<Vec<_>>(), [b"a; b"]);
        assert_eq!((framing, expects), (BodyFraming::Framed, false));
    }

    #[test]
    fn any_number_of_cookies_is_one_field_within_the_size_limit() {
        let crumbs = |count: usize, size: usize| -> Vec<_> {
            (0..count).map(|number| ("Cookie", format!("c{number:04}={}", "x".repeat(size)))).collect()
        };
        let read = |crumbs: &[(&str, String)]| {
            read(POST, &crumbs.iter().map(|(name, value)| (*name, &**value)).collect::<Vec<_>>())
        };
        let many = crumbs(500, 1);
        let (head, ..) = read(&many).unwrap();
        let joined = many.iter().map(|(_, value)| value.clone()).collect::<Vec<_>>().join("; ");
        assert_eq!(head.header_values("cookie").collect::<Vec<_>>(), [joined.as_bytes()]);
        assert_eq!(read(&crumbs(500, 1000)).unwrap_err(), HeadError::TooLarge);
        for value in [" a", "a\tb\n", "a\r\nx: y"] {
            let crumbs = [("cookie", "a".to_owned()), ("cookie", value.to_owned())];
            assert_eq!(read(&crumbs).unwrap_err(), HeadError::FieldInvalid, "{value:?}");
        }
        assert_eq!(read(&[("cookie", String::new())]).unwrap().0.header("cookie"), Some(&b""[..]));
    }

    #[test]
    fn the_authority_is_the_host_and_suffers_no_other() {
        let (head, ..) = read(POST, &[("host", "H:8")]).unwrap();
        assert_eq!(head.header_values("host").collect::<Vec<_>>(), [b"h:8"]);
        assert_eq!(read(POST, &[("host", "other")]).unwrap_err(), HeadError::HostInvalid);
        let (head, ..) = read(Pseudo { authority: None, ..POST }, &[("host", "other")]).unwrap();
        assert_eq!(head.host(), Some(&b"other"[..]));
        assert_eq!(read(Pseudo { authority: None, ..POST }, &[]).unwrap_err(), HeadError::HostMissing);
        assert_eq!(
            read(Pseudo { authority: Some(b"u@h"), ..POST }, &[]).unwrap_err(),
            HeadError::HostInvalid
        );
    }

    #[test]
    fn a_length_is_kept_and_the_end_of_the_stream_is_the_other_end() {
        let framing = |is_bodiless, fields: &[(&str, &str)]| {
            read(Pseudo { is_bodiless, ..POST }, fields).map(|(_, framing, _)| framing)
        };
        assert_eq!(framing(false, &[("content-length", "5")]), Ok(BodyFraming::Length(5)));
        assert_eq!(framing(true, &[]), Ok(BodyFraming::None));
        assert_eq!(framing(false, &[("content-length", "x")]), Err(HeadError::ContentLengthInvalid));
    }

    #[test]
    fn the_limits_are_those_of_the_older_protocol() {
        let long = "x".repeat(crate::limits::HEAD_BYTES_MAX);
        assert_eq!(read(POST, &[("a", &long)]).unwrap_err(), HeadError::TooLarge);
        let target = [b"/", &long.as_bytes()[..40_000]].concat();
        let error = read(Pseudo { target: &target, ..POST }, &[]).unwrap_err();
        assert_eq!(error, HeadError::TargetTooLong);
    }

    #[test]
    fn a_value_cannot_become_a_line() {
        assert!(read(POST, &[("a", "1\r\nb: 2")]).is_err());
        for padded in [" 1", "1 ", "\t1"] {
            assert_eq!(read(POST, &[("a", padded)]).unwrap_err(), HeadError::FieldInvalid);
        }
        assert!(read(Pseudo { target: b"/ HTTP/1.1\r\nx: y", ..POST }, &[]).is_err());
    }

    #[test]
    fn a_client_may_wait_to_be_asked_for_its_body() {
        assert!(read(POST, &[("expect", "100-continue")]).unwrap().2);
        assert!(!read(Pseudo { is_bodiless: true, ..POST }, &[("expect", "100-continue")]).unwrap().2);
    }
}
