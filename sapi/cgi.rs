//! The variables in `$_SERVER`, according to CGI/1.1 (RFC 3875) and to what nginx and Apache pass to PHP.
//!
//! Values are the client's bytes, unescaped. Fields of the same name are joined. Field names that could be mistaken for
//! others, such as `Proxy`, are left out. Bodies and routing are handled elsewhere.

use std::borrow::Cow;

use base64::alphabet;
use base64::engine::{DecodePaddingMode, Engine, GeneralPurpose, GeneralPurposeConfig};
use svc_core::http::{Head, Version, asks_for_named_files, ip_text, is_cgi_safe_name};
use svc_core::pool::{CompleteRequest, Script};

use crate::variables::Variables;

/// The value of `SERVER_SOFTWARE`.
const SOFTWARE: &str = concat!("svc/", env!("CARGO_PKG_VERSION"));

/// Appends all variables of `request`, which runs `script`. PHP adds `PHP_AUTH_*`, `REQUEST_TIME` and `argv` itself.
pub(crate) fn variables(request: &CompleteRequest, script: &Script, out: &mut Variables<'_>) {
    server(request, out);
    of_script(script, out);
    let head = &request.head;
    let is_framed = || head.header("content-length").is_some() || head.header("transfer-encoding").is_some();
    let has_length = !request.body.is_empty() || is_framed();
    // Both are always set, even if they are empty.
    let mut digits = [0; 20];
    out.push(b"CONTENT_LENGTH", if has_length { decimal(&mut digits, request.body.len()) } else { b"" });
    out.push(b"CONTENT_TYPE", head.header("content-type").unwrap_or_default());
    if let Some(trace) = &request.trace {
        out.push(b"SVC_TRACE_ID", trace.traceparent().trace_id());
    }
    fields(request, out);
}

/// The request that a booting script sees: applications read it immediately, and many need a method and a target.
#[cfg(feature = "php")]
const BOOT_REQUEST: [(&[u8], &[u8]); 16] = [
    (b"GATEWAY_INTERFACE", b"CGI/1.1"),
    (b"SERVER_SOFTWARE", SOFTWARE.as_bytes()),
    (b"SERVER_PROTOCOL", b"HTTP/1.1"),
    (b"REDIRECT_STATUS", b"200"),
    (b"SERVER_NAME", b"localhost"),
    (b"SERVER_ADDR", b"127.0.0.1"),
    (b"SERVER_PORT", b"80"),
    (b"REMOTE_ADDR", b"127.0.0.1"),
    (b"REMOTE_PORT", b"0"),
    (b"REQUEST_METHOD", b"GET"),
    (b"REQUEST_URI", b"/"),
    (b"QUERY_STRING", b""),
    (b"REQUEST_SCHEME", b"http"),
    (b"CONTENT_LENGTH", b""),
    (b"CONTENT_TYPE", b""),
    (b"HTTP_HOST", b"localhost"),
];

/// Appends the variables for the boot script of a worker: those of a GET for `/`.
#[cfg(feature = "php")]
pub(crate) fn boot_variables(document_root: &[u8], name: &[u8], filename: &[u8], out: &mut Variables<'_>) {
    boot_request(document_root, name, filename, out);
    // The runtimes of Symfony and Laravel check this before they call frankenphp_handle_request().
    out.push(b"FRANKENPHP_WORKER", b"1");
}

/// Appends the variables for the script that boots a task thread: also those of a GET for `/`.
#[cfg(feature = "php")]
pub(crate) fn entry_variables(document_root: &[u8], filename: &[u8], out: &mut Variables<'_>) {
    let folder = filename.iter().rposition(|&byte| byte == b'/').unwrap_or(0);
    boot_request(document_root, &filename[folder..], filename, out);
}

