//! The FastCGI executor with responders that listen elsewhere, well-behaved and otherwise. The responders are scripted.

use std::io::{Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

use svc_testing::Svc;
use svc_testing::client::eventually;

/// Handles a connection whose request was read.
type Act = fn(&mut UnixStream);

/// Returns a record for the request, with this padding.
fn record(kind: u8, content: &[u8], padding: u8) -> Vec<u8> {
    let [high, low] = u16::try_from(content.len()).unwrap().to_be_bytes();
    [&[1, kind, 0, 1, high, low, padding, 0][..], content, &vec![0xff; usize::from(padding)]].concat()
}

fn end(protocol_status: u8) -> Vec<u8> {
    record(3, &[0, 0, 0, 0, protocol_status, 0, 0, 0], 0)
}

fn hello() -> Vec<u8> {
    [record(6, b"Content-Type: text/plain\r\n\r\nhello", 3), end(0)].concat()
}

/// Reads a request to the end of its body. Returns false if the connection ends instead, as that of a probe does.
fn read_request(stream: &mut UnixStream) -> bool {
    let mut header = [0; 8];
    loop {
        if stream.read_exact(&mut header).is_err() {
            return false;
        }
        let len = usize::from(u16::from_be_bytes([header[4], header[5]]));
        if stream.read_exact(&mut vec![0; len + usize::from(header[6])]).is_err() {
            return false;
        }
        if header[1] == 5 && len == 0 {
            return true;
        }
    }
}

/// Listens at a path and behaves in the same way on each connection with a request.
fn respond(path: &Path, act: Act) {
    let listener = UnixListener::bind(path).unwrap();
    thread::spawn(move || {
        for mut stream in listener.incoming().map_while(Result::ok) {
            thread::spawn(move || {
                if read_request(&mut stream) {
                    act(&mut stream);
                }
            });
        }
    });
}

/// Starts a server in front of one responder.
fn start(act: Act, settings: &[(&str, &str)]) -> (Svc, tempfile::TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("socket");
    respond(&path, act);
    (in_front_of(&[path], settings), folder)
}

fn in_front_of(paths: &[PathBuf], settings: &[(&str, &str)]) -> Svc {
    let addrs: Vec<_> = paths.iter().map(|path| format!("unix:{}", path.display())).collect();
    let addrs = addrs.join(",");
    let own = [("EXECUTOR", "fastcgi"), ("FASTCGI_ADDR", addrs.as_str())];
    Svc::start(&[("index.php", "")], &[&own[..], settings].concat())
}

fn write(stream: &mut UnixStream, bytes: &[u8]) {
    // The server may have given up.
    let _ = stream.write_all(bytes);
}

#[test]
fn a_response_may_have_records_of_all_kinds() {
    let act: Act = |stream| {
        write(stream, &record(7, b"PHP Warning:  careful in /a on line 3\n", 0));
        write(stream, &record(99, b"unknown", 7));
        write(stream, &[1, 11, 0, 0, 0, 8, 0, 0, 99, 0, 0, 0, 0, 0, 0, 0]);
        let body = [&b"Status: 201 Made\r\nX-A: b\r\n\r\n"[..], &[b'x'; 65_000]].concat();
        for part in body.chunks(7) {
            write(stream, &record(6, part, part.len() as u8));
        }
        write(stream, &record(6, b"", 0));
        write(stream, &end(0));
    };
    let (svc, _folder) = start(act, &[]);
    let response = svc.get("/");
    assert_eq!((response.status, response.field("x-a"), response.body.len()), (201, Some("b"), 65_000));
    let record = svc.log().expect("careful");
    assert_eq!((&record["fields"]["file"], &record["fields"]["line"]), (&"/a".into(), &3.into()));
}

#[test]
fn a_malformed_response_is_502() {
    let acts: [(&str, Act); 12] = [
        ("nothing", |_| {}),
        ("garbage", |stream| write(stream, b"HTTP/1.1 200 OK\r\n\r\n")),
        ("a foreign version", |stream| write(stream, &[2, 6, 0, 1, 0, 0, 0, 0])),
        ("another request", |stream| write(stream, &[1, 6, 0, 2, 0, 0, 0, 0])),
        ("a record of a server", |stream| write(stream, &record(5, b"x", 0))),
        ("half a header", |stream| write(stream, &[1, 6, 0])),
        ("half a record", |stream| write(stream, &record(6, b"Content-Type: a/b\r\n\r\n", 0)[..20])),
        ("half a head", |stream| write(stream, &[record(6, b"Content-Type: a/b\r\n", 0), end(0)].concat())),
        ("CANT_MPX_CONN", |stream| write(stream, &end(1))),
        ("OVERLOADED", |stream| write(stream, &end(2))),
        ("UNKNOWN_ROLE", |stream| write(stream, &end(3))),
        ("a head without end", |stream| (0..10).for_each(|_| write(stream, &record(6, &[b'x'; 60_000], 0)))),
    ];
    for (what, act) in acts {
        let (svc, _folder) = start(act, &[("PHP_WORKERS", "1")]);
        for lost in 1..=2 {
            assert_eq!(svc.get("/").status, 502, "{what}");
            svc.assert_metric("svc_dropped_requests_total", f64::from(lost));
        }
        svc.log().expect("FastCGI responder failed");
        svc.assert_metric("svc_workers_current", 1.0);
    }
}

#[test]
fn a_response_that_breaks_off_is_visibly_incomplete() {
    static IS_READ: AtomicBool = AtomicBool::new(false);
    let act: Act = |stream| {
        write(stream, &record(6, b"\r\nhalf", 0));
        eventually("the client has read it", || IS_READ.load(Ordering::Acquire));
    };
    let (svc, _folder) = start(act, &[]);
    let mut client = svc.client();
    client.send("GET / HTTP/1.1\r\nHost: x\r\n\r\n");
    client.head_only();
    assert_eq!(client.chunk().as_deref(), Some(&b"half"[..]));
    IS_READ.store(true, Ordering::Release);
    assert_eq!(client.chunk(), None, "the end is missing");
}

#[test]
fn a_connection_is_kept_only_if_that_is_set() {
    let act: Act = |stream| {
        write(stream, &hello());
        while read_request(stream) {
            write(stream, &[record(6, b"\r\nagain", 0), end(0)].concat());
        }
    };
    let (svc, _folder) = start(act, &[("PHP_WORKERS", "1"), ("FASTCGI_KEEP_CONN", "true")]);
    assert_eq!(svc.get("/").text(), "hello");
    assert_eq!(svc.get("/").text(), "again");
    let (svc, _folder) = start(act, &[("PHP_WORKERS", "1")]);
    assert_eq!(svc.get("/").text(), "hello");
    assert_eq!(svc.get("/").text(), "hello");
}

#[test]
fn a_kept_connection_that_has_ended_loses_no_request() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("socket");
    let listener = UnixListener::bind(&path).unwrap();
    let ended = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&ended);
    thread::spawn(move || {
        for mut stream in listener.incoming().map_while(Result::ok) {
            if read_request(&mut stream) {
                write(&mut stream, &hello());
                drop(stream);
                count.fetch_add(1, Ordering::Relaxed);
            }
        }
    });
    let svc = in_front_of(&[path], &[("PHP_WORKERS", "1"), ("FASTCGI_KEEP_CONN", "true")]);
    let mut client = svc.client();
    for number in 1..=20 {
        assert_eq!(client.get("/").text(), "hello");
        // A request that is sent before that is lost.
        eventually("the connection has ended", || ended.load(Ordering::Relaxed) == number);
    }
    svc.assert_metric("svc_dropped_requests_total", 0.0);
}

