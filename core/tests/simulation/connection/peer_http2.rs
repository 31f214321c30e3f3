//! An HTTP/2 client that writes its frames itself: concurrent requests, bodies within their windows, and the
//! misbehaviour of broken clients.

use std::collections::{BTreeMap, VecDeque};

use super::model::Model;
use super::plan::{ASKED, Dice, Framed, Plan, bytes};
use super::readers::{
    CONTINUATION, DATA, END_HEADERS, END_STREAM, Frame, GOAWAY, HEADERS, Http2Reader, PING, RST_STREAM,
    SETTINGS, WINDOW_UPDATE,
};

/// The client.
pub(crate) struct Http2Client {
    pub(crate) reader: Http2Reader,
    /// The requests sent, by stream.
    pub(crate) streams: BTreeMap<u32, Sending>,
    next: usize,
    /// Frames written, but not sent yet.
    rest: VecDeque<u8>,
    window: i64,
    first_window: i64,
    /// The window that could be returned to the server: of the connection, and of its streams.
    unread: i64,
    unread_of: BTreeMap<u32, i64>,
    /// The window left to the server: of the connection, and of its streams.
    open: i64,
    open_of: BTreeMap<u32, i64>,
    is_greeted: bool,
    /// Whether it returns no window for now.
    pub(crate) is_stalled: bool,
    /// Whether the server is shutting down, or was made to.
    pub(crate) is_over: bool,
}

/// A request whose body may still be in progress.
#[derive(Debug)]
pub(crate) struct Sending {
    pub(crate) number: usize,
    sent: usize,
    window: i64,
    has_ended: bool,
    continued: bool,
}

impl Http2Client {
    pub(crate) fn new() -> Self {
        Self {
            reader: Http2Reader::default(),
            streams: BTreeMap::new(),
            next: 0,
            rest: VecDeque::new(),
            window: 65_535,
            first_window: 65_535,
            unread: 0,
            unread_of: BTreeMap::new(),
            open: 65_535,
            open_of: BTreeMap::new(),
            is_greeted: false,
            is_stalled: false,
            is_over: false,
        }
    }

    pub(crate) fn number_of(&self, stream: u32) -> Option<usize> {
        self.streams.get(&stream).map(|sending| sending.number)
    }

    pub(crate) fn asked(&self) -> usize {
        self.next
    }

    /// Returns whether there is nothing left to send.
    pub(crate) fn is_done(&self, plan: &Plan) -> bool {
        self.rest.is_empty()
            && (self.is_over || self.next == plan.requests.len())
            && self.streams.iter().all(|(id, sending)| sending.has_ended || self.is_answered(*id))
    }

    pub(crate) fn is_answered(&self, stream: u32) -> bool {
        self.reader.streams.get(&stream).is_some_and(|seen| seen.is_complete || seen.is_reset)
    }

    /// Returns up to `max` bytes that can be sent now.
    pub(crate) fn write(&mut self, plan: &Plan, max: usize, dice: &mut Dice) -> Vec<u8> {
        let mut out = Vec::new();
        while out.len() < max {
            if self.rest.is_empty() && !self.act(plan, dice) {
                break;
            }
            let count = self.rest.len().min(max - out.len());
            out.extend(self.rest.drain(..count));
        }
        out
    }

