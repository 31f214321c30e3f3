//! Pages about failures of scripts.

use svc_testing::Svc;
use svc_testing::chromium::Chromium;
use svc_testing::client::Response;

use super::{MODES, asked, save, start, start_with, visit};
use crate::ops::page::barriers;

const PAGE: &str = "<!doctype html><html><title>t</title><body><p>one</p></body></html>";

/// Failures of each kind, by the path of their script: its code, the class, a part of the message, and the status.
pub(super) const FAILURES: [(&str, &str, &str, &str, u16); 15] = [
    (
        "thrown",
        "throw new DomainException('not <b>here</b>');",
        "DomainException",
        "not &lt;b&gt;here&lt;/b&gt;",
        500,
    ),
    ("error", "undefined_function();", "Error", "undefined_function()", 500),
    (
        "cause",
        "try { throw new LogicException('inner'); } catch (LogicException $e) { throw new RuntimeException('outer', 0, $e); }",
        "RuntimeException",
        "Caused by",
        500,
    ),
    ("included", "include __DIR__ . '/syntax.inc';", "ParseError", "unexpected", 500),
    (
        "long",
        "throw new OverflowException(str_repeat('long ', 100000));",
        "OverflowException",
        "long long",
        500,
    ),
    (
        "fiber",
        "(new Fiber(function () { throw new UnderflowException('deep'); }))->start();",
        "UnderflowException",
        "deep",
        500,
    ),
    (
        "buffered",
        "ob_start('strtoupper'); echo 'lost'; ob_start(fn () => throw new LogicException('in the buffer')); echo 'x';",
        "LogicException",
        "in the buffer",
        500,
    ),
    ("evaluated", "eval('class {');", "ParseError", "unexpected", 500),
    (
        "memory",
        "ini_set('memory_limit', '4M'); $a = str_repeat('x', 64 << 20);",
        "E_ERROR",
        "Allowed memory size",
        500,
    ),
    ("compile", "eval('function same() {} function same() {}');", "E_COMPILE_ERROR", "Cannot redeclare", 500),
    ("user", "trigger_error('raised', E_USER_ERROR);", "E_USER_ERROR", "raised", 500),
    (
        "destructor",
        "$o = new class { function __destruct() { throw new LengthException('at the end'); } };",
        "LengthException",
        "at the end",
        500,
    ),
    (
        "shutdown",
        "register_shutdown_function(function () { throw new RangeException('later'); });",
        "RangeException",
        "later",
        500,
    ),
    (
        "own_page",
        "register_shutdown_function(function () { http_response_code(503); echo 'critical error'; }); f();",
        "Error",
        "f()",
        500,
    ),
    ("time", "set_time_limit(1); while (true);", "E_ERROR", "Maximum execution time", 504),
];

/// The application: each path is a failure. In worker mode, one script serves all of them.
pub(super) fn files() -> Vec<(String, String)> {
    let mut files: Vec<(String, String)> = FAILURES
        .iter()
        .map(|(name, code, ..)| {
            (format!("{name}.php"), format!("<?php\n\nheader('X-Own: 1');\necho 'partial';\n{code}\n"))
        })
        .collect();
    files.push(("syntax.inc".into(), "<?php\n\n$a = ;".into()));
    files.push((
        "worker.php".into(),
        "<?php Svc\\Worker::serve(fn () => require __DIR__ . $_SERVER['REQUEST_URI']);".into(),
    ));
    files
}

fn started(words: &[&str]) -> Svc {
    let files = files();
    let files: Vec<_> = files.iter().map(|(name, text)| (name.as_str(), text.as_str())).collect();
    start(&files, words)
}

#[track_caller]
pub(super) fn assert_page(response: &Response, class: &str, message: &str, what: &str) {
    let text = response.text();
    assert_eq!(response.field("content-type"), Some("text/html; charset=utf-8"), "{what}: {text}");
    assert_eq!(response.field("cache-control"), Some("no-store"), "{what}");
    assert!(response.field("content-security-policy").unwrap().starts_with("default-src 'none'"), "{what}");
    assert!(text.contains(&format!("<h1>{class}</h1>")), "{what}: {class}: {text}");
    assert!(text.contains(message), "{what}: {message}: {text}");
}

