//! Several addresses, Unix sockets, and sockets that a service manager has bound.

use std::fs;
use std::io::{Read, Write};
use std::net::{Ipv6Addr, SocketAddr, TcpListener};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use serde_json::Value;
use tempfile::TempDir;

use svc_testing::client::Client;
use svc_testing::skip::skipped;
use svc_testing::{self, Svc};

/// Sends a request over a Unix socket; returns the whole response.
fn ask_unix(path: &Path, target: &str, fields: &str) -> String {
    let mut socket = UnixStream::connect(path).unwrap();
    write!(socket, "GET {target} HTTP/1.1\r\nHost: test\r\nConnection: close\r\n{fields}\r\n").unwrap();
    let mut response = Vec::new();
    socket.read_to_end(&mut response).unwrap();
    String::from_utf8_lossy(&response).into_owned()
}

fn sockets(names: &[&str]) -> (TempDir, Vec<PathBuf>, String) {
    let folder = tempfile::tempdir().unwrap();
    let paths: Vec<_> = names.iter().map(|name| folder.path().join(name)).collect();
    let places: Vec<_> = paths.iter().map(|path| format!("unix:{}", path.display())).collect();
    (folder, paths, format!("127.0.0.1:0, {}", places.join(",")))
}

/// Returns the exit code and the message of a start that fails.
fn complaint(settings: &[(&str, &str)]) -> (Option<i32>, String) {
    said(settings, &[])
}

/// Returns the exit code and the output of `svc check`.
fn checked(settings: &[(&str, &str)]) -> (Option<i32>, String) {
    said(settings, &["check"])
}

