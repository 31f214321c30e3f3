//! Time limits of scripts inside blocking calls, in both modes.

use std::io::Read;
use std::net::{TcpListener, TcpStream};

use rustix::fs::{FlockOperation, flock};
use svc_testing::client::{Client, eventually};
use svc_testing::skip::skipped;
use svc_testing::{self, Svc, c};

const CLASSIC: &str = "<?php eval(file_get_contents('php://input'));";
const WORKER: &str = "<?php Svc\\Worker::serve(function () { eval(file_get_contents('php://input')); });";

/// Starts one server in each mode of this build, with one worker each unless `settings` override that.
fn each_mode(settings: &[(&str, &str)], directives: &[&str]) -> Vec<Svc> {
    let files = [("index.php", CLASSIC), ("worker.php", WORKER)];
    let classic = [&[("PHP_WORKERS", "1")], settings].concat();
    let worker = [&classic[..], &[("WORKER_MODE_ENABLED", "true"), ("ENTRY_FILE", "worker.php")]].concat();
    let modes =
        [(true, classic), (cfg!(feature = "worker"), worker)].into_iter().filter(|(is_there, _)| *is_there);
    modes.map(|(_, settings)| Svc::start_with(&files, &settings, directives)).collect()
}

/// Sends `code` with the cookie of a session.
fn send(svc: &Svc, session: &str, code: &str) -> Client {
    let mut client = svc.client();
    client.send(format!(
        "POST / HTTP/1.1\r\nHost: x\r\nCookie: PHPSESSID={session}\r\nContent-Length: {}\r\n\r\n{code}",
        code.len()
    ));
    client
}

/// A server that accepts connections and never answers.
struct Silence(TcpListener);

impl Silence {
    fn new() -> Self {
        Self(TcpListener::bind("127.0.0.1:0").unwrap())
    }

    /// Returns PHP code that reads from it.
    fn read(&self) -> String {
        format!("@file_get_contents('http://{}/');", self.0.local_addr().unwrap())
    }

    /// Accepts the connection of a script that reads from it, once the request is here.
    fn reader(&self) -> TcpStream {
        self.0.set_nonblocking(true).unwrap();
        let mut accepted = None;
        eventually("a script connects", || {
            accepted = self.0.accept().ok();
            accepted.is_some()
        });
        let mut stream = accepted.unwrap().0;
        stream.set_nonblocking(false).unwrap();
        stream.read_exact(&mut [0]).unwrap();
        stream
    }
}

/// Asserts that a request's script has ended by its limit, however late, and that the worker continues.
fn is_well(svc: &Svc, timeouts: f64) {
    svc.assert_metric("svc_busy_workers", 0.0);
    eventually("the limit has ended the script", || {
        svc.log().of("php").iter().any(|record| {
            record["fields"]["message"]
                .as_str()
                .unwrap()
                .contains("Maximum execution time of 1 second exceeded")
        })
    });
    assert_eq!(send(svc, "other", "echo 'alive';").response().text(), "alive");
    svc.assert_metric("svc_request_cancelled_total{reason=\"timeout\"}", timeouts);
    svc.assert_metric("svc_dropped_requests_total", 0.0);
    svc.assert_metric("svc_pending_requests", 0.0);
}

#[test]
fn a_client_is_answered_at_the_limit_although_its_script_waits() {
    let silence = Silence::new();
    for svc in each_mode(&[("ACCESS_LOG", "all")], &["max_execution_time=1"]) {
        let root = svc.root().display();
        let shut = format!("register_shutdown_function(fn () => touch('{root}/shut')); echo 'early';");
        let mut client = send(&svc, "a", &format!("{shut} {} touch('{root}/late');", silence.read()));
        let reader = silence.reader();
        let response = client.response();
        assert_eq!((response.status, response.text().contains("early")), (504, false));
        svc.assert_metric("svc_busy_workers", 1.0);
        svc.assert_metric("svc_pending_requests", 0.0);
        assert!(svc.metric("svc_worker_request_age_seconds{worker_id=\"0\"}") >= 1.0);
        assert!(!svc.root().join("shut").exists(), "it is still in the call");
        let next = send(&svc, "b", "echo 'next';");
        drop(reader);
        eventually("it runs to its end", || svc.root().join("shut").exists());
        assert!(!svc.root().join("late").exists());
        let mut next = next;
        assert_eq!(next.response().text(), "next", "it has waited for the worker");
        is_well(&svc, 1.0);
        assert_eq!(send(&svc, "a", "echo 1;").response().text(), "1");
        let refusals =
            || svc.log().of("access").iter().filter(|record| record["fields"]["status"] == 504).count();
        eventually("it is in the log", || refusals() == 1);
        drop((client, next));
        svc_testing::books::check_books(&svc);
    }
}