pub(super) fn assert_all_failures(words: &[&str]) {
    let svc = started(words);
    for (name, code, class, message, status) in FAILURES {
        let response = visit(&svc, &format!("/{name}.php"));
        let text = response.text();
        assert_eq!(response.status, status, "{name}: {text}");
        assert_page(&response, class, message, name);
        assert_eq!(response.field("x-own"), None, "{name}: the fields are those of the page");
        assert!(
            !text.contains("partial</") && !text.contains(">partial"),
            "{name}: output of the script: {text}"
        );
        // A failure inside eval() has its place in a text that is no file.
        if !code.contains("eval") && !matches!(name, "time" | "memory") {
            assert!(text.contains("class=\"here\""), "{name}: {text}");
        }
    }
}

#[test]
fn each_failure_has_a_page_in_classic_mode() {
    assert_all_failures(&[]);
}

#[test]
fn a_script_that_cannot_be_parsed_has_a_page() {
    let svc = start(&[("index.php", "<?php\n$a = [1,\n2;\n")], &[]);
    let response = visit(&svc, "/");
    assert_eq!(response.status, 500);
    assert_page(&response, "ParseError", "unexpected", "index");
    assert!(response.text().contains("<i>3</i>2;"), "{}", response.text());
}

#[test]
fn programs_get_json() {
    for words in MODES {
        let svc = started(words);
        let response = asked(&mut svc.client(), "GET", "/cause.php", "Accept: application/json, */*");
        assert_eq!((response.status, response.field("content-type")), (500, Some("application/json")));
        assert_eq!(response.field("content-security-policy"), None);
        let seen: serde_json::Value = serde_json::from_slice(&response.body).unwrap();
        assert_eq!((&seen["class"], &seen["message"]), (&"RuntimeException".into(), &"outer".into()));
        assert!(seen["file"].as_str().unwrap().ends_with("/cause.php") && seen["line"] == 5, "{seen}");
        assert!(seen["trace"].is_array());
        assert_eq!(seen["previous"]["message"], "inner");
        let response =
            asked(&mut svc.client(), "POST", "/thrown.php", "Accept: application/json\r\nContent-Length: 0");
        assert_eq!(response.status, 500);
        assert!(response.text().contains("DomainException"));
    }
}

#[test]
fn programs_of_other_origins_can_read_it() {
    let code = "<?php header('Access-Control-Allow-Origin: https://a'); header('Content-Encoding: br'); header('Location: /x'); f();";
    let svc = start(&[("index.php", code)], &[]);
    let response = asked(&mut svc.client(), "GET", "/", "Accept: application/json");
    assert_eq!(response.field("access-control-allow-origin"), Some("https://a"));
    assert_eq!((response.field("location"), response.field("content-encoding")), (None, None));
}

#[test]
fn a_head_request_gets_the_head_alone() {
    let svc = started(&[]);
    let mut client = svc.client();
    let response = asked(&mut client, "HEAD", "/thrown.php", "Accept: text/html");
    assert_eq!((response.status, response.field("content-type")), (500, Some("text/html; charset=utf-8")));
    assert_eq!(client.get("/thrown.php").status, 500, "the connection goes on");
}

#[test]
fn errors_that_an_application_handles_have_no_page() {
    let code =
        "<?php set_exception_handler(function ($e) { http_response_code(502); echo 'own page'; }); f();";
    let svc = start(&[("index.php", code), ("exit.php", "<?php http_response_code(500); exit('no');")], &[]);
    for (path, status, text) in [("/", 502, "own page"), ("/exit.php", 500, "no")] {
        let response = asked(&mut svc.client(), "GET", path, "Accept: text/html");
        assert_eq!((response.status, &*response.text()), (status, text));
    }
}

#[test]
fn a_page_that_has_begun_is_covered() {
    let begun = "<?php header('Content-Type: TYPE'); echo '<!doctype html><textarea>'; while (ob_get_level()) ob_end_flush(); flush(); f();";
    let html = begun.replace("TYPE", "text/html");
    let svc = start(&[("html.php", &html), ("text.php", &begun.replace("TYPE", "text/plain"))], &[]);
    let mut client = svc.client();
    client.send("GET /html.php HTTP/1.1\r\nHost: test\r\nSec-Fetch-Dest: document\r\n\r\n");
    let text = String::from_utf8_lossy(&client.rest()).into_owned();
    assert!(text.contains("role=\"alertdialog\"") && text.contains("<h1>Error</h1>"), "{text}");
    assert!(!text.contains("<script data-revision"), "{text}");
    let mut client = svc.client();
    client.send("GET /text.php HTTP/1.1\r\nHost: test\r\nSec-Fetch-Dest: document\r\n\r\n");
    assert!(!String::from_utf8_lossy(&client.rest()).contains("alertdialog"));
}

