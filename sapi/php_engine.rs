//! PHP as the pool's engine, in classic mode: a fresh PHP request for each exchange.
//!
//! Promises: what a script says ends up in its exchange and nowhere else; what PHP logs becomes a record with PHP's
//! level, file and line. Refuses: nothing of a request outlives its exchange here; what PHP keeps is the shim's care.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::UNIX_EPOCH;

use svc_core::compress::{Levels, Stock};
use svc_core::http::Version;
use svc_core::observe::{Event, Log, PhpLevel};
use svc_core::pool::{Engine, Exchange, Probe, StartError, Started, Worker};
use svc_core::serve::Shared;

use svc_ffi::{Head, Host, Interpreter, LogSource, Outcome, Pairs, Request, Threads};

use crate::cgi;
use crate::probe::probe;
use crate::response::Response;

/// Makes workers that run PHP.
#[derive(Debug)]
pub(crate) struct PhpEngine {
    threads: Threads,
    shared: Arc<Shared>,
}

impl PhpEngine {
    /// Uses the running PHP behind `threads`.
    pub(crate) fn new(threads: Threads, shared: Arc<Shared>) -> Self {
        Self { threads, shared }
    }
}

impl Engine for PhpEngine {
    fn start(&self, _slot: usize) -> Result<Started, StartError> {
        let stock = Stock::new(Levels::new(&self.shared.config));
        let worker = PhpWorker { interpreter: self.threads.enter(), stock, shared: Arc::clone(&self.shared) };
        Ok(Started::Classic(Box::new(worker)))
    }
}

/// One thread's PHP.
struct PhpWorker {
    interpreter: Interpreter,
    stock: Stock,
    shared: Arc<Shared>,
}

impl Worker for PhpWorker {
    fn probe(&self) -> Option<Arc<dyn Probe>> {
        Some(probe(&self.interpreter))
    }

    fn serve(&mut self, exchange: &Arc<Exchange>) {
        let request = &exchange.request;
        let cookies = cgi::cookies(&request.head);
        let script = &request.script;
        let uri = match &script.path_info[..] {
            [] => Cow::Borrowed(&script.name[..]),
            path_info => Cow::Owned([&script.name[..], path_info].concat()),
        };
        let since_epoch = request.received_at.duration_since(UNIX_EPOCH).unwrap_or_default();
        let description = Request {
            method: request.head.method().as_bytes(),
            uri: &uri,
            query: request.head.path_and_query().1.unwrap_or_default(),
            content_type: request.head.header("content-type"),
            cookies: cookies.as_deref(),
            authorization: request.head.header("authorization").unwrap_or_default(),
            script: &request.script.filename,
            content_length: request.body.len(),
            protocol: match request.head.version() {
                Version::Http10 => 1000,
                Version::Http11 => 1001,
                Version::Http2 => 2000,
            },
            time: since_epoch.as_secs_f64(),
        };
        let response = Response::new(exchange, &mut self.stock, &self.shared.metrics);
        let mut call = Call { exchange, response, body_read: 0, log: &self.shared.log };
        let outcome = self.interpreter.run(&description, &mut call);
        call.response.end(outcome);
    }
}

/// One exchange while PHP runs it.
struct Call<'a> {
    exchange: &'a Exchange,
    response: Response<'a>,
    body_read: u64,
    log: &'a Log,
}

impl Host for Call<'_> {
    fn write(&mut self, output: &[u8]) -> bool {
        self.response.write(output)
    }

    fn flush(&mut self) -> bool {
        self.response.flush()
    }

    fn send_head(&mut self, head: &Head<'_>) {
        self.response.set_head(head);
    }

    fn send_interim(&mut self, head: &Head<'_>) {
        self.response.interim(head);
    }

    fn finish(&mut self) {
        self.response.finish();
    }

    fn time_limit(&mut self) {
        self.response.end(Outcome::TimeLimit);
    }

    fn read_body(&mut self, buffer: &mut [u8]) -> usize {
        match self.exchange.request.body.read_at(buffer, self.body_read) {
            Ok(count) => {
                self.body_read += count as u64;
                count
            }
            Err(error) => {
                self.log.emit(&Event::Failure {
                    what: &format!("a spooled request body cannot be read: {error}"),
                });
                0
            }
        }
    }

    fn variables(&mut self, out: &mut Pairs) {
        cgi::variables(&self.exchange.request, out);
    }

    fn fields(&mut self, out: &mut Pairs) {
        for (name, value) in cgi::joined_fields(&self.exchange.request) {
            out.push(name, &value);
        }
    }

    fn request_id(&mut self) -> &[u8] {
        self.exchange.request.request_id.as_bytes()
    }

    fn log(&mut self, record: &svc_ffi::Log<'_>) {
        write_log(self.log, record, Some(&self.exchange.request.request_id));
    }
}

/// Writes what PHP logs as a record of ours.
pub(crate) fn write_log(log: &Log, record: &svc_ffi::Log<'_>, request_id: Option<&str>) {
    log.emit(&Event::PhpMessage {
        level: level(record.source),
        message: record.message,
        file: (!record.file.is_empty()).then_some(record.file),
        line: (record.line > 0).then_some(record.line),
        request_id,
    });
}

/// PHP's own names for its levels, from the `E_` constants and syslog's priorities.
fn level(source: LogSource) -> PhpLevel {
    const WARNINGS: i32 = 2 | 32 | 128 | 512;
    const NOTICES: i32 = 8 | 1024 | 2048;
    const DEPRECATED: i32 = 8192 | 16384;
    match source {
        LogSource::Error(kind) if kind & WARNINGS != 0 => PhpLevel::Warning,
        LogSource::Error(kind) if kind & NOTICES != 0 => PhpLevel::Notice,
        LogSource::Error(kind) if kind & DEPRECATED != 0 => PhpLevel::Deprecated,
        LogSource::Error(_) => PhpLevel::Error,
        LogSource::Message(0..=3) => PhpLevel::Error,
        LogSource::Message(4) => PhpLevel::Warning,
        LogSource::Message(_) => PhpLevel::Notice,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_are_php_s_own() {
        assert_eq!(level(LogSource::Error(1)), PhpLevel::Error);
        assert_eq!(level(LogSource::Error(256)), PhpLevel::Error);
        assert_eq!(level(LogSource::Error(512)), PhpLevel::Warning);
        assert_eq!(level(LogSource::Error(8)), PhpLevel::Notice);
        assert_eq!(level(LogSource::Error(16384)), PhpLevel::Deprecated);
        assert_eq!(level(LogSource::Message(5)), PhpLevel::Notice);
    }
}
