//! Scripts that close every stream that they can name, among them the server's own: the server continues.

use svc_testing::Svc;
use svc_testing::client::Client;

pub(crate) const CLOSER: &str = r#"<?php
function close_all(): void
{
    foreach (['fclose', 'pclose', 'gzclose'] as $close) {
        foreach (get_resources('stream') as $stream) {
            try {
                @$close($stream);
            } catch (TypeError) {
                // Its outer stream has been closed.
            }
        }
    }
    // A use after free would read this.
    $GLOBALS['other'] = array_map(fn (int $size) => str_repeat('x', $size * 16), range(1, 60));
}
function body(): string
{
    return md5(file_get_contents('php://input'));
}
"#;

const CLASSIC: &str = r#"<?php
require __DIR__ . '/closer.php';
$own = fopen(__FILE__, 'r');
close_all();
echo json_encode([body(), body(), is_resource($own)]);
"#;

pub(crate) fn post(svc: &Svc, path: &str, kind: &str, size: usize) -> Client {
    let mut client = svc.client();
    let body = format!("a={}", "b".repeat(size));
    client.send(format!(
        "POST {path} HTTP/1.1\r\nHost: x\r\nContent-Type: {kind}\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    ));
    client
}

/// Bodies that PHP reads at the beginning of the request or on demand, in memory and on disk.
pub(crate) fn closes_all_and_reads(svc: &Svc, path: &str) {
    for (kind, size, sum) in [
        ("application/json", 1000, "\"0eb9fc87bcf22f0f5bb4e206c6b21778\""),
        ("application/x-www-form-urlencoded", 1000, "\"0eb9fc87bcf22f0f5bb4e206c6b21778\""),
        ("application/x-www-form-urlencoded", 3_000_000, "\"44629a34bdb8b75bcbff383b5cd5d320\""),
    ] {
        let response = post(svc, path, kind, size).response();
        assert_eq!(response.text(), format!("[{sum},{sum},false]"), "{kind} {size}");
    }
}

#[test]
fn a_script_cannot_close_its_own_file() {
    let mut svc = Svc::start(&[("all.php", CLASSIC), ("closer.php", CLOSER)], &[]);
    closes_all_and_reads(&svc, "/all.php");
    svc.stop();
}
