//! How `svc dev` is started: its addresses, its user, and an executor without PHP.

use std::process::Command;

use svc_testing::{Svc, binary, command, written};

use super::{start, visit};

const DOCUMENT: &str = "<!doctype html><title>t</title><p>page";

const FILES: [(&str, &str); 1] = [("page.html", DOCUMENT)];

#[test]
fn without_php_files_are_documents_too() {
    let root = written(&FILES);
    let mut command = command(root.path(), &[("EXECUTOR", "stub"), ("LOG_FORMAT", "json")]);
    command.arg("dev");
    let svc = Svc::spawn(root, command);
    assert!(visit(&svc, "/page.html").text().contains("<script data-revision="));
}

#[test]
fn a_public_address_and_another_user_are_refused() {
    let refused = |settings: &[(&str, &str)], words: &[&str]| {
        let root = written(&FILES);
        let mut command = command(root.path(), settings);
        let output = command.arg("dev").args(words).output().unwrap();
        assert_eq!(output.status.code(), Some(2));
        String::from_utf8(output.stderr).unwrap()
    };
    let public = refused(&[("LISTEN_ADDR", "0.0.0.0:0")], &[]);
    assert!(public.contains("LISTEN_ADDR") && public.contains("--host"), "{public}");
    assert!(refused(&[], &["--listen", ":0"]).contains("--host"));
    assert!(refused(&[("RUN_AS", "nobody")], &[]).contains("RUN_AS"));
    assert!(refused(&[], &["--host", "here"]).contains("--host"));
}

#[test]
fn an_option_makes_it_reachable() {
    let svc = start(&[("page.html", DOCUMENT)], &["--host", "0.0.0.0", "--port", "0"]);
    assert!(svc.main().ip().is_unspecified());
}

#[test]
fn a_port_in_use_is_replaced_by_the_next_free_one() {
    let holder = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = holder.local_addr().unwrap().port();
    let svc = start(&[("page.html", DOCUMENT)], &["--port", &port.to_string()]);
    assert!(svc.main().port() > port);
    assert_eq!(visit(&svc, "/page.html").status, 200);
}

#[test]
fn the_command_is_documented() {
    let help = Command::new(binary()).args(["help", "dev"]).output().unwrap();
    let help = String::from_utf8(help.stdout).unwrap();
    assert!(help.contains("--host ADDRESS") && help.contains("RUN_AS"), "{help}");
}
