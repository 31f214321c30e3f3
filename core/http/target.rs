//! Request targets: the four forms, and the syntax of hosts.
//!
//! A target has exactly one form, and an authority is a host with an optional port and nothing else. A fragment, which
//! clients should not send, belongs neither to the path nor to the query, as in nginx: both end before it. User names
//! in authorities, and schemes other than `http` and `https`, are rejected.

use std::net::Ipv6Addr;

use memchr::memchr;

use super::head::{HeadSpan, TargetForm};
use super::head_error::HeadError;
use super::token::{alphanumeric_and, decimal};

/// Determines the form of a target; `at` is its position in the request header.
///
/// # Errors
///
/// If the target has none of the forms that are valid for its method, or its authority is not a host.
pub(super) fn target_form(method: &str, target: &[u8], at: HeadSpan) -> Result<TargetForm, HeadError> {
    if method == "CONNECT" {
        return if is_host(target) && memchr(b':', target).is_some() {
            Ok(TargetForm::Authority)
        } else {
            Err(HeadError::TargetInvalid)
        };
    }
    match target {
        [b'/', ..] => Ok(path_form(target, at, 0, None)),
        b"*" if method == "OPTIONS" => Ok(TargetForm::Asterisk),
        _ => absolute_form(target, at),
    }
}

fn absolute_form(target: &[u8], at: HeadSpan) -> Result<TargetForm, HeadError> {
    let scheme_length = [&b"http://"[..], b"https://"]
        .into_iter()
        .find(|scheme| target.get(..scheme.len()).is_some_and(|start| start.eq_ignore_ascii_case(scheme)))
        .ok_or(HeadError::TargetInvalid)?
        .len();
    let rest = &target[scheme_length..];
    let authority =
        &rest[..rest.iter().position(|&byte| matches!(byte, b'/' | b'?' | b'#')).unwrap_or(rest.len())];
    if !is_host(authority) {
        return Err(HeadError::HostInvalid);
    }
    let path_start = scheme_length + authority.len();
    Ok(path_form(target, at, path_start, Some(at.within(scheme_length, path_start))))
}

fn path_form(target: &[u8], at: HeadSpan, path_start: usize, authority: Option<HeadSpan>) -> TargetForm {
    let end = memchr(b'#', target).unwrap_or(target.len());
    let mark = memchr(b'?', &target[path_start..end]).map(|found| path_start + found);
    TargetForm::Path {
        authority,
        path: at.within(path_start, mark.unwrap_or(end)),
        query: mark.map(|mark| at.within(mark + 1, end)),
    }
}

/// Returns whether `value` is a host with an optional port. A name has no empty label except after a trailing dot.
pub(super) fn is_host(value: &[u8]) -> bool {
    let (host_ok, port) = if let [b'[', rest @ ..] = value {
        let Some(end) = memchr(b']', rest) else { return false };
        (is_literal(&rest[..end]), &rest[end + 1..])
    } else {
        let end = memchr(b':', value).unwrap_or(value.len());
        let name = &value[..end];
        (is_name(name), &value[end..])
    };
    let port_ok = match port {
        [] => true,
        [b':', digits @ ..] => digits.is_empty() || decimal(digits).is_some_and(|port| port <= 65_535),
        _ => false,
    };
    host_ok && port_ok
}

/// Returns whether the text may stand in brackets: an IPv6 address, or one of a future version (RFC 3986, section
/// 3.2.2).
fn is_literal(literal: &[u8]) -> bool {
    let [b'v' | b'V', future @ ..] = literal else {
        return std::str::from_utf8(literal).is_ok_and(|text| text.parse::<Ipv6Addr>().is_ok());
    };
    let dot = memchr(b'.', future).unwrap_or(future.len());
    let (version, address) = (&future[..dot], future.get(dot + 1..).unwrap_or_default());
    let is_version = !version.is_empty() && version.iter().all(u8::is_ascii_hexdigit);
    is_version && !address.is_empty() && address.iter().all(|&byte| is_name_byte(byte) || byte == b':')
}

