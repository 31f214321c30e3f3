//! The life of the process: messages of a failed start, the drain, and exit codes.

use std::net::TcpListener;
use std::process::Stdio;

use rustix::process::Signal;
use svc_testing::client::{Client, eventually};
use svc_testing::descriptors::limited_to;
use svc_testing::{Svc, command, written};

/// A script that answers when a file appears beside it.
const WAITING: &str = r#"<?php
set_time_limit(0);
touch(__DIR__ . '/inside');
while (!file_exists(__DIR__ . '/go')) { usleep(2000); clearstatcache(); }
echo 'done';
"#;

/// Starts a request to the waiting script and waits until it runs.
fn begin_waiting(svc: &Svc) -> Client {
    let mut client = svc.client();
    client.send("GET /wait.php HTTP/1.1\r\nHost: x\r\n\r\n");
    eventually("the script runs", || svc.root().join("inside").exists());
    client
}

#[test]
fn a_signal_ends_an_idle_server_with_exit_code_0() {
    for signal in [Signal::TERM, Signal::INT, Signal::QUIT] {
        let mut svc = Svc::start(&[("index.php", "<?php echo 'hello';")], &[]);
        let mut idle = svc.client();
        assert_eq!(idle.get("/").text(), "hello");
        svc.signal(signal);
        idle.expect_end();
        assert_eq!(svc.wait(), Some(0));
        svc.log().expect("svc has stopped");
    }
}

#[test]
fn a_drain_answers_running_requests_and_probes_report_it() {
    let mut svc = Svc::start(&[("wait.php", WAITING)], &[]);
    assert_eq!(svc.ask("/readyz").status, 200);
    let mut running = begin_waiting(&svc);
    svc.signal(Signal::TERM);
    eventually("readiness says no", || svc.ask("/readyz").status == 503);
    assert_eq!(svc.ask("/healthz").status, 200);
    eventually("the listener is closed", || std::net::TcpStream::connect(svc.main()).is_err());
    std::fs::write(svc.root().join("go"), "").unwrap();
    let response = running.response();
    assert_eq!((response.text().as_str(), response.field("connection")), ("done", Some("close")));
    assert_eq!(svc.wait(), Some(0));
}

#[test]
fn during_the_drain_delay_requests_are_served_and_readiness_fails() {
    let mut svc = Svc::start(&[("index.php", "<?php echo 'hello';")], &[("DRAIN_DELAY_SECONDS", "10")]);
    let mut kept = svc.client();
    assert_eq!(kept.get("/").status, 200);
    svc.signal(Signal::TERM);
    eventually("readiness says no", || svc.ask("/readyz").status == 503);
    assert_eq!(kept.get("/").text(), "hello");
    assert_eq!(svc.get("/").text(), "hello");
    assert_eq!(svc.wait(), Some(0));
}

#[test]
fn the_drain_deadline_cuts_a_script_off() {
    let mut svc = Svc::start(&[("wait.php", WAITING)], &[("DRAIN_TIMEOUT_SECONDS", "1")]);
    let mut running = begin_waiting(&svc);
    svc.signal(Signal::TERM);
    assert_eq!(running.response().status, 503);
    assert_eq!(svc.wait(), Some(0));
    let record = svc.log().expect("drain deadline passed; remaining requests were aborted");
    assert_eq!(record["fields"]["cut_off"], 1);
}

#[test]
fn a_second_signal_ends_the_process_at_once_with_exit_code_1() {
    let mut svc = Svc::start(&[("wait.php", WAITING)], &[]);
    let _running = begin_waiting(&svc);
    svc.signal(Signal::TERM);
    eventually("the drain has begun", || svc.ask("/readyz").status == 503);
    svc.signal(Signal::TERM);
    assert_eq!(svc.wait(), Some(1));
}

#[test]
fn a_hang_up_signal_does_not_end_the_server() {
    let mut svc = Svc::start(&[("index.php", "<?php echo 'hello';")], &[]);
    svc.signal(Signal::HUP);
    assert_eq!(svc.get("/").text(), "hello");
    svc.stop();
}

#[test]
fn a_port_that_is_taken_is_one_line_and_exit_code_1() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let addr = taken.local_addr().unwrap().to_string();
    let root = tempfile::tempdir().unwrap();
    for variable in ["LISTEN_ADDR", "INTERNAL_ADDR"] {
        let output = command(root.path(), &[(variable, addr.as_str())]).output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert_eq!(said.lines().count(), 1, "{said}");
        assert!(said.contains(&format!("{variable}: cannot listen on {addr}")), "{said}");
    }
}

#[test]
fn too_few_descriptors_are_one_line_and_exit_code_2() {
    let root = tempfile::tempdir().unwrap();
    let settings = [("MAX_CONNECTIONS", "1000000")];
    let mut command = limited_to(4096, &command(root.path(), &settings));
    let output = command.stdout(Stdio::null()).output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert_eq!(said.lines().count(), 1, "{said}");
    assert!(said.contains("MAX_CONNECTIONS: 1000000 requires"), "{said}");
}

#[test]
fn a_limit_without_room_for_connections_is_an_error_with_the_minimum() {
    let root = tempfile::tempdir().unwrap();
    // Without the setting, a single connection would be enough.
    for (settings, needed) in [(&[("MAX_CONNECTIONS", "10")][..], 778), (&[], 769)] {
        let mut command = limited_to(500, &command(root.path(), settings));
        let output = command.stdout(Stdio::null()).output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{said}");
        let expected = format!("the limit is 500; accepted: a limit of at least {needed} (ulimit -Hn)");
        assert!(said.contains(&expected), "{said}");
    }
}

#[test]
fn the_usual_limit_of_1024_descriptors_is_enough_for_a_server() {
    let files = [("index.php", "<?php echo 'hello';"), ("a.txt", "static")];
    let root = written(&files);
    // The last connections are silent while the others are served.
    let limited = limited_to(1024, &command(root.path(), &[("HEADER_TIMEOUT_SECONDS", "600")]));
    let mut svc = Svc::spawn(root, limited);
    let warning = svc.log().expect("MAX_CONNECTIONS is reduced to what the limit of file descriptors allows");
    assert_eq!(
        (&warning["fields"]["max_connections"], &warning["fields"]["limit"]),
        (&256.into(), &1024.into())
    );
    // All permits are taken, and each connection gets its response.
    let mut clients: Vec<Client> = (0..256).map(|_| svc.client()).collect();
    eventually("all connections are open", || svc.metric("svc_active_connections") == 256.0);
    for client in &mut clients {
        assert_eq!(client.get("/").text(), "hello");
        assert_eq!(client.get("/a.txt").text(), "static");
    }
    drop(clients);
    svc.signal(Signal::TERM);
    assert_eq!(svc.wait(), Some(0));
}

#[test]
fn a_spool_directory_that_cannot_be_written_is_one_line_and_exit_code_2() {
    let root = tempfile::tempdir().unwrap();
    // A directory in which no user can create files.
    let output = command(root.path(), &[("SPOOL_DIR", "/proc")]).stdout(Stdio::null()).output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert_eq!(said.lines().count(), 1, "{said}");
    assert!(said.contains("SPOOL_DIR: \"/proc\": cannot write to the spool directory: "), "{said}");
    assert!(said.contains("; accepted: a writable directory"), "{said}");
}
