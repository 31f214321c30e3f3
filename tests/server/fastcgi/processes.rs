//! The FastCGI executor with processes of svc: Debian's php-cgi.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Stdio;

use rustix::process::{Pid, Signal, kill_process, test_kill_process};
use serde_json::Value;
use tempfile::TempDir;

use svc_testing::client::{Response, becomes, eventually};
use svc_testing::skip::skipped;
use svc_testing::{Svc, written};

pub(super) const PID: (&str, &str) = ("pid.php", "<?php echo getmypid();");

/// Whether the machine has a php-cgi; its absence is reported.
pub(super) fn has_php() -> bool {
    let found = ["/usr/bin/php-cgi", "/usr/bin/php-cgi8.2"].iter().any(|path| Path::new(path).exists());
    if !found {
        skipped("php-cgi is not installed");
    }
    found
}

/// Starts a server with processes of the distribution's PHP.
pub(super) fn start(files: &[(&str, &str)], settings: &[(&str, &str)], directives: &[&str]) -> Svc {
    let settings = [&[("EXECUTOR", "fastcgi")][..], settings].concat();
    Svc::start_with(files, &settings, directives)
}

/// Creates a program that runs these commands of the shell; returns its folder and its path.
fn program(commands: &str) -> (TempDir, String) {
    let folder = written(&[("program", &format!("#!/bin/sh\n{commands}\n"))]);
    let path = folder.path().join("program");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    (folder, path.to_str().unwrap().to_owned())
}

fn pid_of(response: &Response) -> Pid {
    assert_eq!(response.status, 200, "{}", response.text());
    Pid::from_raw(response.text().parse().unwrap()).unwrap()
}

fn config(svc: &Svc) -> Value {
    serde_json::from_slice(&svc.ask("/config").body).unwrap()
}

#[test]
fn a_request_is_answered_by_a_process() {
    if !has_php() {
        return;
    }
    let echo =
        "<?php header('X-A: b'); http_response_code(202); echo strrev(file_get_contents('php://input'));";
    let svc = start(&[("a/echo.php", echo), PID], &[], &[]);
    let mut client = svc.client();
    for body in [&b"abc"[..], &[b'x'; 3_000_000], b""] {
        let response = client.post("/a/echo.php/more", body);
        assert_eq!((response.status, response.field("x-a")), (202, Some("b")));
        assert_eq!(response.body, body.iter().rev().copied().collect::<Vec<_>>());
    }
    assert_eq!(client.get("/none.php").status, 404);
    assert_ne!(pid_of(&client.get("/pid.php")), svc.pid());
    let report = config(&svc);
    assert_eq!((&report["executor_type"], &report["php"]["sapi"]), (&"fastcgi".into(), &"cgi-fcgi".into()));
    assert_eq!((&report["fastcgi_keep_conn"], &report["fastcgi_root"]), (&true.into(), &"".into()));
    let metrics = svc.ask("/metrics").text();
    assert!(metrics.contains("svc_queue_capacity") && metrics.contains("svc_queue_wait_us_bucket"));
    assert!(!metrics.contains("svc_worker_memory_bytes") && !metrics.contains("svc_opcache_"));
}

#[test]
fn a_response_of_any_size_and_method_is_that_of_the_script() {
    if !has_php() {
        return;
    }
    let big = "<?php for ($n = 0; $n < 300; $n++) { echo str_repeat(chr(65 + $n % 26), 10000); }";
    let bare = "<?php http_response_code(204);";
    let head = "<?php header('HTTP/1.1 418 Short and stout'); header('Content-Length: 4'); echo 'teas';";
    let svc = start(&[("big.php", big), ("bare.php", bare), ("head.php", head)], &[], &[]);
    let mut client = svc.client();
    let response = client.get("/big.php");
    assert_eq!((response.body.len(), response.body[2_990_000]), (3_000_000, b'N'));
    assert_eq!(client.get("/bare.php").status, 204);
    let response = client.get("/head.php");
    assert_eq!((response.status, &response.body[..]), (418, &b"teas"[..]));
    client.send("HEAD /head.php HTTP/1.1\r\nHost: x\r\n\r\n");
    assert_eq!(client.head_only().field("content-length"), Some("4"));
}

