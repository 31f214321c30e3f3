//! PHP directives on the command line.
//!
//! An accepted directive is one line of php.ini. PHP decides which directives exist.

use std::ffi::{OsStr, OsString};

use super::problem::{Fault, Problem};

/// Parses all directives; adds malformed ones to the problems.
pub(super) fn all(texts: &[OsString], problems: &mut Vec<Problem>) -> Vec<(String, String)> {
    let mut directives = Vec::new();
    for text in texts {
        match directive(text) {
            Ok(pair) => directives.push(pair),
            Err(fault) => problems.push(Problem {
                setting: "-d",
                value: Some(text.to_string_lossy().into_owned()),
                fault,
                accepted: "key=value".to_owned(),
            }),
        }
    }
    directives
}

fn directive(text: &OsStr) -> Result<(String, String), Fault> {
    let text = text.to_str().ok_or(Fault::NotUtf8)?;
    // A key alone means `1`, like in PHP's own commands.
    let (key, value) = text.split_once('=').unwrap_or((text, "1"));
    let (key, value) = (key.trim(), value.trim());
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
    if key.is_empty() || !key.bytes().all(plain) || value.contains(char::is_control) {
        return Err(Fault::NotADirective);
    }
    Ok((key.to_owned(), value.to_owned()))
}
