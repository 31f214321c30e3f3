//! The coding decision for a response: left alone, sent uncompressed with a `Vary`, or compressed.
//!
//! A pure function of the fields of the request and the header of the response. `HEAD` is treated like `GET`. The
//! fields describe the body that is sent: a compressed copy has a weak entity tag, because its bytes differ, and
//! neither the length nor ranges of the uncompressed body. Digests set by the application (`Content-MD5`,
//! `Repr-Digest`) are not changed; an application that sends them adds `no-transform` where compression would
//! invalidate them.

use crate::http::token::{list, list_contains};
use crate::http::{Choice, Coding, Fields, Head, choose};
use crate::limits::CODED_BYTES_MIN;

use super::media::is_compressible;

/// A response before its body is sent.
#[derive(Clone, Copy, Debug)]
pub struct UncodedResponse<'a> {
    /// The status code.
    pub status: u16,
    /// The header fields; whether `Content-Length` is among them does not matter.
    pub fields: &'a Fields,
    /// The length of the body of a 200 response to `GET`, if it is known.
    pub length: Option<u64>,
}

/// The coding decision for a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CodingDecision {
    /// The body is compressed in this coding.
    Coded(Coding),
    /// The response is not changed.
    Plain,
    /// The response has no body and confirms that the client's compressed copy is still valid.
    StillCoded,
    /// The body, if there is one, is sent uncompressed; another client could receive it compressed.
    Varies,
}

/// Decides how to code the response to `request`, given the `offered` codings.
pub fn decide(request: &Head, subject: UncodedResponse<'_>, offered: &[Coding]) -> CodingDecision {
    if offered.is_empty() || !can_be_coded(subject) {
        return CodingDecision::Plain;
    }
    if subject.status == 304 {
        let has_coded = subject.fields.get(b"etag").is_some_and(|tag| holds_weak(request, tag));
        return if has_coded { CodingDecision::StillCoded } else { CodingDecision::Varies };
    }
    match choose(request.header_values("accept-encoding"), offered) {
        Choice::Coded(coding) => CodingDecision::Coded(coding),
        // A client that refuses everything receives the uncompressed body.
        Choice::Identity | Choice::Nothing => CodingDecision::Varies,
    }
}

impl CodingDecision {
    /// Returns the coding of the body, if it has one.
    pub fn coding(self) -> Option<Coding> {
        if let Self::Coded(coding) = self { Some(coding) } else { None }
    }

    /// Adapts the header fields to the decision.
    pub fn amend(self, fields: &mut Fields) {
        match self {
            Self::Plain => {}
            Self::Varies => add_vary(fields),
            Self::StillCoded => {
                weaken_tag(fields);
                add_vary(fields);
            }
            Self::Coded(coding) => {
                fields.remove(b"content-length");
                fields.remove(b"accept-ranges");
                weaken_tag(fields);
                fields.set_own(b"Content-Encoding", coding.token().as_bytes());
                add_vary(fields);
            }
        }
    }
}

/// Returns whether any client could receive it compressed.
fn can_be_coded(subject: UncodedResponse<'_>) -> bool {
    let UncodedResponse { status, fields, length } = subject;
    if matches!(status, 0..=199 | 204..=206) || length.is_some_and(|length| length < CODED_BYTES_MIN) {
        return false;
    }
    let is_worth_it = match fields.get(b"content-type") {
        Some(content_type) => is_compressible(content_type),
        // A 304 may lack a `Content-Type`. A needless `Vary` does no harm, but a missing one does.
        None => status == 304,
    };
    is_worth_it
        && !fields.contains(b"content-encoding")
        && !fields.contains(b"content-range")
        && !list_contains(values(fields, b"cache-control"), b"no-transform")
}

/// Returns whether the client has the copy with the weak form of the strong `tag`.
fn holds_weak(request: &Head, tag: &[u8]) -> bool {
    // No tag contains a quote, so a list contains this text only if the tag is a member.
    let weak = [b"W/", tag].concat();
    tag.starts_with(b"\"")
        && request
            .header_values("if-none-match")
            .any(|value| value.windows(weak.len()).any(|window| window == weak))
}

fn values<'a>(fields: &'a Fields, name: &'static [u8]) -> impl Iterator<Item = &'a [u8]> {
    fields.iter().filter(|(candidate, _)| candidate.eq_ignore_ascii_case(name)).map(|(_, value)| value)
}

/// Weakens a strong tag, which guarantees identical bytes; a value that is not an entity tag is not changed.
fn weaken_tag(fields: &mut Fields) {
    if let Some(tag) = fields.get(b"etag").filter(|tag| tag.starts_with(b"\"")) {
        let weak = [b"W/", tag].concat();
        fields.set_own(b"ETag", &weak);
    }
}

/// Adds `Accept-Encoding` to `Vary`, in one field, because some caches read only the first one.
fn add_vary(fields: &mut Fields) {
    let mut members: Vec<&[u8]> = values(fields, b"vary").flat_map(list).collect();
    if members.iter().any(|member| *member == b"*" || member.eq_ignore_ascii_case(b"accept-encoding")) {
        return;
    }
    members.push(b"Accept-Encoding");
    let joined = members.join(&b", "[..]);
    fields.set_own(b"Vary", &joined);
}

#[cfg(test)]
#[path = "decision_tests.rs"]
mod tests;