#[test]
fn a_response_to_head_has_no_length_that_only_the_body_has() {
    if !has_php() {
        return;
    }
    let script = "<?php echo str_repeat('page ', 1000);";
    let svc = start(&[("page.php", script)], &[], &[]);
    let mut client = svc.client();
    for _ in 0..2 {
        client.send("HEAD /page.php HTTP/1.1\r\nHost: x\r\nAccept-Encoding: gzip\r\n\r\n");
        let head = client.head_only();
        let fields = ["content-length", "transfer-encoding", "content-encoding"].map(|name| head.field(name));
        assert_eq!((head.status, fields), (200, [None; 3]));
        assert_eq!(head.field("vary"), Some("Accept-Encoding"));
    }
    assert_eq!(client.get("/page.php").body.len(), 5000);
    svc.assert_metric("svc_dropped_requests_total", 0.0);
}

/// The intended differences: the process, the moment, the port, and variables that only one of both has.
#[cfg(feature = "php")]
const OF_THE_RUN: [&str; 10] = [
    "REMOTE_PORT",
    "SERVER_PORT",
    "REQUEST_TIME",
    "REQUEST_TIME_FLOAT",
    "DOCUMENT_ROOT",
    "SCRIPT_FILENAME",
    "PATH_TRANSLATED",
    "FCGI_ROLE",
    "ORIG_PATH_INFO",
    "ORIG_SCRIPT_NAME",
];

#[test]
#[cfg(feature = "php")]
fn the_variables_are_those_of_the_other_executor() {
    if !has_php() {
        return;
    }
    let files = [("a/show.php", "<?php echo json_encode($_SERVER, JSON_PARTIAL_OUTPUT_ON_ERROR);")];
    let settings = [("SERVER_VARIABLES", "APP_ENV=test,SERVER_SOFTWARE=mine")];
    // php-cgi imports the environment of the process in addition.
    let servers = [Svc::start(&files, &settings), start(&files, &settings, &["variables_order=GPCS"])];
    let seen = servers.map(|svc| {
        let head = "GET /a/show.php/x%20y/z?q=%41 HTTP/1.1\r\nHost: Ex.org:1\r\nX-Own: a\r\nX-Own: b\r\nX_Bad: c\r\n\
                    Authorization: Basic am9lOmE=\r\nCookie: a=1";
        let response = svc.client().request(head);
        let Value::Object(mut all) = serde_json::from_slice(&response.body).unwrap() else { panic!("no object") };
        let root = svc.root().canonicalize().unwrap();
        assert_eq!(all["SCRIPT_FILENAME"], root.join("a/show.php").to_str().unwrap());
        assert_eq!(all["DOCUMENT_ROOT"], root.to_str().unwrap());
        all.retain(|name, _| !OF_THE_RUN.contains(&name.as_str()));
        all
    });
    let [threads, processes] = &seen;
    // The environment of the process, which php-cgi adds to.
    let own = ["PHP_FCGI_CHILDREN", "PHP_FCGI_MAX_REQUESTS", "EXECUTOR"];
    for (name, value) in threads {
        assert_eq!(processes.get(name), Some(value), "{name}");
    }
    let added: BTreeSet<_> = processes.keys().filter(|name| !threads.contains_key(*name)).collect();
    let of_environment = |name: &str| {
        own.contains(&name)
            || ["LISTEN_ADDR", "INTERNAL_ADDR", "PHP_WORKERS", "SERVER_VARIABLES", "QUEUE_WAIT_TIMEOUT_MS"]
                .contains(&name)
    };
    assert!(added.iter().all(|name| of_environment(name)), "{added:?}");
}