#[test]
fn the_timeout_of_a_stream_ends_its_wait_after_the_limit_too() {
    let silence = Silence::new();
    for svc in each_mode(&[], &["max_execution_time=1", "default_socket_timeout=2"]) {
        let mut client = send(&svc, "a", &silence.read());
        let _reader = silence.reader();
        assert_eq!(client.response().status, 504);
        is_well(&svc, 1.0);
    }
}

#[test]
fn a_program_that_runs_for_longer_holds_its_worker_and_not_its_client() {
    for svc in each_mode(&[], &[]) {
        let root = svc.root().display();
        let wait = format!(
            "set_time_limit(1); exec('while [ -e {root}/index.php ] && [ ! -e {root}/go ]; do sleep 0.02; done');"
        );
        assert_eq!(send(&svc, "a", &format!("{wait} touch('{root}/late');")).response().status, 504);
        svc.assert_metric("svc_busy_workers", 1.0);
        std::fs::write(svc.root().join("go"), "").unwrap();
        is_well(&svc, 1.0);
        assert!(!svc.root().join("late").exists());
    }
}

#[test]
fn a_reply_that_has_begun_breaks_off_at_the_limit() {
    let silence = Silence::new();
    for svc in each_mode(&[], &["max_execution_time=1", "output_buffering=0"]) {
        let code = format!(
            "register_shutdown_function(fn () => print('late')); echo 'part'; flush(); {}",
            silence.read()
        );
        let mut client = send(&svc, "a", &code);
        let reader = silence.reader();
        let response = client.response();
        assert_eq!((response.status, response.text().as_str(), response.is_whole), (200, "part", false));
        svc.assert_metric("svc_busy_workers", 1.0);
        drop(reader);
        is_well(&svc, 0.0);
    }
}

#[test]
fn a_script_running_after_its_reply_has_a_limit_and_no_second_answer() {
    let silence = Silence::new();
    for svc in each_mode(&[], &["max_execution_time=1", "default_socket_timeout=2"]) {
        let mut client = send(&svc, "a", &format!("echo 'done'; svc_finish_request(); {}", silence.read()));
        let _reader = silence.reader();
        let response = client.response();
        assert_eq!((response.status, response.text().as_str()), (200, "done"));
        is_well(&svc, 0.0);
    }
}

/// Delays a call that blocks its thread past a limit of one second: the limit's signal arrives after svc has looked at its
/// flag, and before the call. The file BEFORE asks for it, once.
const LATE: &str = r#"
static void be_late(void)
{
    char name[16] = "";
    prctl(PR_GET_NAME, name);
    if (strncmp(name, "svc-php", 7) != 0 || unlink(BEFORE) != 0) {
        return;
    }
    struct timespec end;
    clock_gettime(CLOCK_MONOTONIC, &end);
    end.tv_sec += 1;
    end.tv_nsec += 200000000;
    end.tv_sec += end.tv_nsec / 1000000000;
    end.tv_nsec %= 1000000000;
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &end, NULL) != 0) {
    }
    close(creat(AFTER, 0600));
}
int poll(struct pollfd *list, nfds_t length, int time_ms)
{
    if (length == 1 && time_ms != 0) {
        be_late();
    }
    return ((int (*)(struct pollfd *, nfds_t, int))dlsym(RTLD_NEXT, "poll"))(list, length, time_ms);
}
int flock(int descriptor, int operation)
{
    if ((operation & LOCK_NB) == 0) {
        be_late();
    }
    return ((int (*)(int, int))dlsym(RTLD_NEXT, "flock"))(descriptor, operation);
}
"#;