#[test]
fn an_address_that_cannot_be_reached_is_left_out() {
    let folder = tempfile::tempdir().unwrap();
    let (gone, there) = (folder.path().join("gone"), folder.path().join("there"));
    respond(&there, |stream| write(stream, &hello()));
    let svc = in_front_of(&[gone.clone(), there], &[]);
    for _ in 0..8 {
        assert_eq!(svc.get("/").text(), "hello");
    }
    svc.log().expect("FastCGI address cannot be reached");
    respond(&gone, |stream| write(stream, &[record(6, b"\r\nback", 0), end(0)].concat()));
    svc.log().expect("FastCGI address can be reached again");
    eventually("both are used", || svc.get("/").text() == "back");
}

/// It always has the fewest requests in progress.
#[test]
fn an_address_that_fails_at_once_gets_few_requests() {
    static IS_WELL: AtomicBool = AtomicBool::new(false);
    let folder = tempfile::tempdir().unwrap();
    let (failing, well) = (folder.path().join("failing"), folder.path().join("well"));
    respond(&failing, |stream| {
        if IS_WELL.load(Ordering::Relaxed) {
            write(stream, &hello());
        }
    });
    respond(&well, |stream| write(stream, &hello()));
    let svc = in_front_of(&[failing, well], &[("PHP_WORKERS", "2")]);
    let lost = (0..200).filter(|_| svc.get("/").status == 502).count();
    // Three, and one after each pause of 1, 2, 4, 8 … seconds.
    assert!((3..10).contains(&lost), "{lost}");
    svc.assert_metric("svc_dropped_requests_total", lost as f64);
    svc.log().expect("FastCGI address fails: requests go to the others");
    IS_WELL.store(true, Ordering::Relaxed);
    eventually("a request tries it", || {
        svc.get("/");
        svc.log().find("FastCGI address responds again").is_some()
    });
}

