//! A raw HTTP/2 client for tests: it sends exactly the given frames, valid or not, and parses strictly.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::time::Duration;

use httlib_hpack::Decoder;

use crate::client::Response;

/// How long a test waits for a server before it fails.
const PATIENCE: Duration = Duration::from_secs(60);

/// The connection preface.
pub const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// Frame types.
pub mod kind {
    pub const DATA: u8 = 0;
    pub const HEADERS: u8 = 1;
    pub const PRIORITY: u8 = 2;
    pub const RST_STREAM: u8 = 3;
    pub const SETTINGS: u8 = 4;
    pub const PUSH_PROMISE: u8 = 5;
    pub const PING: u8 = 6;
    pub const GOAWAY: u8 = 7;
    pub const WINDOW_UPDATE: u8 = 8;
    pub const CONTINUATION: u8 = 9;
}

/// Error codes.
pub mod code {
    pub const NO_ERROR: u32 = 0;
    pub const INTERNAL_ERROR: u32 = 2;
    pub const PROTOCOL_ERROR: u32 = 1;
    pub const STREAM_CLOSED: u32 = 5;
    pub const REFUSED_STREAM: u32 = 7;
    pub const CANCEL: u32 = 8;
    pub const ENHANCE_YOUR_CALM: u32 = 11;
}

/// SETTINGS parameters.
pub mod setting {
    pub const MAX_CONCURRENT_STREAMS: u16 = 3;
    pub const INITIAL_WINDOW_SIZE: u16 = 4;
}

/// END_STREAM on DATA and HEADERS, ACK on SETTINGS and PING.
pub const END_STREAM: u8 = 1;
/// END_HEADERS.
pub const END_HEADERS: u8 = 4;

const WINDOW_DEFAULT: i64 = 65_535;
const FRAME_BYTES_MAX: usize = 16_384;

/// One frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    pub kind: u8,
    pub flags: u8,
    pub stream: u32,
    pub payload: Vec<u8>,
}

/// The messages received on one stream.
#[derive(Clone, Debug, Default)]
pub struct Heard {
    /// Informational responses, in their order.
    pub interim: Vec<(u16, Vec<(String, String)>)>,
    /// The status; 0 before there is one.
    pub status: u16,
    pub fields: Vec<(String, String)>,
    pub body: Vec<u8>,
    /// Whether the server has ended the stream.
    pub has_ended: bool,
    /// The error code if the server reset it.
    pub reset: Option<u32>,
    /// The number of frames received for it.
    pub frames: usize,
    /// The flow-control window for sending.
    window: i64,
}

/// One connection.
#[derive(Debug)]
pub struct Http2Client {
    socket: TcpStream,
    buffered: Vec<u8>,
    hpack: Decoder<'static>,
    block: Vec<u8>,
    next_id: u32,
    streams: BTreeMap<u32, Heard>,
    window: i64,
    window_initial: i64,
    /// Whether received data is returned to the server's windows at once.
    pub is_generous: bool,
    /// The last GOAWAY: the highest stream and the error code.
    pub farewell: Option<(u32, u32)>,
    /// The server's settings.
    pub settings: BTreeMap<u16, u32>,
    /// The number of PINGs that the server acknowledged.
    pub pongs: usize,
    /// The acknowledgements of the server's PINGs, while the client [is far away](Self::be_far_away).
    held: Option<Vec<u8>>,
    /// Whether the server has closed its side.
    pub has_ended: bool,
}

impl Http2Client {
    /// Connects to `addr` with the preface and harmless settings.
    pub fn connect(addr: SocketAddr) -> Self {
        Self::connect_with(addr, &[])
    }

    /// Connects to `addr` with the preface and these settings.
    pub fn connect_with(addr: SocketAddr, settings: &[(u16, u32)]) -> Self {
        let mut client = Self::silent(addr);
        client.send(PREFACE);
        let payload: Vec<u8> = settings
            .iter()
            .flat_map(|(name, value)| [&name.to_be_bytes()[..], &value.to_be_bytes()].concat())
            .collect();
        client.frame(kind::SETTINGS, 0, 0, &payload);
        client
    }

    /// Connects to `addr` and sends nothing.
    pub fn silent(addr: SocketAddr) -> Self {
        let socket = TcpStream::connect(addr).unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        socket.set_write_timeout(Some(PATIENCE)).unwrap();
        socket.set_nodelay(true).unwrap();
        Self {
            socket,
            buffered: Vec::new(),
            hpack: Decoder::default(),
            block: Vec::new(),
            next_id: 1,
            streams: BTreeMap::new(),
            window: WINDOW_DEFAULT,
            window_initial: WINDOW_DEFAULT,
            is_generous: true,
            farewell: None,
            settings: BTreeMap::new(),
            pongs: 0,
            held: None,
            has_ended: false,
        }
    }

