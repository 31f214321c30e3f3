//! Deployments: after `svc reload`, requests in each mode run the new code, however the files were replaced.
#![cfg(feature = "php")]

use std::fs::{self, File};
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, SystemTime};

use serde_json::Value;
use tempfile::TempDir;

use crate::ops::status::{becomes, status};
use svc_testing::client::eventually;
use svc_testing::skip::skipped;
use svc_testing::{IS_WORKER, Svc};

/// Without this directive, OPcache ignores scripts that were written in the last two seconds.
const AT_ONCE: &str = "opcache.file_update_protection=0";

/// A site whose code is behind the link `current`, beside the document root.
pub(super) struct DeployedSite {
    pub(super) folder: TempDir,
    pub(super) svc: Svc,
}

impl DeployedSite {
    /// Starts a server on the first release, whose `lib.php` is `code`. In worker mode, the boot loads that code.
    pub(super) fn start(is_worker: bool, code: &str, settings: &[(&str, &str)], directives: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        release(folder.path(), 1, code);
        symlink("release1", folder.path().join("current")).unwrap();
        let lib = folder.path().join("current/lib.php");
        let lib = lib.to_str().unwrap();
        let index = if is_worker {
            format!("<?php require '{lib}'; Svc\\Worker::serve(function () {{ echo code(); }});")
        } else {
            format!("<?php require '{lib}'; echo code();")
        };
        let pid_file = folder.path().join("svc.pid");
        let mut all = vec![("PID_FILE", pid_file.to_str().unwrap()), ("PHP_WORKERS", "3")];
        if is_worker {
            all.extend([("ENTRY_FILE", "index.php"), ("WORKER_MODE_ENABLED", "true")]);
        }
        all.extend(settings);
        let directives = [&[AT_ONCE][..], directives].concat();
        let svc = Svc::start_with(&[("index.php", &index)], &all, &directives);
        // The server is ready before all of its workers are, and a worker that boots later would load the test's new code.
        becomes(&svc, "all workers have booted", |seen| {
            seen["workers"].as_array().unwrap().iter().all(|worker| worker["state"] == "idle")
        });
        Self { folder, svc }
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Returns the answers on several connections, from any of the workers.
    pub(super) fn answers(&self) -> Vec<String> {
        (0..6).map(|_| self.svc.get("/").text()).collect()
    }

    #[track_caller]
    pub(super) fn assert_serves(&self, code: &str) {
        assert_eq!(self.answers(), vec![code; 6]);
    }

    /// Overwrites the code in the same file and keeps its modification time.
    pub(super) fn replace_code(&self, code: &str) {
        let path = self.path("current/lib.php");
        let time = fs::metadata(&path).unwrap().modified().unwrap();
        fs::write(&path, code).unwrap();
        File::options().write(true).open(&path).unwrap().set_modified(time).unwrap();
    }

    pub(super) fn reload(&self, options: &[&str]) -> Output {
        self.reloading(options).output().unwrap()
    }

    pub(super) fn reloading(&self, options: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_svc"));
        command.arg("reload").args(options).env_clear().env("PID_FILE", self.path("svc.pid"));
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// Reloads successfully; returns the messages.
    #[track_caller]
    pub(super) fn reload_well(&self) -> String {
        let output = self.reload(&[]);
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(0), "{said}");
        said
    }

    /// Reloads without success; returns the messages.
    #[track_caller]
    pub(super) fn reload_in_vain(&self, options: &[&str]) -> String {
        let output = self.reload(options);
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{said}");
        said
    }

    pub(super) fn metric(&self, name: &str) -> f64 {
        self.svc.metric(name)
    }
}

pub(super) fn code(word: &str) -> String {
    format!("<?php function code() {{ return '{word}'; }}")
}

/// Writes a release. As in archives and reproducible builds, all files have the same time.
fn release(folder: &Path, number: usize, code: &str) {
    let release = folder.join(format!("release{number}"));
    fs::create_dir(&release).unwrap();
    fs::write(release.join("lib.php"), code).unwrap();
    let time = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000);
    File::options().write(true).open(release.join("lib.php")).unwrap().set_modified(time).unwrap();
}

