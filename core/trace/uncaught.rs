//! The texts that PHP logs for uncaught exceptions.

use std::borrow::Cow;

use memchr::memmem;

const PREFIX: &[u8] = b"Uncaught ";

/// The text between two exceptions: the last frame of one, and the announcement of the next.
const BETWEEN: &[u8] = b"{main}\n\nNext ";

/// Removes the previous exceptions from the text of an uncaught one. PHP writes the innermost exception first and the
/// thrown one, to which the file and line of the record belong, last. Returns other texts unchanged.
pub fn without_previous(text: &[u8]) -> Cow<'_, [u8]> {
    match text.starts_with(PREFIX).then(|| memmem::rfind(text, BETWEEN)).flatten() {
        Some(at) => Cow::Owned([PREFIX, &text[at + BETWEEN.len()..]].concat()),
        None => Cow::Borrowed(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_thrown_exception_remains() {
        let chain = "Uncaught A: first in /a:1\nStack trace:\n#0 {main}\n\nNext B: \n\nNext C: no in /b:2\nStack trace:\n\
                     #0 /c(3): f()\n#1 {main}\n\nNext D: thrown in /d:4\nStack trace:\n#0 {main}\n  thrown";
        let thrown = "Uncaught D: thrown in /d:4\nStack trace:\n#0 {main}\n  thrown";
        assert_eq!(without_previous(chain.as_bytes()), thrown.as_bytes());
        assert_eq!(without_previous(thrown.as_bytes()), thrown.as_bytes());
        let (two, _) = chain.split_once("\n\nNext D").unwrap();
        let second = "Uncaught B: \n\nNext C: no in /b:2\nStack trace:\n#0 /c(3): f()\n#1 {main}";
        assert_eq!(without_previous(two.as_bytes()), second.as_bytes());
        for other in ["", "{main}\n\nNext ", "Uncaught ", "a warning with {main}\n\nNext in it"] {
            assert_eq!(without_previous(other.as_bytes()), other.as_bytes());
        }
    }
}
