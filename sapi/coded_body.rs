//! A compressed response body.
//!
//! A client can decode flushed output immediately. An incomplete body lacks the end marker, so that its client can
//! detect it. The length announced by the script is enforced here, because the compressed length differs. Output is
//! returned to the caller.

use svc_core::compress::Encoder;

/// A body that is being compressed.
#[derive(Debug)]
pub(crate) struct CodedBody {
    encoder: Encoder,
    /// The number of bytes of the announced length that the script may still write.
    left: Option<u64>,
    /// Whether all input has been output.
    is_flushed: bool,
}

/// Whether bytes may be held back to be compressed together with later ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Urgency {
    /// The client must receive them now.
    Flush,
    /// They may be held back.
    Gather,
}

impl CodedBody {
    /// Starts a body of the length announced by the script, if there is one.
    pub(crate) fn new(encoder: Encoder, announced: Option<u64>) -> Self {
        Self { encoder, left: announced, is_flushed: true }
    }

    /// Returns whether a flush would send nothing.
    pub(crate) fn is_flushed(&self) -> bool {
        self.is_flushed
    }

    /// Compresses a piece. Returns the available output, or nothing if the body cannot be continued.
    pub(crate) fn piece(&mut self, bytes: &[u8], urgency: Urgency) -> Option<Vec<u8>> {
        let mut out = Vec::new();
        let bytes = self.within_announced(bytes);
        if !bytes.is_empty() {
            self.encoder.write(bytes, &mut out).ok()?;
            self.is_flushed = false;
        }
        if urgency == Urgency::Flush && !self.is_flushed {
            self.encoder.flush(&mut out).ok()?;
            self.is_flushed = true;
        }
        Some(fitted(out))
    }

    /// Compresses the last piece, and completes the body unless it must stay incomplete: the script failed
    /// (`is_complete` is false) or announced a greater length. Returns the remaining output, and whether the body is
    /// complete.
    pub(crate) fn end(&mut self, bytes: &[u8], is_complete: bool) -> (Vec<u8>, bool) {
        let mut out = Vec::new();
        let bytes = self.within_announced(bytes);
        let is_complete = is_complete && self.left.is_none_or(|left| left == 0);
        let done = self.encoder.write(bytes, &mut out).and_then(|()| {
            if is_complete { self.encoder.finish(&mut out) } else { self.encoder.flush(&mut out) }
        });
        self.is_flushed = true;
        (fitted(out), is_complete && done.is_ok())
    }

    /// Returns the number of bytes that went in and came out.
    pub(crate) fn lengths(&self) -> (u64, u64) {
        (self.encoder.taken_bytes(), self.encoder.given_bytes())
    }

    /// Returns the encoder for reuse.
    pub(crate) fn into_encoder(self) -> Encoder {
        self.encoder
    }

    /// Returns the part of `bytes` within the announced length.
    fn within_announced<'b>(&mut self, bytes: &'b [u8]) -> &'b [u8] {
        let Some(left) = &mut self.left else { return bytes };
        let kept = bytes.len().min(usize::try_from(*left).unwrap_or(usize::MAX));
        *left -= kept as u64;
        &bytes[..kept]
    }
}

/// Releases unused capacity: pieces wait for slow clients and are counted by their length.
fn fitted(mut bytes: Vec<u8>) -> Vec<u8> {
    if bytes.capacity() > 2 * bytes.len() {
        bytes.shrink_to_fit();
    }
    bytes
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use svc_core::http::Coding;

    use super::*;

    fn body(announced: Option<u64>) -> CodedBody {
        CodedBody::new(Encoder::new(Coding::Gzip, 6).unwrap(), announced)
    }

    fn decoded(bytes: &[u8]) -> String {
        let mut text = String::new();
        flate2::read::GzDecoder::new(bytes).read_to_string(&mut text).unwrap();
        text
    }

    #[test]
    fn pieces_wait_unless_they_are_flushed() {
        let mut body = body(None);
        assert!(body.is_flushed());
        assert_eq!(body.piece(b"", Urgency::Flush), Some(Vec::new()), "nothing went in");
        let first = body.piece(b"one ", Urgency::Gather).unwrap();
        assert!(!body.is_flushed());
        let second = body.piece(b"", Urgency::Flush).unwrap();
        assert!(!second.is_empty() && body.is_flushed());
        let (last, is_complete) = body.end(b"two", true);
        assert!(is_complete);
        assert_eq!(decoded(&[first, second, last].concat()), "one two");
    }

    #[test]
    fn a_body_longer_than_announced_is_cut() {
        let mut body = body(Some(5));
        let first = body.piece(b"one ", Urgency::Flush).unwrap();
        let (last, is_complete) = body.end(b"two", true);
        assert!(is_complete);
        assert_eq!(decoded(&[first, last].concat()), "one t");
    }

    #[test]
    fn a_short_or_aborted_body_has_all_its_bytes_and_no_end() {
        for (announced, is_complete) in [(Some(9), true), (Some(7), false), (None, false)] {
            let mut body = body(announced);
            let first = body.piece(b"one ", Urgency::Flush).unwrap();
            let (last, is_whole) = body.end(b"two", is_complete);
            assert!(!is_whole);
            let (coded, mut text) = ([first, last].concat(), [0; 7]);
            let mut decoder = flate2::read::GzDecoder::new(&coded[..]);
            decoder.read_exact(&mut text).unwrap();
            assert_eq!(&text, b"one two");
            assert!(decoder.read(&mut text).is_err(), "an end that was not written");
        }
    }

    #[test]
    fn a_piece_that_waits_takes_no_more_than_twice_its_length() {
        let piece = body(None).piece(b"a short event", Urgency::Flush).unwrap();
        assert!(piece.capacity() <= 2 * piece.len(), "{} for {}", piece.capacity(), piece.len());
    }
}
