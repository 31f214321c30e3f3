//! The log: finished records, and the thread that writes them.
//!
//! Emitting never waits for a pipe, a disk or a lock; records that do not fit are dropped, counted, and reported once
//! there is room again; records of one thread keep their order. Its thread passes the records on to the exporter, too.
//! Access records obey their own setting and no level. It does not reopen or rotate; standard output belongs to the process
//! that started the server.

use std::fs::File;
use std::io::{self, IsTerminal, PipeWriter, Write};
use std::os::fd::AsFd;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::retry_on_intr;

use super::access::Access;
use super::batch_writer::{BatchSink, BatchWriter};
use super::episode::{EpisodeBook, EpisodeEntry, EpisodeUpdate};
use super::event::Event;
use super::log_tap::{LogLine, LogTap};
use super::terminal_lines::{TerminalLines, TerminalOptions};
use super::text_line::text_line;
use crate::config::{AccessLog, Config, Level, LogFormat};
use crate::limits::{LOG_FLUSH_TIMEOUT, LOG_QUEUE_RECORDS};
use crate::sync::lock::ShortLock;
use crate::sync::primitive::Arc;
use crate::time;

/// A handle to the log; cloning it is cheap.
#[derive(Clone, Debug)]
pub struct Log {
    level: Level,
    access: AccessLog,
    writer: Arc<BatchWriter<LogItem>>,
    /// The queue of records that are exported, if they are.
    tap: Option<Arc<LogTap>>,
    /// Held only to record one episode, or to copy all.
    episodes: Arc<ShortLock<EpisodeBook>>,
}

impl Log {
    /// Starts the thread that writes records to standard output, and passes them to `tap`.
    ///
    /// # Errors
    ///
    /// If the system cannot create a descriptor or a thread.
    pub fn to_stdout(config: &Config, tap: Option<Arc<LogTap>>) -> io::Result<Self> {
        // A separate descriptor, because the standard library's handle has a buffer and a lock.
        let stdout = BlockingFile(File::from(io::stdout().as_fd().try_clone_to_owned()?));
        let logs = &config.logs;
        let form = match (logs.format, &config.development) {
            (LogFormat::Auto, Some(development)) => {
                LineForm::Terminal(Box::new(TerminalLines::new(TerminalOptions {
                    has_colours: development.permits_colours && stdout.0.is_terminal(),
                    utc_offset_seconds: development.utc_offset_seconds,
                    document_root: config.serving.document_root.to_string_lossy().into_owned(),
                    scheme: if config.tls.certificates.is_empty() { "http" } else { "https" },
                })))
            }
            (LogFormat::Auto, None) if stdout.0.is_terminal() => LineForm::Text,
            (LogFormat::Auto | LogFormat::Json, _) => LineForm::Json,
            (LogFormat::Text, _) => LineForm::Text,
        };
        Self::start_in(form, logs.level, logs.access, stdout, tap)
    }

    /// Starts the thread that writes records to `sink`, as JSON.
    ///
    /// # Errors
    ///
    /// If the system cannot create a descriptor or a thread.
    pub fn start(level: Level, access: AccessLog, sink: impl Write + Send + 'static) -> io::Result<Self> {
        Self::start_in(LineForm::Json, level, access, sink, None)
    }

    fn start_in(
        form: LineForm,
        level: Level,
        access: AccessLog,
        sink: impl Write + Send + 'static,
        tap: Option<Arc<LogTap>>,
    ) -> io::Result<Self> {
        let lines = LineSink { sink, batch: Vec::new(), level, form, tap: tap.clone() };
        let writer = Arc::new(BatchWriter::start("svc-log", LOG_QUEUE_RECORDS, lines)?);
        Ok(Self { level, access, writer, tap, episodes: Arc::default() })
    }

    /// Logs `event`, if its level (or, for an access record, its status) is enabled. An event that is part of an
    /// episode is recorded in the book of episodes at any level.
    pub fn emit(&self, event: &Event<'_>) {
        if let Some(update) = EpisodeUpdate::of(event) {
            self.note(update);
        }
        if self.wants(event) {
            self.writer.offer(LogItem::Line(line_of(event)));
        }
    }

    /// Returns the queue of records that are exported.
    pub fn tap(&self) -> Option<&Arc<LogTap>> {
        self.tap.as_ref()
    }

    /// Waits, for a limited time, until the records that this thread has emitted are in the queue of the exporter.
    pub fn hand_over(&self) -> io::Result<()> {
        let (passed, passing) = io::pipe()?;
        // If the queue has no room, the other end of the pipe is closed at once.
        self.writer.offer(LogItem::Mark(passing));
        let mut waits = [PollFd::new(&passed, PollFlags::IN)];
        poll(&mut waits, Timespec::try_from(LOG_FLUSH_TIMEOUT).ok().as_ref())?;
        Ok(())
    }

    /// Records an update without a log record.
    pub fn note(&self, update: EpisodeUpdate) {
        let at = time::wall();
        self.episodes.lock().note(update, at);
    }

    /// Returns the recent episodes, latest first.
    pub fn episodes(&self) -> Vec<EpisodeEntry> {
        self.episodes.lock().episodes()
    }

