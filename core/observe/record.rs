//! One log record as one line of JSON.
//!
//! Whatever the texts contain, the result is one line of valid JSON. Control characters are escaped, invalid UTF-8 is
//! replaced, and long texts are truncated. A record makes no decisions; the event determines which record is written,
//! and with which fields.

use std::time::SystemTime;

use super::timestamp::timestamp;
use crate::limits::LOG_TEXT_BYTES_MAX;

/// A record under construction. Fields appear in the order of the calls.
#[derive(Debug)]
pub struct Record {
    line: Vec<u8>,
}

impl Record {
    /// Begins a record; `message` becomes its first field.
    pub fn begin(at: SystemTime, level: &str, target: &str, message: impl AsRef<[u8]>) -> Self {
        let mut line = Vec::with_capacity(RECORD_BYTES_TYPICAL);
        line.extend_from_slice(br#"{"timestamp":""#);
        line.extend_from_slice(&timestamp(at));
        line.extend_from_slice(br#"","level":""#);
        line.extend_from_slice(level.as_bytes());
        line.extend_from_slice(br#"","target":""#);
        line.extend_from_slice(target.as_bytes());
        line.extend_from_slice(br#"","fields":{"message":"#);
        let mut record = Self { line };
        record.put_text(message.as_ref());
        record
    }

    /// Adds a text, which may contain invalid UTF-8.
    pub fn text(mut self, name: &str, value: impl AsRef<[u8]>) -> Self {
        self.put_name(name);
        self.put_text(value.as_ref());
        self
    }

    /// Adds a text, or `null` if there is none.
    pub fn text_or_null(self, name: &str, value: Option<impl AsRef<[u8]>>) -> Self {
        match value {
            Some(value) => self.text(name, value),
            None => self.null(name),
        }
    }

    /// Adds a number, or `null` if there is none.
    pub fn number_or_null(self, name: &str, value: Option<u64>) -> Self {
        match value {
            Some(value) => self.number(name, value),
            None => self.null(name),
        }
    }

    /// Adds a number.
    pub fn number(mut self, name: &str, value: u64) -> Self {
        self.put_name(name);
        self.line.extend_from_slice(itoa::Buffer::new().format(value).as_bytes());
        self
    }

    /// Adds a boolean.
    pub fn boolean(mut self, name: &str, value: bool) -> Self {
        self.put_name(name);
        self.line.extend_from_slice(if value { b"true" } else { b"false" });
        self
    }

    /// Adds a value that is already JSON. If it is too long or not valid JSON, it is added as text.
    pub fn json(mut self, name: &str, value: &[u8]) -> Self {
        let parsed = serde_json::from_slice::<serde_json::Value>(value);
        let Some(parsed) = parsed.ok().filter(|_| value.len() <= LOG_TEXT_BYTES_MAX) else {
            return self.text(name, value);
        };
        self.put_name(name);
        // Outside of its strings, JSON has nothing to escape; inside them, only these characters are left.
        for character in parsed.to_string().chars() {
            match character {
                '\u{7f}'..='\u{9f}' | '\u{2028}' | '\u{2029}' => {
                    self.line.extend_from_slice(format!("\\u{:04x}", u32::from(character)).as_bytes());
                }
                _ => self.line.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes()),
            }
        }
        self
    }

    /// Ends the record. The line feed is part of the line.
    pub fn end(mut self) -> Vec<u8> {
        self.line.extend_from_slice(b"}}\n");
        self.line
    }

    fn null(mut self, name: &str) -> Self {
        self.put_name(name);
        self.line.extend_from_slice(b"null");
        self
    }

    fn put_name(&mut self, name: &str) {
        self.line.extend_from_slice(b",\"");
        self.line.extend_from_slice(name.as_bytes());
        self.line.extend_from_slice(b"\":");
    }

    fn put_text(&mut self, text: &[u8]) {
        let cut = text.len() > LOG_TEXT_BYTES_MAX;
        let text = if cut { &text[..whole_characters(text)] } else { text };
        self.line.push(b'"');
        for chunk in text.utf8_chunks() {
            self.put_escaped(chunk.valid());
            if !chunk.invalid().is_empty() {
                self.line.extend_from_slice("\u{fffd}".as_bytes());
            }
        }
        if cut {
            self.line.extend_from_slice("…".as_bytes());
        }
        self.line.push(b'"');
    }

    /// Escapes the characters that JSON requires, and those that terminals or line-based readers would interpret.
    fn put_escaped(&mut self, text: &str) {
        let mut plain_from = 0;
        for (at, character) in text.char_indices() {
            let short: &[u8] = match character {
                '"' => b"\\\"",
                '\\' => b"\\\\",
                '\n' => b"\\n",
                '\r' => b"\\r",
                '\t' => b"\\t",
                '\0'..='\u{1f}' | '\u{7f}'..='\u{9f}' | '\u{2028}' | '\u{2029}' => b"",
                _ => continue,
            };
            self.line.extend_from_slice(&text.as_bytes()[plain_from..at]);
            plain_from = at + character.len_utf8();
            if short.is_empty() {
                self.line.extend_from_slice(format!("\\u{:04x}", u32::from(character)).as_bytes());
            } else {
                self.line.extend_from_slice(short);
            }
        }
        self.line.extend_from_slice(&text.as_bytes()[plain_from..]);
    }
}

/// Large enough for most records, so that they are written without growing the buffer.
const RECORD_BYTES_TYPICAL: usize = 512;

/// Returns the longest prefix within the limit that does not split a character.
fn whole_characters(text: &[u8]) -> usize {
    let is_continuation = |byte: u8| byte & 0b1100_0000 == 0b1000_0000;
    (LOG_TEXT_BYTES_MAX - 3..=LOG_TEXT_BYTES_MAX)
        .rev()
        .find(|at| !is_continuation(text[*at]))
        .unwrap_or(LOG_TEXT_BYTES_MAX)
}

#[cfg(test)]
mod tests {
    use std::time::UNIX_EPOCH;

    use super::*;

    fn parsed(record: Record) -> serde_json::Value {
        let line = record.end();
        assert_eq!(line.iter().filter(|byte| **byte == b'\n').count(), 1, "one line");
        assert_eq!(line.last(), Some(&b'\n'));
        serde_json::from_slice(&line).unwrap()
    }

    fn record() -> Record {
        Record::begin(UNIX_EPOCH, "INFO", "svc", "hello")
    }

    #[test]
    fn details_sit_under_fields() {
        let value =
            parsed(record().number("count", 7).text_or_null("none", None::<&str>).boolean("on", true));
        assert_eq!(
            value,
            serde_json::json!({
                "timestamp": "1970-01-01T00:00:00.000000Z", "level": "INFO", "target": "svc",
                "fields": {"message": "hello", "count": 7, "none": null, "on": true},
            })
        );
    }

    #[test]
    fn a_text_cannot_break_out() {
        let hostile = "\"}}\n{\"level\":\"\\ERROR\"\r\t\u{0}\u{1b}[31m\u{7f}\u{85}\u{9b}\u{2028}\u{2029}é😀";
        let line = record().text("path", hostile).end();
        let text = std::str::from_utf8(&line).unwrap().trim_end_matches('\n');
        assert!(!text.contains(|c: char| c.is_control() || c == '\u{2028}' || c == '\u{2029}'));
        let value: serde_json::Value = serde_json::from_str(text).unwrap();
        assert_eq!(value["fields"]["path"], hostile);
    }

    #[test]
    fn invalid_utf8_is_replaced() {
        let value = parsed(record().text("path", b"/a\xff\xfeb\xc3"));
        assert_eq!(value["fields"]["path"], "/a\u{fffd}\u{fffd}b\u{fffd}");
    }

    #[test]
    fn a_long_text_is_cut_between_characters() {
        for lead in 0..4 {
            let long = "x".repeat(lead) + &"😀".repeat(LOG_TEXT_BYTES_MAX);
            let value = parsed(record().text("path", &long));
            let kept = value["fields"]["path"].as_str().unwrap();
            let body = kept.strip_suffix('…').unwrap();
            assert!(long.starts_with(body) && !body.contains('\u{fffd}'));
            assert!(body.len() <= LOG_TEXT_BYTES_MAX && body.len() > LOG_TEXT_BYTES_MAX - 4);
        }
        let exact = "y".repeat(LOG_TEXT_BYTES_MAX);
        assert_eq!(parsed(record().text("path", &exact))["fields"]["path"], exact);
    }

    #[test]
    fn invalid_continuation_bytes_are_cut_too() {
        let value = parsed(record().text("path", vec![0x80; 2 * LOG_TEXT_BYTES_MAX]));
        assert!(value["fields"]["path"].as_str().unwrap().starts_with('\u{fffd}'));
    }
}
