//! The file of variables given by `--env-file`.
//!
//! One line for each variable:
//!
//! ```text
//!   file    = *(line LF)                    ; CR before LF is removed
//!   line    = *WSP [ "#" anything ]         ; nothing
//!           / *WSP [ "export" 1*WSP ] NAME "=" value
//!   NAME    = (letter / "_") *(letter / digit / "_")
//!   value   = "'" *(anything but "'") "'" *WSP
//!           / DQUOTE *(anything but DQUOTE and "\" / "\" (DQUOTE / "\" / "$" / "`" / "n")) DQUOTE *WSP
//!           / anything that begins with neither quote    ; white space around it is removed
//! ```
//!
//! Nothing is expanded, and a `#` after a value is part of it, as in systemd's files. If a variable is repeated, the
//! last line applies. Any other line is an error that names it.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::io;
use std::os::unix::ffi::OsStringExt;
use std::path::Path;

use crate::limits::ENV_FILE_BYTES_MAX;

/// The variables of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EnvFile {
    path: String,
    variables: Vec<(String, OsString, usize)>,
}

/// Why a file cannot be used.
#[derive(Debug)]
pub enum EnvFileError {
    /// A malformed line: the file, the line number, and the fault.
    Line(String, usize, LineFault),
    /// The file cannot be read.
    Unreadable(String, io::Error),
}

/// The fault of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LineFault {
    /// Something follows the closing quote.
    AfterQuote,
    /// This cannot follow a backslash between double quotes.
    Escape,
    /// There is no `=`.
    NoEqualsSign,
    /// It contains a NUL byte.
    Nul,
    /// The text before the `=` is not a name.
    NotAName,
    /// There is no closing quote.
    OpenQuote,
}

impl EnvFile {
    /// Reads a file.
    ///
    /// # Errors
    ///
    /// If it cannot be read, or for its first malformed line.
    pub fn read(path: &Path) -> Result<Self, EnvFileError> {
        let name = path.display().to_string();
        let unreadable = |error| EnvFileError::Unreadable(name.clone(), error);
        let size = std::fs::metadata(path).map_err(unreadable)?.len();
        if size > ENV_FILE_BYTES_MAX {
            let why = format!("it is larger than {ENV_FILE_BYTES_MAX} bytes");
            return Err(unreadable(io::Error::other(why)));
        }
        Self::parse(&name, &std::fs::read(path).map_err(unreadable)?)
    }

    /// Parses the contents of the file `path`.
    ///
    /// # Errors
    ///
    /// For its first malformed line.
    pub fn parse(path: &str, text: &[u8]) -> Result<Self, EnvFileError> {
        let mut variables: Vec<(String, OsString, usize)> = Vec::new();
        for (index, line) in text.split(|byte| *byte == b'\n').enumerate() {
            let line = line.strip_suffix(b"\r").unwrap_or(line);
            let parsed =
                variable(line).map_err(|fault| EnvFileError::Line(path.to_owned(), index + 1, fault));
            if let Some((name, value)) = parsed? {
                variables.retain(|(other, ..)| *other != name);
                variables.push((name, value, index + 1));
            }
        }
        Ok(Self { path: path.to_owned(), variables })
    }

    /// Iterates over the variables with their values and places, as `file:line`.
    pub fn variables(&self) -> impl Iterator<Item = (&str, &OsStr, String)> {
        let place = |line| format!("{}:{line}", self.path);
        self.variables.iter().map(move |(name, value, line)| (name.as_str(), value.as_os_str(), place(line)))
    }
}

fn variable(line: &[u8]) -> Result<Option<(String, OsString)>, LineFault> {
    let line = line.trim_ascii();
    if line.is_empty() || line.starts_with(b"#") {
        return Ok(None);
    }
    if line.contains(&0) {
        return Err(LineFault::Nul);
    }
    let at = line.iter().position(|byte| *byte == b'=').ok_or(LineFault::NoEqualsSign)?;
    let (name, value) = (&line[..at], &line[at + 1..]);
    let name = match name.strip_prefix(b"export") {
        Some(rest) if rest.first().is_some_and(u8::is_ascii_whitespace) => rest.trim_ascii_start(),
        _ => name,
    };
    let is_name = name.first().is_some_and(|first| !first.is_ascii_digit())
        && name.iter().all(|byte| byte.is_ascii_alphanumeric() || *byte == b'_');
    let name = std::str::from_utf8(name).ok().filter(|_| is_name).ok_or(LineFault::NotAName)?;
    let value = match value.trim_ascii_start() {
        [quote @ (b'"' | b'\''), rest @ ..] => quoted(*quote, rest)?,
        plain => plain.to_vec(),
    };
    Ok(Some((name.to_owned(), OsString::from_vec(value))))
}

