//! Header fields in which proxies describe a request: `Forwarded` (RFC 7239) and the older `X-Forwarded-*`.
//!
//! They are parsed from the right, where the nearest proxy wrote. The entries further left may come from the client, so
//! nothing in them, not even an unbalanced quote, can change how the entries to the right are parsed.
//!
//! A hop is the statement of one proxy about where it received the request from. An entry is either parsed completely or
//! is [`Hop::Unreadable`]. [`policy`](crate::policy) decides which proxies are trusted. `X-Real-IP` is not supported: it
//! holds a single value, so a value set by a proxy cannot be distinguished from one set by the client.

use std::net::{IpAddr, Ipv6Addr};

use super::target::is_host;
use super::token::{decimal, is_token, is_token_byte, trim_ows};

/// A proxy's report about the peer that it received the request from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Hop {
    /// The entry was parsed.
    Known(ForwardedElement),
    /// The entry is malformed; nothing to the left of it is meaningful.
    Unreadable,
}

/// A parsed entry.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ForwardedElement {
    /// The address, if the proxy reports it; it may be obfuscated.
    pub address: Option<IpAddr>,
    /// The port, if the proxy reports it.
    pub port: Option<u16>,
    /// Whether the request used HTTPS, if the proxy reports it.
    pub https: Option<bool>,
    /// The requested host, with its port if it had one.
    pub host: Option<Vec<u8>>,
}

/// The values of one list field, line by line in the order of the request header.
pub type Lines<'a> = Vec<&'a [u8]>;

/// Iterates over the entries of `Forwarded`, starting with that of the nearest proxy.
pub fn forwarded<'a>(lines: &'a Lines<'a>) -> impl Iterator<Item = Hop> + 'a {
    lines.iter().rev().flat_map(|line| members_from_right(line)).map(element)
}

/// Iterates over the addresses of `X-Forwarded-For`, starting with that of the nearest proxy.
pub fn x_forwarded_for<'a>(lines: &'a Lines<'a>) -> impl Iterator<Item = Hop> + 'a {
    lines.iter().rev().flat_map(|line| line.rsplit(|&byte| byte == b',')).map(|entry| {
        match node(trim_ows(entry)) {
            Some(Node { address: Some(address), port }) => {
                Hop::Known(ForwardedElement { address: Some(address), port, ..ForwardedElement::default() })
            }
            _ => Hop::Unreadable,
        }
    })
}

/// Returns the entry for the hop at `place`, counted from the right, of a list that accompanies `X-Forwarded-For`.
/// Proxies that replace such a field instead of extending it leave a shorter list; then its leftmost entry is returned.
pub fn beside<'a>(lines: &[&'a [u8]], place: usize) -> Option<&'a [u8]> {
    let entries = lines.iter().rev().flat_map(|line| line.rsplit(|&byte| byte == b','));
    entries.take(place.saturating_add(1)).last().map(trim_ows)
}

/// Parses a scheme. Returns whether it is HTTPS, or `None` for anything but `http` and `https`.
pub fn scheme(text: &[u8]) -> Option<bool> {
    if text.eq_ignore_ascii_case(b"https") {
        Some(true)
    } else {
        text.eq_ignore_ascii_case(b"http").then_some(false)
    }
}

/// Parses a host with an optional port; `None` if it is empty.
pub fn host(text: &[u8]) -> Option<&[u8]> {
    (!text.is_empty() && is_host(text)).then_some(text)
}

/// Parses a port; `None` for 0.
pub fn port(text: &[u8]) -> Option<u16> {
    decimal(text).and_then(|number| u16::try_from(number).ok()).filter(|&port| port > 0)
}

/// A node as defined by RFC 7239: an address, or an obfuscated identifier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Node {
    address: Option<IpAddr>,
    port: Option<u16>,
}

