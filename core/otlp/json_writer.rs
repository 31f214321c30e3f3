//! Writes JSON into a buffer, as far as OTLP needs it: names are literals, and there is no insignificant white space.

use std::fmt::Display;
use std::io::Write as _;

/// Writes JSON.
#[derive(Debug)]
pub(super) struct JsonWriter(Vec<u8>);

impl JsonWriter {
    /// Starts after the existing content of a buffer.
    pub(super) fn behind(buffer: Vec<u8>) -> Self {
        Self(buffer)
    }

    /// Returns the written bytes.
    pub(super) fn into_bytes(self) -> Vec<u8> {
        self.0
    }

    /// Writes a value that is already JSON.
    pub(super) fn encoded(&mut self, json: &[u8]) {
        self.0.extend_from_slice(json);
    }

    /// Writes an object; `write` writes its members.
    pub(super) fn object(&mut self, write: impl FnOnce(&mut Self)) {
        self.0.push(b'{');
        write(self);
        self.0.push(b'}');
    }

    /// Writes a member; `write` writes its value.
    pub(super) fn member(&mut self, name: &'static str, write: impl FnOnce(&mut Self)) {
        self.separate(b'{');
        self.raw(format_args!("\"{name}\":"));
        write(self);
    }

    /// Writes a list; omits an empty one, which is the default.
    pub(super) fn list<T>(
        &mut self,
        name: &'static str,
        values: impl IntoIterator<Item = T>,
        mut write: impl FnMut(&mut Self, T),
    ) {
        let mut values = values.into_iter().peekable();
        if values.peek().is_none() {
            return;
        }
        self.member(name, |out| {
            out.0.push(b'[');
            for value in values {
                out.separate(b'[');
                write(out, value);
            }
            out.0.push(b']');
        });
    }

    /// Writes a member with a text.
    pub(super) fn text(&mut self, name: &'static str, text: &str) {
        self.member(name, |out| {
            // Writing to memory cannot fail.
            let _ = serde_json::to_writer(&mut out.0, text);
        });
    }

    /// Writes a member with a value that needs no escaping, as a string.
    pub(super) fn shown(&mut self, name: &'static str, value: impl Display) {
        self.member(name, |out| out.raw(format_args!("\"{value}\"")));
    }

    /// Writes a member with a number.
    pub(super) fn number(&mut self, name: &'static str, number: u64) {
        self.member(name, |out| out.raw(number));
    }

    /// Writes a member with a number; omits 0, which is the default.
    pub(super) fn count(&mut self, name: &'static str, number: u32) {
        if number > 0 {
            self.number(name, number.into());
        }
    }

    /// Writes a floating-point number. JSON has no literals for NaN and infinities; the mapping uses strings.
    pub(super) fn double(&mut self, number: f64) {
        if number.is_nan() {
            self.raw("\"NaN\"");
        } else if number.is_infinite() {
            self.raw(if number > 0.0 { "\"Infinity\"" } else { "\"-Infinity\"" });
        } else {
            let _ = serde_json::to_writer(&mut self.0, &number);
        }
    }

    /// Writes a value that needs no escaping.
    pub(super) fn raw(&mut self, value: impl Display) {
        let _ = write!(self.0, "{value}");
    }

    /// Writes a comma unless this is the first element.
    fn separate(&mut self, opening: u8) {
        if self.0.last() != Some(&opening) {
            self.0.push(b',');
        }
    }
}
