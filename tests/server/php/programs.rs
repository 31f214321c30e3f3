//! Programs that scripts start: their environment and arguments, and their visibility to other users.

use serde_json::Value;
use svc_testing::client::eventually;
use svc_testing::{Svc, c};

const PROGRAMS: &str = include_str!("../../php/programs.php");
const CLASSIC: &str = "<?php require 'programs.php'; isset($_GET['put']) && put(); report($_GET['what']);";
const WORKER: &str = "<?php
require 'programs.php';
putenv('TEST_BOOT=boot');
putenv('TEST_BOTH=boot');
putenv('TEST_UNPUT=boot');
putenv('TEST_BOOT_GONE');
Svc\\Worker::serve(function () {
    isset($_GET['put']) && put();
    isset($_GET['wait']) && Svc\\sleep(0.01);
    report($_GET['what']);
});";
const SETTINGS: [(&str, &str); 3] = [("TEST_GONE", "1"), ("TEST_BOOT_GONE", "1"), ("TEST_KEPT", "it's kept")];
#[cfg(feature = "worker")]
const WORKER_MODE: [(&str, &str); 3] =
    [("PHP_WORKERS", "1"), ("WORKER_MODE_ENABLED", "true"), ("ENTRY_FILE", "worker.php")];

fn start(settings: &[(&str, &str)]) -> Svc {
    let files = [("programs.php", PROGRAMS), ("classic.php", CLASSIC), ("worker.php", WORKER)];
    Svc::start_with(&files, &[&SETTINGS, settings].concat(), &["sendmail_path=."])
}

/// Returns the report of each way to start a program.
fn report(svc: &Svc, path: &str) -> Vec<(String, Value)> {
    let response = svc.get(path);
    assert_eq!(response.status, 200, "{}", response.text());
    let report: Value = serde_json::from_str(&response.text()).unwrap();
    let report: Vec<_> = report.as_object().unwrap().clone().into_iter().collect();
    assert_eq!(report.len(), 8);
    report
}

/// Returns the variables of the tests in the programs' environment; all programs have the same.
fn environment(svc: &Svc, path: &str) -> Vec<String> {
    let own = |environment: &Value| -> Vec<String> {
        let settings = environment.as_array().unwrap().iter().map(|setting| setting.as_str().unwrap());
        settings.filter(|setting| setting.starts_with("TEST")).map(str::to_owned).collect()
    };
    let report = report(svc, path);
    for (way, environment) in &report {
        assert_eq!(own(environment), own(&report[0].1), "{way} differs from {}", report[0].0);
    }
    own(&report[0].1)
}

const PUT: [&str; 6] = [
    "TEST-no.name=3",
    "TEST_BOTH=request",
    "TEST_EMPTY=",
    "TEST_LINES=one\ntwo\n",
    "TEST_PLAIN=plain",
    "TEST_QUOTES=it's \"a\" $secret; `echo`",
];

fn sorted(parts: &[&[&str]]) -> Vec<String> {
    let mut all: Vec<_> = parts.concat().iter().map(|&setting| setting.to_owned()).collect();
    all.sort();
    all
}

#[test]
fn all_programs_get_the_environment_of_their_request() {
    let svc = start(&[("PHP_WORKERS", "1")]);
    let plain = ["TEST_BOOT_GONE=1", "TEST_GONE=1", "TEST_KEPT=it's kept"];
    let path = "/classic.php?what=environments";
    assert_eq!(environment(&svc, path), plain);
    let put = sorted(&[&PUT, &["TEST_BOOT_GONE=1", "TEST_KEPT=it's kept", "TEST_TWICE=second"]]);
    assert_eq!(environment(&svc, &format!("{path}&put")), put);
    assert_eq!(environment(&svc, path), plain, "the request before has left something");
}