/// Ways to deploy.
const WAYS: [&str; 4] = ["written over", "moved over", "moved over with the same time", "link switched"];

fn deploy(site: &DeployedSite, way: &str, number: usize, code: &str) {
    release(site.folder.path(), number, code);
    let (present, new) = (site.path("current/lib.php"), site.path(&format!("release{number}/lib.php")));
    match way {
        "written over" => site.replace_code(code),
        "moved over" => {
            File::options().write(true).open(&new).unwrap().set_modified(SystemTime::now()).unwrap();
            fs::rename(new, present).unwrap();
        }
        "moved over with the same time" => fs::rename(new, present).unwrap(),
        _ => {
            symlink(format!("release{number}"), site.path("next")).unwrap();
            fs::rename(site.path("next"), site.path("current")).unwrap();
        }
    }
}

#[test]
fn after_a_reload_every_worker_runs_the_code_on_disk() {
    for is_worker in IS_WORKER {
        for directive in ["opcache.validate_timestamps=0", "opcache.revalidate_freq=60", "opcache.enable=0"] {
            let site = DeployedSite::start(is_worker, &code("v1"), &[], &[directive]);
            site.assert_serves("v1");
            // All of them within a second or two, like a pipeline that corrects itself.
            for (number, way) in (2..).zip(WAYS.iter().chain(&WAYS)) {
                let word = format!("v{number}");
                deploy(&site, way, number, &code(&word));
                site.reload_well();
                assert_eq!(site.answers(), vec![word; 6], "{way}, {directive}, worker mode: {is_worker}");
            }
            assert_eq!(site.metric("svc_config_last_reload_successful"), 1.0);
            assert_eq!(site.metric("svc_config_restart_required"), 0.0);
        }
    }
}

#[test]
fn links_to_the_root_and_to_folders_below_it_are_followed_at_once() {
    for is_worker in IS_WORKER {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        let public = if is_worker {
            "<?php Svc\\Worker::serve(function () { echo '^'; });"
        } else {
            "<?php echo '^';"
        };
        let publish = |number: usize| {
            let release = at(&format!("release{number}"));
            fs::create_dir(&release).unwrap();
            fs::write(release.join("index.php"), public.replace('^', &format!("v{number}"))).unwrap();
            fs::write(release.join("a.txt"), format!("v{number}")).unwrap();
            let app = at(&format!("app{number}"));
            fs::create_dir(&app).unwrap();
            fs::write(app.join("page.php"), format!("<?php echo 'v{number}';")).unwrap();
            symlink(&app, release.join("app")).unwrap();
            symlink(&release, at("next")).unwrap();
            fs::rename(at("next"), at("current")).unwrap();
        };
        publish(1);
        let (root, pid_file) = (at("current"), at("svc.pid"));
        let mut settings =
            vec![("DOCUMENT_ROOT", root.to_str().unwrap()), ("PID_FILE", pid_file.to_str().unwrap())];
        if is_worker {
            settings.extend([("ENTRY_FILE", "index.php"), ("WORKER_MODE_ENABLED", "true")]);
        }
        let svc = Svc::start_with(&[], &settings, &[AT_ONCE]);
        let script = if is_worker { "/page" } else { "/app/page.php" };
        for number in 1..6 {
            if number > 1 {
                publish(number);
                let mut command = Command::new(env!("CARGO_BIN_EXE_svc"));
                let output = command.arg("reload").env_clear().env("PID_FILE", &pid_file).output().unwrap();
                assert!(output.status.success(), "{output:?}");
            }
            // All within the time for which all threads cache paths.
            for path in ["/", script, "/a.txt", "/", script, "/a.txt"] {
                let answer = svc.get(path);
                let seen = (answer.status, answer.text());
                assert_eq!(seen, (200, format!("v{number}")), "{path}, worker mode: {is_worker}");
            }
        }
    }
}

