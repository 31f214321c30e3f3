//! OPcache with persistent workers: a deployment empties it without downtime, and it is enabled again afterwards.

use std::fs::File;
use std::time::{Duration, SystemTime};

use rustix::process::Signal;
use serde_json::Value;
use svc_core::sync::counter::{Counter, Flag};

use svc_testing::Svc;
use svc_testing::client::{Client, eventually};

/// The code that a deployment replaces is in a separate file.
const WORKER: &str = r"<?php
require __DIR__ . '/code.php';
file_put_contents(__DIR__ . '/booted', '.', FILE_APPEND);
Svc\Worker::serve(function () {
    if (isset($_GET['stay'])) {
        touch(__DIR__ . '/inside-' . $_GET['stay']);
        while (!file_exists(__DIR__ . '/go')) { Svc\sleep(0.005); clearstatcache(); }
    }
    if (isset($_GET['reset'])) { echo json_encode(opcache_reset()); return; }
    if (isset($_GET['status'])) { echo json_encode(opcache_get_status(false)); return; }
    if (isset($_GET['off'])) {
        ini_set('opcache.enable', '0');
        if ($_GET['off'] !== '') {
            touch(__DIR__ . '/inside');
            while (!file_exists(__DIR__ . '/go')) { Svc\sleep(0.005); clearstatcache(); }
        }
        echo json_encode([ini_get('opcache.enable'), opcache_get_status(false)['opcache_enabled']]);
        return;
    }
    if (isset($_GET['include'])) { echo include __DIR__ . '/part.php'; return; }
    echo version();
});";

const BLIND: &[&str] = &["opcache.validate_timestamps=0", "opcache.file_update_protection=0"];

fn code(version: u32) -> String {
    format!(
        "<?php final class Deployed {{ const V = ['v' => '{version}']; }} function version() {{ return Deployed::V['v']; }}"
    )
}

fn start(workers: &str, directives: &[&str]) -> Svc {
    let settings = [("WORKER_MODE_ENABLED", "true"), ("ENTRY_FILE", "worker.php"), ("PHP_WORKERS", workers)];
    let files = [("worker.php", WORKER), ("code.php", &code(1)), ("part.php", "<?php return 'old';")];
    Svc::start_with(&files, &settings, directives)
}

fn deploy(svc: &Svc, version: u32) {
    std::fs::write(svc.root().join("code.new"), code(version)).unwrap();
    std::fs::rename(svc.root().join("code.new"), svc.root().join("code.php")).unwrap();
}

fn status(svc: &Svc) -> Value {
    serde_json::from_slice(&svc.get("/?status").body).unwrap()
}

fn stay(svc: &Svc, name: &str) -> Client {
    let mut client = svc.client();
    client.send(format!("GET /?stay={name} HTTP/1.1\r\nHost: x\r\n\r\n"));
    eventually("it is inside", || svc.root().join(format!("inside-{name}")).exists());
    client
}

fn restarts(svc: &Svc) -> u64 {
    svc.metric("svc_opcache_restarts_total") as u64
}

/// Waits until every worker serves this version from the cache.
fn until_deployed(svc: &Svc, version: u32) {
    eventually("all workers use the cache, and no restart is pending", || {
        (0..8).all(|_| {
            let status = status(svc);
            status["opcache_enabled"] == true
                && status["restart_pending"] == false
                && status["cache_full"] == false
        })
    });
    eventually("the old ones have ended", || {
        svc.metric("svc_workers_current") == svc.metric("svc_workers_max")
            && svc.metric("svc_workers_lingering") == 0.0
    });
    for _ in 0..8 {
        assert_eq!(svc.get("/").text(), version.to_string());
    }
    let statistics = |name: &str| status(svc)["opcache_statistics"][name].as_u64().unwrap();
    assert!(statistics("num_cached_scripts") >= 2);
    let hits = statistics("hits");
    assert_eq!(svc.get("/?include").text(), "old");
    assert_eq!(svc.get("/?include").text(), "old");
    assert!(statistics("hits") > hits, "it is in use");
}

/// How a deployment notifies the server.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Hook {
    Reset,
    Hangup,
    Both,
}

