//! The command line and the settings from outside: each error is reported in one line, with exit code 2.

use std::net::TcpListener;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

/// Runs the binary in exactly this environment; a run that does not end by itself fails the test.
fn svc(words: &[&str], environment: &[(&str, &str)]) -> Output {
    let child = Command::new(env!("CARGO_BIN_EXE_svc"))
        .args(words)
        .env_clear()
        .envs(environment.iter().copied())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let pid = Pid::from_raw(child.id() as i32).unwrap();
    let (send, receive) = mpsc::channel();
    let waiter = std::thread::spawn(move || send.send(child.wait_with_output().unwrap()));
    let output = receive.recv_timeout(Duration::from_secs(60));
    if output.is_err() {
        kill_process(pid, Signal::KILL).unwrap();
    }
    waiter.join().unwrap().ok();
    output.unwrap_or_else(|_| panic!("svc {words:?} did not end with {environment:?}"))
}

/// Asserts that svc refuses to start; returns its messages.
fn refusal(words: &[&str], environment: &[(&str, &str)]) -> Vec<String> {
    let output = svc(words, environment);
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{words:?} {environment:?}: {said}");
    let lines =
        said.lines().map(|line| line.strip_prefix("svc: error: ").unwrap_or_else(|| panic!("{line}")));
    lines.map(str::to_owned).collect()
}