#[test]
fn a_limit_that_expires_just_before_a_call_blocks_ends_it() {
    if std::env::var_os("SVC_SANITIZE").is_some() {
        return skipped("a sanitizer wants to be the first library");
    }
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    let headers =
        ["dlfcn.h", "fcntl.h", "poll.h", "string.h", "sys/file.h", "sys/prctl.h", "time.h", "unistd.h"];
    let include: String = headers.iter().map(|header| format!("#include <{header}>\n")).collect();
    let define = format!(
        "#define _GNU_SOURCE\n#define BEFORE \"{}\"\n#define AFTER \"{}\"\n",
        path("before"),
        path("after")
    );
    c::library(&[&define, &include, LATE].concat(), &folder.path().join("late.so"));
    std::fs::write(path("lock"), "").unwrap();
    let lock = std::fs::File::open(path("lock")).unwrap();
    flock(&lock, FlockOperation::LockExclusive).unwrap();
    let late = format!("set_time_limit(1); touch('{}');", path("before"));
    let locks = format!("{late} flock(fopen('{}', 'r'), LOCK_EX);", path("lock"));
    let awaits = format!("$task = Svc\\async(Svc\\sleep(...), 3600); {late} $task->await();");
    // Inside an output callback, a request blocks its thread in worker mode too.
    let [locks, awaits] =
        [locks, awaits].map(|code| format!("ob_start(function () {{ {code} }}); ob_end_flush();"));
    let preload = path("late.so");
    let settings = [("LD_PRELOAD", preload.as_str()), ("ASYNC_WORKERS", "1")];
    let (cases, settings) = if cfg!(feature = "async") {
        (vec![locks, awaits], &settings[..])
    } else {
        (vec![locks], &settings[..1])
    };
    // Without a limit, the task never ends by itself.
    for svc in each_mode(settings, &["max_execution_time=0"]) {
        for (before, case) in cases.iter().enumerate() {
            assert_eq!(send(&svc, "a", case).response().status, 504, "{case}");
            eventually("its worker is free", || svc.metric("svc_busy_workers") == 0.0);
            std::fs::remove_file(path("after")).expect("its call was late");
            is_well(&svc, before as f64 + 1.0);
        }
    }
}

#[test]
fn no_limit_is_no_limit() {
    for svc in each_mode(&[], &["max_execution_time=1"]) {
        assert_eq!(send(&svc, "a", "set_time_limit(0); echo sleep(3);").response().text(), "0");
        svc.assert_metric("svc_request_cancelled_total{reason=\"timeout\"}", 0.0);
    }
}

#[test]
fn code_after_the_limit_has_the_same_time_again() {
    let silence = Silence::new();
    for svc in each_mode(&[], &["max_execution_time=1", "default_socket_timeout=2"]) {
        let root = svc.root().display();
        let code = format!(
            "register_shutdown_function(function () {{ touch('{root}/began'); {} touch('{root}/late'); }}); for (;;) {{}}",
            silence.read()
        );
        let mut client = send(&svc, "a", &code);
        assert_eq!(client.response().status, 504);
        let _reader = silence.reader();
        svc.assert_metric("svc_busy_workers", 0.0);
        assert!(svc.root().join("began").exists() && !svc.root().join("late").exists());
        is_well(&svc, 1.0);
    }
}

