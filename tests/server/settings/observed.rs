//! Observations for the tests of the settings: threads, descriptors, codings, handshakes, a whole run of a server.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::Stdio;

use rustix::process::{Pid, Signal, kill_process};
use rustls::version::TLS12;

use svc_testing::Svc;
use svc_testing::client::{Client, eventually};
use svc_testing::tls::{Certificates, session};

/// Occupies the only worker with one request, and queues this many more behind it.
pub(super) fn occupy(svc: &Svc, waiting: usize) -> Vec<Client> {
    let mut clients = Vec::new();
    for count in 0..=waiting {
        let mut client = svc.client();
        client.send("GET /sleep.php?ms=600000 HTTP/1.1\r\nHost: x\r\n\r\n");
        clients.push(client);
        eventually("it is in", || {
            svc.metric("svc_busy_workers") == 1.0 && svc.metric("svc_pending_requests") == (count + 1) as f64
        });
    }
    clients
}

/// Asserts that level 0 disables the coding, for scripts and files alike.
pub(super) fn withdraws(variable: &str, coding: &str) {
    let page = "<p>hello, hello, hello</p>\n".repeat(200);
    let script = format!("<?php echo '{page}';");
    let head = |path: &str| format!("GET {path} HTTP/1.1\r\nHost: x\r\nAccept-Encoding: {coding}");
    for (level, offers) in [("1", Some(coding)), ("0", None)] {
        let svc = Svc::start(&[("page.php", &script), ("page.html", &page)], &[(variable, level)]);
        let response = svc.client().request(&head("/page.php"));
        assert_eq!(response.field("content-encoding"), offers, "{variable}={level}");
        let of_file =
            || svc.client().request(&head("/page.html")).field("content-encoding").map(str::to_owned);
        match offers {
            Some(coding) => {
                eventually("the file's coded copy is made", || of_file().as_deref() == Some(coding));
            }
            None => assert_eq!(of_file(), None),
        }
    }
}

/// Returns the number of the server's threads whose names have this prefix.
pub(super) fn threads(svc: &Svc, name: &str) -> usize {
    let folder = format!("/proc/{}/task", svc.pid().as_raw_nonzero());
    let names = std::fs::read_dir(folder)
        .unwrap()
        .map(|task| std::fs::read_to_string(task.unwrap().path().join("comm")).unwrap_or_default());
    names.filter(|comm| comm.starts_with(name)).count()
}

/// Returns the number of the server's open files in this folder.
pub(super) fn open_files(svc: &Svc, folder: &str) -> usize {
    let descriptors = std::fs::read_dir(format!("/proc/{}/fd", svc.pid().as_raw_nonzero())).unwrap();
    let targets = descriptors.filter_map(|entry| std::fs::read_link(entry.ok()?.path()).ok());
    targets.filter(|target| target.starts_with(folder)).count()
}

/// Returns whether a client that supports at most TLS 1.2 completes its handshake.
pub(super) fn speaks_tls12(certificates: &Certificates, addr: SocketAddr) -> bool {
    let mut session = session(&certificates.trust(&[], &[&TLS12]), "a.test");
    let mut socket = TcpStream::connect(addr).unwrap();
    session.complete_io(&mut socket).is_ok()
}

/// Starts a server, sends one request, stops the server; returns its log.
pub(super) fn log_of_a_life(settings: &[(&str, &str)]) -> String {
    let root = tempfile::tempdir().unwrap();
    let addr = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    let settings = [settings, &[("LISTEN_ADDR", addr.as_str())]].concat();
    let mut child = svc_testing::command(root.path(), &settings).stdout(Stdio::piped()).spawn().unwrap();
    eventually("it answers", || {
        let Ok(mut socket) = TcpStream::connect(&addr) else { return false };
        let mut answer = String::new();
        socket.write_all(b"GET / HTTP/1.0\r\n\r\n").is_ok()
            && socket.read_to_string(&mut answer).is_ok()
            && answer.starts_with("HTTP/1.1 404")
    });
    kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
    let mut log = String::new();
    child.stdout.take().unwrap().read_to_string(&mut log).unwrap();
    child.wait().unwrap();
    log
}
