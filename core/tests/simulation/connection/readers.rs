//! The reading halves of clients: independent parsers of the server's output.

use std::collections::BTreeMap;

use super::model::{Model, Seen};

/// Reads HTTP/1 responses.
#[derive(Debug, Default)]
pub(crate) struct Http1Reader {
    buffer: Vec<u8>,
    state: Http1State,
    pub(crate) answers: Vec<Seen>,
    pub(crate) continues: usize,
    pub(crate) interims: usize,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Http1State {
    #[default]
    Head,
    Length(usize),
    UntilClose,
    ChunkSize,
    Chunk(usize),
    ChunkEnd,
    LastEnd,
}

impl Http1Reader {
    /// Returns the number of the request whose response is being read.
    pub(crate) fn number(&self) -> usize {
        self.answers.iter().filter(|seen| seen.is_complete).count()
    }

    /// Returns the last response if it has begun, but not ended.
    pub(crate) fn unfinished(&self) -> Option<&Seen> {
        self.answers.last().filter(|seen| !seen.is_complete)
    }

    pub(crate) fn feed(&mut self, bytes: &[u8], model: &Model) {
        self.buffer.extend_from_slice(bytes);
        while self.step(model) {}
    }

    fn line(&mut self) -> Option<String> {
        let end = self.buffer.windows(2).position(|pair| pair == b"\r\n")?;
        let line = String::from_utf8(self.buffer[..end].to_vec()).expect("a line is text");
        self.buffer.drain(..end + 2);
        Some(line)
    }

    fn body(&mut self, max: usize, model: &Model) -> usize {
        let number = self.number();
        let bytes: Vec<u8> = self.buffer.drain(..max.min(self.buffer.len())).collect();
        model.check_body(number, self.answers.last_mut().expect("it has a head"), &bytes);
        bytes.len()
    }

    fn complete(&mut self, by_length: bool, model: &Model) -> bool {
        let (number, seen) = (self.number(), self.answers.last_mut().expect("it has a head"));
        model.check_complete(number, seen, by_length);
        seen.is_complete = true;
        self.state = Http1State::Head;
        true
    }

    fn step(&mut self, model: &Model) -> bool {
        match self.state {
            Http1State::Head => {
                let end = self.buffer.windows(4).position(|four| four == b"\r\n\r\n");
                let Some(end) = end else { return false };
                let head = String::from_utf8(self.buffer.drain(..end + 4).collect()).expect("a head is text");
                self.head(&head, model)
            }
            Http1State::Length(0) => self.complete(true, model),
            Http1State::Length(left) => {
                let count = self.body(left, model);
                self.state = Http1State::Length(left - count);
                count > 0
            }
            Http1State::UntilClose => self.body(usize::MAX, model) > 0,
            Http1State::ChunkSize => {
                let Some(line) = self.line() else { return false };
                let size = usize::from_str_radix(&line, 16).unwrap_or_else(|_| panic!("a chunk of {line:?}"));
                self.state = if size == 0 { Http1State::LastEnd } else { Http1State::Chunk(size) };
                true
            }
            Http1State::Chunk(left) => {
                let count = self.body(left, model);
                self.state =
                    if left == count { Http1State::ChunkEnd } else { Http1State::Chunk(left - count) };
                count > 0
            }
            Http1State::ChunkEnd | Http1State::LastEnd => {
                let is_last = self.state == Http1State::LastEnd;
                let Some(line) = self.line() else { return false };
                assert_eq!(line, "", "something follows a chunk");
                self.state = Http1State::ChunkSize;
                !is_last || self.complete(false, model)
            }
        }
    }

