//! Custom pages that replace the body of the server's own errors.
//!
//! The directory contains pages by status code: `404.html`, and `4xx.html` and `5xx.html` for the other codes of a
//! class. Other files in it are ignored.
//!
//! Pages are read completely and kept in memory, so that no error needs the disk; memory is bounded. A directory or a
//! page that cannot be read is an error. A page replaces only the body; applying it is up to the caller.

use std::collections::HashMap;
use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use bytes::Bytes;

use crate::limits::{ERROR_PAGE_BYTES_MAX, ERROR_PAGES_BYTES_MAX};

/// The loaded pages.
#[derive(Debug, Default)]
pub struct ErrorPages {
    by_status: HashMap<u16, Bytes>,
    /// For 4xx and 5xx.
    by_class: [Option<Bytes>; 2],
}

/// Why the pages cannot be loaded.
#[derive(Debug)]
pub enum ErrorPagesError {
    /// A page exceeds the size limit of a page.
    PageTooLong(PathBuf),
    /// All pages together exceed the total size limit.
    TooMuch(PathBuf),
    /// The directory or a page cannot be read.
    Unreadable(PathBuf, io::Error),
}

/// The media type of every page.
pub const ERROR_PAGE_TYPE: &[u8] = b"text/html; charset=utf-8";

/// The purpose of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Purpose {
    Class(usize),
    Status(u16),
}

impl ErrorPages {
    /// Reads the pages of a directory.
    ///
    /// # Errors
    ///
    /// If the directory or a page cannot be read or is too large.
    pub fn read(directory: &Path) -> Result<Self, ErrorPagesError> {
        let unreadable = |error| ErrorPagesError::Unreadable(directory.to_owned(), error);
        let (mut pages, mut total) = (Self::default(), 0);
        for entry in std::fs::read_dir(directory).map_err(unreadable)? {
            let entry = entry.map_err(unreadable)?;
            let Some(purpose) = entry.file_name().to_str().and_then(purpose) else { continue };
            let page = read_page(&entry.path())?;
            total += page.len();
            if total > ERROR_PAGES_BYTES_MAX {
                return Err(ErrorPagesError::TooMuch(directory.to_owned()));
            }
            match purpose {
                Purpose::Class(class) => pages.by_class[class] = Some(page),
                Purpose::Status(status) => {
                    pages.by_status.insert(status, page);
                }
            }
        }
        Ok(pages)
    }

    /// Returns the page for a status code, if there is one.
    pub fn page(&self, status: u16) -> Option<&Bytes> {
        let class = usize::from(status / 100).checked_sub(4)?;
        self.by_status.get(&status).or(self.by_class.get(class)?.as_ref())
    }
}

/// Returns the purpose of a file with this name.
fn purpose(name: &str) -> Option<Purpose> {
    match name.strip_suffix(".html")? {
        "4xx" => Some(Purpose::Class(0)),
        "5xx" => Some(Purpose::Class(1)),
        status if status.len() == 3 => {
            status.parse().ok().filter(|status| (400..600).contains(status)).map(Purpose::Status)
        }
        _ => None,
    }
}

/// Reads a page, up to the size limit.
fn read_page(path: &Path) -> Result<Bytes, ErrorPagesError> {
    let unreadable = |error| ErrorPagesError::Unreadable(path.to_owned(), error);
    // Opening a pipe would block, and reading it would never end.
    if !std::fs::metadata(path).map_err(unreadable)?.is_file() {
        return Err(unreadable(io::Error::other("it is no regular file")));
    }
    let mut page = Vec::new();
    let mut file = File::open(path).map_err(unreadable)?.take(ERROR_PAGE_BYTES_MAX as u64 + 1);
    file.read_to_end(&mut page).map_err(unreadable)?;
    if page.len() > ERROR_PAGE_BYTES_MAX {
        return Err(ErrorPagesError::PageTooLong(path.to_owned()));
    }
    Ok(page.into())
}

impl fmt::Display for ErrorPagesError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ERROR_PAGES_DIR: ")?;
        match self {
            Self::PageTooLong(page) => {
                write!(f, "{page:?} is too large; accepted: pages of up to {ERROR_PAGE_BYTES_MAX} bytes")
            }
            Self::TooMuch(directory) => {
                write!(
                    f,
                    "{directory:?} contains too much data; accepted: up to {ERROR_PAGES_BYTES_MAX} bytes in total"
                )
            }
            Self::Unreadable(path, error) => {
                write!(
                    f,
                    "{path:?} cannot be read ({error}); accepted: a directory with pages such as 404.html"
                )
            }
        }
    }
}

impl std::error::Error for ErrorPagesError {}

#[cfg(test)]
mod tests {
    use super::*;

    fn directory(files: &[(&str, &[u8])]) -> tempfile::TempDir {
        let directory = tempfile::tempdir().unwrap();
        for (name, text) in files {
            std::fs::write(directory.path().join(name), text).unwrap();
        }
        directory
    }

    #[test]
    fn a_status_has_its_own_page_or_that_of_its_class() {
        let directory = directory(&[
            ("404.html", b"lost"),
            ("529.html", b"busy"),
            ("5xx.html", b"broken"),
            ("200.html", b"no"),
            ("600.html", b"no"),
            ("+40.html", b"no"),
            ("404.html.bak", b"no"),
            ("style.css", b"no"),
        ]);
        let pages = ErrorPages::read(directory.path()).unwrap();
        let page = |status| pages.page(status).map(|page| String::from_utf8(page.to_vec()).unwrap());
        assert_eq!(page(404).as_deref(), Some("lost"));
        assert_eq!((page(529).as_deref(), page(503).as_deref()), (Some("busy"), Some("broken")));
        for status in [0, 100, 200, 301, 304, 403, 600, 999] {
            assert_eq!(page(status), None, "{status}");
        }
    }

    #[test]
    fn unreadable_files_are_reported() {
        let directory = directory(&[("500.html", &vec![b'x'; ERROR_PAGE_BYTES_MAX + 1])]);
        let error = ErrorPages::read(directory.path()).expect_err("too long").to_string();
        assert!(
            error.starts_with("ERROR_PAGES_DIR: ") && error.contains("500.html\" is too large"),
            "{error}"
        );
        let error = ErrorPages::read(&directory.path().join("none")).expect_err("not there").to_string();
        assert!(error.contains("/none\" cannot be read (No such file"), "{error}");
        std::fs::remove_file(directory.path().join("500.html")).unwrap();
        std::fs::create_dir(directory.path().join("500.html")).unwrap();
        assert!(matches!(ErrorPages::read(directory.path()), Err(ErrorPagesError::Unreadable(..))));
    }

    #[test]
    fn all_pages_together_are_bounded() {
        let page = vec![b'x'; ERROR_PAGE_BYTES_MAX];
        let names: Vec<_> = (400..400 + ERROR_PAGES_BYTES_MAX / ERROR_PAGE_BYTES_MAX + 1)
            .map(|status| format!("{status}.html"))
            .collect();
        let files: Vec<_> = names.iter().map(|name| (name.as_str(), &page[..])).collect();
        assert!(matches!(ErrorPages::read(directory(&files).path()), Err(ErrorPagesError::TooMuch(_))));
    }
}
