//! Serializes responses of HTTP/1: heads with their framing, chunks, and informational responses.
//!
//! Only the server frames a message (RFC 9112, section 6): `Content-Length`, `Transfer-Encoding` and `Connection` of a
//! script are dropped, and HTTP/1.0 clients get no chunked coding. The caller sends or omits the body according to the
//! head.

use super::fields::Fields;
use super::head::Version;
use super::status::{is_bodiless, reason};
use super::token::is_value_byte;

/// The contents of a response header, except for the framing.
#[derive(Clone, Copy, Debug)]
pub struct ResponseHead<'a> {
    /// The status code, 200 to 999; other codes are sent as 500.
    pub status: u16,
    /// A reason phrase set by the script; if it contains control bytes, the standard one is used.
    pub reason: Option<&'a [u8]>,
    /// The header fields.
    pub fields: &'a Fields,
}

/// How the body of a response is delimited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Framing {
    /// `Content-Length`.
    Length(u64),
    /// The chunked transfer coding; only for HTTP/1.1.
    Chunked,
    /// The end of the connection.
    UntilClose,
    /// No body, and no length is announced.
    None,
}

/// The persistence of the connection after the response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Persistence {
    /// It stays open for another request.
    Keep,
    /// It is closed.
    Close,
}

/// The end of each chunk's data.
pub const CHUNK_END: &[u8] = b"\r\n";

/// The last chunk and an empty trailer section.
pub const LAST_CHUNK: &[u8] = b"0\r\n\r\n";

/// The interim response that asks for the body.
pub const CONTINUE: &[u8] = b"HTTP/1.1 100 Continue\r\n\r\n";

impl Framing {
    /// Chooses the framing of the body: by its length if that is known, otherwise according to the client's version.
    ///
    /// For a response without a body, the result determines what is announced: a `HEAD` response with a known length
    /// announces it.
    pub fn choose(status: u16, length: Option<u64>, version: Version, head_only: bool) -> Self {
        match length {
            _ if is_bodiless(status) => Self::None,
            Some(length) => Self::Length(length),
            None if head_only => Self::None,
            None if version == Version::Http10 => Self::UntilClose,
            None => Self::Chunked,
        }
    }
}

/// Appends the response header for a request of `version`, with the date `date` unless the fields contain a `Date`.
///
/// A status without a body announces none, regardless of `framing` (304 may announce a length). A body that is
/// delimited by the end of the connection closes it, regardless of `connection`.
pub fn encode_head(
    out: &mut Vec<u8>,
    head: &ResponseHead<'_>,
    framing: Framing,
    connection: Persistence,
    version: Version,
    date: &[u8],
) {
    debug_assert!(framing != Framing::Chunked || version != Version::Http10, "HTTP/1.0 knows no chunks");
    let status = if (200..=999).contains(&head.status) { head.status } else { 500 };
    out.reserve(head.fields.as_bytes().len() + 192);
    status_line(out, status, head.reason);
    if append_fields(out, head.fields) == DateSeen::No {
        out.extend_from_slice(b"Date: ");
        out.extend_from_slice(date);
        out.extend_from_slice(b"\r\n");
    }
    append_framing(out, status, framing);
    let connection = if framing == Framing::UntilClose { Persistence::Close } else { connection };
    match (connection, version) {
        (Persistence::Close, _) => out.extend_from_slice(b"Connection: close\r\n"),
        (Persistence::Keep, Version::Http10) => out.extend_from_slice(b"Connection: keep-alive\r\n"),
        (Persistence::Keep, _) => {}
    }
    out.extend_from_slice(b"\r\n");
}

/// Appends an interim response, such as 103 with its `Link` fields.
pub fn encode_interim(out: &mut Vec<u8>, status: u16, fields: &Fields) {
    debug_assert!((100..200).contains(&status) && status != 101, "{status} is not interim");
    status_line(out, status, None);
    append_fields(out, fields);
    out.extend_from_slice(b"\r\n");
}

/// Appends the line that precedes the data of a chunk; the data and [`CHUNK_END`] follow. `length` must be above 0.
pub fn chunk_start(out: &mut Vec<u8>, length: usize) {
    debug_assert!(length > 0, "an empty chunk ends the body");
    let digits = (usize::BITS - length.leading_zeros()).div_ceil(4).max(1);
    for place in (0..digits).rev() {
        out.push(HEX[length >> (4 * place) & 0xf]);
    }
    out.extend_from_slice(b"\r\n");
}

/// Appends a complete chunk. Without data, nothing is appended, because an empty chunk would end the body.
pub fn chunk(out: &mut Vec<u8>, data: &[u8]) {
    if data.is_empty() {
        return;
    }
    out.reserve(data.len() + 20);
    chunk_start(out, data.len());
    out.extend_from_slice(data);
    out.extend_from_slice(CHUNK_END);
}