    fn head(&mut self, head: &str, model: &Model) -> bool {
        let mut lines = head.trim_end().split("\r\n");
        let first = lines.next().unwrap_or_default();
        let status: u16 = first
            .strip_prefix("HTTP/1.1 ")
            .or_else(|| first.strip_prefix("HTTP/1.0 "))
            .and_then(|rest| rest.get(..3)?.parse().ok())
            .unwrap_or_else(|| panic!("a response begins with {first:?}"));
        let fields: Vec<(String, &str)> = lines
            .map(|line| line.split_once(": ").unwrap_or_else(|| panic!("a field {line:?}")))
            .map(|(name, value)| (name.to_ascii_lowercase(), value))
            .collect();
        let field = |name: &str| {
            let mut all = fields.iter().filter(|(it, _)| it == name).map(|(_, value)| *value);
            let value = all.next();
            assert!(all.next().is_none(), "{name} comes twice in {head:?}");
            value
        };
        if status < 200 {
            self.continues += usize::from(status == 100);
            self.interims += usize::from(status != 100);
            return true;
        }
        let number = self.number();
        assert!(number < model.records.len(), "a response without a request: {head:?}");
        assert_eq!(field("x-request"), Some(&*number.to_string()), "responses are out of order");
        model.check_head(number, status);
        let keeps = field("connection") != Some("close");
        let (length, coding) = (field("content-length"), field("transfer-encoding"));
        let is_bodiless =
            model.records[number].told.is_some_and(|told| told.head_only) || matches!(status, 204 | 304);
        let is_until_close = !is_bodiless && length.is_none() && coding.is_none();
        self.answers.push(Seen { status, keeps, is_until_close, ..Seen::default() });
        self.state = match (length, coding) {
            _ if is_bodiless => Http1State::Length(0),
            (Some(length), None) => Http1State::Length(length.parse().expect("a length is a number")),
            (None, Some("chunked")) => Http1State::ChunkSize,
            (None, None) => {
                assert!(!keeps, "a response that ends with its connection keeps it: {head:?}");
                Http1State::UntilClose
            }
            _ => panic!("two framings: {head:?}"),
        };
        true
    }
}

/// An HTTP/2 frame.
#[derive(Debug)]
pub(crate) struct Frame {
    pub(crate) kind: u8,
    pub(crate) flags: u8,
    pub(crate) stream: u32,
    pub(crate) payload: Vec<u8>,
}

pub(crate) const DATA: u8 = 0;
pub(crate) const HEADERS: u8 = 1;
pub(crate) const RST_STREAM: u8 = 3;
pub(crate) const SETTINGS: u8 = 4;
pub(crate) const PING: u8 = 6;
pub(crate) const GOAWAY: u8 = 7;
pub(crate) const WINDOW_UPDATE: u8 = 8;
pub(crate) const CONTINUATION: u8 = 9;
pub(crate) const END_STREAM: u8 = 1;
pub(crate) const END_HEADERS: u8 = 4;

/// Reads HTTP/2 frames and responses.
#[derive(Default)]
pub(crate) struct Http2Reader {
    buffer: Vec<u8>,
    decoder: httlib_hpack::Decoder<'static>,
    head: Vec<u8>,
    pub(crate) streams: BTreeMap<u32, Seen>,
    pub(crate) goaway: Option<u32>,
}

impl Http2Reader {
    /// Reads received bytes; calls `tell` with each frame. `number_of` maps streams to requests.
    pub(crate) fn feed(
        &mut self,
        bytes: &[u8],
        model: &Model,
        number_of: impl Fn(u32) -> Option<usize>,
        mut tell: impl FnMut(&Frame),
    ) {
        self.buffer.extend_from_slice(bytes);
        while self.buffer.len() >= 9 {
            let length = u32::from_be_bytes([0, self.buffer[0], self.buffer[1], self.buffer[2]]) as usize;
            assert!(length <= 16_384, "a frame of {length} bytes");
            if self.buffer.len() < 9 + length {
                return;
            }
            let payload = self.buffer[9..9 + length].to_vec();
            let stream = u32::from_be_bytes(self.buffer[5..9].try_into().expect("four bytes"));
            let frame = Frame { kind: self.buffer[3], flags: self.buffer[4], stream, payload };
            self.buffer.drain(..9 + length);
            self.see(&frame, model, &number_of);
            tell(&frame);
        }
    }

    /// Returns the number of bytes received of an incomplete DATA frame of this stream.
    pub(crate) fn part_of(&self, stream: u32) -> usize {
        let is_its =
            self.buffer.len() > 9 && self.buffer[3] == DATA && self.buffer[5..9] == stream.to_be_bytes();
        if is_its { self.buffer.len() - 9 } else { 0 }
    }

    fn see(&mut self, frame: &Frame, model: &Model, number_of: &impl Fn(u32) -> Option<usize>) {
        let Frame { kind, flags, stream, .. } = *frame;
        if !matches!(kind, DATA | HEADERS | CONTINUATION | RST_STREAM) {
            if kind == GOAWAY {
                self.goaway = Some(u32::from_be_bytes(frame.payload[4..8].try_into().expect("four bytes")));
            }
            return;
        }
        let number = number_of(stream).unwrap_or_else(|| panic!("{frame:?} on an unknown stream"));
        let seen = self.streams.entry(stream).or_default();
        assert!(!seen.is_reset, "{frame:?} behind a reset");
        assert!(!seen.is_complete || kind == RST_STREAM, "{frame:?} behind the end");
        match kind {
            RST_STREAM => seen.is_reset = true,
            DATA => {
                assert!(seen.status >= 200, "a body without a head");
                model.check_body(number, seen, &frame.payload);
            }
            _ => {
                self.head.extend_from_slice(&frame.payload);
                if flags & END_HEADERS != 0 {
                    let mut list = Vec::new();
                    self.decoder
                        .decode(&mut std::mem::take(&mut self.head), &mut list)
                        .expect("a list of fields");
                    check_fields(&list, number, seen, model);
                }
            }
        }
        if matches!(kind, DATA | HEADERS) && flags & END_STREAM != 0 {
            // A response without a body is complete with its head.
            model.check_complete(number, seen, kind == HEADERS);
            seen.is_complete = true;
        }
    }
}

fn check_fields(list: &[(Vec<u8>, Vec<u8>, u8)], number: usize, seen: &mut Seen, model: &Model) {
    let field = |wanted: &[u8]| {
        let value = list.iter().find(|(name, ..)| name == wanted).map(|(_, value, _)| value);
        value.map(|value| String::from_utf8(value.clone()).expect("a value is text"))
    };
    let status = field(b":status").and_then(|status| status.parse().ok()).expect("a status");
    if status < 200 {
        assert!(seen.status < 200, "an informational response behind the head of {number}");
        seen.interims += 1;
        return;
    }
    assert!(seen.status < 200, "request {number} is answered twice");
    assert_eq!(field(b"x-request"), Some(number.to_string()), "the response is another's");
    model.check_head(number, status);
    seen.status = status;
}