#[test]
fn errors_are_displayed_and_go_on() {
    let svc = start(&[("index.php", "<?php echo $undefined; echo 'after';")], &[]);
    let response = visit(&svc, "/");
    assert_eq!(response.status, 200);
    assert!(response.text().contains("Undefined variable") && response.text().contains("after"));
}

#[test]
fn error_pages_of_the_operator_do_not_hide_it() {
    let pages = svc_testing::written(&[("500.html", "for visitors"), ("404.html", "not here")]);
    let files = [("index.php", "<?php f();")];
    let svc = start_with(&files, &[], &[("ERROR_PAGES_DIR", pages.path().to_str().unwrap())]);
    assert!(visit(&svc, "/").text().contains("<h1>Error</h1>"));
    assert_eq!(visit(&svc, "/none.txt").text(), "not here");
}

#[test]
fn secrets_of_the_environment_are_masked() {
    let svc = start_with(
        &[("index.php", "<?php f();")],
        &[],
        &[
            ("DB_PASSWORD", "hunter2"),
            ("DATABASE_URL", "mysql://app:hunter2@db/shop"),
            ("APP_MODE", "visible"),
        ],
    );
    let text = visit(&svc, "/?api_key=hunter2").text();
    assert!(!text.contains("hunter2"), "{text}");
    assert!(
        text.contains("DB_PASSWORD") && text.contains("visible") && text.contains("mysql://app:"),
        "{text}"
    );
}

#[test]
fn php_in_other_processes_has_pages_too() {
    if !["/usr/bin/php-cgi", "/usr/bin/php-cgi8.2"].iter().any(|path| std::path::Path::new(path).exists()) {
        svc_testing::skip::skipped("php-cgi is not installed");
        return;
    }
    let files = [
        (
            "index.php",
            "<?php\necho 'partial';\nfunction g() { throw new LogicException('not <here>'); }\ng();",
        ),
        ("fine.php", "<?php error_log('a note'); echo 'fine';"),
    ];
    let svc = start_with(&files, &[], &[("EXECUTOR", "fastcgi"), ("PATH", "/usr/bin:/bin")]);
    let response = visit(&svc, "/");
    assert_eq!(response.status, 500, "{}", response.text());
    assert_page(&response, "LogicException", "not &lt;here&gt;", "fastcgi");
    assert!(
        !response.text().contains("partial<") && response.text().contains("<i>3</i>"),
        "{}",
        response.text()
    );
    let json = asked(&mut svc.client(), "GET", "/", "Accept: application/json");
    assert!(json.text().contains("\"call\": \"g()\""), "{}", json.text());
    assert!(visit(&svc, "/fine.php").text().starts_with("fine"));
}

#[test]
fn the_page_about_a_failure_has_no_barriers_and_follows_the_mended_code() {
    let code = "<?php\n\nfunction f() { throw new LogicException('broken', 0, new RuntimeException('why')); }\n\nf();\n";
    let svc = start(&[("index.php", code), ("composer.json", "{}")], &[]);
    svc.log().expect("code is watched for changes");
    let Some(mut browser) = Chromium::start() else { return };
    browser.open(&format!("http://{}/", svc.main()));
    browser.eventually("document.body?.textContent.includes('LogicException')");
    browser.eventually("getComputedStyle(document.querySelector('.here')).fontWeight === '600'");
    let faults = browser.faults();
    let faults: Vec<_> = faults.iter().filter(|fault| !fault.contains("a status of 500")).collect();
    assert_eq!(faults, [] as [&String; 0], "the policy permits style and script");
    if let Some(barriers) = barriers(&mut browser) {
        assert_eq!(barriers, [] as [&str; 0]);
    }
    browser.resize(360, 700);
    browser.eventually("document.documentElement.scrollWidth <= 360");
    save(&svc.root().join("index.php"), PAGE);
    browser.eventually("document.body?.textContent.includes('one')");
}
