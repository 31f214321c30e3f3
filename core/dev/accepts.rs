//! Whether a client is a program that reads JSON, or a browser.

use crate::http::Head;
use crate::http::token::list;

/// Returns whether the client accepts JSON by name and does not accept HTML by name. `*/*` names neither: clients that
/// ask for JSON append it by habit, and a browser always names HTML.
pub(super) fn only_json(head: &Head) -> bool {
    let (mut has_json, mut has_html) = (false, false);
    for range in head.header_values("accept").flat_map(list) {
        let mut parts = range.split(|&byte| byte == b';').map(<[u8]>::trim_ascii);
        let media_type = parts.next().unwrap_or_default().to_ascii_lowercase();
        if parts.any(is_refusal) {
            continue;
        }
        has_json |= media_type == b"application/json"
            || (media_type.starts_with(b"application/") && media_type.ends_with(b"+json"));
        has_html |= matches!(&media_type[..], b"text/html" | b"text/*" | b"application/xhtml+xml");
    }
    has_json && !has_html
}

/// Returns whether the parameter is a weight of zero.
fn is_refusal(parameter: &[u8]) -> bool {
    let weight = parameter.strip_prefix(b"q=").or_else(|| parameter.strip_prefix(b"Q="));
    weight.is_some_and(|weight| {
        weight.first() == Some(&b'0') && weight.iter().all(|byte| matches!(byte, b'0' | b'.'))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::{HeadReader, Parsed};

    fn asks(accept: &str) -> bool {
        let text = format!("GET / HTTP/1.1\r\nHost: a\r\n{accept}\r\n");
        match HeadReader::default().read(text.as_bytes()) {
            Ok(Parsed::Complete { head, .. }) => only_json(&head),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn programs_get_json_and_browsers_html() {
        for (accept, is_json) in [
            ("", false),
            ("Accept: */*\r\n", false),
            ("Accept: text/plain\r\n", false),
            ("Accept: application/json\r\n", true),
            ("Accept: Application/JSON; charset=utf-8\r\n", true),
            ("Accept: application/json, text/plain, */*\r\n", true),
            ("Accept: application/problem+json\r\n", true),
            ("Accept: application/vnd.api+json;q=0.5\r\n", true),
            ("Accept: application/json, text/html\r\n", false),
            ("Accept: text/html,application/xhtml+xml,application/json;q=0.9,*/*;q=0.8\r\n", false),
            ("Accept: application/json, text/html;q=0\r\n", true),
            ("Accept: application/json, text/html;q=0.000\r\n", true),
            ("Accept: application/json;q=0\r\n", false),
            ("Accept: application/json;q=0.01\r\n", true),
            ("Accept: application/json\r\nAccept: text/html\r\n", false),
            ("Accept: application/jsonx\r\n", false),
            ("Accept: ,;,\r\n", false),
        ] {
            assert_eq!(asks(accept), is_json, "{accept}");
        }
    }
}
