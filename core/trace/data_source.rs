//! Parses the connection parameters of database clients: keys and values.
//!
//! No part of a value is ever taken for a key, so that no part of a password is recorded. The meaning of keys is not
//! known here.

use std::borrow::Cow;

/// A key and its value.
pub(super) type Pair<'a> = (&'a [u8], Cow<'a, [u8]>);

/// Parses a data source name like most PDO drivers: `host=a;port=1`. In values, `;;` is an escaped semicolon.
pub(super) fn pdo_pairs(source: &[u8]) -> impl Iterator<Item = Pair<'_>> {
    let mut rest = source;
    std::iter::from_fn(move || {
        let end = rest.iter().position(|&byte| byte == b'=')?;
        let key = &rest[..end];
        let (value, behind) = pdo_value(&rest[end + 1..]);
        rest = behind.trim_ascii_start();
        Some((key, value))
    })
}

fn pdo_value(text: &[u8]) -> (Cow<'_, [u8]>, &[u8]) {
    let mut at = 0;
    let mut value = Cow::Borrowed(&text[..0]);
    loop {
        let end = at + text[at..].iter().position(|&byte| byte == b';').unwrap_or(text.len() - at);
        let is_doubled = text.get(end + 1) == Some(&b';');
        let part = &text[at..end + usize::from(is_doubled)];
        if at == 0 {
            value = Cow::Borrowed(part);
        } else {
            value.to_mut().extend_from_slice(part);
        }
        if !is_doubled {
            return (value, text.get(end + 1..).unwrap_or_default());
        }
        at = end + 2;
    }
}

/// Parses parameters like libpq: `host=a port = '1'`, with backslash escapes. Semicolons are separators, too, as in
/// PDO's driver. Stops at the first syntax error, where libpq rejects the text.
pub(super) fn libpq_pairs(source: &[u8]) -> impl Iterator<Item = Pair<'_>> {
    let mut rest = source;
    std::iter::from_fn(move || {
        let text = trim_start(rest);
        let end = text.iter().position(|&byte| byte == b'=' || is_space(byte))?;
        let behind = trim_start(&text[end..]).strip_prefix(b"=")?;
        let (value, behind) = libpq_value(trim_start(behind))?;
        rest = behind;
        Some((&text[..end], value))
    })
}

fn libpq_value(text: &[u8]) -> Option<(Cow<'_, [u8]>, &[u8])> {
    let (is_quoted, text) = text.strip_prefix(b"'").map_or((false, text), |quoted| (true, quoted));
    let is_end = |byte: u8| if is_quoted { byte == b'\'' } else { is_space(byte) };
    let plain = text.iter().position(|&byte| byte == b'\\' || is_end(byte)).unwrap_or(text.len());
    let mut value = Cow::Borrowed(&text[..plain]);
    let mut at = plain;
    while let Some(&byte) = text.get(at) {
        at += 1;
        if is_end(byte) {
            return Some((value, &text[at..]));
        }
        let meant = if byte == b'\\' { text.get(at) } else { Some(&byte) };
        at += usize::from(byte == b'\\');
        value.to_mut().extend(meant);
    }
    (!is_quoted).then_some((value, &[]))
}

fn is_space(byte: u8) -> bool {
    byte.is_ascii_whitespace() || byte == b'\x0b' || byte == b';'
}

fn trim_start(text: &[u8]) -> &[u8] {
    &text[text.iter().position(|&byte| !is_space(byte)).unwrap_or(text.len())..]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs_of<'a>(pairs: impl Iterator<Item = Pair<'a>>) -> Vec<(String, String)> {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        pairs.map(|(key, value)| (text(key), text(&value))).collect()
    }

    fn owned(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
        pairs.iter().map(|&(key, value)| (key.to_owned(), value.to_owned())).collect()
    }

    #[test]
    fn semicolons_separate_the_parameters_of_pdo() {
        for (source, expected) in [
            ("host=db;port=1; dbname=a b", &[("host", "db"), ("port", "1"), ("dbname", "a b")][..]),
            (
                "host=;password=a=b;;dbname=c;;;d=e",
                &[("host", ""), ("password", "a=b;dbname=c;"), ("d", "e")],
            ),
            ("password=x dbname=y", &[("password", "x dbname=y")]),
            ("name;host=a", &[("name;host", "a")]),
            ("a=1;", &[("a", "1")]),
            ("a=1;;", &[("a", "1;")]),
            ("none", &[]),
            ("", &[]),
        ] {
            assert_eq!(pairs_of(pdo_pairs(source.as_bytes())), owned(expected), "{source}");
        }
    }

    #[test]
    fn parameters_of_libpq_are_separated_by_space_that_is_not_in_quotes() {
        for (source, expected) in [
            (" host=db\tport = 1 dbname='a b' ", &[("host", "db"), ("port", "1"), ("dbname", "a b")][..]),
            ("host=db;dbname=x", &[("host", "db"), ("dbname", "x")]),
            (r"password='it\'s dbname=x \\'host=y", &[("password", r"it's dbname=x \"), ("host", "y")]),
            (r"password=a\ dbname=b c=d\", &[("password", "a dbname=b"), ("c", "d")]),
            ("password= 'a' b= ", &[("password", "a"), ("b", "")]),
            ("host=a password='b dbname=c", &[("host", "a")]),
            ("host=a password dbname=c", &[("host", "a")]),
            ("host=a password", &[("host", "a")]),
            ("password=a'b dbname=c", &[("password", "a'b"), ("dbname", "c")]),
            ("", &[]),
        ] {
            assert_eq!(pairs_of(libpq_pairs(source.as_bytes())), owned(expected), "{source}");
        }
    }
}
