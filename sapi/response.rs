//! From what a script says to the parts of a reply.
//!
//! Promises: a reply that fits in [`REPLY_GATHER_MAX`] and is not flushed goes out in one piece with its length; a
//! script that fails before anything went out is answered 500 or 504; one that fails later leaves a reply that is
//! visibly broken. Fields that belong to the connection are the server's, not the script's. Refuses: it writes no
//! bytes of HTTP.
//!
//! ```text
//!   Gathering ──flush, or much output──▶ Streaming ──▶ Ended
//!       └──────────────── the script ends ────────────▲
//! ```

use svc_core::http::{Fields, MethodKind};
use svc_core::limits::REPLY_GATHER_MAX;
use svc_core::pool::{End, Exchange, Origin, ReplyHead};

use svc_ffi::{Head, Outcome};

/// Where the reply is; see the module's diagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Gathering,
    Streaming,
    Ended,
}

/// The reply of one exchange, written by its script.
#[derive(Debug)]
pub(crate) struct Response<'a> {
    exchange: &'a Exchange,
    stage: Stage,
    head: Option<ReplyHead>,
    gathered: Vec<u8>,
    /// The request's method is HEAD: bytes are counted and not kept.
    counts_only: bool,
    written_bytes: u64,
}

impl<'a> Response<'a> {
    /// Begins the reply of a claimed exchange.
    pub(crate) fn new(exchange: &'a Exchange) -> Self {
        Self {
            exchange,
            stage: Stage::Gathering,
            head: None,
            gathered: Vec::new(),
            counts_only: exchange.request.head.method_kind() == MethodKind::Head,
            written_bytes: 0,
        }
    }

    /// Takes status and fields as PHP has them.
    pub(crate) fn set_head(&mut self, head: &Head<'_>) {
        if self.stage == Stage::Gathering {
            self.head = Some(reply_head(head));
        }
    }

    /// Sends an informational response.
    pub(crate) fn interim(&self, head: &Head<'_>) {
        if self.stage == Stage::Gathering
            && let Ok(status) = u16::try_from(head.status)
        {
            // A client that has gone needs no hints.
            let _ = self.exchange.interim(status, reply_head(head).fields);
        }
    }

    /// Takes output. False: nobody reads it.
    pub(crate) fn write(&mut self, output: &[u8]) -> bool {
        self.written_bytes += output.len() as u64;
        match self.stage {
            Stage::Ended => return true,
            Stage::Gathering if self.exchange.is_gone() => return false,
            Stage::Gathering | Stage::Streaming => {}
        }
        if self.counts_only {
            return true;
        }
        self.gathered.extend_from_slice(output);
        self.gathered.len() < REPLY_GATHER_MAX || self.hand_over()
    }

    /// Sends what there is. False: nobody reads it.
    pub(crate) fn flush(&mut self) -> bool {
        match self.stage {
            Stage::Ended => true,
            Stage::Streaming if self.gathered.is_empty() => !self.exchange.is_gone(),
            Stage::Gathering | Stage::Streaming => self.hand_over(),
        }
    }

    /// Ends the reply although the script goes on.
    pub(crate) fn finish(&mut self) {
        self.end(Outcome::Complete);
    }

    /// Ends the reply as the script ended. After [`finish`](Self::finish) it does nothing.
    pub(crate) fn end(&mut self, outcome: Outcome) {
        match (std::mem::replace(&mut self.stage, Stage::Ended), outcome) {
            (Stage::Ended, _) => {}
            (Stage::Gathering, Outcome::Complete | Outcome::Aborted) => self.complete(Origin::Script),
            (Stage::Gathering, Outcome::Fatal) => self.complete(Origin::Fatal),
            (Stage::Gathering, Outcome::TimeLimit) => self.complete(Origin::TimeLimit),
            (Stage::Streaming, outcome) => {
                let rest = std::mem::take(&mut self.gathered);
                let sent = rest.is_empty() || self.exchange.data(rest).is_ok();
                let whole = sent && matches!(outcome, Outcome::Complete);
                self.exchange.end(if whole { End::Complete } else { End::Broken });
            }
        }
    }

    fn hand_over(&mut self) -> bool {
        let bytes = std::mem::take(&mut self.gathered);
        if self.stage == Stage::Streaming {
            return self.exchange.data(bytes).is_ok();
        }
        self.stage = Stage::Streaming;
        let head = self.head.take().unwrap_or_else(plain_head);
        self.exchange.head(head, bytes).is_ok()
    }

    fn complete(&mut self, origin: Origin) {
        let mut head = self.head.take().unwrap_or_else(plain_head);
        head.origin = origin;
        let status = match origin {
            Origin::TimeLimit => Some(504),
            Origin::Fatal if head.status < 500 => Some(500),
            _ => None,
        };
        if let Some(status) = status {
            head.status = status;
            head.reason = None;
            head.content_length = None;
        }
        if origin == Origin::Script {
            head.content_length.get_or_insert(self.written_bytes);
        }
        // A client that has gone loses its reply.
        let _ = self.exchange.complete(head, std::mem::take(&mut self.gathered));
    }
}