#[cfg(feature = "worker")]
#[test]
fn programs_of_a_worker_get_the_environment_of_its_boot_script_too() {
    let svc = start(&WORKER_MODE);
    let plain = ["TEST_BOOT=boot", "TEST_BOTH=boot", "TEST_GONE=1", "TEST_KEPT=it's kept", "TEST_UNPUT=boot"];
    assert_eq!(environment(&svc, "/?what=environments"), plain);
    let put = sorted(&[&PUT, &["TEST_BOOT=boot", "TEST_KEPT=it's kept", "TEST_TWICE=second"]]);
    assert_eq!(environment(&svc, "/?what=environments&put"), put);
    assert_eq!(environment(&svc, "/?what=environments&put&wait"), put, "after a wait");
    assert_eq!(environment(&svc, "/?what=environments"), plain);
}

#[test]
fn no_value_that_a_script_has_put_stands_in_a_command_line() {
    let modes = [
        (start(&[]), "/classic.php"),
        #[cfg(feature = "worker")]
        (start(&WORKER_MODE), "/"),
    ];
    for (svc, path) in modes {
        for (way, line) in report(&svc, &format!("{path}?what=lines&put")) {
            let line = line.as_str().unwrap();
            assert!(line.contains("sh"), "{way}: {line}");
            for part in ["plain", "secret", "TEST_", "second", "boot"] {
                assert!(!line.contains(part), "{way}: {line}");
            }
        }
    }
}

#[test]
fn a_pipe_to_a_program_is_as_in_libc() {
    let script = r#"<?php
$status = [];
foreach (['r', 'rb'] as $mode) {
    $pipe = popen('echo out; exit 7', $mode);
    $status[] = [fgets($pipe), pclose($pipe)];
}
foreach (['w', 'wb'] as $mode) {
    $pipe = popen('cat > ' . __DIR__ . '/written; kill -9 $$', $mode);
    fwrite($pipe, 'in');
    $status[] = [pclose($pipe), file_get_contents(__DIR__ . '/written')];
}
// One that reads nothing: the written data is lost, and its exit status shows it.
$pipe = popen('exec <&-; exit 3', 'w');
$status[] = pclose($pipe);
// Two at a time, closed in the order in which they were opened: neither has a copy of the other's end.
$first = popen('cat > /dev/null; exit 1', 'w');
$second = popen('cat > /dev/null; exit 2', 'w');
$status[] = [pclose($first), pclose($second)];
exec('exit 9', $lines, $code);
$status[] = [$lines, $code];
echo json_encode($status);
"#;
    let svc = Svc::start(&[("pipes.php", script)], &[]);
    let expected = r#"[["out\n",7],["out\n",7],[9,"in"],[9,"in"],3,[1,2],[[],9]]"#;
    assert_eq!(svc.get("/pipes.php").text(), expected);
}

#[cfg(feature = "worker")]
const BOOT_MASK: &str = r#"<?php
$before = umask(0o027);
Svc\Worker::serve(function () use ($before) {
    $seen = [sprintf('%03o', $before), sprintf('%03o', umask())];
    if (isset($_GET['mask'])) {
        umask(0o077);
        Svc\sleep(0.001);
        touch(__DIR__ . '/inside');
        while (isset($_GET['stay']) && !file_exists(__DIR__ . '/go')) {
            Svc\sleep(0.001);
            clearstatcache();
        }
    }
    isset($_GET['exit']) && Svc\Worker::current()->scheduleExit();
    $name = tempnam(__DIR__, 'mask');
    unlink($name);
    mkdir($name);
    $seen[] = sprintf('%03o', fileperms($name) & 0o777);
    rmdir($name);
    echo implode(' ', $seen), ' ', sprintf('%03o', umask());
});"#;

