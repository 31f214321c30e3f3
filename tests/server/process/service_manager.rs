//! The server as a service manager sees it: the notifications of its start, its life, its reloads and its end. The unit
//! file is compared with them.
#![cfg(feature = "php")]

use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::process::{Command, Stdio};
use std::time::Duration;

use rustix::process::Signal;
use svc_core::config::{Config, RawConfig};
use tempfile::TempDir;

use svc_testing::Svc;
use svc_testing::client::eventually;

/// Longer than any step takes; a missing message fails the test.
const PATIENCE: Duration = Duration::from_secs(120);

/// The other end of `NOTIFY_SOCKET`.
struct Manager {
    socket: UnixDatagram,
    name: String,
    _dir: TempDir,
}

impl Manager {
    fn at_a_path() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("notify");
        Self::on(UnixDatagram::bind(&path).unwrap(), path.to_str().unwrap().to_owned(), dir)
    }

    fn at_an_abstract_name() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let name = format!("svc-test{}", dir.path().display());
        let address = SocketAddr::from_abstract_name(&name).unwrap();
        Self::on(UnixDatagram::bind_addr(&address).unwrap(), format!("@{name}"), dir)
    }

    fn on(socket: UnixDatagram, name: String, dir: TempDir) -> Self {
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        Self { socket, name, _dir: dir }
    }

    /// Waits for a message with this assignment; returns it.
    #[track_caller]
    fn expect(&self, assignment: &str) -> String {
        self.until(assignment).pop().unwrap()
    }

    /// Waits for a message with this assignment; returns all messages up to it.
    #[track_caller]
    fn until(&self, assignment: &str) -> Vec<String> {
        let mut message = vec![0; 4096];
        let mut seen = Vec::new();
        loop {
            let Ok(length) = self.socket.recv(&mut message) else { panic!("no {assignment} in {seen:#?}") };
            let text = String::from_utf8(message[..length].to_vec()).unwrap();
            let is_found = text.lines().any(|line| line == assignment);
            seen.push(text);
            if is_found {
                return seen;
            }
        }
    }
}

#[cfg(feature = "worker")]
impl Manager {
    /// Asserts that no received message has this assignment.
    #[track_caller]
    fn expect_none(&self, assignment: &str) {
        self.socket.set_nonblocking(true).unwrap();
        let mut message = vec![0; 4096];
        while let Ok(length) = self.socket.recv(&mut message) {
            let text = String::from_utf8(message[..length].to_vec()).unwrap();
            assert!(text.lines().all(|line| line != assignment), "{text}");
        }
        self.socket.set_nonblocking(false).unwrap();
    }
}

#[cfg(feature = "worker")]
fn is_ready(message: &str) -> bool {
    message.lines().any(|line| line == "READY=1")
}

fn number(message: &str, name: &str) -> u64 {
    let value = message.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix('='));
    value.unwrap_or_else(|| panic!("no {name} in {message}")).parse().unwrap()
}

#[test]
fn states_are_notified_in_order() {
    let manager = Manager::at_a_path();
    let settings = [
        ("NOTIFY_SOCKET", manager.name.as_str()),
        ("DRAIN_DELAY_SECONDS", "1"),
        ("DRAIN_TIMEOUT_SECONDS", "7"),
    ];
    let mut svc = Svc::start(&[("index.php", "<?php echo 'hello';")], &settings);
    let ready = manager.expect("READY=1");
    assert!(ready.contains("STATUS=Serving: "), "{ready}");
    svc.signal(Signal::HUP);
    let before = svc_core::time::monotonic_micros();
    let reloading = manager.expect("RELOADING=1");
    let at = number(&reloading, "MONOTONIC_USEC");
    assert!(at.abs_diff(before) < PATIENCE.as_micros() as u64, "{reloading}");
    manager.expect("READY=1");
    svc.signal(Signal::TERM);
    let stopping = manager.expect("STOPPING=1");
    assert!(number(&stopping, "EXTEND_TIMEOUT_USEC") > 8_000_000, "{stopping}");
    assert_eq!(svc.wait(), Some(0));
}

