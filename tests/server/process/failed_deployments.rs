//! Deployments in worker mode whose code does not boot: each report names the reason, and workers with the former code serve.

use std::fs::{self, File};
use std::process::Command;
use std::time::{Duration, SystemTime};

use rustix::process::Signal;
use serde_json::{Value, json};

use super::deployments::{DeployedSite, code};
use crate::ops::status::becomes;
use svc_testing::client::eventually;
use svc_testing::{Svc, written};

/// Code that does not boot, part of its message, and whether the message contains a place.
const BROKEN: [(&str, &str, bool); 5] = [
    ("<?php throw new RuntimeException('no database');", "Uncaught RuntimeException: no database", true),
    (
        "<?php register_shutdown_function(fn () => trigger_error('a cache', E_USER_WARNING)); echo $nothing; throw new Error('boom');",
        "Uncaught Error: boom",
        true,
    ),
    ("<?php if (", "Unclosed '('", true),
    ("<?php trigger_error('only a hint', E_USER_WARNING); exit(1);", "its last message: only a hint", false),
    ("<?php exit(1);", "the script ended without waiting for requests (Svc\\Worker::serve())", false),
];

#[test]
fn a_deployment_that_does_not_boot_is_seen_everywhere_until_one_boots() {
    let site = DeployedSite::start(true, &code("v1"), &[], &[]);
    let (failing, failures) = ("svc_worker_boot_failing", "svc_worker_boot_failures_total");
    let successful = "svc_config_last_reload_successful";
    let succeeded_at = "svc_config_last_reload_success_timestamp_seconds";
    assert_eq!([failing, failures, successful].map(|name| site.metric(name)), [0.0, 0.0, 1.0]);
    for (broken, reason, has_place) in BROKEN {
        let (before, count) = (site.metric(succeeded_at), site.metric(failures));
        site.replace_code(broken);
        let said = site.reload_in_vain(&[]);
        assert!(said.starts_with("svc: error: the reload failed: a PHP worker failed to boot: "), "{said}");
        assert!(said.contains(reason), "{said}");
        let lib = site.path("release1/lib.php");
        assert_eq!(said.contains(&format!("{} on line 1", lib.display())), has_place, "{said}");
        site.assert_serves("v1");
        assert_eq!([failing, successful, succeeded_at].map(|name| site.metric(name)), [1.0, 0.0, before]);
        assert!(site.metric(failures) > count);
        let seen = becomes(&site.svc, "it is shown", |seen| {
            seen["boot_failure"]["message"].as_str().is_some_and(|message| message.contains(reason))
        });
        assert_eq!(seen["conditions"], json!(["boot_failed", "reload_failed"]));
        let file = lib.to_str().unwrap();
        let expected = if has_place { json!([file, 1]) } else { json!([null, null]) };
        assert_eq!(json!([seen["boot_failure"]["file"], seen["boot_failure"]["line"]]), expected);
        assert!(seen["boot_failure"]["since"].is_string());
        assert_eq!(site.svc.ask("/readyz").status, 200);
    }
    let mended =
        "<?php trigger_error('a warning is no failure', E_USER_WARNING); function code() { return 'v2'; }";
    site.replace_code(mended);
    site.reload_well();
    site.assert_serves("v2");
    assert_eq!([failing, successful].map(|name| site.metric(name)), [0.0, 1.0]);
    let seen = becomes(&site.svc, "it is over", |seen| seen["conditions"] == json!([]));
    assert_eq!(seen["boot_failure"], Value::Null);
}

#[test]
fn code_that_is_mended_without_a_reload_reaches_every_worker_and_ends_the_failure() {
    let succeeded_at = "svc_config_last_reload_success_timestamp_seconds";
    for directive in ["opcache.enable=0", "opcache.enable=1"] {
        let site = DeployedSite::start(true, &code("v1"), &[], &[directive]);
        let before = site.metric(succeeded_at);
        site.replace_code("<?php throw new Exception('broken');");
        site.reload_in_vain(&[]);
        site.assert_serves("v1");
        site.replace_code(&code("v2"));
        eventually("the restart is attempted again", || site.answers() == vec!["v2"; 6]);
        eventually("the reload has succeeded", || site.metric("svc_config_last_reload_successful") == 1.0);
        assert!(site.metric(succeeded_at) > before);
        assert_eq!(site.metric("svc_worker_boot_failing"), 0.0);
        becomes(&site.svc, "it is over", |seen| seen["conditions"] == json!([]));
        site.svc.log().expect("reload finished");
    }
}

/// A deployment may remove the entry file before it writes the new one.
#[test]
fn workers_serve_while_the_file_of_their_script_is_missing() {
    let site = DeployedSite::start(true, &code("v1"), &[], &[]);
    site.assert_serves("v1");
    let entry = site.svc.root().join("index.php");
    let source = fs::read(&entry).unwrap();
    fs::remove_file(&entry).unwrap();
    let said = site.reload_in_vain(&[]);
    assert!(said.contains("index.php") && !said.contains("Unknown"), "{said}");
    site.assert_serves("v1");
    for (path, status) in [("/index.php", 200), ("/a/b", 200), ("/a/", 200), ("/index.php/a", 404)] {
        assert_eq!(site.svc.get(path).status, status, "{path}");
    }
    fs::write(&entry, source).unwrap();
    site.replace_code(&code("v2"));
    site.reload_well();
    site.assert_serves("v2");
}