#[cfg(feature = "worker")]
#[test]
fn the_file_mode_mask_of_a_boot_script_is_where_its_requests_begin() {
    let svc = Svc::start(&[("worker.php", BOOT_MASK)], &WORKER_MODE);
    let before = svc.get("/").text()[..3].to_owned();
    let plain = format!("{before} 027 750 027");
    assert_eq!(svc.get("/").text(), plain);
    let mut client = svc.client();
    client.send("GET /?mask&stay HTTP/1.1\r\nHost: x\r\n\r\n");
    eventually("its mask is changed", || svc.root().join("inside").exists());
    assert_eq!(svc.get("/").text(), plain, "beside one that has changed it");
    assert_eq!(svc.get("/?mask").text(), format!("{before} 027 700 077"));
    std::fs::write(svc.root().join("go"), "").unwrap();
    assert_eq!(client.response().text(), format!("{before} 027 700 077"));
    assert_eq!(svc.get("/").text(), plain);
    // The next boot begins in the same state as the first one.
    assert_eq!(svc.get("/?exit").text(), plain);
    assert_eq!(svc.get("/").text(), plain);
}

const SHARED: &str = "umask() affects all requests: the system does not allow a umask per thread";

const MASKS: &str = r#"<?php
if (isset($_GET['ask'])) {
    for ($times = 0; !file_exists(__DIR__ . '/go'); $times++) {
        for ($i = 0; $i < 1000; $i++) {
            umask() | umask(null);
        }
        touch(__DIR__ . '/inside');
        clearstatcache();
    }
    // Another request may have set its own mask when the loop read it last.
    printf('%03o', umask());
    exit;
}
for ($i = 0; $i < 2000; $i++) {
    mkdir(__DIR__ . "/made$i");
    $modes[] = sprintf('%03o', fileperms(__DIR__ . "/made$i") & 0o777);
}
$before = umask(0o027);
printf('%s %03o %03o', implode(' ', array_unique($modes)), umask(), umask($before));
"#;

#[test]
fn a_server_whose_threads_share_the_file_mode_mask_logs_it() {
    let folder = tempfile::tempdir().unwrap();
    let wrapper = folder.path().join("without_unshare");
    c::program(include_str!("../../php/without_unshare.c"), &wrapper);
    let files = [("mask.php", MASKS)];
    let fact = |svc: &Svc| {
        let report: Value = serde_json::from_str(&svc.ask("/config").text()).unwrap();
        report["php"]["umask_per_thread"].as_bool().unwrap()
    };
    let shared = Svc::start_under(&wrapper, &files, &[], &[]);
    let record = shared.log().expect(SHARED);
    assert_eq!((record["level"].as_str(), fact(&shared)), (Some("WARN"), false));
    // Reading the mask does not change it for files that others create meanwhile.
    let mut client = shared.client();
    client.send("GET /mask.php?ask HTTP/1.1\r\nHost: x\r\n\r\n");
    eventually("the first one runs", || shared.root().join("inside").exists());
    let made = shared.get("/mask.php").text();
    std::fs::write(shared.root().join("go"), "").unwrap();
    let mask = u32::from_str_radix(&client.response().text(), 8).unwrap();
    assert_eq!(made, format!("{:03o} 027 027", 0o777 & !mask));
    let own = Svc::start(&files, &[]);
    assert_eq!((own.log().find(SHARED), fact(&own)), (None, true));
}

const DIRECTORIES: &str = r#"<?php
require 'programs.php';
chdir(__DIR__ . '/one');
function started(?string $directory, string ...$command): string
{
    $process = @proc_open($command ?: ['pwd'], [1 => ['pipe', 'w']], $pipes, $directory);
    if (!$process) { return 'none'; }
    $output = stream_get_contents($pipes[1]);
    proc_close($process);
    return $output;
}
function forked(): string
{
    $child = pcntl_fork();
    $child === 0 && pcntl_exec('/bin/sh', ['-c', 'pwd > forked']);
    pcntl_waitpid($child, $status);
    return file_get_contents('forked');
}
function removed(): string
{
    mkdir('short');
    chdir('short');
    rmdir('../short');
    return implode(' ', [exec('echo ran'), trim(started(null, 'echo', 'ran')), started('.')]);
}
$seen = array_map(fn (Closure $way) => $way('pwd'), ways());
$seen += ['null' => started(null), '..' => started('..'), 'two' => started('two'), 'absolute' => started(__DIR__ . '/one/two')];
$seen += ['forked' => forked(), 'long' => started(str_repeat('./', 2045)), 'too long' => started(str_repeat('a', 5000)), 'removed' => removed()];
echo json_encode(array_map(fn (string $seen) => str_replace(__DIR__, '@', trim($seen)), $seen), JSON_UNESCAPED_SLASHES);
"#;