/// Returns whether a field is connection-specific or determines the framing, which only the server may set.
pub fn is_server_field(name: &[u8]) -> bool {
    match name.len() {
        2 => name.eq_ignore_ascii_case(b"te"),
        7 => name.eq_ignore_ascii_case(b"upgrade") || name.eq_ignore_ascii_case(b"trailer"),
        10 => name.eq_ignore_ascii_case(b"connection") || name.eq_ignore_ascii_case(b"keep-alive"),
        14 => name.eq_ignore_ascii_case(b"content-length"),
        16 => name.eq_ignore_ascii_case(b"proxy-connection"),
        17 => name.eq_ignore_ascii_case(b"transfer-encoding"),
        _ => false,
    }
}

const HEX: &[u8; 16] = b"0123456789abcdef";

#[derive(PartialEq, Eq)]
enum DateSeen {
    No,
    Yes,
}

fn status_line(out: &mut Vec<u8>, status: u16, phrase: Option<&[u8]>) {
    let phrase = phrase
        .filter(|phrase| phrase.iter().all(|&byte| is_value_byte(byte)))
        .unwrap_or_else(|| reason(status).as_bytes());
    out.extend_from_slice(b"HTTP/1.1 ");
    out.extend_from_slice(itoa::Buffer::new().format(status).as_bytes());
    out.push(b' ');
    out.extend_from_slice(phrase);
    out.extend_from_slice(b"\r\n");
}

/// Copies the fields of a script, in one piece if the server owns none of them.
fn append_fields(out: &mut Vec<u8>, fields: &Fields) -> DateSeen {
    let mut seen = DateSeen::No;
    let (lines, mut kept, mut end) = (fields.as_bytes(), 0, 0);
    for (name, line) in fields.lines() {
        let is_date = name.eq_ignore_ascii_case(b"date");
        if is_server_field(name) || (is_date && seen == DateSeen::Yes) {
            out.extend_from_slice(&lines[kept..end]);
            kept = end + line.len();
        } else if is_date {
            seen = DateSeen::Yes;
        }
        end += line.len();
    }
    out.extend_from_slice(&lines[kept..end]);
    seen
}