#[test]
fn a_deployment_is_served_from_the_cache_and_no_request_is_lost() {
    for (workers, hook) in [
        ("1", Hook::Both),
        ("3", Hook::Both),
        ("1", Hook::Reset),
        ("3", Hook::Reset),
        ("1", Hook::Hangup),
        ("3", Hook::Hangup),
    ] {
        let svc = start(workers, BLIND);
        let (done, served) = (Flag::new(), Counter::new());
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    let mut client = svc.client();
                    while !done.is_set() {
                        let response = client.get("/");
                        let text = response.text();
                        assert!(response.status == 200 && ["1", "2", "3"].contains(&&*text), "{text}");
                        served.incr();
                    }
                });
            }
            for version in 2..=3 {
                let before = restarts(&svc);
                let so_far = served.value();
                eventually("there is load", || served.value() > so_far + 20);
                let mut waits = stay(&svc, &version.to_string());
                deploy(&svc, version);
                if hook != Hook::Hangup {
                    assert_eq!(svc.get("/?reset").text(), "true");
                }
                if hook != Hook::Reset {
                    svc.signal(Signal::HUP);
                }
                eventually("new code is served", || svc.get("/").text() == version.to_string());
                assert_eq!(restarts(&svc), before, "the old worker is still in its memory");
                std::fs::write(svc.root().join("go"), "").unwrap();
                assert_eq!(waits.response().text(), (version - 1).to_string(), "it has ended in peace");
                std::fs::remove_file(svc.root().join("go")).unwrap();
                eventually("the cache restarts", || restarts(&svc) > before);
                until_deployed(&svc, version);
            }
            done.set();
        });
        for series in ["svc_dropped_requests_total", "svc_responses_by_status_total{status=\"5xx\"}"] {
            assert_eq!(svc.metric(series) as u64, 0, "{workers} {hook:?}: {series}");
        }
        assert!(svc.metric("svc_opcache_restart_delayed") < 0.5);
    }
}

#[test]
fn while_an_old_worker_lingers_the_status_and_the_metrics_show_it() {
    let svc = start("2", BLIND);
    let mut waits = stay(&svc, "a");
    assert_eq!(status(&svc)["restart_pending"], false);
    assert_eq!(svc.get("/?reset").text(), "true");
    deploy(&svc, 2);
    eventually("new code is served by workers without the cache", || {
        let status = status(&svc);
        status["opcache_enabled"] == false && status["restart_pending"] == true
    });
    eventually("the delay is shown", || svc.metric("svc_opcache_restart_delayed") == 1.0);
    let told =
        "OPcache restart is waiting for old PHP workers to end: new workers run without OPcache until then";
    assert_eq!(svc.log().expect(told)["level"], "WARN");
    // A worker that boots meanwhile at its own request delays nothing.
    assert_eq!(svc.ask("/readyz").status, 200);
    assert_eq!(restarts(&svc), 0);
    std::fs::write(svc.root().join("go"), "").unwrap();
    assert_eq!(waits.response().text(), "1");
    eventually("it restarts", || restarts(&svc) == 1);
    until_deployed(&svc, 2);
    assert!(svc.metric("svc_opcache_restart_delayed") < 0.5);
    svc.log().expect("OPcache restarted after a delay");
}

#[test]
fn a_cache_that_is_reset_again_and_again_serves_the_right_code() {
    let svc = start("3", BLIND);
    let (done, resets) = (Flag::new(), Counter::new());
    std::thread::scope(|scope| {
        for seed in 0..4 {
            let (svc, done, resets) = (&svc, &done, &resets);
            scope.spawn(move || {
                let mut client = svc.client();
                while !done.is_set() {
                    let path = ["/", "/?include", "/?status", "/?off="][(seed + resets.value() as usize) % 4];
                    let response = client.get(path);
                    assert_eq!(response.status, 200, "{path}: {}", response.text());
                    if seed == 0 && client.get("/?reset").text() == "true" {
                        resets.incr();
                    }
                }
            });
        }
        eventually("the cache has restarted twice", || restarts(&svc) >= 2);
        done.set();
    });
    assert!(resets.value() >= 2);
    assert!(svc.metric("svc_responses_by_status_total{status=\"5xx\"}") < 0.5);
}

