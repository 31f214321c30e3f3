//! The header of a response, from the headers that a script set.
//!
//! Promises: status, reason phrase and fields can be sent as they are. Refuses: connection-specific fields, which belong
//! to the server, are dropped; the length is kept apart.

use svc_core::http::Fields;
use svc_core::pool::{Origin, ReplyHead};

use svc_ffi::PhpHead;

/// The response header if a script has set nothing.
pub(crate) fn plain_head() -> ReplyHead {
    ReplyHead {
        status: 200,
        reason: None,
        fields: Fields::new(),
        content_length: None,
        origin: Origin::Script,
    }
}

/// Sorts the lines that a script set into the parts of a response header. Malformed lines, and fields that a script may
/// not set, are dropped.
pub(crate) fn reply_head(head: &PhpHead<'_>) -> ReplyHead {
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
            // CGI scripts set the status this way.
            status = leading_number(value).unwrap_or(status);
        } else if head.status == 304 && name.eq_ignore_ascii_case(b"content-type") {
            // PHP's default would replace the type of the client's copy.
        } else {
            // PHP rejects line breaks in headers; other malformed fields are dropped here.
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

/// Fields that only the server sets, because it frames the message and manages the connection.
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

/// Returns the reason phrase of a line like `HTTP/1.1 404 Nothing here`, if it is valid and the line has this `status`:
/// the script may have changed the status since.
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
        reply_head(&PhpHead { status, status_line: status_line.as_bytes(), lines })
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