fn append_framing(out: &mut Vec<u8>, status: u16, framing: Framing) {
    match framing {
        Framing::Length(length) if !is_bodiless(status) || status == 304 => {
            out.extend_from_slice(b"Content-Length: ");
            out.extend_from_slice(itoa::Buffer::new().format(length).as_bytes());
            out.extend_from_slice(b"\r\n");
        }
        Framing::Chunked if !is_bodiless(status) => out.extend_from_slice(b"Transfer-Encoding: chunked\r\n"),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const DATE: &[u8] = b"Sun, 06 Nov 1994 08:49:37 GMT";

    fn fields(list: &[(&str, &str)]) -> Fields {
        let mut fields = Fields::new();
        for (name, value) in list {
            fields.push(name.as_bytes(), value.as_bytes()).unwrap();
        }
        fields
    }

    fn encoded(
        status: u16,
        list: &[(&str, &str)],
        framing: Framing,
        keep: Persistence,
        version: Version,
    ) -> String {
        let fields = fields(list);
        let mut out = Vec::new();
        encode_head(
            &mut out,
            &ResponseHead { status, reason: None, fields: &fields },
            framing,
            keep,
            version,
            DATE,
        );
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn a_plain_answer_has_date_and_length() {
        let text = encoded(200, &[("X", "y")], Framing::Length(12), Persistence::Keep, Version::Http11);
        assert_eq!(
            text,
            "HTTP/1.1 200 OK\r\nX: y\r\nDate: Sun, 06 Nov 1994 08:49:37 GMT\r\nContent-Length: 12\r\n\r\n"
        );
    }

    #[test]
    fn the_connection_is_announced_where_it_is_not_the_default() {
        let with = |framing, keep, version| encoded(200, &[], framing, keep, version);
        let length = Framing::Length(0);
        assert!(with(length, Persistence::Close, Version::Http11).contains("\r\nConnection: close\r\n"));
        assert!(with(length, Persistence::Close, Version::Http10).contains("\r\nConnection: close\r\n"));
        assert!(with(length, Persistence::Keep, Version::Http10).contains("\r\nConnection: keep-alive\r\n"));
        assert!(!with(length, Persistence::Keep, Version::Http11).contains("Connection"));
        let until_close = with(Framing::UntilClose, Persistence::Keep, Version::Http11);
        assert!(until_close.contains("\r\nConnection: close\r\n") && !until_close.contains("Content-Length"));
    }

    #[test]
    fn framing_and_connection_fields_of_scripts_are_dropped() {
        let script = [
            ("Content-Length", "99"),
            ("transfer-encoding", "chunked"),
            ("Connection", "keep-alive"),
            ("Keep-Alive", "timeout=5"),
            ("Upgrade", "x"),
            ("Trailer", "x"),
            ("TE", "x"),
            ("Proxy-Connection", "x"),
            ("X-Kept", "1"),
        ];
        let text = encoded(200, &script, Framing::Length(3), Persistence::Keep, Version::Http11);
        let expected = format!(
            "HTTP/1.1 200 OK\r\nX-Kept: 1\r\nDate: {}\r\nContent-Length: 3\r\n\r\n",
            String::from_utf8_lossy(DATE)
        );
        assert_eq!(text, expected);
    }

    #[test]
    fn a_date_of_the_script_is_the_only_one() {
        let text =
            encoded(200, &[("date", "a"), ("Date", "b")], Framing::None, Persistence::Keep, Version::Http11);
        assert_eq!(text, "HTTP/1.1 200 OK\r\ndate: a\r\n\r\n");
    }

    #[test]
    fn bodiless_answers_announce_nothing_but_304_may_tell_a_length() {
        for framing in [Framing::Length(5), Framing::Chunked] {
            let text = encoded(204, &[], framing, Persistence::Keep, Version::Http11);
            assert!(!text.contains("Content-Length") && !text.contains("Transfer-Encoding"), "{text}");
        }
        let text = encoded(304, &[], Framing::Length(5), Persistence::Keep, Version::Http11);
        assert!(text.contains("Content-Length: 5"), "{text}");
    }

    #[test]
    fn phrases_are_the_scripts_the_usual_or_empty() {
        let line = |status, reason| {
            let mut out = Vec::new();
            status_line(&mut out, status, reason);
            String::from_utf8(out).unwrap()
        };
        assert_eq!(line(404, Some(&b"Nope"[..])), "HTTP/1.1 404 Nope\r\n");
        assert_eq!(line(404, Some(b"a\r\nX: y")), "HTTP/1.1 404 Not Found\r\n");
        assert_eq!(line(599, None), "HTTP/1.1 599 \r\n");
        assert_eq!(line(529, None), "HTTP/1.1 529 Site is overloaded\r\n");
    }

    #[test]
    fn a_status_that_cannot_end_an_exchange_becomes_500() {
        for status in [0, 99, 100, 199, 1000, u16::MAX] {
            let text = encoded(status, &[], Framing::Length(0), Persistence::Keep, Version::Http11);
            assert!(text.starts_with("HTTP/1.1 500 "), "{status}: {text}");
        }
    }

    #[test]
    fn interim_answers_have_neither_date_nor_framing() {
        let mut out = Vec::new();
        encode_interim(&mut out, 103, &fields(&[("Link", "</a.css>; rel=preload"), ("Content-Length", "3")]));
        assert_eq!(out, b"HTTP/1.1 103 Early Hints\r\nLink: </a.css>; rel=preload\r\n\r\n");
    }

    #[test]
    fn framing_follows_status_length_version_and_method() {
        let choose = Framing::choose;
        assert_eq!(choose(200, Some(3), Version::Http10, false), Framing::Length(3));
        assert_eq!(choose(200, None, Version::Http10, false), Framing::UntilClose);
        assert_eq!(choose(200, None, Version::Http11, false), Framing::Chunked);
        assert_eq!(choose(200, Some(3), Version::Http11, true), Framing::Length(3));
        assert_eq!(choose(200, None, Version::Http11, true), Framing::None);
        assert_eq!(choose(204, Some(3), Version::Http11, false), Framing::None);
        assert_eq!(choose(304, None, Version::Http11, false), Framing::None);
    }

    #[test]
    fn chunk_sizes_are_hexadecimal_without_leading_zeros() {
        for length in [1_usize, 15, 16, 255, 256, 65_536, usize::MAX] {
            let mut out = Vec::new();
            chunk_start(&mut out, length);
            assert_eq!(out, format!("{length:x}\r\n").into_bytes());
        }
    }

    #[test]
    fn an_empty_chunk_is_not_written() {
        let mut out = Vec::new();
        chunk(&mut out, b"");
        assert!(out.is_empty());
    }

    proptest! {
        #[test]
        fn an_encoded_head_reads_back(
            status in 200_u16..1000,
            list in prop::collection::vec(("X-[A-Za-z0-9-]{1,12}", "[!-~]([ -~]{0,30}[!-~])?"), 0..20),
            length in any::<u64>(),
        ) {
            let mut fields = Fields::new();
            for (name, value) in &list {
                fields.push(name.as_bytes(), value.as_bytes()).unwrap();
            }
            let mut out = Vec::new();
            let head = ResponseHead { status, reason: None, fields: &fields };
            encode_head(&mut out, &head, Framing::Length(length), Persistence::Close, Version::Http11, DATE);
            let mut slots = [httparse::EMPTY_HEADER; 32];
            let mut response = httparse::Response::new(&mut slots);
            prop_assert_eq!(response.parse(&out), Ok(httparse::Status::Complete(out.len())));
            prop_assert_eq!(response.code, Some(status));
            let own = usize::from(!is_bodiless(status) || status == 304) + 2;
            prop_assert_eq!(response.headers.len(), list.len() + own);
            for (field, (name, value)) in response.headers.iter().zip(&list) {
                prop_assert_eq!((field.name, field.value), (name.as_str(), value.as_bytes()));
            }
        }
    }
}
