//! Tests a session on a wire in memory whose capacity the test controls.

use std::collections::VecDeque;
use std::sync::Arc;

use rcgen::{CertificateParams, KeyPair};
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, ServerConfig};

use super::*;
use svc_core::limits::TLS_OUTPUT_BYTES_MAX;

/// A socket in memory: the bytes that the client has sent, and the bytes sent to the client, of which it accepts up
/// to `room`.
#[derive(Debug, Default)]
struct Socket {
    inbound: VecDeque<u8>,
    outbound: Vec<u8>,
    room: usize,
    has_ended: bool,
}

impl Read for Socket {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        if self.inbound.is_empty() && !self.has_ended {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        self.inbound.read(buf)
    }
}

impl Write for Socket {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let count = bytes.len().min(self.room - self.outbound.len());
        if count == 0 {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        self.outbound.extend_from_slice(&bytes[..count]);
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

struct Pair {
    server: TlsStream<Socket>,
    client: ClientConnection,
}

/// The room of a socket unless a test limits it.
const WIDE: usize = usize::MAX;

impl Pair {
    fn new() -> Self {
        let key = KeyPair::generate().unwrap();
        let certificate: CertificateDer<'static> = CertificateParams::new(["a.example".to_owned()])
            .unwrap()
            .self_signed(&key)
            .unwrap()
            .der()
            .clone();
        let provider = Arc::new(aws_lc_rs::default_provider());
        let mut roots = RootCertStore::empty();
        roots.add(certificate.clone()).unwrap();
        let client = ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        let server = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![certificate], PrivateKeyDer::Pkcs8(key.serialize_der().into()))
            .unwrap();
        let name = ServerName::try_from("a.example").unwrap();
        let mut session = ServerConnection::new(Arc::new(server)).unwrap();
        session.set_buffer_limit(Some(TLS_OUTPUT_BYTES_MAX));
        Self {
            server: TlsStream::new(Socket { room: WIDE, ..Socket::default() }, session),
            client: ClientConnection::new(Arc::new(client), name).unwrap(),
        }
    }

    /// Makes a pair whose handshake is complete.
    fn open() -> Self {
        let mut pair = Self::new();
        while pair.server.is_handshaking() || pair.client.is_handshaking() {
            pair.send();
            assert_eq!(pair.read_all(), b"");
            pair.receive();
        }
        pair
    }

    /// Moves the client's output to the server's socket.
    fn send(&mut self) {
        while self.client.wants_write() {
            self.client.write_tls(&mut self.server.socket.inbound).unwrap();
        }
    }

    /// Moves the output of the server's socket to the client; returns the plaintext that the client reads.
    fn receive(&mut self) -> Vec<u8> {
        let bytes = std::mem::take(&mut self.server.socket.outbound);
        let (mut rest, mut read) = (bytes.as_slice(), Vec::new());
        while !rest.is_empty() {
            self.client.read_tls(&mut rest).unwrap();
            let state = self.client.process_new_packets().unwrap();
            let before = read.len();
            read.resize(before + state.plaintext_bytes_to_read(), 0);
            self.client.reader().read_exact(&mut read[before..]).unwrap();
        }
        read
    }

    /// Reads like a connection: until nothing is left for now.
    fn read_all(&mut self) -> Vec<u8> {
        let (mut all, mut buf) = (Vec::new(), [0; 1000]);
        loop {
            match self.server.read(&mut buf) {
                Ok(0) => return all,
                Ok(count) => {
                    all.extend_from_slice(&buf[..count]);
                    if count < buf.len() {
                        return all;
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return all,
                Err(error) => panic!("{error}"),
            }
        }
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let (head, tail) = bytes.split_at(bytes.len() / 3);
        self.server.write_vectored(&[IoSlice::new(head), IoSlice::new(tail)])
    }
}

fn sample(len: usize) -> Vec<u8> {
    (0..len).map(|index| (index * 7 % 251) as u8).collect()
}

#[test]
fn a_short_read_has_taken_everything_that_was_there() {
    let mut pair = Pair::open();
    let sent = sample(50_000);
    pair.client.writer().write_all(&sent).unwrap();
    pair.send();
    assert!(pair.read_all() == sent);
    assert!(pair.server.socket.inbound.is_empty());
}

#[test]
fn a_full_socket_takes_less_and_the_rest_is_bounded() {
    let mut pair = Pair::open();
    pair.server.take_progress();
    pair.server.socket.room = 10_000;
    let sent = sample(300_000);
    let first = pair.write(&sent).unwrap();
    assert!(pair.server.has_pending());
    assert!(first <= TLS_OUTPUT_BYTES_MAX, "{first} bytes were taken");
    let first = first + pair.write(&sent[first..]).unwrap();
    assert!(first <= 10_000 + TLS_OUTPUT_BYTES_MAX, "{first} bytes were taken");
    assert_eq!(pair.write(&sent[first..]).unwrap_err().kind(), io::ErrorKind::WouldBlock);
    assert_eq!(pair.server.take_progress(), 10_000);
    let (mut received, mut taken) = (pair.receive(), first);
    while taken < sent.len() {
        match pair.write(&sent[taken..]) {
            Ok(count) => taken += count,
            Err(error) => assert_eq!(error.kind(), io::ErrorKind::WouldBlock),
        }
        received.extend(pair.receive());
    }
    while !pair.server.flush().unwrap() {
        received.extend(pair.receive());
    }
    received.extend(pair.receive());
    assert!(received == sent);
    assert!(!pair.server.has_pending());
}

#[test]
fn buffered_bytes_count_as_progress_when_they_are_sent() {
    let mut pair = Pair::open();
    pair.server.take_progress();
    pair.server.socket.room = 0;
    assert_eq!(pair.write(b"0123456789").unwrap(), 10);
    assert_eq!(pair.server.take_progress(), 0);
    assert!(!pair.server.flush().unwrap());
    assert_eq!(pair.server.take_progress(), 0);
    pair.server.socket.room = WIDE;
    assert!(pair.server.flush().unwrap());
    assert!(pair.server.take_progress() > 10);
    assert_eq!(pair.receive(), b"0123456789");
}

#[test]
fn both_kinds_of_end_come_after_the_last_byte() {
    for has_alert in [true, false] {
        let mut pair = Pair::open();
        pair.client.writer().write_all(b"last").unwrap();
        if has_alert {
            pair.client.send_close_notify();
        }
        pair.send();
        pair.server.socket.has_ended = !has_alert;
        let mut buf = [0; 100];
        assert_eq!(pair.server.read(&mut buf).unwrap(), 4);
        // No event will announce it.
        assert!(pair.server.is_at_end() || !has_alert);
        assert_eq!(pair.server.read(&mut buf).unwrap(), 0);
    }
}

#[test]
fn a_close_notify_is_reported_and_ends_decryption() {
    let mut pair = Pair::open();
    pair.server.leave().unwrap();
    pair.receive();
    assert_eq!(pair.client.reader().read(&mut [0; 10]).unwrap(), 0);
    pair.server.socket.inbound.extend(b"whatever");
    assert_eq!(pair.server.read(&mut [0; 100]).unwrap(), 8);
}

#[test]
fn a_handshake_in_drops_is_a_handshake() {
    let mut pair = Pair::new();
    let mut inbound = Vec::new();
    while pair.server.is_handshaking() || pair.client.is_handshaking() {
        while pair.client.wants_write() {
            pair.client.write_tls(&mut inbound).unwrap();
        }
        for byte in inbound.drain(..) {
            assert_eq!(pair.server.take_handshake(false), None);
            pair.server.socket.inbound.push_back(byte);
            assert_eq!(pair.server.read(&mut [0; 100]).unwrap_err().kind(), io::ErrorKind::WouldBlock);
        }
        pair.receive();
    }
    assert_eq!(pair.server.take_handshake(false), Some(TlsHandshake::Full));
    assert_eq!(pair.server.take_handshake(true), None);
    let facts = pair.server.facts().unwrap();
    assert_eq!((facts.protocol, facts.server_name.as_deref()), ("TLSv1.3", Some("a.example")));
    assert!(facts.cipher.starts_with("TLS_"), "{}", facts.cipher);
}

#[test]
fn an_answer_of_the_handshake_waits_for_room() {
    let mut pair = Pair::new();
    pair.server.socket.room = 100;
    pair.send();
    assert_eq!(pair.read_all(), b"");
    assert!(pair.server.has_pending());
    pair.server.socket.room = WIDE;
    assert!(pair.server.flush().unwrap());
    pair.receive();
    pair.send();
    assert_eq!(pair.read_all(), b"");
    assert!(!pair.server.is_handshaking());
}

#[test]
fn bytes_that_are_no_record_fail_with_an_alert() {
    let mut pair = Pair::new();
    pair.server.socket.inbound.extend(b"\x80\x2e\x01\x03\x01\x00\x15\x00\x00\x00\x10");
    assert_eq!(pair.server.read(&mut [0; 100]).unwrap_err().kind(), io::ErrorKind::InvalidData);
    assert!(pair.server.is_at_end() && pair.server.failure().is_some());
    assert_eq!(pair.server.read(&mut [0; 100]).unwrap_err().kind(), io::ErrorKind::InvalidData);
    // An alert.
    assert_eq!(pair.server.socket.outbound[0], 0x15);
    assert_eq!(pair.server.take_handshake(false), Some(TlsHandshake::Failed));
}

#[test]
fn a_connection_that_ends_within_its_handshake_has_failed_and_a_silent_one_has_not() {
    let mut silent = Pair::new();
    silent.server.socket.has_ended = true;
    assert_eq!(silent.server.read(&mut [0; 100]).unwrap(), 0);
    assert_eq!(silent.server.take_handshake(true), None);
    let mut torn = Pair::new();
    torn.send();
    torn.server.socket.inbound.truncate(20);
    assert_eq!(torn.read_all(), b"");
    torn.server.socket.has_ended = true;
    assert_eq!(torn.server.read(&mut [0; 100]).unwrap(), 0);
    assert_eq!(torn.server.take_handshake(false), None);
    assert_eq!(torn.server.take_handshake(true), Some(TlsHandshake::Failed));
}

#[test]
fn a_client_without_tls_is_read_and_answered_in_the_clear() {
    let mut pair = Pair::new();
    pair.server.socket.inbound.extend(b"GET / HT");
    assert_eq!(pair.read_all(), b"GET / HT");
    pair.server.socket.inbound.extend(b"TP/1.1");
    assert_eq!(pair.read_all(), b"TP/1.1");
    assert!(pair.server.is_plain() && !pair.server.is_at_end() && !pair.server.has_pending());
    pair.server.write_vectored(&[IoSlice::new(b"HTTP/1.1 400")]).unwrap();
    assert_eq!(pair.server.socket.outbound, b"HTTP/1.1 400");
    assert_eq!(pair.server.take_handshake(false), Some(TlsHandshake::PlainHttp));
}

#[test]
fn a_broken_record_after_the_handshake_ends_the_session_and_is_no_handshake() {
    let mut pair = Pair::open();
    assert_eq!(pair.server.take_handshake(false), Some(TlsHandshake::Full));
    pair.client.writer().write_all(b"good").unwrap();
    pair.send();
    pair.server.socket.inbound.extend(b"\x17\x03\x03\x00\x20aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa");
    let mut buf = [0; 100];
    assert_eq!(pair.server.read(&mut buf).unwrap(), 4);
    assert_eq!(pair.server.read(&mut buf).unwrap_err().kind(), io::ErrorKind::InvalidData);
    assert_eq!(pair.server.take_handshake(true), None);
}
