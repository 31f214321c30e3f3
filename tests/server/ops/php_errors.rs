//! The errors of PHP in the metrics and in `/status`: which are counted, under which level, in which mode; and the requests
//! that busy workers run.
#![cfg(feature = "php")]

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::status::{WAITING, becomes, status};
use svc_testing::Svc;
use svc_testing::client::eventually;

/// Raises the errors that the path names. Line numbers matter: see [`the_last_distinct_ones_have_a_place`].
const CASES: &str = r"<?php
function undefined() { return $nothing; }
function raise(string $case): void
{
    switch ($case) {
        case 'warning': undefined(); break;
        case 'twice': undefined(); undefined(); break;
        case 'unreported': error_reporting(0); undefined(); break;
        case 'only-fatal': error_reporting(E_ERROR); undefined(); break;
        case 'handled': set_error_handler(fn () => true); undefined(); restore_error_handler(); break;
        case 'thrown':
            set_error_handler(function ($type, $text) { throw new ErrorException($text, 0, $type); });
            try { undefined(); } catch (ErrorException) {}
            restore_error_handler();
            break;
        case 'silenced': @undefined(); break;
        case 'silenced-below': @array_map(fn () => undefined(), [1]); break;
        case 'silenced-file': @include __DIR__ . '/warns.inc'; break;
        case 'silenced-generator': @iterator_to_array((function () { yield undefined(); })()); break;
        case 'silenced-handled': set_error_handler(fn () => true); @undefined(); restore_error_handler(); break;
        case 'silenced-unreported': error_reporting(0); @undefined(); break;
        case 'after-silence': @undefined(); undefined(); break;
        case 'reported-in-silence': @(function () { error_reporting(E_ALL); undefined(); })(); break;
        case 'thrown-in-silence': try { @(function () { throw new Exception(); })(); } catch (Exception) {} undefined(); break;
        case 'missing-file': include __DIR__ . '/none.inc'; break;
        case 'user': trigger_error('n', E_USER_NOTICE); trigger_error('w', E_USER_WARNING); trigger_error('d', E_USER_DEPRECATED); break;
        case 'deprecated': strlen(null); break;
        case 'compile': include __DIR__ . '/deprecated.inc'; break;
        case 'caught': try { throw new Exception('caught'); } catch (Exception) {} break;
        case 'constructor': try { new SplFileObject('/none/none'); } catch (RuntimeException) {} break;
        case 'fiber': $fiber = new Fiber(undefined(...)); $fiber->start(); break;
        case 'fiber-in-silence': $fiber = new Fiber(function () { Fiber::suspend(); }); @$fiber->start(); undefined(); break;
        case 'error-log': error_log('no error of PHP'); break;
    }
}
";

/// The cases that leave their request running, with the errors that each raises.
const EXPECTED: &[(&str, &[(&str, u64)])] = &[
    ("warning", &[("warning", 1)]),
    ("twice", &[("warning", 2)]),
    ("unreported", &[("warning", 1)]),
    ("only-fatal", &[("warning", 1)]),
    ("handled", &[("warning", 1)]),
    ("thrown", &[("warning", 1)]),
    ("silenced", &[]),
    ("silenced-below", &[]),
    ("silenced-file", &[]),
    ("silenced-generator", &[]),
    ("silenced-handled", &[]),
    ("silenced-unreported", &[]),
    ("after-silence", &[("warning", 1)]),
    ("reported-in-silence", &[("warning", 1)]),
    ("thrown-in-silence", &[("warning", 1)]),
    ("missing-file", &[("warning", 2)]),
    ("user", &[("user_notice", 1), ("user_warning", 1), ("user_deprecated", 1)]),
    ("deprecated", &[("deprecated", 1)]),
    ("compile", &[("deprecated", 1)]),
    ("caught", &[]),
    ("constructor", &[]),
    ("fiber", &[("warning", 1)]),
    ("fiber-in-silence", &[("warning", 1)]),
    ("error-log", &[]),
];

const FILES: [(&str, &str); 4] = [
    ("cases.inc", CASES),
    ("warns.inc", "<?php echo $nothing;"),
    ("deprecated.inc", "<?php return function ($optional = 1, $required) {};"),
    ("broken.inc", "<?php this is not PHP"),
];

/// Neither shown nor logged.
const MUTED: [&str; 2] = ["display_errors=0", "log_errors=0"];

/// Reads the counts that are not zero.
fn counts(svc: &Svc) -> BTreeMap<String, u64> {
    let page = svc.ask("/metrics").text();
    let series = page.lines().filter_map(|line| line.strip_prefix("svc_php_errors_total{level=\""));
    let counts = series.map(|line| {
        let (level, value) = line.split_once("\"} ").unwrap();
        (level.to_owned(), value.parse().unwrap())
    });
    counts.filter(|(_, value)| *value > 0).collect()
}

