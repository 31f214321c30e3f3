//! `svc octane`.
//!
//! The package archive of the system has no Octane: a stand-in has its files, reads the same variables and calls the same
//! functions. The Composer package has its own tests (`octane_commands`).
#![cfg(feature = "worker")]

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use rustix::process::Signal;

use svc_testing::client::eventually;
use svc_testing::{Svc, command};

/// Like Octane's worker: boots the application once, and ends its loop after `MAX_REQUESTS`.
const WORKER: &str = r#"<?php
if (! ($_SERVER['FRANKENPHP_WORKER'] ?? false) || ! function_exists('frankenphp_handle_request')) {
    echo 'FrankenPHP must be in worker mode to use this script.';
    exit(1);
}
ignore_user_abort(true);
$boot = $_SERVER;
$application = require ($_ENV['APP_BASE_PATH'] ?? $_SERVER['APP_BASE_PATH']) . '/bootstrap/app.php';
$maxRequests = $_ENV['MAX_REQUESTS'] ?? $_SERVER['MAX_REQUESTS'];
$count = 0;
$handle = static function () use ($application, $boot, &$count) {
    header('X-Count: ' . ($count + 1));
    echo $application($boot);
};
while ($count < $maxRequests && frankenphp_handle_request($handle)) {
    $count++;
}
"#;

const STUB: &str = "<?php\n\nrequire __DIR__.'/../vendor/laravel/octane/bin/frankenphp-worker.php';\n";

const APPLICATION: &str = r"<?php return fn (array $boot) => json_encode([
    $boot['APP_BASE_PATH'], $boot['APP_PUBLIC_PATH'], $boot['LARAVEL_OCTANE'], $_SERVER['REQUEST_URI'], basename(__DIR__),
]);";

const FILES: [(&str, &str); 6] = [
    ("artisan", "<?php"),
    ("bootstrap/app.php", APPLICATION),
    ("public/index.php", "<?php echo 'classic';"),
    ("public/robots.txt", "User-agent: *"),
    ("vendor/laravel/octane/bin/frankenphp-worker.php", WORKER),
    ("vendor/laravel/octane/src/Commands/stubs/frankenphp-worker.php", STUB),
];

/// Writes an application with the stand-in into this folder.
pub(super) fn write(base: &Path) {
    for (name, text) in FILES {
        fs::create_dir_all(base.join(name).parent().unwrap()).unwrap();
        fs::write(base.join(name), text).unwrap();
    }
}

/// Starts `svc octane` on the application in the folder `shop` of a new one.
fn start(words: &[&str], settings: &[(&str, &str)]) -> (Svc, PathBuf) {
    let root = tempfile::tempdir().unwrap();
    let base = root.path().join("shop");
    write(&base);
    let mut command = command(root.path(), settings);
    command.current_dir(root.path()).arg("octane").args(words).arg("shop");
    (Svc::spawn(root, command), base)
}

#[test]
fn an_application_runs_with_nothing_else_set() {
    let (svc, base) = start(&["--workers", "1"], &[]);
    let public = base.join("public");
    let expected = serde_json::json!([base, public, "1", "/cart?id=1", "bootstrap"]).to_string();
    for count in 1..=3 {
        let response = svc.get("/cart?id=1");
        assert_eq!(response.text().replace("\\/", "/"), expected);
        assert_eq!(response.field("x-count"), Some(count.to_string().as_str()));
    }
    assert_eq!(svc.get("/robots.txt").text(), "User-agent: *");
    assert_eq!(fs::read_to_string(public.join("frankenphp-worker.php")).unwrap(), STUB);
    let config: serde_json::Value = serde_json::from_str(&svc.ask("/config").text()).unwrap();
    assert_eq!(config["worker_max_requests"], 500);
    assert_eq!(config["sources"]["worker_max_requests"], "command line (octane)");
}

#[test]
fn workers_end_after_about_the_given_number_of_requests() {
    let (svc, _) = start(&["--workers", "2", "--max-requests", "8"], &[]);
    let counts: Vec<u64> =
        (0..200).map(|_| svc.get("/").field("x-count").unwrap().parse().unwrap()).collect();
    let longest = *counts.iter().max().unwrap();
    assert!((6..=10).contains(&longest), "{counts:?}");
    let recycled = r#"svc_worker_recycles_by_reason_total{reason="scheduled"}"#;
    eventually("workers were recycled", || svc.metric(recycled) >= 18.0);
    assert_eq!(svc.metric(r#"svc_worker_recycles_by_reason_total{reason="error"}"#), 0.0);
}

#[test]
fn variables_of_the_environment_and_options_win() {
    let (svc, _) = start(&["--workers", "1", "--max-requests", "0"], &[("MAX_REQUESTS", "3")]);
    let counts: BTreeSet<_> = (0..12).map(|_| svc.get("/").field("x-count").unwrap().to_owned()).collect();
    assert_eq!(counts, ["1", "2", "3"].map(str::to_owned).into());
}

#[test]
fn a_reload_runs_the_new_code() {
    let (svc, base) = start(&["--workers", "2"], &[]);
    assert!(svc.get("/").text().contains("bootstrap"));
    fs::write(base.join("bootstrap/app.php"), "<?php return fn (array $boot) => 'new';").unwrap();
    svc.signal(Signal::HUP);
    eventually("all workers are new", || (0..8).all(|_| svc.get("/").text() == "new"));
}

#[test]
fn a_folder_without_octane_is_refused() {
    let root = tempfile::tempdir().unwrap();
    write(root.path());
    let refused = |dir: &str| {
        let mut command = command(root.path(), &[]);
        let output = command.current_dir(root.path()).args(["octane", dir]).output().unwrap();
        assert_eq!(output.status.code(), Some(2));
        String::from_utf8(output.stderr).unwrap()
    };
    assert!(refused("public").contains("public: is not an application of Laravel"));
    fs::remove_dir_all(root.path().join("vendor")).unwrap();
    let error = refused(".");
    assert!(error.contains("composer require laravel/octane"), "{error}");
}

#[test]
fn an_entry_may_be_relative_to_the_working_directory() {
    for entry in ["public/index.php", "./public/index.php", "index.php"] {
        let root = tempfile::tempdir().unwrap();
        write(root.path());
        fs::write(root.path().join("public/index.php"), "<?php Svc\\Worker::serve(fn () => print 'worker');")
            .unwrap();
        let mut command = command(root.path(), &[("DOCUMENT_ROOT", "")]);
        command.current_dir(root.path()).args(["--worker", entry]);
        assert_eq!(Svc::spawn(root, command).get("/any").text(), "worker", "{entry}");
    }
}
