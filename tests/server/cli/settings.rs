//! The sources of settings, from outside: prefixed names, misspelled names, env files, options.

use std::fs;
use std::process::{Command, Output, Stdio};

use svc_testing::{Svc, command};

/// Runs the binary to its end in exactly this environment.
pub(crate) fn svc(words: &[&str], environment: &[(&str, &str)]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_svc"));
    command.args(words).env_clear().stdin(Stdio::null());
    if words.first() == Some(&"check") {
        // The default port may be in use.
        command.env("LISTEN_ADDR", "127.0.0.1:0");
    }
    command.envs(environment.iter().copied());
    command.output().unwrap()
}

/// Asserts that svc rejects these arguments and variables; returns its message.
#[track_caller]
pub(crate) fn refusal(words: &[&str], environment: &[(&str, &str)]) -> String {
    let output = svc(words, environment);
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{words:?} {environment:?}: {said}");
    said
}

/// Asserts that svc accepts these arguments and variables; returns its output and its warnings.
#[track_caller]
pub(crate) fn accepted(words: &[&str], environment: &[(&str, &str)]) -> (String, String) {
    let output = svc(words, environment);
    let (printed, said) =
        (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap());
    assert!(output.status.success(), "{words:?} {environment:?}: {said}");
    (printed, said)
}

/// Returns the words after a name in the output of `svc check`.
#[track_caller]
fn row(page: &str, name: &str) -> String {
    let row = page.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    row.unwrap_or_else(|| panic!("{name} is missing: {page}"))
        .split_whitespace()
        .collect::<Vec<_>>()
        .join(" ")
}

const STUB: (&str, &str) = ("EXECUTOR", "stub");

#[test]
fn every_setting_has_a_second_name_that_wins() {
    let environment = [
        STUB,
        ("SVC_LOG_LEVEL", "warn"),
        ("LOG_LEVEL", "debug"),
        ("SVC_ACCESS_LOG", ""),
        ("ACCESS_LOG", "all"),
    ];
    let (page, said) = accepted(&["check", "/tmp"], &environment);
    assert_eq!(said, "");
    assert_eq!(row(&page, "LOG_LEVEL"), "warn environment (SVC_LOG_LEVEL)");
    assert_eq!(row(&page, "ACCESS_LOG"), "all environment");
    let said = refusal(&["check", "/tmp"], &[STUB, ("SVC_IO_WORKERS", "many")]);
    assert!(said.starts_with("svc: error: SVC_IO_WORKERS: \"many\" is not an integer; accepted: "), "{said}");
}

#[test]
fn the_report_tells_where_values_come_from() {
    let svc = Svc::start(
        &[],
        &[STUB, ("SVC_LOG_LEVEL", "debug"), ("LOG_LEVEL", "info"), ("SVC_INTERNAL_ALLOW_IPS", "")],
    );
    let report: serde_json::Value = serde_json::from_str(&svc.ask("/config").text()).unwrap();
    assert_eq!(report["log_level"], "debug");
    assert_eq!(report["sources"]["log_level"], "environment (SVC_LOG_LEVEL)");
    assert_eq!(report["sources"]["access_log"], "default");
    assert_eq!(report["sources"]["executor_type"], "environment");
}

#[test]
fn two_shared_variables_may_have_values_unknown_to_svc() {
    let environment = [STUB, ("LOG_LEVEL", "notice"), ("TRUSTED_PROXIES", "REMOTE_ADDR")];
    let (page, said) = accepted(&["check", "/tmp"], &environment);
    assert_eq!(row(&page, "LOG_LEVEL"), "info default");
    assert_eq!(row(&page, "TRUSTED_PROXIES"), "unset default");
    assert_eq!(said.lines().filter(|line| line.starts_with("svc: warning: ")).count(), 2, "{said}");
    for (name, value) in [("SVC_LOG_LEVEL", "notice"), ("SVC_TRUSTED_PROXIES", "REMOTE_ADDR")] {
        assert!(refusal(&["check", "/tmp"], &[STUB, (name, value)]).contains(name));
        assert!(refusal(&["serve", "/tmp"], &[STUB, (name, value)]).contains(name));
    }
    let mut svc = Svc::start(&[], &environment);
    let ignored: Vec<_> =
        svc.whole_log().of("svc").into_iter().filter(|record| record["level"] == "WARN").collect();
    assert_eq!(ignored.len(), 2, "{ignored:?}");
    for (record, name) in ignored.iter().zip(["TRUSTED_PROXIES", "LOG_LEVEL"]) {
        assert_eq!(record["fields"]["message"], "setting is ignored, and its default is used");
        assert_eq!(record["fields"]["setting"], name);
    }
}

