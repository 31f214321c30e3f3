//! The cost of clients that do not read, or delay their requests: the resident memory of the process, compared with its own
//! metrics and with the formula of `docs/tuning.md`.
#![cfg(feature = "php")]

use std::fs::File;

use rustls::version::TLS13;

use crate::http::tls::{NAME, start};
use svc_testing::Svc;
use svc_testing::client::{Client, eventually};
use svc_testing::http2::{
    END_HEADERS, END_STREAM, Http2Client, PREFACE, block, code, frame, head, kind, setting,
};
use svc_testing::tls::{Certificates, session};

const FILE_BYTES: u64 = 256 << 20;

/// The formula's bytes per connection and per stream, beside the counted bytes.
const CONNECTION_BYTES: u64 = 48 << 10;
const STREAM_BYTES: u64 = 8 << 10;

/// Memory that the allocator keeps, and memory of threads that began meanwhile.
const SLACK_BYTES: u64 = 12 << 20;

/// Memory that is not returned after a peak.
const KEPT_BYTES: u64 = SLACK_BYTES + (8 << 20);

const COUNTED: &str = "svc_reply_memory_bytes";

fn resident(svc: &Svc) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", svc.pid().as_raw_nonzero())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() << 10
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a number of bytes")]
fn counted(svc: &Svc) -> u64 {
    svc.metric(COUNTED) as u64
}

