//! The representation of a file for a client: the variant, whole or in parts, or no body.
//!
//! Validators, conditions and ranges are those of the variant that is sent. Range requests are answered from the
//! uncoded file or an operator's precompressed file, never from a copy created by the server. Methods other than `GET`
//! and `HEAD` are refused. No copies are created here; the result only names the one that would have been preferred.

use std::fs::File;
use std::ops::Range;

use bytes::Bytes;

use super::asset::{Asset, Content, Variant};
use super::conditions::{Asked, ConditionResult, judge, may_give_range};
use crate::http::range::{RangeSelection, content_range, part_head, parts_end, select, unsatisfied_range};
use crate::http::{Choice, Coding, Fields, Head, MethodKind, choose};
use crate::sync::primitive::Arc;

/// The response to a request for a file.
#[derive(Debug)]
pub struct Representation {
    /// The status code: 200, 206, 304, 405, 412 or 416.
    pub status: u16,
    /// The header fields, except for the framing.
    pub fields: Fields,
    /// The length to announce: that of the body for 200 (also for `HEAD`) and 206, none for 304 and errors.
    pub length: Option<u64>,
    /// The parts to send, in this order.
    pub body: Vec<BodyPiece>,
    /// The effect of the content coding on the body; `None` if there is no body or it is not coded.
    pub coded: Option<Coded>,
    /// The coding that the client would have preferred, if no copy in it is being created yet.
    pub order: Option<Coding>,
}

/// The effect of a content coding on a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Coded {
    /// Its uncoded length in bytes.
    pub before: u64,
    /// Its coded length. For a part of a coded file, the uncoded length is unknown, and both are the same.
    pub after: u64,
}

/// A part of a body.
#[derive(Clone, Debug)]
pub enum BodyPiece {
    /// Bytes in memory.
    Bytes(Bytes),
    /// A range of an open file.
    File(Arc<File>, Range<u64>),
}

/// Determines the response to a request for the file in `asset`; several parts are separated by `boundary`.
pub fn represent(asset: &Asset, head: &Head, boundary: impl FnOnce() -> String) -> Representation {
    let method = head.method_kind();
    if !matches!(method, MethodKind::Get | MethodKind::Head) {
        let mut refused = Representation::bare(405, Fields::new());
        refused.fields.push_own(b"Allow", b"GET, HEAD");
        return refused;
    }
    respond(asset, head, Asked::of(head), asset.content_type(), boundary)
}

/// Determines the response for any method. Only the request fields in `asked` are evaluated; parts have this
/// `content_type`.
pub(super) fn respond(
    asset: &Asset,
    head: &Head,
    asked: Asked,
    content_type: &str,
    boundary: impl FnOnce() -> String,
) -> Representation {
    let method = head.method_kind();
    // Ranges are defined only for GET.
    let wants_range = asked.range && method == MethodKind::Get;
    let (variant, order) =
        if asked.accept_encoding { chosen(asset, head, wants_range) } else { (asset.plain(), None) };
    let result = if asked.condition { judge(head, variant.validators()) } else { ConditionResult::Send };
    let mut answer = match result {
        ConditionResult::Failed => Representation::bare(412, Fields::new()),
        ConditionResult::NotModified => Representation::bare(304, variant.validators.clone()),
        ConditionResult::Send => {
            let gives_range =
                wants_range && variant.has_ranges() && may_give_range(head, variant.validators());
            let selection = if gives_range {
                select(head.header_values("range"), variant.length)
            } else {
                RangeSelection::Whole
            };
            Representation::of(variant, selection, content_type, boundary)
        }
    };
    answer.order = order;
    if method == MethodKind::Head {
        answer.body.clear();
    }
    if variant.coding.is_some() && !answer.body.is_empty() {
        let after = answer.length.unwrap_or(0);
        let before = if answer.status == 200 { asset.plain().length } else { after };
        answer.coded = Some(Coded { before, after });
    }
    answer
}

impl Representation {
    fn bare(status: u16, fields: Fields) -> Self {
        Self { status, fields, length: None, body: Vec::new(), coded: None, order: None }
    }

    fn of(
        variant: &Variant,
        selection: RangeSelection,
        content_type: &str,
        boundary: impl FnOnce() -> String,
    ) -> Self {
        match selection {
            RangeSelection::Whole => Self::whole(variant),
            RangeSelection::Part(part) => Self::part(variant, part),
            RangeSelection::Parts(parts) => Self::parts(variant, &parts, content_type, &boundary()),
            RangeSelection::Unsatisfiable => {
                let mut refused = Self::bare(416, Fields::new());
                refused.fields.push_own(b"Content-Range", unsatisfied_range(variant.length).as_bytes());
                refused
            }
        }
    }

