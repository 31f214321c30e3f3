//! An I/O thread serves its connections in turns, whose effort is limited.

use std::fs;

use rustix::process::Signal;
use svc_testing::Svc;
use svc_testing::client::eventually;

/// Stops the server while `act` sends this many bytes to it, so that all of them are there when it goes on.
fn while_stopped(svc: &Svc, bytes: usize, act: impl FnOnce()) {
    svc.signal(Signal::STOP);
    eventually("all threads have stopped", || {
        let mut threads = fs::read_dir(format!("/proc/{}/task", svc.pid().as_raw_nonzero())).unwrap();
        threads.all(|thread| {
            let status = fs::read_to_string(thread.unwrap().path().join("status")).unwrap();
            status.contains("State:\tT")
        })
    });
    act();
    eventually("the requests have arrived", || unread_bytes(svc.main().port()) == bytes);
    svc.signal(Signal::CONT);
}

/// Returns how many bytes the connections to this port have received and not read.
fn unread_bytes(port: u16) -> usize {
    let table = fs::read_to_string("/proc/net/tcp").unwrap();
    let here = format!(":{port:04X}");
    let unread = |line: &str| {
        let words: Vec<_> = line.split_whitespace().collect();
        let [_, local, _, ESTABLISHED, queues, ..] = words[..] else { return 0 };
        let (_, received) = queues.split_once(':').unwrap();
        if local.ends_with(&here) { usize::from_str_radix(received, 16).unwrap() } else { 0 }
    };
    table.lines().map(unread).sum()
}

const ESTABLISHED: &str = "01";

#[test]
fn a_client_that_pipelines_ranges_delays_others_by_one_turn() {
    const PIPELINED: usize = 24;
    const OTHERS: usize = 8;
    let svc = Svc::start(&[("a.txt", "a")], &[("IO_WORKERS", "1"), ("ACCESS_LOG", "all")]);
    // Each part of a file that is not cached in memory is written separately.
    fs::write(svc.root().join("long.bin"), vec![b'x'; 2 << 20]).unwrap();
    let ranges: Vec<_> = (0..64).map(|part| part * 32_768).map(|at| format!("{at}-{}", at + 9)).collect();
    let expensive = format!("GET /long.bin HTTP/1.1\r\nHost: x\r\nRange: bytes={}\r\n\r\n", ranges.join(","));
    let cheap = "GET /a.txt HTTP/1.1\r\nHost: x\r\n\r\n";
    let (mut busy, mut others) = (svc.client(), [(); OTHERS].map(|()| svc.client()));
    // The files are open, and the thread knows all connections.
    busy.send(&expensive);
    assert_eq!(busy.response().status, 206);
    others.iter_mut().for_each(|other| assert_eq!(other.get("/a.txt").text(), "a"));
    eventually("they are logged", || svc.log().of("access").len() == 1 + OTHERS);
    while_stopped(&svc, PIPELINED * expensive.len() + OTHERS * cheap.len(), || {
        busy.send(expensive.repeat(PIPELINED));
        others.iter_mut().for_each(|other| other.send(cheap));
    });
    for _ in 0..PIPELINED {
        let response = busy.response();
        assert!(response.status == 206 && response.is_whole, "{}", response.text());
        assert_eq!(response.text().matches("xxxxxxxxxx").count(), ranges.len());
    }
    others.iter_mut().for_each(|other| assert_eq!(other.response().text(), "a"));
    eventually("they are logged", || svc.log().of("access").len() == 1 + OTHERS + PIPELINED + OTHERS);
    let records = svc.log().of("access").split_off(1 + OTHERS);
    let answered: Vec<_> = records.iter().map(|record| record["fields"]["path"].as_str().unwrap()).collect();
    let last = answered.iter().rposition(|path| *path == "/a.txt").unwrap();
    let before = answered[..last].iter().filter(|path| **path == "/long.bin").count();
    // A turn ends at 64 writes, and each of these responses takes twice as many.
    assert!(before <= 1, "{before} of {PIPELINED} came first: {answered:?}");
}
