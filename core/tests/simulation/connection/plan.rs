//! The plan of a history: the requests, their responses, and the failures.

use std::sync::LazyLock;
use std::time::Duration;

use svc_core::connection::ConnectionTerms;
use svc_core::http::HeadLimits;
use svc_core::limits::DISK_SLICE_BYTES;
use svc_core::sync::permits::Permits;

/// A stream of random numbers (xorshift64*).
#[derive(Clone, Debug)]
pub(crate) struct Dice(u64);

impl Dice {
    pub(crate) fn new(seed: u64) -> Self {
        // Neighbouring seeds must diverge at once, and the state must not be 0.
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub(crate) fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 16) % end
    }

    pub(crate) fn index(&mut self, end: usize) -> usize {
        self.below(end as u64) as usize
    }

    pub(crate) fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }

    pub(crate) fn of<T: Clone>(&mut self, choices: &[T]) -> T {
        choices[self.index(choices.len())].clone()
    }

    /// Returns a number of bytes: often small, sometimes around the sizes of buffers, up to `max`.
    pub(crate) fn size(&mut self, max: usize) -> usize {
        let size = match self.below(8) {
            0 => self.index(2),
            1..4 => self.index(60),
            4 | 5 => self.index(3000),
            6 => self.of(&[4095, 4096, 4097, 16_383, 16_384, 16_385, 65_535, 65_536, 65_537]),
            _ => self.index(90_000),
        };
        size.min(max)
    }
}

/// The content of bodies; twice as long as the longest one.
static NOISE: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let mut dice = Dice::new(1);
    (0..2 * BODY_BYTES_MAX).map(|_| dice.below(256) as u8).collect()
});

/// More than the length of any body.
const BODY_BYTES_MAX: usize = 1 << 21;

/// Returns a run of a body; `salt` distinguishes messages.
pub(crate) fn bytes(salt: u32, from: usize, len: usize) -> Vec<u8> {
    run(salt, from, len).to_vec()
}

/// Returns the same as a borrowed slice.
pub(crate) fn run(salt: u32, from: usize, len: usize) -> &'static [u8] {
    let start = salt as usize * 7919 % BODY_BYTES_MAX + from;
    &NOISE[start..start + len]
}

/// Salts of the request's body, the response's, and the owner's substitute.
pub(crate) const ASKED: u32 = 0x1000;
pub(crate) const REPLIED: u32 = 0x2000;
pub(crate) const PAGE: u32 = 0x3000;

/// How the body of a request is framed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Framed {
    Chunked,
    Length,
    Nothing,
}

/// The source of the response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answerer {
    /// The owner, at once, with bytes.
    Bytes,
    /// The owner, with pieces of a file.
    File,
    /// The owner, which discards the rest of the body.
    Refusal,
    /// A worker, once the body is complete.
    Worker,
    /// The owner, once the body is complete.
    Shed,
}

/// One part of a response.
#[derive(Clone, Debug)]
pub(crate) enum Given {
    Bytes(usize),
    Interim,
    Spooled(usize),
}

/// A request and its response.
#[derive(Clone, Debug)]
pub(crate) struct Asked {
    pub(crate) method: &'static str,
    pub(crate) is_http10: bool,
    /// Whether the client asks to keep the connection.
    pub(crate) keeps: bool,
    pub(crate) framed: Framed,
    pub(crate) body_bytes: usize,
    pub(crate) expects: bool,
    /// Whether the client waits for `100 Continue` however long it takes.
    pub(crate) is_patient: bool,
    /// A malformed head that replaces the request.
    pub(crate) malformed: Option<&'static [u8]>,
    /// The length of additional fields in the head, in bytes.
    pub(crate) padding: usize,
    pub(crate) granted: u64,
    pub(crate) outlives: bool,
    /// Whether a file thread decides how to answer.
    pub(crate) is_found_later: bool,
    pub(crate) answerer: Answerer,
    pub(crate) status: u16,
    pub(crate) announced: Option<usize>,
    pub(crate) parts: Vec<Given>,
    pub(crate) is_broken: bool,
    /// The length of an error page that replaces the body.
    pub(crate) page: Option<usize>,
    pub(crate) wait: Option<Duration>,
}

impl Asked {
    /// Returns the number of body bytes that the owner will supply.
    pub(crate) fn supplied(&self) -> usize {
        self.parts
            .iter()
            .map(|part| if let Given::Bytes(n) | Given::Spooled(n) = part { *n } else { 0 })
            .sum()
    }
}

impl Given {
    /// Returns the number of body bytes put into an output at once.
    pub(crate) fn piece_bytes(&self) -> usize {
        match self {
            Self::Bytes(len) => *len,
            Self::Interim => 0,
            Self::Spooled(len) => (*len).min(DISK_SLICE_BYTES),
        }
    }
}

/// How a history ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    /// All missing data is sent, answered and read; then the client leaves.
    Peace,
    /// Both sides are inactive: only time passes.
    Silence,
    /// The owner aborts the connection.
    Abort,
    /// The client disconnects.
    Loss,
}

/// A history.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) is_http2: bool,
    pub(crate) terms: ConnectionTerms,
    /// Whether no peer is late, leaves or breaks off.
    pub(crate) is_kind: bool,
    /// Whether the client behaves well, although the owner may not.
    pub(crate) is_calm: bool,
    /// Whether the transport delays bytes.
    pub(crate) is_tls: bool,
    pub(crate) requests: Vec<Asked>,
    /// Whether the client sends the next request before the previous response.
    pub(crate) pipelines: bool,
    pub(crate) steps: u64,
    pub(crate) ending: Ending,
    pub(crate) permits: usize,
    pub(crate) spool_bytes: u64,
    pub(crate) memory_bytes: u64,
    /// The maximum number of bytes that one write accepts.
    pub(crate) socket_bytes: usize,
    /// The maximum number of bytes that arrive at once.
    pub(crate) packet_bytes: usize,
    /// The initial stream window of an HTTP/2 client.
    pub(crate) window: u32,
}