/// As if a client had sent them: with `HTTP_PROXY`, for example, libraries would choose another proxy.
#[test]
fn the_environment_has_no_fields_of_requests() {
    if !has_php() {
        return;
    }
    let script = "<?php echo json_encode([$_SERVER['HTTP_PROXY'] ?? null, getenv('HTTP_PROXY'), $_SERVER['OTHER'] ?? null,
        $_SERVER['HTTP_HOST']]);";
    let settings = [("HTTP_PROXY", "http://192.0.2.1/"), ("HTTP_HOST", "wrong"), ("OTHER", "kept")];
    let svc = start(&[("show.php", script)], &settings, &["variables_order=EGPCS"]);
    let response = svc.client().request("GET /show.php HTTP/1.1\r\nHost: right");
    assert_eq!(response.text(), r#"[null,false,"kept","right"]"#);
}

#[test]
fn a_killed_process_loses_its_own_request() {
    if !has_php() {
        return;
    }
    let svc = start(
        &[PID, ("die.php", "<?php posix_kill(getmypid(), SIGSEGV); sleep(60);")],
        &[("PHP_WORKERS", "1")],
        &[],
    );
    let mut client = svc.client();
    for lost in 1..=3 {
        assert_eq!(client.get("/die.php").status, 500);
        svc.assert_metric("svc_dropped_requests_total", f64::from(lost));
        pid_of(&client.get("/pid.php"));
    }
    let record = svc.log().expect("PHP process has ended");
    assert_eq!(record["fields"]["status"], "signal 11");
    assert!(!record["fields"]["request_id"].as_str().unwrap().is_empty());
    // An idle process: no request is affected.
    let pid = pid_of(&client.get("/pid.php"));
    kill_process(pid, Signal::KILL).unwrap();
    // Before that, the kernel may still pass a request to it.
    let is_end = |record: &Value| record["fields"]["pid"] == pid.as_raw_nonzero().get();
    eventually("its end is noticed", || svc.log().of("svc").iter().any(is_end));
    assert_ne!(pid_of(&client.get("/pid.php")), pid);
    svc.assert_metric("svc_dropped_requests_total", 3.0);
    svc.assert_metric("svc_workers_current", 1.0);
}

#[test]
fn a_script_that_corrupts_memory_ends_its_own_request() {
    if !has_php() {
        return;
    }
    let crash = "<?php if (!extension_loaded('FFI')) { exit('no FFI'); } echo FFI::string(FFI::cast('char *', FFI::cast('uintptr_t', 8)));";
    let svc = start(&[PID, ("crash.php", crash)], &[("PHP_WORKERS", "2")], &["ffi.enable=1"]);
    let mut client = svc.client();
    let response = client.get("/crash.php");
    if response.text() == "no FFI" {
        skipped("PHP has no extension FFI");
        return;
    }
    assert_eq!(response.status, 500);
    let record = svc.log().expect("PHP process has ended");
    assert_eq!(record["fields"]["status"], "signal 11");
    assert_eq!(record["fields"]["request_id"], response.field("x-request-id").unwrap());
    for _ in 0..4 {
        pid_of(&client.get("/pid.php"));
    }
    svc.assert_metric("svc_dropped_requests_total", 1.0);
}

