//! Follows the frames that the server sends on an HTTP/2 connection, and how far the socket has accepted them.
//!
//! h2 frames heads and bodies, and reports neither the heads that it sends on its own, such as 431, nor when a body has
//! reached the socket. For each stream, the watch reports its heads, its body bytes as they are sent, and its last frame,
//! in this order. It keeps one entry for each pending frame, and no bytes.

use std::collections::VecDeque;

use super::frame_heads::{DATA, FrameEvent, FrameHead, FrameHeads, HEADERS, RST_STREAM};

/// Follows the bytes that the server sends.
#[derive(Debug, Default)]
pub struct ResponseWatch {
    heads: FrameHeads,
    /// The number of bytes seen, and how many of them have been sent.
    seen: u64,
    sent: u64,
    /// Frames that have not been sent, if they carry a body or are the last of a stream.
    waiting: VecDeque<PendingFrame>,
    /// The stream whose last header continues in the next frame.
    ends_with_head: Option<u32>,
}

/// A frame that the server sends on a stream, beside those of the body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StreamFrame {
    /// A response header.
    Head(u32),
    /// A reset.
    Reset(u32),
}

/// A part of a stream that has been sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SentPart {
    /// The stream.
    pub stream: u32,
    /// The number of body bytes.
    pub body_bytes: u64,
    /// Whether it is the last part of the stream.
    pub is_last: bool,
}

#[derive(Debug)]
struct PendingFrame {
    stream: u32,
    /// The position where the payload ends, among all bytes.
    end: u64,
    /// The number of body bytes that have not been sent.
    body_bytes: u64,
    is_last: bool,
}

impl ResponseWatch {
    /// Processes bytes to be sent; `report` receives response headers and resets.
    pub fn see(&mut self, mut bytes: &[u8], mut report: impl FnMut(StreamFrame)) {
        let all = self.seen + bytes.len() as u64;
        while let Some(met) = self.heads.next(&mut bytes) {
            let FrameEvent::Head(head) = met else { continue };
            match head.kind {
                HEADERS => report(StreamFrame::Head(head.stream)),
                RST_STREAM => report(StreamFrame::Reset(head.stream)),
                _ => {}
            }
            self.expect(head, all - bytes.len() as u64);
        }
        self.seen = all;
    }

    /// Records that all but the last `left` bytes seen have been sent; `report` receives the parts of each stream that
    /// have been sent.
    pub fn sent_but(&mut self, left: u64, mut report: impl FnMut(SentPart)) {
        // TLS adds records, so `left` can be larger than before.
        self.sent = self.sent.max(self.seen.saturating_sub(left));
        while let Some(frame) = self.waiting.front_mut() {
            let unsent = frame.end.saturating_sub(self.sent).min(frame.body_bytes);
            let sent = frame.body_bytes - unsent;
            frame.body_bytes = unsent;
            let is_last = frame.is_last && frame.end <= self.sent;
            if sent > 0 || is_last {
                report(SentPart { stream: frame.stream, body_bytes: sent, is_last });
            }
            if frame.end > self.sent {
                return;
            }
            self.waiting.pop_front();
        }
    }

    /// Returns whether the last frame of a stream was seen and has not been sent.
    pub fn has_unsent_end(&self, stream: u32) -> bool {
        self.waiting.iter().any(|frame| frame.stream == stream && frame.is_last)
    }