/// Returns what has been counted between two readings.
fn since(before: &BTreeMap<String, u64>, after: &BTreeMap<String, u64>) -> BTreeMap<String, u64> {
    let rest = after.iter().map(|(level, now)| (level.clone(), now - before.get(level).unwrap_or(&0)));
    rest.filter(|(_, value)| *value > 0).collect()
}

/// Requests each case twice, the second time from OPcache, and compares the counts.
#[track_caller]
fn each_case_counts(svc: &Svc) {
    let mut wrong = Vec::new();
    for (case, expected) in EXPECTED {
        let expected: BTreeMap<String, u64> =
            expected.iter().map(|(level, count)| ((*level).to_owned(), *count)).collect();
        for round in 1..=2 {
            // A cached script raises no errors of its compilation again (opcache.record_warnings).
            if (*case, round) == ("compile", 2) {
                continue;
            }
            let before = counts(svc);
            assert_eq!(svc.get(&format!("/?{case}")).text(), "done", "{case}");
            let counted = since(&before, &counts(svc));
            if counted != expected {
                wrong.push(format!("{case}, round {round}: {counted:?}"));
            }
        }
    }
    assert_eq!(wrong, [""; 0]);
}

#[test]
fn classic_mode_counts_errors_that_are_neither_shown_nor_logged() {
    let index = "<?php require __DIR__ . '/cases.inc'; raise($_SERVER['QUERY_STRING']); echo 'done';";
    let files = [&FILES[..], &[("index.php", index)]].concat();
    let svc = Svc::start_with(&files, &[], &MUTED);
    assert_eq!(counts(&svc), BTreeMap::new());
    each_case_counts(&svc);
}

#[cfg(feature = "worker")]
#[test]
fn worker_mode_counts_the_same() {
    let worker = r"<?php
require __DIR__ . '/cases.inc';
Svc\Worker::serve(function () { raise($_SERVER['QUERY_STRING']); echo 'done'; });";
    let files = [&FILES[..], &[("worker.php", worker)]].concat();
    let settings = [("WORKER_MODE_ENABLED", "true"), ("ENTRY_FILE", "worker.php"), ("PHP_WORKERS", "1")];
    each_case_counts(&Svc::start_with(&files, &settings, &MUTED));
}

#[cfg(feature = "worker")]
#[test]
fn a_loop_of_frankenphp_counts_the_same() {
    let worker = r"<?php
require __DIR__ . '/cases.inc';
while (frankenphp_handle_request(function () { raise($_SERVER['QUERY_STRING']); echo 'done'; })) {}";
    let files = [&FILES[..], &[("worker.php", worker)]].concat();
    let settings = [("WORKER_MODE_ENABLED", "true"), ("ENTRY_FILE", "worker.php"), ("PHP_WORKERS", "1")];
    each_case_counts(&Svc::start_with(&files, &settings, &MUTED));
}

#[cfg(feature = "async")]
#[test]
fn tasks_count_the_same_and_a_task_that_fails_is_no_error_of_php() {
    let index = r"<?php
$case = $_SERVER['QUERY_STRING'];
$task = Svc\async(static function () use ($case) { require_once '@ROOT@/cases.inc'; raise($case); return 'done'; });
echo $task->await();";
    let failing = r"<?php
$task = Svc\async(static function () { throw new LogicException('in the task'); });
try { $task->await(); } catch (Throwable) { echo 'done'; }";
    let root = tempfile::tempdir().unwrap();
    let files = [&FILES[..], &[("index.php", index), ("failing.php", failing)]].concat();
    for (name, text) in files {
        let text = text.replace("@ROOT@", root.path().to_str().unwrap());
        std::fs::write(root.path().join(name), text).unwrap();
    }
    let svc = Svc::start_in(root, &[("ASYNC_WORKERS", "1")]);
    each_case_counts(&svc);
    let before = counts(&svc);
    assert_eq!(svc.get("/failing.php").text(), "done");
    assert_eq!(since(&before, &counts(&svc)), BTreeMap::new());
}

#[cfg(feature = "async")]
#[test]
fn a_file_that_a_task_compiles_again_is_not_counted_again() {
    let index =
        "<?php function f($optional = 1, $required) {} echo Svc\\async(static fn () => 'done')->await();";
    let directives = [&MUTED[..], &["opcache.enable=0"]].concat();
    let svc = Svc::start_with(&[("index.php", index)], &[("ASYNC_WORKERS", "1")], &directives);
    assert_eq!(svc.get("/").text(), "done");
    assert_eq!(counts(&svc), BTreeMap::from([("deprecated".to_owned(), 1)]));
}