#[cfg(feature = "php")]
fn boot_request(document_root: &[u8], name: &[u8], filename: &[u8], out: &mut Variables<'_>) {
    for (name, value) in BOOT_REQUEST {
        out.push(name, value);
    }
    out.push(b"DOCUMENT_ROOT", document_root);
    out.push(b"SCRIPT_FILENAME", filename);
    out.push(b"SCRIPT_NAME", name);
    out.push(b"DOCUMENT_URI", name);
    out.push(b"PHP_SELF", name);
}

/// Appends the variables of tasks, which have no client.
#[cfg(feature = "php")]
pub(crate) fn task_variables(document_root: &[u8], out: &mut Variables<'_>) {
    out.push(b"SERVER_SOFTWARE", SOFTWARE.as_bytes());
    out.push(b"DOCUMENT_ROOT", document_root);
}

fn server(request: &CompleteRequest, out: &mut Variables<'_>) {
    let head = &request.head;
    let local = ip_text(request.local.ip());
    let mut digits = [0; 20];
    out.push(b"GATEWAY_INTERFACE", b"CGI/1.1");
    out.push(b"SERVER_SOFTWARE", SOFTWARE.as_bytes());
    out.push(b"SERVER_PROTOCOL", protocol(head.version()).as_bytes());
    // php-cgi requires it if built with --enable-force-cgi-redirect, so web servers set it.
    out.push(b"REDIRECT_STATUS", b"200");
    let (host, port) = &request.asked;
    let host = host.as_deref().or_else(|| head.host());
    out.push(b"SERVER_NAME", &host.map_or(Cow::Borrowed(local.as_bytes()), server_name));
    out.push(b"SERVER_ADDR", local.as_bytes());
    out.push(b"SERVER_PORT", decimal(&mut digits, port.unwrap_or(request.local.port()).into()));
    out.push(b"REMOTE_ADDR", ip_text(request.client.ip()).as_bytes());
    out.push(b"REMOTE_PORT", decimal(&mut digits, u64::from(request.client.port())));
    out.push(b"REMOTE_USER", &remote_user(head));
    out.push(b"REQUEST_METHOD", head.method().as_bytes());
    out.push(b"REQUEST_URI", &head.request_uri());
    out.push(b"QUERY_STRING", head.path_and_query().1.unwrap_or_default());
    if request.https {
        out.push(b"REQUEST_SCHEME", b"https");
        out.push(b"HTTPS", b"on");
    } else {
        out.push(b"REQUEST_SCHEME", b"http");
    }
    if let Some(tls) = &request.tls {
        out.push(b"SSL_PROTOCOL", tls.protocol.as_bytes());
        out.push(b"SSL_CIPHER", tls.cipher.as_bytes());
        if let Some(name) = &tls.server_name {
            out.push(b"SSL_TLS_SNI", name.as_bytes());
        }
    }
}

/// Returns the user name claimed with HTTP Basic authentication, as nginx's `$remote_user`; empty if there is none. The
/// password has not been checked.
fn remote_user(head: &Head) -> Vec<u8> {
    let credentials = head.header("authorization").unwrap_or_default();
    let Some((scheme, encoded)) = credentials.split_first_chunk::<6>() else { return Vec::new() };
    if !scheme.eq_ignore_ascii_case(b"basic ") {
        return Vec::new();
    }
    let mut user = BASE64.decode(encoded.trim_ascii()).unwrap_or_default();
    user.truncate(user.iter().position(|&byte| byte == b':').unwrap_or_default());
    if user.contains(&0) { Vec::new() } else { user }
}

/// Accepts credentials with and without padding, as clients differ.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &alphabet::STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

fn of_script(script: &Script, out: &mut Variables<'_>) {
    let whole = [&script.name[..], &script.path_info].concat();
    out.push(b"DOCUMENT_ROOT", &script.document_root);
    out.push(b"SCRIPT_FILENAME", &script.filename);
    out.push(b"SCRIPT_NAME", &script.name);
    out.push(b"DOCUMENT_URI", &whole);
    out.push(b"PHP_SELF", &whole);
    if !script.path_info.is_empty() {
        out.push(b"PATH_INFO", &script.path_info);
        out.push(b"PATH_TRANSLATED", &[&script.document_root[..], &script.path_info].concat());
    }
}

