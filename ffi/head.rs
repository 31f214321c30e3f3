//! The header of a response as a script has set it.

/// Status and header fields of a response, as stored by PHP.
#[derive(Debug)]
pub struct PhpHead<'a> {
    /// The status code set by the script, unchecked.
    pub status: i32,
    /// The status line set with `header("HTTP/1.1 404 ...")`, or empty.
    pub status_line: &'a [u8],
    /// The lines, each in the form `Name: value`, unchecked.
    pub lines: Vec<&'a [u8]>,
}
