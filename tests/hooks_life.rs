//! Calls that wait while clients leave, workers are replaced, and the server ends.
#![cfg(feature = "php")]

use rustix::process::Signal;

use crate::backend::{Backend, Visit};
use crate::hooked::{assert_serves, one_thread};
use crate::support::client::eventually;
use crate::tasks::{Mode, TaskServer};
use crate::waits::Pages;

#[test]
fn many_wait_and_the_thread_goes_on() {
    let pages = Pages::new();
    let server = one_thread(pages.server(""), "net").start(Mode::Worker);
    let mut clients: Vec<_> = (0..256).map(|n| server.send("by_file", &n.to_string())).collect();
    pages.plain.gate().wait_until_held(200);
    pages.plain.gate().open();
    for (n, client) in clients.iter_mut().enumerate() {
        assert_eq!(client.response().text(), format!("\"{n}\""));
    }
    assert_serves(&server);
}

#[test]
fn a_client_that_leaves_does_not_end_the_others() {
    let pages = Pages::new();
    let server = one_thread(pages.server(""), "net").start(Mode::Worker);
    let mut clients: Vec<_> = (0..8).map(|n| server.send("by_curl", &n.to_string())).collect();
    pages.plain.gate().wait_until_held(8);
    clients.drain(..4);
    server.svc.assert_metric(r#"svc_request_cancelled_total{reason="client_abort"}"#, 4.0);
    pages.plain.gate().open();
    for (client, n) in clients.iter_mut().zip(4..) {
        assert_eq!(client.response().text(), format!("\"{n}\""));
    }
    assert_serves(&server);
}

#[test]
fn workers_are_replaced_while_calls_wait() {
    let pages = Pages::new();
    let server = one_thread(pages.server(""), "net").start_with(Mode::Worker, "mark('boots');");
    let mut clients: Vec<_> = (0..8).map(|n| server.send("by_curl", &n.to_string())).collect();
    pages.plain.gate().wait_until_held(8);
    server.svc.signal(Signal::HUP);
    eventually("another one has booted", || server.lines("boots").len() == 2);
    pages.plain.gate().open();
    for (n, client) in clients.iter_mut().enumerate() {
        assert_eq!(client.response().text(), format!("\"{n}\""));
    }
    assert_serves(&server);
}

const FOREVER: &str = "function forever() { file_get_contents('http://' . HANGS . '/'); mark('went on'); }";

#[test]
fn the_deadline_of_a_drain_ends_waits() {
    let hangs = Backend::tcp(Visit::hang);
    let code = format!("const HANGS = '{}';\n{FOREVER}", hangs.address());
    let server = one_thread(TaskServer::new(&code), "net").set("DRAIN_TIMEOUT_SECONDS", "1");
    let mut server = server.start(Mode::Worker);
    let clients: Vec<_> = (0..8).map(|_| server.send("forever", "")).collect();
    eventually("all wait", || hangs.connected() == clients.len());
    server.svc.signal(Signal::TERM);
    for mut client in clients {
        client.rest();
    }
    assert!(server.svc.wait().is_some());
    assert!(!server.marked("went on"));
}
