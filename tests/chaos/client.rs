//! A client: sends a program, and checks the response.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use crate::grammar::{Client, Program};
use crate::model::{self, Answer};
use crate::server::Target;

/// The time limit for an answer.
const PATIENCE: Duration = Duration::from_secs(180);

/// The part of an answer that was read.
#[derive(Debug)]
struct Response {
    status: u16,
    fields: Vec<(String, String)>,
    body: Vec<u8>,
    is_whole: bool,
}

/// Runs the program on the server; returns what is wrong with its answer.
pub(crate) fn send(target: Target, program: &Program) -> Option<String> {
    let body = program.body();
    let request = format!(
        "POST /chaos?id={id} HTTP/1.1\r\nHost: chaos\r\nCookie: id={id}\r\nX-Id: {id}\r\nContent-Type: application/json\r\n\
         Connection: close\r\nContent-Length: {}\r\n\r\n{body}",
        body.len(),
        id = program.id
    );
    let Ok(mut socket) = TcpStream::connect(target.addr) else { return Some("cannot connect".into()) };
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    if let Err(error) = socket.write_all(request.as_bytes()) {
        return Some(format!("cannot send: {error}"));
    }
    match program.client {
        Client::Gone(ms) => {
            std::thread::sleep(Duration::from_millis(ms));
            return None;
        }
        Client::Slow(ms) => std::thread::sleep(Duration::from_millis(ms)),
        Client::Patient => {}
    }
    let mut bytes = Vec::new();
    if let Err(error) = socket.read_to_end(&mut bytes) {
        return match error.kind() {
            ErrorKind::WouldBlock | ErrorKind::TimedOut => Some(format!("no answer within {PATIENCE:?}")),
            _ => Some(format!("the connection broke: {error}, after {} bytes", bytes.len())),
        };
    }
    match read(&bytes) {
        Some(response) => judge(program, &model::answer(program, target.mode), &response),
        None => Some(format!("an answer without a head: {:?}", String::from_utf8_lossy(&bytes))),
    }
}

/// Reads a page; returns `None` if the server cannot be reached.
pub(crate) fn get(addr: SocketAddr, path: &str) -> Option<String> {
    let mut socket = TcpStream::connect(addr).ok()?;
    socket.set_read_timeout(Some(PATIENCE)).ok()?;
    socket
        .write_all(format!("GET {path} HTTP/1.1\r\nHost: chaos\r\nConnection: close\r\n\r\n").as_bytes())
        .ok()?;
    let mut bytes = Vec::new();
    socket.read_to_end(&mut bytes).ok()?;
    Some(String::from_utf8_lossy(&read(&bytes)?.body).into_owned())
}

fn judge(program: &Program, answer: &Answer, response: &Response) -> Option<String> {
    let text = String::from_utf8_lossy(&response.body);
    if program.fault.is_some() {
        // Only the presence of an answer is predictable.
        return (![200, 500].contains(&response.status))
            .then(|| format!("status {}: {}", response.status, brief(&text)));
    }
    let is_bailout = answer.body.is_none();
    // Once the head is sent, a failure cuts the response off.
    if answer.may_fail && (response.status >= 500 || !response.is_whole) {
        return None;
    }
    // Until the head is sent, a failure may change it.
    if response.status != answer.status && !(answer.may_be_cut && response.status >= 500) {
        return Some(format!("status {} and not {}: {}", response.status, answer.status, brief(&text)));
    }
    match &answer.body {
        // The server has its own page for errors without a body.
        Some(body) if body.is_empty() && response.status >= 400 => {}
        Some(body) if *body != text => {
            return Some(format!("body {}\n        and not {}", brief(&text), brief(body)));
        }
        Some(_) if !response.is_whole && !answer.may_be_cut => {
            return Some("an incomplete body".into());
        }
        _ => {}
    }
    let strange =
        response.fields.iter().find(|(name, value)| name.starts_with("x-chaos") && *value != program.id);
    if let Some((name, value)) = strange {
        return Some(format!("a field of another program: {name}: {value}"));
    }
    if !is_bailout && let Some(missing) = answer.fields.iter().find(|field| !response.fields.contains(field))
    {
        return Some(format!("the field {missing:?} is missing"));
    }
    None
}

fn brief(text: &str) -> String {
    let short: String = text.chars().take(300).collect();
    format!("{short:?} ({} bytes)", text.len())
}

fn read(bytes: &[u8]) -> Option<Response> {
    let end = bytes.windows(4).position(|window| window == b"\r\n\r\n")?;
    if bytes.starts_with(b"HTTP/1.1 103 ") {
        return read(&bytes[end + 4..]);
    }
    let head = std::str::from_utf8(&bytes[..end]).ok()?;
    let mut lines = head.split("\r\n");
    let status = lines.next()?.split(' ').nth(1)?.parse().ok()?;
    let fields: Vec<(String, String)> = lines
        .filter_map(|line| line.split_once(": "))
        .map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned()))
        .collect();
    let rest = &bytes[end + 4..];
    let of = |wanted: &str| fields.iter().find(|(name, _)| name == wanted).map(|(_, value)| value.as_str());
    let (body, is_whole) = if of("transfer-encoding") == Some("chunked") {
        parts(rest)
    } else {
        let length = of("content-length").and_then(|length| length.parse::<usize>().ok());
        (rest.to_vec(), length.is_none_or(|length| length == rest.len()))
    };
    Some(Response { status, fields, body, is_whole })
}

/// Decodes a chunked body; returns it, and whether it is complete.
fn parts(mut rest: &[u8]) -> (Vec<u8>, bool) {
    let mut body = Vec::new();
    loop {
        let Some(line) = rest.windows(2).position(|window| window == b"\r\n") else { return (body, false) };
        let size =
            std::str::from_utf8(&rest[..line]).ok().and_then(|size| usize::from_str_radix(size, 16).ok());
        let Some(size) = size else { return (body, false) };
        rest = &rest[line + 2..];
        if size == 0 {
            return (body, true);
        }
        if rest.len() < size + 2 {
            body.extend_from_slice(rest);
            return (body, false);
        }
        body.extend_from_slice(&rest[..size]);
        rest = &rest[size + 2..];
    }
}
