//! The request that an engine receives. It is complete before the exchange is offered; nothing is added later.

use std::net::SocketAddr;
use std::time::SystemTime;

use crate::http::{Head, Trace};
use crate::spool::SpoolFile;
use crate::sync::primitive::Arc;
use crate::trace::RequestSpan;

use super::recorder::ResponseRecorder;
use super::request_id::RequestId;

/// A complete request: head, body, and the facts that the server determined.
#[derive(Debug)]
pub struct CompleteRequest {
    /// The parsed head.
    pub head: Arc<Head>,
    /// The body, read to its end.
    pub body: Body,
    /// The script, and how the path was split to find it.
    pub script: Arc<Script>,
    /// The address of the client; port 0 if the port is not known.
    pub client: SocketAddr,
    /// The address that the client connected to.
    pub local: SocketAddr,
    /// Whether the client used HTTPS.
    pub https: bool,
    /// The session, if the client speaks TLS with this server.
    pub tls: Option<Arc<TlsFacts>>,
    /// The host and the port that the client requested, if a proxy reports them.
    pub asked: (Option<Vec<u8>>, Option<u16>),
    /// Its trace context, if tracing is enabled.
    pub trace: Option<Trace>,
    /// Its span, if it is recorded.
    pub span: Option<Arc<RequestSpan>>,
    /// The request ID in logs and in `svc_request_id()`.
    pub request_id: RequestId,
    /// When the first byte of the head arrived.
    pub received_at: SystemTime,
    /// Records its response, for the response cache.
    pub recorder: Option<Arc<dyn ResponseRecorder>>,
}

/// Facts about a TLS session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsFacts {
    /// `SSL_PROTOCOL`: the version, as `TLSv1.3`.
    pub protocol: &'static str,
    /// `SSL_CIPHER`: the cipher suite, by its OpenSSL name.
    pub cipher: &'static str,
    /// `SSL_TLS_SNI`: the server name that the client sent.
    pub server_name: Option<String>,
}

/// A request body that was read to its end.
#[derive(Debug)]
pub enum Body {
    /// No body, or an empty one.
    Empty,
    /// A small body.
    Memory(Vec<u8>),
    /// A body above [`BODY_MEMORY_MAX`](crate::limits::BODY_MEMORY_MAX).
    Spooled(SpoolFile),
}

impl Body {
    /// Returns the number of bytes.
    pub fn len(&self) -> u64 {
        match self {
            Self::Empty => 0,
            Self::Memory(bytes) => bytes.len() as u64,
            Self::Spooled(file) => file.len(),
        }
    }

    /// Returns whether the body is empty.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Reads into `buf` from `offset`; returns the number of bytes read, 0 at the end. May wait for a disk.
    ///
    /// # Errors
    ///
    /// If the disk fails to read a spooled body.
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

/// Looks up scripts again, for workers whose script no longer exists. The server implements it.
pub trait FindScript: Send + Sync + std::fmt::Debug {
    /// Returns the script that handles a normalized path now; `None` if no script does. Waits for the disk.
    fn find_script(&self, path: &[u8]) -> Option<Arc<Script>>;
}

/// The script of a request. All paths are raw bytes, because file names need not be UTF-8.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Script {
    /// `SCRIPT_FILENAME`: the absolute path of the file, below `document_root`.
    pub filename: Vec<u8>,
    /// The same file, without links.
    pub real_path: Vec<u8>,
    /// The real path of the directory of `filename` if that path contains links, otherwise empty.
    pub folder: Vec<u8>,
    /// `SCRIPT_NAME`: the URL path of the script, decoded.
    pub name: Vec<u8>,
    /// `PATH_INFO`: the part of the URL path after the script, decoded; may be empty.
    pub path_info: Vec<u8>,
    /// `DOCUMENT_ROOT`, absolute.
    pub document_root: Vec<u8>,
}
