//! A TLS session on a socket that never blocks.
//!
//! A session buffers: bytes read from the socket may still be inside the session, and bytes that the session has
//! accepted may not have been sent.
//!
//! A read that fills less than its buffer has emptied the socket, and a write that accepts less than it is given has
//! filled it, so that the poller reports when to continue. The session's buffers are bounded. A client that speaks
//! plain HTTP is detected, so that it gets an answer. The stream keeps no deadline and counts nothing; its owner asks
//! for the result of the handshake.
//!
//! ```text
//!   Silent ──record──▶ Handshake ──complete──▶ Open
//!     │                    └──────error────────▶ Failed
//!     └──text──▶ Plain
//! ```

use std::io::{self, IoSlice, Read, Write};

use rustls::{CipherSuite, HandshakeKind, ProtocolVersion, ServerConnection};

use svc_core::limits::{TIGHT_OUTPUT_BYTES, TLS_FIRST_BYTES, TLS_OUTPUT_BYTES_MAX};
use svc_core::observe::TlsHandshake;
use svc_core::pool::TlsFacts;

/// A session and its socket.
#[derive(Debug)]
pub(crate) struct TlsStream<S> {
    socket: S,
    session: ServerConnection,
    stage: TlsStage,
    /// The first bytes of a client without TLS, and how many of them have been read.
    early: io::Cursor<Vec<u8>>,
    /// Why the session failed.
    failure: Option<rustls::Error>,
    /// Whether the client has closed its side, of the session or of the connection.
    has_ended: bool,
    /// Whether the owner has closed our side.
    has_left: bool,
    /// The number of bytes that the socket has accepted since the last call of [`take_progress`](Self::take_progress).
    progress: usize,
    /// The approximate number of bytes, before encryption, that the session has accepted but not sent.
    held_back: usize,
    /// Whether the result of the handshake has been reported.
    is_told: bool,
    /// Whether the session buffers only little.
    is_memory_tight: bool,
}

/// The progress of the session; see the diagram above.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TlsStage {
    Silent,
    Handshake,
    Open,
    Failed,
    Plain,
}

impl<S: Read + Write> TlsStream<S> {
    /// Starts a new session on a socket.
    pub(crate) fn new(socket: S, session: ServerConnection) -> Self {
        Self {
            socket,
            session,
            stage: TlsStage::Silent,
            early: io::Cursor::default(),
            failure: None,
            has_ended: false,
            has_left: false,
            progress: 0,
            held_back: 0,
            is_told: false,
            is_memory_tight: false,
        }
    }

    /// Returns the socket, for the poller.
    pub(crate) fn socket(&mut self) -> &mut S {
        &mut self.socket
    }

