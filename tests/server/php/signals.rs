//! Signals: a signal that a request sends to its own process reaches only this request, and signals from outside have only
//! their documented effects.

use std::path::PathBuf;
use std::process::Command;

use rustix::process::Signal;
use svc_testing::client::eventually;
use svc_testing::tasks::{MODES, PLACES, TaskServer, everywhere};
use svc_testing::{Svc, c};
use tempfile::TempDir;

const CODE: &str = r"
function send(int $signal): void { posix_kill(getmypid(), $signal); for ($i = 0; $i < 10; $i++) { } }
function die_of(): void { send((int) $_GET['signal']); echo 'went on'; }
function die_in_task(): string { $signal = (int) $_GET['signal']; return tried(fn () => Svc\async(static fn () => [send($signal), 'went on'])->await()); }
function alarm_end(): void { test_alarm(1); for (;;) { } }
function exec_end(): void { exec('kill -' . (int) $_GET['signal'] . ' ' . getmypid()); echo 'went on'; }
function fork_end(): void
{
    $child = test_fork();
    if ($child === 0) { posix_kill(posix_getppid(), (int) $_GET['signal']); exit(7); }
    echo test_wait($child) === 7 ? 'went on' : 'lost';
}
function fine(): void { echo 'fine'; }
";

/// Signals whose default action ends no process.
const HARMLESS: [i32; 8] = [17, 18, 19, 20, 21, 22, 23, 28];
/// Signals from outside that mean something to the server, or that the system does not let a process survive.
const KNOWN: [i32; 14] = [1, 2, 3, 4, 5, 6, 7, 8, 9, 11, 15, 19, 20, 31];

fn extension() -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let library = folder.path().join("processes.so");
    c::extension(include_str!("../../php/processes.c"), &library);
    (folder, library)
}

fn server(library: &std::path::Path) -> TaskServer {
    TaskServer::new(CODE).directive(&format!("extension={}", library.display())).set("PHP_WORKERS", "2")
}