    /// Returns whether an access record with this status would be written, so that callers can skip gathering its
    /// fields.
    #[inline]
    pub fn wants_access(&self, status: u16) -> bool {
        match self.access {
            AccessLog::All => true,
            AccessLog::Error => status >= 400,
            AccessLog::Off => false,
        }
    }

    /// Returns the number of records that were dropped because the queue was full or that could not be written.
    pub fn dropped_total(&self) -> u64 {
        self.writer.dropped_total()
    }

    /// Writes the queued records and ends the thread; returns whether that finished in time. Later records are
    /// dropped.
    pub fn shutdown(&self) -> bool {
        self.shutdown_within(LOG_FLUSH_TIMEOUT)
    }

    fn shutdown_within(&self, timeout: Duration) -> bool {
        self.writer.shutdown(timeout)
    }

    fn wants(&self, event: &Event<'_>) -> bool {
        match event {
            Event::Access(Access { status, .. }) => self.wants_access(*status),
            other => other.level() <= self.level,
        }
    }
}

/// A file whose writes block until there is room. `O_NONBLOCK` belongs to the open file description: any process that
/// shares it can set the flag, and so can a script, with `stream_set_blocking()` on `php://stdout`.
struct BlockingFile(File);

impl Write for BlockingFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        loop {
            match self.0.write(bytes) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    retry_on_intr(|| poll(&mut [PollFd::new(&self.0, PollFlags::OUT)], None))?;
                }
                written => return written,
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

/// An item in the queue of the log.
#[derive(Debug)]
enum LogItem {
    /// A record.
    Line(LogLine),
    /// Closes its pipe when all records before it have been passed on.
    #[expect(dead_code, reason = "dropping it closes the pipe")]
    Mark(PipeWriter),
}

/// Renders an event, which happens now.
fn line_of(event: &Event<'_>) -> LogLine {
    let at = time::wall();
    LogLine {
        line: event.render(at),
        at,
        trace_flags: event.trace_flags(),
        is_exported: !event.is_about_export(),
    }
}

/// Records on their way to the sink.
struct LineSink<W> {
    sink: W,
    batch: Vec<u8>,
    level: Level,
    form: LineForm,
    tap: Option<Arc<LogTap>>,
}

/// The form of the lines.
#[derive(Debug)]
enum LineForm {
    /// A JSON object for each record.
    Json,
    /// A line for each record, with all its fields.
    Text,
    /// A line for each request, with the messages of its script.
    Terminal(Box<TerminalLines>),
}

/// A batch is written when it is this long, or when the queue is empty.
const BATCH_BYTES: usize = 64 * 1024;

impl<W: Write> BatchSink<LogItem> for LineSink<W> {
    fn add(&mut self, item: LogItem) -> bool {
        if let LogItem::Line(record) = item {
            self.put(record);
        }
        self.batch.len() < BATCH_BYTES
    }

    fn write(&mut self) -> io::Result<()> {
        let written = self.sink.write_all(&self.batch).and_then(|()| self.sink.flush());
        self.batch.clear();
        written
    }

    fn report_dropped(&mut self, count: u64) {
        let event = Event::RecordsDropped { count };
        if event.level() <= self.level {
            self.put(line_of(&event));
            // If the record about lost records is lost too, nothing changes.
            let _ = self.write();
        }
    }

    fn close(&mut self) {
        if let LineForm::Terminal(terminal) = &mut self.form {
            self.batch.extend_from_slice(terminal.rest().as_bytes());
            // As above.
            let _ = self.write();
        }
    }
}

impl<W> LineSink<W> {
    fn put(&mut self, record: LogLine) {
        match &mut self.form {
            LineForm::Json => self.batch.extend_from_slice(&record.line),
            LineForm::Text => self.batch.extend_from_slice(&text_line(&record.line)),
            LineForm::Terminal(terminal) => {
                self.batch.extend_from_slice(terminal.lines(&record.line).as_bytes());
            }
        }
        if let Some(tap) = &self.tap {
            tap.offer(record);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader, PipeReader, Read};
    use std::os::fd::OwnedFd;
    use std::sync::mpsc::{Receiver, Sender, channel};
    use std::thread;

    use super::*;

    fn lines(reader: PipeReader) -> impl Iterator<Item = serde_json::Value> {
        BufReader::new(reader).lines().map(|line| serde_json::from_str(&line.unwrap()).unwrap())
    }

    fn access(status: u16) -> Event<'static> {
        Event::Access(Access {
            method: "GET",
            path: b"/a",
            status,
            bytes: 5,
            duration: Duration::from_micros(1500),
            queue_wait: None,
            client: std::net::Ipv4Addr::LOCALHOST.into(),
            user_agent: Some(b"curl\n"),
            referer: None,
            protocol: "HTTP/1.1",
            request_id: "id",
            trace: None,
            shed_reason: Some("queue_full"),
            denied_by: None,
            cache: None,
        })
    }