#[test]
fn a_wait_for_a_session_ends_at_the_limit_and_leaves_it_alone() {
    let folder = tempfile::tempdir().unwrap();
    let library = folder.path().join("asking.so");
    c::extension(include_str!("../../php/asking_session.c"), &library);
    // One handler waits for its lock in the kernel, the other one polls for it.
    let (files, asking) = ("session.save_handler=files", "session.save_handler=asking");
    let extension = format!("extension={}", library.display());
    let servers = [files, asking]
        .map(|handler| each_mode(&[("PHP_WORKERS", "2")], &["max_execution_time=60", &extension, handler]));
    for svc in servers.iter().flatten() {
        let root = svc.root().display();
        let open = format!("session_save_path('{root}'); session_start();");
        let stay = format!(
            "touch('{root}/inside'); while (!file_exists('{root}/go')) {{ usleep(2000); clearstatcache(); }}"
        );
        let count = "echo $_SESSION['n'] = ($_SESSION['n'] ?? 0) + 1;";
        assert_eq!(send(svc, "same", &format!("{open} {count}")).response().text(), "1");
        let mut holder = send(svc, "same", &format!("{open} {stay} {count}"));
        eventually("it is inside", || svc.root().join("inside").exists());
        let code = format!(
            "set_time_limit(1); register_shutdown_function(fn () => $_SESSION = []); {open} touch('{root}/late');"
        );
        assert_eq!(send(svc, "same", &code).response().status, 504);
        // Its worker is free, although the session is not.
        svc.assert_metric("svc_busy_workers", 1.0);
        assert!(!svc.root().join("late").exists());
        std::fs::write(svc.root().join("go"), "").unwrap();
        assert_eq!(holder.response().text(), "2");
        assert_eq!(send(svc, "same", &format!("{open} {count}")).response().text(), "3");
        is_well(svc, 1.0);
    }
}