    /// Reads the bytes that the client has sent. 0 means that the client has closed its side, with a closing alert or
    /// without one. A missing alert may be due to an attacker. That is safe because a request states its length: a
    /// truncated request is never taken for a complete one.
    ///
    /// # Errors
    ///
    /// `WouldBlock` if nothing has arrived; any other error means that the session has failed.
    pub(crate) fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        if self.stage == TlsStage::Plain {
            return self.read_plain(buf);
        }
        if self.has_left {
            // Bytes that still arrive are discarded; they need not be decrypted.
            return self.socket.read(buf);
        }
        let mut filled = 0;
        let mut is_drained = false;
        while filled < buf.len() {
            match self.session.reader().read(&mut buf[filled..]) {
                Ok(0) => self.has_ended = true,
                Ok(count) => {
                    filled += count;
                    continue;
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(_) => self.has_ended = true,
            }
            if self.has_ended || self.failure.is_some() || is_drained {
                break;
            }
            match self.fetch() {
                Ok(fetched) => is_drained = fetched == Fetched::All,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => is_drained = true,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
            if self.stage == TlsStage::Plain {
                return self.read_plain(buf);
            }
        }
        if filled == 0 {
            // Sends our part of the handshake, or the alert that describes the error. Bytes that the socket does not
            // accept wait for its event; if a request has arrived already, tickets and the like are sent with the
            // response.
            self.flush()?;
        }
        match filled {
            0 if self.failure.is_some() => Err(io::ErrorKind::InvalidData.into()),
            0 if self.has_ended => Ok(0),
            0 => Err(io::ErrorKind::WouldBlock.into()),
            filled => Ok(filled),
        }
    }

    /// Returns whether the next read reports an end that no event will announce.
    pub(crate) fn is_at_end(&self) -> bool {
        self.has_ended || self.failure.is_some()
    }

    /// Writes as much as the socket accepts, and a little more, which [`flush`](Self::flush) sends.
    ///
    /// # Errors
    ///
    /// `WouldBlock` if the socket is full; otherwise the error of the socket.
    pub(crate) fn write_vectored(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        if self.stage == TlsStage::Plain {
            let count = self.socket.write_vectored(slices)?;
            self.progress += count;
            return Ok(count);
        }
        let mut own = [IoSlice::new(&[]); SLICES_MAX];
        let count = slices.len().min(SLICES_MAX);
        own[..count].copy_from_slice(&slices[..count]);
        let mut rest = &mut own[..count];
        IoSlice::advance_slices(&mut rest, 0);
        let mut taken = 0;
        while !rest.is_empty() {
            let was_full = self.session.wants_write();
            // The session accepts as much as it has room for; sending makes room.
            let count = self.session.writer().write_vectored(rest)?;
            taken += count;
            self.held_back += count;
            IoSlice::advance_slices(&mut rest, count);
            if !self.flush()? {
                break;
            }
            if count == 0 && !was_full {
                // The keys have reached their usage limit.
                return Err(io::ErrorKind::WriteZero.into());
            }
        }
        if taken == 0 && !rest.is_empty() { Err(io::ErrorKind::WouldBlock.into()) } else { Ok(taken) }
    }

    /// Limits the session's buffer to one record while memory is tight.
    pub(crate) fn set_memory_tight(&mut self, is_memory_tight: bool) {
        if std::mem::replace(&mut self.is_memory_tight, is_memory_tight) != is_memory_tight {
            let bytes = if is_memory_tight { TIGHT_OUTPUT_BYTES } else { TLS_OUTPUT_BYTES_MAX };
            self.session.set_buffer_limit(Some(bytes));
        }
    }

    /// Sends the bytes that the session has buffered; returns whether none are left.
    ///
    /// # Errors
    ///
    /// The error of the socket, except `WouldBlock`.
    pub(crate) fn flush(&mut self) -> io::Result<bool> {
        while self.session.wants_write() && self.stage != TlsStage::Plain {
            match self.session.write_tls(&mut self.socket) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(count) => {
                    self.progress += count;
                    self.held_back = self.held_back.saturating_sub(count);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        self.held_back = 0;
        Ok(true)
    }

    /// Returns roughly how many of the bytes given to the session the socket has not accepted; 0 only if it has
    /// accepted all.
    pub(crate) fn held_back(&self) -> usize {
        if self.has_pending() { self.held_back.max(1) } else { 0 }
    }

    /// Returns whether the session has buffered bytes that the socket did not accept.
    pub(crate) fn has_pending(&self) -> bool {
        self.stage != TlsStage::Plain && self.session.wants_write()
    }

    /// Returns how many bytes the socket has accepted since the last call.
    pub(crate) fn take_progress(&mut self) -> usize {
        std::mem::take(&mut self.progress)
    }

    /// Sends the closing alert, so that the client can distinguish the end from a truncation.
    ///
    /// # Errors
    ///
    /// The error of the socket, except `WouldBlock`.
    pub(crate) fn leave(&mut self) -> io::Result<()> {
        if self.stage == TlsStage::Open && !std::mem::replace(&mut self.has_left, true) {
            self.session.send_close_notify();
            self.flush()?;
        }
        Ok(())
    }

    /// Returns whether the handshake is not over.
    pub(crate) fn is_handshaking(&self) -> bool {
        matches!(self.stage, TlsStage::Silent | TlsStage::Handshake)
    }

    /// Returns whether the client speaks HTTP without TLS; the bytes that are then read and written are not encrypted.
    pub(crate) fn is_plain(&self) -> bool {
        self.stage == TlsStage::Plain
    }

    /// Returns whether client and server have agreed on HTTP/2.
    pub(crate) fn agrees_on_http2(&self) -> bool {
        self.session.alpn_protocol() == Some(b"h2")
    }

    /// Reports the result of the handshake once, when there is one. When the connection ends, an incomplete handshake
    /// has failed; a connection on which nothing was sent had no handshake.
    pub(crate) fn take_handshake(&mut self, is_last_look: bool) -> Option<TlsHandshake> {
        let outcome = match self.stage {
            TlsStage::Silent => return None,
            TlsStage::Handshake if !is_last_look => return None,
            TlsStage::Handshake | TlsStage::Failed => TlsHandshake::Failed,
            TlsStage::Plain => TlsHandshake::PlainHttp,
            TlsStage::Open if self.session.handshake_kind() == Some(HandshakeKind::Resumed) => {
                TlsHandshake::Resumed
            }
            TlsStage::Open => TlsHandshake::Full,
        };
        (!std::mem::replace(&mut self.is_told, true)).then_some(outcome)
    }

    /// Returns why the session failed, if it did.
    pub(crate) fn failure(&self) -> Option<&rustls::Error> {
        self.failure.as_ref()
    }

    /// Returns the facts about the session for scripts, once it is established.
    pub(crate) fn facts(&self) -> Option<TlsFacts> {
        Some(TlsFacts {
            protocol: match self.session.protocol_version()? {
                ProtocolVersion::TLSv1_2 => "TLSv1.2",
                _ => "TLSv1.3",
            },
            cipher: cipher_name(self.session.negotiated_cipher_suite()?.suite()),
            server_name: self.session.server_name().map(str::to_owned),
        })
    }

    fn read_plain(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        match self.early.read(buf)? {
            0 => self.socket.read(buf),
            count => Ok(count),
        }
    }

    /// Reads records from the socket and lets the session process them.
    fn fetch(&mut self) -> io::Result<Fetched> {
        let mut tap = Tap { socket: &mut self.socket, is_drained: false };
        let count = if self.stage == TlsStage::Silent {
            let mut first = [0; TLS_FIRST_BYTES];
            let count = tap.read(&mut first)?;
            let first = &first[..count];
            if first.first().is_some_and(|byte| byte.is_ascii_graphic() || byte.is_ascii_whitespace()) {
                self.stage = TlsStage::Plain;
                self.early = io::Cursor::new(first.to_vec());
                return Ok(Fetched::All);
            }
            if count > 0 {
                self.stage = TlsStage::Handshake;
            }
            self.session.read_tls(&mut &*first)?
        } else {
            self.session.read_tls(&mut tap)?
        };
        let is_drained = tap.is_drained;
        self.has_ended |= count == 0;
        if let Err(error) = self.session.process_new_packets() {
            self.failure = Some(error);
            if self.is_handshaking() {
                self.stage = TlsStage::Failed;
            }
        } else if self.stage == TlsStage::Handshake && !self.session.is_handshaking() {
            self.stage = TlsStage::Open;
        }
        Ok(if is_drained { Fetched::All } else { Fetched::Some })
    }
}

/// The result of reading from the socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fetched {
    /// The socket is empty.
    All,
    /// There may be more.
    Some,
}

/// Records whether a read emptied the socket.
struct Tap<'a, S> {
    socket: &'a mut S,
    is_drained: bool,
}

impl<S: Read> Read for Tap<'_, S> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let count = self.socket.read(buf)?;
        self.is_drained = count < buf.len();
        Ok(count)
    }
}