#[cfg(feature = "worker")]
#[test]
fn a_persistent_worker_that_boots_makes_the_server_ready() {
    let manager = Manager::at_an_abstract_name();
    let script = "<?php
        while (!file_exists(__DIR__ . '/go')) { usleep(1000); clearstatcache(); }
        Svc\\Worker::serve(function () { echo 'hello'; });";
    let settings = [
        ("NOTIFY_SOCKET", manager.name.as_str()),
        ("WORKER_MODE_ENABLED", "true"),
        ("ENTRY_FILE", "app.php"),
        ("WATCHDOG_USEC", "40000"),
    ];
    let root = svc_testing::written(&[("app.php", script)]);
    let mut command = svc_testing::command(root.path(), &settings);
    let mut svc = command.stdout(Stdio::null()).spawn().unwrap();
    assert!(manager.until("STATUS=Waiting for a PHP worker").iter().all(|text| !is_ready(text)));
    // The server lives although it is not ready, and a reload that begins meanwhile is a part of its start.
    rustix::process::kill_process(rustix::process::Pid::from_child(&svc), Signal::HUP).unwrap();
    for _ in 0..3 {
        assert!(manager.until("WATCHDOG=1").iter().all(|text| !is_ready(text)));
    }
    std::fs::write(root.path().join("go"), "").unwrap();
    let seen = manager.until("READY=1");
    assert!(seen.iter().all(|text| !text.contains("RELOADING=1")), "{seen:#?}");
    svc.kill().unwrap();
    svc.wait().unwrap();
}