/// Like frameworks' handlers: a wrapper of PHP's own.
const HANDLER: &str = "
    if (!class_exists('Wrapped', false)) {
        class Wrapped implements SessionHandlerInterface, SessionUpdateTimestampHandlerInterface {
            public function __construct(private SessionHandler $own, private string $stuck) {}
            private function at(string $place): void {
                if ($this->stuck === \"throws in $place\") { throw new Exception('here'); }
                while ($this->stuck === $place) {}
            }
            public function open(string $path, string $name): bool { $r = $this->own->open($path, $name); $this->at('open'); return $r; }
            public function close(): bool { $this->at('close'); return $this->own->close(); }
            public function read(string $id): string|false { $r = $this->own->read($id); $this->at('read'); return $r; }
            public function write(string $id, string $data): bool { $this->at('write'); return $this->own->write($id, $data); }
            public function destroy(string $id): bool { return $this->own->destroy($id); }
            public function gc(int $max): int|false { return $this->own->gc($max); }
            public function validateId(string $id): bool { $r = $this->own->read($id) !== ''; $this->at('validate'); return $r; }
            public function updateTimestamp(string $id, string $data): bool { return $this->write($id, $data); }
        }
    }";

#[test]
fn a_limit_inside_of_a_session_handler_leaves_no_lock_and_no_loss() {
    for svc in each_mode(&[("PHP_WORKERS", "2")], &["session.use_strict_mode=1"]) {
        let root = svc.root().display();
        let open = |stuck: &str| {
            format!(
                "{HANDLER} set_time_limit('{stuck}' ? 1 : 30); session_save_path('{root}');
                 session_set_save_handler(new Wrapped(new SessionHandler(), '{stuck}'), true); session_start();"
            )
        };
        let count = "echo $_SESSION['n'] = ($_SESSION['n'] ?? 0) + 1;";
        std::fs::write(svc.root().join("sess_same"), "n|i:1;").unwrap();
        for stuck in ["open", "validate", "read", "write", "close"] {
            assert_eq!(
                send(&svc, "same", &format!("{} {count}", open(stuck))).response().status,
                504,
                "{stuck}"
            );
            // More requests than workers: a request that waited for the lock would keep a worker.
            for _ in 0..3 {
                let response =
                    send(&svc, "same", &format!("{} echo $_SESSION['n'] ?? 'lost';", open(""))).response();
                let expected = if stuck == "close" { "2" } else { "1" };
                assert_eq!((response.status, response.text().as_str()), (200, expected), "{stuck}");
            }
        }
        is_well(&svc, 5.0);
    }
}

#[test]
fn an_exception_inside_of_a_session_handler_leaves_no_lock() {
    for svc in each_mode(&[("PHP_WORKERS", "2")], &["session.use_strict_mode=1"]) {
        let root = svc.root().display();
        let open = |stuck: &str, by_itself: bool| {
            format!(
                "{HANDLER} session_save_path('{root}');
                 session_set_save_handler(new Wrapped(new SessionHandler(), '{stuck}'), {by_itself}); session_start();"
            )
        };
        std::fs::write(svc.root().join("sess_same"), "n|i:1;").unwrap();
        for stuck in ["validate", "read", "write", "close"] {
            for by_itself in [true, false] {
                let code = format!("{} $_SESSION['m'] = 1;", open(&format!("throws in {stuck}"), by_itself));
                let _ = send(&svc, "same", &code).response();
                for _ in 0..3 {
                    let response =
                        send(&svc, "same", &format!("{} echo $_SESSION['n'];", open("", by_itself)))
                            .response();
                    assert_eq!((response.status, response.text().as_str()), (200, "1"), "{stuck}");
                }
            }
        }
    }
}

#[test]
fn a_session_is_written_whole_after_a_limit_while_it_was_serialized() {
    for svc in each_mode(&[], &["max_execution_time=1"]) {
        let root = svc.root().display();
        let open = format!("session_save_path('{root}'); session_start();");
        let code = format!(
            "{open} $o = new stdClass; $_SESSION = ['a' => $o, 'b' => $o];
             if (!class_exists('Slow', false)) {{
                 class Slow implements Serializable {{
                     public function serialize(): string {{ for (;;) {{}} }}
                     public function unserialize(string $data): void {{}}
                 }}
             }}
             serialize([$o, new Slow]);"
        );
        assert_eq!(send(&svc, "same", &code).response().status, 504);
        let kept = || std::fs::read_to_string(svc.root().join("sess_same")).unwrap_or_default();
        eventually("it is written", || !kept().is_empty());
        assert_eq!(kept(), "a|O:8:\"stdClass\":0:{}b|r:1;");
        is_well(&svc, 1.0);
    }
}

#[test]
fn a_wait_for_a_session_that_starts_by_itself_ends_at_the_limit() {
    let session = format!("limits{}", std::process::id());
    for svc in each_mode(&[("PHP_WORKERS", "2")], &["session.auto_start=1", "max_execution_time=1"]) {
        let root = svc.root().display();
        let stay = format!(
            "set_time_limit(30); touch('{root}/inside'); while (!file_exists('{root}/go')) {{ usleep(2000); clearstatcache(); }}"
        );
        let mut holder = send(&svc, &session, &format!("{stay} $_SESSION['n'] = 1; echo 'held';"));
        eventually("it is inside", || svc.root().join("inside").exists());
        assert_eq!(send(&svc, &session, "echo 'never';").response().status, 504);
        svc.assert_metric("svc_busy_workers", 1.0);
        std::fs::write(svc.root().join("go"), "").unwrap();
        assert_eq!(holder.response().text(), "held");
        assert_eq!(send(&svc, &session, "echo $_SESSION['n']; session_destroy();").response().text(), "1");
        is_well(&svc, 1.0);
    }
}

#[test]
fn shutdown_functions_and_destructors_are_limited_when_the_script_was_not() {
    for svc in each_mode(&[], &["max_execution_time=1"]) {
        for code in [
            "register_shutdown_function(function () { for (;;) {} }); echo 'kept back';",
            "$object = new class { public function __destruct() { for (;;) {} } }; echo 'kept back';",
            "register_shutdown_function(function () { register_shutdown_function(fn () => sleep(60)); for (;;) {} }); for (;;) {}",
        ] {
            assert_eq!(send(&svc, "a", code).response().status, 504, "{code}");
            svc.assert_metric("svc_busy_workers", 0.0);
        }
        is_well(&svc, 3.0);
    }
}
