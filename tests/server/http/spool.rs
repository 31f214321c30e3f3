//! Request and response bodies that do not fit into memory, through the real binary.

use svc_testing::Svc;
use svc_testing::client::eventually;

const MIB: usize = 1024 * 1024;

const DIGEST: &str = "<?php
$body = fopen('php://input', 'rb'); $hash = hash_init('crc32b'); $length = 0;
while (($piece = fread($body, 65536)) !== '' && $piece !== false) { hash_update($hash, $piece); $length += strlen($piece); }
echo $length, ' ', hash_final($hash), ' ', $_SERVER['CONTENT_LENGTH'] ?? 0;
";

const FLOOD: &str =
    "<?php for ($i = 0; $i < (int) $_GET['mib']; $i++) echo str_repeat(chr(65 + $i % 26), 1 << 20);";

/// Returns the peak of a process's resident memory, in KiB.
fn resident_peak_kib(svc: &Svc) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", svc.pid().as_raw_nonzero())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

/// Returns the CRC-32 in the format of PHP's `crc32b`.
fn crc32(bytes: &[u8]) -> String {
    let crc = bytes.iter().fold(u32::MAX, |crc, byte| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| (crc >> 1) ^ (0xedb8_8320 & 0u32.wrapping_sub(crc & 1)))
    });
    format!("{:08x}", !crc)
}

#[test]
fn large_bodies_arrive_whole_and_leave_nothing_behind() {
    let spool = tempfile::tempdir().unwrap();
    let svc = Svc::start(&[("digest.php", DIGEST)], &[("SPOOL_DIR", spool.path().to_str().unwrap())]);
    let mut client = svc.client();
    for size in [0, 1, 65_536, 65_537, 3 * MIB + 1] {
        let body: Vec<u8> = (0..size as u32).map(|place| (place * 7).to_le_bytes()[1]).collect();
        let expected = format!("{size} {} {size}", crc32(&body));
        assert_eq!(client.post("/digest.php", &body).text(), expected);
        client.send("POST /digest.php HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n");
        for piece in body.chunks(100_000) {
            client.send(format!("{:x}\r\n", piece.len()));
            client.send(piece);
            client.send("\r\n");
        }
        client.send("0\r\n\r\n");
        assert_eq!(client.response().text(), expected, "in chunks");
    }
    assert_eq!(std::fs::read_dir(spool.path()).unwrap().count(), 0);
    svc.assert_metric("svc_spool_bytes", 0.0);
}

#[test]
fn a_large_upload_uses_disk_and_not_memory() {
    let svc = Svc::start(&[("digest.php", DIGEST)], &[("MAX_BODY_BYTES", "200M")]);
    let mut client = svc.client();
    client.post("/digest.php", b"warm");
    let before = resident_peak_kib(&svc);
    client.send(format!("POST /digest.php HTTP/1.1\r\nHost: x\r\nContent-Length: {}\r\n\r\n", 150 * MIB));
    let piece = vec![0; MIB];
    for _ in 0..150 {
        client.send(&piece);
    }
    assert!(client.response().text().starts_with(&format!("{} ", 150 * MIB)));
    let grown = resident_peak_kib(&svc) - before;
    assert!(grown < 32 * 1024, "the server grew by {grown} KiB");
}

#[test]
fn a_slow_reader_holds_neither_worker_nor_memory() {
    let svc =
        Svc::start(&[("flood.php", FLOOD), ("index.php", "<?php echo 'hello';")], &[("PHP_WORKERS", "1")]);
    assert_eq!(svc.get("/flood.php?mib=1").body.len(), MIB);
    let before = resident_peak_kib(&svc);
    let mut slow = svc.client();
    slow.send("GET /flood.php?mib=100 HTTP/1.1\r\nHost: x\r\n\r\n");
    assert_eq!(slow.head_only().status, 200);
    assert_eq!(svc.get("/").text(), "hello", "the worker is held");
    assert!(svc.metric("svc_spool_bytes") > 50.0 * MIB as f64);
    let mut got = 0;
    while let Some(chunk) = slow.chunk().filter(|chunk| !chunk.is_empty()) {
        let letter = |at: usize| b'A' + u8::try_from(at / MIB % 26).unwrap();
        assert!(chunk.iter().enumerate().all(|(place, byte)| *byte == letter(got + place)), "near {got}");
        got += chunk.len();
    }
    assert_eq!(got, 100 * MIB);
    let grown = resident_peak_kib(&svc) - before;
    assert!(grown < 32 * 1024, "the server grew by {grown} KiB");
    eventually("the spool is empty", || svc.metric("svc_spool_bytes") == 0.0);
}

#[test]
fn a_reader_that_leaves_frees_disk_and_worker() {
    let settings = [("PHP_WORKERS", "1"), ("SPOOL_MAX_BYTES", "8M")];
    let svc = Svc::start(&[("flood.php", FLOOD), ("index.php", "<?php echo 'hello';")], &settings);
    let mut slow = svc.client();
    slow.send("GET /flood.php?mib=1000 HTTP/1.1\r\nHost: x\r\n\r\n");
    assert_eq!(slow.head_only().status, 200);
    drop(slow);
    assert_eq!(svc.get("/").text(), "hello");
    eventually("the spool is empty", || svc.metric("svc_spool_bytes") == 0.0);
    svc.assert_metric("svc_request_cancelled_total{reason=\"client_abort\"}", 0.0);
}
