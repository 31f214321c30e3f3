//! What an engine is told about a request. Complete before the exchange is offered; nothing is added later.

use std::net::SocketAddr;
use std::time::SystemTime;

use crate::http::{Head, Trace};
use crate::spool::SpoolFile;
use crate::sync::primitive::Arc;

/// A complete request: head, body, and what the server found out about it.
#[derive(Debug)]
pub struct CompleteRequest {
    /// The parsed head.
    pub head: Head,
    /// The body, read to its end.
    pub body: Body,
    /// The script that answers, and how the path was split to find it.
    pub script: Arc<Script>,
    /// The client's address, as far as it is known; port 0 stands for one that is not.
    pub client: SocketAddr,
    /// The address that the client connected to.
    pub local: SocketAddr,
    /// Whether the client asked by HTTPS.
    pub https: bool,
    /// The session, if the client speaks TLS with this server.
    pub tls: Option<Arc<TlsFacts>>,
    /// The host that the client asked for and the port that it asked at, when a proxy tells them.
    pub asked: (Option<Vec<u8>>, Option<u16>),
    /// Its place in a trace, when there are traces.
    pub trace: Option<Trace>,
    /// The request's name in logs and in `svc_request_id()`.
    pub request_id: String,
    /// When the first byte of the head arrived.
    pub received_at: SystemTime,
}

/// What is known about a TLS session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsFacts {
    /// `SSL_PROTOCOL`: the version, as `TLSv1.3`.
    pub protocol: &'static str,
    /// `SSL_CIPHER`: the cipher suite, by the name that OpenSSL has for it.
    pub cipher: &'static str,
    /// `SSL_TLS_SNI`: the name that the client asked for.
    pub server_name: Option<String>,
}

/// A request body that has been read to its end.
#[derive(Debug)]
pub enum Body {
    /// No body, or one of length 0.
    Empty,
    /// A small body.
    Memory(Vec<u8>),
    /// A body above [`BODY_MEMORY_MAX`](crate::limits::BODY_MEMORY_MAX).
    Spooled(SpoolFile),
}

impl Body {
    /// The number of bytes.
    pub fn len(&self) -> u64 {
        match self {
            Self::Empty => 0,
            Self::Memory(bytes) => bytes.len() as u64,
            Self::Spooled(file) => file.len(),
        }
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Reads into `buf` from `offset`; returns how many bytes were read, 0 at the end. May wait for a disk.
    ///
    /// # Errors
    ///
    /// What the disk says about a spooled body.
    pub fn read_at(&self, buf: &mut [u8], offset: u64) -> std::io::Result<usize> {
        match self {
            Self::Empty => Ok(0),
            Self::Memory(bytes) => {
                let rest = usize::try_from(offset).ok().and_then(|at| bytes.get(at..)).unwrap_or_default();
                let count = rest.len().min(buf.len());
                buf[..count].copy_from_slice(&rest[..count]);
                Ok(count)
            }
            Self::Spooled(file) => file.read_at(buf, offset),
        }
    }
}

/// The script that answers a request. All paths are raw bytes: names on disk need not be UTF-8.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Script {
    /// `SCRIPT_FILENAME`: the absolute path of the file.
    pub filename: Vec<u8>,
    /// `SCRIPT_NAME`: the URL path of the script, decoded.
    pub name: Vec<u8>,
    /// `PATH_INFO`: what follows the script in the URL path, decoded; empty when nothing does.
    pub path_info: Vec<u8>,
    /// `DOCUMENT_ROOT`, absolute.
    pub document_root: Vec<u8>,
}