#[test]
fn misspelt_settings_are_reported_with_a_suggestion() {
    let environment = [
        STUB,
        ("MAX_CONECTIONS", "5"),
        ("SVC_ENTRYFILE", "a.php"),
        ("SVC_POEM", "x"),
        ("SVC_PORT", "tcp://10.0.0.1:80"),
    ];
    let (_, said) = accepted(&["check", "/tmp"], &environment);
    for line in [
        "svc: warning: MAX_CONECTIONS: unknown setting; did you mean MAX_CONNECTIONS?\n",
        "svc: warning: SVC_ENTRYFILE: unknown setting; did you mean SVC_ENTRY_FILE?\n",
        "svc: warning: SVC_POEM: unknown setting\n",
    ] {
        assert!(said.contains(line), "{said}");
    }
    assert_eq!(said.lines().count(), 3, "{said}");
    let svc = Svc::start(
        &[],
        &[STUB, ("MAX_CONECTIONS", "5"), ("SVC_WERROR", "1"), ("SVC_SERVICE_HOST", "10.0.0.1")],
    );
    let record = svc.log().expect("unknown setting");
    assert_eq!(
        (record["level"].as_str(), record["fields"]["variable"].as_str()),
        (Some("WARN"), Some("MAX_CONECTIONS"))
    );
    assert_eq!(record["fields"]["hint"], "did you mean MAX_CONNECTIONS?");
}

#[test]
fn options_win_over_the_environment_and_that_over_files() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    fs::write(
        path("one.env"),
        "# settings\nexport LOG_LEVEL=warn\nACCESS_LOG='all'\nPHP_WORKERS=2\nIO_WORKERS=3\n",
    )
    .unwrap();
    fs::write(path("two.env"), "IO_WORKERS=4\n").unwrap();
    let (one, two) = (path("one.env"), path("two.env"));
    let words = [
        "check",
        "/tmp",
        "--env-file",
        &one,
        "--env-file",
        &two,
        "--workers=5",
        "--listen",
        ":0",
        "--ops",
        ":0",
    ];
    let (page, _) =
        accepted(&words, &[STUB, ("LOG_LEVEL", "debug"), ("PHP_WORKERS", "7"), ("ACCESS_LOG", "")]);
    assert_eq!(row(&page, "LOG_LEVEL"), "debug environment");
    assert_eq!(row(&page, "ACCESS_LOG"), format!("all {one}:3"));
    assert_eq!(row(&page, "IO_WORKERS"), format!("4 {two}:1"));
    assert_eq!(row(&page, "PHP_WORKERS"), "5 command line (--workers)");
    assert_eq!(row(&page, "LISTEN_ADDR"), "0.0.0.0:0 command line (--listen)");
    assert_eq!(row(&page, "INTERNAL_ADDR"), "127.0.0.1:0 command line (--ops)");
    assert!(
        refusal(&["check", "--workers", "x"], &[STUB]).starts_with("svc: error: --workers: \"x\" is not")
    );
}

#[test]
fn a_file_of_variables_that_cannot_be_used_stops_the_start() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("svc.env").to_str().unwrap().to_owned();
    assert!(refusal(&["serve", "--env-file", &path], &[STUB]).contains("cannot be read (No such file"));
    fs::write(&path, "LOG_LEVEL=info\n\nthis is no variable\n").unwrap();
    let expected = format!("svc: error: {path}:3: there is no =; accepted: NAME=value\n");
    for word in ["serve", "check", "stop"] {
        assert_eq!(refusal(&[word, "--env-file", &path], &[STUB]), expected);
    }
    // Container runtimes know two exit codes of a health check.
    let output = svc(&["healthcheck", "--env-file", &path], &[]);
    assert_eq!((output.status.code(), String::from_utf8(output.stderr).unwrap()), (Some(1), expected));
    fs::write(&path, "\nIO_WORKERS=many\n").unwrap();
    let said = refusal(&["check", "/tmp", "--env-file", &path], &[STUB]);
    assert!(
        said.starts_with(&format!("svc: error: {path}:2: IO_WORKERS: \"many\" is not an integer")),
        "{said}"
    );
}

#[test]
fn records_are_text_for_people_if_that_is_chosen() {
    let root = tempfile::tempdir().unwrap();
    // The start fails after the first record, so the server exits by itself.
    let settings = |format| [STUB, ("LOG_FORMAT", format), ("SPOOL_DIR", "/proc"), ("LOG_LEVELS", "x")];
    let first = |format| {
        let output = command(root.path(), &settings(format)).output().unwrap();
        assert_eq!(output.status.code(), Some(2));
        String::from_utf8(output.stdout).unwrap()
    };
    let text = first("text");
    assert!(
        text.contains(concat!("Z INFO  svc: svc is starting version=", env!("CARGO_PKG_VERSION"), "\n")),
        "{text}"
    );
    assert!(
        text.contains(
            "Z WARN  svc: unknown setting variable=LOG_LEVELS place=null hint=\"did you mean LOG_LEVEL?\"\n"
        ),
        "{text}"
    );
    // Standard output is a pipe.
    for format in ["json", "auto"] {
        assert!(first(format).lines().all(|line| serde_json::from_str::<serde_json::Value>(line).is_ok()));
    }
}

#[test]
fn records_are_text_on_a_terminal() {
    let root = tempfile::tempdir().unwrap();
    let mut command = command(root.path(), &[STUB, ("LOG_FORMAT", "auto"), ("SPOOL_DIR", "/proc")]);
    let line = format!("exec {} 2>/dev/null", command.get_program().to_str().unwrap());
    let environment: Vec<_> =
        command.get_envs().map(|(name, value)| (name.to_owned(), value.unwrap().to_owned())).collect();
    command = Command::new("script");
    command
        .args(["-qc", &line, "/dev/null"])
        .env_clear()
        .envs(environment)
        .env("PATH", "/usr/bin:/bin")
        .stdin(Stdio::null());
    let output = command.output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.contains("Z INFO  svc: svc is starting version="), "{text}");
}
