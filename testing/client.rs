//! A raw HTTP/1 client for tests: it sends exactly the given bytes and parses responses strictly.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::time::Duration;

use rustls::{ClientConnection, Stream};

/// The time limit for a server's response; then the test fails.
const PATIENCE: Duration = Duration::from_secs(60);

/// The interval between two checks of a condition.
pub const LOOK_AGAIN: Duration = Duration::from_millis(1);

/// One connection.
#[derive(Debug)]
pub struct Client {
    socket: TcpStream,
    /// The TLS session on the socket, if there is one.
    tls: Option<Box<ClientConnection>>,
    buffered: Vec<u8>,
    /// Whether the TLS session ended without `close_notify`.
    is_cut: bool,
}

/// One response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Response {
    /// The status code.
    pub status: u16,
    /// The reason phrase.
    pub reason: String,
    /// The fields in their order, names in lower case.
    pub fields: Vec<(String, String)>,
    /// The decoded body.
    pub body: Vec<u8>,
    /// Whether the body was complete according to its framing.
    pub is_whole: bool,
}

impl Client {
    /// Connects to `addr`.
    pub fn connect(addr: SocketAddr) -> Self {
        let socket = TcpStream::connect(addr).unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        socket.set_write_timeout(Some(PATIENCE)).unwrap();
        socket.set_nodelay(true).unwrap();
        Self { socket, tls: None, buffered: Vec::new(), is_cut: false }
    }

    /// Connects to `addr` and starts a TLS session; the handshake happens with the first bytes sent.
    pub fn connect_tls(addr: SocketAddr, session: ClientConnection) -> Self {
        Self { tls: Some(Box::new(session)), ..Self::connect(addr) }
    }

    /// Returns the TLS session, which must exist.
    pub fn session(&mut self) -> &mut ClientConnection {
        self.tls.as_mut().unwrap()
    }

    /// Returns whether the TLS session ended without `close_notify`.
    pub fn was_cut(&self) -> bool {
        self.is_cut
    }

    /// Sends bytes unchanged.
    pub fn send(&mut self, bytes: impl AsRef<[u8]>) {
        self.write(bytes.as_ref()).unwrap();
    }

    /// Sends bytes; returns false if the server has closed the connection.
    pub fn try_send(&mut self, bytes: impl AsRef<[u8]>) -> bool {
        self.write(bytes.as_ref()).is_ok()
    }

    fn write(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        match &mut self.tls {
            None => self.socket.write_all(bytes),
            Some(session) => {
                let mut stream = Stream::new(&mut **session, &mut self.socket);
                stream.write_all(bytes).and_then(|()| stream.flush())
            }
        }
    }

    /// Sends a GET request for `path` and reads the response.
    pub fn get(&mut self, path: &str) -> Response {
        self.send(format!("GET {path} HTTP/1.1\r\nHost: test\r\n\r\n"));
        self.response()
    }

    /// Sends a POST request with `body` and reads the response.
    pub fn post(&mut self, path: &str, body: &[u8]) -> Response {
        self.send(format!("POST {path} HTTP/1.1\r\nHost: test\r\nContent-Length: {}\r\n\r\n", body.len()));
        self.send(body);
        self.response()
    }

    /// Sends the request `head` (without its empty line) and reads the response.
    pub fn request(&mut self, head: &str) -> Response {
        self.send(format!("{head}\r\n\r\n"));
        if head.starts_with("HEAD ") { self.head_only() } else { self.response() }
    }

    /// Closes the sending side.
    pub fn half_close(&self) {
        self.socket.shutdown(Shutdown::Write).unwrap();
    }

    /// Returns the socket.
    pub fn socket(&self) -> &TcpStream {
        &self.socket
    }

    /// Reads one final response with its body and skips informational responses before it.
    pub fn response(&mut self) -> Response {
        loop {
            let response = self.head_only();
            if response.status >= 200 {
                return self.body_of(response);
            }
        }
    }

    /// Reads one response header, informational or final.
    pub fn head_only(&mut self) -> Response {
        let end = loop {
            if let Some(end) = find(&self.buffered, b"\r\n\r\n") {
                break end;
            }
            assert!(self.fill() > 0, "the connection ended within a head: {:?}", self.text());
        };
        let head = String::from_utf8(self.buffered[..end].to_vec()).unwrap();
        self.buffered.drain(..end + 4);
        let mut lines = head.split("\r\n");
        let status_line = lines.next().unwrap();
        let mut words = status_line.splitn(3, ' ');
        assert_eq!(words.next(), Some("HTTP/1.1"), "{status_line}");
        let status = words.next().unwrap().parse().unwrap();
        let reason = words.next().unwrap().to_owned();
        let fields = lines
            .map(|line| {
                let (name, value) = line.split_once(": ").unwrap_or_else(|| panic!("field {line:?}"));
                (name.to_ascii_lowercase(), value.to_owned())
            })
            .collect();
        Response { status, reason, fields, body: Vec::new(), is_whole: true }
    }