/// Splits at commas outside of quotes, starting at the end.
fn members_from_right(line: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = Some(line);
    std::iter::from_fn(move || {
        let line = rest?;
        let mut quoted = false;
        for (at, &byte) in line.iter().enumerate().rev() {
            match byte {
                b'"' if !is_escaped(line, at) => quoted = !quoted,
                b',' if !quoted => {
                    rest = Some(&line[..at]);
                    return Some(&line[at + 1..]);
                }
                _ => {}
            }
        }
        rest = None;
        Some(line)
    })
}

/// Returns whether an odd number of backslashes precedes this position.
fn is_escaped(line: &[u8], at: usize) -> bool {
    line[..at].iter().rev().take_while(|&&byte| byte == b'\\').count() % 2 == 1
}

/// Parses one entry of `Forwarded`: pairs of a name and a value, separated by semicolons, each name at most once.
fn element(entry: &[u8]) -> Hop {
    let mut element = ForwardedElement::default();
    let mut seen = [false; 3];
    let mut rest = trim_ows(entry);
    if rest.is_empty() {
        return Hop::Unreadable;
    }
    loop {
        // Empty pairs are legal.
        while let [b';', behind @ ..] = rest {
            rest = trim_ows(behind);
        }
        if rest.is_empty() {
            return Hop::Known(element);
        }
        let Some((name, value, behind)) = pair(rest) else { return Hop::Unreadable };
        let place = PARAMETERS.iter().position(|known| name.eq_ignore_ascii_case(known));
        if let Some(place) = place
            && (std::mem::replace(&mut seen[place], true) || !element.take(place, &value))
        {
            return Hop::Unreadable;
        }
        rest = trim_ows(behind);
        if !matches!(rest, [] | [b';', ..]) {
            return Hop::Unreadable;
        }
    }
}

/// The parameters that are used; `by` and extensions are ignored.
const PARAMETERS: [&[u8]; 3] = [b"for", b"proto", b"host"];

impl ForwardedElement {
    /// Parses the value of the parameter at this index in [`PARAMETERS`]. Returns whether it is valid.
    fn take(&mut self, place: usize, value: &[u8]) -> bool {
        match place {
            0 => {
                let Some(node) = node(value) else { return false };
                (self.address, self.port) = (node.address, node.port);
            }
            1 => {
                self.https = scheme(value);
                return self.https.is_some();
            }
            _ => {
                self.host = host(value).map(<[u8]>::to_vec);
                return self.host.is_some();
            }
        }
        true
    }
}

/// Parses `name=value` at the start and also returns the rest. Quotes are removed from the value.
fn pair(text: &[u8]) -> Option<(&[u8], Vec<u8>, &[u8])> {
    let equals = memchr::memchr(b'=', text)?;
    let (name, value) = (&text[..equals], &text[equals + 1..]);
    if !is_token(name) {
        return None;
    }
    if let [b'"', quoted @ ..] = value {
        let (value, behind) = unquoted(quoted)?;
        return Some((name, value, behind));
    }
    // RFC 7239 requires quotes around colons and brackets; some proxies omit them.
    let is_plain = |byte: &u8| is_token_byte(*byte) || b":[]".contains(byte);
    let end = value.iter().position(|byte| !is_plain(byte)).unwrap_or(value.len());
    (end > 0).then(|| (name, value[..end].to_vec(), &value[end..]))
}

/// Parses up to the closing quote.
fn unquoted(text: &[u8]) -> Option<(Vec<u8>, &[u8])> {
    let mut value = Vec::new();
    let mut bytes = text.iter().enumerate();
    while let Some((at, &byte)) = bytes.next() {
        match byte {
            b'"' => return Some((value, &text[at + 1..])),
            b'\\' => value.push(*bytes.next()?.1),
            _ => value.push(byte),
        }
    }
    None
}

