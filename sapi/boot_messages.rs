//! The reason why a script did not boot, taken from its messages.
//!
//! The reason is the first fatal error, whatever else is logged: shutdown functions and destructors, which run later,
//! may cause further errors. Without a fatal error, the last message is quoted. Nothing is logged here.

use svc_core::pool::BootFault;
use svc_core::trace::without_previous;

use svc_ffi::PhpLog;

use crate::running_request::is_fatal;

/// The messages of a booting script.
#[derive(Debug, Default)]
pub(crate) struct BootMessages {
    fatal: Option<BootFault>,
    last: String,
}

impl BootMessages {
    /// Records a message.
    pub(crate) fn note(&mut self, record: &PhpLog<'_>) {
        let message = without_previous(record.message);
        let message = String::from_utf8_lossy(&message);
        if is_fatal(record.source) && self.fatal.is_none() {
            let file = String::from_utf8_lossy(record.file).into_owned();
            let message = without_trace(&message, &file, record.line).to_owned();
            // PHP reports what is wrong with the script itself, such as a missing file, for line 0 of "Unknown".
            let place = (record.line > 0).then_some((file, record.line));
            self.fatal = Some(BootFault { message, place });
        }
        self.last = message.into_owned();
    }

    /// Returns the reason; `otherwise` describes the failure as the server sees it.
    pub(crate) fn fault(self, otherwise: &str) -> BootFault {
        self.fatal.unwrap_or_else(|| match &*self.last {
            "" => otherwise.to_owned().into(),
            last => format!("{otherwise}; its last message: {last}").into(),
        })
    }
}

/// Removes the place and the trace that PHP appends to the message of an uncaught exception; the record contains the place.
fn without_trace<'a>(message: &'a str, file: &str, line: u32) -> &'a str {
    let message = message.split_once("\nStack trace:\n").map_or(message, |(message, _)| message);
    message.strip_suffix(&format!(" in {file}:{line}")).unwrap_or(message)
}

#[cfg(test)]
mod tests {
    use svc_ffi::LogSource;

    use super::*;

    fn said(words: &mut BootMessages, source: LogSource, message: &str) {
        let (message, file) = (message.as_bytes(), &b"/app/a.php"[..]);
        words.note(&PhpLog { source, message, context: b"", file, line: 3, span: 0 });
    }

    const FATAL: LogSource = LogSource::Error(1);
    const WARNING: LogSource = LogSource::Error(2);

    #[test]
    fn the_exception_is_the_reason_and_not_messages_around_it() {
        let mut words = BootMessages::default();
        said(&mut words, WARNING, "before");
        said(&mut words, FATAL, "Uncaught Error: boom in /app/a.php:3\nStack trace:\n#0 {main}\n  thrown");
        said(&mut words, WARNING, "after");
        said(&mut words, FATAL, "Uncaught Error: in a shutdown function");
        let fault = words.fault("it ended");
        assert_eq!(fault.message, "Uncaught Error: boom");
        assert_eq!(fault.to_string(), "Uncaught Error: boom in /app/a.php on line 3");
    }

    #[test]
    fn an_error_without_a_place_has_none() {
        let mut words = BootMessages::default();
        let (message, file) = (&b"Failed opening required '/app/a.php'"[..], &b"Unknown"[..]);
        words.note(&PhpLog { source: FATAL, message, context: b"", file, line: 0, span: 0 });
        let fault = words.fault("it ended");
        assert_eq!((fault.to_string().as_str(), fault.place), ("Failed opening required '/app/a.php'", None));
    }

    #[test]
    fn an_exception_with_a_previous_one_names_itself() {
        let mut words = BootMessages::default();
        let chain = "Uncaught A: first in /app/lib.php:1\nStack trace:\n#0 {main}\n\nNext B: second in /app/a.php:3\nStack \
                     trace:\n#0 {main}\n  thrown";
        said(&mut words, FATAL, chain);
        assert_eq!(words.fault("it ended").to_string(), "Uncaught B: second in /app/a.php on line 3");
    }

    #[test]
    fn a_script_that_just_ends_is_quoted() {
        assert_eq!(BootMessages::default().fault("it ended").to_string(), "it ended");
        let mut words = BootMessages::default();
        said(&mut words, LogSource::Message(3), "first");
        said(&mut words, WARNING, "last");
        assert_eq!(words.fault("it ended").to_string(), "it ended; its last message: last");
    }
}
