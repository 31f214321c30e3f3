//! A test bench for a connection: a passive owner and a scripted peer.

use std::io::IoSlice;
use std::time::{Duration, Instant};

use crate::files::BodyPiece;
use crate::http::HeadLimits;
use crate::limits::HTTP2_WINDOW_PERMITS;
use crate::pool::{End, Origin, Part, ResponseHead};
use crate::spool::{Share, Spool};
use crate::sync::permits::Permits;
use crate::sync::primitive::Arc;

use super::{
    Announced, Ask, Command, Connection, ConnectionTerms, Decision, Ended, Grant, Incoming, Input, Peer,
    Response, Sent, Stream,
};

/// A connection whose requests are identified by their stream IDs.
#[derive(Debug)]
pub(super) struct Bench {
    pub(super) connection: Connection<u32>,
    pub(super) peer: Peer,
    pub(super) now: Instant,
    pub(super) is_closing: bool,
    /// The bytes that the socket still accepts.
    pub(super) room: usize,
    /// The bytes that the socket has accepted.
    pub(super) taken: Vec<u8>,
    /// The unanswered asks, and the ended requests.
    pub(super) asked: Vec<(u32, Ask)>,
    pub(super) ended: Vec<Ended>,
    mailbox: Vec<Part>,
    input: Vec<u8>,
    has_ended: bool,
    /// Answers requests for file slices immediately.
    pub(super) reads_at_once: bool,
    /// The maximum body length granted.
    pub(super) body_bytes_max: u64,
}

/// The command that ended a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rest {
    Close { is_whole: bool },
    Wait,
    Yield,
}

pub(super) fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

impl Bench {
    pub(super) fn new() -> Self {
        Self::with_window_permits(&Permits::new(HTTP2_WINDOW_PERMITS))
    }

    pub(super) fn with_window_permits(window_permits: &Arc<Permits>) -> Self {
        let now = crate::time::now();
        let terms = ConnectionTerms {
            head: HeadLimits::main_port(),
            header_timeout: seconds(10),
            body_timeout: seconds(20),
            write_timeout: seconds(30),
            keepalive_timeout: seconds(40),
            linger_timeout: seconds(2),
            exchange_timeout: None,
            accepts_http2: true,
            window_permits: Arc::clone(window_permits),
        };
        Self {
            connection: Connection::new(Arc::new(terms), false, now),
            peer: Peer::default(),
            now,
            is_closing: false,
            room: usize::MAX,
            taken: Vec::new(),
            asked: Vec::new(),
            ended: Vec::new(),
            mailbox: Vec::new(),
            input: Vec::new(),
            has_ended: false,
            reads_at_once: false,
            body_bytes_max: 1 << 20,
        }
    }

    /// Sends `bytes` from the peer.
    pub(super) fn send(&mut self, bytes: &[u8]) -> Rest {
        self.input.extend_from_slice(bytes);
        self.peer.is_readable = true;
        self.turn()
    }

    /// Closes the peer's sending side.
    pub(super) fn send_end(&mut self) -> Rest {
        (self.has_ended, self.peer.is_closed, self.peer.is_readable) = (true, true, true);
        self.turn()
    }

    pub(super) fn decide(&mut self, stream: u32, decision: Decision) -> Rest {
        let now = self.now;
        self.stream(stream).decide(decision, now);
        self.turn()
    }

    /// Returns a request that is being served.
    pub(super) fn stream(&mut self, stream: u32) -> &mut Stream<u32> {
        self.connection.stream(stream).expect("it is being served")
    }

    /// Passes an event to the connection.
    pub(super) fn handle(&mut self, input: Input<'_>) {
        self.connection.handle(input, self.now);
    }

    /// Delivers parts of a response from a worker.
    pub(super) fn give(&mut self, stream: u32, parts: Vec<Part>) -> Rest {
        self.stream(stream).note_response();
        self.mailbox = parts;
        let rest = self.turn();
        assert!(self.mailbox.is_empty(), "they were not collected");
        rest
    }

    /// Advances the time to the deadline.
    pub(super) fn time_out(&mut self) -> Rest {
        self.now = self.connection.deadline().expect("there is a deadline");
        self.handle(Input::Timeout);
        self.turn()
    }

