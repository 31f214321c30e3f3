//! The invariants for arbitrary bytes, shared by the fuzzer and the tests that replay its corpus.
//!
//! Each function panics when an invariant is violated, and otherwise returns the verdict in words.

mod connection;

use svc_core::cache::{CacheKey, Directives, NamePatterns, UrlParts, dictionary};
use svc_core::files::{Candidate, RoutingMode, route};
use svc_core::http::encode::is_server_field;
use svc_core::http::forwarded::{Hop, forwarded, x_forwarded_for};
use svc_core::http::range::{RangeSelection, content_range, select};
use svc_core::http::uri::{encode_path, has_dot_segment_file, normalise};
use svc_core::http::{
    BodyDecoder, BodyError, BodyFraming, Choice, Coding, Fields, FreshIds, HeadError, HeadLimits, HeadReader,
    NamedFile, Parsed, Trace, choose, parse,
};
use svc_core::limits::RANGES_MAX;
use svc_core::policy::header_rules::HeaderRules;
use svc_core::trace::{SqlDialect, Statement, Statements, summarize, without_literals};

/// The limit on decoded bodies.
const BODY_BYTES_MAX: u64 = 1 << 20;

/// Reads a request head, whole and byte by byte.
pub fn head(bytes: &[u8]) -> String {
    let limits = HeadLimits::main_port();
    let whole = parse(bytes, limits);
    let dripped = drip(bytes, limits);
    match (&whole, &dripped) {
        (Ok(Parsed::Complete { .. }), Ok(Parsed::Complete { .. }))
        | (Ok(Parsed::Partial), Ok(Parsed::Partial)) => {
            assert_eq!(format!("{whole:?}"), format!("{dripped:?}"), "drips read differently");
        }
        (Err(_), Err(_)) => {}
        _ => panic!("whole {whole:?}, dripped {dripped:?}"),
    }
    match whole {
        Ok(Parsed::Partial) => "partial".into(),
        Ok(parsed @ Parsed::Complete { .. }) => complete(bytes, &parsed),
        Err(error) => error.status().to_string(),
    }
}

/// Serves a connection.
pub fn connection(bytes: &[u8]) -> String {
    connection::serve_sample(bytes)
}

/// Decodes a chunked body, whole and byte by byte.
pub fn chunked(bytes: &[u8]) -> String {
    let whole = decode(bytes, bytes.len().max(1));
    let dripped = decode(bytes, 1);
    assert_eq!(whole, dripped, "drips decode differently");
    match whole {
        Ok((body, consumed, done)) => {
            assert!(consumed <= bytes.len() && body.len() < consumed.max(1));
            assert!(done || consumed == bytes.len(), "stopped before the end");
            if done { "200".into() } else { "partial".into() }
        }
        Err(error) => error.status().to_string(),
    }
}

/// Reads a field of a response that may name a file.
pub fn named_file(bytes: &[u8]) -> String {
    let colon = bytes.iter().position(|&byte| byte == b':').unwrap_or(bytes.len());
    let value = bytes.get(colon + 1..).unwrap_or_default().trim_ascii();
    let Some(named) = NamedFile::of(&bytes[..colon], value) else { return "other".into() };
    assert_eq!(named.as_written(), value);
    let Some(path) = named.path() else { return "refused".into() };
    assert!(path.starts_with(b"/") && !path.contains(&0));
    let segments: Vec<_> = path[1..].split(|&byte| byte == b'/').collect();
    for (index, segment) in segments.iter().enumerate() {
        assert!(*segment != b"." && *segment != b"..", "a dot segment is left");
        assert!(!segment.is_empty() || index + 1 == segments.len(), "an empty segment is left");
    }
    "path".into()
}

