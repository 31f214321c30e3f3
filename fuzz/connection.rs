//! Serves a whole connection with arbitrary bytes of its peer, and checks the invariants of [`Connection`].
//!
//! The first four bytes of a sample select the negotiated protocol and the kind of handler; how the rest is split; how much
//! the socket accepts at once; the longest body.

use std::io::IoSlice;
use std::sync::Arc;
use std::time::{Duration, Instant};

use svc_core::connection::{
    Announced, Ask, Command, Connection, ConnectionTerms, Decision, Grant, Input, Peer, Rejected, Response,
    Sent, Stream, WireProtocol,
};
use svc_core::http::{Fields, HeadLimits};
use svc_core::limits::{
    BODY_MEMORY_MAX, HEAD_BYTES_MAX, HTTP2_STREAMS_MAX, LINK_STEPS_MAX, OUTPUT_BYTES_MAX,
};
use svc_core::pool::{End, Origin, Part, ResponseHead};
use svc_core::spool::{Share, Spool};
use svc_core::sync::permits::Permits;
use svc_core::time;

/// The longest response.
const REPLY_BYTES: usize = 70_000;

/// The choices in the first bytes of a sample.
#[derive(Clone, Copy, Debug)]
struct Choices {
    agrees_on_http2: bool,
    accepts_http2: bool,
    is_closing: bool,
    closes_half: bool,
    keeps_bytes: bool,
    answerer: u8,
    cut: usize,
    room: usize,
    is_memory_tight: bool,
    body_bytes_max: u64,
}

/// The owner of the connection.
struct Owner {
    connection: Connection<usize>,
    choices: Choices,
    peer: Peer,
    now: Instant,
    input: Vec<u8>,
    fed: usize,
    has_ended: bool,
    held: usize,
    taken: Vec<u8>,
    /// The requests, and how they ended: not yet, sent, or lost.
    requests: Vec<(String, Option<bool>)>,
    permits: Arc<Permits>,
    spool: Spool,
    is_closed: bool,
    is_in_line: bool,
}

/// Serves a connection whose peer sends these bytes.
pub(super) fn serve_sample(bytes: &[u8]) -> String {
    let Some((&[first, second, third, fourth], rest)) = bytes.split_first_chunk() else {
        return "short".into();
    };
    let choices = Choices {
        agrees_on_http2: first & 1 != 0,
        accepts_http2: first & 2 != 0,
        is_closing: first & 4 != 0,
        closes_half: first & 8 != 0,
        keeps_bytes: first & 16 != 0,
        answerer: first >> 5,
        cut: if second == 0 { 16_384 } else { usize::from(second) },
        room: if third == 0 { usize::MAX } else { usize::from(third) * 64 },
        is_memory_tight: third % 2 == 1,
        body_bytes_max: if fourth == 0 { 1 << 20 } else { u64::from(fourth) },
    };
    let owner = serve(choices, rest);
    if !owner.connection.is_multiplexed() && !choices.is_closing {
        // However the bytes are split, the requests are the same; but after a body with `Expect: 100-continue`, the number
        // of bytes that have arrived decides whether the connection continues.
        let dripped = serve(Choices { cut: 1, ..choices }, rest);
        let asked = |owner: &Owner| owner.requests.iter().map(|(what, _)| what.clone()).collect::<Vec<_>>();
        let (whole, drips) = (asked(&owner), asked(&dripped));
        assert!(
            whole.starts_with(&drips) || drips.starts_with(&whole),
            "drips ask for {drips:?}, not {whole:?}"
        );
    }
    let whole = owner.requests.iter().filter(|(_, end)| *end == Some(true)).count();
    format!("{whole}of{}", owner.requests.len())
}

fn serve(choices: Choices, bytes: &[u8]) -> Owner {
    let mut owner = Owner::new(choices);
    owner.turn();
    for piece in bytes.chunks(choices.cut) {
        owner.input.extend_from_slice(piece);
        owner.peer.is_readable = true;
        owner.turns();
    }
    if choices.closes_half {
        (owner.has_ended, owner.peer.is_readable, owner.peer.is_closed) = (true, true, true);
        owner.turns();
    }
    // From now on, only time passes.
    for _ in 0..1000 {
        if owner.is_closed {
            break;
        }
        owner.now = owner.now.max(owner.connection.deadline().expect("nothing ends it"));
        owner.connection.handle(Input::Timeout, owner.now);
        owner.turns();
    }
    assert!(owner.is_closed, "no deadline ends it");
    owner.check_end();
    owner
}