#[cfg(feature = "worker")]
#[test]
fn an_application_that_does_not_boot_is_not_ready_before_it_is_mended() {
    let script = "<?php
        if (!file_exists(__DIR__ . '/go')) { throw new Exception(\"no\\ndatabase\"); }
        Svc\\Worker::serve(function () { echo 'hello'; });";
    for is_mended in [true, false] {
        let manager = Manager::at_a_path();
        let settings = [
            ("NOTIFY_SOCKET", manager.name.as_str()),
            ("WORKER_MODE_ENABLED", "true"),
            ("ENTRY_FILE", "app.php"),
            ("PHP_WORKERS", "2"),
        ];
        let mut svc = Svc::start(&[("app.php", script)], &settings);
        let place = svc.root().join("app.php");
        let error = format!(
            "STATUS=A PHP worker failed to boot: Uncaught Exception: no database in {}",
            place.display()
        );
        assert!(manager.until(&format!("{error} on line 2")).iter().all(|text| !is_ready(text)));
        if is_mended {
            std::fs::write(svc.root().join("go"), "").unwrap();
            let ready = manager.expect("READY=1");
            assert!(ready.contains("STATUS=Serving: "), "{ready}");
            svc.stop();
        } else {
            svc.signal(Signal::TERM);
            assert!(manager.until("STOPPING=1").iter().all(|text| !is_ready(text)));
            assert_eq!(svc.wait(), Some(0));
            manager.expect_none("READY=1");
        }
    }
}

#[cfg(feature = "worker")]
#[test]
fn a_reload_is_over_for_the_manager_when_its_outcome_is_known_whatever_that_is() {
    let manager = Manager::at_a_path();
    let settings = [
        ("NOTIFY_SOCKET", manager.name.as_str()),
        ("WORKER_MODE_ENABLED", "true"),
        ("ENTRY_FILE", "app.php"),
        ("PHP_WORKERS", "2"),
    ];
    let boots = "<?php
        while (file_exists(__DIR__ . '/hold')) { usleep(1000); clearstatcache(); }
        if (file_exists(__DIR__ . '/broken')) { throw new Exception(\"no\\ndatabase\"); }
        Svc\\Worker::serve(function () { echo 'hello'; });";
    let mut svc = Svc::start(&[("app.php", boots)], &settings);
    manager.expect("READY=1");
    for is_broken in [true, false, true, false] {
        let (hold, broken) = (svc.root().join("hold"), svc.root().join("broken"));
        std::fs::write(&hold, "").unwrap();
        if is_broken {
            std::fs::write(&broken, "").unwrap();
        }
        svc.signal(Signal::HUP);
        manager.expect("RELOADING=1");
        // Not before a worker has booted, or has failed to.
        manager.expect_none("READY=1");
        std::fs::remove_file(&hold).unwrap();
        let ready = manager.expect("READY=1");
        let status = ready.lines().find_map(|line| line.strip_prefix("STATUS=")).unwrap();
        assert_eq!(ready.lines().count(), 2, "{ready}");
        if is_broken {
            let expected =
                "The last reload failed: a PHP worker failed to boot: Uncaught Exception: no database in ";
            assert!(status.starts_with(expected), "{status}");
            std::fs::remove_file(&broken).unwrap();
        } else {
            assert_eq!(status, "Reloaded");
        }
    }
    svc.stop();
}

#[test]
fn signs_of_life_are_for_the_process_that_is_meant() {
    let manager = Manager::at_an_abstract_name();
    for (pid, is_meant) in [("1", false), ("", true)] {
        let settings =
            [("NOTIFY_SOCKET", manager.name.as_str()), ("WATCHDOG_USEC", "20000"), ("WATCHDOG_PID", pid)];
        let mut svc = Svc::start(&[("index.php", "<?php echo 'hello';")], &settings);
        if is_meant {
            manager.expect("WATCHDOG=1");
            manager.expect("WATCHDOG=1");
            svc.stop();
            continue;
        }
        svc.stop();
        let mut messages = Vec::new();
        manager.socket.set_nonblocking(true).unwrap();
        let mut message = vec![0; 4096];
        while let Ok(length) = manager.socket.recv(&mut message) {
            messages.push(String::from_utf8(message[..length].to_vec()).unwrap());
        }
        manager.socket.set_nonblocking(false).unwrap();
        assert!(!messages.iter().any(|text| text == "WATCHDOG=1"), "{messages:#?}");
    }
}

#[test]
fn scripts_and_their_programs_see_nothing_of_it() {
    let manager = Manager::at_a_path();
    let page = "<?php
        foreach (['NOTIFY_SOCKET', 'WATCHDOG_USEC', 'WATCHDOG_PID'] as $name)
            var_dump(getenv($name), $_SERVER[$name] ?? false, shell_exec(\"printenv $name\") ?? false);";
    let settings =
        [("NOTIFY_SOCKET", manager.name.as_str()), ("WATCHDOG_USEC", "60000000"), ("WATCHDOG_PID", "1")];
    let mut svc = Svc::start(&[("index.php", page)], &settings);
    assert_eq!(svc.get("/").text(), "bool(false)\n".repeat(9));
    svc.stop();
}

#[test]
fn a_missing_manager_is_logged_once_and_has_no_effect() {
    let settings = [("NOTIFY_SOCKET", "/nowhere/notify"), ("WATCHDOG_USEC", "20000")];
    let mut svc = Svc::start(&[("index.php", "<?php echo 'hello';")], &settings);
    assert_eq!(svc.get("/").text(), "hello");
    svc.log().expect("cannot notify the service manager: No such file or directory (os error 2)");
    svc.stop();
    // A socket address of another family is no error either.
    let mut svc = Svc::start(&[("index.php", "<?php echo 'hello';")], &[("NOTIFY_SOCKET", "vsock:2:9999")]);
    svc.stop();
}

/// Returns all assignments of a name in the unit file, whatever their section.
fn unit(name: &str) -> Vec<String> {
    let unit = include_str!("../../../deploy/svc.service");
    let values = unit.lines().filter_map(|line| line.strip_prefix(name)?.strip_prefix('='));
    values.map(str::to_owned).collect()
}

#[test]
fn the_command_of_the_unit_serves_as_the_unit_expects() {
    let [command] = &unit("ExecStart")[..] else { panic!("one ExecStart") };
    let mut words = command.split(' ');
    assert_eq!(words.next(), Some("/usr/bin/svc"));
    let manager = Manager::at_a_path();
    let root = svc_testing::written(&[("index.php", "<?php echo 'hello';")]);
    let plain =
        svc_testing::command(root.path(), &[("NOTIFY_SOCKET", &manager.name), ("WATCHDOG_USEC", "30000000")]);
    let mut command = Command::new(plain.get_program());
    command.args(words).env_clear().envs(plain.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let mut svc = command.stdout(Stdio::null()).spawn().unwrap();
    manager.expect("READY=1");
    manager.expect("WATCHDOG=1");
    rustix::process::kill_process(rustix::process::Pid::from_child(&svc), Signal::TERM).unwrap();
    manager.expect("STOPPING=1");
    eventually("the server ends", || svc.try_wait().unwrap().is_some());
    assert_eq!(svc.wait().unwrap().code(), Some(0));
}

#[test]
fn the_unit_grants_the_permissions_of_the_defaults() {
    assert_eq!(unit("Type"), ["notify"]);
    assert_eq!(unit("NotifyAccess"), ["main"]);
    assert_eq!(unit("EnvironmentFile"), ["-/etc/svc/svc.env"]);
    assert_eq!(unit("AmbientCapabilities"), ["CAP_NET_BIND_SERVICE"]);
    // The exit code for refused settings.
    assert_eq!(unit("RestartPreventExitStatus"), ["2"]);
    // Sessions survive outside the unit's private /tmp, in a folder that the unit may write.
    assert_eq!(unit("StateDirectory"), ["svc"]);
    assert_eq!(unit("Environment"), ["PID_FILE=%t/svc/svc.pid", "PHP_SESSION_DIR=%S/svc"]);
    // The server and the command that reloads it find its file in the unit's own folder.
    assert_eq!(unit("RuntimeDirectory"), ["svc"]);
    let [reload] = &unit("ExecReload")[..] else { panic!("one ExecReload") };
    let patience: u64 = reload.strip_prefix("/usr/bin/svc reload --timeout ").unwrap().parse().unwrap();
    let limit: u64 = unit("TimeoutStartSec")[0].parse().unwrap();
    assert!(patience < limit, "systemd would give up first: {reload}");
    let raw = RawConfig::new([("DOCUMENT_ROOT", "/"), ("SPOOL_DIR", "/")]);
    let config = Config::resolve(&raw).unwrap();
    let drain = config.timeouts.drain_delay + config.timeouts.drain;
    let stop: u64 = unit("TimeoutStopSec")[0].parse().unwrap();
    assert!(Duration::from_secs(stop) > drain + Duration::from_secs(10), "{stop} s");
    let descriptors: usize = unit("LimitNOFILE")[0].parse().unwrap();
    assert!(descriptors > config.admission.max_connections + 4096, "{descriptors}");
}

#[test]
fn systemd_accepts_the_unit() {
    if Command::new("systemd-analyze").arg("--version").output().is_err() {
        return svc_testing::skip::skipped("systemd-analyze is not installed");
    }
    // It looks for the command and for the manual.
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("svc.service");
    let unit = include_str!("../../../deploy/svc.service");
    let unit = unit.replace("/usr/bin/svc", env!("CARGO_BIN_EXE_svc"));
    std::fs::write(&path, unit).unwrap();
    let output = Command::new("systemd-analyze").args(["verify", "--man=no"]).arg(&path).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    let about_it: Vec<_> = said.lines().filter(|line| line.contains("svc.service")).collect();
    assert!(about_it.is_empty(), "{about_it:#?}");
}