#[cfg(feature = "async")]
#[test]
fn code_without_a_request_sees_the_paths_of_its_release() {
    let folder = tempfile::tempdir().unwrap();
    let real = folder.path().canonicalize().unwrap();
    let at = |name: &str| folder.path().join(name);
    let app = "<?php $paths = fn () => $_SERVER['DOCUMENT_ROOT'] . ' ' . ($_SERVER['SCRIPT_FILENAME'] ?? '');
        $boot = $paths();
        Svc\\Worker::serve(function () use ($boot, $paths) {
            $task = Svc\\async(static fn () => $_SERVER['DOCUMENT_ROOT'] . ' ' . BOOT)->await();
            echo implode(\"\\n\", [$boot, $paths(), $task, __DIR__]);
        });";
    let tasks = "<?php define('BOOT', $_SERVER['DOCUMENT_ROOT'] . ' ' . $_SERVER['SCRIPT_FILENAME']);";
    let publish = |number: usize| {
        let release = format!("release{number}");
        for (name, text) in [("app/index.php", app), ("bin/tasks.php", tasks)] {
            let path = at(&release).join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        // A linked script keeps its path, while the link of the release is resolved.
        fs::create_dir(at(&release).join("public")).unwrap();
        symlink("../app/index.php", at(&release).join("public/index.php")).unwrap();
        symlink(&release, at("next")).unwrap();
        fs::rename(at("next"), at("current")).unwrap();
    };
    publish(1);
    let (root, tasks, pid_file) = (at("current/public"), at("current/bin/tasks.php"), at("svc.pid"));
    let settings = [
        ("DOCUMENT_ROOT", root.to_str().unwrap()),
        ("ASYNC_WORKERS", "1"),
        ("ASYNC_ENTRY_FILE", tasks.to_str().unwrap()),
        ("PID_FILE", pid_file.to_str().unwrap()),
        ("ENTRY_FILE", "index.php"),
        ("WORKER_MODE_ENABLED", "true"),
    ];
    let svc = Svc::start_with(&[], &settings, &[AT_ONCE]);
    for number in 1..4 {
        if number > 1 {
            publish(number);
            let mut command = Command::new(env!("CARGO_BIN_EXE_svc"));
            let output = command.arg("reload").env_clear().env("PID_FILE", &pid_file).output().unwrap();
            assert!(output.status.success(), "{output:?}");
        }
        let release = real.join(format!("release{number}"));
        let [root, script, tasks, app] =
            ["public", "public/index.php", "bin/tasks.php", "app"].map(|name| release.join(name));
        let (root, script, tasks, app) = (root.display(), script.display(), tasks.display(), app.display());
        let expected = format!("{root} {script}\n{root} {script}\n{root} {root} {tasks}\n{app}");
        assert_eq!(svc.get("/").text(), expected);
    }
}

#[cfg(feature = "async")]
#[test]
fn background_threads_run_the_code_on_disk_as_well() {
    let entry = tempfile::tempdir().unwrap();
    let file = entry.path().join("tasks.php");
    fs::write(&file, "<?php const WORD = 'v1';").unwrap();
    let index = "<?php echo Svc\\async(static fn () => WORD)->await();";
    let pid_file = entry.path().join("svc.pid");
    let settings = [
        ("ASYNC_WORKERS", "2"),
        ("ASYNC_ENTRY_FILE", file.to_str().unwrap()),
        ("PID_FILE", pid_file.to_str().unwrap()),
    ];
    let svc = Svc::start_with(&[("index.php", index)], &settings, &[AT_ONCE]);
    eventually("a thread has booted", || svc.get("/").text() == "v1");
    let reload = || {
        let mut command = Command::new(env!("CARGO_BIN_EXE_svc"));
        command.arg("reload").env_clear().env("PID_FILE", &pid_file).output().unwrap()
    };
    let time = fs::metadata(&file).unwrap().modified().unwrap();
    for word in ["v2", "v3"] {
        fs::write(&file, format!("<?php const WORD = '{word}';")).unwrap();
        File::options().write(true).open(&file).unwrap().set_modified(time).unwrap();
        assert_eq!(reload().status.code(), Some(0));
        for _ in 0..6 {
            assert_eq!(svc.get("/").text(), word);
        }
    }
    fs::write(&file, "<?php throw new LogicException('no tasks');").unwrap();
    let output = reload();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{said}");
    let expected =
        format!("an async worker failed to boot: Uncaught LogicException: no tasks in {file:?} on line 1");
    assert!(said.contains(&expected.replace('"', "")), "{said}");
    assert_eq!(svc.get("/").text(), "v3", "the old threads go on");
}

#[test]
fn a_running_request_keeps_its_code_while_new_ones_run_the_new_code() {
    let waits = "<?php function code() {
        if (isset($_GET['wait'])) {
            touch('%/inside');
            while (!file_exists('%/go')) { usleep(1000); clearstatcache(); }
        }
        return '^'; }";
    for is_worker in IS_WORKER {
        let site = DeployedSite::start(is_worker, &code("v0"), &[], &[]);
        let text = |word: &str| waits.replace('%', site.folder.path().to_str().unwrap()).replace('^', word);
        site.replace_code(&text("v1"));
        site.reload_well();
        let mut held = site.svc.client();
        held.send("GET /?wait=1 HTTP/1.1\r\nHost: a\r\n\r\n");
        eventually("it is inside", || site.path("inside").exists());
        site.replace_code(&text("v2"));
        site.reload_well();
        site.assert_serves("v2");
        fs::write(site.path("go"), "").unwrap();
        assert_eq!(held.response().text(), "v1", "worker mode: {is_worker}");
        site.assert_serves("v2");
        for series in ["svc_responses_by_status_total{status=\"5xx\"}", "svc_dropped_requests_total"] {
            assert_eq!(site.metric(series), 0.0);
        }
    }
}

#[test]
fn reloads_under_load_lose_no_request_and_come_to_rest() {
    for is_worker in IS_WORKER {
        let site = DeployedSite::start(is_worker, &code("1"), &[], &[]);
        let (deployed, is_over) = (AtomicU64::new(1), AtomicBool::new(false));
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    let mut client = site.svc.client();
                    while !is_over.load(Ordering::SeqCst) {
                        let at_least = deployed.load(Ordering::SeqCst);
                        let answer = client.get("/");
                        let number = answer.text().parse().unwrap_or(0);
                        assert!(answer.status == 200 && number >= at_least, "{at_least}: {}", answer.text());
                    }
                });
            }
            for number in 2..12_usize {
                // Atomically: a request must not find half a file.
                deploy(&site, "moved over with the same time", number, &code(&number.to_string()));
                let output = site.reload(&[]);
                deployed.store(number as u64, Ordering::SeqCst);
                // Before any assertion, whose failure would not stop the clients.
                if !output.status.success() || number == 11 {
                    is_over.store(true, Ordering::SeqCst);
                }
                assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
            }
        });
        site.assert_serves("11");
        assert_eq!(site.metric("svc_responses_by_status_total{status=\"5xx\"}"), 0.0);
        // No restart of OPcache is pending that would replace the workers again. A status may be a second old.
        let younger = |than: &Value, seen: &Value| {
            seen["uptime_seconds"].as_u64() >= than["uptime_seconds"].as_u64().map(|seconds| seconds + 2)
        };
        let first = status(&site.svc);
        let second = becomes(&site.svc, "all workers use OPcache", |seen| {
            let workers = seen["workers"].as_array().unwrap();
            let use_it = workers.iter().all(|worker| worker["uses_opcache"] == true);
            younger(&first, seen) && workers.len() == 3 && use_it
        });
        let third = becomes(&site.svc, "the next seconds have passed", |seen| younger(&second, seen));
        assert_eq!(third["pool"]["spawned"], second["pool"]["spawned"]);
    }
}