impl Plan {
    pub(crate) fn draw(dice: &mut Dice) -> Self {
        let is_http2 = dice.one_in(2);
        let is_kind = dice.one_in(3);
        let is_calm = is_kind || dice.one_in(2);
        let of_ops = !is_http2 && dice.one_in(8);
        let count = 1 + dice.index(if is_http2 { 12 } else { 5 });
        let requests = (0..count).map(|_| Asked::draw(dice, is_http2, is_kind)).collect();
        let seconds = |dice: &mut Dice| Duration::from_millis(500 + dice.below(6000));
        Self {
            is_http2,
            terms: ConnectionTerms {
                head: if of_ops { HeadLimits::ops_port() } else { HeadLimits::main_port() },
                header_timeout: seconds(dice),
                body_timeout: seconds(dice),
                write_timeout: seconds(dice),
                keepalive_timeout: seconds(dice),
                linger_timeout: seconds(dice),
                exchange_timeout: of_ops.then(|| seconds(dice)),
                accepts_http2: is_http2 || (!of_ops && dice.one_in(2)),
                window_permits: Permits::new(dice.index(20)),
            },
            is_kind,
            is_calm,
            is_tls: dice.one_in(3),
            requests,
            pipelines: dice.one_in(2),
            steps: 40 + dice.below(300),
            ending: if is_calm {
                Ending::Peace
            } else {
                dice.of(&[Ending::Peace, Ending::Silence, Ending::Abort, Ending::Loss])
            },
            permits: if is_kind { 1000 } else { dice.of(&[0, 1, 3, 1000]) },
            spool_bytes: dice.of(&[0, 100_000, 1 << 30]),
            memory_bytes: dice.of(&[0, 20_000, 1 << 30]),
            socket_bytes: dice.of(&[1, 100, 5000, 20_000, 1 << 20]),
            packet_bytes: dice.of(&[1, 7, 100, 1500, 16_384, 70_000]),
            window: dice.of(&[0, 10, 1000, 65_535, 1 << 20, 1 << 22]),
        }
    }
}

/// Malformed heads.
const MALFORMED: [&[u8]; 5] = [
    b"GET  / HTTP/1.1\r\nHost: h\r\n\r\n",
    b"GET\t/ HTTP/1.1\r\nHost: h\r\n\r\n",
    b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\nContent-Length: 3\r\n\r\nabc",
    b"POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n0\r\n\r\n",
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03 a hello that nobody expects here\r\n\r\n",
];

impl Asked {
    fn draw(dice: &mut Dice, is_http2: bool, is_kind: bool) -> Self {
        let framed = match dice.below(4) {
            0 | 1 => Framed::Nothing,
            2 => Framed::Length,
            _ => Framed::Chunked,
        };
        let is_http10 = !is_http2 && framed != Framed::Chunked && dice.one_in(6);
        let body_bytes = if framed == Framed::Nothing { 0 } else { dice.size(200_000) };
        let is_large = dice.one_in(5);
        let parts: Vec<Given> = (0..dice.below(8))
            .map(|_| match dice.below(8) {
                0 => Given::Spooled(1 + dice.size(200_000)),
                _ if is_large => Given::Bytes(60_000 + dice.index(40_000)),
                _ => Given::Bytes(dice.size(100_000)),
            })
            .collect();
        let interims = if dice.one_in(4) { dice.index(3) } else { 0 };
        let parts: Vec<Given> = std::iter::repeat_n(Given::Interim, interims).chain(parts).collect();
        let answerer = match dice.below(10) {
            0 => Answerer::Bytes,
            1 | 2 => Answerer::File,
            3 if !is_kind => Answerer::Refusal,
            4 => Answerer::Shed,
            _ => Answerer::Worker,
        };
        let mut asked = Self {
            method: if framed != Framed::Nothing {
                "POST"
            } else {
                dice.of(&["GET", "GET", "HEAD", "DELETE"])
            },
            is_http10,
            keeps: if is_http10 { dice.one_in(2) } else { !dice.one_in(10) },
            framed,
            body_bytes,
            expects: !is_http10 && body_bytes > 0 && dice.one_in(4),
            is_patient: dice.one_in(2),
            malformed: (!is_http2 && !is_kind && dice.one_in(12)).then(|| dice.of(&MALFORMED)),
            padding: if dice.one_in(8) { dice.index(30_000) } else { 0 },
            granted: if is_kind { u64::MAX } else { dice.of(&[0, 10, 5000, u64::MAX, u64::MAX, u64::MAX]) },
            outlives: dice.one_in(3),
            is_found_later: dice.one_in(3),
            answerer,
            status: dice.of(&[200, 200, 200, 200, 200, 404, 500, 204, 205, 304]),
            announced: None,
            parts,
            is_broken: !is_kind && dice.one_in(3),
            page: dice.one_in(10).then(|| dice.size(9000)),
            wait: (!is_kind && dice.one_in(2)).then(|| Duration::from_millis(dice.below(3000))),
        };
        let supplied = asked.supplied();
        asked.announced = match dice.below(6) {
            0 | 1 => Some(supplied),
            2 if !is_kind => Some(supplied + 1 + dice.index(100)),
            3 => Some(supplied - dice.index(supplied + 1)),
            _ => None,
        };
        asked
    }
}