#[test]
fn a_failed_first_start_is_counted_and_a_reload_reports_the_fixed_code() {
    let entry = "<?php require __DIR__ . '/lib.php'; Svc\\Worker::serve(function () { echo code(); });";
    let root = written(&[("index.php", entry), ("lib.php", "<?php throw new Exception('first');")]);
    let pid_file = root.path().join("svc.pid");
    let settings = [
        ("PID_FILE", pid_file.to_str().unwrap()),
        ("ENTRY_FILE", "index.php"),
        ("WORKER_MODE_ENABLED", "true"),
    ];
    let svc = Svc::start_in(root, &settings);
    eventually("it has failed", || svc.metric("svc_worker_boot_failing") > 0.0);
    assert!(svc.metric("svc_worker_boot_failures_total") > 0.0);
    let seen = becomes(&svc, "it is shown", |seen| !seen["boot_failure"].is_null());
    assert_eq!(seen["boot_failure"]["message"], "Uncaught Exception: first");
    let reload = || {
        let mut command = Command::new(env!("CARGO_BIN_EXE_svc"));
        let output = command.arg("reload").env_clear().env("PID_FILE", &pid_file).output().unwrap();
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    };
    fs::write(svc.root().join("lib.php"), "<?php throw new Exception('second');").unwrap();
    let (exit, said) = reload();
    assert_eq!(exit, Some(1), "{said}");
    assert!(said.contains("Uncaught Exception: second"), "{said}");
    fs::write(svc.root().join("lib.php"), code("works")).unwrap();
    let (exit, said) = reload();
    assert_eq!(exit, Some(0), "{said}");
    assert_eq!(svc.get("/").text(), "works");
    assert_eq!(svc.metric("svc_worker_boot_failing"), 0.0);
}

/// As with files from an archive: OPcache has the code that failed, and takes the new file for it.
#[test]
fn code_that_is_mended_with_the_same_time_of_change_boots_without_a_reload() {
    let entry = "<?php require __DIR__ . '/lib.php'; Svc\\Worker::serve(function () { echo code(); });";
    let root = written(&[("index.php", entry), ("lib.php", "<?php throw new Exception('first');")]);
    let lib = root.path().join("lib.php");
    let time = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000);
    File::options().write(true).open(&lib).unwrap().set_modified(time).unwrap();
    let settings = [("ENTRY_FILE", "index.php"), ("WORKER_MODE_ENABLED", "true"), ("PHP_WORKERS", "2")];
    let svc = Svc::launch(root, &settings, &[]);
    eventually("several attempts have failed", || svc.metric("svc_worker_boot_failures_total") >= 3.0);
    // Renamed into place, so that no attempt finds half a file.
    let next = svc.root().join("next.php");
    fs::write(&next, code("works")).unwrap();
    File::options().write(true).open(&next).unwrap().set_modified(time).unwrap();
    fs::rename(&next, &lib).unwrap();
    eventually("a worker boots", || svc.metric("svc_worker_boot_failing") == 0.0);
    assert_eq!(svc.get("/").text(), "works");
}

/// Returns code whose boot waits for a file.
fn slow(site: &DeployedSite, word: &str) -> String {
    let go = site.path("go");
    let waits = format!("while (!file_exists('{}')) {{ usleep(1000); clearstatcache(); }}", go.display());
    format!("<?php {waits} function code() {{ return '{word}'; }}")
}

#[test]
fn the_wait_has_an_end_and_can_be_left_out() {
    let site = DeployedSite::start(true, &code("v1"), &[], &[]);
    site.replace_code(&slow(&site, "v2"));
    let said = site.reload_in_vain(&["--timeout", "1"]);
    assert!(said.contains("the reload has not ended within 1 s (--timeout)"), "{said}");
    let output = site.reload(&["--no-wait"]);
    assert_eq!((output.status.code(), output.stderr.len()), (Some(0), 0));
    site.assert_serves("v1");
    // Several reloads at once, the first of which has begun before: all have the same result.
    let mut waiting: Vec<_> = (0..3).map(|_| site.reloading(&[]).spawn().unwrap()).collect();
    fs::write(site.path("go"), "").unwrap();
    for reload in &mut waiting {
        assert_eq!(reload.wait().unwrap().code(), Some(0));
    }
    site.assert_serves("v2");
    for wrong in ["0", "-1", "soon", "", "1e3", "86401"] {
        let output = site.reload(&["--timeout", wrong]);
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{wrong:?}: {said}");
        assert!(said.contains("accepted: an integer from 1 to 86400, in seconds"), "{said}");
    }
}

#[test]
fn the_end_of_the_server_is_reported_at_once() {
    for (signal, outcome) in [
        (Signal::TERM, "the reload was abandoned: the server is stopping"),
        (Signal::KILL, "the server has ended before the reload"),
    ] {
        let mut site = DeployedSite::start(true, &code("v1"), &[("DRAIN_DELAY_SECONDS", "2")], &[]);
        site.replace_code(&slow(&site, "v2"));
        let waiting = site.reloading(&[]).spawn().unwrap();
        site.svc.log().expect("rolling restart of PHP workers started");
        site.svc.signal(signal);
        let output = waiting.wait_with_output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert!(said.contains(outcome), "{signal:?}: {said}");
        fs::write(site.path("go"), "").unwrap();
        if signal == Signal::TERM {
            assert_eq!(site.svc.wait(), Some(0));
            let left: Vec<_> = fs::read_dir(site.folder.path()).unwrap().flatten().collect();
            let left = left.iter().filter(|entry| entry.file_name().to_string_lossy().starts_with("svc.pid"));
            assert_eq!(left.count(), 0, "a file was left behind");
        } else {
            assert_eq!(site.svc.crash(), Some(9));
            assert!(site.reload_in_vain(&[]).contains("is stale: the server is not running"));
        }
    }
}
