//! Applications built with frameworks: worker mode gives the same answers as classic mode, also for concurrent users.

use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;

use svc_testing::Svc;
use svc_testing::browser::{Browser, input};
use svc_testing::client::{Response, eventually};
use svc_testing::fetched::fetched;
use svc_testing::visits;
use svc_testing::visits::Step;
use svc_testing::wiki;

const WIKI: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/php/wiki");

/// The number of concurrent users.
const USERS: usize = 8;

/// A framework, and the application built with it.
struct Framework {
    /// The script that locates its classes, and the folder of the application.
    name: &'static str,
    /// The variable that passes the classes' folder to the application.
    variable: &'static str,
    /// Folders that the application writes to.
    folders: &'static [&'static str],
    /// The requests of one visit of a user, and the number of visits: together all users send at least 1,000 requests.
    visit: fn(usize, usize) -> Vec<Step>,
    visits: usize,
    /// Whether a visit provokes this message in the log.
    is_provoked: fn(&str) -> bool,
}

const SYMFONY: Framework = Framework {
    name: "symfony",
    variable: "SYMFONY",
    folders: &["var/twig"],
    visit: visits::symfony,
    visits: 7,
    // Symfony reports the exceptions that it answers, and leaves PHP's errors to PHP.
    is_provoked: |message| {
        message.contains("[critical]") || message.starts_with("Uncaught DivisionByZeroError")
    },
};

const LARAVEL: Framework = Framework {
    name: "laravel",
    variable: "LARAVEL",
    folders: &["bootstrap/cache", "storage/framework/sessions", "storage/framework/views"],
    visit: visits::laravel,
    visits: 5,
    is_provoked: |message| {
        ["as the test wants it", "Division by zero", "Undefined array key 1 "]
            .iter()
            .any(|error| message.contains(&format!("production.ERROR: {error}")))
    },
};

impl Framework {
    /// Returns the folder of its classes; `None` if they are not available on this machine.
    fn classes(&self) -> Option<String> {
        fetched(self.name)
    }

    /// Starts the application behind the front controller `entry`.
    fn start(&self, classes: &str, entry: &str) -> Svc {
        let root = tempfile::tempdir().unwrap();
        let from = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/php").join(self.name).join(".");
        // `-p` keeps the times: a template as new as its compiled form is compiled again by each request, and requests
        // could read half-written files.
        let copied = Command::new("cp").arg("-rp").arg(from).arg(root.path()).status().unwrap();
        assert!(copied.success());
        for folder in self.folders {
            std::fs::create_dir_all(root.path().join(folder)).unwrap();
        }
        let mode: &[_] = match entry {
            "classic.php" => &[("PHP_WORKERS", "2")],
            "fibers.php" => &[("PHP_WORKERS", "1"), ("WORKER_MODE_ENABLED", "true"), ("WORKER", "fibers")],
            _ => &[("PHP_WORKERS", "1"), ("WORKER_MODE_ENABLED", "true"), ("REQUESTS_AT_MOST", "100000")],
        };
        Svc::start_in(root, &[&[("ENTRY_FILE", entry), (self.variable, classes)], mode].concat())
    }

    /// Returns all responses to a user, without the parts that differ between any two runs.
    fn user_sees(&self, svc: &Svc, user: usize) -> Vec<String> {
        let mut browser = Browser::open(svc.main());
        let mut token = String::new();
        let mut seen = Vec::new();
        for (method, target, kind, body) in (0..self.visits).flat_map(|number| (self.visit)(user, number)) {
            let response = browser.exchange(method, &target.replace("{token}", &token), kind, &body);
            let mut text = comparable(&response);
            if text.contains("name=\"_token\"") {
                token = input(&text, "_token");
                text = text.replace(&token, "TOKEN");
            }
            let ids = browser.values().filter(|value| value.len() > 20);
            text = ids.fold(text, |text, id| text.replace(id, "ID"));
            text = text.replace(&svc.main().to_string(), "HOST");
            seen.push(format!("user {user}: {method} {target}\n{text}"));
        }
        seen
    }

    /// Asserts that the application behind each of `entries` gives the same answers as behind `classic.php`; returns those
    /// answers.
    fn answers_as_in_classic_mode(&self, classes: &str, entries: &[&str]) -> Vec<Vec<String>> {
        let sees = |svc: &Svc, user| self.user_sees(svc, user);
        let classic = self.start(classes, "classic.php");
        // A single user compiles the templates first, since not all frameworks do it atomically.
        sees(&classic, USERS);
        let classic = all_see(&classic, sees);
        let requests = classic.iter().map(Vec::len).sum();
        assert!(requests >= 1000, "{requests}");
        for entry in entries {
            let svc = self.start(classes, entry);
            assert_same(&classic, &all_see(&svc, sees));
            self.one_worker_did_it_all(&svc, requests);
        }
        classic
    }

    fn one_worker_did_it_all(&self, svc: &Svc, requests: usize) {
        // A request ends after its response.
        eventually("all requests are counted", || {
            svc.metric("svc_worker_requests_count{worker=\"0\"}") == requests as f64
        });
        assert_eq!(svc.metric("svc_workers_spawned_total"), 1.0, "no boot but the first");
        let told = svc.log().of("php");
        let message = |record: &serde_json::Value| record["fields"]["message"].as_str().unwrap().to_owned();
        let others: Vec<_> = told.iter().filter(|record| !(self.is_provoked)(&message(record))).collect();
        assert!(others.is_empty(), "{others:?}");
    }
}