/// Creates a file in the root that is longer than any buffer.
fn add_file(svc: &Svc) {
    File::create(svc.root().join("long.bin")).unwrap().set_len(FILE_BYTES).unwrap();
    svc.client().request("HEAD /long.bin HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
}

/// Waits until all `requests` have begun and the state is stable, and compares the memory with the formula. Then the
/// clients leave, and the memory is returned.
fn check<C>(svc: &Svc, before: u64, clients: Vec<C>, streams: u64, expected: std::ops::RangeInclusive<u64>) {
    let connections = clients.len() as u64;
    let (mut last, mut same) = (u64::MAX, 0);
    eventually("nothing changes any more", || {
        let now = counted(svc);
        same = if now == last && expected.contains(&now) { same + 1 } else { 0 };
        last = now;
        same >= 20
    });
    let most = before + last + connections * CONNECTION_BYTES + streams * STREAM_BYTES + SLACK_BYTES;
    let held = resident(svc);
    assert!(
        held <= most,
        "{} MiB, and {} MiB are {} MiB too much",
        before >> 20,
        held >> 20,
        (held - most) >> 20
    );
    drop(clients);
    eventually("it is all given back", || counted(svc) == 0);
    eventually("the system has it", || resident(svc) <= before + KEPT_BYTES);
}

/// Opens HTTP/2 connections that request the file on all their streams, with windows for all of it, and read nothing.
fn http2_clients(svc: &Svc, count: usize, field: Option<(&str, &str)>) -> Vec<Http2Client> {
    let wide = &[(setting::INITIAL_WINDOW_SIZE, i32::MAX as u32)];
    let ask = |_| {
        let mut client = Http2Client::connect_with(svc.main(), wide);
        client.widen(0, i32::MAX as u32 - 65_535);
        for _ in 0..128 {
            let mut fields = head("GET", "/long.bin");
            fields.extend(field);
            client.open(&fields, true);
        }
        client
    };
    (0..count).map(ask).collect()
}

fn http1(client: Client, field: &str) -> Client {
    let mut client = client;
    client.send(format!("GET /long.bin HTTP/1.1\r\nHost: {NAME}\r\n{field}\r\n"));
    client
}

#[test]
fn streams_whose_client_does_not_read_share_the_room_of_their_connection() {
    let svc = Svc::start(&[("a.txt", "a")], &[("PHP_WORKERS", "1")]);
    add_file(&svc);
    for field in [None, Some(("range", "bytes=7-")), Some(("range", "bytes=0-9,100-,200000-"))] {
        let before = resident(&svc);
        let clients = http2_clients(&svc, 70, field);
        check(&svc, before, clients, 70 * 128, 70 * (64 << 10)..=70 * (600 << 10));
    }
}

#[test]
fn tls_connections_whose_client_does_not_read_hold_a_slice() {
    let certificates = Certificates::new(&[&[NAME]]);
    let svc = start(&certificates, 1, &[("a.txt", "a")], &[("PHP_WORKERS", "1")]);
    File::create(svc.root().join("long.bin")).unwrap().set_len(FILE_BYTES).unwrap();
    certificates.client(svc.main(), NAME).get("/a.txt");
    for field in ["", "Range: bytes=7-\r\n", "Range: bytes=0-9,100-,200000-\r\n"] {
        let before = resident(&svc);
        let clients: Vec<_> = (0..100).map(|_| http1(certificates.client(svc.main(), NAME), field)).collect();
        check(&svc, before, clients, 100, 100 * (4 << 10)..=100 * (160 << 10));
    }
}

/// Opens an HTTP/2 connection with TLS like those of [`http2_clients`].
fn http2_with_tls(svc: &Svc, certificates: &Certificates, field: Option<(&str, &str)>) -> Client {
    let wide = i32::MAX as u32;
    let settings = [&setting::INITIAL_WINDOW_SIZE.to_be_bytes()[..], &wide.to_be_bytes()].concat();
    let mut fields = head("GET", "/long.bin");
    (fields[1].1, fields[2].1) = ("https", NAME);
    fields.extend(field);
    let mut bytes = [
        PREFACE,
        &frame(kind::SETTINGS, 0, 0, &settings),
        &frame(kind::WINDOW_UPDATE, 0, 0, &(wide - 65_535).to_be_bytes()),
    ]
    .concat();
    for id in (1..).step_by(2).take(128) {
        bytes.extend(frame(kind::HEADERS, END_HEADERS | END_STREAM, id, &block(&fields)));
    }
    let mut client = Client::connect_tls(svc.main(), session(&certificates.trust(&["h2"], &[&TLS13]), NAME));
    client.send(bytes);
    assert_eq!(client.session().alpn_protocol(), Some(&b"h2"[..]));
    client
}

#[test]
fn streams_whose_client_does_not_read_share_the_room_of_their_connection_with_tls() {
    let certificates = Certificates::new(&[&[NAME]]);
    let svc = start(&certificates, 1, &[("a.txt", "a")], &[("PHP_WORKERS", "1")]);
    File::create(svc.root().join("long.bin")).unwrap().set_len(FILE_BYTES).unwrap();
    certificates.client(svc.main(), NAME).get("/a.txt");
    for field in [None, Some(("range", "bytes=7-")), Some(("range", "bytes=0-9,100-,200000-"))] {
        let before = resident(&svc);
        let clients: Vec<_> = (0..70).map(|_| http2_with_tls(&svc, &certificates, field)).collect();
        check(&svc, before, clients, 70 * 128, 70 * (64 << 10)..=70 * (512 << 10));
    }
}

#[test]
fn plain_connections_whose_client_does_not_read_hold_nothing_of_a_file() {
    let svc = Svc::start(&[("a.txt", "a")], &[("PHP_WORKERS", "1")]);
    add_file(&svc);
    for field in ["", "Range: bytes=7-\r\n", "Range: bytes=0-9,100-,200000-\r\n"] {
        let before = resident(&svc);
        let clients: Vec<_> = (0..100).map(|_| http1(svc.client(), field)).collect();
        check(&svc, before, clients, 100, 0..=0);
    }
}

#[test]
fn heads_that_refer_to_earlier_fields_are_within_the_bound_of_all_replies() {
    let svc = Svc::start(&[("index.php", "<?php echo 'a';")], &[("PHP_WORKERS", "1")]);
    assert_eq!(Http2Client::connect(svc.main()).get("/").text(), "a");
    let before = resident(&svc);
    let fields = head("POST", "/index.php");
    let begin = |client: &mut Http2Client, more: &[u8]| {
        let id = client.next_id();
        let block = [&svc_testing::http2::block(&fields)[..], more].concat();
        client.frame(kind::HEADERS, END_HEADERS, id, &block);
        id
    };
    // A field of 4,000 bytes in the dynamic table, and references to it; the body does not arrive.
    let first = [&[0x40, 3][..], b"x-a", &[0x7f, 0xa1, 0x1e], &[b'a'; 4000], &[0xbe; 13]].concat();
    let mut clients = Vec::new();
    while svc.metric("svc_streams_refused_total") == 0.0 {
        let mut client = Http2Client::connect(svc.main());
        begin(&mut client, &first);
        (1..128).for_each(|_| {
            begin(&mut client, &[0xbe; 14]);
        });
        client.ping();
        clients.push(client);
        assert!(clients.len() < 100, "{} MiB, and no stream is refused", resident(&svc) >> 20);
    }
    let limit = counted(&svc);
    assert!(limit <= 128 << 20, "{limit} bytes");
    let most = before + limit + 128 * clients.len() as u64 * STREAM_BYTES + SLACK_BYTES;
    assert!(resident(&svc) <= most, "{} MiB", resident(&svc) >> 20);
    // Refused requests can be repeated, and short heads are served regardless.
    let client = clients.last_mut().unwrap();
    let refused = begin(client, &[0xbe; 14]);
    client.until_over(refused);
    assert_eq!(client.heard(refused).reset, Some(code::REFUSED_STREAM));
    assert_eq!(Http2Client::connect(svc.main()).get("/").text(), "a");
    assert_eq!(svc.get("/").text(), "a");
    drop(clients);
    eventually("it is all given back", || counted(&svc) == 0);
    eventually("the system has it", || resident(&svc) <= before + KEPT_BYTES);
}
