//! One request on a connection, from its head to its place in the books.
//!
//! Promises: it holds what the books need until they are closed, wherever the head is by then. Refuses: it decides
//! nothing.

use std::time::{Instant, SystemTime};

use crate::admission::Ticket;
use crate::config::AbandonedRequests;
use crate::http::{Head, MethodKind, RequestLine, Version};
use crate::pool::Exchange;
use crate::sync::primitive::Arc;

use super::client_context::ClientContext;
use super::ending::Ending;

/// When the first byte of a head came, on both clocks.
pub(in crate::serve) type Began = (Instant, SystemTime);

/// The request that a stream is busy with.
#[derive(Debug)]
pub(in crate::serve) struct RequestMeta {
    /// The protocol of the response.
    pub(in crate::serve) version: Version,
    /// Whether the response has a head only.
    pub(in crate::serve) head_only: bool,
    /// Whether the connection may live on: the client lets it, and nothing of the request is left unread.
    pub(in crate::serve) keep_alive: bool,
    /// When the first byte of the head came.
    pub(in crate::serve) started: Instant,
    /// The same, on the wall clock.
    pub(in crate::serve) received_at: SystemTime,
    /// How it ends.
    pub(in crate::serve) ending: Ending,
    /// Its place in the waiting set; it may have been promoted since.
    pub(in crate::serve) ticket: Option<Ticket>,
    /// The lengths of a file's body before and after its content coding, if it has one.
    pub(in crate::serve) coded: Option<(u64, u64)>,
    /// The head that went out says that the server has coded the body, which follows.
    pub(in crate::serve) is_coded: bool,
    /// Who asks.
    pub(in crate::serve) client_context: ClientContext,
    subject: Subject,
}

/// Where the head is.
#[derive(Debug)]
enum Subject {
    /// There is none, or the exchange is being made of it.
    Nothing,
    /// Here.
    Head(Head, String),
    /// No head could be read, but perhaps its first line.
    DrainingStream(String, Option<Box<RequestLine>>),
    /// In the exchange.
    Exchange(Arc<Exchange>),
}

impl RequestMeta {
    /// Begins with a request that was read.
    pub(in crate::serve) fn new(
        head: Head,
        request_id: String,
        client_context: ClientContext,
        keep_alive: bool,
        started: Began,
    ) -> Self {
        let (version, head_only) = (head.version(), head.method_kind() == MethodKind::Head);
        Self {
            keep_alive,
            ..Self::of(Subject::Head(head, request_id), client_context, version, head_only, started)
        }
    }

    /// Begins with a request that cannot be read, but perhaps its first line.
    pub(in crate::serve) fn unread(
        request_id: String,
        line: Option<RequestLine>,
        client_context: ClientContext,
        started: Began,
    ) -> Self {
        Self::of(
            Subject::DrainingStream(request_id, line.map(Box::new)),
            client_context,
            Version::Http11,
            false,
            started,
        )
    }

    fn of(
        subject: Subject,
        client_context: ClientContext,
        version: Version,
        head_only: bool,
        (started, received_at): Began,
    ) -> Self {
        Self {
            version,
            head_only,
            keep_alive: false,
            started,
            received_at,
            ending: Ending::default(),
            ticket: None,
            coded: None,
            is_coded: false,
            client_context,
            subject,
        }
    }

    /// The head, wherever it is.
    pub(in crate::serve) fn head(&self) -> Option<&Head> {
        match &self.subject {
            Subject::Head(head, _) => Some(head),
            Subject::Exchange(exchange) => Some(&exchange.request.head),
            Subject::DrainingStream(..) | Subject::Nothing => None,
        }
    }

    /// Whether it is to run although its client has left.
    pub(in crate::serve) fn outlives_client(&self, policy: AbandonedRequests) -> bool {
        match policy {
            AbandonedRequests::Drop => false,
            AbandonedRequests::Run => true,
            AbandonedRequests::RunUnsafe => self.head().is_some_and(|head| !head.method_kind().is_safe()),
        }
    }

    /// What is asked for: the method, and the path as it came; empty where nobody can tell.
    pub(in crate::serve) fn asks_for(&self) -> (&str, &[u8]) {
        match &self.subject {
            Subject::DrainingStream(_, Some(line)) => (&line.method, &line.path),
            _ => self.head().map_or(("", b""), |head| (head.method(), head.path_and_query().0)),
        }
    }

    /// The request's name.
    pub(in crate::serve) fn request_id(&self) -> &str {
        match &self.subject {
            Subject::Head(_, id) | Subject::DrainingStream(id, _) => id,
            Subject::Exchange(exchange) => &exchange.request.request_id,
            Subject::Nothing => "",
        }
    }

    /// The lengths of the body before and after the content coding of the server's, if it has one.
    pub(in crate::serve) fn coding(&self) -> Option<(u64, u64)> {
        self.coded.or_else(|| self.exchange()?.coded())
    }

    /// The exchange, once there is one.
    pub(in crate::serve) fn exchange(&self) -> Option<&Arc<Exchange>> {
        if let Subject::Exchange(exchange) = &self.subject { Some(exchange) } else { None }
    }

    /// Hands head and name over to the exchange that is being made.
    pub(in crate::serve) fn take_head(&mut self) -> Option<(Head, String)> {
        match std::mem::replace(&mut self.subject, Subject::Nothing) {
            Subject::Head(head, id) => Some((head, id)),
            other => {
                self.subject = other;
                None
            }
        }
    }

    /// Keeps the exchange that was made.
    pub(in crate::serve) fn set_exchange(&mut self, exchange: Arc<Exchange>) {
        self.subject = Subject::Exchange(exchange);
    }
}
