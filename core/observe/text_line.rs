//! A log record as a line for people.
//!
//! One line for each record, with all its fields; it contains no control character, because the record contains none. The
//! conversion does not depend on events; it reads the records that [`Record`](super::record::Record) writes.

/// Converts a record to a line: `TIMESTAMP LEVEL target: message name=value…`.
///
/// # Examples
///
/// ```
/// use svc_core::observe::text_line::text_line;
///
/// let record = br#"{"timestamp":"T","level":"INFO","target":"svc","fields":{"message":"svc is ready","workers":8}}"#;
/// assert_eq!(text_line(record), b"T INFO  svc: svc is ready workers=8\n");
/// ```
pub fn text_line(record: &[u8]) -> Vec<u8> {
    let mut line = Vec::with_capacity(record.len());
    let mut rest = record;
    while let Some((name, value)) = next_member(&mut rest) {
        match name {
            b"timestamp" => line.extend_from_slice(unquoted(value)),
            b"level" => {
                let level = unquoted(value);
                line.push(b' ');
                line.extend_from_slice(level);
                // The longest level has five letters.
                line.resize(line.len() + 5_usize.saturating_sub(level.len()), b' ');
            }
            b"target" => {
                line.push(b' ');
                line.extend_from_slice(unquoted(value));
                line.push(b':');
            }
            b"message" => {
                line.push(b' ');
                put_prose(&mut line, unquoted(value));
            }
            _ => {
                line.push(b' ');
                line.extend_from_slice(name);
                line.push(b'=');
                line.extend_from_slice(if is_plain(value) { unquoted(value) } else { value });
            }
        }
    }
    line.push(b'\n');
    line
}

/// Takes the next name and value. The members of the record's field `fields` are treated as members of the record itself,
/// so that both levels form one sequence.
fn next_member<'a>(rest: &mut &'a [u8]) -> Option<(&'a [u8], &'a [u8])> {
    let start = rest.iter().position(|byte| *byte == b'"')?;
    let after = rest.get(start..)?;
    let name_length = value_length(after);
    let (name, after) = (unquoted(after.get(..name_length)?), after.get(name_length + 1..)?);
    if name == b"fields" {
        *rest = after.get(1..)?;
        return next_member(rest);
    }
    let (value, after) = after.split_at_checked(value_length(after))?;
    *rest = after;
    Some((name, value))
}

/// Returns the length of the JSON value at the beginning of a text.
fn value_length(text: &[u8]) -> usize {
    let (mut depth, mut is_text, mut is_escaped) = (0_usize, false, false);
    for (at, byte) in text.iter().enumerate() {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' if is_text => is_escaped = true,
            b'"' => is_text = !is_text,
            _ if is_text => continue,
            b'{' | b'[' => depth += 1,
            b'}' | b']' if depth > 0 => depth -= 1,
            b'}' | b',' if depth == 0 => return at,
            _ => continue,
        }
        if depth == 0 && !is_text && !is_escaped {
            return at + 1;
        }
    }
    text.len()
}

fn unquoted(value: &[u8]) -> &[u8] {
    value.strip_prefix(b"\"").and_then(|value| value.strip_suffix(b"\"")).unwrap_or(value)
}

/// Returns whether a text needs no quotes to be distinguished from what follows.
fn is_plain(value: &[u8]) -> bool {
    let text = unquoted(value);
    value.first() == Some(&b'"')
        && !text.is_empty()
        && !text.iter().any(|byte| matches!(byte, b' ' | b'"' | b'\\' | b'='))
}

/// Writes a text without escapes for quotes and backslashes, which read better in prose; other escapes stay.
fn put_prose(line: &mut Vec<u8>, text: &[u8]) {
    let mut rest = text;
    while let Some((byte, after)) = rest.split_first() {
        rest = after;
        match (byte, after.split_first()) {
            (b'\\', Some((escaped @ (b'"' | b'\\'), after))) => {
                line.push(*escaped);
                rest = after;
            }
            (b'\\', Some((other, after))) => {
                line.extend_from_slice(&[b'\\', *other]);
                rest = after;
            }
            _ => line.push(*byte),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::UNIX_EPOCH;

    use super::*;
    use crate::observe::record::Record;

    fn line(record: Record) -> String {
        String::from_utf8(text_line(&record.end())).unwrap()
    }

    fn record(message: &str) -> Record {
        Record::begin(UNIX_EPOCH, "WARN", "php", message)
    }

    #[test]
    fn fields_follow_the_message_in_their_order() {
        let record = record("hello")
            .number("count", 7)
            .text_or_null("none", None::<&str>)
            .boolean("on", true)
            .text("path", "/a")
            .text("agent", "curl 8")
            .text("empty", "")
            .json("context", br#"{"a":[1,{"b":"}"}],"c":"x"}"#)
            .number("last", 1);
        assert_eq!(
            line(record),
            "1970-01-01T00:00:00.000000Z WARN  php: hello count=7 none=null on=true path=/a agent=\"curl 8\" empty=\"\" \
             context={\"a\":[1,{\"b\":\"}\"}],\"c\":\"x\"} last=1\n"
        );
    }

    #[test]
    fn a_text_cannot_forge_a_line() {
        let hostile = "a\"b\\c\nERROR svc: \u{1b}[31m";
        assert_eq!(
            line(record(hostile).text("path", hostile).number("n", 1)),
            "1970-01-01T00:00:00.000000Z WARN  php: a\"b\\c\\nERROR svc: \\u001b[31m \
             path=\"a\\\"b\\\\c\\nERROR svc: \\u001b[31m\" n=1\n"
        );
    }

    #[test]
    fn text_that_is_no_record_ends_too() {
        for text in ["", "{", "{\"a", "{\"a\"", "{\"a\":", "{\"fields\"", "{\"fields\":", "\"", "{\"a\":\"\\"]
        {
            assert!(text_line(text.as_bytes()).ends_with(b"\n"), "{text}");
        }
    }
}