    /// Runs the connection until it waits, yields or closes; collects other asks in `asked`.
    pub(super) fn turn(&mut self) -> Rest {
        self.handle(Input::Turn { is_closing: self.is_closing, is_memory_tight: false });
        loop {
            match self.connection.poll_command(self.peer, self.now) {
                Command::Close { is_whole } => return Rest::Close { is_whole },
                Command::Wait => return Rest::Wait,
                Command::Yield => return Rest::Yield,
                Command::Ended(ended) => {
                    assert_eq!(self.connection.ended(), Some(&mut { ended.stream }));
                    self.ended.push(ended);
                }
                Command::Read { .. } => self.read(),
                Command::Rejected(_) | Command::ShutDown { .. } => {}
                Command::Request(Incoming { stream, .. }) => {
                    let grant =
                        Grant { body_bytes_max: self.body_bytes_max, outlives_client: false, permit: None };
                    assert!(self.connection.begin(stream, grant, self.now));
                }
                Command::Stream(stream, Ask::Announce { head, length, head_only }) => {
                    self.announce(stream, head, length, head_only);
                }
                Command::Stream(stream, Ask::Collect) => {
                    let parts = std::mem::take(&mut self.mailbox);
                    self.stream(stream).collect(|_, into| {
                        into.extend(parts);
                        Share::default()
                    });
                }
                Command::Stream(stream, Ask::Slice(_, _, len)) if self.reads_at_once => {
                    self.stream(stream).sliced(vec![0; len]);
                }
                Command::Stream(stream, ask) => self.asked.push((stream, ask)),
                Command::Transmit => self.transmit(),
                Command::Unreadable(unreadable) => {
                    assert!(self.connection.begin(unreadable.stream, Grant::default(), self.now));
                }
            }
        }
    }

    fn read(&mut self) {
        self.peer.is_readable = self.has_ended;
        match std::mem::take(&mut self.input) {
            bytes if !bytes.is_empty() => self.handle(Input::Bytes(&bytes)),
            _ if self.has_ended => self.handle(Input::End),
            _ => self.handle(Input::WouldBlock),
        }
    }

    fn announce(&mut self, stream: u32, head: ResponseHead, length: Option<u64>, head_only: bool) {
        let ResponseHead { status, reason, fields, .. } = head;
        let has_body = !head_only && !crate::http::status::is_bodiless(status);
        let date = *b"Sun, 06 Nov 1994 08:49:37 GMT";
        let announced = Announced { status, reason, fields, length, has_body, page: None, date };
        self.stream(stream).announce(announced);
    }

    fn transmit(&mut self) {
        let (room, taken) = (&mut self.room, &mut self.taken);
        let sent = self.connection.transmit(self.now, |output| {
            let before = *room;
            while !output.is_empty() && *room > 0 {
                let mut slices = [IoSlice::new(&[])];
                output.fill(&mut slices);
                let count = slices[0].len().min(*room);
                taken.extend_from_slice(&slices[0][..count]);
                *room -= count;
                output.advance(count);
            }
            Ok::<_, ()>(Sent { is_all: output.is_empty(), bytes: before - *room, held_back: 0 })
        });
        sent.expect("it was written");
    }

    /// Takes the bytes that the peer has received, as text.
    pub(super) fn text(&mut self) -> String {
        String::from_utf8(std::mem::take(&mut self.taken)).expect("text")
    }
}

/// Creates a complete response.
pub(super) fn answer(body: &str) -> Response {
    let Part::Head(head) = head(None) else { unreachable!("it is one") };
    Response::whole(head, body.as_bytes().to_vec())
}

/// Creates a response with `len` bytes of a file.
pub(super) fn file(len: u64) -> Response {
    let Part::Head(head) = head(Some(len)) else { unreachable!("it is one") };
    let file = Arc::new(tempfile::tempfile().expect("a file"));
    let memory = Spool::new(std::env::temp_dir(), 0);
    Response::pieces(head, vec![BodyPiece::File(file, 0..len)], &memory)
}

/// Creates the head of a response.
pub(super) fn head(content_length: Option<u64>) -> Part {
    Part::Head(ResponseHead { content_length, ..ResponseHead::bare(Origin::Script) })
}

/// Creates a body part of a response.
pub(super) fn data(text: &str) -> Part {
    Part::Data(text.as_bytes().to_vec())
}

/// Creates the end of a response.
pub(super) fn end() -> Part {
    Part::End(End::Complete)
}

/// Returns the HTTP/2 preface with empty SETTINGS.
pub(super) fn greeting() -> Vec<u8> {
    [&b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"[..], &frame(4, 0, 0, &[])].concat()
}

/// Encodes an HTTP/2 frame.
pub(super) fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).expect("a short frame").to_be_bytes();
    [&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

/// Encodes an HTTP/2 request as one HEADERS frame; with `is_end`, it has no body.
pub(super) fn request(stream: u32, method: &str, is_end: bool) -> Vec<u8> {
    request_with(&[], stream, method, is_end)
}

/// As [`request`], with further fields.
pub(super) fn request_with(fields: &[(&str, &str)], stream: u32, method: &str, is_end: bool) -> Vec<u8> {
    let mut block = Vec::new();
    let pseudo = [(":method", method), (":scheme", "http"), (":authority", "h"), (":path", "/")];
    for (name, value) in pseudo.iter().chain(fields) {
        block.push(0);
        for text in [name, value] {
            block.push(u8::try_from(text.len()).expect("a short text"));
            block.extend_from_slice(text.as_bytes());
        }
    }
    frame(1, 4 | u8::from(is_end), stream, &block)
}