/// Appends `HTTP_*`: the fields whose names cannot be mistaken for others.
fn fields(request: &CompleteRequest, out: &mut Variables<'_>) {
    for (name, value) in joined_fields(request) {
        out.push_field(name, &value);
    }
}

/// Returns the fields as scripts see them: those of the client, except for trace fields if the server has a span in the
/// trace, and for the fields by which a proxy requests file names.
pub(crate) fn joined_fields(request: &CompleteRequest) -> impl Iterator<Item = (&[u8], Cow<'_, [u8]>)> {
    let trace = request.trace.as_ref().filter(|trace| !trace.is_private());
    let of_trace = move |name: &[u8]| {
        trace.is_some()
            && (name.eq_ignore_ascii_case(b"traceparent") || name.eq_ignore_ascii_case(b"tracestate"))
    };
    let parent = trace.map(|trace| (&b"traceparent"[..], Cow::Borrowed(trace.traceparent().as_bytes())));
    let state =
        trace.and_then(|trace| Some((&b"tracestate"[..], Cow::Borrowed(trace.tracestate()?.as_bytes()))));
    let client = client_fields(&request.head);
    let is_passed =
        move |name: &[u8]| is_cgi_safe_name(name) && !of_trace(name) && !asks_for_named_files(name);
    client.filter(move |(name, _)| is_passed(name)).chain(parent).chain(state)
}

/// Returns each name once, at its first position, with all values joined. A host in the request target takes precedence
/// over the field, and replaces it if it is missing, as HTTP/1.0 allows.
fn client_fields(head: &Head) -> impl Iterator<Item = (&[u8], Cow<'_, [u8]>)> {
    let host = head.host().filter(|_| head.header("host").is_none());
    let host = host.map(|host| (&b"host"[..], Cow::Borrowed(host)));
    let fields = head.headers().enumerate().filter_map(|(index, (name, value))| {
        let same = |other: &[u8]| other.eq_ignore_ascii_case(name);
        if head.headers().take(index).any(|(earlier, _)| same(earlier)) {
            return None;
        }
        if same(b"host") {
            return Some((name, Cow::Borrowed(head.host().unwrap_or(value))));
        }
        let mut rest = head.headers().skip(index + 1).filter(|(later, _)| same(later)).peekable();
        if rest.peek().is_none() {
            return Some((name, Cow::Borrowed(value)));
        }
        let separator: &[u8] = if same(b"cookie") { b"; " } else { b", " };
        let joined = rest.fold(value.to_vec(), |mut all, (_, next)| {
            all.extend_from_slice(separator);
            all.extend_from_slice(next);
            all
        });
        Some((name, Cow::Owned(joined)))
    });
    host.into_iter().chain(fields)
}

/// Returns all `Cookie` fields, joined into one; `None` if there are none.
#[cfg(feature = "php")]
pub(crate) fn cookies(head: &Head) -> Option<Vec<u8>> {
    let mut values = head.header_values("cookie");
    let mut joined = values.next()?.to_vec();
    for value in values {
        joined.extend_from_slice(b"; ");
        joined.extend_from_slice(value);
    }
    Some(joined)
}

/// Returns the name of the protocol in CGI's form.
fn protocol(version: Version) -> &'static str {
    match version {
        Version::Http10 => "HTTP/1.0",
        Version::Http11 => "HTTP/1.1",
        Version::Http2 => "HTTP/2.0",
    }
}