    /// Records a frame whose payload begins at `start`.
    fn expect(&mut self, head: FrameHead, start: u64) {
        let FrameHead { length, kind, stream, .. } = head;
        let is_end = match kind {
            RST_STREAM => true,
            DATA => head.ends_stream(),
            HEADERS if !head.ends_headers() => {
                self.ends_with_head = head.ends_stream().then_some(stream);
                false
            }
            HEADERS => head.ends_stream(),
            _ => head.ends_headers() && self.ends_with_head.take() == Some(stream),
        };
        let body_bytes = if kind == DATA { u64::from(length) } else { 0 };
        if is_end || body_bytes > 0 {
            self.waiting.push_back(PendingFrame {
                stream,
                end: start + u64::from(length),
                body_bytes,
                is_last: is_end,
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const END_STREAM: u8 = 1;
    const END_HEADERS: u8 = 4;
    const CONTINUATION: u8 = 9;

    fn frame(kind: u8, flags: u8, stream: u8, length: u8) -> Vec<u8> {
        [&[0, 0, length, kind, flags, 0, 0, 0, stream][..], &vec![7; usize::from(length)]].concat()
    }

    /// Returns the parts that have been sent, added up by stream.
    fn sent_but(watch: &mut ResponseWatch, left: usize) -> Vec<(u32, u64, bool)> {
        let mut sums: Vec<(u32, u64, bool)> = Vec::new();
        watch.sent_but(left as u64, |part| {
            match sums.iter_mut().find(|(stream, ..)| *stream == part.stream) {
                Some((_, bytes, is_over)) => {
                    assert!(!*is_over, "something followed the end: {part:?}");
                    (*bytes, *is_over) = (*bytes + part.body_bytes, part.is_last);
                }
                None => sums.push((part.stream, part.body_bytes, part.is_last)),
            }
        });
        sums
    }

    #[test]
    fn answers_are_reported_however_their_bytes_are_cut() {
        let frames = [frame(4, 0, 0, 6), frame(HEADERS, END_HEADERS, 1, 9), frame(DATA, 1, 1, 200)];
        let bytes = [frames.concat(), frame(RST_STREAM, 0, 3, 4), frame(HEADERS, 5, 5, 0)].concat();
        for piece in [1, 2, 7, 500] {
            let (mut watch, mut reported) = (ResponseWatch::default(), Vec::new());
            bytes.chunks(piece).for_each(|bytes| watch.see(bytes, |frame| reported.push(frame)));
            assert_eq!(reported, [StreamFrame::Head(1), StreamFrame::Reset(3), StreamFrame::Head(5)]);
        }
    }

    #[test]
    fn a_body_counts_as_it_goes_out_and_ends_with_its_last_byte() {
        let frames = [
            frame(HEADERS, END_HEADERS, 1, 9),
            frame(DATA, 0, 1, 100),
            frame(HEADERS, END_HEADERS, 3, 9),
            frame(DATA, END_STREAM, 3, 50),
            frame(DATA, END_STREAM, 1, 20),
        ];
        let bytes = frames.concat();
        for piece in [1, 3, 64, 500] {
            let mut watch = ResponseWatch::default();
            bytes.chunks(piece).for_each(|bytes| watch.see(bytes, |_| {}));
            assert!(watch.has_unsent_end(1) && watch.has_unsent_end(3) && !watch.has_unsent_end(5));
            assert_eq!(sent_but(&mut watch, bytes.len()), []);
            // The first body is sent up to its forty-first byte; then fewer bytes are reported as sent.
            assert_eq!(sent_but(&mut watch, bytes.len() - 18 - 9 - 40), [(1, 40, false)]);
            assert_eq!(sent_but(&mut watch, bytes.len()), [], "what has gone has gone");
            assert_eq!(sent_but(&mut watch, 30), [(1, 60, false), (3, 49, false)]);
            assert_eq!(sent_but(&mut watch, 29), [(3, 1, true)]);
            assert!(!watch.has_unsent_end(3));
            assert_eq!(sent_but(&mut watch, 1), [(1, 19, false)]);
            assert_eq!(sent_but(&mut watch, 0), [(1, 1, true)]);
            assert!(watch.waiting.is_empty());
        }
    }

    #[test]
    fn a_stream_may_end_with_a_head_of_any_length_or_be_reset() {
        let frames = [
            frame(HEADERS, END_HEADERS | END_STREAM, 1, 9),
            frame(HEADERS, END_STREAM, 3, 9),
            frame(CONTINUATION, 0, 3, 9),
            frame(CONTINUATION, END_HEADERS, 3, 9),
            frame(HEADERS, 0, 5, 9),
            frame(CONTINUATION, END_HEADERS, 5, 9),
            frame(DATA, 0, 5, 2),
            frame(RST_STREAM, 0, 5, 4),
            frame(DATA, END_STREAM, 7, 0),
        ];
        let mut watch = ResponseWatch::default();
        watch.see(&frames.concat(), |_| {});
        let behind = |count: usize| frames[count..].iter().map(Vec::len).sum::<usize>();
        assert_eq!(sent_but(&mut watch, behind(1)), [(1, 0, true)]);
        assert_eq!(sent_but(&mut watch, behind(3)), []);
        assert_eq!(sent_but(&mut watch, behind(4)), [(3, 0, true)]);
        assert_eq!(sent_but(&mut watch, behind(7)), [(5, 2, false)]);
        assert_eq!(sent_but(&mut watch, 0), [(5, 0, true), (7, 0, true)]);
    }
}