/// Without shared memory, there is nothing for which new workers could be better.
#[test]
fn workers_whose_cache_is_on_disk_only_are_not_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let folder = format!("opcache.file_cache={}", folder.path().display());
    let svc = start("1", &["opcache.file_cache_only=1", "opcache.file_update_protection=0", &folder]);
    for _ in 0..50 {
        assert_eq!(svc.get("/").text(), "1");
    }
    let boots = || std::fs::read_to_string(svc.root().join("booted")).unwrap().len();
    assert_eq!(boots(), 1);
    deploy(&svc, 2);
    // The cache on disk recognises a change by its time, in seconds.
    let file = File::options().write(true).open(svc.root().join("code.php")).unwrap();
    file.set_modified(SystemTime::now() + Duration::from_secs(10)).unwrap();
    svc.signal(Signal::HUP);
    eventually("the new code is served", || svc.get("/").text() == "2");
    assert_eq!(boots(), 2);
}

#[test]
fn a_broken_deployment_leaves_the_old_code_and_the_next_one_is_served() {
    let svc = start("2", BLIND);
    // Readiness needs only one of them, and a worker that boots now would be broken too.
    eventually("both have booted", || {
        std::fs::read(svc.root().join("booted")).is_ok_and(|boots| boots.len() == 2)
    });
    std::fs::write(svc.root().join("code.php"), "<?php throw new Exception('broken');").unwrap();
    assert_eq!(svc.get("/?reset").text(), "true");
    eventually("it is logged", || {
        svc.log()
            .find("rolling restart of PHP workers stopped: a new worker failed to boot, and the remaining old workers keep running")
            .is_some()
    });
    assert_eq!(svc.get("/").text(), "1");
    deploy(&svc, 2);
    svc.signal(Signal::HUP);
    eventually("the cache restarts", || restarts(&svc) > 0);
    until_deployed(&svc, 2);
}

#[test]
fn a_request_that_does_without_the_cache_does_so_alone() {
    let svc = start("1", BLIND);
    let alone = r#"["0",false]"#;
    assert_eq!(svc.get("/?off=").text(), alone);
    assert_eq!(status(&svc)["opcache_enabled"], true, "it is over with the request");
    let mut waits = svc.client();
    waits.send("GET /?off=until HTTP/1.1\r\nHost: x\r\n\r\n");
    eventually("it waits", || svc.root().join("inside").exists());
    assert_eq!(status(&svc)["opcache_enabled"], true, "a neighbour has the cache");
    std::fs::write(svc.root().join("go"), "").unwrap();
    assert_eq!(waits.response().text(), alone, "and it travels with its request");
    assert_eq!(status(&svc)["opcache_enabled"], true);
}

#[test]
fn a_file_that_requests_include_is_looked_at_again_when_it_is_time() {
    let svc = start("1", &["opcache.revalidate_freq=1", "opcache.file_update_protection=0"]);
    let mut client = svc.client();
    assert_eq!(client.get("/?include").text(), "old");
    std::fs::write(svc.root().join("part.php"), "<?php return 'new';").unwrap();
    is_younger(&svc, "part.php");
    eventually("the change is seen", || client.get("/?include").text() == "new");
}

/// OPcache compares times in seconds.
fn is_younger(svc: &Svc, name: &str) {
    let later = SystemTime::now() + Duration::from_secs(10);
    File::options().write(true).open(svc.root().join(name)).unwrap().set_modified(later).unwrap();
}

#[test]
fn new_workers_trust_nothing_that_was_found_on_disk_before_them() {
    let svc = start("1", &["opcache.revalidate_freq=3600", "opcache.file_update_protection=0"]);
    let mut client = svc.client();
    assert_eq!((client.get("/").text(), client.get("/?include").text()), ("1".into(), "old".into()));
    deploy(&svc, 2);
    std::fs::write(svc.root().join("part.php"), "<?php return 'new';").unwrap();
    is_younger(&svc, "code.php");
    is_younger(&svc, "part.php");
    assert_eq!(client.get("/").text(), "1", "what is loaded stays loaded");
    svc.signal(Signal::HUP);
    svc.log().expect("rolling restart of PHP workers finished");
    assert_eq!((svc.get("/").text(), svc.get("/?include").text()), ("2".into(), "new".into()));
}
