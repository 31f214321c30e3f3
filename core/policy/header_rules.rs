//! Fields that the operator adds to responses, from the file `.svcheaders` in the document root.
//!
//! ```text
//! # a comment
//! /assets/**
//!     Cache-Control: public, max-age=31536000, immutable
//!
//! /**
//!     X-Content-Type-Options: nosniff
//! ```
//!
//! A line that begins with a slash is a pattern of URL paths, and indented lines below it are the fields for all paths
//! that it matches. Several patterns in a row share the fields that follow. If several blocks set the same field for a
//! path, the last one applies; within a block, a field may occur several times.
//!
//! Matching a path takes bounded time. Files that contain an invalid line are rejected, and so are fields that describe
//! the connection or the body.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use globset::GlobMatcher;

use super::rules_file::{InvalidLines, RulesFile, RulesFileError};
use crate::config::glob::url_path_glob;
use crate::http::{Fields, NamedFile, encode};
use crate::limits::HEADERS_FILE_BYTES_MAX;

/// The rules of the document root.
#[derive(Debug, Default)]
pub struct HeaderRules {
    /// `None` if there is no file.
    blocks: Option<Vec<Block>>,
}

/// Patterns, and the fields for the paths that match one of them.
#[derive(Debug, Default)]
struct Block {
    patterns: Vec<GlobMatcher>,
    fields: Vec<(Vec<u8>, Vec<u8>)>,
}

impl HeaderRules {
    /// Reads the rules of a document root. Without a file, there are no rules.
    ///
    /// # Errors
    ///
    /// If the file cannot be read, or a line is invalid.
    pub fn read(root: &Path) -> Result<Self, RulesFileError> {
        Ok(HEADERS_FILE.read(root, Self::parse)?.unwrap_or_default())
    }

    /// Parses the text of a file.
    ///
    /// # Errors
    ///
    /// The invalid lines, each with its number, its text and the reason.
    pub fn parse(text: &[u8]) -> Result<Self, InvalidLines> {
        let (mut blocks, mut wrong): (Vec<Block>, _) = (Vec::new(), Vec::new());
        let text = text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text);
        for (index, line) in text.split(|&byte| byte == b'\n').enumerate() {
            if let Err(fault) = take_line(&mut blocks, line) {
                wrong.push((index + 1, String::from_utf8_lossy(line.trim_ascii()).into_owned(), fault));
            }
        }
        if wrong.is_empty() { Ok(Self { blocks: Some(blocks) }) } else { Err(wrong) }
    }

    /// Returns whether there is a file of rules, even if it contains none.
    pub fn is_loaded(&self) -> bool {
        self.blocks.is_some()
    }

    /// Adds the fields for a normalized URL path. An existing field is kept if `keeps` is true, and replaced otherwise.
    pub fn apply(&self, path: &[u8], fields: &mut Fields, keeps: bool) {
        let blocks = self.blocks.iter().flatten();
        let own: Vec<_> = blocks.filter(|block| block.matches(path)).collect();
        if own.is_empty() {
            return;
        }
        let mut kept: Vec<&[u8]> = Vec::new();
        for (place, block) in own.iter().enumerate() {
            let later = &own[place + 1..];
            for (at, (name, value)) in block.fields.iter().enumerate() {
                if later.iter().any(|block| has(&block.fields, name)) {
                    continue;
                }
                if !has(&block.fields[..at], name) {
                    if keeps && fields.contains(name) {
                        kept.push(name);
                    } else {
                        fields.remove(name);
                    }
                }
                if !kept.iter().any(|other| other.eq_ignore_ascii_case(name)) {
                    // Fields were validated when the file was read.
                    let _ = fields.push(name, value);
                }
            }
        }
    }
}

impl Block {
    fn matches(&self, path: &[u8]) -> bool {
        let path = Path::new(OsStr::from_bytes(path.strip_prefix(b"/").unwrap_or(path)));
        self.patterns.iter().any(|pattern| pattern.is_match(path))
    }
}

/// The name of the file of rules.
const HEADERS_FILE: RulesFile = RulesFile {
    name: ".svcheaders",
    bytes_max: HEADERS_FILE_BYTES_MAX,
    accepted: "a pattern such as /assets/**, and below it indented fields",
};

/// Adds a line to the block that it belongs to.
fn take_line(blocks: &mut Vec<Block>, line: &[u8]) -> Result<(), String> {
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    let text = line.trim_ascii();
    if text.is_empty() || text.starts_with(b"#") {
        return Ok(());
    }
    if line.starts_with(b" ") || line.starts_with(b"\t") {
        let block = blocks.last_mut().ok_or("there is no pattern above it")?;
        block.fields.push(field(text)?);
        return Ok(());
    }
    let text = std::str::from_utf8(text).map_err(|_| "it is not valid UTF-8")?;
    if !text.starts_with('/') {
        return Err("a pattern begins with a slash, and a field with a space".to_owned());
    }
    let pattern = url_path_glob(text)?;
    match blocks.last_mut() {
        Some(block) if block.fields.is_empty() => block.patterns.push(pattern),
        _ => blocks.push(Block { patterns: vec![pattern], fields: Vec::new() }),
    }
    Ok(())
}

