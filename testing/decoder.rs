//! Decoders of content codings: streaming libraries, and the standard programs as references.

use std::io::{Read, Write};
use std::process::{Command, Stdio};

/// Decodes a complete body; returns `None` if it is truncated or invalid.
pub fn decoded(coding: &str, bytes: &[u8]) -> Option<Vec<u8>> {
    let mut body = Vec::new();
    reader(coding, bytes).read_to_end(&mut body).ok()?;
    Some(body)
}

/// Decodes as much as the given bytes allow.
pub fn decoded_so_far(coding: &str, bytes: &[u8]) -> Vec<u8> {
    let (mut reader, mut body, mut piece) = (reader(coding, bytes), Vec::new(), [0; 256]);
    while let Ok(count @ 1..) = reader.read(&mut piece) {
        body.extend_from_slice(&piece[..count]);
    }
    body
}

/// Decodes a body with the standard program of the coding; returns `None` if that program is not installed.
///
/// The `Result` is an error if the program rejects the body.
pub fn judged(coding: &str, bytes: &[u8]) -> Option<Result<Vec<u8>, String>> {
    let program = if coding == "br" { "brotli" } else { coding };
    let mut child = Command::new(program)
        .args(["-d", "-c"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .ok()?;
    let mut input = child.stdin.take().unwrap();
    let output = std::thread::scope(|scope| {
        scope.spawn(move || input.write_all(bytes));
        child.wait_with_output().unwrap()
    });
    if output.status.success() {
        return Some(Ok(output.stdout));
    }
    Some(Err(String::from_utf8_lossy(&output.stderr).into_owned()))
}

fn reader<'a>(coding: &str, bytes: &'a [u8]) -> Box<dyn Read + 'a> {
    match coding {
        "br" => Box::new(brotli::Decompressor::new(bytes, 4096)),
        "gzip" => Box::new(flate2::read::GzDecoder::new(bytes)),
        "identity" => Box::new(bytes),
        "zstd" => Box::new(zstd::stream::read::Decoder::new(bytes).unwrap()),
        other => panic!("{other} is no coding"),
    }
}
