//! A scriptable OpenTelemetry collector: OTLP over HTTP/1.1 and gRPC, with or without TLS.
//!
//! Received data is decoded to OTLP's JSON, whatever the encoding. The collector keeps no state besides that; each
//! connection has a thread that ends with it.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::sync::{Arc, Mutex};
use std::thread;

use flate2::read::GzDecoder;
use httlib_hpack::Decoder;
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use serde_json::Value;

/// The collector. It runs until the process ends.
#[derive(Debug)]
pub struct Collector {
    addr: SocketAddr,
    desk: Arc<Desk>,
}

/// A received export.
#[derive(Clone, Debug)]
pub struct Received {
    /// The number of its connection.
    pub connection: usize,
    /// The path.
    pub path: String,
    /// The fields, with names in lower case.
    pub fields: Vec<(String, String)>,
    /// The message.
    pub message: Value,
    /// Whether the collector accepted it.
    pub is_accepted: bool,
}

/// The collector's response.
#[derive(Clone, Copy, Debug)]
pub enum Says {
    /// Accept all spans.
    Accepted,
    /// Close the connection.
    Nothing,
    /// Reject one span because it is old.
    Partial,
    /// Answer with something that is not HTTP.
    Garbage,
    /// Reject with the HTTP status 503 or the gRPC status 14, and ask for a pause of this many seconds.
    Later(u64),
    /// Reject with this HTTP status.
    Status(u16),
}

#[derive(Debug)]
struct Desk {
    received: Mutex<Vec<Received>>,
    says: Mutex<Says>,
}

impl Collector {
    /// Starts a collector on a free port.
    pub fn start() -> Self {
        Self::start_with(None)
    }

    /// Starts a collector, over TLS if configured.
    pub fn start_with(tls: Option<Arc<ServerConfig>>) -> Self {
        Self::listen(TcpListener::bind("127.0.0.1:0").unwrap(), tls)
    }

    /// Starts a collector on a listener.
    pub fn listen(listener: TcpListener, tls: Option<Arc<ServerConfig>>) -> Self {
        let addr = listener.local_addr().unwrap();
        let desk = Arc::new(Desk { received: Mutex::default(), says: Mutex::new(Says::Accepted) });
        let own = Arc::clone(&desk);
        thread::spawn(move || {
            for (connection, socket) in listener.incoming().enumerate() {
                let (desk, tls, socket) = (Arc::clone(&own), tls.clone(), socket.unwrap());
                // An error ends the connection.
                thread::spawn(move || match tls {
                    None => desk.serve(socket, connection),
                    Some(config) => desk
                        .serve(StreamOwned::new(ServerConnection::new(config).unwrap(), socket), connection),
                });
            }
        });
        Self { addr, desk }
    }

    /// Returns the listening address.
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// Sets the response from now on.
    pub fn say(&self, says: Says) {
        *self.desk.says.lock().unwrap() = says;
    }

    /// Returns the received exports.
    pub fn received(&self) -> Vec<Received> {
        self.desk.received.lock().unwrap().clone()
    }

    /// Returns the received log records in order.
    pub fn records(&self) -> Vec<Value> {
        self.received().iter().flat_map(Received::records).collect()
    }

    /// Returns the received spans in order.
    pub fn spans(&self) -> Vec<Value> {
        self.received().iter().flat_map(Received::spans).collect()
    }
}

impl Received {
    /// Returns its spans.
    pub fn spans(&self) -> Vec<Value> {
        self.message["resourceSpans"][0]["scopeSpans"][0]["spans"].as_array().cloned().unwrap_or_default()
    }

    /// Returns its metrics.
    pub fn metrics(&self) -> Vec<Value> {
        self.message["resourceMetrics"][0]["scopeMetrics"][0]["metrics"]
            .as_array()
            .cloned()
            .unwrap_or_default()
    }

    /// Returns its log records.
    pub fn records(&self) -> Vec<Value> {
        self.message["resourceLogs"][0]["scopeLogs"][0]["logRecords"].as_array().cloned().unwrap_or_default()
    }