/// Reads a file of fields for responses, and applies it.
pub fn headers_file(bytes: &[u8]) -> String {
    let rules = match HeaderRules::parse(bytes) {
        Ok(rules) => rules,
        Err(lines) => {
            assert!(!lines.is_empty() && lines.windows(2).all(|pair| pair[0].0 < pair[1].0));
            return "invalid".into();
        }
    };
    assert!(rules.is_loaded());
    for path in [&b"/"[..], b"/a", b"/a/b.css", b"/\xff"] {
        let mut once = Fields::new();
        rules.apply(path, &mut once, false);
        let mut twice = once.clone();
        rules.apply(path, &mut twice, true);
        assert_eq!(once, twice, "what is there is kept");
        assert!(once.iter().all(|(name, _)| !is_server_field(name)));
    }
    "valid".into()
}

/// Normalises a path and routes it in each mode.
pub fn uri(bytes: &[u8]) -> String {
    let path = match normalise(bytes) {
        Ok(normalised) => normalised.path,
        Err(error) => return error.status().to_string(),
    };
    assert!(path.starts_with(b"/") && !path.contains(&0));
    let segments: Vec<_> = path[1..].split(|&byte| byte == b'/').collect();
    for (index, segment) in segments.iter().enumerate() {
        assert!(*segment != b"." && *segment != b"..", "a dot segment is left");
        assert!(!segment.is_empty() || index + 1 == segments.len(), "an empty segment is left");
    }
    let again = normalise(encode_path(&path).as_bytes()).map(|normalised| normalised.path);
    assert_eq!(again.as_ref(), Ok(&path), "encoding does not lead back");
    for entry_file in [None, Some("index.php"), Some("app.html")] {
        let mode = RoutingMode::from_entry_file(entry_file);
        for candidate in route(&mode, &path) {
            check(&path, &candidate);
            assert!(!has_dot_segment_file(candidate.path()), "a dot-file is a candidate");
        }
    }
    if has_dot_segment_file(&path) { "hidden".into() } else { "200".into() }
}

/// Negotiates the coding of a response; each line of the sample is a separate field.
pub fn accept_encoding(bytes: &[u8]) -> String {
    let lines = || bytes.split(|&byte| byte == b'\n');
    let chosen = choose(lines(), &Coding::ALL);
    let joined = lines().collect::<Vec<_>>().join(&b',');
    assert_eq!(choose([&joined[..]], &Coding::ALL), chosen, "fields read differently in one");
    assert_eq!(choose([&joined.to_ascii_uppercase()[..]], &Coding::ALL), chosen, "letter case matters");
    for offered in Coding::ALL.map(|coding| [coding]) {
        let alone = choose(lines(), &offered);
        match chosen {
            Choice::Coded(coding) if offered == [coding] => assert_eq!(alone, chosen, "not wanted alone"),
            Choice::Coded(_) => assert!(!matches!(alone, Choice::Coded(coding) if offered != [coding])),
            Choice::Identity | Choice::Nothing => assert_eq!(alone, chosen, "less on offer, more to choose"),
        }
    }
    assert!(!matches!(choose(lines(), &[]), Choice::Coded(_)), "a coding that is not offered");
    match chosen {
        Choice::Coded(coding) => coding.token().into(),
        Choice::Identity => "identity".into(),
        Choice::Nothing => "nothing".into(),
    }
}

/// Reads a query in every dialect: replacing values a second time changes nothing.
pub fn query(bytes: &[u8]) -> String {
    let dialects = [SqlDialect::MySql, SqlDialect::PostgreSql, SqlDialect::Standard, SqlDialect::Loose];
    for dialect in dialects.into_iter().chain(dialects.map(SqlDialect::with_other_backslash)) {
        let masked = without_literals(bytes, dialect);
        assert!(masked.len() <= bytes.len());
        assert_eq!(without_literals(&masked, dialect), masked, "a value was left, or made");
        let mut statements = Statements::default();
        for text in [bytes, &masked] {
            let expected = Statement::of(text, dialect, false);
            assert_eq!(*statements.describe(text, dialect, false), expected, "a kept one differs");
        }
        let summary = summarize(bytes, dialect);
        assert!(summary.text.len() <= 255 && summary.operation.len() <= 3 * 128);
    }
    let operation = summarize(bytes, SqlDialect::MySql).operation.to_lowercase();
    if operation.is_empty() { "none".into() } else { operation }
}

