//! Applications made with a framework: in worker mode they answer as in classic mode, also when users overlap.
#![cfg(feature = "php")]

#[expect(dead_code, reason = "each test file uses its part of the support")]
mod support;

#[expect(dead_code, reason = "each test file uses its part of the support")]
#[path = "support/browser.rs"]
mod browser;
#[path = "support/wiki.rs"]
mod wiki;

use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;

use browser::{Browser, input};
use support::Svc;
use support::client::Response;

const APPLICATION: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/php/symfony");
const WIKI: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/php/wiki");

/// Users at a time, and how often each goes through its visit: 1,120 requests to one worker.
const USERS: usize = 8;
const VISITS: usize = 7;

const FORM: &str = "application/x-www-form-urlencoded";
const JSON: &str = "application/json";
const FILES: &str = "multipart/form-data; boundary=parts";

/// One request: method, target, type of its body, body.
type Step = (&'static str, String, &'static str, Vec<u8>);

/// Where the framework's classes are; `None` when they cannot be had here.
fn classes() -> Option<String> {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/scripts/symfony.sh");
    let output = Command::new(script).output().unwrap();
    if !output.status.success() {
        eprintln!("skipped: {}", String::from_utf8_lossy(&output.stderr).trim_end());
        return None;
    }
    Some(String::from_utf8(output.stdout).unwrap().trim_end().to_owned())
}

/// The application behind the front controller `entry`.
fn start(classes: &str, entry: &str) -> Svc {
    let root = tempfile::tempdir().unwrap();
    let from = Path::new(APPLICATION).join(".");
    let copied = Command::new("cp").arg("-r").arg(from).arg(root.path()).status().unwrap();
    assert!(copied.success());
    std::fs::create_dir_all(root.path().join("var/twig")).unwrap();
    let mode: &[_] = match entry {
        "classic.php" => &[("PHP_WORKERS", "2")],
        "fibers.php" => &[("PHP_WORKERS", "1"), ("WORKER_MODE_ENABLED", "true"), ("WORKER", "fibers")],
        _ => &[("PHP_WORKERS", "1"), ("WORKER_MODE_ENABLED", "true"), ("REQUESTS_AT_MOST", "100000")],
    };
    Svc::start_in(root, &[&[("ENTRY_FILE", entry), ("SYMFONY", classes)], mode].concat())
}

/// What user number `user` does in one visit.
fn visit(user: usize, visit: usize) -> Vec<Step> {
    let form = format!("name=user+{user}&visit={visit}&list[]=a&list[]=%C3%A4&empty=").into_bytes();
    let file: Vec<u8> = (0..3000 * (user as u32 + 1)).flat_map(u32::to_le_bytes).collect();
    let mut files = format!(
        "--parts\r\nContent-Disposition: form-data; name=\"user\"\r\n\r\n{user}\r\n--parts\r\nContent-Disposition: \
         form-data; name=\"file\"; filename=\"of-{user}.bin\"\r\nContent-Type: application/x-test\r\n\r\n"
    )
    .into_bytes();
    files.extend_from_slice(&file);
    files.extend_from_slice(b"\r\n--parts--\r\n");
    let get = |target: String| ("GET", target, "", Vec::new());
    vec![
        get(format!("/?name=%3Cuser%20{user}%3E")),
        get("/counter".to_owned()),
        ("POST", "/form".to_owned(), FORM, form),
        get("/counter".to_owned()),
        get("/saved".to_owned()),
        ("PUT", format!("/json/{visit}?user={user}"), JSON, format!("{{\"user\":{user}}}").into_bytes()),
        get("/boom".to_owned()),
        ("POST", "/upload".to_owned(), FILES, files),
        get(format!("/cookie?taste=of-{user}-{visit}")),
        get("/stream".to_owned()),
        get("/teapot".to_owned()),
        get("/error".to_owned()),
        get("/login".to_owned()),
        get("/counter".to_owned()),
        get(format!("/nowhere/{user}")),
        get("/upload".to_owned()),
        get("/download".to_owned()),
        get(format!("/json/{user}")),
        get("/saved".to_owned()),
        get(if visit % 3 == 2 { "/logout" } else { "/counter" }.to_owned()),
    ]
}

