//! Observes the parts of a client's HTTP/2 traffic that the framing library does not report.
//!
//! The library reports requests and bodies, not frames. A client that leaves a request header unfinished, or sends only
//! frames without content, would go unnoticed, and so would the time when a header began. The watch knows where frames
//! begin and end and whether they carry content, in bounded memory, for any input. It rejects nothing as malformed; the
//! library does that, and [`fault`](FrameWatch::fault) returns the reason.

use std::collections::VecDeque;
use std::time::Instant;

use crate::limits::{HTTP2_FRAMES_PER_CONTENT, HTTP2_IDLE_FRAMES_MAX, HTTP2_STREAMS_MAX};

use super::frame_faults::{ConnectionFault, FrameFaults};
use super::frame_heads::{CONTINUATION, DATA, FrameEvent, FrameHead, FrameHeads, HEADERS};
use super::preface::PREFACE;

/// Follows the bytes that a client sends, starting with its preface.
#[derive(Debug)]
pub struct FrameWatch {
    heads: FrameHeads,
    faults: FrameFaults,
    /// Whether a request header has begun and continues in the next frame.
    is_head_open: bool,
    /// The number of frames, or of headers of several frames, that have begun.
    begun: u64,
    /// The number of frames without content that the client may still send.
    credit: u32,
    /// When the current frame began.
    since: Option<Instant>,
    /// The highest stream that the client has opened.
    newest: u32,
    /// The total length of DATA frames that have begun since the last [`take_data_bytes`](Self::take_data_bytes).
    data_bytes: u64,
    /// The streams whose request headers have begun, and when, until they are [taken](Self::take_head).
    opened: VecDeque<(u32, Instant)>,
}

/// The number of untaken headers that are kept; the library has processed all but the last few.
const OPENED_MAX: usize = 2 * HTTP2_STREAMS_MAX as usize;

impl Default for FrameWatch {
    fn default() -> Self {
        Self {
            heads: FrameHeads::behind(PREFACE.len()),
            faults: FrameFaults::default(),
            is_head_open: false,
            begun: 0,
            credit: HTTP2_IDLE_FRAMES_MAX,
            since: None,
            newest: 0,
            data_bytes: 0,
            opened: VecDeque::new(),
        }
    }
}

impl FrameWatch {
    /// Processes received bytes at `now`.
    pub fn see(&mut self, mut bytes: &[u8], now: Instant) {
        loop {
            if self.heads.within().is_some_and(|head| FrameFaults::keeps_payload(head.kind)) {
                self.faults.add(self.heads.payload(bytes));
            }
            let Some(met) = self.heads.next(&mut bytes) else { return };
            match met {
                FrameEvent::Beginning => {
                    self.since = Some(now);
                    self.begun += u64::from(!self.is_head_open);
                }
                FrameEvent::Head(head) => self.begin_payload(head),
            }
        }
    }

    /// Returns the number of the frame, or of the header of several frames, that has begun and not ended, unless it is
    /// data.
    pub fn unfinished(&self) -> Option<u64> {
        let is_between = self.heads.is_between() && !self.is_head_open;
        (!is_between && self.data_of().is_none()).then_some(self.begun)
    }

    /// Returns the stream of a DATA frame that has begun and not ended.
    pub fn data_of(&self) -> Option<u32> {
        self.heads.within().filter(|head| head.kind == DATA).map(|head| head.stream)
    }

    /// Returns the total length of DATA frames that have begun since the last call.
    pub fn take_data_bytes(&mut self) -> u64 {
        std::mem::take(&mut self.data_bytes)
    }

    /// Returns when the request header of this stream began; only once.
    pub fn take_head(&mut self, stream: u32) -> Option<Instant> {
        let place = self.opened.iter().position(|(id, _)| *id == stream)?;
        self.opened.remove(place).map(|(_, since)| since)
    }

    /// Records that the library has processed everything received.
    pub fn settle(&mut self) {
        self.faults.settle(!self.heads.is_between() || self.is_head_open);
    }

    /// Returns why the library has ended the connection.
    pub fn fault(&self) -> ConnectionFault {
        self.faults.fault()
    }

    /// Records content sent to the client, which allows a few more frames without content.
    pub fn note_content(&mut self) {
        self.credit = self.credit.saturating_add(HTTP2_FRAMES_PER_CONTENT).min(HTTP2_IDLE_FRAMES_MAX);
    }

    /// Returns whether the client has sent more frames without content than can be useful.
    pub fn is_flood(&self) -> bool {
        self.credit == 0
    }