#[test]
fn a_response_of_an_error_is_a_failure() {
    if !has_php() {
        return;
    }
    let pages = written(&[("500.html", "sorry")]);
    let cached = "header('Cache-Control: max-age=60'); header('X-A: b');";
    let files = [
        ("blank.php", format!("<?php {cached} http_response_code(500);")),
        ("fatal.php", format!("<?php {cached} echo 'a part'; undefined();")),
        ("own.php", format!("<?php {cached} http_response_code(500); echo 'an own page';")),
        ("logged.php", format!("<?php {cached} error_log('PHP Fatal error:  not here'); echo 'a page';")),
    ];
    let files: Vec<_> = files.iter().map(|(name, text)| (*name, text.as_str())).collect();
    let settings = [("ERROR_PAGES_DIR", pages.path().to_str().unwrap()), ("RESPONSE_CACHE_BYTES", "1M")];
    let svc = start(&files, &settings, &["log_errors=1", "error_log=", "display_errors=0"]);
    let mut client = svc.client();
    for (path, expected) in [
        ("/blank.php", (500, "sorry", false)),
        ("/fatal.php", (500, "sorry", false)),
        ("/own.php", (500, "an own page", false)),
        // Not stored, in case it is one.
        ("/logged.php", (200, "a page", false)),
    ] {
        client.get(path);
        let response = client.get(path);
        assert_eq!(response.field("x-a"), Some("b"), "{path}");
        let is_stored = response.field("cache-status").is_some_and(|status| status.starts_with("svc; hit"));
        assert_eq!((response.status, response.text().as_str(), is_stored), expected, "{path}");
    }
    // No part of a request is left for the next one.
    assert_eq!(client.get("/own.php?again").text(), "an own page");
}

#[test]
fn a_program_that_ends_at_once_is_started_again_after_a_pause() {
    let (_folder, path) = program("echo 'no way' >&2; exit 3");
    let svc = start(&[PID], &[("FASTCGI_COMMAND", &path)], &[]);
    assert_eq!(svc.log().expect("PHP process has ended")["fields"]["status"], "exit status 3");
    svc.log().expect("no way");
    eventually("no worker is left", || svc.metric("svc_workers_current") == 0.0);
    assert_eq!((svc.get("/pid.php").status, svc.ask("/readyz").status), (500, 503));
    let record = svc.log().expect("PHP worker failed to boot");
    assert_eq!(record["fields"]["reason"], "the process has ended: exit status 3");
}

#[test]
fn a_php_without_fastcgi_stops_the_start() {
    let (_folder, path) =
        program("cat >/dev/null; echo 'svc-report:{\"version\":\"8.2.0\",\"sapi\":\"cli\"}'");
    let root = written(&[("index.php", "")]);
    let settings = [("EXECUTOR", "fastcgi"), ("FASTCGI_COMMAND", path.as_str())];
    let output = svc_testing::command(root.path(), &settings).stderr(Stdio::piped()).output().unwrap();
    let text = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{text}");
    assert!(text.contains("it is PHP's \"cli\", and php-cgi (\"cgi-fcgi\") is required"), "{text}");
}

#[test]
fn a_process_starts_without_blocked_signals() {
    if !has_php() {
        return;
    }
    let svc = start(&[("status.php", "<?php readfile('/proc/self/status');")], &[], &[]);
    let status = svc.get("/status.php").text();
    assert!(status.contains("SigBlk:\t0000000000000000\n"), "{status}");
}

#[test]
fn a_worker_sleeps_although_its_program_has_closed_its_output() {
    if !has_php() {
        return;
    }
    let (_folder, path) = program("exec php-cgi \"$@\" >/dev/null 2>&1");
    let settings = [("FASTCGI_COMMAND", path.as_str()), ("PHP_WORKERS", "1"), ("PATH", "/usr/bin:/bin")];
    let svc = start(&[PID], &settings, &[]);
    pid_of(&svc.get("/pid.php"));
    let threads = format!("/proc/{}/task", svc.pid().as_raw_nonzero());
    let is_worker = |stat: &str| stat.contains("(svc-php-0)");
    let sleeps = || {
        let stats = fs::read_dir(&threads).unwrap().map(|thread| thread.unwrap().path().join("stat"));
        let worker =
            stats.filter_map(|path| fs::read_to_string(path).ok()).find(|stat| is_worker(stat)).unwrap();
        worker.contains(") S ")
    };
    assert!(becomes(sleeps), "the worker does not stop looking");
}

