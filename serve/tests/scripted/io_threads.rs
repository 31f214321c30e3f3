//! Connections that move between I/O threads, over real sockets, unnoticed by clients.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::support::Site;
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore};
use svc_core::sync::load_sharing::HandoverOrder;
use svc_testing::authority::Authority;
use svc_testing::client::{Client, eventually};

/// Makes each of two threads hand over all its connections to the other.
fn swap(site: &Site, round: u32) {
    for (thread, to) in [(0, 1), (1, 0)] {
        site.shared().io_load.order(thread, HandoverOrder { round, to, share: HandoverOrder::WHOLE });
    }
}

#[test]
fn requests_on_connections_that_change_threads_are_answered() {
    let site = Site::start(&[("IO_WORKERS", "2")]);
    std::fs::write(site.root.path().join("note.txt"), "note").unwrap();
    let mut clients: Vec<_> = (0..6).map(|_| site.client()).collect();
    let mut multiplexed: Vec<_> = (0..2).map(|_| site.http2()).collect();
    let (mut busy, mut halfway) = (site.client(), site.client());
    busy.send("GET /wait/a HTTP/1.1\r\nHost: x\r\n\r\n");
    site.until_inside("a");
    halfway.send("GET /hello HTTP/1.1\r\nHo");
    for round in 1..=20 {
        swap(&site, round);
        for client in &mut clients {
            assert_eq!(client.get("/hello").text(), "hello");
            assert_eq!(client.post("/echo", b"abc").text(), "3 294");
            client.send("GET /note.txt HTTP/1.1\r\nHost: x\r\n\r\n".repeat(2));
            assert_eq!([client.response().text(), client.response().text()], ["note", "note"]);
        }
        for client in &mut multiplexed {
            let asked = [client.ask("/hello"), client.ask("/hello")];
            for id in asked {
                assert_eq!(client.response(id).text(), "hello");
            }
            assert_eq!(client.post("/echo", b"abc").text(), "3 294");
        }
    }
    // Each connection has come to rest in each round, except that the last one may not have been processed yet.
    let moved = site.metrics().io_handovers.value();
    assert!(moved >= 19 * 8, "{moved}");
    halfway.send("st: x\r\n\r\n");
    assert_eq!(halfway.response().text(), "hello");
    site.switches.open("a");
    assert_eq!(busy.response().text(), "a");
    assert_eq!(busy.get("/hello").text(), "hello");
    assert_eq!(site.metrics().connections.value(), 10);
    drop((clients, multiplexed, busy, halfway));
    site.check_books();
}

#[test]
fn sessions_of_tls_change_threads_with_their_connections() {
    let authority = Authority::new();
    let [ca, cert, key] = authority.files();
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(&ca).unwrap()).unwrap();
    let config = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let (config, name) = (Arc::new(config), ServerName::try_from("127.0.0.1").unwrap());
    let site = Site::start(&[("IO_WORKERS", "2"), ("TLS_CERT", &cert), ("TLS_KEY", &key)]);
    let connect = || {
        let session = ClientConnection::new(Arc::clone(&config), name.clone()).unwrap();
        Client::connect_tls(site.addr(), session)
    };
    let mut clients: Vec<_> = (0..4).map(|_| connect()).collect();
    for round in 1..=20 {
        swap(&site, round);
        for client in &mut clients {
            assert_eq!(client.get("/hello").text(), "hello");
            assert_eq!(client.get("/flood/100000").body.len(), 100_000);
        }
    }
    let moved = site.metrics().io_handovers.value();
    assert!(moved >= 19 * 4, "{moved}");
    drop(clients);
    site.check_books();
}

/// Sends another request, unless the server has closed the connection; returns whether there was a response.
fn is_answered(socket: &mut TcpStream) -> bool {
    let mut answer = Vec::new();
    let mut buf = [0; 4096];
    if socket.write_all(b"GET /hello HTTP/1.1\r\nHost: x\r\n\r\n").is_err() {
        return false;
    }
    while !answer.ends_with(b"\r\n\r\nhello") {
        match socket.read(&mut buf) {
            Ok(count @ 1..) => answer.extend_from_slice(&buf[..count]),
            _ => return false,
        }
    }
    answer.starts_with(b"HTTP/1.1 200 ")
}

#[test]
fn a_drain_ends_connections_wherever_they_are() {
    let mut site = Site::start(&[("IO_WORKERS", "2")]);
    let answers: Arc<[_]> = (0..20).map(|_| AtomicUsize::new(0)).collect();
    let asking: Vec<_> = (0..answers.len())
        .map(|client| {
            let (answers, mut socket) = (Arc::clone(&answers), TcpStream::connect(site.addr()).unwrap());
            std::thread::spawn(move || {
                while is_answered(&mut socket) {
                    answers[client].fetch_add(1, Ordering::Relaxed);
                }
            })
        })
        .collect();
    let mut round = 0;
    // A connection may change threads several times between two requests.
    eventually("connections change threads, and requests on each are answered", || {
        round += 1;
        swap(&site, round);
        let is_served = answers.iter().all(|answers| answers.load(Ordering::Relaxed) > 5);
        is_served && site.metrics().io_handovers.value() > 100
    });
    site.drain();
    assert!(site.wait(), "threads are left");
    for thread in asking {
        thread.join().unwrap();
    }
    assert_eq!(site.metrics().connections.value(), 0);
    site.check_books();
}

#[test]
fn a_number_that_was_set_is_in_use_from_the_start() {
    let site = Site::start(&[("IO_WORKERS", "3")]);
    assert_eq!(site.shared().io_load.in_use(), 3);
    let site = Site::start(&[]);
    assert_eq!(site.shared().io_load.in_use(), 1);
}