    /// Sends bytes unchanged.
    pub fn send(&mut self, bytes: &[u8]) {
        self.socket.write_all(bytes).unwrap();
    }

    /// Sends bytes; returns whether the connection accepted them.
    pub fn try_send(&mut self, bytes: &[u8]) -> bool {
        self.socket.write_all(bytes).is_ok()
    }

    /// Sends one frame.
    pub fn frame(&mut self, kind: u8, flags: u8, stream: u32, payload: &[u8]) {
        self.send(&frame(kind, flags, stream, payload));
    }

    /// Returns the next stream ID.
    pub fn next_id(&mut self) -> u32 {
        let id = self.next_id;
        self.next_id += 2;
        self.streams.insert(id, Heard { window: self.window_initial, ..Heard::default() });
        id
    }

    /// Opens a stream with these header fields; with `ends`, nothing follows.
    pub fn open(&mut self, fields: &[(&str, &str)], ends: bool) -> u32 {
        let id = self.next_id();
        let flags = END_HEADERS | if ends { END_STREAM } else { 0 };
        self.frame(kind::HEADERS, flags, id, &block(fields));
        id
    }

    /// Opens a stream with a request for `path`.
    pub fn ask(&mut self, path: &str) -> u32 {
        self.open(&head("GET", path), true)
    }

    /// Requests `path` and reads the response.
    pub fn get(&mut self, path: &str) -> Response {
        let id = self.ask(path);
        self.response(id)
    }

    /// Sends `body` to `path` and reads the response.
    pub fn post(&mut self, path: &str, body: &[u8]) -> Response {
        let id = self.open(&head("POST", path), false);
        self.upload(id, body);
        self.response(id)
    }

    /// Sends a whole body within the server's windows; stops if the server resets the stream.
    pub fn upload(&mut self, id: u32, body: &[u8]) {
        self.send_data(id, body);
        if self.streams[&id].reset.is_none() {
            self.frame(kind::DATA, END_STREAM, id, b"");
        }
    }

    /// Sends a part of a body within the server's windows; stops if the server resets the stream.
    pub fn send_data(&mut self, id: u32, mut body: &[u8]) {
        while !body.is_empty() {
            let heard = &self.streams[&id];
            if heard.reset.is_some() {
                return;
            }
            let room = usize::try_from(heard.window.min(self.window)).unwrap_or(0);
            let count = body.len().min(room).min(FRAME_BYTES_MAX);
            if count == 0 {
                assert!(self.read(), "the connection ended within an upload");
                continue;
            }
            self.frame(kind::DATA, 0, id, &body[..count]);
            body = &body[count..];
            let sent = i64::try_from(count).unwrap();
            self.window -= sent;
            self.heard_mut(id).window -= sent;
        }
    }

    /// Sends up to `len` bytes of a body, as far as the server's windows allow; returns the number of bytes.
    pub fn send_what_it_may(&mut self, id: u32, len: usize) -> usize {
        let room = self.room(id).min(len);
        self.send_data(id, &vec![b'x'; room]);
        room
    }

    /// Returns how many bytes the client may send on a stream.
    pub fn room(&self, id: u32) -> usize {
        usize::try_from(self.streams[&id].window.min(self.window)).unwrap_or(0)
    }

    /// Cancels a stream.
    pub fn reset(&mut self, id: u32, code: u32) {
        self.frame(kind::RST_STREAM, 0, id, &code.to_be_bytes());
    }

    /// Lets the server send this many more bytes, on a stream or, with 0, on the connection.
    pub fn widen(&mut self, id: u32, bytes: u32) {
        self.frame(kind::WINDOW_UPDATE, 0, id, &bytes.to_be_bytes());
    }

    /// Reads the response on a stream to its end.
    pub fn response(&mut self, id: u32) -> Response {
        self.until_over(id);
        let heard = &self.streams[&id];
        Response {
            status: heard.status,
            reason: String::new(),
            fields: heard.fields.clone(),
            body: heard.body.clone(),
            is_whole: heard.has_ended && heard.reset.is_none_or(|code| code == code::NO_ERROR),
        }
    }

    /// Reads until the stream or the connection has ended.
    pub fn until_over(&mut self, id: u32) {
        let is_over = |heard: &Heard| heard.has_ended || heard.reset.is_some();
        while !is_over(&self.streams[&id]) && self.read() {}
    }

    /// Returns what was received on a stream so far.
    pub fn heard(&self, id: u32) -> &Heard {
        &self.streams[&id]
    }

