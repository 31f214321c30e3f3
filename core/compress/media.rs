//! Compressible media types.
//!
//! Letter case and parameters are ignored. Unknown types are considered already compressed, like images, archives,
//! audio and video; compressing those costs time without benefit.

use crate::http::token::trim_ows;

/// Returns whether a body of this type is worth compressing.
pub fn is_compressible(content_type: &[u8]) -> bool {
    let essence = trim_ows(content_type.split(|&byte| byte == b';').next().unwrap_or_default());
    let Some(slash) = essence.iter().position(|&byte| byte == b'/') else { return false };
    let (kind, name) = (&essence[..slash], &essence[slash + 1..]);
    if kind.eq_ignore_ascii_case(b"text") {
        return !name.is_empty();
    }
    if [&b"+json"[..], b"+xml", b"+yaml", b"+json-seq"].iter().any(|suffix| ends_with(name, suffix)) {
        return true;
    }
    let Some((_, names)) = KNOWN.iter().find(|(known, _)| kind.eq_ignore_ascii_case(known)) else {
        return false;
    };
    names.iter().any(|known| name.eq_ignore_ascii_case(known))
}

/// The compressible types other than `text`, by the part before the slash. `font/woff` and `font/woff2` are compressed
/// already.
const KNOWN: [(&[u8], &[&[u8]]); 5] = [
    (
        b"application",
        &[
            b"ecmascript",
            b"graphql",
            b"javascript",
            b"json",
            b"json-seq",
            b"jsonl",
            b"manifest",
            b"ndjson",
            b"postscript",
            b"rtf",
            b"sql",
            b"toml",
            b"typescript",
            b"vnd.apple.mpegurl",
            b"vnd.ms-fontobject",
            b"wasm",
            b"x-font-opentype",
            b"x-font-otf",
            b"x-font-truetype",
            b"x-font-ttf",
            b"x-httpd-php",
            b"x-javascript",
            b"x-ndjson",
            b"x-sh",
            b"x-yaml",
            b"xml",
            b"xml-dtd",
            b"yaml",
        ],
    ),
    (b"audio", &[b"midi", b"mpegurl"]),
    (b"font", &[b"collection", b"otf", b"sfnt", b"ttf"]),
    (b"image", &[b"bmp", b"vnd.microsoft.icon", b"x-icon", b"x-ms-bmp"]),
    (b"model", &[b"mtl", b"obj", b"step", b"stl", b"vrml"]),
];

fn ends_with(name: &[u8], suffix: &[u8]) -> bool {
    name.len() > suffix.len() && name[name.len() - suffix.len()..].eq_ignore_ascii_case(suffix)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_data_and_fonts_without_a_coding_of_their_own_shrink() {
        for text in [
            "text/html",
            "text/html; charset=UTF-8",
            "Text/HTML;charset=utf-8",
            " text/css ",
            "text/event-stream",
            "text/x-whatever",
            "application/json",
            "APPLICATION/JSON",
            "application/ld+json",
            "application/problem+JSON; a=b",
            "application/manifest+json",
            "application/javascript",
            "application/x-javascript",
            "text/javascript",
            "application/xml",
            "application/rss+xml",
            "application/xhtml+xml",
            "image/svg+xml",
            "image/SVG+XML",
            "application/wasm",
            "application/x-ndjson",
            "application/vnd.ms-fontobject",
            "font/ttf",
            "font/otf",
            "image/x-icon",
            "image/vnd.microsoft.icon",
            "image/bmp",
            "model/gltf+json",
        ] {
            assert!(is_compressible(text.as_bytes()), "{text}");
        }
    }

    #[test]
    fn compressed_and_unknown_types_do_not() {
        for text in [
            "",
            "text",
            "text/",
            "/",
            "html",
            "image/png",
            "image/jpeg",
            "image/webp",
            "image/avif",
            "image/gif",
            "audio/mpeg",
            "video/mp4",
            "application/zip",
            "application/gzip",
            "application/zstd",
            "application/pdf",
            "application/octet-stream",
            "application/epub+zip",
            "font/woff",
            "font/woff2",
            "application/font-woff",
            "application/+json2",
            "application/+json",
            "multipart/form-data; boundary=text/html",
            "applicationjson",
            "xtext/html",
            "text\u{e9}/html",
        ] {
            assert!(!is_compressible(text.as_bytes()), "{text}");
        }
    }
}