/// Starts a server whose threads have their own directories, and one whose threads share that of the process.
fn with_each_kind_of_directory(files: &[(&str, &str)], directives: &[&str], act: impl Fn(&Svc, bool)) {
    let folder = tempfile::tempdir().unwrap();
    let wrapper = folder.path().join("without_unshare");
    c::program(include_str!("../../php/without_unshare.c"), &wrapper);
    act(&Svc::start_with(files, &[], directives), true);
    act(&Svc::start_under(&wrapper, files, &[], directives), false);
}

#[test]
fn programs_start_in_the_directory_of_their_request() {
    let files = [("programs.php", PROGRAMS), ("directories.php", DIRECTORIES), ("one/two/three.txt", "")];
    with_each_kind_of_directory(&files, &["sendmail_path=sh"], |svc, has_own| {
        let seen: Value = serde_json::from_str(&svc.get("/directories.php").text()).unwrap();
        for (way, seen) in seen.as_object().unwrap() {
            let expected = match way.as_str() {
                ".." => "@",
                "two" | "absolute" => "@/one/two",
                "too long" => "none",
                // A thread with its own directory is still in the one that was removed, whose path `pwd` cannot tell.
                "removed" => {
                    if has_own {
                        "ran ran"
                    } else {
                        "ran ran none"
                    }
                }
                _ => "@/one",
            };
            assert_eq!(seen, expected, "{way}, {has_own}");
        }
    });
}

#[cfg(feature = "worker")]
#[test]
fn a_program_never_starts_in_the_directory_of_another_request() {
    let script = r#"<?php
    require 'programs.php';
    Svc\Worker::serve(function () {
        chdir(__DIR__ . '/' . $_GET['in']);
        if (isset($_GET['stay'])) {
            touch(__DIR__ . '/inside');
            while (!file_exists(__DIR__ . '/go')) { Svc\sleep(0.001); clearstatcache(); }
        }
        $relative = @proc_open(['pwd'], [1 => ['pipe', 'w']], $pipes, 'part');
        echo trim(lines('pwd 2> /dev/null')), '|', $relative ? stream_get_contents($pipes[1]) : 'none';
    });"#;
    let files = [("programs.php", PROGRAMS), ("worker.php", script), ("old/part/a", ""), ("new/part/a", "")];
    let svc = Svc::start(&files, &WORKER_MODE);
    let mut client = svc.client();
    client.send("GET /?in=old&stay HTTP/1.1\r\nHost: x\r\n\r\n");
    eventually("it is in its directory", || svc.root().join("inside").exists());
    let new = svc.root().join("new").display().to_string();
    assert_eq!(svc.get("/?in=new").text(), format!("{new}|{new}/part\n"));
    std::fs::remove_dir_all(svc.root().join("old")).unwrap();
    std::fs::write(svc.root().join("go"), "").unwrap();
    assert_eq!(client.response().text(), "/|none");
}

#[test]
fn a_library_may_start_programs_on_its_own_thread() {
    let folder = tempfile::tempdir().unwrap();
    let library = folder.path().join("foreign_thread.so");
    c::extension(include_str!("../../php/foreign_thread.c"), &library);
    let extension = format!("extension={}", library.display());
    with_each_kind_of_directory(
        &[("index.php", "<?php echo test_popen_elsewhere();")],
        &[&extension],
        |svc, _| {
            assert!(svc.get("/").text().starts_with('/'));
        },
    );
}
