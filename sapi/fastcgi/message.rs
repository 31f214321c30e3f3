//! PHP's messages on a FastCGI connection or on standard error, as log records.
//!
//! PHP separates messages by line breaks, and the trace of an uncaught exception has several lines. A message is logged
//! when it is complete; its length is bounded.

use memchr::{memchr, memmem};

use svc_core::http::Trace;
use svc_core::limits::LOG_TEXT_BYTES_MAX;
use svc_core::observe::{Event, Log, PhpLevel, PhpMessage};
use svc_core::pool::CompleteRequest;

/// Collects messages.
#[derive(Debug, Default)]
pub(super) struct Messages {
    pending: Vec<u8>,
    /// The first error that was logged.
    error: Option<LoggedError>,
}

/// An error that has ended a script.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct LoggedError {
    /// Its text, with the trace of an uncaught exception.
    pub(super) text: Vec<u8>,
    /// The file and the line, if PHP reports them.
    pub(super) place: Option<(Vec<u8>, u32)>,
}

impl Messages {
    /// Takes bytes, and logs the messages that are complete.
    pub(super) fn take(&mut self, bytes: &[u8], log: &Log, request: Option<&CompleteRequest>) {
        let mut error = self.error.take();
        self.split(bytes, &mut |message| {
            let logged = emit(message, log, request);
            error = error.take().or(logged);
        });
        self.error = error;
    }

    /// Logs the incomplete message: the source has paused or ended.
    pub(super) fn finish(&mut self, log: &Log, request: Option<&CompleteRequest>) {
        if !self.pending.is_empty() {
            let logged = emit(&self.pending, log, request);
            self.error = self.error.take().or(logged);
            self.pending.clear();
        }
    }

    /// Returns the first error that was logged since the last call. Errors end the script.
    pub(super) fn take_error(&mut self) -> Option<LoggedError> {
        self.error.take()
    }

    fn split(&mut self, mut bytes: &[u8], on: &mut dyn FnMut(&[u8])) {
        while let Some(end) = memchr(b'\n', bytes) {
            self.messages_of(&bytes[..end], on);
            bytes = &bytes[end + 1..];
        }
        if !bytes.is_empty() {
            self.messages_of(bytes, on);
        }
    }

    /// Takes a line, which php-fpm may have put together from several.
    fn messages_of(&mut self, mut line: &[u8], on: &mut dyn FnMut(&[u8])) {
        while let Some(end) = memmem::find(line, FPM_SEPARATOR) {
            self.line(&line[..end], on);
            line = &line[end + 2..];
        }
        self.line(line, on);
    }

    /// Takes a line, which continues the message before it if that is an uncaught exception.
    fn line(&mut self, line: &[u8], on: &mut dyn FnMut(&[u8])) {
        let continues = is_open(&self.pending) && !line.starts_with(b"PHP ");
        if continues && self.pending.len() + line.len() < LOG_TEXT_BYTES_MAX {
            self.pending.push(b'\n');
            self.pending.extend_from_slice(line);
            return;
        }
        if !self.pending.is_empty() {
            on(&self.pending);
        }
        self.pending.clear();
        self.pending.extend_from_slice(&line[..line.len().min(LOG_TEXT_BYTES_MAX)]);
    }
}

/// Separates messages that php-fpm sends together.
const FPM_SEPARATOR: &[u8] = b"; PHP message: ";

/// Returns whether more lines may belong to a message.
fn is_open(message: &[u8]) -> bool {
    memmem::find(message, b"  Uncaught ").is_some() && memmem::find(message, b"\n  thrown in ").is_none()
}

/// Logs a message, unless it is empty. Returns it if it is that of an error.
fn emit(message: &[u8], log: &Log, request: Option<&CompleteRequest>) -> Option<LoggedError> {
    let message = message.trim_ascii_end();
    if message.is_empty() {
        return None;
    }
    let parsed = parse(message);
    log.emit(&Event::PhpMessage(PhpMessage {
        level: parsed.level,
        message: parsed.text,
        context: None,
        file: parsed.place.map(|(file, _)| file),
        line: parsed.place.map(|(_, line)| line),
        request_id: request.map(|request| &*request.request_id),
        traceparent: request.and_then(|request| request.trace.as_ref()).map(Trace::traceparent).copied(),
    }));
    let place = parsed.place.map(|(file, line)| (file.to_vec(), line));
    (parsed.level == PhpLevel::Error).then(|| LoggedError { text: parsed.text.to_vec(), place })
}

/// The parts of a message.
#[derive(Debug, PartialEq, Eq)]
struct Parsed<'a> {
    level: PhpLevel,
    text: &'a [u8],
    place: Option<(&'a [u8], u32)>,
}

/// The prefixes of PHP's errors (php_error_cb in php-src main/main.c).
const PREFIXES: [(&[u8], PhpLevel); 12] = [
    (b"Fatal error", PhpLevel::Error),
    (b"Recoverable fatal error", PhpLevel::Error),
    (b"Parse error", PhpLevel::Error),
    (b"Core error", PhpLevel::Error),
    (b"Compile error", PhpLevel::Error),
    (b"Warning", PhpLevel::Warning),
    (b"Core warning", PhpLevel::Warning),
    (b"Compile warning", PhpLevel::Warning),
    (b"Notice", PhpLevel::Notice),
    (b"Strict Standards", PhpLevel::Notice),
    (b"Deprecated", PhpLevel::Deprecated),
    (b"Unknown error", PhpLevel::Error),
];