    /// Returns a field.
    pub fn field(&self, name: &str) -> Option<&str> {
        self.fields.iter().find(|(other, _)| other == name).map(|(_, value)| value.as_str())
    }

    /// Returns an attribute of the resource as text.
    pub fn resource(&self, key: &str) -> Option<String> {
        let lists = ["resourceSpans", "resourceMetrics", "resourceLogs"];
        let list = lists.iter().find(|list| self.message.get(**list).is_some())?;
        let attributes = self.message[list][0]["resource"]["attributes"].as_array()?;
        let value = &attributes.iter().find(|attribute| attribute["key"] == key)?["value"];
        ["stringValue", "intValue"].iter().find_map(|kind| value[*kind].as_str().map(str::to_owned))
    }
}

impl Desk {
    fn serve(&self, mut socket: impl Read + Write, connection: usize) -> io::Result<()> {
        let mut start = vec![0; 4];
        socket.read_exact(&mut start)?;
        if start == b"PRI " {
            self.serve_grpc(&mut socket, connection)
        } else {
            self.serve_http(&mut socket, start, connection)
        }
    }

    /// Records an export; returns the response.
    fn take(&self, connection: usize, path: String, fields: Vec<(String, String)>, body: &[u8]) -> Says {
        let field =
            |name: &str| fields.iter().find(|(other, _)| other == name).map(|(_, value)| value.as_str());
        let is_zipped = [field("content-encoding"), field("grpc-encoding")].contains(&Some("gzip"));
        let mut plain = body.to_vec();
        if is_zipped {
            plain.clear();
            GzDecoder::new(body).read_to_end(&mut plain).unwrap();
        }
        let message = match field("content-type") {
            Some("application/json") => serde_json::from_slice(&plain).unwrap(),
            Some("application/grpc" | "application/x-protobuf") => {
                let path = path.to_lowercase();
                let table = match () {
                    () if path.contains("metrics") => &crate::otlp::METRICS_REQUEST,
                    () if path.contains("logs") => &crate::otlp::LOGS_REQUEST,
                    () => &crate::otlp::REQUEST,
                };
                crate::otlp::read(table, &plain)
            }
            other => panic!("the type of the content is {other:?}"),
        };
        let says = *self.says.lock().unwrap();
        let is_accepted = matches!(says, Says::Accepted | Says::Partial);
        self.received.lock().unwrap().push(Received { connection, path, fields, message, is_accepted });
        says
    }

    fn serve_http(
        &self,
        socket: &mut (impl Read + Write),
        start: Vec<u8>,
        connection: usize,
    ) -> io::Result<()> {
        let mut start = Some(start);
        loop {
            let mut head = start.take().unwrap_or_default();
            while !head.ends_with(b"\r\n\r\n") {
                let mut byte = [0];
                socket.read_exact(&mut byte)?;
                head.push(byte[0]);
            }
            let head = String::from_utf8(head).unwrap();
            let mut lines = head.trim_end().lines();
            let path = lines.next().unwrap().split(' ').nth(1).unwrap().to_owned();
            let fields: Vec<(String, String)> = lines
                .map(|line| line.split_once(": ").unwrap())
                .map(|(name, value)| (name.to_lowercase(), value.to_owned()))
                .collect();
            let length = fields.iter().find(|(name, _)| name == "content-length").unwrap().1.parse().unwrap();
            let mut body = vec![0; length];
            socket.read_exact(&mut body)?;
            let says = self.take(connection, path, fields, &body);
            let (status, body) = match says {
                Says::Nothing => return Ok(()),
                Says::Accepted => (200, &b""[..]),
                Says::Partial => (200, PARTIAL),
                Says::Garbage => return socket.write_all(&[0xff; 100]),
                Says::Later(_) => (503, &b"later"[..]),
                Says::Status(status) => (status, &b"no"[..]),
            };
            write!(socket, "HTTP/1.1 {status} X\r\nContent-Length: {}\r\n", body.len())?;
            if let Says::Later(seconds) = says {
                write!(socket, "Retry-After: {seconds}\r\n")?;
            }
            socket.write_all(b"\r\n")?;
            socket.write_all(body)?;
            socket.flush()?;
        }
    }