impl Owner {
    fn new(choices: Choices) -> Self {
        let (now, second) = (time::now(), Duration::from_secs(1));
        let terms = ConnectionTerms {
            head: HeadLimits::main_port(),
            header_timeout: 3 * second,
            body_timeout: 4 * second,
            write_timeout: 5 * second,
            keepalive_timeout: 6 * second,
            linger_timeout: second,
            exchange_timeout: None,
            accepts_http2: choices.accepts_http2,
            window_permits: Permits::new(8),
        };
        let mut connection = Connection::new(Arc::new(terms), false, now);
        if choices.agrees_on_http2 {
            connection.handle(Input::Protocol(WireProtocol::Http2), now);
        }
        Self {
            connection,
            choices,
            peer: Peer::default(),
            now,
            input: Vec::new(),
            fed: 0,
            has_ended: false,
            held: 0,
            taken: Vec::new(),
            requests: Vec::new(),
            permits: Permits::new(10),
            spool: Spool::new(std::env::temp_dir(), 80_000),
            is_closed: false,
            is_in_line: false,
        }
    }

    fn turns(&mut self) {
        for _ in 0..10_000 {
            let before = (self.taken.len(), self.held, self.requests.len());
            self.turn();
            if self.is_closed
                || !(self.is_in_line || before != (self.taken.len(), self.held, self.requests.len()))
            {
                return;
            }
        }
        panic!("it never comes to rest");
    }

    fn turn(&mut self) {
        if self.is_closed {
            return;
        }
        self.is_in_line = false;
        let Choices { is_closing, is_memory_tight, .. } = self.choices;
        self.connection.handle(Input::Turn { is_closing, is_memory_tight }, self.now);
        let mut room = self.choices.room;
        for _ in 0..12 * HTTP2_STREAMS_MAX * LINK_STEPS_MAX {
            self.peer.has_pending_tls_output = self.held > 0;
            match self.connection.poll_command(self.peer, self.now) {
                Command::Close { .. } => return self.is_closed = true,
                Command::Wait => {
                    assert!(self.connection.deadline().is_some(), "no event will ever wake it");
                    return;
                }
                Command::Yield => return self.is_in_line = true,
                Command::Ended(ended) => {
                    let number = *self.connection.ended().expect("it has ended");
                    let (_, end) = &mut self.requests[number];
                    assert!(end.replace(!ended.is_lost).is_none(), "request {number} ends twice");
                    assert!(ended.sent_bytes as usize <= self.taken.len() + self.held);
                }
                Command::Read { .. } => self.read(),
                Command::Rejected(_) | Command::ShutDown { .. } => {}
                Command::Request(incoming) => {
                    let permit = incoming.needs_permit.then(|| self.permits.try_acquire());
                    if let Some(None) = permit {
                        self.connection.handle(Input::Refuse, self.now);
                        continue;
                    }
                    let what = format!("{} {:?}", incoming.head.method(), incoming.head.target());
                    self.requests.push((what, None));
                    let grant = Grant {
                        body_bytes_max: self.choices.body_bytes_max,
                        outlives_client: self.choices.answerer == 3,
                        permit: permit.flatten(),
                    };
                    let fits = self.connection.begin(self.requests.len() - 1, grant, self.now);
                    self.answer(incoming.stream, fits);
                }
                Command::Stream(stream, ask) => self.handle_ask(stream, ask),
                Command::Transmit => self.transmit(&mut room),
                Command::Unreadable(unreadable) => {
                    let permit = unreadable.needs_permit.then(|| self.permits.try_acquire());
                    if let Some(None) = permit {
                        self.connection.handle(Input::Refuse, self.now);
                        continue;
                    }
                    // The error of a head with several faults depends on how much of it has arrived.
                    let error = match unreadable.error {
                        Rejected::Head(_) => "Head".into(),
                        error => format!("{error:?}"),
                    };
                    self.requests.push((error, None));
                    let grant = Grant { permit: permit.flatten(), ..Grant::default() };
                    assert!(self.connection.begin(self.requests.len() - 1, grant, self.now));
                    self.decide(unreadable.stream, Decision::Respond(page(400)));
                }
            }
        }
        panic!("a turn has no end");
    }

    fn read(&mut self) {
        let bytes = std::mem::take(&mut self.input);
        self.peer.is_readable = self.has_ended;
        self.fed += bytes.len();
        if !bytes.is_empty() {
            self.connection.handle(Input::Bytes(&bytes), self.now);
        } else if self.has_ended {
            self.connection.handle(Input::End, self.now);
        } else {
            self.connection.handle(Input::WouldBlock, self.now);
        }
    }

    fn answer(&mut self, stream: u32, fits: bool) {
        let decision = match self.choices.answerer {
            _ if !fits => Decision::Refuse(page(413)),
            0 => Decision::Respond(page(200)),
            1 => Decision::Refuse(page(403)),
            _ => Decision::ReadBody,
        };
        self.decide(stream, decision);
    }

