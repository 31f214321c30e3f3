//! A failure that has ended a script, from the text that the error hook of the shim makes of it.
//!
//! The text has the form of `getTraceAsString()`, with the place of the failure in front, and is repeated for each
//! previous exception (c/trace/exception_text.c):
//!
//! ```text
//! /srv/app/src/Cart.php:12
//! #0 /srv/app/public/index.php(3): App\Cart->total()
//! #1 {main}
//!
//! Caused by: PDOException: no such table
//! /srv/app/src/Store.php:7
//! #0 …
//! ```

use std::path::Path;

use crate::trace::without_previous;

/// A failure that has ended a script.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Failure {
    /// The class of the exception, or the name of PHP's constant for the error.
    pub class: String,
    /// The message.
    pub message: String,
    /// The file in which it was raised; empty if unknown.
    pub file: String,
    /// The line in that file.
    pub line: u32,
    /// The calls that led there, innermost first.
    pub frames: Vec<Frame>,
    /// The exception that caused it.
    pub previous: Option<Box<Self>>,
}

/// A call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    /// The file with the call; `None` if PHP itself called the function.
    pub file: Option<String>,
    /// The line in that file.
    pub line: u32,
    /// The function that was called.
    pub call: String,
}

/// A place in the code, and the function that contains it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Location<'a> {
    pub(super) file: Option<&'a str>,
    pub(super) line: u32,
    pub(super) function: &'a str,
}

/// Longer messages are cut.
const MESSAGE_BYTES_MAX: usize = 64 * 1024;

/// Separates exceptions from those that caused them.
const CAUSE: &str = "\n\nCaused by: ";

impl Failure {
    /// Creates the failure from the texts of the error hook.
    pub fn new(class: &[u8], message: &[u8], trace: &[u8]) -> Self {
        let trace = String::from_utf8_lossy(trace);
        let mut sections = trace.split(CAUSE);
        let mut failure = section(sections.next().unwrap_or_default());
        failure.class = String::from_utf8_lossy(class).into_owned();
        let message = &message[..message.len().min(MESSAGE_BYTES_MAX)];
        failure.message = String::from_utf8_lossy(message).into_owned();
        let causes: Vec<Self> = sections.map(cause).collect();
        failure.previous = causes.into_iter().rev().fold(None, |previous, mut cause| {
            cause.previous = previous;
            Some(Box::new(cause))
        });
        failure
    }

    /// Creates the failure from the text of an error alone: PHP appends the place and the trace to that of an uncaught
    /// exception.
    pub fn of_message(message: &[u8], file: &[u8], line: u32) -> Self {
        let message = without_previous(message);
        let message = String::from_utf8_lossy(&message[..message.len().min(MESSAGE_BYTES_MAX)]);
        let (head, trace) = message.split_once("\nStack trace:\n").unwrap_or((&message, ""));
        let frames = trace.lines().filter_map(frame).collect();
        let file = String::from_utf8_lossy(file).into_owned();
        let head = head.strip_suffix(&format!(" in {file}:{line}")).unwrap_or(head);
        let uncaught = head.strip_prefix("Uncaught ");
        let (class, message) = match uncaught.and_then(|text| text.split_once(": ")) {
            Some((class, message)) if is_class(class) => (class, message),
            _ if uncaught.is_some_and(is_class) => (uncaught.unwrap_or_default(), ""),
            _ => ("Fatal error", head),
        };
        Self { class: class.to_owned(), message: message.to_owned(), file, line, frames, previous: None }
    }

    /// Returns the places of the stack, innermost first, each with the function that contains it.
    pub(super) fn locations(&self) -> impl Iterator<Item = Location<'_>> {
        let own = (!self.file.is_empty()).then_some((Some(self.file.as_str()), self.line));
        let callers = self.frames.iter().map(|frame| (frame.file.as_deref(), frame.line));
        let functions =
            self.frames.iter().map(|frame| frame.call.as_str()).chain(std::iter::repeat("{main}"));
        own.into_iter().chain(callers).zip(functions).map(|((file, line), function)| Location {
            file,
            line,
            function,
        })
    }

    /// Returns the failure and its causes, outermost first.
    pub(super) fn chain(&self) -> impl Iterator<Item = &Self> {
        std::iter::successors(Some(self), |failure| failure.previous.as_deref())
    }
}