#[test]
fn without_an_address_there_are_no_workers() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("socket");
    let svc = in_front_of(std::slice::from_ref(&path), &[]);
    eventually("no worker is left", || svc.metric("svc_workers_current") == 0.0);
    assert_eq!(svc.get("/").status, 500);
    assert_eq!(
        (svc.ask("/readyz").status, svc.ask("/startupz").status, svc.ask("/healthz").status),
        (503, 503, 200)
    );
    assert!(svc.metric("svc_admission_refused_total{reason=\"pool_unavailable\"}") >= 1.0);
    respond(&path, |stream| write(stream, &hello()));
    eventually("the workers are back", || svc.ask("/readyz").status == 200);
    assert_eq!(svc.get("/").text(), "hello");
}

#[test]
fn a_client_that_leaves_aborts_the_request() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("socket");
    let listener = UnixListener::bind(&path).unwrap();
    let aborted = thread::spawn(move || {
        for mut stream in listener.incoming().map_while(Result::ok) {
            if read_request(&mut stream) {
                let mut rest = Vec::new();
                stream.read_to_end(&mut rest).unwrap();
                return rest;
            }
        }
        Vec::new()
    });
    let svc = in_front_of(&[path], &[("PHP_WORKERS", "1")]);
    let mut client = svc.client();
    client.send("GET / HTTP/1.1\r\nHost: x\r\n\r\n");
    eventually("the request runs", || svc.metric("svc_busy_workers") == 1.0);
    drop(client);
    assert_eq!(aborted.join().unwrap(), [1, 2, 0, 1, 0, 0, 0, 0], "ABORT_REQUEST");
    svc.assert_metric("svc_request_cancelled_total{reason=\"client_abort\"}", 1.0);
    svc.assert_metric("svc_busy_workers", 0.0);
}

#[test]
fn the_time_limit_frees_the_worker() {
    let act: Act = |stream| drop(stream.read(&mut [0; 64]));
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("socket");
    respond(&path, act);
    let addr = format!("unix:{}", path.display());
    let settings = [("EXECUTOR", "fastcgi"), ("FASTCGI_ADDR", addr.as_str()), ("PHP_WORKERS", "1")];
    let svc = Svc::start_with(&[("index.php", "")], &settings, &["max_execution_time=1"]);
    assert_eq!(svc.get("/").status, 504);
    svc.assert_metric("svc_busy_workers", 0.0);
    svc.assert_metric("svc_request_cancelled_total{reason=\"timeout\"}", 1.0);
}

#[test]
fn requests_that_the_drain_cuts_off_get_503() {
    // More requests than the I/O threads can answer before the first worker knows.
    let act: Act = |stream| drop(stream.read(&mut [0; 64]));
    let (mut svc, _folder) = start(act, &[("PHP_WORKERS", "32"), ("DRAIN_TIMEOUT_SECONDS", "1")]);
    let mut clients: Vec<_> = (0..32).map(|_| svc.client()).collect();
    for client in &mut clients {
        client.send("GET / HTTP/1.1\r\nHost: x\r\n\r\n");
    }
    eventually("all requests run", || svc.metric("svc_busy_workers") == 32.0);
    svc.stop();
    for client in &mut clients {
        assert_eq!(client.response().status, 503);
    }
}