fn plain_head() -> ReplyHead {
    ReplyHead {
        status: 200,
        reason: None,
        fields: Fields::new(),
        content_length: None,
        origin: Origin::Script,
    }
}

/// Sorts what a script set into the parts of a head; what is no field, or not the script's affair, is dropped.
fn reply_head(head: &Head<'_>) -> ReplyHead {
    let mut reply = plain_head();
    let mut status = head.status;
    for line in &head.lines {
        let Some(colon) = line.iter().position(|&byte| byte == b':') else { continue };
        let (name, value) = (&line[..colon], line[colon + 1..].trim_ascii());
        if is_of_the_connection(name) {
            continue;
        }
        if name.eq_ignore_ascii_case(b"content-length") {
            reply.content_length = std::str::from_utf8(value).ok().and_then(|text| text.parse().ok());
        } else if name.eq_ignore_ascii_case(b"status") {
            // CGI's way to set the status.
            status = leading_number(value).unwrap_or(status);
        } else if head.status == 304 && name.eq_ignore_ascii_case(b"content-type") {
            // The client keeps the type of what it has; PHP's default would replace it.
        } else {
            // PHP refuses line breaks in fields; what is no field all the same is dropped.
            let _ = reply.fields.push(name, value);
        }
    }
    reply.reason = reason(head.status_line, head.status);
    reply.status = u16::try_from(status).ok().filter(|code| (200..=999).contains(code)).unwrap_or(500);
    if i32::from(reply.status) != head.status {
        reply.reason = None;
    }
    reply
}

/// Fields that only the server can know: it frames the message and keeps the connection.
fn is_of_the_connection(name: &[u8]) -> bool {
    const NAMES: [&[u8]; 7] = [
        b"connection",
        b"keep-alive",
        b"proxy-connection",
        b"te",
        b"trailer",
        b"transfer-encoding",
        b"upgrade",
    ];
    NAMES.iter().any(|known| name.eq_ignore_ascii_case(known))
}

fn leading_number(value: &[u8]) -> Option<i32> {
    let digits = value.iter().take_while(|byte| byte.is_ascii_digit()).count();
    std::str::from_utf8(&value[..digits]).ok()?.parse().ok()
}

/// The reason phrase of `HTTP/1.1 404 Nothing here`, if there is one that can be sent and it is that of `status`: a
/// script may have changed its mind since.
fn reason(line: &[u8], status: i32) -> Option<Vec<u8>> {
    let mut words = line.splitn(3, |&byte| byte == b' ').skip(1);
    leading_number(words.next()?).filter(|&code| code == status)?;
    let phrase = words.next()?.trim_ascii();
    let sendable = |&byte: &u8| byte == b'\t' || (byte >= b' ' && byte != 0x7f);
    (!phrase.is_empty() && phrase.iter().all(sendable)).then(|| phrase.to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(status: i32, status_line: &str, lines: &[&str]) -> ReplyHead {
        let lines = lines.iter().map(|line| line.as_bytes()).collect();
        reply_head(&Head { status, status_line: status_line.as_bytes(), lines })
    }

    #[test]
    fn fields_of_the_connection_are_dropped() {
        let head = parse(200, "", &["Connection: close", "transfer-encoding: chunked", "X-A: 1", "no colon"]);
        assert_eq!(head.fields.as_bytes(), b"X-A: 1\r\n");
    }

    #[test]
    fn an_announced_length_is_kept_apart() {
        let head = parse(200, "", &["Content-Length: 12", "X-A: 1"]);
        assert_eq!(head.content_length, Some(12));
        assert!(!head.fields.contains(b"content-length"));
        assert_eq!(parse(200, "", &["Content-Length: none"]).content_length, None);
    }

    #[test]
    fn a_status_line_gives_its_reason() {
        assert_eq!(
            parse(404, "HTTP/1.1 404 Nothing here", &[]).reason.as_deref(),
            Some(&b"Nothing here"[..])
        );
        assert_eq!(parse(404, "HTTP/1.1 404", &[]).reason, None);
        assert_eq!(parse(200, "HTTP/", &[]).reason, None);
        assert_eq!(parse(201, "HTTP/1.1 200 Fine", &[]).reason, None, "the status was changed later");
    }

    #[test]
    fn not_modified_says_nothing_of_the_type() {
        let head = parse(304, "", &["Content-type: text/html", "ETag: 1"]);
        assert_eq!(head.fields.as_bytes(), b"ETag: 1\r\n");
    }

    #[test]
    fn a_status_field_sets_the_status_as_in_cgi() {
        let head = parse(200, "", &["Status: 410 Gone", "X-A: 1"]);
        assert_eq!((head.status, head.fields.as_bytes()), (410, &b"X-A: 1\r\n"[..]));
    }

    #[test]
    fn a_status_that_no_response_can_have_is_500() {
        for status in [-1, 0, 99, 103, 1000, 70000] {
            assert_eq!(parse(status, "", &[]).status, 500, "{status}");
        }
        assert_eq!(parse(999, "", &[]).status, 999);
    }
}