#[test]
fn no_process_starts_while_the_server_stops() {
    if !has_php() {
        return;
    }
    let (folder, path) = program("echo >> \"${0%/*}/starts\"; exec php-cgi \"$@\"");
    let settings = [
        ("FASTCGI_COMMAND", path.as_str()),
        ("PHP_WORKERS", "1"),
        ("PATH", "/usr/bin:/bin"),
        ("DRAIN_TIMEOUT_SECONDS", "0"),
    ];
    let mut svc = start(&[("sleep.php", "<?php sleep(60);")], &settings, &[]);
    let mut client = svc.client();
    client.send("GET /sleep.php HTTP/1.1\r\nHost: x\r\n\r\n");
    eventually("the script runs", || svc.metric("svc_busy_workers") == 1.0);
    svc.signal(Signal::TERM);
    svc.wait();
    // One process that reports its version, and the one of the worker.
    assert_eq!(fs::read_to_string(folder.path().join("starts")).unwrap(), "\n\n");
}

#[test]
fn idle_processes_end_when_they_are_asked_to() {
    if !has_php() {
        return;
    }
    // A shell takes note of the exit status. It waits for PHP, although it gets the same signal.
    let note = "trap : TERM; php-cgi \"$@\"; status=$?; echo $status >>\"${0%/*}/ends\"; exit $status";
    let (folder, path) = program(note);
    for kept in ["true", "false"] {
        let settings = [
            ("FASTCGI_COMMAND", path.as_str()),
            ("FASTCGI_KEEP_CONN", kept),
            ("PHP_WORKERS", "4"),
            ("PATH", "/usr/bin:/bin"),
        ];
        let ends = folder.path().join("ends");
        let _ = fs::remove_file(&ends);
        let mut svc = start(&[PID], &settings, &[]);
        eventually("all processes exist", || svc.metric("svc_workers_current") == 4.0);
        let clients: Vec<_> = (0..8).map(|_| svc.client()).collect();
        for mut client in clients {
            pid_of(&client.get("/pid.php"));
        }
        svc.stop();
        // One reports its version. A process that does not see the signal is killed, and so is its shell. One that is
        // starting has no handler for it yet.
        let ends = fs::read_to_string(&ends).unwrap();
        assert_eq!(ends.lines().count(), 5, "FASTCGI_KEEP_CONN={kept}: {ends}");
        assert!(ends.lines().all(|status| ["0", "143"].contains(&status)), "{ends}");
    }
}

#[test]
fn the_path_of_a_deleted_script_leads_elsewhere() {
    if !has_php() {
        return;
    }
    let files = [("index.php", "<?php echo 'front';"), ("tool.php", "<?php echo 'tool';")];
    let svc = start(&files, &[("ENTRY_FILE", "index.php")], &[]);
    let mut client = svc.client();
    assert_eq!(client.get("/tool.php").text(), "tool");
    fs::remove_file(svc.root().join("tool.php")).unwrap();
    assert_eq!(client.get("/tool.php").text(), "front");
    let svc = start(&[("sub/index.php", "<?php echo 'sub';"), ("sub/index.html", "page")], &[], &[]);
    let mut client = svc.client();
    assert_eq!(client.get("/sub/").text(), "sub");
    fs::remove_file(svc.root().join("sub/index.php")).unwrap();
    assert_eq!(client.get("/sub/").text(), "page");
    // PHP would run the file that has taken the place of the folder.
    fs::write(svc.root().join("sub/index.php"), "<?php echo 'sub';").unwrap();
    assert_eq!(client.get("/sub/index.php").text(), "sub");
    fs::remove_dir_all(svc.root().join("sub")).unwrap();
    fs::write(svc.root().join("sub"), "<?php echo 'file';").unwrap();
    assert_eq!(client.get("/sub/index.php").status, 404);
    svc.assert_metric("svc_dropped_requests_total", 0.0);
}

