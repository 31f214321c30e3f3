//! Header lines that svc refuses, and PHP does not: those with control characters. They have no effect at all.

use svc_testing::Svc;
use svc_testing::client::Response;
use svc_testing::http2::Http2Client;

/// Runs the PHP code in the request's body, in each mode.
const SCRIPT: &str = r#"<?php
if (!function_exists('run')) {
    function run(): void {
        set_error_handler(function ($level, $text) { echo $level, ' ', $text, ';'; return true; });
        ob_start();
        eval(file_get_contents('php://input'));
    }
}
if (!isset($_SERVER['FRANKENPHP_WORKER'])) {
    run();
} elseif (getenv('LOOP') === 'frankenphp') {
    while (frankenphp_handle_request(run(...)));
} else {
    Svc\Worker::serve(run(...));
}
"#;

const CLASSIC: &[(&str, &str)] = &[];
const SERVE: &[(&str, &str)] = &[("WORKER_MODE_ENABLED", "true")];
const FRANKENPHP: &[(&str, &str)] = &[("WORKER_MODE_ENABLED", "true"), ("LOOP", "frankenphp")];
/// The modes of this build.
const MODES: &[&[(&str, &str)]] =
    if cfg!(feature = "worker") { &[CLASSIC, SERVE, FRANKENPHP] } else { &[CLASSIC] };

/// Lines that would set a field, a status or a type.
const LINES: [&str; 15] = [
    "X-A: a%sb.",
    "X-A: %s.",
    "X-A: a%s.",
    "X-%sA: a",
    "%sX-A: a",
    "Content-Type: text/%sx",
    "Content-Type: text/x; charset=%sx",
    "Content-Length: 3%s0",
    "HTTP/1.1 418 Short%sand stout",
    "Link: <a%s>",
    "Location: /the%sre",
    "Location:%s/there",
    "Refresh: 1%s; url=/",
    "Status: 404%s No",
    "WWW-Authenticate: Basic realm=\"%s\"",
];

fn start(mode: &[(&str, &str)], directives: &[&str]) -> Svc {
    let settings = [&[("PHP_WORKERS", "1"), ("ENTRY_FILE", "index.php")], mode].concat();
    Svc::start_with(&[("index.php", SCRIPT)], &settings, directives)
}

fn run(svc: &Svc, code: &str) -> Response {
    svc.client().post("/", code.as_bytes())
}

fn field<'a>(fields: &'a [(String, String)], name: &str) -> Vec<&'a str> {
    fields.iter().filter(|(other, _)| other == name).map(|(_, value)| value.as_str()).collect()
}

/// The fields that are equal in all responses to the same script.
fn lasting(fields: &[(String, String)]) -> Vec<(String, String)> {
    let changing = ["date", "x-request-id", "content-length"];
    fields.iter().filter(|(name, _)| !changing.contains(&name.as_str())).cloned().collect()
}

fn control_characters() -> impl Iterator<Item = u8> {
    (0..0x20u8).chain([0x7f]).filter(|byte| *byte != b'\t')
}

#[test]
fn a_refused_line_has_no_effect() {
    for &mode in MODES {
        let svc = start(mode, &[]);
        let mut client = svc.client();
        let mut second = Http2Client::connect(svc.main());
        let plain = client.post("/", b"");
        let plain_second = second.post("/", b"");
        for (line, how) in LINES.iter().flat_map(|line| ["", ", false", ", true, 404"].map(|how| (line, how)))
        {
            for byte in control_characters() {
                let code = format!(
                    r#"header(sprintf({line:?}, chr({byte})){how}); echo http_response_code(), json_encode(headers_list());"#
                );
                let first = client.post("/", code.as_bytes());
                let other = second.post("/", code.as_bytes());
                for (status, fields, expected, text) in [
                    (first.status, &first.fields, &plain.fields, first.text()),
                    (
                        other.status,
                        &other.fields,
                        &plain_second.fields,
                        String::from_utf8(other.body.clone()).unwrap(),
                    ),
                ] {
                    assert_eq!(status, 200, "{code}: {text}");
                    assert_eq!(lasting(fields), lasting(expected), "{code}: {text}");
                    assert!(text.starts_with("2 Header may not contain "), "{code}: {text}");
                    assert!(text.contains(";200[\"X-Powered-By: PHP"), "{code}: {text}");
                    assert!(!text.contains("X-A"), "{code}: {text}");
                }
            }
        }
    }
}