#[test]
fn a_body_is_taken_while_the_response_is_sent() {
    // Neither side waits for the other, although no socket buffer holds all of it.
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("socket");
    let listener = UnixListener::bind(&path).unwrap();
    thread::spawn(move || {
        for mut stream in listener.incoming().map_while(Result::ok) {
            let mut header = [0; 8];
            if stream.read_exact(&mut header).is_err() {
                continue;
            }
            write(&mut stream, &record(6, b"\r\n", 0));
            (0..100).for_each(|_| write(&mut stream, &record(6, &[b'y'; 50_000], 0)));
            stream.read_exact(&mut [0; 8]).unwrap();
            assert!(read_request(&mut stream));
            write(&mut stream, &end(0));
        }
    });
    let svc = in_front_of(&[path], &[("MAX_BODY_BYTES", "64M")]);
    let response = svc.client().post("/", &vec![b'x'; 5_000_000]);
    assert_eq!((response.status, response.body.len()), (200, 5_000_000));
}

#[test]
fn scripts_are_named_below_the_root_of_the_other_container() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("socket");
    let listener = UnixListener::bind(&path).unwrap();
    thread::spawn(move || {
        for mut stream in listener.incoming().map_while(Result::ok) {
            let mut request = vec![0; 4096];
            let Ok(count @ 1..) = stream.read(&mut request) else { continue };
            write(&mut stream, &[record(6, &[b"\r\n", &request[..count]].concat(), 0), end(0)].concat());
        }
    });
    // With a slash at the end, it is the same path.
    let svc = in_front_of(&[path], &[("FASTCGI_ROOT", "/app//public/")]);
    let seen = svc.get("/index.php/more").text();
    assert!(seen.contains("SCRIPT_FILENAME/app/public/index.php"), "{seen:?}");
    assert!(seen.contains("DOCUMENT_ROOT/app/public") && seen.contains("PATH_TRANSLATED/app/public/more"));
    assert!(seen.contains("SCRIPT_NAME/index.php"));
}

#[test]
fn settings_that_exclude_each_other_are_refused() {
    use svc_testing::command;
    let root = svc_testing::written(&[("index.php", "")]);
    for (settings, expected) in [
        (
            &[("WORKER_MODE_ENABLED", "true"), ("ENTRY_FILE", "index.php")][..],
            "WORKER_MODE_ENABLED: \"true\" requires",
        ),
        (&[("ASYNC_WORKERS", "2")], "ASYNC_WORKERS: \"2\" requires EXECUTOR=sapi"),
        (&[("RUNTIME_HOOKS", "sleep")], "RUNTIME_HOOKS: \"sleep\" requires"),
        (&[("SUPERGLOBALS_ENABLED", "false")], "SUPERGLOBALS_ENABLED: \"false\" requires"),
        (&[("PLUGINS", "apm")], "PLUGINS: \"apm\" requires"),
        (&[("FASTCGI_COMMAND", "php-none")], "FASTCGI_COMMAND: \"php-none\" is not an executable program"),
        (&[("FASTCGI_ADDR", "nowhere")], "FASTCGI_ADDR: \"nowhere\""),
        (&[("FASTCGI_ROOT", "app")], "FASTCGI_ROOT: \"app\" cannot be used (the path is relative)"),
        (
            &[("FASTCGI_ADDR", "unix:/s"), ("WORKER_MAX_REQUESTS", "5")],
            "WORKER_MAX_REQUESTS: \"5\" cannot be used",
        ),
        (
            &[("FASTCGI_ADDR", "unix:/s"), ("FASTCGI_COMMAND", "php-cgi")],
            "FASTCGI_COMMAND: \"php-cgi\" cannot be used",
        ),
        (
            &[("EXECUTOR", "stub"), ("FASTCGI_ROOT", "/a")],
            "FASTCGI_ROOT: \"/a\" has no effect without EXECUTOR=fastcgi",
        ),
    ] {
        let settings = [&[("EXECUTOR", "fastcgi")][..], settings].concat();
        let output = command(root.path(), &settings).stderr(std::process::Stdio::piped()).output().unwrap();
        let text = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{expected}: {text}");
        assert!(text.contains(expected), "{expected}: {text}");
    }
}
