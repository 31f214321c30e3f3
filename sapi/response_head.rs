//! The header of a response, from the headers that a script set.
//!
//! Status, reason phrase and fields are valid to send. Connection-specific fields, which belong to the server, are
//! dropped; the length is kept apart.

use svc_core::config::{Config, Executor};
use svc_core::http::status::is_bodiless;
use svc_core::http::token::list;
use svc_core::http::{Fields, NamedFile};
use svc_core::pool::{Origin, ResponseHead};

use svc_ffi::PhpHead;

/// The response header if a script has set nothing.
pub(crate) fn plain_head() -> ResponseHead {
    ResponseHead::bare(Origin::Script)
}

/// How fields that a script sets for the server or for a proxy are treated.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct FieldUse {
    /// Files that scripts name are sent.
    pub(crate) sends_files: bool,
    /// A proxy is in front, which reads the fields for it.
    pub(crate) has_proxy: bool,
    /// Send 302 for a `Location` with status 200. php-fpm sends no `Status` for 200, and a web server then redirects (RFC 3875,
    /// section 6.2.3). With the FastCGI executor, this has been applied already.
    pub(crate) redirects_200: bool,
}

impl FieldUse {
    /// Returns what the settings say.
    pub(crate) fn of(config: &Config) -> Self {
        Self {
            sends_files: !config.files.sendfile_roots.is_empty(),
            has_proxy: !config.clients.trusted_proxies.is_empty(),
            redirects_200: config.serving.executor != Executor::Fastcgi,
        }
    }
}

/// Sorts the lines that a script set into the parts of a response header. Malformed lines, and fields that a script may
/// not set, are dropped. Fields that name a file are never sent; they have an effect if `use_of.sends_files`.
pub(crate) fn response_head(head: &PhpHead<'_>, use_of: FieldUse) -> ResponseHead {
    let mut response = plain_head();
    let mut status = head.status;
    let (mut stated, mut states_status) = (None, false);
    for line in &head.lines {
        let Some(colon) = line.iter().position(|&byte| byte == b':') else { continue };
        let (name, value) = (&line[..colon], line[colon + 1..].trim_ascii());
        if is_of_the_connection(name) {
            continue;
        }
        if name.eq_ignore_ascii_case(b"content-length") {
            response.content_length = std::str::from_utf8(value).ok().and_then(|text| text.parse().ok());
        } else if name.eq_ignore_ascii_case(b"status") {
            // CGI scripts set the status this way. php-fpm prefers a status line with another status than 200.
            if (head.status == 200 || !head.status_line.starts_with(b"HTTP/"))
                && let Some(code) = leading_number(value)
            {
                (status, states_status) = (code, true);
                stated = reason(&[b" ", value].concat(), code);
            }
        } else if name.eq_ignore_ascii_case(b"content-type") && head.status != 304 {
            // The last one applies, as behind nginx.
            response.fields.remove(b"Content-Type");
            if !value.is_empty() {
                let _ = response.fields.push(name, value);
            }
        } else if head.status == 304 && name.eq_ignore_ascii_case(b"content-type") {
            // PHP's default would replace the media type of the client's cached copy.
        } else if let Some(file) = NamedFile::of(name, value) {
            response.file = Some(file).filter(|_| use_of.sends_files);
        } else if !use_of.has_proxy && is_for_a_proxy(name) {
            // Nothing between svc and the client would read it.
        } else {
            // PHP rejects line breaks in headers; other malformed fields are dropped here.
            let _ = response.fields.push(name, value);
        }
    }
    response.reason = reason(head.status_line, head.status);
    response.status = u16::try_from(status).ok().filter(|code| (200..=999).contains(code)).unwrap_or(500);
    if i32::from(response.status) != head.status {
        response.reason = stated.filter(|_| i32::from(response.status) == status);
    }
    if use_of.redirects_200
        && response.status == 200
        && !states_status
        && response.fields.contains(b"location")
    {
        (response.status, response.reason) = (302, None);
    }
    // There is no body that the file could replace.
    response.file.take_if(|_| is_bodiless(response.status) || response.status == 205);
    if response.file.is_some() && head.lines.last().is_some_and(|line| is_default_type(line)) {
        response.fields.remove(b"Content-Type");
    }
    response
}

/// Removes the fields that the script's `Connection` names: they are meant for this connection and are not stored
/// (RFC 9110, section 7.6.1).
pub(crate) fn remove_connection_options(head: &PhpHead<'_>, fields: &mut Fields) {
    for line in &head.lines {
        let Some(colon) = line.iter().position(|&byte| byte == b':') else { continue };
        if line[..colon].eq_ignore_ascii_case(b"connection") {
            for name in list(&line[colon + 1..]) {
                fields.remove(name);
            }
        }
    }
}

/// Returns whether PHP has added this line because the script has set no type. This is the spelling of PHP's default;
/// PHP spells a type set by a script differently.
fn is_default_type(line: &[u8]) -> bool {
    line == b"Content-type: text/html" || line.starts_with(b"Content-type: text/html; charset=")
}

/// Returns whether only the server sets this field, because it frames the message and manages the connection.
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

