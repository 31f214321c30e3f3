//! `RUN_AS`: a server that root starts keeps only the resources that it holds already, but none of root's rights.
#![cfg(feature = "php")]

use std::os::unix::fs::PermissionsExt;
use std::process::Stdio;

use rustix::process::Signal;

use svc_testing::Svc;
use svc_testing::tls::Certificates;

/// Returns whether this process may become another user; reports a skip if it may not.
fn may_change() -> bool {
    let may = rustix::process::geteuid().is_root();
    if !may {
        svc_testing::skip::skipped("only root can become another user");
    }
    may
}

#[test]
fn an_unknown_user_or_group_stops_the_start_and_the_check() {
    let root = tempfile::tempdir().unwrap();
    for (value, why) in [
        ("nobody-here", "there is no user \"nobody-here\""),
        ("nobody:nowhere", "there is no group \"nowhere\""),
        ("root", "the superuser has all privileges"),
    ] {
        for word in ["serve", "check"] {
            let mut command = svc_testing::command(root.path(), &[("RUN_AS", value)]);
            let output = command.arg(word).stdout(Stdio::null()).output().unwrap();
            let said = String::from_utf8(output.stderr).unwrap();
            assert_eq!(output.status.code(), Some(2), "{said}");
            assert!(
                said.starts_with(&format!("svc: error: RUN_AS: {value:?} cannot be used ({why})")),
                "{said}"
            );
            assert_eq!(said.lines().count(), 1, "{said}");
        }
    }
}

#[cfg(feature = "async")]
#[test]
fn every_thread_is_the_users() {
    if !may_change() {
        return;
    }
    let svc = Svc::start(&[], &[("RUN_AS", "nobody"), ("ASYNC_WORKERS", "1")]);
    let tasks = std::fs::read_dir(format!("/proc/{}/task", svc.pid().as_raw_nonzero())).unwrap();
    let mut count = 0;
    for task in tasks {
        let Ok(status) = std::fs::read_to_string(task.unwrap().path().join("status")) else { continue };
        for (name, value) in [("Uid", "65534\t65534\t65534\t65534"), ("Gid", "65534\t65534\t65534\t65534")] {
            assert!(status.contains(&format!("{name}:\t{value}\n")), "{status}");
        }
        for name in ["CapPrm", "CapEff", "CapAmb"] {
            assert!(status.contains(&format!("{name}:\t0000000000000000\n")), "{status}");
        }
        count += 1;
    }
    assert!(count > 5, "{count}");
    // The operations port reads the process's own files in /proc.
    assert!(svc.metric("process_open_fds") > 0.0);
    assert!(svc.metric("process_resident_memory_bytes") > 0.0);
}

#[test]
fn scripts_have_the_users_home_and_cannot_read_the_servers_memory() {
    if !may_change() {
        return;
    }
    let page = "<?php echo getenv('USER'), ' ', getenv('HOME') === '/root' ? 'root' : 'own', ' ',
        @file_get_contents('/proc/self/mem', length: 1) === false ? 'no' : 'memory';";
    let root = svc_testing::written(&[("index.php", page)]);
    crate::process::install::open_to_all(root.path());
    let svc = Svc::start_in(root, &[("RUN_AS", "nobody"), ("HOME", "/root")]);
    assert_eq!(svc.get("/").text(), "nobody own no");
}

#[test]
fn a_key_that_only_root_reads_serves_and_its_reload_fails_as_foretold() {
    if !may_change() {
        return;
    }
    let certificates = Certificates::new(&[&["localhost"]]);
    std::fs::set_permissions(certificates.key(0), std::fs::Permissions::from_mode(0o600)).unwrap();
    let settings = certificates.settings(1);
    let mut all: Vec<(&str, &str)> = settings.iter().map(|(name, value)| (*name, value.as_str())).collect();
    all.push(("RUN_AS", "nobody"));
    let svc = Svc::start(&[], &all);
    svc.log().expect(
        "the user of RUN_AS cannot read this file: a reload on SIGHUP will fail and keep the present certificates",
    );
    svc.signal(Signal::HUP);
    let failed = svc.log().expect("reload failed; the previous state stays in effect");
    assert!(failed["fields"]["error"].as_str().unwrap().contains("Permission denied"), "{failed}");
    assert_eq!(certificates.client(svc.main(), "localhost").get("/").status, 404);
}