/// Returns the name of a host in nginx's form: without the port, in lower case, and without a trailing dot.
fn server_name(host: &[u8]) -> Cow<'_, [u8]> {
    let name = without_port(host);
    let name = name.strip_suffix(b".").unwrap_or(name);
    if name.iter().any(u8::is_ascii_uppercase) {
        Cow::Owned(name.to_ascii_lowercase())
    } else {
        Cow::Borrowed(name)
    }
}

/// Removes the port from `host:port` and `[v6]:port`; the brackets stay.
fn without_port(host: &[u8]) -> &[u8] {
    let end = match host.iter().rposition(|&byte| byte == b':') {
        Some(colon) if host[colon + 1..].iter().all(u8::is_ascii_digit) => colon,
        _ => host.len(),
    };
    &host[..end]
}

fn decimal(buf: &mut [u8; 20], mut number: u64) -> &[u8] {
    let mut at = buf.len();
    loop {
        at -= 1;
        buf[at] = b'0' + (number % 10) as u8;
        number /= 10;
        if number == 0 {
            return &buf[at..];
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use svc_core::http::{FreshIds, HeadReader, Parsed, Trace};
    use svc_core::pool::{Body, Script};
    use svc_ffi::Pairs;

    use super::*;

    fn head(text: &str) -> Head {
        match HeadReader::default().read(text.as_bytes()) {
            Ok(Parsed::Complete { head, .. }) => head,
            other => panic!("not a head: {other:?}"),
        }
    }

    fn all(text: &str, script: Script, body: Body) -> Vec<(String, String)> {
        pairs(&request(text, script, body))
    }

    fn request(text: &str, script: Script, body: Body) -> CompleteRequest {
        CompleteRequest {
            head: head(text).into(),
            body,
            script: script.into(),
            client: "[::ffff:192.0.2.7]:4711".parse().unwrap(),
            local: "127.0.0.1:8080".parse().unwrap(),
            https: false,
            tls: None,
            asked: (None, None),
            trace: None,
            span: None,
            request_id: "r".into(),
            received_at: SystemTime::UNIX_EPOCH,
            recorder: None,
        }
    }

    fn pairs(request: &CompleteRequest) -> Vec<(String, String)> {
        pairs_with(request, &[])
    }

    fn pairs_with(request: &CompleteRequest, set: &[(&str, &str)]) -> Vec<(String, String)> {
        let set: Vec<_> = set.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect();
        let mut pairs = Pairs::default();
        variables(request, &request.script, &mut Variables::new(&set, &mut pairs));
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        pairs.iter().map(|(name, value)| (text(name), text(value))).collect()
    }

    fn get<'a>(all: &'a [(String, String)], name: &str) -> Option<&'a str> {
        let mut found = all.iter().filter(|(candidate, _)| candidate == name);
        let value = found.next().map(|(_, value)| value.as_str());
        assert!(found.next().is_none(), "{name} stands there twice");
        value
    }

    #[test]
    fn fields_of_one_name_are_joined() {
        let text = "GET / HTTP/1.1\r\nHost: a\r\nX-A: 1\r\nCookie: a=1\r\nx-a: 2\r\ncookie: b=2\r\n\r\n";
        let all = all(text, Script::default(), Body::Empty);
        assert_eq!(get(&all, "HTTP_X_A"), Some("1, 2"));
        assert_eq!(get(&all, "HTTP_COOKIE"), Some("a=1; b=2"));
        #[cfg(feature = "php")]
        assert_eq!(cookies(&head(text)).unwrap(), b"a=1; b=2");
    }

    #[test]
    fn a_host_in_the_target_stands_before_the_field() {
        let all = all("GET http://y:81/ HTTP/1.1\r\nHost: x\r\n\r\n", Script::default(), Body::Empty);
        assert_eq!((get(&all, "HTTP_HOST"), get(&all, "SERVER_NAME")), (Some("y:81"), Some("y")));
    }

    #[test]
    fn a_host_in_the_target_takes_the_place_of_a_field_that_is_missing() {
        let old = |text| all(text, Script::default(), Body::Empty);
        let with_host = old("GET http://y:81/ HTTP/1.0\r\n\r\n");
        assert_eq!((get(&with_host, "HTTP_HOST"), get(&with_host, "SERVER_NAME")), (Some("y:81"), Some("y")));
        assert_eq!(get(&old("GET / HTTP/1.0\r\n\r\n"), "HTTP_HOST"), None);
        assert_eq!(get(&old("GET / HTTP/1.0\r\nHost: x\r\n\r\n"), "HTTP_HOST"), Some("x"));
    }

    #[test]
    fn names_that_could_imitate_others_are_left_out() {
        let text = "GET / HTTP/1.1\r\nHost: a\r\nX_Real_IP: evil\r\nProxy: evil\r\nX-Real-IP: good\r\n\r\n";
        let all = all(text, Script::default(), Body::Empty);
        assert_eq!(get(&all, "HTTP_X_REAL_IP"), Some("good"));
        assert_eq!(get(&all, "HTTP_PROXY"), None);
    }

    #[test]
    fn a_query_is_there_even_when_it_is_empty() {
        let all = all("GET /a HTTP/1.1\r\nHost: example.org:81\r\n\r\n", Script::default(), Body::Empty);
        assert_eq!(get(&all, "QUERY_STRING"), Some(""));
        assert_eq!(get(&all, "REQUEST_URI"), Some("/a"));
        assert_eq!(get(&all, "SERVER_NAME"), Some("example.org"));
        assert_eq!(get(&all, "SERVER_PORT"), Some("8080"));
        assert_eq!(get(&all, "REMOTE_ADDR"), Some("192.0.2.7"));
        assert_eq!((get(&all, "CONTENT_LENGTH"), get(&all, "CONTENT_TYPE")), (Some(""), Some("")));
        assert_eq!(get(&all, "REDIRECT_STATUS"), Some("200"));
        assert_eq!(get(&all, "PATH_INFO"), None);
    }

    #[test]
    fn the_remote_user_is_the_one_that_basic_authentication_claims() {
        let user = |credentials: &str| {
            let text = format!("GET / HTTP/1.1\r\nHost: a\r\nAuthorization: {credentials}\r\n\r\n");
            let all = all(&text, Script::default(), Body::Empty);
            get(&all, "REMOTE_USER").map(str::to_owned)
        };
        for (credentials, name) in [
            ("Basic am9lOnNlY3JldA==", "joe"),
            ("bAsIc   am9lOnNlY3JldA", "joe"),
            ("Basic am9lOmE6Yg==", "joe"),
            ("Basic OnNlY3JldA==", ""),
            ("Basic am9l", ""),
            ("Basic am8AZTp4", ""),
            ("Basic ?", ""),
            ("Basic", ""),
            ("Bearer am9lOnNlY3JldA==", ""),
        ] {
            assert_eq!(user(credentials).as_deref(), Some(name), "{credentials}");
        }
    }

    #[test]
    fn a_path_after_the_script_is_its_path_info() {
        let script = Script {
            filename: b"/srv/index.php".to_vec(),
            real_path: b"/srv/index.php".to_vec(),
            name: b"/index.php".to_vec(),
            path_info: b"/a b".to_vec(),
            document_root: b"/srv".to_vec(),
            ..Script::default()
        };
        let all = all("GET /index.php/a%20b?x HTTP/1.0\r\n\r\n", script, Body::Empty);
        assert_eq!(get(&all, "PATH_INFO"), Some("/a b"));
        assert_eq!(get(&all, "PHP_SELF"), Some("/index.php/a b"));
        assert_eq!(get(&all, "SCRIPT_NAME"), Some("/index.php"));
        assert_eq!(get(&all, "PATH_TRANSLATED"), Some("/srv/a b"));
        assert_eq!(get(&all, "SERVER_NAME"), Some("127.0.0.1"));
        assert_eq!(get(&all, "REQUEST_URI"), Some("/index.php/a%20b?x"));
    }

    #[test]
    fn a_chunked_body_gets_its_length() {
        let text = "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nContent-Type: text/x\r\n\r\n";
        let all = all(text, Script::default(), Body::Memory(b"12345".to_vec()));
        assert_eq!(get(&all, "CONTENT_LENGTH"), Some("5"));
        assert_eq!(get(&all, "CONTENT_TYPE"), Some("text/x"));
        assert_eq!(get(&all, "HTTP_CONTENT_TYPE"), Some("text/x"));
    }

    #[test]
    fn fields_of_a_trusted_proxy_replace_those_of_the_connection() {
        let text = "GET / HTTP/1.1\r\nHost: inner:8080\r\n\r\n";
        let mut forwarded = request(text, Script::default(), Body::Empty);
        forwarded.https = true;
        forwarded.asked = (Some(b"example.org:8443".to_vec()), Some(8443));
        let all = pairs(&forwarded);
        assert_eq!((get(&all, "SERVER_NAME"), get(&all, "SERVER_PORT")), (Some("example.org"), Some("8443")));
        assert_eq!((get(&all, "HTTPS"), get(&all, "REQUEST_SCHEME")), (Some("on"), Some("https")));
        assert_eq!(get(&all, "HTTP_HOST"), Some("inner:8080"), "the field is the client's");
    }

    #[test]
    fn the_place_in_a_trace_replaces_the_client_s() {
        let parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
        let text = format!(
            "GET / HTTP/1.1\r\nHost: a\r\nTraceparent: {parent}\r\nTracestate: a=1\r\ntracestate: b=2\r\n\r\n"
        );
        let mut traced = request(&text, Script::default(), Body::Empty);
        assert_eq!(get(&pairs(&traced), "HTTP_TRACEPARENT"), Some(parent));
        assert_eq!(get(&pairs(&traced), "HTTP_TRACESTATE"), Some("a=1, b=2"));
        assert_eq!(get(&pairs(&traced), "SVC_TRACE_ID"), None);
        traced.trace = Some(Trace::of(&traced.head, FreshIds { trace_id: 1, span_id: 0xabc }));
        let all = pairs(&traced);
        assert_eq!(get(&all, "SVC_TRACE_ID"), Some("0af7651916cd43dd8448eb211c80319c"));
        let ours = "00-0af7651916cd43dd8448eb211c80319c-0000000000000abc-01";
        assert_eq!(
            (get(&all, "HTTP_TRACEPARENT"), get(&all, "HTTP_TRACESTATE")),
            (Some(ours), Some("a=1,b=2"))
        );
    }

    #[test]
    fn a_port_is_cut_off_and_an_address_in_brackets_is_not() {
        assert_eq!(without_port(b"[::1]:8080"), b"[::1]");
        assert_eq!(without_port(b"[::1]"), b"[::1]");
        assert_eq!(without_port(b"a:80"), b"a");
    }

    #[test]
    fn the_operator_has_the_last_word() {
        let text = "GET / HTTP/1.1\r\nHost: a\r\nX-Debug: 1\r\n\r\n";
        let set = [("SERVER_SOFTWARE", "nginx"), ("HTTP_X_DEBUG", ""), ("APP_ENV", "a=b")];
        let all = pairs_with(&request(text, Script::default(), Body::Empty), &set);
        for (name, value) in set {
            assert_eq!(get(&all, name), Some(value));
        }
        assert_eq!(get(&all, "HTTP_HOST"), Some("a"));
    }

    #[test]
    fn a_server_s_name_has_one_spelling() {
        for (host, name) in
            [("EXAMPLE.org.:80", "example.org"), ("a.", "a"), ("[::FF]:1", "[::ff]"), ("a", "a")]
        {
            assert_eq!(*server_name(host.as_bytes()), *name.as_bytes(), "{host}");
        }
    }
}
