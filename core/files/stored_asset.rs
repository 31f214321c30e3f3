//! The bytes of a stored response as an asset, and its representation for a client.
//!
//! A stored response is sent like a file: conditions, ranges, `HEAD` and content codings are handled by the same code.
//! Its fields are those of the response; a field that describes the bytes is that of the variant that is sent.

use std::time::SystemTime;

use bytes::Bytes;

use super::asset::{Asset, Content, Copies, Variant};
use super::conditions::Asked;
use super::representation::{Representation, respond};
use crate::http::token::{list, list_contains};
use crate::http::{Coding, Fields, Head, parse_date};
use crate::limits::{CODED_BYTES_MIN, CODED_FILE_BYTES_MAX};

/// The bytes of a stored response, and their metadata.
#[derive(Clone, Debug)]
pub struct StoredBody<'a> {
    /// The bytes, as the script has written them.
    pub bytes: Bytes,
    /// The fields of the response.
    pub fields: &'a Fields,
    /// Whether its status permits a content coding.
    pub is_codable: bool,
    /// The codings of copies, in order of preference.
    pub codings: &'a [Coding],
    /// Whether a media type is compressible.
    pub is_compressible: fn(&[u8]) -> bool,
}

/// The fields that a 304 does not repeat: they describe the bytes that it does not send.
const OF_THE_BODY: [&[u8]; 5] =
    [b"content-encoding", b"content-language", b"content-length", b"content-range", b"content-type"];

impl Asset {
    /// Makes the asset of a stored response.
    pub fn of_response(body: StoredBody<'_>) -> Self {
        let StoredBody { bytes, fields, is_codable, codings, is_compressible } = body;
        let length = bytes.len() as u64;
        let cache_control = fields
            .iter()
            .filter(|(name, _)| name.eq_ignore_ascii_case(b"cache-control"))
            .map(|(_, value)| value);
        let is_codable = is_codable
            && !codings.is_empty()
            && (CODED_BYTES_MIN..=CODED_FILE_BYTES_MAX).contains(&length)
            && !fields.contains(b"content-encoding")
            && !fields.contains(b"content-range")
            && fields.get(b"content-type").is_some_and(is_compressible)
            && !list_contains(cache_control, b"no-transform");
        let mut fields = fields.clone();
        if is_codable {
            add_vary(&mut fields);
        }
        let mut validators = Fields::new();
        for (name, value) in &fields {
            if !OF_THE_BODY.iter().any(|of_body| name.eq_ignore_ascii_case(of_body)) {
                // It was a valid field before.
                let _ = validators.push(name, value);
            }
        }
        fields.shrink_to_fit();
        validators.shrink_to_fit();
        let tag =
            fields.get(b"etag").map(|tag| String::from_utf8_lossy(tag).into_owned()).unwrap_or_default();
        let plain = Variant {
            coding: None,
            content: Content::Memory(bytes),
            length,
            validators,
            tag,
            stamp: None,
            modified: modified(&fields),
            fields,
        };
        let copies = is_codable.then(|| Copies::new(codings.to_vec(), length));
        Self { plain, neighbours: Vec::new(), copies, content_type: "", is_settled: true }
    }

    /// Returns the bytes of a stored response.
    pub fn stored_bytes(&self) -> Option<Bytes> {
        if let Content::Memory(bytes) = &self.plain.content { Some(bytes.clone()) } else { None }
    }

    /// Takes over the copies of another asset with the same bytes.
    pub fn adopt_copies(&self, other: &Self) {
        for variant in other.coded() {
            if let (Some(coding), Content::Memory(bytes)) = (variant.coding, &variant.content)
                && self.take_order(coding)
            {
                self.keep(coding, Some(bytes.clone()));
            }
        }
    }
}

/// Determines the response to a request for a stored response with this `status`. Conditions and ranges apply to 200
/// only.
pub fn represent_stored(
    asset: &Asset,
    head: &Head,
    status: u16,
    boundary: impl FnOnce() -> String,
) -> Representation {
    let mut asked = Asked::of(head);
    asked.condition &= status == 200;
    asked.range &= status == 200;
    let content_type =
        asset.plain.fields.get(b"content-type").map(String::from_utf8_lossy).unwrap_or_default();
    let mut shown = respond(asset, head, asked, &content_type, boundary);
    if shown.status == 200 {
        shown.status = status;
    }
    shown
}

/// Returns when a response was modified: its `Last-Modified`, else its date (RFC 9111, section 4.3.2).
fn modified(fields: &Fields) -> Option<SystemTime> {
    fields.get(b"last-modified").or_else(|| fields.get(b"date")).and_then(parse_date)
}

