//! The machine: one request after another on one connection.
//!
//! The machine appends its output to a buffer of the caller, which writes it to the socket and passes in the received
//! bytes. After a fault, the caller closes the connection.
//!
//! ```text
//!             begin                 the empty line              END_REQUEST
//!   Idle ─────────────▶ ReadingHead ───────────────▶ ReadingBody ───────────▶ Idle, if the connection is kept
//!     ▲                     │ │                                         └───▶ Ended
//!     │                     │ └── END_REQUEST with a refusal, or within the header: a fault
//!     └── any byte: a fault └──── any violation of the protocol: a fault
//! ```

use super::fault::{Fault, Refusal};
use super::parameters::put_parameters;
use super::record::{RECORD_CONTENT_MAX, RecordPiece, RecordReader, RecordType, put};
use super::response_head::{HeadReader, ResponseHead};

/// The only request on the connection.
const REQUEST_ID: u16 = 1;

/// The role of the other side: it answers requests.
const RESPONDER: u8 = 1;

/// The flag of BEGIN_REQUEST that leaves the connection open after the response.
const KEEP_CONN: u8 = 1;

/// The client side of one connection.
#[derive(Debug)]
pub struct Connection {
    keeps: bool,
    stage: Stage,
    /// Whether the end of the request's body was written.
    is_sent: bool,
    reader: RecordReader,
    /// The kind of content in the current record.
    content: Content,
    head: HeadReader,
    end: EndReader,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Idle,
    ReadingHead,
    ReadingBody,
    Ended,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Content {
    End,
    Ignored,
    Stderr,
    Stdout,
}

/// An event of a response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event<'a> {
    /// The header of the response.
    Head(ResponseHead<'a>),
    /// Bytes of the body; never empty.
    Body(&'a [u8]),
    /// Bytes for the log; never empty.
    Stderr(&'a [u8]),
    /// The response is complete.
    End {
        /// The exit status of the application; 0 means success.
        app_status: u32,
    },
}

impl Connection {
    /// Makes the machine of a new connection, which the responder leaves open after a response if `keeps`.
    pub fn new(keeps: bool) -> Self {
        Self {
            keeps,
            stage: Stage::Idle,
            is_sent: true,
            reader: RecordReader::default(),
            content: Content::Ignored,
            head: HeadReader::default(),
            end: EndReader::default(),
        }
    }

    /// Begins a request with these parameters. The [body](Self::put_body) follows.
    pub fn begin<'p>(
        &mut self,
        parameters: impl IntoIterator<Item = (&'p [u8], &'p [u8])>,
        out: &mut Vec<u8>,
    ) {
        debug_assert!(self.is_idle(), "a request is under way");
        let flags = if self.keeps { KEEP_CONN } else { 0 };
        put(RecordType::BeginRequest, REQUEST_ID, &[0, RESPONDER, flags, 0, 0, 0, 0, 0], out);
        put_parameters(REQUEST_ID, parameters, out);
        self.head.clear();
        self.end = EndReader::default();
        (self.stage, self.is_sent) = (Stage::ReadingHead, false);
    }

    /// Appends bytes of the request's body.
    pub fn put_body(&mut self, bytes: &[u8], out: &mut Vec<u8>) {
        debug_assert!(!self.is_sent, "the body has ended");
        for part in bytes.chunks(RECORD_CONTENT_MAX) {
            put(RecordType::Stdin, REQUEST_ID, part, out);
        }
    }

    /// Ends the request's body.
    pub fn end_body(&mut self, out: &mut Vec<u8>) {
        if !std::mem::replace(&mut self.is_sent, true) {
            put(RecordType::Stdin, REQUEST_ID, b"", out);
        }
    }

    /// Tells the responder that the client has left. The responder may end the response early, or ignore this.
    pub fn abort(&mut self, out: &mut Vec<u8>) {
        if matches!(self.stage, Stage::ReadingHead | Stage::ReadingBody) {
            put(RecordType::AbortRequest, REQUEST_ID, b"", out);
        }
    }

    /// Takes the next event off `bytes`; `None` if more bytes are needed, after taking all.
    ///
    /// # Errors
    ///
    /// [`Fault`]; the connection must be closed.
    pub fn receive<'c, 'b: 'c>(&'c mut self, bytes: &mut &'b [u8]) -> Result<Option<Event<'c>>, Fault> {
        loop {
            let before = *bytes;
            let piece = self.reader.next(bytes);
            if matches!(self.stage, Stage::Idle | Stage::Ended) {
                // Only the padding of the last record may follow, and nothing else is interpreted.
                let is_silent = piece == Ok(None) && !self.reader.is_within_header();
                return if is_silent { Ok(None) } else { Err(Fault::Unrequested) };
            }
            match piece? {
                None => return Ok(None),
                Some(RecordPiece::Begin(header)) => {
                    self.content = Content::of(header.kind, header.request_id)?;
                }
                Some(RecordPiece::Content(content)) => match self.content {
                    Content::End => self.end.read(content),
                    Content::Ignored => {}
                    Content::Stderr => return Ok(Some(Event::Stderr(content))),
                    Content::Stdout if self.stage == Stage::ReadingBody => {
                        return Ok(Some(Event::Body(content)));
                    }
                    Content::Stdout => {
                        let mut unread = content;
                        if self.head.read(&mut unread)? {
                            // The rest of the record belongs to the body.
                            self.reader.put_back(unread.len());
                            *bytes = &before[content.len() - unread.len()..];
                            self.stage = Stage::ReadingBody;
                            return Ok(Some(Event::Head(self.head.head())));
                        }
                    }
                },
                Some(RecordPiece::End) if self.content == Content::End => return self.finish().map(Some),
                Some(RecordPiece::End) => {}
            }
        }
    }

    /// Returns the fault if the connection ends now; `None` if no response is expected.
    pub fn closed(&self) -> Option<Fault> {
        (!matches!(self.stage, Stage::Idle | Stage::Ended)).then_some(Fault::Closed)
    }

    /// Returns whether the next request can begin.
    pub fn is_idle(&self) -> bool {
        self.stage == Stage::Idle && !self.reader.is_within_header()
    }

    /// Ends the response with the content of END_REQUEST.
    fn finish<'a>(&mut self) -> Result<Event<'a>, Fault> {
        let (app_status, protocol_status) = self.end.finish()?;
        if let Some(refusal) = Refusal::of_status(protocol_status) {
            return Err(Fault::Refused(refusal));
        }
        if self.stage == Stage::ReadingHead {
            return Err(Fault::NoHead);
        }
        // The rest of a body that was not read would be in front of the next request.
        self.stage = if self.keeps && self.is_sent { Stage::Idle } else { Stage::Ended };
        self.head.clear();
        Ok(Event::End { app_status })
    }
}

impl Content {
    /// Returns what to do with the content of a record. Types that the protocol does not define are ignored, as it
    /// requires of both sides.
    fn of(kind: u8, request_id: u16) -> Result<Self, Fault> {
        let defined = RecordType::of(kind);
        match (request_id, defined) {
            (0, None | Some(RecordType::GetValuesResult | RecordType::UnknownType)) => Ok(Self::Ignored),
            (0, Some(_)) => Err(Fault::UnexpectedType(kind)),
            (REQUEST_ID, None) => Ok(Self::Ignored),
            (REQUEST_ID, Some(RecordType::EndRequest)) => Ok(Self::End),
            (REQUEST_ID, Some(RecordType::Stderr)) => Ok(Self::Stderr),
            (REQUEST_ID, Some(RecordType::Stdout)) => Ok(Self::Stdout),
            (REQUEST_ID, Some(_)) => Err(Fault::UnexpectedType(kind)),
            (other, _) => Err(Fault::UnknownRequest(other)),
        }
    }
}

/// Collects the content of END_REQUEST.
#[derive(Debug, Default)]
struct EndReader {
    bytes: [u8; 8],
    filled: usize,
}

impl EndReader {
    fn read(&mut self, content: &[u8]) {
        let taken = &content[..content.len().min(self.bytes.len() - self.filled)];
        self.bytes[self.filled..self.filled + taken.len()].copy_from_slice(taken);
        self.filled += taken.len();
    }

    /// Returns the status of the application and that of the protocol.
    fn finish(&self) -> Result<(u32, u8), Fault> {
        if self.filled < self.bytes.len() {
            return Err(Fault::EndTooShort(self.filled as u16));
        }
        let [a, b, c, d, protocol_status, ..] = self.bytes;
        Ok((u32::from_be_bytes([a, b, c, d]), protocol_status))
    }
}

/// Returns a query for no variables, which shows whether a responder answers. PHP answers and closes the connection.
pub fn probe() -> Vec<u8> {
    let mut out = Vec::new();
    put(RecordType::GetValues, 0, b"", &mut out);
    out
}

#[cfg(test)]
#[path = "connection_tests.rs"]
mod tests;
