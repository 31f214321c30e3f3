//! No other mode shows failures or reloads browsers.

use svc_testing::client::Response;
use svc_testing::{Svc, command, written};

use super::{asked, visit};

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
fn no_other_mode_shows_failures_or_reloads_browsers() {
    let modes: &[&[&str]] = &[
        &["serve"],
        &["serve", "--watch"],
        #[cfg(feature = "worker")]
        &["serve", "--worker", "worker.php"],
        #[cfg(feature = "worker")]
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

#[cfg(feature = "worker")]
#[test]
fn no_other_mode_shows_why_workers_do_not_boot() {
    for words in [&["serve", "--worker", "broken.php"][..], &["serve", "--worker", "broken.php", "--watch"]] {
        let svc = other_mode(words);
        let response = visit(&svc, "/");
        assert_eq!(response.status, 500, "{words:?}");
        assert_ordinary(&response);
    }
}