#[test]
fn a_refused_line_leaves_earlier_ones_in_place() {
    let svc = start(CLASSIC, &[]);
    for (code, status, name, value) in [
        (r#"header('Location: /a', true, 307); header("Location: /\x01b");"#, 307, "location", "/a"),
        (
            r#"header('Content-Type: image/png'); header("Content-Type: text/\x7fx");"#,
            200,
            "content-type",
            "image/png",
        ),
        (
            r#"header('HTTP/1.1 410 Gone'); header("HTTP/1.1 404 No\x02t");"#,
            410,
            "content-type",
            "text/html; charset=UTF-8",
        ),
        (r#"header('X-A: 1'); header('X-A: 2', false); header("X-A: \x033");"#, 200, "x-a", "1,2"),
        (r#"setcookie('a', 'b'); var_dump(@setrawcookie('c', "d\x04e"));"#, 200, "set-cookie", "a=b"),
        (r#"ini_set('session.cookie_path', "/\x05"); session_start();"#, 200, "set-cookie", ""),
    ] {
        let response = run(&svc, code);
        assert_eq!(response.status, status, "{code}");
        assert_eq!(field(&response.fields, name).join(","), value, "{code}");
    }
    assert!(run(&svc, r#"var_dump(@setrawcookie('c', "d\x04e"));"#).text().contains("bool(false)"));
    // PHP reports a late line as such. A refused Content-Length does not turn compression off.
    let late = run(&svc, r#"echo 'a'; ob_flush(); flush(); header("X-A: \x01.");"#).text();
    assert!(late.contains("headers already sent"), "{late}");
    let setting =
        run(&svc, r#"@header("Content-Length: \x013"); var_dump(ini_get('zlib.output_compression'));"#);
    let without = run(&svc, "var_dump(ini_get('zlib.output_compression'));");
    assert!(setting.text().ends_with(&without.text()), "{}", setting.text());
}

/// PHP and its extensions add lines themselves, from values of the script.
#[test]
fn a_line_that_php_adds_is_refused_with_a_warning_that_names_the_field() {
    for &mode in MODES {
        let svc = start(mode, &[]);
        for byte in control_characters().filter(|byte| !b"\0\t\n\r\x0b\x0c".contains(byte)) {
            let code = format!(
                r#"session_set_cookie_params(['path' => '/' . chr({byte})]); session_start(); echo json_encode(headers_list());"#
            );
            let response = run(&svc, &code);
            assert_eq!(field(&response.fields, "set-cookie"), [""; 0], "{code}");
            let text = response.text();
            let warning = "2 Header Set-Cookie may not contain control characters;";
            assert!(text.contains(warning) && !text.contains("Set-Cookie: "), "{code}: {text}");
        }
        let accepted = run(&svc, "session_set_cookie_params(['path' => '/a']); session_start();");
        let cookies = field(&accepted.fields, "set-cookie");
        assert!(cookies.len() == 1 && cookies[0].contains("path=/a"), "{cookies:?}");
    }
}

#[test]
fn other_bytes_are_accepted_at_each_position() {
    let svc = start(CLASSIC, &[]);
    // Between all kinds of bytes.
    let everywhere = r#"$wrong = [];
        set_error_handler(function () { throw new Exception(); });
        foreach (["\x00", "\x01", "\x1f", "\x7f", "\x20", "\x21", "\x7e", "\x80", "\xff", "\t"] as $byte) {
            foreach (["a", "\t", "\x7e", "\x80", "\xff"] as $other) {
                foreach (range(0, 24) as $place) {
                    $value = str_repeat($other, $place) . $byte . str_repeat($other, 24 - $place) . '.';
                    try { header("X-A:$value"); $taken = true; } catch (Exception) { $taken = false; }
                    if ($taken === in_array($byte, ["\x00", "\x01", "\x1f", "\x7f"])) { $wrong[] = [bin2hex($byte), $place]; }
                }
            }
        }
        header_remove('X-A');
        echo count($wrong);"#;
    assert_eq!(run(&svc, everywhere).text(), "0");
    let tab = run(
        &svc,
        r#"header("X-A: a\tb"); header("X-B: \u{e4}"); header("X-C: a\x0b\x0c\r\n "); echo 'end';"#,
    );
    assert_eq!((field(&tab.fields, "x-a"), field(&tab.fields, "x-b").len()), (vec!["a\tb"], 1));
    // PHP cuts off blanks at the end, before it looks for line breaks.
    assert_eq!((field(&tab.fields, "x-c"), tab.text().as_str()), (vec!["a"], "end"));
}

#[test]
fn the_default_type_has_no_control_character() {
    const HTML: &str = "text/html; charset=UTF-8";
    for &mode in MODES {
        let svc = start(mode, &[]);
        for byte in control_characters() {
            for (name, value) in [("default_mimetype", "text/%sx"), ("default_charset", "utf-%s8")] {
                let code = format!("var_dump(ini_set('{name}', sprintf('{value}', chr({byte}))));");
                let response = run(&svc, &code);
                assert_eq!(response.field("content-type"), Some(HTML), "{code}");
                assert_eq!(response.text().trim(), "bool(false)", "{code}");
                let typed = run(&svc, &format!("{code} header('Content-Type: text/plain');"));
                assert_eq!(typed.field("content-type"), Some("text/plain;charset=UTF-8"), "{code}");
            }
        }
        let changed = "ini_set('default_mimetype', 'text/plain'); ini_set('default_charset', 'latin1');";
        assert_eq!(run(&svc, changed).field("content-type"), Some("text/plain; charset=latin1"));
        assert_eq!(run(&svc, "").field("content-type"), Some(HTML));
    }
    for (name, value, initial) in [
        ("default_mimetype", "text/\x01x", "text/html"),
        ("default_charset", "utf-\x7f8", "UTF-8"),
        ("default_mimetype", "\x1b", "text/html"),
    ] {
        let ini = tempfile::tempdir().unwrap();
        std::fs::write(ini.path().join("a.ini"), format!("{name} = \"{value}\"")).unwrap();
        for &mode in MODES {
            let own = [mode, &[("PHP_INI_SCAN_DIR", ini.path().to_str().unwrap())]].concat();
            let svc = start(&own, &[]);
            for code in ["", "ini_restore('default_mimetype'); ini_restore('default_charset');"] {
                assert_eq!(run(&svc, code).field("content-type"), Some(HTML), "{value:?}");
            }
            let kind = run(&svc, "header('Content-Type: text/plain');");
            assert_eq!(kind.field("content-type"), Some("text/plain;charset=UTF-8"), "{value:?}");
            svc.log().expect(&format!("{name} contains a control character; \"{initial}\" applies"));
        }
    }
}
