//! A client that keeps cookies, submits forms and follows redirects like a browser.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::net::SocketAddr;

use crate::client::{Client, Response};

/// One browser window of one user, with one persistent connection.
#[derive(Debug)]
pub struct Browser {
    addr: SocketAddr,
    client: Client,
    cookies: BTreeMap<String, String>,
}

/// One part of a multipart form.
#[derive(Debug)]
pub enum Part<'a> {
    /// A field with its name and value.
    Field(&'a str, &'a str),
    /// A file with the name of its field, its own name, and its content.
    File(&'a str, &'a str, &'a [u8]),
}

/// The boundary between parts; no test sends it inside a part.
const BOUNDARY: &str = "-----------------------------4711081542";

/// The maximum number of successive redirects.
const REDIRECTS_MAX: usize = 5;

impl Browser {
    /// Opens a window on the site at `addr`.
    pub fn open(addr: SocketAddr) -> Self {
        Self { addr, client: Client::connect(addr), cookies: BTreeMap::new() }
    }

    /// Opens the page at `target`.
    pub fn get(&mut self, target: &str) -> Response {
        let response = self.exchange("GET", target, "", b"");
        self.follow(response)
    }

    /// Sends a form.
    pub fn submit(&mut self, target: &str, fields: &[(&str, &str)]) -> Response {
        let body = fields.iter().map(|(name, value)| format!("{}={}", encoded(name), encoded(value)));
        let body = body.collect::<Vec<_>>().join("&");
        let response = self.exchange("POST", target, "application/x-www-form-urlencoded", body.as_bytes());
        self.follow(response)
    }

    /// Sends a form with files.
    pub fn upload(&mut self, target: &str, parts: &[Part<'_>]) -> Response {
        let mut body = Vec::new();
        for part in parts {
            let (head, content) = match part {
                Part::Field(name, value) => (format!("name=\"{name}\"\r\n"), value.as_bytes()),
                Part::File(name, file, content) => {
                    let kind = "Content-Type: application/octet-stream";
                    (format!("name=\"{name}\"; filename=\"{file}\"\r\n{kind}\r\n"), *content)
                }
            };
            body.extend_from_slice(
                format!("--{BOUNDARY}\r\nContent-Disposition: form-data; {head}\r\n").as_bytes(),
            );
            body.extend_from_slice(content);
            body.extend_from_slice(b"\r\n");
        }
        body.extend_from_slice(format!("--{BOUNDARY}--\r\n").as_bytes());
        let response =
            self.exchange("POST", target, &format!("multipart/form-data; boundary={BOUNDARY}"), &body);
        self.follow(response)
    }

    /// Returns the values of the cookies.
    pub fn values(&self) -> impl Iterator<Item = &str> {
        self.cookies.values().map(String::as_str)
    }

    /// Returns the number of cookies.
    pub fn cookies(&self) -> usize {
        self.cookies.len()
    }

    fn follow(&mut self, mut response: Response) -> Response {
        for _ in 0..REDIRECTS_MAX {
            let Some(location) = response.field("location").filter(|_| (300..400).contains(&response.status))
            else {
                return response;
            };
            let target = match location.split_once("://") {
                Some((_, rest)) => rest.find('/').map_or("/", |slash| &rest[slash..]),
                None => location,
            };
            let target = target.split('#').next().unwrap_or(target).to_owned();
            response = self.exchange("GET", &target, "", b"");
        }
        panic!("too many redirects; the last response is {response:?}");
    }

    /// Sends one request and reads its response, which may be a redirect.
    pub fn exchange(&mut self, method: &str, target: &str, kind: &str, body: &[u8]) -> Response {
        let mut head = format!("{method} {target} HTTP/1.1\r\nHost: {}\r\nUser-Agent: test\r\n", self.addr);
        if !self.cookies.is_empty() {
            let pairs: Vec<_> = self.cookies.iter().map(|(name, value)| format!("{name}={value}")).collect();
            write!(head, "Cookie: {}\r\n", pairs.join("; ")).unwrap();
        }
        if !kind.is_empty() {
            write!(head, "Content-Type: {kind}\r\nContent-Length: {}\r\n", body.len()).unwrap();
        }
        self.client.send(head + "\r\n");
        self.client.send(body);
        let response = self.client.response();
        assert!(response.is_whole, "{method} {target} breaks off");
        for (_, line) in response.fields.iter().filter(|(name, _)| name == "set-cookie") {
            self.keep(line);
        }
        if response.field("connection") == Some("close") {
            self.client = Client::connect(self.addr);
        }
        response
    }

    /// Stores a cookie, or deletes it if it has expired.
    fn keep(&mut self, line: &str) {
        let (name, value) = line.split(';').next().unwrap_or_default().split_once('=').unwrap_or_default();
        if value == "deleted" || line.to_ascii_lowercase().contains("max-age=0") {
            self.cookies.remove(name);
        } else {
            self.cookies.insert(name.to_owned(), value.to_owned());
        }
    }
}

/// Returns the value of the first input field `name` on a page.
pub fn input(page: &str, name: &str) -> String {
    let mark = format!("name=\"{name}\" value=\"");
    let start = page.find(&mark).unwrap_or_else(|| panic!("there is no field {name} on {page}")) + mark.len();
    page[start..start + page[start..].find('"').unwrap()].to_owned()
}

/// Encodes as `application/x-www-form-urlencoded`; bytes that need no escape are escaped too, which is equivalent.
pub fn encoded(text: &str) -> String {
    text.bytes().fold(String::new(), |mut encoded, byte| {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' => encoded.push(char::from(byte)),
            b' ' => encoded.push('+'),
            _ => write!(encoded, "%{byte:02X}").unwrap(),
        }
        encoded
    })
}