/// Reads forwarding fields in both formats; a line feed ends a line.
pub fn hops(bytes: &[u8]) -> String {
    let lines: Vec<&[u8]> = bytes.split(|&byte| byte == b'\n').collect();
    let by_standard: Vec<Hop> = forwarded(&lines).collect();
    let by_older: Vec<Hop> = x_forwarded_for(&lines).collect();
    let commas = bytes.iter().filter(|&&byte| byte == b',').count();
    assert!(by_standard.len() <= lines.len() + commas && by_older.len() == lines.len() + commas);
    for (near, entry) in [("for=192.0.2.7;proto=https", true), ("192.0.2.7", false)] {
        // The nearest proxy's entry is read the same, whatever precedes it.
        let line = [bytes, b", ", near.as_bytes()].concat();
        let lines = vec![&line[..]];
        let nearest = if entry { forwarded(&lines).next() } else { x_forwarded_for(&lines).next() };
        let Some(Hop::Known(element)) = nearest else { panic!("the nearest proxy is not understood") };
        assert_eq!(element.address, Some([192, 0, 2, 7].into()));
        assert_eq!(element.https, entry.then_some(true));
    }
    for hop in by_standard.iter().chain(&by_older) {
        if let Hop::Known(element) = hop {
            assert!(element.address.is_none_or(|address| address == address.to_canonical()));
            assert!(
                element
                    .host
                    .as_ref()
                    .is_none_or(|host| !host.is_empty() && host.iter().all(u8::is_ascii_graphic))
            );
        }
    }
    let count = |hops: &[Hop]| hops.iter().take_while(|hop| matches!(hop, Hop::Known(_))).count();
    format!("{}and{}", count(&by_standard), count(&by_older))
}

/// Joins or begins a trace; the lines are the values of `traceparent`, an empty line, and those of `tracestate`.
pub fn trace(bytes: &[u8]) -> String {
    let mut text = b"GET / HTTP/1.1\r\nHost: h\r\n".to_vec();
    let mut name: &[u8] = b"traceparent: ";
    for line in bytes.split(|&byte| byte == b'\n') {
        if line.is_empty() {
            name = b"tracestate: ";
        } else {
            text.extend_from_slice(&[name, line, b"\r\n"].concat());
        }
    }
    text.extend_from_slice(b"\r\n");
    let Ok(Parsed::Complete { head, .. }) = parse(&text, HeadLimits::main_port()) else {
        return "nohead".into();
    };
    let fresh = FreshIds { trace_id: 1, span_id: 2 };
    let trace = Trace::of(&head, fresh);
    let state = trace.tracestate().map_or(&b""[..], |state| state.as_bytes());
    assert!(state.len() <= 512 && state.iter().all(|byte| matches!(byte, b' '..=b'~')));
    // The next service joins the propagated trace unchanged.
    let onward = [
        b"GET / HTTP/1.1\r\nHost: h\r\ntraceparent: ",
        trace.traceparent().as_bytes(),
        b"\r\ntracestate: ",
        state,
        b"\r\n\r\n",
    ]
    .concat();
    let Ok(Parsed::Complete { head, .. }) = parse(&onward, HeadLimits::main_port()) else {
        panic!("no head")
    };
    let next = Trace::of(&head, fresh);
    assert_eq!((next.traceparent(), next.tracestate()), (trace.traceparent(), trace.tracestate()));
    assert_eq!(next.parent_id(), Some(trace.span_id()));
    let begun = trace.trace_id() == fresh.trace_id;
    assert!(!begun || state.is_empty());
    format!(
        "{}{}",
        if begun { "begun" } else { "joined" },
        state.split(|&byte| byte == b',').filter(|member| !member.is_empty()).count()
    )
}

