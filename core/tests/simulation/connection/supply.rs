//! The supply of the owner: heads, bodies and files of responses; and the check that received bodies match.

use std::collections::VecDeque;
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use svc_core::connection::{Announced, Source};
use svc_core::files::BodyPiece;
use svc_core::http::Fields;
use svc_core::limits::BODY_MEMORY_MAX;
use svc_core::pool::{Body, End, Origin, Part, ResponseHead, SpooledPart};
use svc_core::spool::Spool;

use super::plan::{ASKED, Asked, Given, PAGE, REPLIED, bytes};

/// Returns the parts that the worker of a request will hand over.
pub(crate) fn parts(spool: &Spool, number: usize, asked: &Asked) -> VecDeque<Part> {
    let (mut parts, mut place) = (VecDeque::new(), 0);
    for given in &asked.parts {
        if parts.iter().all(|part| matches!(part, Part::Interim(..))) && !matches!(given, Given::Interim) {
            parts.push_back(Part::Head(head(number, asked.status, asked.announced.map(|it| it as u64))));
        }
        let salt = REPLIED + number as u32;
        match given {
            Given::Interim => parts.push_back(Part::Interim(103, Fields::new())),
            Given::Bytes(len) => {
                parts.push_back(Part::Data(bytes(salt, place, *len)));
                place += len;
            }
            Given::Spooled(len) => {
                let file = spool.create().expect("a file");
                file.append(&bytes(salt, place, *len)).expect("room");
                let (file, len) = (Arc::new(file), *len as u64);
                parts.push_back(Part::Spooled(SpooledPart { file, offset: 0, len }));
                place += len as usize;
            }
        }
    }
    if parts.iter().all(|part| matches!(part, Part::Interim(..))) {
        parts.push_back(Part::Head(head(number, asked.status, asked.announced.map(|it| it as u64))));
    }
    parts.push_back(Part::End(if asked.is_broken { End::Broken } else { End::Complete }));
    parts
}

pub(crate) fn head(number: usize, status: u16, content_length: Option<u64>) -> ResponseHead {
    let mut fields = Fields::new();
    fields.push(b"X-Request", number.to_string().as_bytes()).expect("a field");
    ResponseHead { status, fields, content_length, ..ResponseHead::bare(Origin::Script) }
}

/// Returns a body in a file and in memory, in three pieces.
pub(crate) fn file_pieces(number: usize, len: usize) -> Vec<BodyPiece> {
    let salt = REPLIED + number as u32;
    let mut file = tempfile::tempfile().expect("a file");
    file.write_all(&bytes(salt, 0, len)).expect("a file");
    let (file, third) = (Arc::new(file), len / 3);
    vec![
        BodyPiece::File(Arc::clone(&file), 0..third as u64),
        BodyPiece::Bytes(bytes(salt, third, third).into()),
        BodyPiece::File(file, 2 * third as u64..len as u64),
    ]
}

pub(crate) fn slice(source: &Source, offset: u64, len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    let count = match source {
        Source::File(file) => file.read_at(&mut bytes, offset),
        Source::Spool(file) => file.read_at(&mut bytes, offset),
    };
    bytes.truncate(count.expect("the file is there"));
    bytes
}

pub(crate) fn announced(
    asked: &Asked,
    head: ResponseHead,
    length: Option<u64>,
    head_only: bool,
    number: usize,
) -> Announced {
    let ResponseHead { status, fields, content_length, .. } = head;
    let page = asked.page.map(|len| bytes(PAGE + number as u32, 0, len));
    let mut length = page.as_ref().map(|page| page.len() as u64).or(length);
    if head_only && length == Some(0) && content_length.is_none() {
        length = None;
    }
    if status == 205 {
        length = Some(0);
    }
    let has_body = !head_only && !matches!(status, 204 | 205 | 304);
    let date = *b"Sun, 06 Nov 1994 08:49:37 GMT";
    Announced { status, reason: None, fields, length, has_body, page, date }
}

pub(crate) fn check_body(body: &Body, number: usize, asked: &Asked) {
    let found = match body {
        Body::Empty => Vec::new(),
        Body::Memory(bytes) => {
            assert!(bytes.len() <= BODY_MEMORY_MAX, "{} bytes of a body were kept", bytes.len());
            bytes.clone()
        }
        Body::Spooled(file) => {
            let mut bytes = vec![0; file.len() as usize];
            let count = file.read_at(&mut bytes, 0).expect("the file is there");
            assert_eq!(count, bytes.len());
            bytes
        }
    };
    assert_eq!(found.len(), asked.body_bytes, "the body of {number} has another length");
    assert!(found == bytes(ASKED + number as u32, 0, asked.body_bytes), "the body of {number} is another's");
    assert!(asked.body_bytes as u64 <= asked.granted, "the body of {number} is longer than granted");
}
