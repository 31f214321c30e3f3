//! A plugin's configuration and its pages, checked.
//!
//! Promises: what is in the configuration report is a JSON object of bounded size; a page has a status that ends an
//! exchange, a content type that is a field value, and a body of bounded size. Refuses: it does not look at what they
//! say.

use serde_json::{Map, Value};

use crate::limits::{PLUGIN_CONFIG_BYTES_MAX, PLUGIN_PAGE_BYTES_MAX};

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
    /// Why it cannot be sent.
    pub fn checked(status: i64, content_type: &[u8], body: Vec<u8>) -> Result<Self, String> {
        let status = u16::try_from(status).ok().filter(|status| (200..600).contains(status));
        let status = status.ok_or("the status is not between 200 and 599")?;
        let is_plain = |byte: &u8| byte.is_ascii_graphic() || *byte == b' ';
        let is_type = (1..=TYPE_BYTES_MAX).contains(&content_type.len())
            && content_type.contains(&b'/')
            && content_type.trim_ascii() == content_type
            && content_type.iter().all(is_plain);
        if !is_type {
            return Err("the content type is not valid".to_owned());
        }
        if body.len() > PLUGIN_PAGE_BYTES_MAX {
            return Err(format!("the body is longer than {PLUGIN_PAGE_BYTES_MAX} bytes"));
        }
        Ok(Self { status, content_type: String::from_utf8_lossy(content_type).into_owned(), body })
    }
}

/// The maximum length of a content type.
const TYPE_BYTES_MAX: usize = 256;

/// Checks what a plugin shows of its configuration.
pub(super) fn config_object(json: &[u8]) -> Result<Map<String, Value>, String> {
    if json.len() > PLUGIN_CONFIG_BYTES_MAX {
        return Err(format!("the configuration is longer than {PLUGIN_CONFIG_BYTES_MAX} bytes"));
    }
    match serde_json::from_slice(json) {
        Ok(Value::Object(object)) => Ok(object),
        Ok(_) => Err("the configuration is not a JSON object".to_owned()),
        Err(error) => Err(format!("the configuration is not valid JSON: {error}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_has_a_status_a_type_and_a_bounded_body() {
        let page = PluginPage::checked(404, b"text/html; charset=utf-8", b"<p>".to_vec()).unwrap();
        assert_eq!((page.status, page.content_type.as_str()), (404, "text/html; charset=utf-8"));
        for status in [0, -1, 100, 101, 199, 600, 65_736, i64::MAX] {
            assert!(PluginPage::checked(status, b"text/plain", Vec::new()).is_err(), "{status}");
        }
        for wrong in
            [&b""[..], b"text", b"text/plain\r\nX: y", b"text/plain\n", b" text/plain", b"text/\xff", b"a/\0"]
        {
            assert!(PluginPage::checked(200, wrong, Vec::new()).is_err(), "{wrong:?}");
        }
        assert!(PluginPage::checked(200, &[b'/'; 257], Vec::new()).is_err());
        assert!(PluginPage::checked(200, b"a/b", vec![0; PLUGIN_PAGE_BYTES_MAX]).is_ok());
        assert!(PluginPage::checked(200, b"a/b", vec![0; PLUGIN_PAGE_BYTES_MAX + 1]).is_err());
    }

    #[test]
    fn a_configuration_is_a_bounded_object() {
        assert_eq!(config_object(br#"{"path": "/"}"#).unwrap()["path"], "/");
        for wrong in [&b""[..], b"[]", b"1", b"{", b"{} x", b"{\"a\": \"\xff\"}", b"null"] {
            assert!(config_object(wrong).is_err(), "{wrong:?}");
        }
        let deep = "{\"a\":".repeat(10_000);
        assert!(config_object(deep.as_bytes()).is_err());
        let long = |length: usize| format!("{{\"a\":\"{}\"}}", "x".repeat(length - 8));
        assert!(config_object(long(PLUGIN_CONFIG_BYTES_MAX).as_bytes()).is_ok());
        assert!(config_object(long(PLUGIN_CONFIG_BYTES_MAX + 1).as_bytes()).is_err());
    }
}
