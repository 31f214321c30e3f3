//! A scripted server that clients in an application wait for, in every way in which they can wait.
//!
//! A script (a closure) runs for each connection in a separate thread and drives it through a [`Visit`]: it reads requests,
//! waits for a time or at the [`Gate`], answers in one piece, byte by byte or not at all, closes one direction, or resets
//! the connection. `Backend::gate().wait_until_held(60)` proves that 60 clients wait at the same time. An [`Unaccepting`]
//! server has a full backlog.

use std::collections::HashMap;
use std::io::{self, ErrorKind, Read, Write};
use std::net::Shutdown;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rustls::crypto::aws_lc_rs;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};

use crate::gate::Gate;
use crate::socket::{Address, Listener, Socket};
use crate::tls::Certificates;

/// A running server. Dropping it ends the server and cuts its connections.
#[derive(Debug)]
pub struct Backend {
    listener: Arc<Listener>,
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    gate: Gate,
    books: Mutex<Books>,
}

#[derive(Debug, Default)]
struct Books {
    connections: HashMap<usize, Socket>,
    accepted: usize,
    requests: Vec<String>,
}

/// One connection.
pub struct Visit {
    stream: Stream,
    socket: Socket,
    buffered: Vec<u8>,
    shared: Arc<Shared>,
}

enum Stream {
    Plain(Socket),
    Tls(Box<StreamOwned<ServerConnection, Socket>>),
}

impl Backend {
    /// Starts a server on a free port; a connection whose script fails is cut.
    pub fn tcp(script: impl Fn(&mut Visit) -> io::Result<()> + Send + Sync + 'static) -> Self {
        Self::start(Listener::tcp(), None, script)
    }

    /// Starts an HTTP server that answers each request with the result of `answer`. A slow `answer` keeps its client
    /// waiting.
    pub fn http(answer: impl Fn(&str) -> String + Send + Sync + 'static) -> Self {
        Self::tcp(move |visit| {
            loop {
                let request = visit.request()?;
                if request.lines().next().is_some_and(|line| line.contains("/late")) {
                    visit.hold()?;
                }
                visit.answer(&answer(&request))?;
                if request.contains("Connection: close") {
                    return Ok(());
                }
            }
        })
    }

    /// Starts a server on a Unix socket.
    pub fn unix(
        path: PathBuf,
        script: impl Fn(&mut Visit) -> io::Result<()> + Send + Sync + 'static,
    ) -> Self {
        Self::start(Listener::unix(path), None, script)
    }

    /// Starts a TLS server on a free port, with the first of the certificates. To hang in the handshake, use a server
    /// without TLS that calls [`Visit::hang`].
    pub fn tls(
        certificates: &Certificates,
        script: impl Fn(&mut Visit) -> io::Result<()> + Send + Sync + 'static,
    ) -> Self {
        let certificate = CertificateDer::from_pem_file(certificates.cert(0)).unwrap();
        let key = PrivateKeyDer::from_pem_file(certificates.key(0)).unwrap();
        let config = ServerConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![certificate], key)
            .unwrap();
        Self::start(Listener::tcp(), Some(Arc::new(config)), script)
    }

    fn start(
        listener: Listener,
        tls: Option<Arc<ServerConfig>>,
        script: impl Fn(&mut Visit) -> io::Result<()> + Send + Sync + 'static,
    ) -> Self {
        let (listener, shared) = (Arc::new(listener), Arc::new(Shared::default()));
        let (accepting, script) = (Arc::clone(&listener), Arc::new(script));
        let backend = Self { listener, shared: Arc::clone(&shared) };
        std::thread::spawn(move || {
            while let Some(socket) = accepting.accept() {
                let (shared, script, tls) = (Arc::clone(&shared), Arc::clone(&script), tls.clone());
                std::thread::spawn(move || shared.serve(socket, tls, &*script));
            }
        });
        backend
    }

    pub fn address(&self) -> Address {
        self.listener.address()
    }

    /// Returns the gate at which [`Visit::hold`] waits.
    pub fn gate(&self) -> &Gate {
        &self.shared.gate
    }

    /// Returns how many connections were accepted.
    pub fn accepted(&self) -> usize {
        self.shared.books.lock().unwrap().accepted
    }

    /// Returns how many connections are open.
    pub fn connected(&self) -> usize {
        self.shared.books.lock().unwrap().connections.len()
    }

    /// Returns the requests that were read, with their bodies.
    pub fn requests(&self) -> Vec<String> {
        self.shared.books.lock().unwrap().requests.clone()
    }
}

impl Drop for Backend {
    fn drop(&mut self) {
        self.listener.shut_down();
        self.shared.gate.end();
        for socket in self.shared.books.lock().unwrap().connections.values() {
            socket.shut_down(Shutdown::Both);
        }
    }
}

impl Shared {
    fn serve(
        self: &Arc<Self>,
        socket: Socket,
        tls: Option<Arc<ServerConfig>>,
        script: &dyn Fn(&mut Visit) -> io::Result<()>,
    ) {
        let number = {
            let mut books = self.books.lock().unwrap();
            books.accepted += 1;
            let number = books.accepted;
            books.connections.insert(number, socket.clone());
            number
        };
        let stream = match tls {
            None => Stream::Plain(socket.clone()),
            Some(config) => {
                let session = ServerConnection::new(config).unwrap();
                Stream::Tls(Box::new(StreamOwned::new(session, socket.clone())))
            }
        };
        let mut visit = Visit { stream, socket, buffered: Vec::new(), shared: Arc::clone(self) };
        if script(&mut visit).is_ok() {
            visit.say_goodbye();
        }
        // The last clone of the socket closes it, which is when a reset is sent.
        self.books.lock().unwrap().connections.remove(&number);
    }
}

