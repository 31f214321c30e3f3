//! Sending a file instead of a script's body.
//!
//! The script's status, `Content-Type`, `Cache-Control` and all other fields stay. Fields that describe the bytes are
//! the file's: validators, ranges, coding, length. Ranges and conditions apply only to a `GET` or `HEAD` request for
//! which the script set the status 200; any other response contains the whole file.

use super::asset::Asset;
use super::conditions::Asked;
use super::representation::{Representation, respond};
use crate::http::{Fields, Head, MethodKind};

/// Determines the response to a request for which a script returned `status`, `fields` and the file in `asset`.
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
    // The script declares that the bytes of the file are already coded.
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

/// Returns the fields of a response to a failed precondition or range: only the script's cookies stay valid.
fn refused(script: &Fields, file: &Fields) -> Fields {
    let mut fields = kept(script);
    for (name, value) in file {
        let _ = fields.push(name, value);
    }
    fields
}

/// Returns the script's fields that stay in another response: its cookies.
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
