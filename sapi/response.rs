//! From what a script says to the parts of a reply.
//!
//! Promises: a reply that fits in [`REPLY_GATHER_MAX`] and is not flushed goes out in one piece with its length; a
//! script that fails before anything went out is answered 500 or 504; one that fails later leaves a reply that is
//! visibly broken. Refuses: it writes no bytes of HTTP.
//!
//! ```text
//!   Gathering ──flush, or much output──▶ Streaming ──▶ Ended
//!       └──────────────── the script ends ────────────▲
//! ```

use svc_core::http::MethodKind;
use svc_core::limits::REPLY_GATHER_MAX;
use svc_core::pool::{End, Exchange, Origin, ReplyHead};

use svc_ffi::{Head, Outcome};

use crate::reply_head::{plain_head, reply_head};

/// Where the reply is; see the module's diagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Gathering,
    Streaming,
    Ended,
}

/// The reply of one exchange, written by its script.
#[derive(Debug)]
pub(crate) struct Response<'a> {
    exchange: &'a Exchange,
    stage: Stage,
    head: Option<ReplyHead>,
    gathered: Vec<u8>,
    /// The request's method is HEAD: bytes are counted and not kept.
    counts_only: bool,
    written_bytes: u64,
}

impl<'a> Response<'a> {
    /// Begins the reply of a claimed exchange.
    pub(crate) fn new(exchange: &'a Exchange) -> Self {
        Self {
            exchange,
            stage: Stage::Gathering,
            head: None,
            gathered: Vec::new(),
            counts_only: exchange.request.head.method_kind() == MethodKind::Head,
            written_bytes: 0,
        }
    }

    /// Takes status and fields as PHP has them.
    pub(crate) fn set_head(&mut self, head: &Head<'_>) {
        if self.stage == Stage::Gathering {
            self.head = Some(reply_head(head));
        }
    }

    /// Sends an informational response.
    pub(crate) fn interim(&self, head: &Head<'_>) {
        if self.stage == Stage::Gathering
            && let Ok(status) = u16::try_from(head.status)
        {
            // A client that has gone needs no hints.
            let _ = self.exchange.interim(status, reply_head(head).fields);
        }
    }

    /// Takes output. False: nobody reads it.
    pub(crate) fn write(&mut self, output: &[u8]) -> bool {
        self.written_bytes += output.len() as u64;
        match self.stage {
            Stage::Ended => return true,
            Stage::Gathering if self.exchange.is_gone() => return false,
            Stage::Gathering | Stage::Streaming => {}
        }
        if self.counts_only {
            return true;
        }
        self.gathered.extend_from_slice(output);
        self.gathered.len() < REPLY_GATHER_MAX || self.hand_over()
    }

    /// Sends what there is. False: nobody reads it.
    pub(crate) fn flush(&mut self) -> bool {
        match self.stage {
            Stage::Ended => true,
            Stage::Streaming if self.gathered.is_empty() => !self.exchange.is_gone(),
            Stage::Gathering | Stage::Streaming => self.hand_over(),
        }
    }

    /// Ends the reply although the script goes on.
    pub(crate) fn finish(&mut self) {
        self.end(Outcome::Complete);
    }

    /// Ends the reply as the script ended. After [`finish`](Self::finish) it does nothing.
    pub(crate) fn end(&mut self, outcome: Outcome) {
        match (std::mem::replace(&mut self.stage, Stage::Ended), outcome) {
            (Stage::Ended, _) => {}
            (Stage::Gathering, Outcome::Complete | Outcome::Aborted) => self.complete(Origin::Script),
            (Stage::Gathering, Outcome::Fatal) => self.complete(Origin::Fatal),
            (Stage::Gathering, Outcome::TimeLimit) => self.complete(Origin::TimeLimit),
            (Stage::Streaming, outcome) => {
                let rest = std::mem::take(&mut self.gathered);
                let sent = rest.is_empty() || self.exchange.data(rest).is_ok();
                let whole = sent && matches!(outcome, Outcome::Complete);
                self.exchange.end(if whole { End::Complete } else { End::Broken });
            }
        }
    }

    fn hand_over(&mut self) -> bool {
        let bytes = std::mem::take(&mut self.gathered);
        if self.stage == Stage::Streaming {
            return self.exchange.data(bytes).is_ok();
        }
        self.stage = Stage::Streaming;
        let head = self.head.take().unwrap_or_else(plain_head);
        self.exchange.head(head, bytes).is_ok()
    }

    fn complete(&mut self, origin: Origin) {
        let mut head = self.head.take().unwrap_or_else(plain_head);
        head.origin = origin;
        let status = match origin {
            Origin::TimeLimit => Some(504),
            Origin::Fatal if head.status < 500 => Some(500),
            _ => None,
        };
        if let Some(status) = status {
            head.status = status;
            head.reason = None;
            head.content_length = None;
        }
        if origin == Origin::Script {
            head.content_length.get_or_insert(self.written_bytes);
        }
        // A client that has gone loses its reply.
        let _ = self.exchange.complete(head, std::mem::take(&mut self.gathered));
    }
}