/// Reads the rest of a value after its opening quote.
fn quoted(quote: u8, rest: &[u8]) -> Result<Vec<u8>, LineFault> {
    let mut value = Vec::new();
    let mut bytes = rest.iter();
    while let Some(&byte) = bytes.next() {
        match byte {
            _ if byte == quote => {
                let is_end = bytes.as_slice().trim_ascii().is_empty();
                return if is_end { Ok(value) } else { Err(LineFault::AfterQuote) };
            }
            b'\\' if quote == b'"' => match bytes.next() {
                Some(b'n') => value.push(b'\n'),
                Some(escaped @ (b'"' | b'\\' | b'$' | b'`')) => value.push(*escaped),
                Some(_) => return Err(LineFault::Escape),
                None => return Err(LineFault::OpenQuote),
            },
            _ => value.push(byte),
        }
    }
    Err(LineFault::OpenQuote)
}

impl std::error::Error for EnvFileError {}

impl fmt::Display for EnvFileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Line(path, line, fault) => write!(f, "{path}:{line}: {fault}; accepted: NAME=value"),
            Self::Unreadable(path, error) => {
                write!(f, "--env-file: {path:?} cannot be read ({error}); accepted: the path of a file")
            }
        }
    }
}

impl fmt::Display for LineFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::AfterQuote => "something follows the closing quote",
            Self::Escape => "a backslash between double quotes precedes neither \", \\, $, ` nor n",
            Self::NoEqualsSign => "there is no =",
            Self::Nul => "it contains a NUL byte",
            Self::NotAName => "what precedes the = is not a name of letters, digits and underscores",
            Self::OpenQuote => "the closing quote is missing",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs(text: &str) -> Vec<(String, String)> {
        let file = EnvFile::parse("f", text.as_bytes()).unwrap();
        file.variables()
            .map(|(name, value, _)| (name.to_owned(), value.to_str().unwrap().to_owned()))
            .collect()
    }

    fn error(text: &[u8]) -> String {
        EnvFile::parse("f", text).unwrap_err().to_string()
    }

    #[test]
    fn values_are_plain_or_quoted() {
        for (line, value) in [
            ("A=b", "b"),
            ("  export \t A= b c # d ", "b c # d"),
            ("A=", ""),
            ("A=''", ""),
            (r#"A="b \"c\" \\ \$d \` \n" "#, "b \"c\" \\ $d ` \n"),
            (r"A='b \n $c'", r"b \n $c"),
            (r"A=b\n$c", r"b\n$c"),
            ("A=b'c\"", "b'c\""),
            ("A=b=c", "b=c"),
            ("A=b\r", "b"),
        ] {
            assert_eq!(pairs(line), [("A".to_owned(), value.to_owned())], "{line}");
        }
        assert_eq!(pairs("exported=1"), [("exported".to_owned(), "1".to_owned())]);
    }

    #[test]
    fn comments_and_empty_lines_are_nothing_and_the_last_line_counts() {
        let file = EnvFile::parse("/etc/f", b"# A=1\n\n  \nA=1\nB=2\nA=3").unwrap();
        let found: Vec<_> = file.variables().collect();
        let line = |name, value, place: &str| (name, OsStr::new(value), place.to_owned());
        assert_eq!(found, [line("B", "2", "/etc/f:5"), line("A", "3", "/etc/f:6")]);
    }

    #[test]
    fn a_malformed_line_is_named() {
        for (text, expected) in [
            (&b"A=1\nB"[..], "f:2: there is no ="),
            (b"\n\n=1", "f:3: what precedes the = is not a name of letters, digits and underscores"),
            (b"1A=1", "f:1: what precedes the ="),
            (b"A =1", "f:1: what precedes the ="),
            (b"A-B=1", "f:1: what precedes the ="),
            (b"A='1", "f:1: the closing quote is missing"),
            (b"A=\"1\\", "f:1: the closing quote is missing"),
            (b"A=\"\\t\"", "f:1: a backslash"),
            (b"A='1' # one", "f:1: something follows the closing quote"),
            (b"A=1\0", "f:1: it contains a NUL byte"),
        ] {
            assert!(error(text).starts_with(expected), "{}", error(text));
        }
    }
}
