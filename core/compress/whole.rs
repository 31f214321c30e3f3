//! A compressed copy that is created once and sent many times.
//!
//! The copy is as small as the coding can make it in the time that the creating thread can spare; `None` if it would
//! not be smaller. Use it on a thread that may block for long: Brotli needs 35 ms for 32 KiB and 140 ms for 128 KiB.
//! Above [`DENSEST_BYTES_MAX`], it uses a lower level and needs 40 ms per MiB, and zstd 200 ms.

use crate::http::Coding;
use crate::limits::DENSEST_BYTES_MAX;

use super::encoder::Encoder;

/// Compresses a whole body as densely as is reasonable; `None` if the result would not be smaller than `bytes`.
pub fn encode_whole(coding: Coding, bytes: &[u8]) -> Option<Vec<u8>> {
    let mut encoder = Encoder::whole(coding, densest(coding, bytes.len()), bytes.len()).ok()?;
    let mut out = Vec::with_capacity(bytes.len() / 2);
    encoder.write(bytes, &mut out).ok()?;
    encoder.finish(&mut out).ok()?;
    if out.len() >= bytes.len() {
        return None;
    }
    out.shrink_to_fit();
    Some(out)
}

/// Returns the level at which a coding is worth its time for a body of this length.
fn densest(coding: Coding, length: usize) -> u32 {
    match coding {
        Coding::Brotli if length <= DENSEST_BYTES_MAX => 11,
        // The levels in between cost nearly as much and gain little.
        Coding::Brotli => 7,
        Coding::Gzip => 9,
        Coding::Zstd if length <= DENSEST_BYTES_MAX => 19,
        Coding::Zstd => 12,
    }
}

#[cfg(test)]
mod tests {
    use super::super::samples::{decoded, noise, text};
    use super::*;

    #[test]
    fn a_whole_copy_decodes_to_its_source() {
        for coding in Coding::ALL {
            for length in [300, DENSEST_BYTES_MAX, DENSEST_BYTES_MAX + 1, 1 << 20] {
                let body = text(length);
                let copy = encode_whole(coding, &body).unwrap();
                assert!(copy.len() < length / 2, "{coding:?} {length}: {}", copy.len());
                assert!(decoded(coding, &copy).unwrap() == body, "{coding:?} {length}");
            }
        }
    }

    #[test]
    fn a_copy_that_would_not_be_smaller_is_none() {
        for coding in Coding::ALL {
            for body in [&b""[..], b"a", b"abc", &noise(5000)] {
                assert_eq!(encode_whole(coding, body), None, "{coding:?} {}", body.len());
            }
        }
    }
}