#[test]
fn no_process_outlives_the_server() {
    if !has_php() {
        return;
    }
    let files = [
        PID,
        ("deaf.php", "<?php ignore_user_abort(true); file_put_contents('pid', getmypid()); sleep(60);"),
    ];
    for signal in [Signal::KILL, Signal::TERM] {
        let mut svc = start(&files, &[("PHP_WORKERS", "2"), ("DRAIN_TIMEOUT_SECONDS", "0")], &[]);
        let idle = pid_of(&svc.get("/pid.php"));
        let mut client = svc.client();
        client.send("GET /deaf.php HTTP/1.1\r\nHost: x\r\n\r\n");
        let path = svc.root().join("pid");
        eventually("the script runs", || fs::read_to_string(&path).is_ok_and(|text| !text.is_empty()));
        let busy = Pid::from_raw(fs::read_to_string(&path).unwrap().parse().unwrap()).unwrap();
        svc.signal(signal);
        if signal == Signal::KILL {
            svc.crash();
        } else {
            svc.wait();
        }
        for pid in [idle, busy] {
            assert!(becomes(|| test_kill_process(pid).is_err()), "{pid:?} is left after {signal:?}");
        }
    }
}

#[test]
fn the_time_limit_answers_and_ends_the_process() {
    if !has_php() {
        return;
    }
    // SIGTERM interrupts a pause, and the process ends after the script. SIGKILL ends the other one.
    for (script, status) in
        [("<?php sleep(60);", "exit status 0"), ("<?php sleep(60); sleep(60);", "signal 9")]
    {
        let svc = start(
            &[PID, ("sleep.php", script)],
            &[("PHP_WORKERS", "1")],
            &["max_execution_time=4", "hard_timeout=0"],
        );
        let mut client = svc.client();
        let before = pid_of(&client.get("/pid.php"));
        assert_eq!(client.get("/sleep.php").status, 504);
        assert_ne!(pid_of(&client.get("/pid.php")), before);
        svc.assert_metric("svc_request_cancelled_total{reason=\"timeout\"}", 1.0);
        svc.assert_metric("svc_dropped_requests_total", 0.0);
        assert_eq!(svc.log().expect("PHP process has ended")["fields"]["status"], status);
    }
}

#[test]
fn a_stopped_process_is_killed_at_the_time_limit() {
    if !has_php() {
        return;
    }
    let svc = start(
        &[PID, ("stop.php", "<?php posix_kill(getmypid(), SIGSTOP); sleep(60);")],
        &[("PHP_WORKERS", "1")],
        &["max_execution_time=4", "hard_timeout=0"],
    );
    assert_eq!(svc.get("/stop.php").status, 504);
    pid_of(&svc.get("/pid.php"));
    assert_eq!(svc.log().expect("PHP process has ended")["fields"]["status"], "signal 9");
}

#[test]
fn processes_are_replaced_after_a_number_of_requests_and_above_a_size() {
    if !has_php() {
        return;
    }
    let count = |svc: &Svc| {
        let mut client = svc.client();
        (0..24).map(|_| pid_of(&client.get("/pid.php")).as_raw_nonzero().get()).collect::<BTreeSet<_>>().len()
    };
    let svc = start(&[PID], &[("PHP_WORKERS", "1"), ("WORKER_MAX_REQUESTS", "8")], &[]);
    assert!((3..=4).contains(&count(&svc)), "each takes 6 to 10 of 24 requests");
    svc.assert_metric("svc_dropped_requests_total", 0.0);
    let svc = start(&[PID], &[("PHP_WORKERS", "1"), ("WORKER_MAX_MEMORY_MIB", "1")], &[]);
    assert_eq!(count(&svc), 24, "each is larger than 1 MiB");
    svc.assert_metric("svc_dropped_requests_total", 0.0);
}

