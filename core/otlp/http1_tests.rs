use super::*;
use crate::config::{ExportEndpoint, ExportSignal};

fn connection(protocol: ExportProtocol) -> Http1Conversation {
    let endpoint =
        ExportEndpoint { is_tls: false, host: "::1".to_owned(), port: 4318, target: "/v1/traces".to_owned() };
    Http1Conversation::new(&ExportConfig {
        signal: ExportSignal::Traces,
        protocol,
        endpoint,
        headers: vec![("X-Key".to_owned(), "hunter2".to_owned())],
        timeout: None,
        has_gzip: true,
        trusted: None,
        identity: None,
    })
}

/// Returns a connection whose export has been sent.
fn begun() -> Http1Conversation {
    let mut connection = connection(ExportProtocol::HttpProtobuf);
    connection.begin(&Payload(b"body"[..].into()));
    connection.output().clear();
    connection
}

/// Returns the result of an export with this response, received at once and byte by byte, and whether the connection is
/// reusable.
fn answered(response: &str, has_end: bool) -> (Option<Result<CollectorAnswer, ConnectionLost>>, bool) {
    let mut at_once = begun();
    at_once.receive(response.as_bytes());
    let mut by_byte = begun();
    response.as_bytes().iter().for_each(|byte| by_byte.receive(&[*byte]));
    if has_end {
        at_once.end();
        by_byte.end();
    }
    let answer = at_once.take_answer();
    assert_eq!(answer, by_byte.take_answer(), "{response:?}");
    assert_eq!(at_once.take_answer(), None, "an answer is given once");
    (answer, at_once.is_reusable())
}

fn accepted() -> Option<Result<CollectorAnswer, ConnectionLost>> {
    Some(Ok(CollectorAnswer::Accepted(PartialSuccess::default())))
}

fn refused(reason: &str) -> Option<Result<CollectorAnswer, ConnectionLost>> {
    Some(Ok(CollectorAnswer::refused(reason.to_owned())))
}

fn refused_with(reason: &str, advice: RetryAdvice) -> Option<Result<CollectorAnswer, ConnectionLost>> {
    Some(Ok(CollectorAnswer::Refused { reason: reason.to_owned(), advice }))
}

#[test]
fn a_request_follows_otlp() {
    let mut connection = connection(ExportProtocol::HttpJson);
    connection.begin(&Payload(b"{}"[..].into()));
    let sent = String::from_utf8(std::mem::take(connection.output())).unwrap();
    let version = env!("CARGO_PKG_VERSION");
    let expected = format!(
        "POST /v1/traces HTTP/1.1\r\nHost: [::1]:4318\r\nContent-Type: application/json\r\nContent-Encoding: gzip\r\n\
         user-agent: svc/{version} OTel-OTLP-Exporter-Rust/{version}\r\nX-Key: hunter2\r\nContent-Length: 2\r\n\r\n{{}}"
    );
    assert_eq!(sent, expected);
}

#[test]
fn answers_are_read_in_every_framing_and_leave_the_connection_as_they_say() {
    for (response, is_kept) in [
        ("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", true),
        ("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nab", true),
        ("HTTP/1.1 202 Accepted\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n0\r\n\r\n", true),
        ("HTTP/1.1 204 No Content\r\n\r\n", true),
        ("HTTP/1.1 200 OK\r\nConnection: Close\r\nContent-Length: 0\r\n\r\n", false),
        ("HTTP/1.0 200 OK\r\nContent-Length: 0\r\n\r\n", false),
        ("HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 0\r\n\r\n", true),
        ("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", true),
    ] {
        assert_eq!(answered(response, false), (accepted(), is_kept), "{response}");
    }
    assert_eq!(
        answered("HTTP/1.1 200 OK\r\n\r\nab", true),
        (accepted(), false),
        "the end is the end of the body"
    );
}