/// Selects ranges of representations of several lengths; the verdict is the one for ten thousand bytes.
pub fn range(bytes: &[u8]) -> String {
    let mut verdict = String::new();
    for length in [0, 1, 100, u64::MAX, 10_000] {
        let (status, parts) = match select([bytes], length) {
            RangeSelection::Whole => (200, Vec::new()),
            RangeSelection::Unsatisfiable => (416, Vec::new()),
            RangeSelection::Part(part) => (206, vec![part]),
            RangeSelection::Parts(parts) => {
                assert!((2..=RANGES_MAX).contains(&parts.len()), "several are two or more");
                (206, parts)
            }
        };
        let mut by_start = parts.clone();
        by_start.sort_by_key(|part| part.start);
        for part in &by_start {
            assert!(part.start < part.end && part.end <= length, "{part:?} of {length}");
            assert!(content_range(part, length).starts_with("bytes "));
        }
        assert!(by_start.windows(2).all(|pair| pair[0].end < pair[1].start), "parts touch");
        let sent: u128 = parts.iter().map(|part| u128::from(part.end - part.start)).sum();
        assert!(sent <= u128::from(length), "more is sent than there is");
        verdict = status.to_string();
    }
    verdict
}

fn drip(bytes: &[u8], limits: HeadLimits) -> Result<Parsed, HeadError> {
    let mut reader = HeadReader::new(limits);
    for end in 1..=bytes.len() {
        match reader.read(&bytes[..end]) {
            Ok(Parsed::Partial) => {}
            settled => return settled,
        }
    }
    Ok(Parsed::Partial)
}

fn complete(bytes: &[u8], parsed: &Parsed) -> String {
    let Parsed::Complete { head, length, framing, expect_continue, .. } = parsed else { unreachable!() };
    assert!(*length <= bytes.len() && bytes[..*length].ends_with(b"\r\n\r\n"));
    let mut lengths = 0;
    let mut codings = 0;
    for (name, value) in head.headers() {
        assert!(!value.iter().any(|byte| matches!(byte, b'\r' | b'\n' | 0)), "a value hides a line");
        assert!(
            !name.iter().any(|byte| matches!(byte, b' ' | b'\t' | b'\r' | b'\n' | 0)),
            "a name hides a byte"
        );
        lengths += usize::from(name.eq_ignore_ascii_case(b"content-length"));
        codings += usize::from(name.eq_ignore_ascii_case(b"transfer-encoding"));
    }
    match framing {
        BodyFraming::None => assert_eq!((lengths, codings), (0, 0)),
        BodyFraming::Length(_) => assert_eq!((lengths, codings), (1, 0)),
        BodyFraming::Chunked => assert_eq!((lengths, codings), (0, 1)),
        BodyFraming::Framed => panic!("no field says that"),
    }
    assert!(!expect_continue || *framing != BodyFraming::None);
    assert!(!head.target().is_empty() && !head.method().is_empty());
    let followed = [&bytes[..*length], b"GET / HTTP/1.1\r\n\r\n"].concat();
    let again = parse(&followed, HeadLimits::main_port());
    assert_eq!(
        format!("{:?}", Ok::<_, HeadError>(parsed)),
        format!("{again:?}"),
        "what follows changes the head"
    );
    "200".into()
}

fn decode(bytes: &[u8], step: usize) -> Result<(Vec<u8>, usize, bool), BodyError> {
    let mut decoder = BodyDecoder::new(BodyFraming::Chunked, BODY_BYTES_MAX)?;
    let (mut body, mut consumed) = (Vec::new(), 0);
    for piece in bytes.chunks(step) {
        let progress = decoder.decode(piece, &mut body)?;
        consumed += progress.consumed;
        if progress.done {
            break;
        }
        assert_eq!(progress.consumed, piece.len(), "bytes are left without an end");
    }
    assert!(body.len() as u64 <= BODY_BYTES_MAX);
    Ok((body, consumed, decoder.is_done()))
}

