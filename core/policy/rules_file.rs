//! A file of rules in the document root, read line by line.
//!
//! It is loaded as a whole or not at all, and every invalid line is reported. The syntax of a rule is up to its parser.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

/// The fixed properties of a file of rules.
#[derive(Clone, Copy, Debug)]
pub(super) struct RulesFile {
    /// Its name in the document root.
    pub(super) name: &'static str,
    /// The maximum size in bytes.
    pub(super) bytes_max: usize,
    /// A description of valid lines.
    pub(super) accepted: &'static str,
}

/// The invalid lines of a text, each with its number, its text and the reason.
pub type InvalidLines = Vec<(usize, String, String)>;

/// Why rules cannot be loaded.
#[derive(Debug)]
pub enum RulesFileError {
    /// Lines are invalid.
    Lines {
        /// The file.
        path: PathBuf,
        /// The lines.
        lines: InvalidLines,
        /// A description of valid lines.
        accepted: &'static str,
    },
    /// The file is larger than the limit.
    TooLong {
        /// The file.
        path: PathBuf,
        /// The limit, in bytes.
        bytes_max: usize,
    },
    /// The file exists but cannot be read.
    Unreadable(PathBuf, io::Error),
}

impl RulesFile {
    /// Reads the file of a document root; `None` if there is none.
    ///
    /// # Errors
    ///
    /// If the file cannot be read, or a line is invalid.
    pub(super) fn read<T>(
        self,
        root: &Path,
        parse: impl FnOnce(&[u8]) -> Result<T, InvalidLines>,
    ) -> Result<Option<T>, RulesFileError> {
        let Self { name, bytes_max, accepted } = self;
        let path = root.join(name);
        let text = match std::fs::read(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(RulesFileError::Unreadable(path, error)),
        };
        if text.len() > bytes_max {
            return Err(RulesFileError::TooLong { path, bytes_max });
        }
        parse(&text).map(Some).map_err(|lines| RulesFileError::Lines { path, lines, accepted })
    }
}

impl fmt::Display for RulesFileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Lines { path, lines, accepted } => {
                for (n, (number, text, reason)) in lines.iter().enumerate() {
                    let feed = if n > 0 { "\n" } else { "" };
                    let path = path.display();
                    write!(
                        f,
                        "{feed}{path}:{number}: {text:?} is not a valid rule ({reason}); accepted: {accepted}"
                    )?;
                }
                Ok(())
            }
            Self::TooLong { path, bytes_max } => {
                write!(f, "{}: is too large; accepted: up to {bytes_max} bytes", path.display())
            }
            Self::Unreadable(path, error) => {
                let path = path.display();
                write!(f, "{path}: cannot be read ({error}); accepted: a readable file, or no file")
            }
        }
    }
}

impl std::error::Error for RulesFileError {}