    /// Reads the body that belongs to `response`.
    pub fn body_of(&mut self, mut response: Response) -> Response {
        if response.status == 204 || response.status == 304 {
            return response;
        }
        if response.field("transfer-encoding") == Some("chunked") {
            assert_eq!(response.field("content-length"), None, "two framings");
            response.is_whole = self.chunks(&mut response.body);
        } else if let Some(length) = response.field("content-length") {
            let length: usize = length.parse().unwrap();
            while self.buffered.len() < length && self.fill() > 0 {}
            response.is_whole = self.buffered.len() >= length;
            let taken = length.min(self.buffered.len());
            response.body = self.buffered.drain(..taken).collect();
        } else {
            while self.fill() > 0 {}
            response.body = std::mem::take(&mut self.buffered);
        }
        response
    }

    /// Reads one chunk; the last one is empty.
    pub fn chunk(&mut self) -> Option<Vec<u8>> {
        let line_end = self.until(b"\r\n")?;
        let size =
            usize::from_str_radix(std::str::from_utf8(&self.buffered[..line_end]).unwrap(), 16).unwrap();
        while self.buffered.len() < line_end + 2 + size + 2 {
            if self.fill() == 0 {
                return None;
            }
        }
        let data = self.buffered[line_end + 2..][..size].to_vec();
        assert_eq!(&self.buffered[line_end + 2 + size..][..2], b"\r\n");
        self.buffered.drain(..line_end + 2 + size + 2);
        Some(data)
    }

    /// Asserts that the server closes without sending anything.
    pub fn expect_end(&mut self) {
        while self.fill() > 0 {}
        assert_eq!(self.text(), "", "bytes before the end");
    }

    /// Reads everything up to the end of the connection.
    pub fn rest(&mut self) -> Vec<u8> {
        while self.fill() > 0 {}
        std::mem::take(&mut self.buffered)
    }

    fn chunks(&mut self, body: &mut Vec<u8>) -> bool {
        while let Some(chunk) = self.chunk() {
            if chunk.is_empty() {
                return true;
            }
            body.extend_from_slice(&chunk);
        }
        false
    }

    fn until(&mut self, mark: &[u8]) -> Option<usize> {
        loop {
            if let Some(at) = find(&self.buffered, mark) {
                return Some(at);
            }
            if self.fill() == 0 {
                return None;
            }
        }
    }

    /// Reads more bytes; 0 means the end, and a reset counts as the end.
    fn fill(&mut self) -> usize {
        let mut bytes = [0; 16 * 1024];
        let count = match &mut self.tls {
            None => self.socket.read(&mut bytes),
            Some(session) => Stream::new(&mut **session, &mut self.socket).read(&mut bytes),
        };
        match count {
            Ok(count) => {
                self.buffered.extend_from_slice(&bytes[..count]);
                count
            }
            // The test process was stopped and continued.
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => self.fill(),
            Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => 0,
            Err(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => {
                self.is_cut = true;
                0
            }
            Err(error) => panic!("the server is silent: {error}; so far {:?}", self.text()),
        }
    }

    fn text(&self) -> String {
        String::from_utf8_lossy(&self.buffered).into_owned()
    }
}

impl Response {
    /// Returns the value of the field `name` (lower case), which must not be repeated.
    pub fn field(&self, name: &str) -> Option<&str> {
        let mut values = self.fields.iter().filter(|(candidate, _)| candidate == name);
        let value = values.next();
        assert!(values.next().is_none(), "{name} is there twice: {:?}", self.fields);
        value.map(|(_, value)| value.as_str())
    }

    /// Returns the body as text.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }
}

fn find(bytes: &[u8], mark: &[u8]) -> Option<usize> {
    bytes.windows(mark.len()).position(|window| window == mark)
}

/// Waits until `condition` holds; fails the test on a timeout.
#[track_caller]
pub fn eventually(what: &str, condition: impl FnMut() -> bool) {
    assert!(becomes(condition), "never came true: {what}");
}

/// Waits until `condition` holds; returns false on a timeout.
pub fn becomes(mut condition: impl FnMut() -> bool) -> bool {
    let started = std::time::Instant::now();
    while !condition() {
        if started.elapsed() >= PATIENCE {
            return false;
        }
        // Parking leaves the processor to the server; spinning would slow down slow machines. Nothing unparks this thread.
        std::thread::park_timeout(LOOK_AGAIN);
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns how often this thread has given up the processor because it was idle.
    fn rests() -> u64 {
        let status = std::fs::read_to_string("/proc/thread-self/status").unwrap();
        let count = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
        count.unwrap().trim().parse().unwrap()
    }

    #[test]
    fn a_wait_sleeps_between_attempts() {
        const LOOKS: u64 = 50;
        let (before, mut looks) = (rests(), 0);
        eventually("enough looks", || {
            looks += 1;
            looks == LOOKS
        });
        let rested = rests() - before;
        // A thread that oversleeps does not rest.
        assert!(rested >= LOOKS / 2, "{rested} rests in {LOOKS} looks");
    }
}
