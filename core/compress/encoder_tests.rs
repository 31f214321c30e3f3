use std::io::Read;

use super::*;
use crate::compress::samples::{decoded, noise, reader, text};
use crate::compress::{EncoderPool, Levels};

/// Decodes as much as the bytes allow.
fn decoded_so_far(coding: Coding, bytes: &[u8]) -> Vec<u8> {
    let (mut reader, mut body, mut piece) = (reader(coding, bytes), Vec::new(), [0; 64]);
    while let Ok(count @ 1..) = reader.read(&mut piece) {
        body.extend_from_slice(&piece[..count]);
    }
    body
}

fn levels(coding: Coding) -> std::ops::RangeInclusive<u32> {
    match coding {
        Coding::Brotli => 1..=11,
        Coding::Gzip => 1..=9,
        Coding::Zstd => 1..=19,
    }
}

#[test]
fn every_level_decodes_to_its_input() {
    let body = text(40_000);
    for coding in Coding::ALL {
        for level in levels(coding) {
            let (mut encoder, mut out) = (Encoder::new(coding, level).unwrap(), Vec::new());
            for piece in body.chunks(7000) {
                encoder.write(piece, &mut out).unwrap();
            }
            encoder.finish(&mut out).unwrap();
            assert_eq!((encoder.taken_bytes(), encoder.given_bytes()), (40_000, out.len() as u64));
            assert!(out.len() < 20_000, "{coding:?} {level}");
            assert!(decoded(coding, &out).unwrap() == body, "{coding:?} {level}");
        }
    }
}

#[test]
fn flushed_output_can_be_decoded_at_once() {
    for coding in Coding::ALL {
        let (mut encoder, mut out, mut said) = (Encoder::new(coding, 5).unwrap(), Vec::new(), Vec::new());
        for number in 0..50 {
            let event = format!("data: {{\"number\": {number}}}\n\n");
            encoder.write(event.as_bytes(), &mut out).unwrap();
            encoder.flush(&mut out).unwrap();
            said.extend_from_slice(event.as_bytes());
            assert!(decoded_so_far(coding, &out) == said, "{coding:?} {number}");
        }
        encoder.flush(&mut out).unwrap();
        encoder.write(b"", &mut out).unwrap();
        encoder.flush(&mut out).unwrap();
        encoder.finish(&mut out).unwrap();
        assert!(decoded(coding, &out).unwrap() == said, "{coding:?}");
    }
}

#[test]
fn an_incomplete_body_is_recognised() {
    let body = text(9000);
    for coding in Coding::ALL {
        let (mut encoder, mut out) = (Encoder::new(coding, 3).unwrap(), Vec::new());
        encoder.write(&body, &mut out).unwrap();
        encoder.flush(&mut out).unwrap();
        assert!(decoded_so_far(coding, &out) == body, "{coding:?}");
        assert_eq!(decoded(coding, &out), None, "{coding:?}");
    }
}

#[test]
fn an_empty_body_is_a_body() {
    for coding in Coding::ALL {
        let (mut encoder, mut out) = (Encoder::new(coding, 1).unwrap(), Vec::new());
        encoder.finish(&mut out).unwrap();
        assert!(!out.is_empty());
        assert_eq!(decoded(coding, &out), Some(Vec::new()), "{coding:?}");
    }
}

#[test]
fn dense_bytes_hardly_grow() {
    let body = noise(300_000);
    for coding in Coding::ALL {
        let (mut encoder, mut out) = (Encoder::new(coding, 5).unwrap(), Vec::new());
        encoder.write(&body, &mut out).unwrap();
        encoder.finish(&mut out).unwrap();
        assert!(out.len() < body.len() + 1000, "{coding:?}: {}", out.len());
        assert!(decoded(coding, &out).unwrap() == body, "{coding:?}");
    }
}

#[test]
fn zstd_asks_for_no_wider_window_than_every_client_has() {
    let (mut encoder, mut out) = (Encoder::new(Coding::Zstd, 19).unwrap(), Vec::new());
    encoder.write(&text(1 << 20), &mut out).unwrap();
    encoder.finish(&mut out).unwrap();
    // RFC 8878 section 3.1.1: magic number, a descriptor without the bit for a single segment, the window.
    assert_eq!((&out[..4], out[4] & 0x20), (&[0x28, 0xb5, 0x2f, 0xfd][..], 0));
    assert_eq!(10 + (out[5] >> 3), CODING_WINDOW_LOG as u8);
}

#[test]
fn a_whole_body_asks_for_no_wider_window_than_clients_must_have() {
    let length = (1 << CODING_WINDOW_LOG_MAX) + 1;
    let (mut encoder, mut out) = (Encoder::whole(Coding::Zstd, 1, length).unwrap(), Vec::new());
    encoder.write(&vec![b'x'; length], &mut out).unwrap();
    encoder.finish(&mut out).unwrap();
    assert_eq!((out[4] & 0x20, 10 + (out[5] >> 3)), (0, CODING_WINDOW_LOG_MAX as u8));
    assert_eq!(decoded(Coding::Zstd, &out).unwrap().len(), length);
}

#[test]
fn each_default_level_is_worth_its_time() {
    let documents = [
        include_str!("../../docs/http.md"),
        include_str!("../../docs/php.md"),
        include_str!("../../docs/metrics.md"),
        include_str!("../../docs/performance.md"),
    ];
    let page = documents.concat().replace("\n\n", "</p>\n<p class=\"text\">");
    let size = |coding, level| {
        let (mut encoder, mut out) = (Encoder::new(coding, level).unwrap(), Vec::new());
        encoder.write(page.as_bytes(), &mut out).unwrap();
        encoder.finish(&mut out).unwrap();
        out.len()
    };
    let (brotli, gzip, zstd) = (size(Coding::Brotli, 5), size(Coding::Gzip, 6), size(Coding::Zstd, 3));
    // A slower coding than gzip must be smaller; a faster one must not be much larger.
    assert!(brotli * 100 < gzip * 97, "{brotli} {gzip}");
    assert!(zstd * 100 < gzip * 107, "{zstd} {gzip}");
}

#[test]
fn an_encoder_from_the_stock_is_as_good_as_new() {
    let mut stock = EncoderPool::new(Levels { brotli: 5, gzip: 6, zstd: 3 });
    for coding in Coding::ALL {
        let mut first = Vec::new();
        for round in 0..4 {
            let (mut encoder, mut out) = (stock.take(coding).unwrap(), Vec::new());
            encoder.write(&text(5000), &mut out).unwrap();
            if round == 2 {
                // The client disconnected.
                stock.put(encoder);
                continue;
            }
            encoder.finish(&mut out).unwrap();
            stock.put(encoder);
            if round == 0 {
                first = out;
            } else {
                assert!(out == first, "{coding:?} round {round}");
            }
        }
        assert!(decoded(coding, &first).unwrap() == text(5000));
    }
}