/// Adds `Accept-Encoding` to `Vary`, in one field.
fn add_vary(fields: &mut Fields) {
    let values = fields.iter().filter(|(name, _)| name.eq_ignore_ascii_case(b"vary"));
    let mut members: Vec<&[u8]> = values.flat_map(|(_, value)| list(value)).collect();
    if members.iter().any(|member| *member == b"*" || member.eq_ignore_ascii_case(b"accept-encoding")) {
        return;
    }
    members.push(b"Accept-Encoding");
    let joined = members.join(&b", "[..]);
    fields.set_own(b"Vary", &joined);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::{HeadLimits, Parsed, parse};

    const TEXT: &[u8] = b"0123456789";

    fn fields(lines: &[(&str, &str)]) -> Fields {
        let mut fields = Fields::new();
        for (name, value) in lines {
            fields.push(name.as_bytes(), value.as_bytes()).unwrap();
        }
        fields
    }

    fn asset(bytes: &[u8], fields: &Fields) -> Asset {
        let bytes = Bytes::copy_from_slice(bytes);
        let is_compressible = |media_type: &[u8]| media_type.starts_with(b"text/");
        Asset::of_response(StoredBody {
            bytes,
            fields,
            is_codable: true,
            codings: &Coding::ALL,
            is_compressible,
        })
    }

    fn shown(asset: &Asset, status: u16, lines: &str) -> Representation {
        let text = format!("GET / HTTP/1.1\r\nHost: h\r\n{lines}\r\n");
        let Ok(Parsed::Complete { head, .. }) = parse(text.as_bytes(), HeadLimits::main_port()) else {
            panic!("{lines}")
        };
        represent_stored(asset, &head, status, || "b".to_owned())
    }

    #[test]
    fn ranges_and_conditions_are_those_of_files() {
        let asset = asset(TEXT, &fields(&[("ETag", "\"a\""), ("Content-Type", "text/plain"), ("X-A", "1")]));
        let whole = shown(&asset, 200, "");
        assert_eq!((whole.status, whole.length, whole.fields.get(b"x-a")), (200, Some(10), Some(&b"1"[..])));
        let part = shown(&asset, 200, "Range: bytes=1-2\r\n");
        assert_eq!((part.status, part.length), (206, Some(2)));
        assert_eq!(part.fields.get(b"content-range"), Some(&b"bytes 1-2/10"[..]));
        let same = shown(&asset, 200, "If-None-Match: W/\"a\"\r\n");
        assert_eq!(
            (same.status, same.fields.get(b"etag"), same.fields.get(b"content-type")),
            (304, Some(&b"\"a\""[..]), None)
        );
        assert_eq!(shown(&asset, 200, "If-Match: \"b\"\r\n").status, 412);
        assert_eq!(shown(&asset, 404, "If-None-Match: \"a\"\r\nRange: bytes=0-1\r\n").status, 404);
    }

    #[test]
    fn without_validators_the_date_counts() {
        let date = "Sun, 06 Nov 1994 08:49:37 GMT";
        let asset = asset(TEXT, &fields(&[("Date", date)]));
        assert_eq!(shown(&asset, 200, &format!("If-Modified-Since: {date}\r\n")).status, 304);
        assert_eq!(shown(&asset, 200, "If-Modified-Since: Sun, 06 Nov 1994 08:49:36 GMT\r\n").status, 200);
        assert_eq!(shown(&asset, 200, "If-None-Match: \"\"\r\n").status, 200);
        assert_eq!(shown(&asset, 200, "Range: bytes=0-0\r\n").status, 206);
    }

    #[test]
    fn a_copy_is_coded_once_and_kept_by_its_successor() {
        let text = vec![b'a'; 1000];
        let lines = fields(&[("Content-Type", "text/html"), ("Vary", "Cookie")]);
        let first = asset(&text, &lines);
        let plain = shown(&first, 200, "Accept-Encoding: gzip\r\n");
        assert_eq!((plain.length, plain.order), (Some(1000), Some(Coding::Gzip)));
        assert_eq!(plain.fields.get(b"vary"), Some(&b"Cookie, Accept-Encoding"[..]));
        assert_eq!(shown(&first, 200, "Accept-Encoding: gzip\r\n").order, None, "it is being made");
        first.keep(Coding::Gzip, Some(Bytes::from_static(b"small")));
        let second = asset(&text, &lines);
        second.adopt_copies(&first);
        for asset in [&first, &second] {
            let coded = shown(asset, 200, "Accept-Encoding: gzip\r\n");
            assert_eq!((coded.length, coded.order, coded.fields.contains(b"etag")), (Some(5), None, false));
            assert_eq!(coded.fields.get(b"content-encoding"), Some(&b"gzip"[..]));
        }
    }

    #[test]
    fn content_that_the_script_encoded_or_protected_is_unchanged() {
        let text = vec![b'a'; 1000];
        for line in [("Content-Encoding", "br"), ("Cache-Control", "max-age=9, no-transform")] {
            let asset = asset(&text, &fields(&[("Content-Type", "text/html"), line]));
            let shown = shown(&asset, 200, "Accept-Encoding: gzip\r\n");
            assert!(shown.order.is_none() && !shown.fields.contains(b"vary"), "{line:?}");
        }
    }
}