    /// Reads until `condition` holds.
    pub fn until(&mut self, mut condition: impl FnMut(&Self) -> bool) {
        while !condition(self) {
            assert!(self.read(), "the connection ended before its time: {:?}", self.farewell);
        }
    }

    /// Defers the acknowledgements of the server's PINGs to the next call of [`ping`](Self::ping) from now on.
    pub fn be_far_away(&mut self) {
        self.held = Some(Vec::new());
    }

    /// Sends a PING and waits for the acknowledgement: the server has then processed everything before it.
    pub fn ping(&mut self) {
        let before = self.pongs;
        if let Some(held) = self.held.as_mut().map(std::mem::take) {
            self.try_send(&held);
        }
        self.frame(kind::PING, 0, 0, b"12345678");
        self.until(|client| client.pongs > before);
    }

    /// Reads to the end of the connection; returns the error code if the server sent one.
    pub fn expect_end(&mut self) -> Option<u32> {
        while self.read() {}
        self.farewell.map(|(_, code)| code)
    }

    /// Reads to the end of the connection and ignores all frames.
    pub fn drain_quietly(&mut self) {
        let mut bytes = [0; 4096];
        while self.socket.read(&mut bytes).is_ok_and(|count| count > 0) {}
    }

    /// Closes the sending side if the connection is open.
    pub fn half_close_if_open(&self) {
        // The connection may have ended already.
        let _ = self.socket.shutdown(Shutdown::Write);
    }

    /// Returns the socket.
    pub fn socket(&mut self) -> &mut TcpStream {
        &mut self.socket
    }

    /// Closes the sending side.
    pub fn half_close(&self) {
        self.socket.shutdown(Shutdown::Write).unwrap();
    }

    /// Reads and records one frame; returns false at the end of the connection, even if it is broken.
    pub fn read(&mut self) -> bool {
        let Some(frame) = self.next_frame() else {
            self.has_ended = true;
            return false;
        };
        self.note(&frame);
        true
    }

    fn next_frame(&mut self) -> Option<Frame> {
        while self.buffered.len() < 9 {
            self.fill()?;
        }
        let len =
            usize::try_from(u32::from_be_bytes([0, self.buffered[0], self.buffered[1], self.buffered[2]]))
                .unwrap();
        assert!(len <= FRAME_BYTES_MAX, "a frame of {len} bytes");
        while self.buffered.len() < 9 + len {
            self.fill()?;
        }
        let frame = Frame {
            kind: self.buffered[3],
            flags: self.buffered[4],
            stream: number(&self.buffered[5..9]),
            payload: self.buffered[9..9 + len].to_vec(),
        };
        self.buffered.drain(..9 + len);
        Some(frame)
    }

    fn fill(&mut self) -> Option<()> {
        let mut bytes = [0; 64 * 1024];
        match self.socket.read(&mut bytes) {
            Ok(0) => None,
            Ok(count) => {
                self.buffered.extend_from_slice(&bytes[..count]);
                Some(())
            }
            // The test process was stopped and continued.
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => self.fill(),
            Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => None,
            Err(error) => panic!("the server is silent: {error}"),
        }
    }

    fn heard_mut(&mut self, id: u32) -> &mut Heard {
        self.streams.get_mut(&id).unwrap_or_else(|| panic!("a frame for the unknown stream {id}"))
    }

    fn note(&mut self, frame: &Frame) {
        let Frame { kind, flags, stream, payload } = frame;
        assert!(self.block.is_empty() || *kind == kind::CONTINUATION, "a frame within a head");
        if let Some(heard) = self.streams.get_mut(stream) {
            heard.frames += 1;
        }
        match *kind {
            kind::DATA => self.note_data(*stream, *flags, payload),
            kind::HEADERS | kind::CONTINUATION => {
                self.block.extend_from_slice(payload);
                if *kind == kind::HEADERS && flags & END_STREAM != 0 {
                    self.heard_mut(*stream).has_ended = true;
                }
                if flags & END_HEADERS != 0 {
                    let block = std::mem::take(&mut self.block);
                    self.note_head(*stream, &block);
                }
            }
            kind::RST_STREAM => self.heard_mut(*stream).reset = Some(number(payload)),
            kind::SETTINGS if flags & END_STREAM == 0 => self.note_settings(payload),
            kind::PING if flags & END_STREAM == 0 => {
                let answer = crate::http2::frame(kind::PING, END_STREAM, 0, payload);
                match &mut self.held {
                    Some(held) => held.extend(answer),
                    None => {
                        self.try_send(&answer);
                    }
                }
            }
            kind::PING => self.pongs += 1,
            kind::GOAWAY => self.farewell = Some((number(&payload[..4]), number(&payload[4..8]))),
            kind::WINDOW_UPDATE if *stream == 0 => self.window += i64::from(number(payload)),
            kind::WINDOW_UPDATE => self.heard_mut(*stream).window += i64::from(number(payload)),
            kind::SETTINGS => {}
            other => panic!("a frame of kind {other}"),
        }
    }