    /// Writes the next frames; returns whether there were any.
    fn act(&mut self, plan: &Plan, dice: &mut Dice) -> bool {
        if !std::mem::replace(&mut self.is_greeted, true) {
            self.rest.extend(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
            let setting = [&4u16.to_be_bytes()[..], &plan.window.to_be_bytes()].concat();
            self.frame(SETTINGS, 0, 0, &setting);
            if plan.window > 65_535 {
                self.open(0, 4 * i64::from(plan.window));
            }
            return true;
        }
        let bodies: Vec<u32> =
            self.streams.iter().filter(|(id, _)| self.can_send(plan, **id)).map(|it| *it.0).collect();
        let can_ask = self.next < plan.requests.len() && !self.is_over;
        let can_give =
            !self.is_stalled && (self.unread > 0 || self.unread_of.values().any(|unread| *unread > 0));
        match dice.below(3) {
            0 if can_ask => self.ask(plan, dice),
            1 if can_give => self.give_back(),
            _ if !bodies.is_empty() => self.send_body(plan, dice.of(&bodies), dice),
            _ if can_ask => self.ask(plan, dice),
            _ if can_give => self.give_back(),
            _ => return false,
        }
        true
    }

    fn can_send(&self, plan: &Plan, id: u32) -> bool {
        let sending = &self.streams[&id];
        let asked = &plan.requests[sending.number];
        let waits = asked.expects && asked.is_patient && !sending.continued;
        let is_empty = sending.sent == asked.body_bytes;
        !sending.has_ended
            && !self.is_answered(id)
            && !waits
            && (is_empty || (sending.window > 0 && self.window > 0))
    }

    fn frame(&mut self, kind: u8, flags: u8, stream: u32, payload: &[u8]) {
        self.rest.extend(&(payload.len() as u32).to_be_bytes()[1..]);
        self.rest.extend([kind, flags]);
        self.rest.extend(stream.to_be_bytes());
        self.rest.extend(payload);
    }

    fn ask(&mut self, plan: &Plan, dice: &mut Dice) {
        let (asked, window) = (&plan.requests[self.next], plan.window);
        let (number, id) = (self.next, 2 * self.next as u32 + 1);
        self.next += 1;
        let mut fields = vec![
            (":method", asked.method.to_owned()),
            (":scheme", "http".to_owned()),
            (":authority", "h".to_owned()),
            (":path", format!("/{number}")),
        ];
        if asked.framed == Framed::Length {
            fields.push(("content-length", asked.body_bytes.to_string()));
        }
        if asked.expects {
            fields.push(("expect", "100-continue".to_owned()));
        }
        for _ in 0..asked.padding / 1000 {
            fields.push(("x-padding", "x".repeat(1000)));
        }
        let block: Vec<u8> = fields.iter().flat_map(|(name, value)| literal(name, value)).collect();
        let has_ended = asked.framed == Framed::Nothing;
        let end = if has_ended { END_STREAM } else { 0 };
        let cut = if block.len() > 16_000 || dice.one_in(8) {
            block.len().min(dice.index(1000))
        } else {
            block.len()
        };
        let (first, rest) = block.split_at(cut);
        self.frame(HEADERS, end | if rest.is_empty() { END_HEADERS } else { 0 }, id, first);
        let mut pieces = rest.chunks(16_000).peekable();
        while let Some(piece) = pieces.next() {
            self.frame(CONTINUATION, if pieces.peek().is_none() { END_HEADERS } else { 0 }, id, piece);
        }
        self.open_of.insert(id, i64::from(window));
        let window = self.first_window;
        self.streams.insert(id, Sending { number, sent: 0, window, has_ended, continued: false });
    }

    fn send_body(&mut self, plan: &Plan, id: u32, dice: &mut Dice) {
        let Some(sending) = self.streams.get_mut(&id) else { return };
        let asked = &plan.requests[sending.number];
        let left = asked.body_bytes - sending.sent;
        let room = sending.window.min(self.window).max(0) as usize;
        let count = left.min(room).min(1 + dice.size(16_383));
        let content = bytes(ASKED + sending.number as u32, sending.sent, count);
        sending.sent += count;
        sending.window -= count as i64;
        self.window -= count as i64;
        sending.has_ended = count == left && (left == 0 || !dice.one_in(4));
        let flags = if sending.has_ended { END_STREAM } else { 0 };
        self.frame(DATA, flags, id, &content);
    }

    fn give_back(&mut self) {
        let unread = std::mem::take(&mut self.unread);
        if unread > 0 {
            self.open(0, unread);
        }
        for (id, unread) in std::mem::take(&mut self.unread_of) {
            if !self.is_answered(id) {
                self.open(id, unread);
            }
        }
    }

    fn open(&mut self, id: u32, more: i64) {
        *if id == 0 { &mut self.open } else { self.open_of.entry(id).or_default() } += more;
        self.frame(WINDOW_UPDATE, 0, id, &(more as u32).to_be_bytes());
    }

    /// Reads data from the server.
    pub(crate) fn read(&mut self, bytes: &[u8], model: &Model) {
        let mut frames = Vec::new();
        let numbers: BTreeMap<u32, usize> = self.streams.iter().map(|(id, it)| (*id, it.number)).collect();
        self.reader.feed(
            bytes,
            model,
            |id| numbers.get(&id).copied(),
            |frame| {
                let payload = frame.payload.clone();
                frames.push(Frame { kind: frame.kind, flags: frame.flags, stream: frame.stream, payload });
            },
        );
        frames.iter().for_each(|frame| self.react(frame));
    }

    fn react(&mut self, frame: &Frame) {
        let number = |at: usize| {
            i64::from(u32::from_be_bytes(frame.payload[at..at + 4].try_into().expect("four bytes")))
        };
        match frame.kind {
            DATA => {
                let count = frame.payload.len() as i64;
                self.unread += count;
                self.open -= count;
                *self.open_of.entry(frame.stream).or_default() -= count;
                assert!(self.open >= 0 && self.open_of[&frame.stream] >= 0, "it sends beyond a window");
                *self.unread_of.entry(frame.stream).or_default() += frame.payload.len() as i64;
            }
            HEADERS => {
                if let Some(sending) = self.streams.get_mut(&frame.stream) {
                    sending.continued = true;
                }
            }
            SETTINGS if frame.flags & 1 == 0 => {
                for at in (0..frame.payload.len()).step_by(6) {
                    if frame.payload[at..at + 2] == [0, 4] {
                        let more = number(at + 2) - self.first_window;
                        self.first_window += more;
                        self.streams.values_mut().for_each(|sending| sending.window += more);
                    }
                }
                self.frame(SETTINGS, 1, 0, &[]);
            }
            PING if frame.flags & 1 == 0 => self.frame(PING, 1, 0, &frame.payload),
            WINDOW_UPDATE if frame.stream == 0 => self.window += number(0),
            WINDOW_UPDATE => {
                if let Some(sending) = self.streams.get_mut(&frame.stream) {
                    sending.window += number(0);
                }
            }
            GOAWAY => self.is_over = true,
            _ => {}
        }
    }

    /// Extends the windows of the connection and of open streams where they are small.
    pub(crate) fn widen(&mut self, dice: &mut Dice) {
        let open: Vec<u32> = self.streams.keys().copied().filter(|id| !self.is_answered(*id)).collect();
        if !self.is_greeted {
            return;
        }
        for id in open.into_iter().chain([0]) {
            let more = 1 + dice.size(100_000) as i64;
            let now = if id == 0 { self.open } else { self.open_of.get(&id).copied().unwrap_or_default() };
            if now < 200_000 {
                self.open(id, more);
            }
        }
    }

    /// Does something that a correct client does not; returns the request that it reset, if any.
    pub(crate) fn misbehave(&mut self, dice: &mut Dice) -> Option<usize> {
        if !self.is_greeted {
            return None;
        }
        match dice.below(8) {
            0 => {
                let flood = 1 + dice.index(300);
                (0..flood).for_each(|_| self.frame(PING, 0, 0, b"12345678"));
            }
            1 => self.frame(77, 0, 0, b"of no known kind"),
            2 => {
                self.frame(GOAWAY, 0, 0, &[0; 8]);
                self.is_over = true;
            }
            3 if dice.one_in(4) => self.rest.extend([0xff; 30]),
            4 if dice.one_in(4) => self.frame(DATA, 0, 2 * self.next as u32 + 101, b"idle"),
            _ => {
                let open: Vec<u32> =
                    self.streams.keys().copied().filter(|id| !self.is_answered(*id)).collect();
                if !open.is_empty() {
                    let id = dice.of(&open);
                    self.frame(RST_STREAM, 0, id, &8u32.to_be_bytes());
                    let sending = self.streams.get_mut(&id)?;
                    sending.has_ended = true;
                    return Some(sending.number);
                }
            }
        }
        None
    }
}

/// Encodes a field without Huffman coding or the table.
fn literal(name: &str, value: &str) -> Vec<u8> {
    let mut out = vec![0];
    for text in [name, value] {
        let mut left = text.len();
        if left < 127 {
            out.push(left as u8);
        } else {
            out.push(127);
            left -= 127;
            while left >= 128 {
                out.push(128 | (left & 127) as u8);
                left >>= 7;
            }
            out.push(left as u8);
        }
        out.extend_from_slice(text.as_bytes());
    }
    out
}
