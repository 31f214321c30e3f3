//! The media type of a file, by its file name extension.
//!
//! Text types specify UTF-8, except for XML, which specifies its encoding itself; unknown extensions are
//! `application/octet-stream`. Where the library differs from the media type registry, the table in `extensions` takes
//! precedence. The contents of files are not examined.

use super::extensions::{EXTENSION_BYTES_MAX, MEDIA_TYPES};

/// Returns the content type of a file by its extension.
pub fn content_type(path: &[u8]) -> &'static str {
    let name = path.rsplit(|&byte| byte == b'/').next().unwrap_or_default();
    let extension = name
        .iter()
        .rposition(|&byte| byte == b'.')
        .and_then(|dot| std::str::from_utf8(&name[dot + 1..]).ok());
    let guess = extension
        .and_then(|extension| known(extension).or_else(|| mime_guess::from_ext(extension).first_raw()));
    match guess.unwrap_or("application/octet-stream") {
        "text/html" => "text/html; charset=utf-8",
        "text/css" => "text/css; charset=utf-8",
        "text/javascript" | "application/javascript" => "text/javascript; charset=utf-8",
        "text/plain" => "text/plain; charset=utf-8",
        "text/csv" => "text/csv; charset=utf-8",
        "text/markdown" => "text/markdown; charset=utf-8",
        "text/xml" => "text/xml; charset=utf-8",
        "text/calendar" => "text/calendar; charset=utf-8",
        "text/vcard" => "text/vcard; charset=utf-8",
        "text/vtt" => "text/vtt; charset=utf-8",
        other => other,
    }
}

/// Returns the table's entry for an extension (case-insensitive).
fn known(extension: &str) -> Option<&'static str> {
    let mut lower = [0; EXTENSION_BYTES_MAX];
    let lower = lower.get_mut(..extension.len())?;
    lower.copy_from_slice(extension.as_bytes());
    lower.make_ascii_lowercase();
    let at = MEDIA_TYPES.binary_search_by(|(known, _)| known.as_bytes().cmp(lower)).ok()?;
    Some(MEDIA_TYPES[at].1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_sorted_and_repeats_no_entry_of_the_library() {
        assert!(MEDIA_TYPES.windows(2).all(|pair| pair[0].0 < pair[1].0));
        assert_eq!(MEDIA_TYPES.iter().map(|(extension, _)| extension.len()).max(), Some(EXTENSION_BYTES_MAX));
        for (extension, media_type) in MEDIA_TYPES {
            assert!(
                extension.len() <= EXTENSION_BYTES_MAX
                    && extension.bytes().all(|byte| !byte.is_ascii_uppercase()),
                "{extension}"
            );
            assert_ne!(
                mime_guess::from_ext(extension).first_raw(),
                Some(media_type),
                "{extension} needs no entry"
            );
        }
    }

    #[test]
    fn types_are_those_of_the_registry() {
        for (path, expected) in [
            ("/a.WOFF", "font/woff"),
            ("/a.otf", "font/otf"),
            ("/a.ttf", "font/ttf"),
            ("/list.m3u8", "application/vnd.apple.mpegurl"),
            ("/part.ts", "video/mp2t"),
            ("/a.m4a", "audio/mp4"),
            ("/a.mid", "audio/midi"),
            ("/app.js.map", "application/json"),
            ("/a.rpm", "application/x-redhat-package-manager"),
            ("/a.deb", "application/vnd.debian.binary-package"),
            ("/sitemap.xml", "application/xml"),
            ("/a.yml", "application/yaml"),
            ("/a.vcf", "text/vcard; charset=utf-8"),
            ("/favicon.ico", "image/vnd.microsoft.icon"),
            ("/a.cjs", "text/javascript; charset=utf-8"),
            ("/a.svg", "image/svg+xml"),
            ("/a.rss", "application/rss+xml"),
            ("/a.docx", "application/vnd.openxmlformats-officedocument.wordprocessingml.document"),
            ("/a.m4b", "audio/mp4"),
            ("/a.amr", "audio/amr"),
            ("/a.fits", "image/fits"),
            ("/a.jxs", "image/jxs"),
            ("/scan.DCM", "application/dicom"),
            ("/model.3mf", "model/3mf"),
            ("/part.p21", "model/step"),
            ("/tile.mvt", "application/vnd.mapbox-vector-tile"),
            ("/a.osm", "application/vnd.openstreetmap.data+xml"),
            ("/a.pages", "application/vnd.apple.pages"),
            ("/a.vsdx", "application/vnd.visio"),
            ("/a.cab", "application/vnd.ms-cab-compressed"),
            ("/shader.wgsl", "text/wgsl"),
            ("/a.manifest", "text/cache-manifest"),
            ("/feed.atomdeleted", "application/atomdeleted+xml"),
            ("/a.wav", "audio/x-wav"),
            ("/a.dll", "application/octet-stream"),
            ("/a.mkv", "video/matroska"),
            ("/a.flac", "audio/flac"),
            ("/a.c", "text/plain; charset=utf-8"),
        ] {
            assert_eq!(content_type(path.as_bytes()), expected, "{path}");
        }
    }

    #[test]
    fn types_follow_the_extension_in_any_letter_case() {
        for (path, expected) in [
            ("/a.html", "text/html; charset=utf-8"),
            ("/a.HTML", "text/html; charset=utf-8"),
            ("/a.js", "text/javascript; charset=utf-8"),
            ("/a.mjs", "text/javascript; charset=utf-8"),
            ("/a.txt", "text/plain; charset=utf-8"),
            ("/a.json", "application/json"),
            ("/a.svg", "image/svg+xml"),
            ("/a.png", "image/png"),
            ("/a.woff2", "font/woff2"),
            ("/a.wasm", "application/wasm"),
            ("/a.webp", "image/webp"),
            ("/a.avif", "image/avif"),
            ("/a.pdf", "application/pdf"),
            ("/a.b/c", "application/octet-stream"),
            ("/a.", "application/octet-stream"),
            ("/a.nothing-known", "application/octet-stream"),
            ("/LICENSE", "application/octet-stream"),
        ] {
            assert_eq!(content_type(path.as_bytes()), expected, "{path}");
        }
        assert_eq!(content_type(b"/a.\xff"), "application/octet-stream");
    }
}