#[test]
fn a_request_handles_its_own_signals() {
    let (_folder, library) = extension();
    let all = "$lost = []; for ($s = 1; $s <= 64; $s++) { if ($s != 9 && $s != 19) { test_handle($s); \
               posix_kill(getmypid(), $s); if (test_handled($s) !== 1) { $lost[] = $s; } } } return $lost;";
    let threads = "test_handle(10); $threads = array_filter(scandir('/proc/self/task'), 'is_numeric'); \
                   foreach ($threads as $thread) { posix_kill((int) $thread, 10); } \
                   return count($threads) > 5 && count($threads) === test_handled(10);";
    let refused = r"return [posix_kill(getmypid(), 19), posix_strerror(posix_get_last_error())];";
    let blocked = "test_handle(12); $seen = [test_block(12)]; posix_kill(getmypid(), 12); $seen[] = test_count(12); \
                   $seen[] = test_block(-12); $seen[] = test_handled(12); $seen[] = test_block(12); \
                   posix_kill(getmypid(), 12); posix_kill(getmypid(), 12); $seen[] = test_take(12); \
                   $seen[] = test_take(12); $seen[] = test_block(-12); return $seen;";
    let cases = [
        (all, "[]"),
        (threads, "true"),
        (refused, r#"[false,"Operation not permitted"]"#),
        (
            r"return [posix_kill(getmypid(), 20), posix_kill(0, 10), posix_kill(-posix_getpgrp(), 10)];",
            "[false,false,false]",
        ),
        (r"return [posix_kill(getmypid(), 0), posix_kill(0, 0)];", "[true,true]"),
        // By default, or because they are ignored.
        (r"foreach ([17, 18, 23, 28] as $s) { posix_kill(getmypid(), $s); } return 'on';", r#""on""#),
        (r"test_handle(10); test_ignore(10); send(10); return test_handled(10);", "0"),
        (blocked, "[false,0,true,1,false,12,-11,true]"),
        (
            r"test_handle(14); test_alarm(1); while (test_count(14) === 0) { } return [test_alarm(0), test_handled(14)];",
            "[0,1]",
        ),
        (
            r"$seen = [test_alarm(100), test_alarm(50) > 98, test_alarm(0) > 48, test_alarm(0)]; return $seen;",
            "[0,true,true,0]",
        ),
    ];
    everywhere(&server(&library), &cases);
}

#[cfg(feature = "worker")]
#[test]
fn an_alarm_is_its_requests_own_while_others_use_the_thread() {
    let (_folder, library) = extension();
    let code = r"
function rings(string $n): int { test_handle(14); test_alarm(1); mark('armed'); until('go'); for (; test_count(14) === 0;) { } return test_handled(14); }
function hears(string $n): int { return test_alarm(0); }
function masked(string $n): bool { return test_block(12); }
function masks(string $n): bool { test_block(12); mark('masked'); until('go'); return test_block(-12); }
";
    let server = TaskServer::new(code).directive(&format!("extension={}", library.display()));
    let running = server.set("PHP_WORKERS", "1").start(svc_testing::tasks::Mode::Worker);
    let mut rings = running.send("rings", "1");
    running.until("armed");
    let mut masks = running.send("masks", "2");
    running.until("masked");
    assert_eq!(running.tell("hears"), "0");
    assert_eq!(running.tell("masked"), "false");
    // The next request begins with an empty mask.
    assert_eq!(running.tell("masked"), "false");
    running.mark("go");
    assert_eq!(rings.response().text(), "1");
    assert_eq!(masks.response().text(), "true");
}

#[test]
fn a_signal_that_ends_a_process_ends_the_request_that_has_sent_it() {
    let (_folder, library) = extension();
    for mode in MODES {
        let running = server(&library).start(mode);
        for number in (1..=64).filter(|number| !HARMLESS.contains(number)) {
            let response = running.svc.get(&format!("/?do=die_of&raw&signal={number}"));
            assert_eq!(response.status, 500, "{mode:?} {number}: {}", response.text());
            assert!(!response.text().contains("went on"), "{mode:?} {number}: {}", response.text());
            assert_eq!(running.svc.get("/?do=fine&raw").text(), "fine", "{mode:?} {number}");
        }
        assert_eq!(running.svc.get("/?do=alarm_end&raw").status, 500, "{mode:?}");
        let why = "Terminated by signal 14 (Alarm clock), which the script has sent to its own process";
        eventually(why, || running.svc.log().of("php").iter().any(|record| record.to_string().contains(why)));
        let numbers: &[_] = if cfg!(feature = "async") { &[1, 2, 9, 10, 14, 15, 26, 34, 50] } else { &[] };
        for number in numbers {
            let text = running.svc.get(&format!("/?do=die_in_task&signal={number}")).text();
            assert!(text.contains("TaskException") && !text.contains("went on"), "{mode:?} {number}: {text}");
        }
        assert_eq!(running.svc.get("/?do=fine&raw").text(), "fine");
    }
}

#[test]
fn a_signal_from_outside_that_means_nothing_is_ignored() {
    let (_folder, library) = extension();
    for mode in MODES {
        let running = server(&library).start(mode);
        for number in (1..=64).filter(|number| !KNOWN.contains(number)) {
            for how in ["exec_end", "fork_end"] {
                let response = running.svc.get(&format!("/?do={how}&raw&signal={number}"));
                assert_eq!(
                    (response.status, response.text().as_str()),
                    (200, "went on"),
                    "{mode:?} {how} {number}"
                );
            }
            let pid = running.svc.pid().as_raw_nonzero().to_string();
            assert!(Command::new("kill").args([format!("-{number}"), pid]).status().unwrap().success());
            assert_eq!(running.svc.get("/?do=fine&raw").text(), "fine", "{mode:?} {number}");
        }
        let record = running.svc.log().expect("a signal that svc does not handle was ignored");
        assert_eq!(record["fields"]["signal"], 10);
        assert!(record["fields"]["sender_pid"].as_u64().unwrap() > 0);
    }
}

#[test]
fn control_signals_work_from_any_sender() {
    let (_folder, library) = extension();
    for mode in MODES {
        let mut running = server(&library).start(mode);
        // A signal from a script itself ends only the script.
        assert_eq!(running.svc.get("/?do=die_of&raw&signal=15").status, 500);
        assert_eq!(running.svc.get("/?do=exec_end&raw&signal=1").text(), "went on");
        eventually("the reload is logged", || {
            [
                "reload finished",
                "SIGHUP received; nothing to reload",
                "rolling restart of PHP workers finished",
            ]
            .iter()
            .any(|message| running.svc.log().find(message).is_some())
        });
        assert_eq!(running.svc.get("/?do=fine&raw").text(), "fine");
        assert_eq!(running.svc.get("/?do=exec_end&raw&signal=15").text(), "went on");
        assert_eq!(running.svc.wait(), Some(0));
    }
}

/// The signal handlers of a script end with it: a reset to the default would let the next broken pipe end the server.
#[test]
fn signal_settings_of_a_script_do_not_reach_the_process() {
    let (_folder, library) = extension();
    let code = r"
function pipe(string $n): string { foreach ([1, 2, 13, 15, 25] as $s) { test_ignore($s); test_handled($s); test_block(-$s); } return status(); }
function status(): string { return implode(preg_grep('/^(SigBlk|SigIgn)/', file('/proc/self/status'))); }
function thread(string $n): string { return implode(preg_grep('/^(SigBlk|SigIgn)/', file('/proc/thread-self/status'))); }
";
    let server =
        TaskServer::new(code).directive(&format!("extension={}", library.display())).set("PHP_WORKERS", "1");
    server.in_each_mode(|running| {
        for place in PLACES {
            let before = running.tell(&format!("thread{place}"));
            running.tell(&format!("pipe{place}"));
            assert_eq!(running.tell(&format!("thread{place}")), before, "{place}");
        }
        running.svc.signal(Signal::HUP);
        assert!(running.tell("thread").contains("SigIgn"));
    });
}

#[test]
fn a_file_that_grows_beyond_the_limit_is_an_error_of_its_script() {
    let folder = tempfile::tempdir().unwrap();
    let wrapper = folder.path().join("limited");
    std::fs::write(&wrapper, "#!/bin/sh\nulimit -f 8\nexec \"$@\"\n").unwrap();
    Command::new("chmod").arg("+x").arg(&wrapper).status().unwrap();
    let script = "<?php $f = fopen(__DIR__ . '/big', 'w'); $n = 0; while (($m = @fwrite($f, str_repeat('x', 4096))) > 0) { $n += $m; } \
                  echo $n, ' ', json_encode($m), ' '; exec('grep SigIgn /proc/self/status', $lines); \
                  echo hexdec(explode(\"\\t\", $lines[0])[1]) & 1 << 24;";
    let files = [("big.php", script), ("fine.php", "<?php echo 'fine';")];
    let svc = Svc::start_under(&wrapper, &files, &[("PHP_WORKERS", "1")], &[]);
    // Programs get the default action.
    let text = svc.get("/big.php").text();
    assert!(text == "4096 false 0" || text == "8192 false 0", "{text}");
    assert_eq!(svc.get("/fine.php").text(), "fine");
}

/// A crash in C code, as any library may have.
const FAULTY: &str = r#"
#include <php.h>

PHP_FUNCTION(test_fault)
{
    ZEND_PARSE_PARAMETERS_NONE();
    *(volatile int *)12 = 1;
}

ZEND_BEGIN_ARG_INFO_EX(no_arguments, 0, 0, 0)
ZEND_END_ARG_INFO()

static const zend_function_entry functions[] = {
    PHP_FE(test_fault, no_arguments)
    PHP_FE_END
};

zend_module_entry faulty_module_entry = {
    STANDARD_MODULE_HEADER, "faulty", functions, NULL, NULL, NULL, NULL, NULL, "1", STANDARD_MODULE_PROPERTIES,
};

ZEND_GET_MODULE(faulty)
"#;

/// Otherwise the thread would repeat the fault forever, and no service manager would restart the server.
#[test]
fn a_fault_ends_the_process() {
    let folder = tempfile::tempdir().unwrap();
    let library = folder.path().join("faulty.so");
    c::extension(FAULTY, &library);
    let code = "function fault() { test_fault(); } \
                function fault_in_task() { return Svc\\async(static fn () => test_fault())->await(); }";
    let server = TaskServer::new(code).directive(&format!("extension={}", library.display()));
    for mode in MODES {
        let ways: &[_] = if cfg!(feature = "async") { &["fault", "fault_in_task"] } else { &["fault"] };
        for way in ways {
            let mut running = server.start(mode);
            let _client = running.send(way, "1");
            assert_eq!(running.svc.crash(), Some(Signal::SEGV.as_raw()), "{way} in {mode:?}");
        }
        let mut running = server.start(mode);
        running.svc.signal(Signal::SEGV);
        assert_eq!(running.svc.crash(), Some(Signal::SEGV.as_raw()), "from outside, in {mode:?}");
    }
}