    #[test]
    fn records_are_written_in_order_and_flushed_at_the_end() {
        let (reader, writer) = io::pipe().unwrap();
        let log = Log::start(Level::Info, AccessLog::Off, writer).unwrap();
        for workers in 0..1000 {
            log.emit(&Event::Ready { workers });
        }
        let reading =
            thread::spawn(|| lines(reader).map(|line| line["fields"]["workers"].as_u64().unwrap()).collect());
        assert!(log.shutdown());
        let seen: Vec<u64> = reading.join().unwrap();
        assert_eq!(seen, (0..1000).collect::<Vec<_>>());
        assert_eq!(log.dropped_total(), 0);
    }

    #[test]
    fn a_pipe_in_non_blocking_mode_loses_nothing() {
        let (reader, writer) = io::pipe().unwrap();
        let writer = File::from(OwnedFd::from(writer));
        rustix::io::ioctl_fionbio(&writer, true).unwrap();
        let log = Log::start(Level::Info, AccessLog::Off, BlockingFile(writer)).unwrap();
        // More than the pipe holds.
        for workers in 0..1000 {
            log.emit(&Event::Ready { workers });
        }
        let reading = thread::spawn(|| lines(reader).count());
        assert!(log.shutdown());
        drop(log);
        assert_eq!(reading.join().unwrap(), 1000);
    }

    #[test]
    fn records_below_the_level_are_not_written() {
        let (reader, writer) = io::pipe().unwrap();
        let log = Log::start(Level::Warn, AccessLog::Off, writer).unwrap();
        log.emit(&Event::Stopped);
        log.emit(&Event::DrainTimeout { cut_off: 2 });
        log.emit(&access(500));
        assert!(log.shutdown());
        let seen: Vec<_> = lines(reader).collect();
        assert_eq!(seen.len(), 1);
        assert_eq!(seen[0]["level"], "WARN");
        assert_eq!(seen[0]["fields"]["cut_off"], 2);
    }

    #[test]
    fn access_records_obey_their_own_setting_whatever_the_level() {
        for (setting, expected) in
            [(AccessLog::All, vec![200, 404]), (AccessLog::Error, vec![404]), (AccessLog::Off, vec![])]
        {
            for level in [Level::Error, Level::Debug] {
                let (reader, writer) = io::pipe().unwrap();
                let log = Log::start(level, setting, writer).unwrap();
                log.emit(&access(200));
                log.emit(&access(404));
                assert!(log.shutdown());
                let seen: Vec<_> = lines(reader).collect();
                assert!(seen.iter().all(|line| line["target"] == "access"));
                let statuses: Vec<_> =
                    seen.iter().map(|line| line["fields"]["status"].as_u64().unwrap()).collect();
                assert_eq!(statuses, expected, "{setting:?} at {level:?}");
            }
        }
    }

    #[test]
    fn an_access_record_has_all_its_fields() {
        let line: serde_json::Value = serde_json::from_slice(&access(200).render(time::wall())).unwrap();
        assert_eq!(
            line["fields"],
            serde_json::json!({
                "message": "request", "method": "GET", "path": "/a", "status": 200, "bytes": 5, "duration_us": 1500,
                "queue_wait_us": null, "client": "127.0.0.1", "user_agent": "curl\n", "referer": null,
                "protocol": "HTTP/1.1", "request_id": "id", "trace_id": null, "span_id": null, "shed_reason": "queue_full", "denied_by": null,
            })
        );
    }

    /// A sink that blocks until the test releases it.
    struct Gated {
        entered: Sender<()>,
        open: Receiver<()>,
        out: PipeWriter,
    }

    impl Write for Gated {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.entered.send(()).ok();
            self.open.recv().ok();
            self.out.write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_blocked_sink_drops_and_counts_without_delay() {
        let (mut reader, out) = io::pipe().unwrap();
        let (entered, has_entered) = channel();
        let (opener, open) = channel();
        let log = Log::start(Level::Info, AccessLog::Off, Gated { entered, open, out }).unwrap();
        log.emit(&Event::Stopped);
        has_entered.recv().unwrap();
        // The thread is inside its write; the queue fills up, and the rest is dropped.
        for _ in 0..LOG_QUEUE_RECORDS + 7 {
            log.emit(&Event::Stopped);
        }
        assert_eq!(log.dropped_total(), 7);
        assert!(!log.shutdown_within(Duration::ZERO), "the sink is still blocked");
        drop(opener);
        let reading = thread::spawn(move || {
            let mut text = String::new();
            reader.read_to_string(&mut text).unwrap();
            text
        });
        // The writer finishes now that its sink accepts bytes again.
        let text = reading.join().unwrap();
        assert_eq!(text.lines().count(), 1 + LOG_QUEUE_RECORDS + 1);
        assert!(text.contains(r#""count":7"#));
        drop(has_entered);
    }

    #[test]
    fn a_sink_that_is_gone_is_counted_and_does_not_spin() {
        let (reader, writer) = io::pipe().unwrap();
        drop(reader);
        let log = Log::start(Level::Info, AccessLog::Off, writer).unwrap();
        for _ in 0..3 {
            log.emit(&Event::Stopped);
        }
        assert!(log.shutdown());
        assert_eq!(log.dropped_total(), 3);
    }
}
