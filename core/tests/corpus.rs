//! Replays the fuzzer's corpus: each sample must keep the invariants and get the verdict that its name begins with.

#[path = "../../fuzz/invariants.rs"]
pub mod invariants;

use std::path::Path;

use proptest::prelude::*;

/// Replays one folder of samples named `VERDICT-what-it-shows.seed`.
fn replay(folder: &str, verdict_of: fn(&[u8]) -> String) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fuzz/corpus").join(folder);
    let mut seen = 0;
    let mut wrong = Vec::new();
    for entry in std::fs::read_dir(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display())) {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|ending| ending != "seed") {
            continue;
        }
        let name = path.file_stem().unwrap().to_string_lossy().into_owned();
        let verdict = verdict_of(&std::fs::read(&path).unwrap());
        if !name.starts_with(&format!("{verdict}-")) {
            wrong.push(format!("{name}: {verdict}"));
        }
        seen += 1;
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert!(seen >= 20, "{folder}: only {seen} samples");
}

#[test]
fn request_heads_get_their_verdicts() {
    replay("head", invariants::head);
}

#[test]
fn named_files_get_their_verdicts() {
    replay("named_file", invariants::named_file);
}

#[test]
fn responses_of_fastcgi_get_their_verdicts() {
    replay("fastcgi", invariants::fastcgi);
}

#[test]
fn header_files_get_their_verdicts() {
    replay("headers_file", invariants::headers_file);
}

#[test]
fn fields_that_control_caches_get_their_verdicts() {
    replay("cache_control", invariants::cache_control);
}

#[test]
fn urls_that_scripts_name_get_their_verdicts() {
    replay("cache_url", invariants::cache_url);
}

#[test]
fn chunked_bodies_get_their_verdicts() {
    replay("chunked", invariants::chunked);
}

#[test]
fn connections_get_their_verdicts() {
    replay("connection", invariants::connection);
}

#[test]
fn paths_get_their_verdicts() {
    replay("uri", invariants::uri);
}

#[test]
fn accepted_codings_get_their_verdicts() {
    replay("accept_encoding", invariants::accept_encoding);
}

#[test]
fn fields_of_proxies_get_their_verdicts() {
    replay("forwarded", invariants::hops);
}

#[test]
fn queries_get_their_verdicts() {
    replay("sql", invariants::query);
}

#[test]
fn trace_contexts_get_their_verdicts() {
    replay("trace_context", invariants::trace);
}

#[test]
fn ranges_get_their_verdicts() {
    replay("range", invariants::range);
}

/// Typical messages of HTTP/1 peers.
const WORDS: [&[u8]; 13] = [
    b"GET /a HTTP/1.1\r\nHost: h\r\n\r\n",
    b"HEAD /a HTTP/1.0\r\n\r\n",
    b"POST /a HTTP/1.1\r\nHost: h\r\n",
    b"\r\n",
    b"Content-Length: 5\r\n",
    b"Transfer-Encoding: chunked\r\n",
    b"Expect: 100-continue\r\n",
    b"Connection: close\r\n",
    b"hello",
    b"5\r\nhello\r\n",
    b"0\r\n\r\n",
    b"\0",
    b"\xff\xff\xff\xff",
];

proptest! {
    #[test]
    fn any_fields_of_proxies_keep_the_promises(
        words in prop::collection::vec(prop::sample::select(&[
            "for=", "proto=", "host=", "by=", "192.0.2.1", "[2001:db8::1]", ":80", "_x", "unknown", "https", "a", "\"", "\\",
            ",", ";", " ", "\t", "=", "\n", "\0", "\u{e9}",
        ][..]), 0..24),
    ) {
        invariants::hops(words.concat().as_bytes());
    }

    #[test]
    fn any_trace_context_keeps_the_promises(
        words in prop::collection::vec(prop::sample::select(&[
            "00-", "01-", "ff-", "0af7651916cd43dd8448eb211c80319c-", "b7ad6b7169203331-", "01", "-", "x", "\n", "\n\n", "a=1", "t@s=2",
            ",", " ", "=", "\u{e9}",
        ][..]), 0..24),
    ) {
        invariants::trace(words.concat().as_bytes());
    }

    #[test]
    fn whatever_a_peer_sends_keeps_the_promises(
        choices in any::<[u8; 4]>(),
        is_http2 in any::<bool>(),
        words in prop::collection::vec(prop::sample::select(&WORDS[..]), 0..24),
        frames in prop::collection::vec((0..11u8, 0..64u8, 0..9u8, 0..6usize), 0..40),
    ) {
        let payloads: [&[u8]; 6] = [
            b"", b"\0\0\0\x08", b"12345678", b"hello", b"\0\x04\0\0\0\x10",
            b"\0\x07:method\x04POST\0\x07:scheme\x04http\0\x0a:authority\x01h\0\x05:path\x02/a",
        ];
        let mut bytes = choices.to_vec();
        if is_http2 {
            bytes[0] |= 1;
            bytes.extend(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0");
            for (kind, flags, stream, payload) in frames {
                // Heads are usually complete.
                let (payload, flags) = if kind == 1 && flags < 60 { (5, flags & 1 | 4) } else { (payload, flags & 5) };
                bytes.extend([0, 0, payloads[payload].len() as u8, kind, flags, 0, 0, 0, stream]);
                bytes.extend(payloads[payload]);
            }
        } else {
            bytes.extend(words.concat());
        }
        invariants::connection(&bytes);
    }
}