#[test]
fn the_memory_of_releases_that_are_gone_is_given_back() {
    let long = |word: usize| {
        let functions: String = (0..1500)
            .map(|n| format!("function f{n}() {{ return 'literal {word} {n} {}'; }}\n", "x".repeat(300)))
            .collect();
        format!("<?php {functions} function code() {{ return 'v{word}'; }}")
    };
    let small = ["opcache.memory_consumption=16", "opcache.validate_timestamps=0"];
    let site = DeployedSite::start(false, &long(1), &[], &small);
    site.assert_serves("v1");
    let used = || status(&site.svc)["caches"]["opcache"]["scripts"].as_u64().unwrap_or_default();
    // Several times as many as fit.
    for number in 2..12 {
        deploy(&site, "link switched", number, &long(number));
        site.reload_well();
        assert_eq!(site.answers(), vec![format!("v{number}"); 6]);
        eventually("only the scripts of this release are in the cache", || used() == 2);
    }
    assert_eq!(site.metric("svc_opcache_restarts_total"), 10.0);
}

#[test]
fn classic_mode_has_nothing_that_boots() {
    let site = DeployedSite::start(false, &code("v1"), &[], &[]);
    let page = site.svc.ask("/metrics").text();
    assert!(!page.contains("svc_worker_boot"), "{page}");
    site.replace_code("<?php throw new RuntimeException('no database');");
    site.reload_well();
    assert_eq!(site.svc.get("/").status, 500);
    assert_eq!(site.metric("svc_config_last_reload_successful"), 1.0);
}

