//! Bodies for the tests of this folder, and decoders to check the results.

use std::io::Read;

use crate::http::Coding;

/// Returns a compressible text of this length.
pub(super) fn text(length: usize) -> Vec<u8> {
    let mut state = 1_u64;
    let mut body = Vec::with_capacity(length + 32);
    while body.len() < length {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let word = ["exchange ", "worker ", "<li class=\"item\">", "permit, ", "queue. "]
            [(state >> 33) as usize % 5];
        body.extend_from_slice(word.as_bytes());
    }
    body.truncate(length);
    body
}

/// Bytes that are not compressible.
pub(super) fn noise(length: usize) -> Vec<u8> {
    let mut state = 7_u64;
    let next = |_| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 40) as u8
    };
    (0..length).map(next).collect()
}

/// Decodes a complete body; returns `None` if it is truncated or invalid.
pub(super) fn decoded(coding: Coding, bytes: &[u8]) -> Option<Vec<u8>> {
    let mut body = Vec::new();
    reader(coding, bytes).read_to_end(&mut body).ok()?;
    Some(body)
}

/// Returns a reader of the decoded body, as far as the bytes allow.
pub(super) fn reader<'a>(coding: Coding, bytes: &'a [u8]) -> Box<dyn Read + 'a> {
    match coding {
        Coding::Brotli => Box::new(brotli::Decompressor::new(bytes, 4096)),
        Coding::Gzip => Box::new(flate2::read::GzDecoder::new(bytes)),
        Coding::Zstd => Box::new(zstd::stream::read::Decoder::new(bytes).unwrap()),
    }
}