/// Returns whether this field is an instruction to nginx, which removes it from responses, such as `X-Accel-Buffering`.
fn is_for_a_proxy(name: &[u8]) -> bool {
    name.get(..8).is_some_and(|start| start.eq_ignore_ascii_case(b"x-accel-"))
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

    const SENDS_FILES: FieldUse = FieldUse { sends_files: true, has_proxy: false, redirects_200: true };

    fn parse(status: i32, status_line: &str, lines: &[&str]) -> ResponseHead {
        let lines = lines.iter().map(|line| line.as_bytes()).collect();
        response_head(&PhpHead { status, status_line: status_line.as_bytes(), lines }, SENDS_FILES)
    }

    #[test]
    fn a_named_file_leaves_the_fields() {
        let lines = ["X-Sendfile: /srv/a", "X-A: 1", "Content-type: text/html; charset=UTF-8"];
        let head = parse(200, "", &lines);
        assert_eq!(head.file, Some(NamedFile::Path(b"/srv/a"[..].into())));
        assert_eq!(head.fields.as_bytes(), b"X-A: 1\r\n", "PHP has added the type");
        let lines = lines.map(str::as_bytes).to_vec();
        let head = response_head(&PhpHead { status: 200, status_line: b"", lines }, FieldUse::default());
        assert_eq!(head.file, None);
        assert_eq!(head.fields.as_bytes(), b"X-A: 1\r\nContent-type: text/html; charset=UTF-8\r\n");
    }

    #[test]
    fn a_type_that_the_script_has_set_is_kept() {
        for line in ["Content-Type: text/html", "Content-type: text/html;charset=UTF-8", "Content-Type: a/b"]
        {
            let head = parse(200, "", &["X-Accel-Redirect: /a", line]);
            assert!(head.file.is_some() && head.fields.contains(b"content-type"), "{line}");
        }
        let default_first = ["Content-type: text/html; charset=UTF-8", "X-Accel-Redirect: /a"];
        assert!(parse(200, "", &default_first).fields.contains(b"content-type"), "PHP adds it last");
    }

    #[test]
    fn a_response_without_a_body_names_no_file() {
        for status in [204, 205, 304] {
            let head = parse(status, "", &["X-Accel-Redirect: /a"]);
            assert_eq!((head.file, head.fields.is_empty()), (None, true), "{status}");
        }
    }

    #[test]
    fn fields_of_the_connection_are_dropped() {
        let head = parse(200, "", &["Connection: close", "transfer-encoding: chunked", "X-A: 1", "no colon"]);
        assert_eq!(head.fields.as_bytes(), b"X-A: 1\r\n");
    }

    #[test]
    fn instructions_to_a_proxy_are_for_the_one_in_front() {
        let lines = ["X-Accel-Buffering: no", "x-accel-expires: 5", "X-Accel: 1", "X-Accelerated: 1"];
        let head = parse(200, "", &lines);
        assert_eq!(head.fields.as_bytes(), b"X-Accel: 1\r\nX-Accelerated: 1\r\n");
        let lines = lines.map(str::as_bytes).to_vec();
        let behind = FieldUse { has_proxy: true, ..SENDS_FILES };
        let head = response_head(&PhpHead { status: 200, status_line: b"", lines }, behind);
        assert_eq!(head.fields.get(b"x-accel-buffering"), Some(&b"no"[..]));
    }

    #[test]
    fn an_announced_length_is_kept_apart() {
        let head = parse(200, "", &["Content-Length: 12", "X-A: 1"]);
        assert_eq!(head.content_length, Some(12));
        assert!(!head.fields.contains(b"content-length"));
        assert_eq!(parse(200, "", &["Content-Length: none"]).content_length, None);
    }

    #[test]
    fn a_response_has_one_media_type() {
        let types = |lines: &[&str]| parse(200, "", lines).fields.as_bytes().to_vec();
        let two = ["Content-Type: text/html", "X-A: 1", "content-type: application/json"];
        assert_eq!(types(&two), b"X-A: 1\r\ncontent-type: application/json\r\n");
        assert_eq!(types(&["Content-Type: text/html", "Content-Type:"]), b"");
    }

    #[test]
    fn a_status_line_takes_precedence_over_a_status_field() {
        let status = |status, line| parse(status, line, &["Status: 418 Teapot"]).status;
        assert_eq!(status(404, "HTTP/1.1 404 Not Found"), 404);
        assert_eq!(status(200, "HTTP/1.1 200 OK"), 418);
        assert_eq!(status(404, ""), 418);
    }

    #[test]
    fn a_location_with_status_200_is_a_redirect() {
        let status = |status, line, lines| parse(status, line, lines).status;
        assert_eq!(status(200, "HTTP/1.1 200 OK", &["Location: /a"]), 302);
        assert_eq!(status(200, "", &["Status: 200 OK", "Location: /a"]), 200, "it is stated");
        assert_eq!(status(201, "", &["Location: /a"]), 201);
        let head = PhpHead { status: 200, status_line: b"", lines: vec![b"Location: /a"] };
        assert_eq!(response_head(&head, FieldUse::default()).status, 200, "php-fpm has decided");
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
    fn not_modified_has_no_content_type() {
        let head = parse(304, "", &["Content-type: text/html", "ETag: 1"]);
        assert_eq!(head.fields.as_bytes(), b"ETag: 1\r\n");
    }

    #[test]
    fn a_status_field_sets_the_status_as_in_cgi() {
        let head = parse(200, "HTTP/1.1 200 Fine", &["Status: 410 Went away", "X-A: 1"]);
        assert_eq!((head.status, head.fields.as_bytes()), (410, &b"X-A: 1\r\n"[..]));
        assert_eq!(head.reason.as_deref(), Some(&b"Went away"[..]));
        for (value, reason) in
            [("410", None), ("410 ", None), ("1000 Much", None), ("none", Some(&b"Fine"[..]))]
        {
            let head = parse(200, "HTTP/1.1 200 Fine", &[&format!("Status: {value}")]);
            assert_eq!(head.reason.as_deref(), reason, "{value}");
        }
    }

    #[test]
    fn a_status_that_no_response_can_have_is_500() {
        for status in [-1, 0, 99, 103, 1000, 70000] {
            assert_eq!(parse(status, "", &[]).status, 500, "{status}");
        }
        assert_eq!(parse(999, "", &[]).status, 999);
    }
}