/// Returns a response as text, without times and without the framing of its body.
fn comparable(response: &Response) -> String {
    let mut text = format!("{} {}\n", response.status, response.reason);
    for (name, value) in &response.fields {
        match name.as_str() {
            "content-length" | "transfer-encoding" => Ok(()),
            "date" | "expires" | "last-modified" | "x-request-id" => writeln!(text, "{name}: MOMENT"),
            "set-cookie" => {
                let is_moment = |part: &str| part.starts_with("expires=") || part.starts_with("Max-Age=");
                let parts = value.split("; ").filter(|part| !is_moment(part));
                writeln!(text, "{name}: {}", parts.collect::<Vec<_>>().join("; "))
            }
            _ => writeln!(text, "{name}: {value}"),
        }
        .unwrap();
    }
    text + &response.text()
}

/// Returns the responses to all users, who visit at the same time.
fn all_see(svc: &Svc, user_sees: impl Fn(&Svc, usize) -> Vec<String> + Sync) -> Vec<Vec<String>> {
    let user_sees = &user_sees;
    std::thread::scope(|scope| {
        let users: Vec<_> = (0..USERS).map(|user| scope.spawn(move || user_sees(svc, user))).collect();
        users.into_iter().map(|user| user.join().unwrap()).collect()
    })
}

/// Asserts that two runs are equal; names the first different request.
fn assert_same(expected: &[Vec<String>], seen: &[Vec<String>]) {
    assert_eq!(expected.iter().flatten().count(), seen.iter().flatten().count());
    for (expected, seen) in expected.iter().flatten().zip(seen.iter().flatten()) {
        assert!(seen == expected, "{seen}\n---- and in classic mode\n{expected}");
    }
}

#[test]
fn an_application_of_symfony_s_answers_as_in_classic_mode() {
    let Some(classes) = SYMFONY.classes() else { return };
    let classic = SYMFONY.answers_as_in_classic_mode(&classes, &["fibers.php", "loop.php", "runtime.php"]);
    assert!(classic[0][1].contains("You were here 1 times."), "{}", classic[0][1]);
}

#[test]
fn an_application_of_laravel_s_answers_as_in_classic_mode() {
    let Some(classes) = LARAVEL.classes() else { return };
    let classic = LARAVEL.answers_as_in_classic_mode(&classes, &["fibers.php", "loop.php"]);
    for (step, text) in visits::LARAVEL_SHOWS {
        assert!(classic[2][step].contains(text), "{step}: {}", classic[2][step]);
    }
}

#[test]
fn a_service_of_laravel_s_that_is_made_at_the_boot_stays() {
    let Some(classes) = LARAVEL.classes() else { return };
    for (entry, second) in [("classic.php", "1"), ("fibers.php", "1"), ("loop.php", "2")] {
        let svc = LARAVEL.start(&classes, entry);
        let mut browser = Browser::open(svc.main());
        assert_eq!(browser.get("/requests").text(), "1", "{entry}");
        assert_eq!(browser.get("/requests").text(), second, "{entry}");
    }
}

/// How often each user of the wiki reads all pages: 1,088 requests to one worker.
const READINGS: usize = 8;

/// Pages of the wiki, each created by a different part of it, and none of which shows the activity of other users.
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

/// Returns the pages that a user of the wiki sees; every other user is the administrator.
fn reader_sees(svc: &Svc, user: usize) -> Vec<String> {
    let mut browser = Browser::open(svc.main());
    if user.is_multiple_of(2) {
        wiki::log_in(&mut browser);
    }
    // Each user begins with another page, so that different pages overlap.
    let pages = WIKI_PAGES.iter().cycle().skip(user * 5).take(WIKI_PAGES.len() * READINGS);
    let sees = |target: &&str| {
        let response = browser.exchange("GET", target, "", b"");
        format!("user {user}: {target}\n{}", without_tokens(&without_signature(&comparable(&response))))
    };
    pages.map(sees).collect()
}

/// Removes the signature that the wiki offers to editors, which contains the minute.
fn without_signature(text: &str) -> String {
    let Some((before, rest)) = text.split_once("var SIG=") else { return text.to_owned() };
    let after = rest.split_once(';').map_or("", |(_, after)| after);
    format!("{before}{after}")
}

/// Removes times, session names and tokens from a text: long numbers, and words of hexadecimal digits.
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

/// Installs a wiki with a page; its pages do not contain their address.
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
    // Fills the caches and the index.
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
    let classic = Svc::start_in(copy_of(root.path()), &[("PHP_WORKERS", "2")]);
    // The wiki caches rendered pages per server address, and may read a file that another request is writing: users who do
    // not overlap fill that cache.
    for user in [0, 1] {
        reader_sees(&classic, user);
    }
    let classic = all_see(&classic, reader_sees);
    assert!(classic[0][0].contains("Logged in as") && !classic[1][0].contains("Logged in as"));
    let settings = [("PHP_WORKERS", "1"), ("WORKER_MODE_ENABLED", "true"), ("ENTRY_FILE", "worker.php")];
    let svc = Svc::start_in(root, &settings);
    assert_same(&classic, &all_see(&svc, reader_sees));
    assert!(svc.metric("svc_worker_requests_count{worker=\"0\"}") >= 1000.0);
    svc.assert_metric("svc_workers_spawned_total", 1.0);
}