    fn decide(&mut self, stream: u32, decision: Decision) {
        let stream = self.connection.stream(stream).expect("it is being served");
        stream.decide(decision, self.now);
    }

    fn handle_ask(&mut self, stream: u32, ask: Ask) {
        let now = self.now;
        let stream = self.connection.stream(stream).expect("it is being served");
        match ask {
            Ask::Announce { head, length, head_only } => {
                let ResponseHead { status, reason, fields, .. } = head;
                let date = *b"Sun, 06 Nov 1994 08:49:37 GMT";
                let has_body = !head_only;
                stream.announce(Announced { status, reason, fields, length, has_body, page: None, date });
            }
            Ask::AwaitSpoolRoom | Ask::WaitOver => {}
            Ask::BodyLate { .. } => stream.decide(Decision::Refuse(page(408)), now),
            Ask::BodyRefused(_) => stream.decide(Decision::Refuse(page(400)), now),
            Ask::Collect => {
                let parts = response(self.choices.answerer);
                stream.collect(|_, into| {
                    into.extend(parts);
                    Share::default()
                });
            }
            Ask::Offer { body, .. } => {
                assert!(body.len() <= self.choices.body_bytes_max, "a body is longer than granted");
                if self.choices.answerer == 2 {
                    return stream.decide(Decision::Respond(page(503)), now);
                }
                let until = Some(now + Duration::from_secs(1));
                stream.decide(Decision::Await { until }, now);
                stream.note_response();
            }
            Ask::SendFile(_) | Ask::Slice(..) => panic!("no response is on a disk"),
            Ask::Spool(file, bytes) => {
                assert!(bytes.len() <= BODY_MEMORY_MAX + 16_384, "{} bytes of a body were kept", bytes.len());
                let file = match file.map_or_else(|| self.spool.create(), Ok) {
                    Ok(file) => file,
                    Err(error) => return Self::refuse(stream, (None, bytes), &error, now),
                };
                match file.append(&bytes) {
                    Ok(()) => stream.spooled(file, bytes, now),
                    Err(error) => Self::refuse(stream, (Some(file), bytes), &error, now),
                }
            }
        }
    }

    fn refuse(
        stream: &mut Stream<usize>,
        (file, bytes): (Option<svc_core::spool::SpoolFile>, Vec<u8>),
        error: &svc_core::spool::SpoolError,
        now: Instant,
    ) {
        if !stream.spool_refused(file, bytes, error) {
            stream.decide(Decision::Refuse(page(503)), now);
        }
    }

    fn transmit(&mut self, room: &mut usize) {
        let Self { connection, choices, held, taken, now, .. } = self;
        let sent = connection.transmit(*now, |output| {
            assert!(
                output.len() <= OUTPUT_BYTES_MAX + REPLY_BYTES + HEAD_BYTES_MAX,
                "{} bytes wait",
                output.len()
            );
            let before = *room;
            while !output.is_empty() && *room > 0 {
                let mut slices = [IoSlice::new(&[])];
                output.fill(&mut slices);
                let count = slices[0].len().min(*room);
                taken.extend_from_slice(&slices[0][..count]);
                *room -= count;
                output.advance(count);
            }
            *held = if choices.keeps_bytes && *room == 0 { (before - *room).min(100) } else { 0 };
            let is_all = output.is_empty() && *held == 0;
            Ok::<_, ()>(Sent { is_all, bytes: before - *room, held_back: *held })
        });
        sent.expect("it was written");
    }

    fn check_end(&mut self) {
        for (number, (what, end)) in self.requests.iter().enumerate() {
            assert!(end.is_some(), "request {number}, {what}, never ends");
        }
        for stream in [0, 1, 3, u32::MAX] {
            assert!(self.connection.stream(stream).is_none(), "a request has not ended");
        }
        self.connection.handle(Input::Turn { is_closing: false, is_memory_tight: false }, self.now);
        assert!(matches!(self.connection.poll_command(self.peer, self.now), Command::Close { .. }));
        if !self.connection.is_multiplexed() && !self.taken.is_empty() {
            assert!(self.taken.starts_with(b"HTTP/1."), "no response of HTTP/1");
        }
    }
}

fn head(status: u16) -> ResponseHead {
    ResponseHead { status, ..ResponseHead::bare(Origin::Server) }
}

fn page(status: u16) -> Response {
    Response::whole(head(status), b"a page".to_vec())
}

fn response(answerer: u8) -> Vec<Part> {
    let end = if answerer == 4 { End::Broken } else { End::Complete };
    let body = vec![b'x'; if answerer == 5 { REPLY_BYTES } else { 10 }];
    vec![Part::Interim(103, Fields::new()), Part::Head(head(200)), Part::Data(body), Part::End(end)]
}