/// Scripts that an error ends, with the level that is counted.
const ENDING: &[(&str, &str, &str)] = &[
    ("uncaught.php", "<?php function f() { throw new LogicException('no'); } f();", "uncaught"),
    (
        "in-shutdown.php",
        "<?php register_shutdown_function(function () { throw new Exception('late'); });",
        "uncaught",
    ),
    ("in-silence.php", "<?php @(function () { throw new Exception('no'); })();", "uncaught"),
    ("parse.php", "<?php include __DIR__ . '/broken.inc';", "parse"),
    ("memory.php", "<?php ini_set('memory_limit', '16M'); str_repeat('x', 1 << 26);", "error"),
    ("silenced-memory.php", "<?php ini_set('memory_limit', '16M'); @str_repeat('x', 1 << 26);", "error"),
    ("user.php", "<?php @trigger_error('x', E_USER_ERROR);", "user_error"),
    ("compile.php", "<?php interface A { private function f(); }", "compile_error"),
    ("caught.php", "<?php set_exception_handler(fn () => 0); throw new Exception('handled');", ""),
    ("exit.php", "<?php exit(1);", ""),
];

#[test]
fn an_error_that_ends_a_script_is_counted_once() {
    let files: Vec<_> =
        FILES.into_iter().chain(ENDING.iter().map(|(name, text, _)| (*name, *text))).collect();
    let svc = Svc::start_with(&files, &[], &MUTED);
    let mut wrong = Vec::new();
    for (name, _, level) in ENDING {
        let before = counts(&svc);
        svc.get(&format!("/{name}"));
        let mut counted = since(&before, &counts(&svc));
        // PHP 8.4 deprecates E_USER_ERROR.
        counted.remove("deprecated");
        let expected: BTreeMap<_, _> =
            Some(((*level).to_owned(), 1)).filter(|_| !level.is_empty()).into_iter().collect();
        if counted != expected {
            wrong.push(format!("{name}: {counted:?}"));
        }
    }
    assert_eq!(wrong, [""; 0]);
}

#[test]
fn the_last_distinct_ones_have_a_place() {
    const MANY: &str = "<?php
foreach (range(1, 3) as $one) { echo $a; }
echo $b; echo $c;
trigger_error(\"two\\nlines\", E_USER_WARNING);
throw new LogicException('the end');
";
    let svc = Svc::start_with(&[("many.php", MANY)], &[("PHP_WORKERS", "1")], &MUTED);
    assert_eq!(svc.get("/many.php").status, 500);
    let seen = becomes(&svc, "they are listed", |seen| seen["php_errors"]["last"][0]["level"] == "uncaught");
    let file = svc.root().join("many.php");
    let last = seen["php_errors"]["last"].as_array().unwrap();
    let of = |level: &str, line: u64| {
        last.iter()
            .find(|one| one["level"] == level && one["line"] == line && one["file"] == file.to_str().unwrap())
            .unwrap_or_else(|| panic!("{level} {line} in {seen}"))
    };
    assert_eq!(
        (&of("warning", 2)["count"], &of("warning", 2)["message"]),
        (&json!(3), &json!("Undefined variable $a"))
    );
    assert_eq!(of("warning", 3)["count"], 2, "one place, whatever the text");
    assert_eq!(of("user_warning", 4)["message"], "two");
    assert!(of("uncaught", 5)["message"].as_str().unwrap().starts_with("Uncaught LogicException: the end"));
    assert_eq!(seen["php_errors"]["by_level"]["warning"], 5);
}

#[test]
fn a_busy_worker_names_its_request_without_the_query() {
    let modes: &[_] = if cfg!(feature = "worker") { &["classic", "worker"] } else { &["classic"] };
    for &mode in modes {
        let waiting = format!("{WAITING}\nfile_put_contents(__DIR__ . '/id', svc_request_id());");
        let worker = "<?php Svc\\Worker::serve(function () { include __DIR__ . '/wait.inc'; });";
        let mut settings = vec![("PHP_WORKERS", "1")];
        if mode == "worker" {
            settings.extend([("WORKER_MODE_ENABLED", "true"), ("ENTRY_FILE", "index.php")]);
        }
        let index = if mode == "worker" { worker } else { "<?php include __DIR__ . '/wait.inc';" };
        let svc = Svc::start(&[("index.php", index), ("wait.inc", &waiting)], &settings);
        assert_eq!(status(&svc)["workers"][0]["path"], Value::Null, "{mode}");
        let mut client = svc.client();
        client.send("POST /index.php/order/7?token=secret HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n");
        let seen = becomes(&svc, "it is busy", |seen| seen["workers"][0]["path"].is_string());
        assert!(!seen.to_string().contains("secret"), "{seen}");
        let held = &seen["workers"][0];
        assert_eq!(
            (&held["method"], &held["path"]),
            (&json!("POST"), &json!("/index.php/order/7")),
            "{mode}"
        );
        std::fs::write(svc.root().join("go"), "").unwrap();
        assert_eq!(client.response().text(), "done");
        // A file exists before it has its contents.
        eventually(&format!("the script has ended ({mode})"), || {
            std::fs::read_to_string(svc.root().join("id")).is_ok_and(|id| held["request_id"] == id.as_str())
        });
        becomes(&svc, "it is idle", |seen| seen["workers"][0]["request_id"].is_null());
    }
}