impl Visit {
    /// Reads an HTTP request with its body; returns an error at the end of the connection.
    pub fn request(&mut self) -> io::Result<String> {
        let head = self.until(b"\r\n\r\n")?;
        let text = String::from_utf8_lossy(&head).to_ascii_lowercase();
        let length = text.lines().find_map(|line| line.strip_prefix("content-length: ")?.parse().ok());
        let body = self.exactly(length.unwrap_or(0))?;
        let request = String::from_utf8_lossy(&[head, body].concat()).into_owned();
        self.shared.books.lock().unwrap().requests.push(request.clone());
        Ok(request)
    }

    /// Reads a line.
    pub fn line(&mut self) -> io::Result<String> {
        let line = self.until(b"\r\n")?;
        Ok(String::from_utf8_lossy(&line).trim_end().to_owned())
    }

    /// Reads this number of bytes.
    pub fn bytes(&mut self, count: usize) -> io::Result<Vec<u8>> {
        self.exactly(count)
    }

    /// Answers a request and leaves the connection open.
    pub fn answer(&mut self, body: &str) -> io::Result<()> {
        self.send(format!("{}{body}", head_of(body.len())))
    }

    /// Sends bytes as they are.
    pub fn send(&mut self, bytes: impl AsRef<[u8]>) -> io::Result<()> {
        self.stream.write_all(bytes.as_ref())?;
        self.stream.flush()
    }

    /// Sends bytes one by one with a pause after each.
    pub fn trickle(&mut self, bytes: impl AsRef<[u8]>, pause: Duration) -> io::Result<()> {
        bytes.as_ref().iter().try_for_each(|byte| {
            self.send([*byte])?;
            self.pause(pause)
        })
    }

    /// Waits for `time`.
    pub fn pause(&mut self, time: Duration) -> io::Result<()> {
        if self.shared.gate.pause(time) { Ok(()) } else { Err(ErrorKind::Interrupted.into()) }
    }

    /// Waits at the gate.
    pub fn hold(&mut self) -> io::Result<()> {
        if self.shared.gate.hold() { Ok(()) } else { Err(ErrorKind::Interrupted.into()) }
    }

    /// Closes the sending side; reading continues.
    pub fn half_close(&mut self) {
        self.socket.shut_down(Shutdown::Write);
    }

    /// Reads until the client leaves and never answers. Reads raw bytes, below TLS.
    pub fn hang(&mut self) -> io::Result<()> {
        io::copy(&mut self.socket, &mut io::sink()).map(drop)
    }

    /// Reads until the client closes its sending side, and records the bytes as one request.
    pub fn rest(&mut self) -> io::Result<()> {
        let mut rest = std::mem::take(&mut self.buffered);
        self.stream.read_to_end(&mut rest)?;
        self.shared.books.lock().unwrap().requests.push(String::from_utf8_lossy(&rest).into_owned());
        Ok(())
    }

    /// Resets the connection; the script must return the result of this call.
    pub fn reset(&mut self) -> io::Result<()> {
        self.socket.reset_at_close();
        Err(ErrorKind::ConnectionReset.into())
    }

    fn say_goodbye(&mut self) {
        if let Stream::Tls(stream) = &mut self.stream {
            stream.conn.send_close_notify();
            // The client may have left.
            let _ = stream.flush();
        }
    }

    fn until(&mut self, mark: &[u8]) -> io::Result<Vec<u8>> {
        loop {
            if let Some(at) = self.buffered.windows(mark.len()).position(|window| window == mark) {
                return Ok(self.buffered.drain(..at + mark.len()).collect());
            }
            self.fill()?;
        }
    }

    fn exactly(&mut self, count: usize) -> io::Result<Vec<u8>> {
        while self.buffered.len() < count {
            self.fill()?;
        }
        Ok(self.buffered.drain(..count).collect())
    }

    fn fill(&mut self) -> io::Result<()> {
        let mut bytes = [0; 16 * 1024];
        let count = self.stream.read(&mut bytes)?;
        self.buffered.extend_from_slice(&bytes[..count]);
        if count == 0 { Err(ErrorKind::UnexpectedEof.into()) } else { Ok(()) }
    }
}

impl Read for Stream {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Plain(socket) => socket.read(bytes),
            Self::Tls(stream) => stream.read(bytes),
        }
    }
}

impl Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Plain(socket) => socket.write(bytes),
            Self::Tls(stream) => stream.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Plain(socket) => socket.flush(),
            Self::Tls(stream) => stream.flush(),
        }
    }
}

/// Returns the header of a response with a body of `length` bytes.
pub fn head_of(length: usize) -> String {
    format!("HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: {length}\r\n\r\n")
}

/// A listening socket with a full backlog: attempts to connect get no answer.
#[derive(Debug)]
pub struct Unaccepting {
    listener: Listener,
    _filler: Socket,
}

impl Unaccepting {
    pub fn new(listener: Listener) -> Self {
        // Linux holds one connection more than the backlog.
        rustix::net::listen(&listener, 0).unwrap();
        let filler = listener.address().connect().unwrap();
        Self { listener, _filler: filler }
    }

    pub fn address(&self) -> Address {
        self.listener.address()
    }

    /// Accepts the connection that fills the backlog, and then `count` waiting or new ones.
    pub fn accept(&self, count: usize) {
        for _ in 0..=count {
            self.listener.accept().unwrap();
        }
    }
}
