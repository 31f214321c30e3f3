//! An HTTP/1 client: writes requests, pipelined or not, and reads the responses.

use super::model::Model;
use super::plan::{ASKED, Asked, Dice, Framed, Plan, bytes};
use super::readers::Http1Reader;

/// The client.
#[derive(Default)]
pub(crate) struct Http1Client {
    pub(crate) reader: Http1Reader,
    /// The number of the request being written.
    pub(crate) writing: usize,
    /// The unsent rest of it.
    rest: Vec<u8>,
    /// The number of body bytes in the rest, which may have to wait.
    body: usize,
    is_begun: bool,
    is_done: bool,
    /// The number of bytes written, and where each request ended.
    written: usize,
    pub(crate) ends: Vec<usize>,
    continues: usize,
}

impl Http1Client {
    /// Returns up to `max` bytes that can be sent now.
    pub(crate) fn write(&mut self, plan: &Plan, max: usize, dice: &mut Dice) -> Vec<u8> {
        let mut out = Vec::new();
        while out.len() < max {
            if self.rest.is_empty() && !self.next(plan, dice) {
                break;
            }
            let asked = &plan.requests[self.writing];
            if !(asked.expects && self.body > 0 && self.waits(asked, dice)) {
                // Once begun, the body is sent to its end.
                self.body = 0;
            }
            let free = self.rest.len() - self.body;
            if free == 0 {
                break;
            }
            let count = free.min(max - out.len());
            out.extend(self.rest.drain(..count));
            self.written += count;
            if self.rest.is_empty() {
                self.ends.push(self.written);
                self.writing += 1;
                self.is_begun = false;
            }
        }
        out
    }

    /// Returns whether there is nothing left to send.
    pub(crate) fn is_done(&self, plan: &Plan) -> bool {
        self.is_done || (self.writing == plan.requests.len() && self.rest.is_empty())
    }

    fn waits(&mut self, asked: &Asked, dice: &mut Dice) -> bool {
        let is_answered = self.reader.number() > self.writing;
        if is_answered {
            // The response has arrived, so the body is not sent.
            self.is_done = true;
            return true;
        }
        self.reader.continues <= self.continues && (asked.is_patient || !dice.one_in(20))
    }

    fn next(&mut self, plan: &Plan, dice: &mut Dice) -> bool {
        let is_over = self.reader.answers.iter().any(|seen| !seen.keeps);
        let Some(asked) = plan.requests.get(self.writing).filter(|_| !is_over && !self.is_done) else {
            return false;
        };
        let waits = !plan.pipelines || self.writing > 0 && plan.requests[self.writing - 1].expects;
        if waits && self.reader.number() < self.writing {
            return false;
        }
        self.continues = self.reader.continues;
        (self.rest, self.body) = request(asked, self.writing, dice);
        if asked.malformed.is_some() || !asked.keeps {
            // Later requests would not be answered.
            self.is_done = asked.malformed.is_some();
        }
        self.is_begun = true;
        true
    }

    pub(crate) fn check(&self, model: &Model) {
        assert!(self.reader.number() <= model.begun(), "an answer without a request");
    }
}

/// Returns a request, and the number of body bytes at its end.
fn request(asked: &Asked, number: usize, dice: &mut Dice) -> (Vec<u8>, usize) {
    if let Some(malformed) = asked.malformed {
        return (malformed.to_vec(), 0);
    }
    let version = if asked.is_http10 { "1.0" } else { "1.1" };
    let mut head = format!("{} /{number} HTTP/{version}\r\nHost: h\r\n", asked.method);
    if asked.is_http10 == asked.keeps {
        head += if asked.keeps { "Connection: keep-alive\r\n" } else { "Connection: close\r\n" };
    }
    if asked.expects {
        head += "Expect: 100-continue\r\n";
    }
    for _ in 0..asked.padding / 1000 {
        head += &format!("X-Padding: {}\r\n", "x".repeat(1000));
    }
    let content = bytes(ASKED + number as u32, 0, asked.body_bytes);
    let body = match asked.framed {
        Framed::Nothing => Vec::new(),
        Framed::Length => {
            head += &format!("Content-Length: {}\r\n", content.len());
            content
        }
        Framed::Chunked => {
            head += "Transfer-Encoding: chunked\r\n";
            chunked(&content, dice)
        }
    };
    let mut text = format!("{head}\r\n").into_bytes();
    let len = body.len();
    text.extend(body);
    (text, len)
}

fn chunked(mut content: &[u8], dice: &mut Dice) -> Vec<u8> {
    let mut out = Vec::new();
    while !content.is_empty() {
        let (chunk, rest) = content.split_at((1 + dice.size(70_000)).min(content.len()));
        let extension = if dice.one_in(10) { ";a=b" } else { "" };
        out.extend(format!("{:x}{extension}\r\n", chunk.len()).into_bytes());
        out.extend_from_slice(chunk);
        out.extend_from_slice(b"\r\n");
        content = rest;
    }
    out.extend_from_slice(if dice.one_in(5) { b"0\r\nX-Trailer: 1\r\n\r\n" } else { b"0\r\n\r\n" });
    out
}