fn answer(words: &[&str], environment: &[(&str, &str)]) -> String {
    let output = svc(words, environment);
    assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
    assert!(output.stderr.is_empty(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn each_wrong_setting_has_a_line_with_variable_value_and_accepted_values() {
    let wrong = [
        (
            "LISTEN_ADDR",
            "8080",
            "is not a valid address; accepted: host:port, or :port for 0.0.0.0:port; several with commas, unix:PATH included",
        ),
        ("EXECUTOR", "fpm", "is not a valid value; accepted: sapi, fastcgi, stub"),
        ("IO_WORKERS", "5000", "is too large; accepted: auto, or an integer from 1 to 1024"),
        (
            "PHP_WORKERS",
            "-1",
            "is too small; accepted: auto, an integer from 1 to 1024, or a range such as 2:8",
        ),
        ("MAX_CONNECTIONS", "0", "is too small; accepted: an integer from 1 to 1000000"),
        (
            "MAX_BODY_BYTES",
            "2T",
            "is not an integer; accepted: a size in bytes from 1 to 1099511627776; suffixes K, M and G are allowed",
        ),
        ("HEADER_TIMEOUT_SECONDS", "5s", "is not an integer; accepted: a number of seconds from 1 to 86400"),
        ("RATE_LIMIT", "-1", "is too small; accepted: an integer from 0 to 1000000"),
        ("ACCESS_LOG", "some", "is not a valid value; accepted: off, error, all"),
        ("LOG_FORMAT", "loud", "is not a valid value; accepted: json, text, auto"),
        (
            "INTERNAL_ADDR",
            "localhost",
            "is not a valid address; accepted: host:port, or :port for 127.0.0.1:port",
        ),
        (
            "INTERNAL_ALLOW_IPS",
            "10.0.0.0/40",
            "contains \"10.0.0.0/40\", which is not a network or an address; accepted: comma-separated networks and addresses",
        ),
    ];
    for command in ["check", "serve"] {
        let expected: Vec<_> =
            wrong.iter().map(|(name, value, rest)| format!("{name}: {value:?} {rest}")).collect();
        let environment: Vec<_> = wrong.iter().map(|(name, value, _)| (*name, *value)).collect();
        assert_eq!(refusal(&[command], &environment), expected, "all at once");
    }
    for (name, value, rest) in wrong {
        assert_eq!(refusal(&["check"], &[(name, value)]), [format!("{name}: {value:?} {rest}")]);
    }
}

#[test]
fn a_missing_root_is_named_for_any_source() {
    for (words, environment) in
        [(&["serve", "/nowhere/at/all"][..], &[][..]), (&["serve"], &[("DOCUMENT_ROOT", "/nowhere/at/all")])]
    {
        let said = refusal(words, environment);
        assert_eq!(said.len(), 1, "{said:?}");
        assert!(
            said[0].starts_with("DOCUMENT_ROOT: \"/nowhere/at/all\" is not a usable directory"),
            "{said:?}"
        );
    }
}

#[test]
fn certificates_that_cannot_be_used_are_one_line() {
    let cert = "TLS_CERT: \"/nowhere/a.pem\" cannot be read (No such file or directory (os error 2)); accepted: \
                a PEM file with the server certificate, followed by its chain";
    for command in ["check", "serve"] {
        let settings = [("EXECUTOR", "stub"), ("TLS_CERT", "/nowhere/a.pem"), ("TLS_KEY", "/nowhere/a.key")];
        let listen = ("LISTEN_ADDR", "127.0.0.1:0");
        assert_eq!(refusal(&[command], &[&settings[..], &[listen]].concat()), [cert], "{command}");
    }
}

#[test]
fn half_a_tls_pair_is_one_line() {
    assert_eq!(
        refusal(&["serve"], &[("TLS_CERT", "/etc/cert.pem")]),
        ["TLS_KEY: is not set, but TLS_CERT is; accepted: both or neither"]
    );
}

#[test]
fn a_wrong_word_is_shown_with_accepted_ones() {
    assert_eq!(refusal(&["--loud"], &[]), ["--loud: unknown option; see svc help"]);
    assert_eq!(
        refusal(&["serve", "-d", "=1"], &[]),
        ["-d: \"=1\" is not a valid directive; accepted: key=value"]
    );
    assert_eq!(
        refusal(&["healthcheck", "mood"], &[]),
        ["\"mood\": unknown probe; accepted: readiness, liveness, startup"]
    );
}

#[test]
fn check_prints_settings_values_and_sources() {
    let executor = if cfg!(feature = "php") { "sapi" } else { "stub" };
    let environment = [("EXECUTOR", executor), ("LOG_LEVEL", "warn"), ("PHP_WORKERS", "3")];
    let page = answer(&["check", "/tmp", "-d", "memory_limit=1G", "--listen", "127.0.0.1:0"], &environment);
    let row = |name: &str| -> Vec<&str> {
        let line = page.lines().find(|line| line.split_whitespace().next() == Some(name));
        line.unwrap_or_else(|| panic!("{name} is missing")).split_whitespace().skip(1).collect()
    };
    assert_eq!(row("LOG_LEVEL"), ["warn", "environment"]);
    assert_eq!(row("DOCUMENT_ROOT"), ["/tmp", "command", "line"]);
    assert_eq!(row("QUEUE_CAPACITY"), ["384", "default"]);
    assert_eq!(row("QUEUE_MAX_WAITING"), ["384", "default"]);
    assert_eq!(row("QUEUE_WAIT_TIMEOUT_MS"), ["1000", "default"]);
    assert_eq!(row("ENTRY_FILE"), ["unset", "default"]);
    assert_eq!(row("-d"), ["memory_limit=1G", "command", "line"]);
}

#[test]
fn the_reference_page_equals_the_output_of_the_binary() {
    let page =
        std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/settings.md")).unwrap();
    assert_eq!(answer(&["help", "settings", "--markdown"], &[]), page);
}

#[test]
fn help_and_version_end_well() {
    assert!(answer(&["--help"], &[]).starts_with("svc: a PHP application server"));
    assert!(answer(&["help", "settings"], &[]).contains("LISTEN_ADDR (default: 127.0.0.1:8080)"));
    let version = answer(&["version"], &[]);
    assert!(version.starts_with(concat!("svc ", env!("CARGO_PKG_VERSION"))), "{version}");
    assert_eq!(version.contains("\nbuilt from: "), cfg!(feature = "php"), "{version}");
}

#[test]
fn a_healthcheck_without_a_server_fails_with_one_line() {
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    for environment in [&[][..], &[("INTERNAL_ADDR", "nonsense")], &[("INTERNAL_ADDR", free.as_str())]] {
        let output = svc(&["healthcheck"], environment);
        assert_eq!(output.status.code(), Some(1), "{environment:?}");
        assert_eq!(String::from_utf8(output.stderr).unwrap().lines().count(), 1, "{environment:?}");
    }
}