    fn begin_payload(&mut self, head: FrameHead) {
        let is_new = head.stream > self.newest && head.stream % 2 == 1 && !self.is_head_open;
        self.faults.begin(head, is_new);
        if let (HEADERS, Some(since)) = (head.kind, self.since)
            && head.stream > self.newest
        {
            self.newest = head.stream;
            if self.opened.len() == OPENED_MAX {
                self.opened.pop_front();
            }
            self.opened.push_back((head.stream, since));
        }
        if head.kind == DATA {
            self.data_bytes += u64::from(head.length);
        }
        if matches!(head.kind, HEADERS | CONTINUATION) {
            self.is_head_open = !head.ends_headers();
        }
        if matches!(head.kind, DATA | HEADERS) && head.length > 0 {
            self.note_content();
        } else {
            self.credit = self.credit.saturating_sub(1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PING: u8 = 6;
    const END_HEADERS: u8 = 4;

    fn frame(kind: u8, flags: u8, stream: u8, length: u8) -> Vec<u8> {
        [&[0, 0, length, kind, flags, 0, 0, 0, stream][..], &vec![7; usize::from(length)]].concat()
    }

    /// Processes `bytes` without a meaningful time.
    trait See {
        fn see_now(&mut self, bytes: &[u8]);
    }

    impl See for FrameWatch {
        fn see_now(&mut self, bytes: &[u8]) {
            self.see(bytes, crate::time::now());
        }
    }

    fn greeted() -> FrameWatch {
        let mut watch = FrameWatch::default();
        watch.see_now(&[0; PREFACE.len()]);
        watch
    }

    #[test]
    fn between_frames_nothing_is_unfinished() {
        let mut watch = greeted();
        assert_eq!(watch.unfinished(), None);
        watch.see_now(
            &[frame(PING, 0, 0, 8), frame(HEADERS, END_HEADERS, 1, 20), frame(DATA, 1, 1, 0)].concat(),
        );
        assert_eq!((watch.unfinished(), watch.data_of()), (None, None));
    }

    #[test]
    fn a_head_of_several_frames_is_one() {
        let mut watch = greeted();
        watch.see_now(&frame(HEADERS, 0, 1, 20));
        assert_eq!(watch.unfinished(), Some(1));
        watch.see_now(&frame(CONTINUATION, 0, 1, 20));
        watch.see_now(&frame(CONTINUATION, END_HEADERS, 1, 20)[..10]);
        assert_eq!(watch.unfinished(), Some(1));
        watch.see_now(&frame(CONTINUATION, END_HEADERS, 1, 20)[10..]);
        assert_eq!(watch.unfinished(), None);
        watch.see_now(&frame(PING, 0, 0, 8)[..3]);
        assert_eq!(watch.unfinished(), Some(2));
    }

    #[test]
    fn data_on_its_way_is_known_by_its_stream() {
        let mut watch = greeted();
        watch.see_now(&frame(DATA, 0, 5, 20)[..12]);
        assert_eq!((watch.unfinished(), watch.data_of()), (None, Some(5)));
        watch.see_now(&frame(DATA, 0, 5, 20)[12..]);
        assert_eq!(watch.data_of(), None);
    }

    #[test]
    fn it_is_the_same_however_the_bytes_are_cut() {
        let frames =
            [frame(HEADERS, 0, 3, 9), frame(CONTINUATION, END_HEADERS, 3, 1), frame(DATA, 0, 3, 200)];
        let bytes = [vec![0; PREFACE.len()], frames.concat(), frame(PING, 0, 0, 8)].concat();
        for cut in 0..bytes.len() {
            let (mut whole, mut halves) = (FrameWatch::default(), FrameWatch::default());
            whole.see_now(&bytes[..cut]);
            bytes[..cut].iter().for_each(|byte| halves.see_now(&[*byte]));
            assert_eq!(
                (whole.unfinished(), whole.data_of()),
                (halves.unfinished(), halves.data_of()),
                "{cut}"
            );
            halves.see_now(&bytes[cut..]);
            assert_eq!(
                (halves.unfinished(), halves.begun, halves.credit),
                (None, 3, HTTP2_IDLE_FRAMES_MAX - 1)
            );
        }
    }

    #[test]
    fn frames_without_content_are_a_flood_in_the_end() {
        let mut watch = greeted();
        for _ in 0..HTTP2_IDLE_FRAMES_MAX {
            assert!(!watch.is_flood());
            watch.see_now(&frame(PING, 0, 0, 8));
        }
        assert!(watch.is_flood());
    }

    #[test]
    fn frames_that_go_with_content_are_none() {
        let mut watch = greeted();
        for _ in 0..HTTP2_IDLE_FRAMES_MAX {
            watch.note_content();
            (0..HTTP2_FRAMES_PER_CONTENT).for_each(|_| watch.see_now(&frame(8, 0, 0, 4)));
        }
        assert!(!watch.is_flood());
    }

    #[test]
    fn it_knows_when_the_head_of_a_stream_began_and_no_trailers() {
        let (mut watch, begin) = (greeted(), crate::time::now());
        let at = |seconds| begin + std::time::Duration::from_secs(seconds);
        let bytes = [frame(HEADERS, 0, 1, 20), frame(CONTINUATION, END_HEADERS, 1, 20)].concat();
        watch.see(&bytes[..4], at(1));
        watch.see(&bytes[4..], at(2));
        watch.see(&frame(HEADERS, END_HEADERS, 3, 5), at(3));
        watch.see(&frame(HEADERS, END_HEADERS, 1, 5), at(4));
        assert_eq!([watch.take_head(3), watch.take_head(1)], [Some(at(3)), Some(at(1))]);
        assert_eq!([watch.take_head(3), watch.take_head(1)], [None, None], "once, and trailers are no head");
        for _ in 0..2 * OPENED_MAX {
            watch.newest = 0;
            watch.see(&frame(HEADERS, END_HEADERS, 5, 5), at(5));
        }
        assert_eq!(watch.opened.len(), OPENED_MAX);
    }
}