#[test]
fn without_the_report_the_server_reloads_and_the_command_has_no_result() {
    let site = DeployedSite::start(false, &code("v1"), &[], &[]);
    site.assert_serves("v1");
    let report = site.path("svc.pid.reload");
    assert_eq!(fs::metadata(&report).unwrap().permissions().mode() & 0o777, 0o600);
    fs::remove_file(&report).unwrap();
    site.replace_code(&code("v2"));
    let said = site.reload_in_vain(&[]);
    assert!(said.contains("reloads, but the outcome is unknown"), "{said}");
    eventually("it has reloaded", || site.answers() == vec!["v2"; 6]);
    assert_eq!(site.reload(&["--no-wait"]).status.code(), Some(0));
}

#[test]
fn the_report_is_that_of_the_user_of_run_as() {
    if !rustix::process::geteuid().is_root() {
        return skipped("only root can become another user");
    }
    let site = DeployedSite::start(false, &code("v1"), &[("RUN_AS", "nobody")], &[]);
    for path in [site.folder.path(), site.svc.root()] {
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
    }
    site.assert_serves("v1");
    site.replace_code(&code("v2"));
    site.reload_well();
    site.assert_serves("v2");
    let report = fs::metadata(site.path("svc.pid.reload")).unwrap();
    assert_eq!((report.uid(), report.gid(), report.mode() & 0o777), (65534, 65534, 0o600));
}

#[test]
fn ini_files_that_are_not_those_of_the_start_require_a_restart() {
    for is_worker in IS_WORKER {
        let ini = tempfile::tempdir().unwrap();
        let (main, further) = (ini.path().join("php.ini"), ini.path().join("conf.d"));
        fs::create_dir(&further).unwrap();
        fs::write(&main, "precision=9\n").unwrap();
        fs::write(further.join("a.ini"), "").unwrap();
        let (main_text, further_text) = (main.to_str().unwrap(), further.to_str().unwrap());
        let settings = [("PHPRC", main_text), ("PHP_INI_SCAN_DIR", further_text)];
        let site = DeployedSite::start(is_worker, &code("v1"), &settings, &[]);
        let required = || site.metric("svc_config_restart_required");
        assert_eq!((site.reload_well(), required()), (String::new(), 0.0));
        let told = |path: &Path| {
            let said = site.reload_well();
            assert!(
                said.starts_with("svc: warning: an ini file of PHP has changed since the start"),
                "{said}"
            );
            assert_eq!(required(), 1.0);
            eventually("the change is logged", || {
                let records = site.svc.log().of("svc");
                records.iter().any(|record| {
                    record["fields"]["path"] == path.to_str().unwrap() && record["level"] == "WARN"
                })
            });
        };
        fs::write(&main, "precision=8\n").unwrap();
        told(&main);
        fs::write(&main, "precision=9\n").unwrap();
        assert_eq!((site.reload_well(), required()), (String::new(), 0.0), "it is as it was");
        fs::write(further.join("b.ini"), "").unwrap();
        told(&further.join("b.ini"));
        fs::remove_file(further.join("b.ini")).unwrap();
        fs::remove_file(further.join("a.ini")).unwrap();
        told(&further.join("a.ini"));
        assert_eq!(site.metric("svc_config_last_reload_successful"), 1.0);
    }
}
