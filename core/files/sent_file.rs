//! How a file is sent in the place of a script's own body.
//!
//! Promises: what the script has said of its response stays: its status, its `Content-Type`, `Cache-Control` and all other
//! fields. What describes the bytes is the file's: validators, ranges, coding, length. Refuses: ranges and conditions are
//! for a `GET` or `HEAD` that the script has answered with 200; any other response has the whole file.

use super::asset::Asset;
use super::conditions::Asked;
use super::representation::{Representation, respond};
use crate::http::{Fields, Head, MethodKind};

/// Determines the response to a request that a script has answered with `status`, `fields` and the file in `asset`.
pub fn represent_sent(
    asset: &Asset,
    head: &Head,
    (status, fields): (u16, Fields),
    boundary: impl FnOnce() -> String,
) -> Representation {
    let mut asked = Asked::of(head);
    let is_plain = status == 200 && matches!(head.method_kind(), MethodKind::Get | MethodKind::Head);
    asked.condition &= is_plain;
    asked.range &= is_plain;
    // The script says that the bytes of the file are coded.
    asked.accept_encoding &= !fields.contains(b"content-encoding");
    let own_type = fields.get(b"content-type").map(|text| String::from_utf8_lossy(text).into_owned());
    let content_type = own_type.as_deref().unwrap_or(asset.content_type());
    let mut shown = respond(asset, head, asked, content_type, boundary);
    if shown.status == 200 {
        shown.status = status;
    }
    shown.fields = if shown.status >= 400 && shown.status != status {
        refused(&fields, &shown.fields)
    } else {
        merged(fields, &shown)
    };
    shown
}

/// The fields of a precondition or a range that the file does not meet: the session goes on, and nothing else is true.
fn refused(script: &Fields, file: &Fields) -> Fields {
    let mut fields = kept(script);
    for (name, value) in file {
        let _ = fields.push(name, value);
    }
    fields
}

/// What stays of a script's fields in a response that is not its own: its cookies.
pub fn kept(script: &Fields) -> Fields {
    let mut fields = Fields::new();
    for (name, value) in script.iter().filter(|(name, _)| name.eq_ignore_ascii_case(b"set-cookie")) {
        let _ = fields.push(name, value);
    }
    fields
}

fn merged(mut fields: Fields, shown: &Representation) -> Fields {
    fields.remove(b"Content-Range");
    for (name, value) in &shown.fields {
        let is = |other: &str| name.eq_ignore_ascii_case(other.as_bytes());
        let is_several_parts = value.starts_with(b"multipart/byteranges");
        let is_scripts = is("cache-control")
            || (is("content-type") && fields.contains(b"content-type") && !is_several_parts);
        if is_scripts {
            continue;
        }
        // The fields of a file are valid.
        let _ = if is("vary") { fields.push(name, value) } else { fields.set(name, value) };
    }
    if shown.status == 304 {
        fields.remove(b"Content-Type");
    }
    fields
}

#[cfg(test)]
#[path = "sent_file_tests.rs"]
mod tests;
