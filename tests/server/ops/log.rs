//! The log of the real binary: its records, and that a slow reader of the log delays no request.

use std::io::Read;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use svc_testing::client::{Client, eventually};
use svc_testing::{Svc, command};

/// A server whose standard output is unread unless the test reads it. Dropping it kills the server.
pub(crate) struct Unread {
    child: Child,
    main: SocketAddr,
    ops: SocketAddr,
    _root: tempfile::TempDir,
}

impl Unread {
    /// Starts the server without PHP.
    pub(crate) fn start(settings: &[(&str, &str)]) -> Self {
        let root = tempfile::tempdir().unwrap();
        let (main, ops) = (free_port(), free_port());
        let child = command(root.path(), settings)
            .env("EXECUTOR", "stub")
            .env("LISTEN_ADDR", main.to_string())
            .env("INTERNAL_ADDR", ops.to_string())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        eventually("the server is ready", || {
            TcpStream::connect(ops).is_ok() && Client::connect(ops).get("/readyz").status == 200
        });
        Self { child, main, ops, _root: root }
    }

    /// Returns the address of the operations port.
    #[cfg(feature = "php")]
    pub(crate) fn ops(&self) -> SocketAddr {
        self.ops
    }

    /// Causes more records than the pipe and the queue hold together.
    pub(crate) fn flood(&self) {
        let mut client = Client::connect(self.main);
        for _ in 0..MANY / 100 {
            client.send("GET / HTTP/1.1\r\nHost: x\r\n\r\n".repeat(100));
            for _ in 0..100 {
                assert_eq!(client.response().status, 200);
            }
        }
    }

    fn dropped(&self) -> u64 {
        let page = Client::connect(self.ops).get("/metrics").text();
        let series = page.lines().find_map(|line| line.strip_prefix("svc_log_records_dropped_total "));
        series.unwrap().parse().unwrap()
    }

    /// Stops the server; returns its exit code.
    fn stop(&mut self) -> Option<i32> {
        kill_process(Pid::from_child(&self.child), Signal::TERM).unwrap();
        let mut status = None;
        eventually("the server ends", || {
            status = self.child.try_wait().unwrap();
            status.is_some()
        });
        status.and_then(|status| status.code())
    }

    /// Stops the server and reads its records.
    fn records(mut self) -> Vec<Value> {
        assert_eq!(self.stop(), Some(0));
        let mut text = String::new();
        self.child.stdout.take().unwrap().read_to_string(&mut text).unwrap();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }
}

impl Drop for Unread {
    fn drop(&mut self) {
        // The server may have exited already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Returns a port that was free a moment ago; the tests fail if another process takes it.
pub(crate) fn free_port() -> SocketAddr {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap()
}

/// More records than the pipe and the queue hold together.
const MANY: usize = 16_000;

#[test]
fn an_unread_log_blocks_no_request() {
    let mut svc = Unread::start(&[("ACCESS_LOG", "all")]);
    svc.flood();
    eventually("records are dropped and counted", || svc.dropped() > 0);
    assert_eq!(Client::connect(svc.ops).get("/readyz").status, 200);
    assert_eq!(svc.stop(), Some(0), "a blocked pipe does not hold the exit");
}

#[test]
fn access_records_obey_their_own_setting_at_every_level() {
    for (setting, expected) in [("all", &[200, 405][..]), ("error", &[405]), ("off", &[])] {
        let svc = Unread::start(&[("ACCESS_LOG", setting), ("LOG_LEVEL", "error")]);
        assert_eq!(Client::connect(svc.main).get("/").status, 200);
        assert_eq!(Client::connect(svc.main).request("TRACE / HTTP/1.1\r\nHost: x").status, 405);
        let records = svc.records();
        assert!(records.iter().all(|record| record["target"] == "access"), "{records:?}");
        let mut statuses: Vec<_> =
            records.iter().map(|record| record["fields"]["status"].as_u64().unwrap()).collect();
        // A response does not wait for its record, and connections have no order among them.
        statuses.sort_unstable();
        assert_eq!(statuses, expected, "{setting}");
    }
}

#[test]
fn an_access_record_tells_the_request_and_nothing_breaks_out_of_it() {
    let mut svc = Svc::start(&[("index.php", "<?php echo 'hello';")], &[("ACCESS_LOG", "all")]);
    let mut client = svc.client();
    client.request(
        "GET /index.php?token=secret HTTP/1.1\r\nHost: x\r\nUser-Agent: a\"},{\u{e9}\tb\r\nReferer: http://r/\r\n\
         X-Request-ID: my-id-1\r\nConnection: close",
    );
    svc.stop();
    eventually("the record is written", || !svc.log().of("access").is_empty());
    let record = svc.log().of("access").remove(0);
    let fields = &record["fields"];
    for (name, value) in [
        ("method", "GET"),
        ("path", "/index.php"),
        ("client", "127.0.0.1"),
        ("user_agent", "a\"},{\u{e9}\tb"),
        ("referer", "http://r/"),
        ("protocol", "HTTP/1.1"),
        ("request_id", "my-id-1"),
    ] {
        assert_eq!(fields[name], value, "{name} in {record}");
    }
    assert_eq!(
        (&fields["status"], &fields["bytes"], &fields["trace_id"]),
        (&200.into(), &5.into(), &Value::Null)
    );
    let duration = fields["duration_us"].as_u64().unwrap();
    assert!(fields["queue_wait_us"].as_u64().unwrap() <= duration, "{record}");
    let stamp = record["timestamp"].as_str().unwrap();
    assert!(stamp.len() == 27 && stamp.ends_with('Z'), "{stamp}");
    assert!(!record.to_string().contains("secret"));
}
