//! The Composer package for Laravel Octane, as its users run it: `php artisan octane:start --server=svc` and the other commands.
//!
//! Laravel's console and Symfony's processes are those of the system's package archive, which has no Octane: a stand-in
//! (tests/php/octane) has the classes that the package extends.
#![cfg(feature = "worker")]

use std::fs;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use svc_testing::client::{Client, eventually};
use svc_testing::fetched::fetched;

use super::octane::write;
/// An application with the package, in a folder.
struct Shop {
    _root: TempDir,
    base: PathBuf,
    laravel: String,
    main: SocketAddr,
    ops: SocketAddr,
}

impl Shop {
    /// Returns an application, unless Laravel cannot be had on this machine.
    fn new() -> Option<Self> {
        Self::at("127.0.0.1")
    }

    fn at(host: &str) -> Option<Self> {
        let laravel = fetched("laravel")?;
        let root = tempfile::tempdir().unwrap();
        let base = root.path().join("shop");
        write(&base);
        let artisan = standin().join("artisan.php");
        fs::write(base.join("artisan"), format!("<?php require '{}';", artisan.display())).unwrap();
        let boot = format!(
            "<?php require_once '{}/autoload.php'; return '{}';",
            standin().display(),
            base.display()
        );
        fs::write(base.join("vendor/laravel/octane/bin/bootstrap.php"), boot).unwrap();
        fs::create_dir_all(base.join("storage/logs")).unwrap();
        // Ports that were free a moment ago.
        let [main, ops] =
            [host, "127.0.0.1"].map(|host| TcpListener::bind((host, 0)).ok()?.local_addr().ok());
        Some(Self { _root: root, base, laravel, main: main?, ops: ops? })
    }

    /// Returns the command `php artisan octane:WORDS`.
    fn artisan(&self, words: &[&str]) -> Command {
        let mut command = Command::new(svc_testing::binary());
        command.args(["php", "artisan"]).arg(format!("octane:{}", words[0])).args(&words[1..]);
        command.current_dir(&self.base).env_clear().env("PATH", "/usr/bin:/bin").stdin(Stdio::null());
        command.env("LARAVEL", &self.laravel).env("SVC", svc_testing::binary());
        command.env("PACKAGE", Path::new(env!("CARGO_MANIFEST_DIR")).join("packages/laravel-octane"));
        command
    }

    /// Runs `php artisan octane:WORDS`; returns the exit status and what it printed.
    fn says(&self, words: &[&str]) -> (i32, String) {
        said(&self.artisan(words).output().unwrap())
    }

    /// Starts the server with these further options, and waits until it answers.
    fn start(&self, words: &[&str]) -> Running<'_> {
        let (host, port, ops) =
            (self.main.ip().to_string(), self.main.port().to_string(), self.ops.port().to_string());
        let options = ["--host", &host, "--port", &port, "--admin-port", &ops, "--workers", "1"];
        let mut command = self.artisan(&[&["start", "--server=svc"], &options[..], words].concat());
        let log = fs::File::create(self.base.join("start.log")).unwrap();
        command.stdout(log.try_clone().unwrap()).stderr(log);
        let mut running = Running { shop: self, child: command.spawn().unwrap() };
        eventually("the server accepts connections", || {
            assert!(running.child.try_wait().unwrap().is_none(), "it ended: {}", self.log());
            TcpStream::connect(self.main).is_ok()
        });
        running
    }

    fn get(&self) -> (u16, String) {
        let response = Client::connect(self.main).get("/cart");
        (response.status, response.text())
    }

    fn log(&self) -> String {
        fs::read_to_string(self.base.join("start.log")).unwrap()
    }
}

/// A running `octane:start`. Dropping it kills the command and its server.
struct Running<'a> {
    shop: &'a Shop,
    child: Child,
}