impl Location<'_> {
    /// Returns whether the place is in code of the application: in its project, and not in a dependency.
    pub(super) fn is_of_application(&self, project: &Path) -> bool {
        self.file.is_some_and(|file| {
            let below = Path::new(file).strip_prefix(project);
            below.is_ok_and(|below| !below.components().any(|part| part.as_os_str() == "vendor"))
        })
    }
}

fn is_class(text: &str) -> bool {
    !text.is_empty()
        && text.chars().all(|c| c.is_alphanumeric() || matches!(c, '_' | '\\' | '@') || c > '\u{7f}')
}

/// Parses the place and the frames of one exception.
fn section(text: &str) -> Failure {
    let (first, rest) = text.split_once('\n').unwrap_or((text, ""));
    let (file, line) = place(first);
    Failure { file, line, frames: rest.lines().filter_map(frame).collect(), ..Failure::default() }
}

/// Parses a previous exception. Its message may contain line feeds, so that the place is the line in front of the
/// frames.
fn cause(text: &str) -> Failure {
    let frames_at = text.find("\n#0 ").unwrap_or(text.len());
    let place_at = text[..frames_at].rfind('\n').map_or(frames_at, |at| at + 1);
    let title = text[..place_at].trim_end_matches('\n');
    let (class, message) = title.split_once(": ").unwrap_or((title, ""));
    let parsed = section(&text[place_at..]);
    Failure { class: class.to_owned(), message: message.to_owned(), ..parsed }
}

/// Parses `FILE:LINE`.
fn place(text: &str) -> (String, u32) {
    match text.rsplit_once(':') {
        Some((file, line)) => (file.to_owned(), line.parse().unwrap_or(0)),
        None => (text.to_owned(), 0),
    }
}