fn parse(message: &[u8]) -> Parsed<'_> {
    // php-fpm prefixes PHP's log messages with this.
    let message = message.strip_prefix(b"PHP message: ").unwrap_or(message);
    let of_error = message.strip_prefix(b"PHP ").and_then(|rest| {
        PREFIXES
            .iter()
            .find_map(|(prefix, level)| Some((rest.strip_prefix(*prefix)?.strip_prefix(b":  ")?, *level)))
    });
    let Some((text, level)) = of_error else {
        return Parsed { level: PhpLevel::Notice, text: message, place: None };
    };
    match place(text) {
        Some((text, file, line)) => Parsed { level, text, place: Some((file, line)) },
        None => Parsed { level, text, place: None },
    }
}

/// Splits `TEXT in FILE on line NUMBER`.
fn place(text: &[u8]) -> Option<(&[u8], &[u8], u32)> {
    let line_at = memmem::rfind(text, b" on line ")?;
    let line = std::str::from_utf8(&text[line_at + 9..]).ok()?.parse().ok()?;
    let file_at = memmem::rfind(&text[..line_at], b" in ")?;
    Some((&text[..file_at], &text[file_at + 4..line_at], line))
}

#[cfg(test)]
mod tests {
    use svc_core::config::{AccessLog, Level};

    use super::*;

    fn split(parts: &[&str]) -> Vec<String> {
        let (mut messages, mut found) = (Messages::default(), Vec::new());
        for part in parts {
            messages.split(part.as_bytes(), &mut |message| {
                found.push(String::from_utf8_lossy(message).into_owned());
            });
        }
        found.push(String::from_utf8_lossy(&messages.pending).into_owned());
        found
    }

    #[test]
    fn a_line_is_a_message() {
        assert_eq!(split(&["one\ntwo\n"]), ["one", "two"]);
        assert_eq!(split(&["PHP Warning:  a in b on line 1\nPHP Notice:  c in d on line 2\n"]).len(), 2);
    }

    #[test]
    fn messages_of_php_fpm_are_taken_apart() {
        let line = "PHP message: one; PHP message: PHP Warning:  a in b on line 1; PHP message: two\n";
        let expected =
            ["PHP message: one", "PHP message: PHP Warning:  a in b on line 1", "PHP message: two"];
        assert_eq!(split(&[line]), expected);
    }

    #[test]
    fn an_uncaught_exception_is_one_message() {
        let trace = "PHP Fatal error:  Uncaught Exception: a in /b:1\nStack trace:\n#0 {main}\n  thrown in /b on line 1";
        assert_eq!(split(&[&format!("{trace}\nnext\n")]), [trace, "next"]);
        assert_eq!(split(&[&format!("{trace}\n"), "PHP Warning:  a in b on line 1\n"])[0], trace);
    }

    #[test]
    fn the_level_and_the_place_of_an_error_are_taken_out() {
        for prefix in ["", "PHP message: "] {
            let text = format!("{prefix}PHP Warning:  Undefined variable $a in b in /srv/a on line 12");
            let expected = Parsed {
                level: PhpLevel::Warning,
                text: b"Undefined variable $a in b",
                place: Some((b"/srv/a", 12)),
            };
            assert_eq!(parse(text.as_bytes()), expected);
        }
        assert_eq!(parse(b"PHP Deprecated:  x in y on line 1").level, PhpLevel::Deprecated);
        assert_eq!(parse(b"PHP Parse error:  x in y on line 1").level, PhpLevel::Error);
    }

    #[test]
    fn other_texts_are_notices_as_they_are() {
        for text in ["said by error_log()", "PHP is great", "PHP Startup:  x in y on line 1"] {
            assert_eq!(
                parse(text.as_bytes()),
                Parsed { level: PhpLevel::Notice, text: text.as_bytes(), place: None }
            );
        }
        assert_eq!(parse(b"PHP Warning:  x").place, None);
    }

    #[test]
    fn an_error_is_noted_once() {
        let log = Log::start(Level::Error, AccessLog::Off, std::io::sink()).unwrap();
        let mut messages = Messages::default();
        for (text, expected) in [
            ("PHP Fatal error:  x in y on line 1\n", true),
            ("PHP message: PHP Parse error:  x in y on line 1", true),
            ("PHP Warning:  x in y on line 1", false),
            ("Fatal error", false),
        ] {
            messages.take(text.as_bytes(), &log, None);
            messages.finish(&log, None);
            assert_eq!(messages.take_error().is_some(), expected, "{text}");
            assert_eq!(messages.take_error(), None, "{text}");
        }
    }

    #[test]
    fn a_message_without_end_is_bounded() {
        let mut messages = Messages::default();
        let mut logged = 0;
        messages.split(b"PHP Fatal error:  Uncaught x", &mut |_| logged += 1);
        for _ in 0..100 {
            messages.split(&[b'x'; 1000], &mut |_| logged += 1);
            assert!(messages.pending.len() <= LOG_TEXT_BYTES_MAX);
        }
        assert!(logged > 0);
    }
}