impl Running<'_> {
    fn ends(&mut self) -> Option<i32> {
        self.child.wait().unwrap().code()
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        if let Ok(Some(_)) = self.child.try_wait() {
            return;
        }
        let pid = fs::read_to_string(self.shop.base.join("storage/logs/svc.pid")).unwrap_or_default();
        if let Some(pid) = pid.trim().parse().ok().and_then(Pid::from_raw) {
            let _ = kill_process(pid, Signal::KILL);
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn standin() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/php/octane")
}

fn said(output: &Output) -> (i32, String) {
    let text = [&output.stdout[..], &output.stderr].concat();
    (output.status.code().unwrap(), String::from_utf8(text).unwrap().trim().to_owned())
}

fn expect((status, text): &(i32, String), expected: i32, part: &str) {
    assert!(*status == expected && text.contains(part), "exit {status}: {text}");
}

#[test]
fn commands_find_the_running_server() {
    let Some(shop) = Shop::new() else { return };
    // Octane's own server is the default of the application.
    expect(&shop.says(&["status"]), 3, "octane:status of roadrunner");
    let mut server = shop.start(&[]);
    assert_eq!(shop.get().0, 200);
    expect(&shop.says(&["status"]), 0, "Octane server is running.");
    fs::write(shop.base.join("bootstrap/app.php"), "<?php return fn (array $boot) => 'new';").unwrap();
    expect(&shop.says(&["reload"]), 0, "Reloading workers...");
    assert_eq!(shop.get(), (200, "new".to_owned()));
    expect(&shop.says(&["stop"]), 0, "Stopping server...");
    assert_eq!(server.ends(), Some(0));
    assert!(TcpStream::connect(shop.main).is_err());
    expect(&shop.says(&["stop"]), 3, "octane:stop of roadrunner");
}

#[test]
fn commands_for_another_server_are_octane_s_own() {
    let Some(shop) = Shop::new() else { return };
    let _server = shop.start(&[]);
    for command in ["start", "status", "reload", "stop"] {
        let expected = format!("octane:{command} of swoole");
        expect(&shop.says(&[command, "--server=swoole"]), 3, &expected);
    }
    assert_eq!(shop.get().0, 200);
}

#[test]
fn svc_may_be_the_default_server() {
    let Some(shop) = Shop::new() else { return };
    let says = |command| said(&shop.artisan(&[command]).env("OCTANE_SERVER", "svc").output().unwrap());
    for command in ["status", "reload", "stop"] {
        expect(&says(command), 1, "Octane server is not running.");
    }
    let _server = shop.start(&[]);
    expect(&says("start"), 1, "Octane server is already running.");
    expect(&says("status"), 0, "Octane server is running.");
}

#[test]
fn a_failed_reload_has_a_reason_and_the_old_workers_serve() {
    let Some(shop) = Shop::new() else { return };
    let _server = shop.start(&[]);
    let before = shop.get();
    let code = "<?php throw new DomainException('no such shop');";
    fs::write(shop.base.join("bootstrap/app.php"), code).unwrap();
    let (status, text) = shop.says(&["reload"]);
    assert_ne!(status, 0, "{text}");
    assert!(text.contains("DomainException") && text.contains("no such shop"), "{text}");
    assert_eq!(shop.get(), before);
}

#[test]
fn a_signal_to_the_command_stops_the_server() {
    for signal in [Signal::INT, Signal::TERM] {
        let Some(shop) = Shop::new() else { return };
        let mut server = shop.start(&[]);
        server.signal(signal);
        assert_eq!(server.ends(), Some(0), "{}", shop.log());
        assert!(TcpStream::connect(shop.main).is_err());
        assert_eq!(shop.says(&["status", "--server=svc"]).0, 1);
    }
}

#[test]
fn requests_are_printed_in_the_local_environment() {
    let Some(shop) = Shop::new() else { return };
    let _server = shop.start(&[]);
    assert_eq!(shop.get().0, 200);
    eventually("the request is printed", || shop.log().contains("request: 200 GET /cart"));
    assert!(shop.log().contains("Server running"));
}

#[test]
fn an_address_of_ipv6_is_listened_on() {
    // Machines without IPv6 have none to listen on.
    let Some(shop) = Shop::at("::1") else { return };
    let _server = shop.start(&[]);
    assert_eq!(shop.get().0, 200);
}

#[test]
fn options_that_svc_lacks_are_refused() {
    let Some(shop) = Shop::new() else { return };
    for option in ["--https", "--http-redirect", "--poll", "--caddyfile=x", "--rr-config=x"] {
        let name = option.split('=').next().unwrap();
        let expected = format!("{name} is not an option of svc");
        expect(&shop.says(&["start", "--server=svc", option]), 1, &expected);
    }
    let nowhere = shop.artisan(&["start", "--server=svc"]).env_remove("SVC").output().unwrap();
    expect(&said(&nowhere), 1, "svc was not found on PATH");
}

#[test]
fn tasks_run_on_threads_that_have_booted_the_application() {
    let Some(shop) = Shop::new() else { return };
    let page = format!(
        "<?php require_once '{0}/autoload.php'; return require '{0}/tasks.php';",
        standin().display()
    );
    fs::write(shop.base.join("bootstrap/app.php"), page).unwrap();
    let _server = shop.start(&["--task-workers", "2"]);
    let (_, text) = shop.get();
    let outcomes: serde_json::Value = serde_json::from_str(&text).unwrap_or_else(|_| panic!("{text}"));
    let expected = serde_json::json!([
        { "booted": "shop", "2": [1, 2] },
        "LogicException: no",
        { "slow": false, "quick": "done" },
        "Task timed out after 1 milliseconds.",
    ]);
    assert_eq!(outcomes, expected);
}