    fn whole(variant: &Variant) -> Self {
        let mut answer = Self::bare(200, variant.fields.clone());
        answer.length = Some(variant.length);
        if variant.length > 0 {
            answer.body.push(variant.content.piece(0..variant.length));
        }
        answer
    }

    fn part(variant: &Variant, part: Range<u64>) -> Self {
        let mut answer = Self::bare(206, variant.fields.clone());
        answer.fields.push_own(b"Content-Range", content_range(&part, variant.length).as_bytes());
        answer.length = Some(part.end - part.start);
        answer.body.push(variant.content.piece(part));
        answer
    }

    /// Combines several parts in one body, each with a part header. If that is not smaller than the whole file, the
    /// whole file is sent.
    fn parts(variant: &Variant, parts: &[Range<u64>], content_type: &str, boundary: &str) -> Self {
        let mut body = Vec::with_capacity(2 * parts.len() + 1);
        let mut length = 0;
        for (index, part) in parts.iter().enumerate() {
            let head = part_head(boundary, content_type, part, variant.length, index == 0);
            length += head.len() as u64 + (part.end - part.start);
            body.push(BodyPiece::Bytes(head.into()));
            body.push(variant.content.piece(part.clone()));
        }
        let end = parts_end(boundary);
        length += end.len() as u64;
        body.push(BodyPiece::Bytes(end.into()));
        if length >= variant.length {
            return Self::whole(variant);
        }
        let mut answer = Self::bare(206, variant.fields.clone());
        let content_type = format!("multipart/byteranges; boundary={boundary}");
        answer.fields.set_own(b"Content-Type", content_type.as_bytes());
        answer.length = Some(length);
        answer.body = body;
        answer
    }
}

impl Content {
    fn piece(&self, range: Range<u64>) -> BodyPiece {
        match self {
            Self::File(file) => BodyPiece::File(Arc::clone(file), range),
            Self::Memory(bytes) => {
                // Positions in memory fit.
                let place = |at: u64| usize::try_from(at).unwrap_or(bytes.len()).min(bytes.len());
                BodyPiece::Bytes(bytes.slice(place(range.start)..place(range.end)))
            }
        }
    }
}

impl BodyPiece {
    /// Returns its length in bytes.
    pub fn len(&self) -> u64 {
        match self {
            Self::Bytes(bytes) => bytes.len() as u64,
            Self::File(_, range) => range.end - range.start,
        }
    }

    /// Returns whether it is empty.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Selects the variant that the client prefers. If a copy that does not exist would have been better, its coding is
/// returned for the first such request.
fn chosen<'a>(asset: &'a Asset, head: &Head, wants_range: bool) -> (&'a Variant, Option<Coding>) {
    let wish = |offered: &[Coding]| match choose(head.header_values("accept-encoding"), offered) {
        Choice::Coded(coding) => Some(coding),
        Choice::Identity | Choice::Nothing => None,
    };
    let there = Codings::collect(
        asset.coded().filter(|variant| !wants_range || variant.has_ranges()).filter_map(|it| it.coding),
    );
    let on_offer = if wants_range { there } else { Codings::collect(asset.codings_on_offer()) };
    let best = wish(on_offer.as_slice());
    let is_there = best.is_none_or(|coding| there.as_slice().contains(&coding));
    let order = best.filter(|coding| !is_there && asset.take_order(*coding));
    let coding = if is_there { best } else { wish(there.as_slice()) };
    let variant = coding.and_then(|coding| asset.coded().find(|variant| variant.coding == Some(coding)));
    (variant.unwrap_or(asset.plain()), order)
}

/// A small set of codings.
#[derive(Clone, Copy)]
struct Codings {
    list: [Coding; Coding::ALL.len()],
    count: usize,
}

impl Codings {
    fn collect(codings: impl Iterator<Item = Coding>) -> Self {
        let mut all = Self { list: Coding::ALL, count: 0 };
        for coding in codings.take(Coding::ALL.len()) {
            all.list[all.count] = coding;
            all.count += 1;
        }
        all
    }

    fn as_slice(&self) -> &[Coding] {
        &self.list[..self.count]
    }
}

#[cfg(test)]
#[path = "representation_tests.rs"]
mod tests;