/// Parses an address with an optional port, or an obfuscated identifier.
fn node(text: &[u8]) -> Option<Node> {
    // An IPv6 address without brackets has no port. RFC 7239 forbids this form, but it is common in `X-Forwarded-For`.
    if let Some(address) = address(text) {
        return Some(Node { address: Some(address), port: None });
    }
    let (name, behind) = if let [b'[', rest @ ..] = text {
        let end = memchr::memchr(b']', rest)?;
        (&text[..end + 2], &rest[end + 1..])
    } else {
        text.split_at(memchr::memchr(b':', text).unwrap_or(text.len()))
    };
    let port = match behind {
        [] => None,
        [b':', digits @ ..] => port_of_node(digits)?,
        _ => return None,
    };
    let address = match name {
        [b'[', literal @ .., b']'] => Some(IpAddr::V6(str_of(literal)?.parse::<Ipv6Addr>().ok()?)),
        _ if name.eq_ignore_ascii_case(b"unknown") || is_obscured(name) => None,
        _ => Some(address(name)?),
    };
    Some(Node { address: address.map(|address| address.to_canonical()), port })
}

/// Parses an IPv4 or IPv6 address without brackets. An IPv4-mapped IPv6 address becomes the IPv4 address.
fn address(text: &[u8]) -> Option<IpAddr> {
    str_of(text)?.parse::<IpAddr>().ok().map(|address| address.to_canonical())
}

/// Parses a port number, or an obfuscated identifier.
fn port_of_node(text: &[u8]) -> Option<Option<u16>> {
    if is_obscured(text) {
        return Some(None);
    }
    if text.len() > 5 {
        return None;
    }
    decimal(text).and_then(|number| u16::try_from(number).ok()).map(Some)
}

/// Returns whether the text is `_` followed by an identifier.
fn is_obscured(text: &[u8]) -> bool {
    let is_plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"._-".contains(byte);
    matches!(text, [b'_', word @ ..] if !word.is_empty() && word.iter().all(is_plain))
}