/// All that a user is told, without what no two runs have in common.
fn user_sees(svc: &Svc, user: usize) -> Vec<String> {
    let mut browser = Browser::open(svc.main());
    let mut seen = Vec::new();
    for (method, target, kind, body) in (0..VISITS).flat_map(|number| visit(user, number)) {
        let response = browser.exchange(method, &target, kind, &body);
        let mut text = comparable(&response);
        let ids = browser.values().filter(|value| value.len() > 20);
        text = ids.fold(text, |text, id| text.replace(id, "ID"));
        text = text.replace(&svc.main().to_string(), "HOST");
        seen.push(format!("user {user}: {method} {target}\n{text}"));
    }
    seen
}

/// A response as text, in which moments do not show, nor whether its end was known when its head was sent.
fn comparable(response: &Response) -> String {
    let mut text = format!("{} {}\n", response.status, response.reason);
    for (name, value) in &response.fields {
        match name.as_str() {
            "content-length" | "transfer-encoding" => Ok(()),
            "date" | "expires" | "last-modified" | "x-request-id" => writeln!(text, "{name}: MOMENT"),
            "set-cookie" => {
                let parts = value.split("; ").filter(|part| !part.starts_with("expires="));
                writeln!(text, "{name}: {}", parts.collect::<Vec<_>>().join("; "))
            }
            _ => writeln!(text, "{name}: {value}"),
        }
        .unwrap();
    }
    text + &response.text()
}

/// What all users see who come at the same time.
fn all_see(svc: &Svc, user_sees: fn(&Svc, usize) -> Vec<String>) -> Vec<Vec<String>> {
    std::thread::scope(|scope| {
        let users: Vec<_> = (0..USERS).map(|user| scope.spawn(move || user_sees(svc, user))).collect();
        users.into_iter().map(|user| user.join().unwrap()).collect()
    })
}

/// Asserts that two runs are the same; names the first request that is not.
fn assert_same(expected: &[Vec<String>], seen: &[Vec<String>]) {
    assert_eq!(expected.iter().flatten().count(), seen.iter().flatten().count());
    for (expected, seen) in expected.iter().flatten().zip(seen.iter().flatten()) {
        assert!(seen == expected, "{seen}\n---- and in classic mode\n{expected}");
    }
}

fn one_worker_did_it_all(svc: &Svc, requests: usize) {
    svc.assert_metric("svc_worker_requests_count{worker=\"0\"}", requests as f64);
    svc.assert_metric("svc_workers_spawned_total", 1.0);
    // Symfony reports the exceptions that it answers, and leaves errors of PHP's to PHP.
    let expected =
        |message: &str| message.contains("[critical]") || message.starts_with("Uncaught DivisionByZeroError");
    let told = svc.log().of("php");
    let others: Vec<_> =
        told.iter().filter(|record| !expected(record["fields"]["message"].as_str().unwrap())).collect();
    assert!(others.is_empty(), "{others:?}");
}

#[test]
fn an_application_of_symfony_s_answers_as_in_classic_mode() {
    let Some(classes) = classes() else { return };
    let classic = all_see(&start(&classes, "classic.php"), user_sees);
    let requests = classic.iter().map(Vec::len).sum();
    assert!(requests >= 1000, "{requests}");
    assert!(classic[0][1].contains("You were here 1 times."), "{}", classic[0][1]);
    for entry in ["fibers.php", "loop.php", "runtime.php"] {
        let svc = start(&classes, entry);
        assert_same(&classic, &all_see(&svc, user_sees));
        one_worker_did_it_all(&svc, requests);
    }
}

/// How often each user of the wiki reads all of it: 1,088 requests to one worker.
const READINGS: usize = 8;

/// Pages of the wiki, each of which another part of it makes, and none of which tells what other users are doing.
const WIKI_PAGES: [&str; 17] = [
    "/doku.php?id=start",
    "/doku.php?id=animals:wombat",
    "/doku.php?id=playground:playground",
    "/doku.php?id=animals:wombat&do=revisions",
    "/doku.php?id=animals:wombat&do=diff",
    "/doku.php?id=animals:wombat&do=backlink",
    "/doku.php?id=animals:wombat&do=export_raw",
    "/doku.php?id=animals:wombat&do=export_xhtml",
    "/doku.php?id=start&do=index&idx=wiki",
    "/doku.php?id=wiki:syntax&do=export_raw",
    "/doku.php?id=wiki:welcome&do=export_xhtmlbody",
    "/doku.php?id=start&do=recent",
    "/doku.php?id=start&do=search&q=wombat",
    "/doku.php?id=start&do=login",
    "/doku.php?id=start&do=profile",
    "/doku.php?id=start&do=admin",
    "/doku.php?id=no:such:page",
];

