//! The media type of a file, by the ending of its name.
//!
//! Promises: texts say that they are UTF-8; what is not known is bytes. Refuses: it does not look into files.

/// Gives the content type of a file by the ending of its name.
pub fn content_type(path: &[u8]) -> &'static str {
    let name = path.rsplit(|&byte| byte == b'/').next().unwrap_or_default();
    let ending = name
        .iter()
        .rposition(|&byte| byte == b'.')
        .and_then(|dot| std::str::from_utf8(&name[dot + 1..]).ok());
    let guess = ending.and_then(|ending| mime_guess::from_ext(ending).first_raw());
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_follow_the_ending_in_any_letter_case() {
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
