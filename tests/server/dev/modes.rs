//! What `svc dev` shows is shown in no other mode.

use std::process::Command;

use svc_testing::client::Response;
use svc_testing::{Svc, binary, command, written};

use super::{asked, start, visit};

const DOCUMENT: &str = "<!doctype html><title>t</title><p>page";

const FILES: [(&str, &str); 5] = [
    ("page.php", "<!doctype html><title>t</title><p><?= 'page' ?>"),
    ("page.html", DOCUMENT),
    ("fail.php", "<?php function f() { throw new LogicException('secret reason'); } f();"),
    (
        "worker.php",
        "<?php Svc\\Worker::serve(function () { if ($_SERVER['REQUEST_URI'] === '/fail.php') { throw new LogicException('secret reason'); } echo '<!doctype html><title>t</title><p>page'; });",
    ),
    ("broken.php", "<?php throw new LogicException('secret reason');"),
];

/// Starts the server with these arguments, and without `svc dev`.
fn other_mode(words: &[&str]) -> Svc {
    let root = written(&FILES);
    let mut command = command(root.path(), &[("SVC_DEV", "1"), ("DEVELOPMENT", "true"), ("APP_ENV", "dev")]);
    command.args(words);
    Svc::spawn(root, command)
}

#[track_caller]
fn assert_ordinary(response: &Response) {
    let text = response.text();
    assert!(!text.contains("secret reason") && !text.contains("<script"), "{text}");
    assert_eq!(response.field("content-security-policy"), None);
}

#[test]
#[cfg(feature = "php")]
fn no_other_mode_shows_failures_or_reloads_browsers() {
    let modes: [&[&str]; 5] = [
        &["serve"],
        &["serve", "--watch"],
        &["serve", "--worker", "worker.php"],
        &["serve", "--worker", "worker.php", "--watch"],
        &["--watch", "--entry", "page.php"],
    ];
    for words in modes {
        let svc = other_mode(words);
        let page = visit(&svc, "/page.php");
        assert_eq!((page.status, page.text().trim()), (200, DOCUMENT), "{words:?}");
        assert_eq!(visit(&svc, "/page.html").text(), DOCUMENT, "{words:?}");
        let failed = visit(&svc, "/fail.php");
        assert_eq!(failed.status, 500, "{words:?}");
        assert_ordinary(&failed);
        let json = asked(&mut svc.client(), "GET", "/fail.php", "Accept: application/json");
        assert_eq!(json.status, 500, "{words:?}");
        assert_ordinary(&json);
        let wait = visit(&svc, "/.svc/changes?since=1-0");
        assert_ne!(wait.status, 204, "{words:?}");
        assert!(!wait.text().contains("-0"), "{words:?}: {}", wait.text());
    }
}

#[test]
#[cfg(feature = "php")]
fn no_other_mode_shows_why_workers_do_not_boot() {
    for words in [&["serve", "--worker", "broken.php"][..], &["serve", "--worker", "broken.php", "--watch"]] {
        let svc = other_mode(words);
        let response = visit(&svc, "/");
        assert_eq!(response.status, 500, "{words:?}");
        assert_ordinary(&response);
    }
}

#[test]
fn without_php_files_are_documents_too() {
    let root = written(&FILES);
    let mut command = command(root.path(), &[("EXECUTOR", "stub"), ("LOG_FORMAT", "json")]);
    command.arg("dev");
    let svc = Svc::spawn(root, command);
    assert!(visit(&svc, "/page.html").text().contains("<script data-revision="));
}

#[test]
fn a_public_address_and_another_user_are_refused() {
    let refused = |settings: &[(&str, &str)], words: &[&str]| {
        let root = written(&FILES);
        let mut command = command(root.path(), settings);
        let output = command.arg("dev").args(words).output().unwrap();
        assert_eq!(output.status.code(), Some(2));
        String::from_utf8(output.stderr).unwrap()
    };
    let public = refused(&[("LISTEN_ADDR", "0.0.0.0:0")], &[]);
    assert!(public.contains("LISTEN_ADDR") && public.contains("--host"), "{public}");
    assert!(refused(&[], &["--listen", ":0"]).contains("--host"));
    assert!(refused(&[("RUN_AS", "nobody")], &[]).contains("RUN_AS"));
    assert!(refused(&[], &["--host", "here"]).contains("--host"));
}

#[test]
fn an_option_makes_it_reachable() {
    let svc = start(&[("page.html", DOCUMENT)], &["--host", "0.0.0.0", "--port", "0"]);
    assert!(svc.main().ip().is_unspecified());
}

#[test]
fn a_port_in_use_is_replaced_by_the_next_free_one() {
    let holder = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = holder.local_addr().unwrap().port();
    let svc = start(&[("page.html", DOCUMENT)], &["--port", &port.to_string()]);
    assert!(svc.main().port() > port);
    assert_eq!(visit(&svc, "/page.html").status, 200);
}

#[test]
fn the_command_is_documented() {
    let help = Command::new(binary()).args(["help", "dev"]).output().unwrap();
    let help = String::from_utf8(help.stdout).unwrap();
    assert!(help.contains("--host ADDRESS") && help.contains("RUN_AS"), "{help}");
}