fn field(text: &[u8]) -> Result<(Vec<u8>, Vec<u8>), String> {
    let colon = text.iter().position(|&byte| byte == b':').ok_or("it has no colon")?;
    let (name, value) = (&text[..colon], text[colon + 1..].trim_ascii());
    let is_reserved = encode::is_server_field(name)
        || NamedFile::of(name, value).is_some()
        || RESERVED.iter().any(|reserved| name.eq_ignore_ascii_case(reserved));
    if is_reserved {
        return Err("the server sets this field".to_owned());
    }
    Fields::new().push(name, value).map_err(|error| error.to_string())?;
    Ok((name.into(), value.into()))
}

/// Fields that describe the body, or differ for each response.
const RESERVED: [&[u8]; 9] = [
    b"accept-ranges",
    b"content-encoding",
    b"content-range",
    b"date",
    b"etag",
    b"last-modified",
    b"location",
    b"vary",
    b"x-request-id",
];

fn has(fields: &[(Vec<u8>, Vec<u8>)], name: &[u8]) -> bool {
    fields.iter().any(|(other, _)| other.eq_ignore_ascii_case(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn applied(text: &str, path: &str, before: &[(&str, &str)], keeps: bool) -> Vec<(String, String)> {
        let rules = HeaderRules::parse(text.as_bytes()).unwrap_or_else(|wrong| panic!("{wrong:?}"));
        let mut fields = Fields::new();
        for (name, value) in before {
            fields.push(name.as_bytes(), value.as_bytes()).unwrap();
        }
        rules.apply(path.as_bytes(), &mut fields, keeps);
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        fields.iter().map(|(name, value)| (text(name), text(value))).collect()
    }

    fn pair(name: &str, value: &str) -> (String, String) {
        (name.to_owned(), value.to_owned())
    }

    const RULES: &str = "\u{feff}# all\r\n/**\r\n  X-A: 1\r\n\tLink: <a>\r\n  Link: <b>\r\n\r\n/img/*\n/css/**\n  X-A:  2 \n\n  X-B: x\n";

    #[test]
    fn a_control_character_makes_a_line_invalid() {
        for byte in ["\x01", "\x0b", "\x1b", "\x7f", "\0", "\r"] {
            let wrong = HeaderRules::parse(format!("/**\n  X-A: a{byte}b\n").as_bytes()).unwrap_err();
            assert!(wrong[0].0 == 2 && wrong[0].2.contains("control character"), "{wrong:?}");
        }
        assert!(HeaderRules::parse(b"/**\n  X-A: a\tb\xe4\n").is_ok());
    }

    #[test]
    fn a_path_has_the_fields_of_all_blocks_that_match_and_the_last_one_counts() {
        let all = [pair("Link", "<a>"), pair("Link", "<b>")];
        assert_eq!(applied(RULES, "/x", &[], false), [vec![pair("X-A", "1")], all.to_vec()].concat());
        for path in ["/img/a.png", "/css/a/b.css", "/CSS/a.css"] {
            let expected = [all.to_vec(), vec![pair("X-A", "2"), pair("X-B", "x")]].concat();
            assert_eq!(applied(RULES, path, &[], false), expected, "{path}");
        }
        assert_eq!(applied(RULES, "/img/a/b.png", &[], false)[0], pair("X-A", "1"));
        assert_eq!(applied("/a\n x: 1\n", "/b", &[], false), []);
    }

    #[test]
    fn existing_fields_are_kept_or_replaced() {
        let before = [("link", "<own>"), ("X-C", "3")];
        let kept = applied(RULES, "/x", &before, true);
        assert_eq!(kept, [pair("link", "<own>"), pair("X-C", "3"), pair("X-A", "1")]);
        let replaced = applied(RULES, "/x", &before, false);
        assert_eq!(replaced, [pair("X-C", "3"), pair("X-A", "1"), pair("Link", "<a>"), pair("Link", "<b>")]);
        let both = applied("/**\n Link: <a>\n Link: <b>\n", "/", &[], true);
        assert_eq!(both, [pair("Link", "<a>"), pair("Link", "<b>")]);
    }

    #[test]
    fn invalid_lines_are_reported_with_their_numbers() {
        let text = b" X-A: 1\n/ok\n X-A\n X A: 1\nimg/*\n/[\n Content-Length: 1\n connection: close\n x-sendfile: /a\n\xff\n /a\n";
        let wrong = HeaderRules::parse(text).expect_err("all but one are wrong");
        let numbers: Vec<_> = wrong.iter().map(|(number, ..)| *number).collect();
        assert_eq!(numbers, [1, 3, 4, 5, 6, 7, 8, 9, 10, 11], "{wrong:?}");
    }

    #[test]
    fn without_a_file_there_are_no_rules() {
        let root = tempfile::tempdir().unwrap();
        assert!(!HeaderRules::read(root.path()).unwrap().is_loaded());
        let path = root.path().join(".svcheaders");
        std::fs::write(&path, "").unwrap();
        assert!(HeaderRules::read(root.path()).unwrap().is_loaded());
        std::fs::write(&path, "/a\nx").unwrap();
        let text = HeaderRules::read(root.path()).expect_err("a line is wrong").to_string();
        assert!(text.contains("/.svcheaders:2: \"x\" is not a valid rule (a pattern begins"), "{text}");
        std::fs::write(&path, vec![b'\n'; HEADERS_FILE_BYTES_MAX + 1]).unwrap();
        assert!(matches!(HeaderRules::read(root.path()), Err(RulesFileError::TooLong { .. })));
        std::fs::remove_file(&path).unwrap();
        std::fs::create_dir(&path).unwrap();
        assert!(matches!(HeaderRules::read(root.path()), Err(RulesFileError::Unreadable(..))));
    }
}
