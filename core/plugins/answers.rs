//! A plugin's configuration and its pages, checked.
//!
//! The configuration report contains a JSON object of bounded size. A page has a final status (200 to 599), a content
//! type that is a valid field value, and a body of bounded size. The meaning of the content is not checked.

use serde_json::{Map, Value};

use svc_types::AnswerRefusal;

use crate::limits::{PLUGIN_CONFIG_BYTES_MAX, PLUGIN_CONFIG_DEPTH_MAX, PLUGIN_PAGE_BYTES_MAX};

/// The configuration that a plugin reports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PluginConfig(Map<String, Value>);

impl PluginConfig {
    /// Parses the configuration, which must be a JSON object.
    ///
    /// # Errors
    ///
    /// If it is not valid JSON, not an object, too long or too deeply nested.
    pub fn checked(json: &[u8]) -> Result<Self, AnswerRefusal> {
        if json.len() > PLUGIN_CONFIG_BYTES_MAX {
            let why = format!("the configuration is longer than {PLUGIN_CONFIG_BYTES_MAX} bytes");
            return Err(AnswerRefusal::too_large(why));
        }
        match serde_json::from_slice(json) {
            Ok(object) if depth_of(&object) > PLUGIN_CONFIG_DEPTH_MAX => {
                let why = format!("the configuration is nested deeper than {PLUGIN_CONFIG_DEPTH_MAX} levels");
                Err(AnswerRefusal::too_large(why))
            }
            Ok(Value::Object(object)) => Ok(Self(object)),
            Ok(_) => Err(AnswerRefusal::invalid("the configuration is not a JSON object")),
            Err(error) => {
                Err(AnswerRefusal::invalid(format!("the configuration is not valid JSON: {error}")))
            }
        }
    }

    /// Returns the object.
    pub(super) fn into_object(self) -> Map<String, Value> {
        self.0
    }
}

/// Returns the nesting depth of objects and arrays. Recursion is safe: the parser limits the depth of its values.
fn depth_of(value: &Value) -> usize {
    let deepest = match value {
        Value::Array(values) => values.iter().map(depth_of).max(),
        Value::Object(members) => members.values().map(depth_of).max(),
        _ => return 0,
    };
    1 + deepest.unwrap_or(0)
}

/// A page of a plugin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PluginPage {
    /// The status code.
    pub status: u16,
    /// The value of `Content-Type`.
    pub content_type: String,
    /// The body.
    pub body: Vec<u8>,
}

impl PluginPage {
    /// Checks a page.
    ///
    /// # Errors
    ///
    /// If the status or the content type is not valid, or the content type or the body is too long.
    pub fn checked(status: i32, content_type: &[u8], body: Vec<u8>) -> Result<Self, AnswerRefusal> {
        let status = u16::try_from(status).ok().filter(|status| (200..600).contains(status));
        let status = status.ok_or_else(|| AnswerRefusal::invalid("the status is not between 200 and 599"))?;
        let too_long = |what: &str, max: usize| {
            Err(AnswerRefusal::too_large(format!("the {what} is longer than {max} bytes")))
        };
        if content_type.len() > TYPE_BYTES_MAX {
            return too_long("content type", TYPE_BYTES_MAX);
        }
        let is_plain = |byte: &u8| byte.is_ascii_graphic() || *byte == b' ';
        let is_type = content_type.contains(&b'/')
            && content_type.trim_ascii() == content_type
            && content_type.iter().all(is_plain);
        if !is_type {
            return Err(AnswerRefusal::invalid("the content type is not valid"));
        }
        if body.len() > PLUGIN_PAGE_BYTES_MAX {
            return too_long("body", PLUGIN_PAGE_BYTES_MAX);
        }
        Ok(Self { status, content_type: String::from_utf8_lossy(content_type).into_owned(), body })
    }
}

/// The maximum length of a content type.
const TYPE_BYTES_MAX: usize = 256;

#[cfg(test)]
mod tests {
    use svc_types::RefusalCode;

    use super::*;

    fn is_invalid<T>(result: &Result<T, AnswerRefusal>) -> bool {
        matches!(result, Err(refusal) if refusal.code == RefusalCode::Invalid)
    }

    fn is_too_large<T>(result: &Result<T, AnswerRefusal>) -> bool {
        matches!(result, Err(refusal) if refusal.code == RefusalCode::TooLarge)
    }

    #[test]
    fn a_page_has_a_status_a_type_and_a_bounded_body() {
        let page = PluginPage::checked(404, b"text/html; charset=utf-8", b"<p>".to_vec()).unwrap();
        assert_eq!((page.status, page.content_type.as_str()), (404, "text/html; charset=utf-8"));
        for status in [0, -1, 100, 101, 199, 600, 65_736, i32::MAX] {
            assert!(is_invalid(&PluginPage::checked(status, b"text/plain", Vec::new())), "{status}");
        }
        for wrong in
            [&b""[..], b"text", b"text/plain\r\nX: y", b"text/plain\n", b" text/plain", b"text/\xff", b"a/\0"]
        {
            assert!(is_invalid(&PluginPage::checked(200, wrong, Vec::new())), "{wrong:?}");
        }
        assert!(is_too_large(&PluginPage::checked(200, &[b'/'; 257], Vec::new())));
        assert!(PluginPage::checked(200, b"a/b", vec![0; PLUGIN_PAGE_BYTES_MAX]).is_ok());
        assert!(is_too_large(&PluginPage::checked(200, b"a/b", vec![0; PLUGIN_PAGE_BYTES_MAX + 1])));
    }

    #[test]
    fn a_configuration_is_a_bounded_object() {
        let config = PluginConfig::checked(br#"{"path": "/"}"#).unwrap();
        assert_eq!(config.into_object()["path"], "/");
        for wrong in [&b""[..], b"[]", b"1", b"{", b"{} x", b"{\"a\": \"\xff\"}", b"null"] {
            assert!(is_invalid(&PluginConfig::checked(wrong)), "{wrong:?}");
        }
        let deep = "{\"a\":".repeat(10_000);
        assert!(is_invalid(&PluginConfig::checked(deep.as_bytes())));
        let nested = |levels: usize| format!("{}1{}", "{\"a\":".repeat(levels), "}".repeat(levels));
        assert!(PluginConfig::checked(nested(PLUGIN_CONFIG_DEPTH_MAX).as_bytes()).is_ok());
        assert!(is_too_large(&PluginConfig::checked(nested(PLUGIN_CONFIG_DEPTH_MAX + 1).as_bytes())));
        assert!(is_too_large(&PluginConfig::checked(
            format!(
                "{{\"a\":{}{}}}",
                "[".repeat(PLUGIN_CONFIG_DEPTH_MAX),
                "]".repeat(PLUGIN_CONFIG_DEPTH_MAX)
            )
            .as_bytes()
        )));
        let long = |length: usize| format!("{{\"a\":\"{}\"}}", "x".repeat(length - 8));
        assert!(PluginConfig::checked(long(PLUGIN_CONFIG_BYTES_MAX).as_bytes()).is_ok());
        assert!(is_too_large(&PluginConfig::checked(long(PLUGIN_CONFIG_BYTES_MAX + 1).as_bytes())));
    }
}