fn said(settings: &[(&str, &str)], arguments: &[&str]) -> (Option<i32>, String) {
    let root = tempfile::tempdir().unwrap();
    let output = svc_testing::command(root.path(), settings).args(arguments).output().unwrap();
    (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
}

#[test]
fn every_place_of_the_list_is_served() {
    let (_folder, paths, places) = sockets(&["a.sock", "b.sock"]);
    let mut svc = Svc::start(&[("a.txt", "hello")], &[("LISTEN_ADDR", &format!("{places}, 127.0.0.2:0"))]);
    assert!(svc.get("/a.txt").text() == "hello");
    for path in &paths {
        assert!(ask_unix(path, "/a.txt", "").ends_with("\r\n\r\nhello"));
        assert_eq!(fs::metadata(path).unwrap().permissions().mode() & 0o777, 0o660);
    }
    let report: Value = serde_json::from_slice(&svc.ask("/config").body).unwrap();
    let told = report["listen_addr"].as_str().unwrap().to_owned();
    let second = told.split(',').find_map(|place| {
        place.parse::<SocketAddr>().ok().filter(|addr| addr.ip().to_string() == "127.0.0.2")
    });
    assert_eq!(Client::connect(second.unwrap()).get("/a.txt").text(), "hello");
    assert!(told.contains(&format!("unix:{}", paths[0].display())), "{told}");
    svc.stop();
    assert!(!paths[0].exists() && !paths[1].exists(), "they are removed at the end");
}

#[test]
fn a_file_that_is_longer_than_a_socket_s_buffer_arrives_whole() {
    let (_folder, paths, places) = sockets(&["a.sock"]);
    let svc = Svc::start(&[], &[("LISTEN_ADDR", &places)]);
    fs::write(svc.root().join("big.bin"), vec![b'x'; 5_000_000]).unwrap();
    assert_eq!(ask_unix(&paths[0], "/big.bin", "").split_once("\r\n\r\n").unwrap().1.len(), 5_000_000);
}

#[test]
fn a_stale_socket_is_replaced_and_nothing_else() {
    let (_folder, paths, places) = sockets(&["a.sock"]);
    drop(UnixListener::bind(&paths[0]).unwrap());
    let mut svc = Svc::start(&[("a.txt", "hello")], &[("LISTEN_ADDR", &places)]);
    assert!(ask_unix(&paths[0], "/a.txt", "").ends_with("hello"));
    let (code, text) = complaint(&[("LISTEN_ADDR", &places)]);
    assert!(code == Some(1) && text.contains("LISTEN_ADDR: cannot listen on unix:"), "{text}");
    assert!(ask_unix(&paths[0], "/a.txt", "").ends_with("hello"), "the first one goes on");
    svc.stop();
    fs::write(&paths[0], "precious").unwrap();
    let (code, text) = complaint(&[("LISTEN_ADDR", &places)]);
    assert!(code == Some(1) && text.contains("a file that is no socket is there"), "{text}");
    assert_eq!(fs::read_to_string(&paths[0]).unwrap(), "precious");
}

#[test]
fn places_must_not_overlap() {
    for (settings, part) in [
        (
            &[("LISTEN_ADDR", "127.0.0.1:81,:81")][..],
            "LISTEN_ADDR: \"127.0.0.1:81,:81\" contains \":81\" twice",
        ),
        (&[("LISTEN_ADDR", "unix:")], "LISTEN_ADDR: \"unix:\" is not a valid address"),
        (
            &[("LISTEN_ADDR", "127.0.0.1:0,127.0.0.1:82"), ("INTERNAL_ADDR", ":82")],
            "INTERNAL_ADDR: \"127.0.0.1:82\" conflicts with LISTEN_ADDR",
        ),
        (&[("LISTEN_UNIX_MODE", "0888")], "LISTEN_UNIX_MODE: \"0888\" is not a file mode"),
    ] {
        let (code, text) = complaint(settings);
        assert!(code == Some(2) && text.contains(part), "{text}");
    }
}

/// Returns a port that is free for both address families, and outside the range that the system assigns for port 0. `None`
/// without IPv6.
fn port_of_both_families() -> Option<u16> {
    if TcpListener::bind("[::1]:0").is_err() {
        skipped("this machine has no IPv6");
        return None;
    }
    // Two tests at a time do not try the same ports.
    static TESTS: AtomicU32 = AtomicU32::new(0);
    let first = 10_000 + std::process::id() % 10_000 + 1_000 * TESTS.fetch_add(1, Ordering::Relaxed);
    let is_free = |port: &u16| TcpListener::bind(("::", *port)).is_ok();
    Some((first..32_000).filter_map(|port| u16::try_from(port).ok()).find(is_free).expect("a free port"))
}

#[test]
fn both_families_share_a_port() {
    let Some(port) = port_of_both_families() else { return };
    let (four, six) =
        (SocketAddr::from(([127, 0, 0, 1], port)), SocketAddr::from((Ipv6Addr::LOCALHOST, port)));
    for places in [
        "0.0.0.0:PORT,[::]:PORT",
        "[::]:PORT,:PORT",
        "127.0.0.1:PORT,[::]:PORT",
        "0.0.0.0:PORT,[::1]:PORT",
        "[::]:PORT",
    ] {
        let places = places.replace("PORT", &port.to_string());
        let (code, text) = checked(&[("LISTEN_ADDR", &places)]);
        assert_eq!(code, Some(0), "{places}: {text}");
        let mut svc = Svc::start(&[("a.txt", "hello")], &[("LISTEN_ADDR", &places)]);
        for addr in [four, six] {
            assert_eq!(Client::connect(addr).get("/a.txt").text(), "hello", "{addr} of {places}");
        }
        svc.stop();
    }
    let all = format!("[::]:{port}");
    let (code, text) = complaint(&[("LISTEN_ADDR", &all), ("INTERNAL_ADDR", &format!("0.0.0.0:{port}"))]);
    assert!(code == Some(2) && text.contains("conflicts with LISTEN_ADDR"), "{text}");
    let svc = Svc::start(&[], &[("INTERNAL_ADDR", &all)]);
    assert_eq!(svc.ops().to_string(), all);
    for addr in [four, six] {
        assert_eq!(Client::connect(addr).get("/metrics").status, 200, "{addr}");
    }
}

#[test]
fn a_peer_on_a_unix_socket_has_no_rate_limit() {
    let (_folder, paths, places) = sockets(&["a.sock"]);
    let settings = [("LISTEN_ADDR", places.as_str()), ("RATE_LIMIT", "1"), ("TRUSTED_PROXIES", "127.0.0.1")];
    let svc = Svc::start(&[("a.txt", "hello")], &settings);
    for _ in 0..3 {
        assert!(ask_unix(&paths[0], "/a.txt", "").starts_with("HTTP/1.1 200"));
    }
    let named = "X-Forwarded-For: 192.0.2.1\r\n";
    assert!(ask_unix(&paths[0], "/a.txt", named).starts_with("HTTP/1.1 200"));
    assert!(
        ask_unix(&paths[0], "/a.txt", named).starts_with("HTTP/1.1 429"),
        "a client that a proxy names has one"
    );
    assert_eq!((svc.get("/a.txt").status, svc.get("/a.txt").status), (200, 429));
}

#[cfg(feature = "php")]
#[test]
fn a_peer_on_a_unix_socket_is_this_machine() {
    let (_folder, paths, places) = sockets(&["a.sock"]);
    let script = "<?php foreach (['REMOTE_ADDR', 'REMOTE_PORT', 'SERVER_ADDR', 'SERVER_PORT', 'HTTPS'] as $name) \
                  { echo $_SERVER[$name] ?? '-', ' '; }";
    let settings = [("LISTEN_ADDR", places.as_str()), ("TRUSTED_PROXIES", "127.0.0.1")];
    let _svc = Svc::start(&[("a.php", script)], &settings);
    assert!(ask_unix(&paths[0], "/a.php", "").ends_with("127.0.0.1 0 127.0.0.1 80 - "));
    let behind = "X-Forwarded-For: 192.0.2.1\r\nX-Forwarded-Proto: https\r\n";
    assert!(ask_unix(&paths[0], "/a.php", behind).ends_with("192.0.2.1 0 127.0.0.1 443 on "));
}

#[test]
fn a_unix_socket_speaks_plain_http_beside_tls() {
    let certificates = svc_testing::tls::Certificates::new(&[&["a.test"]]);
    let (cert, key) = (certificates.cert(0), certificates.key(0));
    let (_folder, paths, places) = sockets(&["a.sock"]);
    let settings =
        [("TLS_CERT", cert.to_str().unwrap()), ("TLS_KEY", key.to_str().unwrap()), ("LISTEN_ADDR", &places)];
    let svc = Svc::start(&[("a.txt", "hello")], &settings);
    assert!(ask_unix(&paths[0], "/a.txt", "").ends_with("hello"));
    assert_eq!(certificates.client(svc.main(), "a.test").get("/a.txt").text(), "hello");
}

#[cfg(feature = "php")]
mod inherited {
    use std::io::{BufRead, BufReader};
    use std::net::TcpStream;
    use std::os::fd::OwnedFd;
    use std::process::{Child, Command, Stdio};
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::thread;

    use rustix::process::{Pid, Signal, kill_process};

    use super::*;

    /// Passes standard input and standard error on as the descriptors 3 and 4.
    const PASS_ON: &str = "exec 3<&0 4<&2 </dev/null 2>/dev/null; export LISTEN_PID=$$; exec \"$@\"";

    /// A server that a service manager has started.
    struct Unit {
        child: Child,
        lines: BufReader<std::process::ChildStdout>,
    }

    impl Unit {
        fn start(root: &Path, main: &TcpListener, ops: &TcpListener, settings: &[(&str, &str)]) -> Self {
            let svc = svc_testing::command(root, settings);
            let pass = |listener: &TcpListener| Stdio::from(OwnedFd::from(listener.try_clone().unwrap()));
            let mut command = Command::new("/bin/sh");
            command.env_clear().args(["-c", PASS_ON, "sh"]).arg(svc.get_program());
            command.envs(svc.get_envs().filter_map(|(name, value)| Some((name, value?))));
            command.env("LISTEN_FDS", "2").env("LISTEN_FDNAMES", "http:ops").envs(settings.iter().copied());
            command.stdin(pass(main)).stderr(pass(ops)).stdout(Stdio::piped());
            let mut child = command.spawn().unwrap();
            let lines = BufReader::new(child.stdout.take().unwrap());
            Self { child, lines }
        }

        /// Waits for a record; returns the records up to it.
        fn until(&mut self, message: &str) -> String {
            let mut text = String::new();
            while !text.contains(message) {
                let length = self.lines.read_line(&mut text).unwrap();
                assert!(length > 0, "it has ended: {text}");
            }
            text
        }

        fn end(mut self) -> Option<i32> {
            kill_process(Pid::from_child(&self.child), Signal::TERM).unwrap();
            let mut rest = String::new();
            self.lines.read_to_string(&mut rest).unwrap();
            self.child.wait().unwrap().code()
        }
    }

    fn bound() -> (TcpListener, SocketAddr) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        rustix::net::listen(&listener, 1024).unwrap();
        let addr = listener.local_addr().unwrap();
        (listener, addr)
    }

    fn root(script: &str) -> TempDir {
        let root = tempfile::tempdir().unwrap();
        fs::write(root.path().join("index.php"), script).unwrap();
        root
    }

    #[test]
    fn sockets_are_taken_over_and_scripts_know_nothing_of_them() {
        let ((main, main_addr), (ops, ops_addr)) = (bound(), bound());
        let script = "<?php echo json_encode([getenv(), array_keys($_ENV), trim(shell_exec('env; ls -l /proc/self/fd'))]);";
        let root = root(script);
        let mut unit = Unit::start(root.path(), &main, &ops, &[]);
        let log = unit.until("svc is ready");
        assert!(
            log.contains(&format!("\"addr\":\"{main_addr}\""))
                && log.contains(&format!("\"addr\":\"{ops_addr}\"")),
            "{log}"
        );
        let text = Client::connect(main_addr).get("/index.php").text();
        assert!(text.contains("PATH") || text.contains("PWD"), "{text}");
        assert!(
            !text.contains("LISTEN_PID") && !text.contains("LISTEN_FDS") && !text.contains("LISTEN_FDNAMES"),
            "{text}"
        );
        for listener in [&main, &ops] {
            let name = fs::read_link(format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(listener)))
                .unwrap();
            assert!(!text.contains(name.to_str().unwrap()), "{} is passed on: {text}", name.display());
        }
        assert_eq!(Client::connect(ops_addr).get("/readyz").status, 200);
        assert_eq!(unit.end(), Some(0));
    }

    #[test]
    fn sockets_of_both_families_are_taken_over() {
        let Some(port) = port_of_both_families() else { return };
        let four = TcpListener::bind(("127.0.0.1", port)).unwrap();
        let six = TcpListener::bind(("::1", port)).unwrap();
        let root = root("<?php echo $_SERVER['SERVER_ADDR'], ' ', $_SERVER['REMOTE_ADDR'];");
        let mut unit = Unit::start(root.path(), &four, &six, &[("LISTEN_FDNAMES", "http:http")]);
        unit.until("svc is ready");
        for (listener, expected) in [(&four, "127.0.0.1 127.0.0.1"), (&six, "::1 ::1")] {
            let addr = listener.local_addr().unwrap();
            assert_eq!(Client::connect(addr).get("/index.php").text(), expected);
        }
        assert_eq!(unit.end(), Some(0));
    }

    #[test]
    fn sockets_for_another_process_are_ignored() {
        let svc = Svc::start(&[], &[("LISTEN_PID", "1"), ("LISTEN_FDS", "9"), ("LISTEN_FDNAMES", "x")]);
        assert_eq!(svc.get("/").status, 404);
    }

    #[test]
    fn names_that_are_not_known_stop_the_start() {
        let ((main, _), (ops, _)) = (bound(), bound());
        let root = root("");
        let unit = Unit::start(root.path(), &main, &ops, &[("LISTEN_FDNAMES", "http:other")]);
        let mut unit = unit;
        assert_eq!(unit.child.wait().unwrap().code(), Some(2));
    }

    /// Sends one request on a new connection.
    fn ask(addr: SocketAddr) -> std::io::Result<String> {
        let mut socket = TcpStream::connect(addr)?;
        socket.write_all(b"GET /index.php HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")?;
        let mut text = String::new();
        socket.read_to_string(&mut text)?;
        Ok(text)
    }

    #[test]
    fn a_restart_under_load_loses_no_request() {
        // `SVC_RESTART_REQUESTS` sets another number.
        let wanted =
            std::env::var("SVC_RESTART_REQUESTS").ok().and_then(|text| text.parse().ok()).unwrap_or(10_000);
        const RESTARTS: usize = 4;
        let ((main, addr), (ops, _)) = (bound(), bound());
        let root = root("<?php echo 'ok';");
        let (asked, lost) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let unit = || {
            let mut unit = Unit::start(root.path(), &main, &ops, &[]);
            unit.until("svc is ready");
            unit
        };
        thread::scope(|scope| {
            let mut running = unit();
            for _ in 0..8 {
                scope.spawn(|| {
                    while asked.fetch_add(1, Ordering::Relaxed) < wanted {
                        let answer = ask(addr);
                        if !answer
                            .as_ref()
                            .is_ok_and(|text| text.starts_with("HTTP/1.1 200") && text.ends_with("ok"))
                        {
                            lost.fetch_add(1, Ordering::Relaxed);
                            eprintln!("lost: {answer:?}");
                        }
                    }
                });
            }
            for restart in 1..=RESTARTS {
                let share = wanted * restart / (RESTARTS + 1);
                svc_testing::client::eventually("a share of them is served", || {
                    asked.load(Ordering::Relaxed) >= share
                });
                assert_eq!(running.end(), Some(0));
                running = unit();
            }
            svc_testing::client::eventually("all are asked", || asked.load(Ordering::Relaxed) >= wanted + 8);
            assert_eq!(running.end(), Some(0));
        });
        assert_eq!(lost.load(Ordering::Relaxed), 0, "of {wanted}");
    }
}
