//! The access log: one record for each request.

use std::net::IpAddr;
use std::time::{Duration, SystemTime};

use super::record::Record;
use crate::config::Level;
use crate::http::{Trace, Traceparent};
use crate::time::as_micros;

/// The data of an access log record.
#[derive(Clone, Copy, Debug)]
pub struct Access<'a> {
    /// The method as sent by the client.
    pub method: &'a str,
    /// The path as sent by the client, without the query, which may contain secrets.
    pub path: &'a [u8],
    /// The status code; 499 if the client had disconnected.
    pub status: u16,
    /// The number of body bytes sent.
    pub bytes: u64,
    /// The time from the first byte of the request header to the last write.
    pub duration: Duration,
    /// How long the request waited for a worker; `None` if no worker took it.
    pub queue_wait: Option<Duration>,
    /// The client's address.
    pub client: IpAddr,
    /// The client's `User-Agent` header field.
    pub user_agent: Option<&'a [u8]>,
    /// The client's `Referer` header field.
    pub referer: Option<&'a [u8]>,
    /// The protocol version, such as `HTTP/1.1`.
    pub protocol: &'a str,
    /// The request ID.
    pub request_id: &'a str,
    /// The trace context, if tracing is enabled.
    pub trace: Option<&'a Trace>,
    /// Why the request was not admitted; `None` if it was, or if it needed no admission.
    pub shed_reason: Option<&'a str>,
    /// The rule that blocks the path; `None` if none does.
    pub denied_by: Option<&'a str>,
    /// The outcome of the response cache; `None` if it is off, or the request needed no script.
    pub cache: Option<&'a str>,
}

impl Access<'_> {
    /// Makes the record of the request, which ended at `at`.
    pub(super) fn record(&self, at: SystemTime) -> Record {
        let traceparent = self.trace.map(Trace::traceparent);
        let record = Record::begin(at, Level::Info.as_str(), "access", "request")
            .text("method", self.method)
            .text("path", self.path)
            .number("status", u64::from(self.status))
            .number("bytes", self.bytes)
            .number("duration_us", as_micros(self.duration))
            .number_or_null("queue_wait_us", self.queue_wait.map(as_micros))
            .text("client", self.client.to_string())
            .text_or_null("user_agent", self.user_agent)
            .text_or_null("referer", self.referer)
            .text("protocol", self.protocol)
            .text("request_id", self.request_id)
            .text_or_null("trace_id", traceparent.map(Traceparent::trace_id))
            .text_or_null("span_id", traceparent.map(Traceparent::span_id))
            .text_or_null("shed_reason", self.shed_reason)
            .text_or_null("denied_by", self.denied_by);
        match self.cache {
            Some(outcome) => record.text("cache", outcome),
            None => record,
        }
    }
}