#[test]
fn a_reload_replaces_processes_without_losing_a_request() {
    if !has_php() {
        return;
    }
    let svc = start(&[PID], &[("PHP_WORKERS", "2")], &[]);
    let mut client = svc.client();
    let before: BTreeSet<_> = (0..8).map(|_| client.get("/pid.php").text()).collect();
    svc.signal(Signal::HUP);
    eventually("all processes are new", || {
        let response = client.get("/pid.php");
        assert_eq!(response.status, 200);
        svc.log().find("reload finished").is_some()
    });
    for _ in 0..8 {
        assert!(!before.contains(&client.get("/pid.php").text()));
    }
}

#[test]
fn output_arrives_when_the_script_flushes_it() {
    if !has_php() {
        return;
    }
    let script = "<?php echo 'one'; @ob_flush(); flush(); while (!file_exists('go')) { usleep(1000); clearstatcache(); } echo 'two';";
    let svc = start(&[("slow.php", script)], &[], &[]);
    let mut client = svc.client();
    client.send("GET /slow.php HTTP/1.1\r\nHost: x\r\n\r\n");
    client.head_only();
    assert_eq!(client.chunk().as_deref(), Some(&b"one"[..]));
    fs::write(svc.root().join("go"), "").unwrap();
    assert_eq!(client.chunk().as_deref(), Some(&b"two"[..]));
}

#[test]
fn output_of_a_script_that_never_pauses_arrives() {
    if !has_php() {
        return;
    }
    let script = "<?php while (!file_exists('go')) { echo 'y'; @ob_flush(); flush(); usleep(1000); clearstatcache(); }";
    let svc = start(&[("drip.php", script)], &[], &[]);
    let mut client = svc.client();
    client.send("GET /drip.php HTTP/1.1\r\nHost: x\r\n\r\n");
    client.head_only();
    let chunk = client.chunk().unwrap();
    assert!(chunk.len() < 4096, "{}", chunk.len());
    fs::write(svc.root().join("go"), "").unwrap();
    while !client.chunk().unwrap().is_empty() {}
}

#[test]
fn messages_become_records() {
    if !has_php() {
        return;
    }
    let script = "<?php\nerror_log('a note');\necho $missing;\nthrow new Exception('boom');";
    let svc = start(&[("fail.php", script)], &[], &["log_errors=1", "error_log="]);
    let response = svc.get("/fail.php");
    assert_eq!(response.status, 500);
    eventually("all messages are logged", || svc.log().of("php").len() == 3);
    let records = svc.log().of("php");
    let [note, warning, error] = &records[..] else { panic!("{records:#?}") };
    assert_eq!(note["fields"]["message"], "a note");
    assert_eq!(warning["fields"]["php_level"], "warning");
    assert_eq!((&warning["fields"]["line"], &error["fields"]["line"]), (&3.into(), &4.into()));
    assert!(error["fields"]["message"].as_str().unwrap().starts_with("Uncaught Exception: boom"));
    assert_eq!(error["fields"]["request_id"], response.field("x-request-id").unwrap());
}

#[test]
fn a_client_that_leaves_ends_a_script_that_prints() {
    if !has_php() {
        return;
    }
    let script = "<?php file_put_contents('state', 'runs'); register_shutdown_function(fn () => file_put_contents(__DIR__ . '/state', connection_status()));
        while (true) { echo str_repeat('x', 9000); @ob_flush(); flush(); usleep(1000); }";
    let svc = start(&[PID, ("endless.php", script)], &[("PHP_WORKERS", "1")], &[]);
    let mut client = svc.client();
    client.send("GET /endless.php HTTP/1.1\r\nHost: x\r\n\r\n");
    client.head_only();
    drop(client);
    pid_of(&svc.get("/pid.php"));
    assert_eq!(fs::read_to_string(svc.root().join("state")).unwrap(), "1", "it was aborted");
    assert!(svc.log().find("PHP process has ended").is_none());
}