/// What a user of the wiki is shown; every other one is the administrator.
fn reader_sees(svc: &Svc, user: usize) -> Vec<String> {
    let mut browser = Browser::open(svc.main());
    if user.is_multiple_of(2) {
        wiki::log_in(&mut browser);
    }
    // Each begins elsewhere, so that different pages overlap.
    let pages = WIKI_PAGES.iter().cycle().skip(user * 5).take(WIKI_PAGES.len() * READINGS);
    let sees = |target: &&str| {
        let response = browser.exchange("GET", target, "", b"");
        format!("user {user}: {target}\n{}", without_tokens(&comparable(&response)))
    };
    pages.map(sees).collect()
}

/// Text without moments, names of sessions and their tokens: without long numbers and words of hexadecimal digits.
fn without_tokens(text: &str) -> String {
    let is_token = |word: &str| {
        let is_number = word.len() >= 9 && word.bytes().all(|byte| byte.is_ascii_digit());
        is_number || word.len() >= 26 && word.bytes().all(|byte| byte.is_ascii_alphanumeric())
    };
    let mut kept = String::with_capacity(text.len());
    for piece in text.split_inclusive(|byte: char| !byte.is_ascii_alphanumeric()) {
        let word = piece.trim_end_matches(|byte: char| !byte.is_ascii_alphanumeric());
        kept.push_str(if is_token(word) { "TOKEN" } else { word });
        kept.push_str(&piece[word.len()..]);
    }
    kept
}

/// An installed wiki with a page; its pages do not tell where they are served.
fn wiki_with_a_page() -> tempfile::TempDir {
    let svc = Svc::start_in(wiki::fresh_copy(), &[("PHP_WORKERS", "2")]);
    let mut admin = Browser::open(svc.main());
    wiki::install(&mut admin);
    wiki::log_in(&mut admin);
    let form = admin.get("/doku.php?id=animals:wombat&do=edit").text();
    let text = "====== Wombats ======\n\nA **bold** animal, see [[wiki:syntax]] and [[nowhere]].\n";
    let (token, check) = (input(&form, "sectok"), input(&form, "changecheck"));
    let fields = [
        ("sectok", token.as_str()),
        ("id", "animals:wombat"),
        ("rev", "0"),
        ("changecheck", &check),
        ("wikitext", text),
        ("summary", "created"),
        ("do[save]", "1"),
    ];
    assert!(admin.submit("/doku.php?id=animals:wombat", &fields).text().contains("<strong>bold</strong>"));
    // Caches and the index are filled.
    for page in WIKI_PAGES {
        assert!(admin.get(page).status < 500, "{page}");
    }
    let settings = "<?php $conf['baseurl'] = 'http://wiki.test'; $conf['breadcrumbs'] = 0;";
    std::fs::write(svc.root().join("conf/local.protected.php"), settings).unwrap();
    std::fs::copy(Path::new(WIKI).join("worker.php"), svc.root().join("worker.php")).unwrap();
    copy_of(svc.root())
}

fn copy_of(root: &Path) -> tempfile::TempDir {
    let copy = tempfile::tempdir().unwrap();
    let copied = Command::new("cp").arg("-a").arg(root.join(".")).arg(copy.path()).status().unwrap();
    assert!(copied.success());
    copy
}

#[test]
fn a_wiki_answers_as_in_classic_mode() {
    let root = wiki_with_a_page();
    let classic = all_see(&Svc::start_in(copy_of(root.path()), &[("PHP_WORKERS", "2")]), reader_sees);
    assert!(classic[0][0].contains("Logged in as") && !classic[1][0].contains("Logged in as"));
    let settings = [("PHP_WORKERS", "1"), ("WORKER_MODE_ENABLED", "true"), ("ENTRY_FILE", "worker.php")];
    let svc = Svc::start_in(root, &settings);
    assert_same(&classic, &all_see(&svc, reader_sees));
    assert!(svc.metric("svc_worker_requests_count{worker=\"0\"}") >= 1000.0);
    svc.assert_metric("svc_workers_spawned_total", 1.0);
}