/// How many pieces to encrypt at once.
const SLICES_MAX: usize = 16;

/// Returns OpenSSL's name for a cipher suite, which scripts expect.
fn cipher_name(suite: CipherSuite) -> &'static str {
    match suite {
        CipherSuite::TLS13_AES_256_GCM_SHA384 => "TLS_AES_256_GCM_SHA384",
        CipherSuite::TLS13_AES_128_GCM_SHA256 => "TLS_AES_128_GCM_SHA256",
        CipherSuite::TLS13_CHACHA20_POLY1305_SHA256 => "TLS_CHACHA20_POLY1305_SHA256",
        CipherSuite::TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384 => "ECDHE-ECDSA-AES256-GCM-SHA384",
        CipherSuite::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256 => "ECDHE-ECDSA-AES128-GCM-SHA256",
        CipherSuite::TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256 => "ECDHE-ECDSA-CHACHA20-POLY1305",
        CipherSuite::TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384 => "ECDHE-RSA-AES256-GCM-SHA384",
        CipherSuite::TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256 => "ECDHE-RSA-AES128-GCM-SHA256",
        CipherSuite::TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256 => "ECDHE-RSA-CHACHA20-POLY1305",
        // The library has no other suites; a new one would still have its own name.
        other => other.as_str().unwrap_or("unknown"),
    }
}

#[cfg(test)]
#[path = "tls_stream_tests.rs"]
mod tests;