/// Parses `#NUMBER FILE(LINE): CALL`; `None` for the end of the stack and for any other line.
fn frame(text: &str) -> Option<Frame> {
    let (number, rest) = text.strip_prefix('#')?.split_once(' ')?;
    if !number.bytes().all(|byte| byte.is_ascii_digit()) || rest == "{main}" {
        return None;
    }
    if let Some(call) = rest.strip_prefix("[internal function]: ") {
        return Some(Frame { file: None, line: 0, call: call.to_owned() });
    }
    // The call may contain such a place too, that of a closure, and a file rarely does.
    let found = rest.match_indices("): ").find_map(|(end, separator)| {
        let open = rest[..end].rfind('(')?;
        let line = rest[open + 1..end].parse().ok()?;
        Some((&rest[..open], line, &rest[end + separator.len()..]))
    });
    let (file, line, call) = found?;
    Some(Frame { file: Some(file.to_owned()), line, call: call.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    const TRACE: &str = "/srv/app/src/Cart.php:12\n#0 [internal function]: App\\Cart->App\\{closure}()\n\
        #1 /srv/app/vendor/f/w.php(30): array_map()\n#2 /srv/app/public/index.php(3): App\\Cart->total()\n#3 {main}";

    fn frame_at(file: &str, line: u32, call: &str) -> Frame {
        Frame { file: Some(file.to_owned()), line, call: call.to_owned() }
    }

    #[test]
    fn a_trace_is_taken_apart() {
        let failure = Failure::new(b"LogicException", b"no", TRACE.as_bytes());
        assert_eq!((&*failure.class, &*failure.message), ("LogicException", "no"));
        assert_eq!((&*failure.file, failure.line), ("/srv/app/src/Cart.php", 12));
        assert_eq!(failure.frames.len(), 3);
        assert_eq!(failure.frames[0].file, None);
        assert_eq!(failure.frames[1], frame_at("/srv/app/vendor/f/w.php", 30, "array_map()"));
        assert_eq!(failure.previous, None);
    }

    #[test]
    fn each_place_has_the_function_around_it() {
        let failure = Failure::new(b"E", b"", TRACE.as_bytes());
        let locations: Vec<_> = failure.locations().collect();
        assert_eq!(locations.len(), 4);
        assert_eq!(locations[0].function, "App\\Cart->App\\{closure}()");
        assert_eq!((locations[3].line, locations[3].function), (3, "{main}"));
        let project = Path::new("/srv/app");
        let own: Vec<_> = locations.iter().map(|place| place.is_of_application(project)).collect();
        assert_eq!(own, [true, false, false, true]);
    }

    #[test]
    fn causes_have_their_own_places() {
        let trace = "/a.php:1\n#0 {main}\n\nCaused by: B: two\nlines: of it\n/b.php:2\n#0 /c.php(3): f()\n#1 {main}\n\n\
            Caused by: C: \n/d.php:4\n#0 {main}";
        let failure = Failure::new(b"A", b"one", trace.as_bytes());
        let chain: Vec<_> =
            failure.chain().map(|one| (&*one.class, &*one.message, &*one.file, one.line)).collect();
        assert_eq!(
            chain,
            [("A", "one", "/a.php", 1), ("B", "two\nlines: of it", "/b.php", 2), ("C", "", "/d.php", 4)]
        );
        assert_eq!(failure.previous.unwrap().frames, [frame_at("/c.php", 3, "f()")]);
    }

    #[test]
    fn places_in_odd_files_are_found() {
        for (line, expected) in [
            ("#0 /a(1).php(2): f()", frame_at("/a(1).php", 2, "f()")),
            ("#12 /a.php(3): {closure:/b.php:7}()", frame_at("/a.php", 3, "{closure:/b.php:7}()")),
            ("#0 /a.php(3) : eval()'d code(1): f()", frame_at("/a.php(3) : eval()'d code", 1, "f()")),
            ("#0 phar:///a.phar/b.php(9): f()", frame_at("phar:///a.phar/b.php", 9, "f()")),
        ] {
            assert_eq!(frame(line), Some(expected), "{line}");
        }
        for line in
            ["", "#", "#0", "#0 ", "#0 {main}", "#x /a(1): f()", "#0 nonsense", "text", "#0 /a(x): f()"]
        {
            assert_eq!(frame(line), None, "{line}");
        }
    }

    #[test]
    fn the_text_of_an_error_is_enough() {
        let text = "Uncaught App\\Bad: no: really in /a.php:3\nStack trace:\n#0 /b.php(4): f(Object(A))\n#1 {main}\n  thrown";
        let failure = Failure::of_message(text.as_bytes(), b"/a.php", 3);
        assert_eq!((&*failure.class, &*failure.message), ("App\\Bad", "no: really"));
        assert_eq!(failure.frames, [frame_at("/b.php", 4, "f(Object(A))")]);
        let failure = Failure::of_message(b"Allowed memory size of 2 bytes exhausted", b"/a.php", 3);
        assert_eq!((&*failure.class, failure.line), ("Fatal error", 3));
        assert_eq!(Failure::of_message(b"Uncaught Error in /a.php:3", b"/a.php", 3).class, "Error");
        assert_eq!(Failure::of_message(b"Uncaught: b", b"", 0).message, "Uncaught: b");
    }

    #[test]
    fn any_text_is_survived() {
        for text in [
            "",
            "\n",
            "\n\nCaused by: ",
            "\n\nCaused by: \n#0 ",
            ":",
            "a\n\nCaused by: b\n\nCaused by: c\n#0 {main}",
        ] {
            let failure = Failure::new(b"", b"", text.as_bytes());
            assert!(failure.chain().count() <= 3 && failure.locations().count() <= 2, "{text:?}");
        }
    }
}