/// Returns whether the text is a registered name (RFC 3986, section 3.2.2) without an empty label.
fn is_name(name: &[u8]) -> bool {
    let mut previous = b'.';
    for &byte in name {
        if !(is_name_byte(byte) || byte == b'%') || (byte == b'.' && previous == b'.') {
            return false;
        }
        previous = byte;
    }
    !name.is_empty()
}

/// Returns whether the byte is an unreserved or sub-delimiter byte of a URI.
const fn is_name_byte(byte: u8) -> bool {
    NAME_BYTES[byte as usize]
}

const NAME_BYTES: [bool; 256] = alphanumeric_and(b"-._~!$&'()*+,;=");

#[cfg(test)]
mod tests {
    use super::*;

    fn form(method: &str, target: &str) -> Result<TargetForm, HeadError> {
        target_form(method, target.as_bytes(), HeadSpan::new(0, target.len()))
    }

    #[test]
    fn each_form_belongs_to_its_methods() {
        assert_eq!(form("OPTIONS", "*"), Ok(TargetForm::Asterisk));
        assert_eq!(form("CONNECT", "h:443"), Ok(TargetForm::Authority));
        for (method, target) in
            [("GET", "*"), ("GET", "h:443"), ("CONNECT", "/"), ("CONNECT", "h"), ("CONNECT", "*")]
        {
            assert_eq!(form(method, target), Err(HeadError::TargetInvalid), "{method} {target}");
        }
    }

    #[test]
    fn path_and_query_end_before_a_fragment() {
        for (target, path_end, query) in [
            ("/a#b", 2, None),
            ("/a?b#c?d", 2, Some(HeadSpan::new(3, 4))),
            ("/a#b?c", 2, None),
            ("/#", 1, None),
            ("/a?#", 2, Some(HeadSpan::new(3, 3))),
        ] {
            let expected = TargetForm::Path { authority: None, path: HeadSpan::new(0, path_end), query };
            assert_eq!(form("GET", target), Ok(expected), "{target}");
        }
        assert!(matches!(form("GET", "http://h#x"), Ok(TargetForm::Path { authority: Some(_), .. })));
    }

    #[test]
    fn relative_targets_and_other_schemes_are_refused() {
        for target in ["a", "?a", "#a", "../a", "ftp://h/", "http:/h/", "http:h"] {
            assert_eq!(form("GET", target), Err(HeadError::TargetInvalid), "{target}");
        }
    }

    #[test]
    fn authorities_without_a_clean_host_are_refused() {
        for target in
            ["http://", "http:///a", "http://u@h/", "http://h:x/", "http://h:65536/", "http://[::1/"]
        {
            assert_eq!(form("GET", target), Err(HeadError::HostInvalid), "{target}");
        }
        assert!(form("GET", "HTTPS://[::1]:8443/?").is_ok());
    }

    #[test]
    fn a_double_slash_is_a_path_and_no_authority() {
        let expected = TargetForm::Path { authority: None, path: HeadSpan::new(0, 5), query: None };
        assert_eq!(form("GET", "//h/a"), Ok(expected));
    }

    #[test]
    fn hosts_are_names_or_literals_with_a_port_or_none() {
        for good in [
            "h",
            "h.",
            "a.b.",
            "a.b-c_d",
            "h:",
            "h:80",
            "127.0.0.1:1",
            "[::1]",
            "[::1]:80",
            "[v1.a:b]",
            "x%41",
        ] {
            assert!(is_host(good.as_bytes()), "{good}");
        }
        for bad in [
            "",
            ":",
            ":80",
            ".",
            ".:80",
            "a..b",
            ".a",
            "a..",
            "..",
            "a..:80",
            "[zz]",
            "[1]",
            "[v.a]",
            "[v1.]",
            "[::1%25eth0]",
            "a b",
            "a/b",
            "a?b",
            "a@b",
            "a\\b",
            "a#b",
            "a:b",
            "a:1:2",
            ":x",
            "h:-1",
            "h:+1",
            "[]",
            "[::1",
            "[::1]x",
            "::1",
            "h:99999",
            "\u{e4}",
            "a\tb",
            "<h>",
            "\"h\"",
        ] {
            assert!(!is_host(bad.as_bytes()), "{bad}");
        }
    }
}