    fn serve_grpc(&self, socket: &mut (impl Read + Write), connection: usize) -> io::Result<()> {
        // Skips the rest of the preface.
        socket.read_exact(&mut [0; 20])?;
        socket.write_all(&frame(SETTINGS, 0, 0, &[]))?;
        let mut decoder = Decoder::default();
        let (mut fields, mut body) = (Vec::new(), Vec::new());
        loop {
            socket.flush()?;
            let mut head = [0; 9];
            socket.read_exact(&mut head)?;
            let [high, mid, low, kind, flags, stream @ ..] = head;
            let mut payload = vec![0; usize::from(high) << 16 | usize::from(mid) << 8 | usize::from(low)];
            socket.read_exact(&mut payload)?;
            let stream = u32::from_be_bytes(stream);
            match kind {
                SETTINGS if flags & ACK == 0 => socket.write_all(&frame(SETTINGS, ACK, 0, &[]))?,
                PING if flags & ACK == 0 => socket.write_all(&frame(PING, ACK, 0, &payload))?,
                HEADERS => fields = decoded(&mut decoder, payload),
                DATA => {
                    body.extend_from_slice(&payload);
                    let count = (payload.len() as u32).to_be_bytes();
                    if !payload.is_empty() {
                        socket.write_all(&frame(WINDOW_UPDATE, 0, 0, &count))?;
                    }
                    if flags & END_STREAM == 0 && !payload.is_empty() {
                        socket.write_all(&frame(WINDOW_UPDATE, 0, stream, &count))?;
                    }
                }
                _ => {}
            }
            if matches!(kind, HEADERS | DATA) && flags & END_STREAM != 0 {
                let fields = std::mem::take(&mut fields);
                let path = fields.iter().find(|(name, _)| name == ":path").unwrap().1.clone();
                let message = std::mem::take(&mut body);
                let length = u32::from_be_bytes(message[1..5].try_into().unwrap()) as usize;
                assert_eq!(message.len(), 5 + length);
                let says = self.take(connection, path, fields, &message[5..]);
                match says {
                    Says::Nothing => return Ok(()),
                    Says::Garbage => return socket.write_all(&[0xff; 100]),
                    Says::Status(_) | Says::Later(_) => {
                        let trailers = [&b"\x88\x00\x0bgrpc-status\x0214"[..]].concat();
                        socket.write_all(&frame(HEADERS, END_HEADERS | END_STREAM, stream, &trailers))?;
                    }
                    Says::Accepted | Says::Partial => {
                        let partial = if matches!(says, Says::Partial) { PARTIAL } else { b"" };
                        let message = [&[0, 0, 0, 0, partial.len() as u8], partial].concat();
                        socket.write_all(&frame(HEADERS, END_HEADERS, stream, b"\x88"))?;
                        socket.write_all(&frame(DATA, 0, stream, &message))?;
                        let trailers = b"\x00\x0bgrpc-status\x010";
                        socket.write_all(&frame(HEADERS, END_HEADERS | END_STREAM, stream, trailers))?;
                    }
                }
            }
        }
    }
}

fn decoded(decoder: &mut Decoder<'_>, mut block: Vec<u8>) -> Vec<(String, String)> {
    let mut fields = Vec::new();
    decoder.decode(&mut block, &mut fields).unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    fields.into_iter().map(|(name, value, _)| (text(name), text(value))).collect()
}

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = (payload.len() as u32).to_be_bytes();
    [&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

/// `ExportTraceServiceResponse` with a partial success: one span, "old".
const PARTIAL: &[u8] = b"\x0a\x07\x08\x01\x12\x03old";

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const WINDOW_UPDATE: u8 = 8;

const ACK: u8 = 1;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;