    fn note_data(&mut self, id: u32, flags: u8, payload: &[u8]) {
        let heard = self.heard_mut(id);
        assert!(heard.status != 0 && !heard.has_ended, "data without a head, or behind the end");
        heard.body.extend_from_slice(payload);
        heard.has_ended = flags & END_STREAM != 0;
        let has_ended = heard.has_ended;
        if self.is_generous && !payload.is_empty() {
            let bytes = u32::try_from(payload.len()).unwrap();
            let mut credit = frame(kind::WINDOW_UPDATE, 0, 0, &bytes.to_be_bytes());
            if !has_ended {
                credit.extend(frame(kind::WINDOW_UPDATE, 0, id, &bytes.to_be_bytes()));
            }
            // The server may have closed and need no window.
            self.try_send(&credit);
        }
    }

    fn note_head(&mut self, id: u32, block: &[u8]) {
        let (mut block, mut decoded) = (block.to_vec(), Vec::new());
        self.hpack.decode(&mut block, &mut decoded).unwrap_or_else(|error| panic!("a head: {error:?}"));
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        let mut fields: Vec<_> =
            decoded.into_iter().map(|(name, value, _)| (text(name), text(value))).collect();
        let (name, status) = fields.remove(0);
        assert_eq!(name, ":status");
        for (name, _) in &fields {
            assert!(!name.starts_with(':') && *name == name.to_ascii_lowercase(), "field {name}");
            let is_hop = ["connection", "keep-alive", "transfer-encoding", "upgrade", "proxy-connection"];
            assert!(!is_hop.contains(&name.as_str()), "field {name}");
        }
        let status = status.parse().unwrap();
        let heard = self.heard_mut(id);
        assert_eq!(heard.status, 0, "two heads");
        if status < 200 {
            heard.interim.push((status, fields));
        } else {
            heard.status = status;
            heard.fields = fields;
        }
    }

    fn note_settings(&mut self, payload: &[u8]) {
        for entry in payload.chunks_exact(6) {
            let (name, value) = (u16::from_be_bytes([entry[0], entry[1]]), number(&entry[2..]));
            self.settings.insert(name, value);
            if name == setting::INITIAL_WINDOW_SIZE {
                let change = i64::from(value) - self.window_initial;
                self.window_initial = i64::from(value);
                self.streams.values_mut().for_each(|heard| heard.window += change);
            }
        }
        self.try_send(&frame(kind::SETTINGS, END_STREAM, 0, b""));
    }
}

impl Heard {
    /// Returns the value of the field `name`, which must not be repeated.
    pub fn field(&self, name: &str) -> Option<&str> {
        let mut values = self.fields.iter().filter(|(candidate, _)| candidate == name);
        let value = values.next();
        assert!(values.next().is_none(), "{name} is there twice: {:?}", self.fields);
        value.map(|(_, value)| value.as_str())
    }
}

/// Encodes one frame.
pub fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let mut bytes = u32::try_from(payload.len()).unwrap().to_be_bytes()[1..].to_vec();
    bytes.extend([kind, flags]);
    bytes.extend(stream.to_be_bytes());
    bytes.extend(payload);
    bytes
}

/// Returns the usual pseudo-header fields of a request.
pub fn head<'a>(method: &'a str, path: &'a str) -> Vec<(&'a str, &'a str)> {
    vec![(":method", method), (":scheme", "http"), (":authority", "test"), (":path", path)]
}

/// Encodes fields as literals without compression, valid or not.
pub fn block(fields: &[(&str, &str)]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (name, value) in fields {
        bytes.push(0x10);
        text(&mut bytes, name.as_bytes());
        text(&mut bytes, value.as_bytes());
    }
    bytes
}

/// Appends a string literal of HPACK.
fn text(bytes: &mut Vec<u8>, text: &[u8]) {
    if text.len() < 127 {
        bytes.push(u8::try_from(text.len()).unwrap());
    } else {
        bytes.push(127);
        let mut rest = text.len() - 127;
        while rest >= 128 {
            bytes.push(u8::try_from(rest % 128).unwrap() | 0x80);
            rest /= 128;
        }
        bytes.push(u8::try_from(rest).unwrap());
    }
    bytes.extend_from_slice(text);
}

fn number(bytes: &[u8]) -> u32 {
    u32::from_be_bytes(bytes[..4].try_into().unwrap())
}