fn str_of(text: &[u8]) -> Option<&str> {
    std::str::from_utf8(text).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hops(lines: &[&str]) -> Vec<Hop> {
        let lines: Lines<'_> = lines.iter().map(|line| line.as_bytes()).collect();
        forwarded(&lines).collect()
    }

    fn hop(entry: &str) -> Hop {
        element(entry.as_bytes())
    }

    fn known(address: &str, port: Option<u16>) -> Hop {
        Hop::Known(ForwardedElement {
            address: Some(address.parse().unwrap()),
            port,
            ..ForwardedElement::default()
        })
    }

    #[test]
    fn the_examples_of_the_standard_are_understood() {
        assert_eq!(hop("for=192.0.2.43"), known("192.0.2.43", None));
        assert_eq!(hop(r#"For="[2001:db8:cafe::17]:4711""#), known("2001:db8:cafe::17", Some(4711)));
        assert_eq!(hop(r#"for="[2001:db8:cafe::17]""#), known("2001:db8:cafe::17", None));
        assert_eq!(hop(r#"for="192.0.2.43:47011""#), known("192.0.2.43", Some(47_011)));
        assert_eq!(hop(r#"for="192.0.2.43:_port""#), known("192.0.2.43", None));
        let hidden = ForwardedElement { https: Some(false), ..ForwardedElement::default() };
        assert_eq!(hop("for=_gazonk;proto=http;by=203.0.113.43"), Hop::Known(hidden.clone()));
        assert_eq!(hop("for=unknown;proto=HTTP"), Hop::Known(hidden.clone()));
        assert_eq!(hop(";for=unknown;; proto=http;"), Hop::Known(hidden.clone()));
        assert_eq!(hop(r#"for="_SEVKISEK:_x" ; proto=http"#), Hop::Known(hidden));
        let full = ForwardedElement {
            address: Some("192.0.2.60".parse().unwrap()),
            port: None,
            https: Some(true),
            host: Some(b"example.com:8443".to_vec()),
        };
        assert_eq!(hop(r#"for=192.0.2.60;proto=https;host="example.com:8443";x="a,\";b""#), Hop::Known(full));
    }

    #[test]
    fn an_entry_with_anything_unreadable_is_unreadable_as_a_whole() {
        for entry in [
            "",
            "for",
            "for=",
            "=1.2.3.4",
            "for = 1.2.3.4",
            "for=1.2.3.4 proto=http",
            "for=1.2.3.4;for=5.6.7.8",
            "for=1.2.3.4;proto=ftp",
            "for=1.2.3.4;host=\"a b\"",
            "for=1.2.3.4;host=\"\"",
            "for=1.2.3",
            "for=01.2.3.4",
            "for=1.2.3.4:99999",
            "for=1.2.3.4:",
            "for=1.2.3.4:000080",
            "for=\"[::1\"",
            "for=\"[1.2.3.4]\"",
            "for=\"[::1]x\"",
            "for=\"[fe80::1%25eth0]\"",
            "for=\"1.2.3.4",
            "for=\"1.2.3.4\\",
            "for=\"1.2.3.4\"x",
            "for=_",
            "for=_a b",
            "for=localhost",
            "for=1.2.3.4/8",
        ] {
            assert_eq!(hop(entry), Hop::Unreadable, "{entry}");
        }
    }

    #[test]
    fn entries_come_from_the_right_across_lines() {
        let all = hops(&["for=1.1.1.1, for=2.2.2.2", "for=3.3.3.3"]);
        assert_eq!(all, [known("3.3.3.3", None), known("2.2.2.2", None), known("1.1.1.1", None)]);
    }

    #[test]
    fn entries_to_the_left_cannot_change_that_of_the_nearest_proxy() {
        for left in
            ["for=\"", "\"\"\"", "for=\"\\", "for=\"a, for=6.6.6.6", ",,", "\\", "for=\"x\\\"", "\\\""]
        {
            let all = hops(&[&format!(r#"{left}, for="[2001:db8::1]:9""#)]);
            assert_eq!(all[0], known("2001:db8::1", Some(9)), "{left}");
            assert!(all[1..].contains(&Hop::Unreadable), "{left}");
        }
    }

    #[test]
    fn commas_and_semicolons_in_quotes_separate_nothing() {
        assert_eq!(hops(&[r#"for=1.1.1.1;x="a;b,c\"d,", for=2.2.2.2"#]).len(), 2);
    }

    #[test]
    fn the_older_list_has_addresses_in_all_their_spellings() {
        let lines: Lines<'_> =
            vec![b"garbage, 1.1.1.1:80", b"2001:db8::1,[2001:db8::2], [2001:db8::3]:443 ,\t::ffff:4.4.4.4"];
        let all: Vec<Hop> = x_forwarded_for(&lines).collect();
        assert_eq!(
            all,
            [
                known("4.4.4.4", None),
                known("2001:db8::3", Some(443)),
                known("2001:db8::2", None),
                known("2001:db8::1", None),
                known("1.1.1.1", Some(80)),
                Hop::Unreadable,
            ]
        );
        for entry in ["", "unknown", "_x", "1.2.3.4, ", "a", "1.2.3.4 5.6.7.8", "\"1.2.3.4\"", "1.2.3.4:x"] {
            let lines: Lines<'_> = vec![entry.as_bytes()];
            assert_eq!(x_forwarded_for(&lines).next(), Some(Hop::Unreadable), "{entry}");
        }
    }

    #[test]
    fn lists_beside_it_are_read_at_the_same_place_or_at_their_left_end() {
        let lines: [&[u8]; 2] = [b"a, b", b"c"];
        let all: Vec<_> = (0..5).map(|place| beside(&lines, place).unwrap()).collect();
        assert_eq!(all, [b"c", b"b", b"a", b"a", b"a"]);
        assert_eq!(beside(&[], 0), None);
    }

    #[test]
    fn schemes_hosts_and_ports_are_checked() {
        assert_eq!((scheme(b"HTTPS"), scheme(b"http"), scheme(b"wss")), (Some(true), Some(false), None));
        assert_eq!((host(b"a.b:1"), host(b""), host(b"a/b")), (Some(&b"a.b:1"[..]), None, None));
        assert_eq!((port(b"443"), port(b"0"), port(b"65536"), port(b"x")), (Some(443), None, None, None));
    }
}