#[test]
fn a_status_is_an_answer_whatever_becomes_of_the_rest() {
    let late = "Retry-After: 1\r\nContent-Length: 9\r\n\r\nslow down";
    for status in [400, 401, 404, 413, 429, 500, 503] {
        let response = format!("HTTP/1.1 {status} No\r\n{late}");
        let reason = format!("HTTP {status}: slow down");
        let advice = match status {
            429 | 503 => RetryAdvice::After(Duration::from_secs(1)),
            _ => RetryAdvice::Never,
        };
        assert_eq!(answered(&response, false), (refused_with(&reason, advice), true));
    }
    assert_eq!(answered("HTTP/1.1 301 Moved\r\nContent-Length: 0\r\n\r\n", false).0, refused("HTTP 301"));
    assert_eq!(
        answered("HTTP/1.1 503 No\r\nContent-Length: 9\r\n\r\nslow", true),
        (refused_with("HTTP 503: slow", RetryAdvice::Later), false)
    );
    assert_eq!(answered("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nab", true), (accepted(), false));
}

#[test]
fn without_a_status_there_is_no_answer() {
    for part in ["", "HTTP/1.1 2", "HTTP/1.1 200 OK\r\nContent-Le", "HTTP/1.1 100 Continue\r\n\r\n"] {
        assert_eq!(answered(part, false).0, None, "{part}");
        assert_eq!(answered(part, true), (Some(Err(ConnectionLost::closed())), false), "{part}");
    }
}

#[test]
fn an_invalid_or_oversized_answer_is_a_refusal() {
    let odd = refused("with something other than HTTP");
    assert_eq!(answered("SSH-2.0-x\r\n", false), (odd.clone(), false));
    assert_eq!(answered("HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n", false), (odd.clone(), false));
    assert_eq!(
        answered(&format!("HTTP/1.1 200 OK\r\nA: {}", "x".repeat(EXPORT_HEAD_BYTES_MAX)), false),
        (odd, false)
    );
    let long = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", EXPORT_ANSWER_BYTES_MAX + 1);
    assert_eq!(answered(&long, false), (refused(TOO_LONG), false));
    let chunked = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n";
    assert_eq!(answered(chunked, false), (refused(TOO_LONG), false));
}

#[test]
fn a_connection_is_used_again_only_at_rest() {
    let mut connection = begun();
    assert!(!connection.is_reusable(), "an export is going on");
    connection.receive(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
    assert_eq!(connection.take_answer(), accepted());
    assert!(connection.is_reusable());
    connection.receive(b"HTTP/1.1 408 Timeout\r\n\r\n");
    assert!(!connection.is_reusable(), "without a request");
    assert!(!answered("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\nmore", false).1);
    // A response that arrives before the request has been sent completely.
    let mut early = self::connection(ExportProtocol::HttpProtobuf);
    early.begin(&Payload(b"body"[..].into()));
    early.receive(b"HTTP/1.1 413 No\r\nContent-Length: 0\r\n\r\n");
    assert_eq!(early.take_answer(), refused("HTTP 413"));
    assert!(!early.is_reusable());
}

#[test]
fn some_rejections_are_for_now_and_may_name_a_pause() {
    let date = "Date: Wed, 21 Oct 2026 07:28:00 GMT\r\n";
    let after = |seconds| RetryAdvice::After(Duration::from_secs(seconds));
    for (status, fields, advice) in [
        (429, "", RetryAdvice::Later),
        (502, "Retry-After: 7\r\n", after(7)),
        (503, "retry-after:  0 \r\n", after(0)),
        (504, "Retry-After: soon\r\n", RetryAdvice::Later),
        (503, "Retry-After: -1\r\n", RetryAdvice::Later),
        (503, &format!("{date}Retry-After: Wed, 21 Oct 2026 07:29:30 GMT\r\n"), after(90)),
        (503, &format!("{date}Retry-After: Wed, 21 Oct 2026 07:00:00 GMT\r\n"), after(0)),
        (503, "Retry-After: Wed, 21 Oct 2026 07:29:30 GMT\r\n", RetryAdvice::Later),
        (400, "Retry-After: 7\r\n", RetryAdvice::Never),
        (500, "Retry-After: 7\r\n", RetryAdvice::Never),
        (501, "", RetryAdvice::Never),
    ] {
        let response = format!("HTTP/1.1 {status} X\r\n{fields}Content-Length: 0\r\n\r\n");
        let expected = refused_with(&format!("HTTP {status}"), advice);
        assert_eq!(answered(&response, false).0, expected, "{response}");
    }
}