fn check(path: &[u8], candidate: &Candidate) {
    match candidate {
        // The response redirects to this path, whose file is never sent.
        Candidate::IndexOfDirectory { path: index } => assert!(index.starts_with(path)),
        Candidate::FileOrDirectory { path } | Candidate::Static { path } => {
            let ending = path.len().saturating_sub(4);
            assert!(!path[ending..].eq_ignore_ascii_case(b".php"), "a source would be sent");
        }
        Candidate::Script { name, path_info } => {
            assert!(name.ends_with(b".php"), "what is no script would be run");
            assert!(path_info.is_empty() || path_info.starts_with(b"/"));
            assert!(
                path_info.is_empty() || [&name[..], path_info].concat() == path,
                "the split lost something"
            );
        }
    }
}

/// The fields that control caches: a targeted one is valid as a whole or not at all, and the verdict is the number of
/// its members; the same bytes as `Cache-Control` are always readable.
pub(crate) fn cache_control(bytes: &[u8]) -> String {
    let members = dictionary(bytes);
    let targeted = Directives::targeted(bytes);
    assert_eq!(targeted.is_some(), members.as_ref().is_some_and(|members| !members.is_empty()));
    for directives in [Some(Directives::plain(bytes)), targeted].into_iter().flatten() {
        let times = [
            directives.max_age,
            directives.s_maxage,
            directives.stale_while_revalidate,
            directives.stale_if_error,
        ];
        assert!(times.into_iter().flatten().all(|time| time.as_secs() <= 1 << 31));
    }
    members.map_or_else(|| "invalid".to_owned(), |members| members.len().to_string())
}

/// URLs that scripts name: a URL that is one has a key that is a URL again, and the same.
pub(crate) fn cache_url(bytes: &[u8]) -> String {
    let none = NamePatterns::default();
    let base = UrlParts { is_https: true, host: b"h", port: None, path: b"/a/b", query: None };
    let Some(url) = UrlParts::parse(bytes, Some(base)) else { return "none".to_owned() };
    let key = CacheKey::new(url, &none);
    let again = UrlParts::parse(key.as_bytes(), None).map(|url| CacheKey::new(url, &none));
    if !bytes.contains(&b'#') && !url.host.iter().any(|byte| b"@/?#".contains(byte)) {
        assert_eq!(again.as_ref(), Some(&key));
    }
    let ignoring = CacheKey::new(url, &NamePatterns::new(["*"]));
    assert!(ignoring.len() <= key.len());
    "url".to_owned()
}

/// Checks the bytes of a FastCGI responder. Returns `complete`, `open`, or the name of the fault.
pub(crate) fn fastcgi(bytes: &[u8]) -> String {
    let whole = fastcgi_response(bytes, bytes.len().max(1));
    assert_eq!(whole, fastcgi_response(bytes, 1), "the outcome does not depend on how bytes arrive");
    assert!(whole.0.len() <= bytes.len(), "no content is invented");
    whole.1
}

/// Passes bytes in parts of `step` to a connection with one request; returns the content and the verdict.
fn fastcgi_response(bytes: &[u8], step: usize) -> (Vec<u8>, String) {
    use svc_core::fastcgi::{Connection, Event};
    let mut connection = Connection::new(true);
    let mut request = Vec::new();
    connection.begin([], &mut request);
    connection.end_body(&mut request);
    let mut content = Vec::new();
    for mut part in bytes.chunks(step) {
        loop {
            match connection.receive(&mut part) {
                Ok(None) => break,
                Ok(Some(Event::Head(head))) => {
                    head.lines.iter().for_each(|line| content.extend_from_slice(line));
                }
                Ok(Some(Event::Body(bytes) | Event::Stderr(bytes))) => content.extend_from_slice(bytes),
                Ok(Some(Event::End { .. })) => assert!(connection.closed().is_none(), "it has ended"),
                Err(fault) => {
                    let name = format!("{fault:?}");
                    let end = name.find(|letter: char| !letter.is_ascii_alphanumeric()).unwrap_or(name.len());
                    return (content, name[..end].to_lowercase());
                }
            }
        }
        assert!(part.is_empty(), "all bytes are taken");
    }
    let verdict = if connection.closed().is_some() { "open" } else { "complete" };
    (content, verdict.to_owned())
}
