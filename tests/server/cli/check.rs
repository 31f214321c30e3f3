//! `svc check` rejects the same settings as the start: unavailable ports, files and directories, and malformed ini files.

use std::fs;
use std::net::TcpListener;
use std::os::unix::net::UnixListener;
use std::process::Command;

use crate::cli::settings::{accepted, refusal, svc};
use svc_testing::Svc;

const STUB: (&str, &str) = ("EXECUTOR", "stub");

#[test]
fn a_port_that_is_taken_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("svc.sock");
    let (tcp, unix) = (TcpListener::bind("127.0.0.1:0").unwrap(), UnixListener::bind(&path).unwrap());
    let (tcp_place, unix_place) = (tcp.local_addr().unwrap().to_string(), format!("unix:{}", path.display()));
    let ops = ("INTERNAL_ADDR", tcp_place.as_str());
    let cases = [
        (vec![("LISTEN_ADDR", tcp_place.as_str())], &tcp_place),
        (vec![("LISTEN_ADDR", "127.0.0.1:0"), ops], &tcp_place),
        (vec![("LISTEN_ADDR", unix_place.as_str())], &unix_place),
    ];
    for (settings, place) in &cases {
        let environment = [&[STUB][..], settings].concat();
        let (name, _) = settings.last().unwrap();
        let expected = format!("svc: error: {name}: cannot listen on {place}: ");
        let said = refusal(&["check", "/tmp"], &environment);
        assert!(said.starts_with(&expected) && said.contains("in use"), "{said}");
        assert_eq!(said.lines().count(), 1, "{said}");
        let output = svc(&["serve", "/tmp"], &environment);
        assert_eq!(output.status.code(), Some(1));
        assert_eq!(String::from_utf8(output.stderr).unwrap(), said, "the same as the start says");
    }
    drop((tcp, unix));
    for (settings, _) in &cases {
        accepted(&["check", "/tmp"], &[&[STUB][..], settings].concat());
    }
    assert!(path.exists(), "nothing is removed");
}

#[test]
fn an_address_of_another_machine_is_an_error() {
    let said = refusal(&["check", "/tmp"], &[STUB, ("LISTEN_ADDR", "192.0.2.1:8080")]);
    let expected =
        "LISTEN_ADDR: cannot listen on 192.0.2.1:8080: Cannot assign requested address (os error 99)\n";
    assert_eq!(said, format!("svc: error: {expected}"));
}

#[test]
fn a_port_that_needs_a_privilege_is_an_error() {
    let first = fs::read_to_string("/proc/sys/net/ipv4/ip_unprivileged_port_start").unwrap();
    if first.trim().parse::<u16>().unwrap() <= 1 {
        // Root may bind every port.
        return;
    }
    let svc = env!("CARGO_BIN_EXE_svc");
    let mut command = Command::new(svc);
    if rustix::process::geteuid().is_root() {
        command = Command::new("setpriv");
        command.args(["--bounding-set", "-net_bind_service", "--inh-caps", "-net_bind_service", svc]);
    }
    command.args(["check", "/tmp"]);
    let output = command.env_clear().envs([STUB, ("LISTEN_ADDR", "127.0.0.1:1")]).output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{said}");
    let expected = "LISTEN_ADDR: cannot listen on 127.0.0.1:1: Permission denied (os error 13)\n";
    assert_eq!(said, format!("svc: error: {expected}"));
}

#[test]
fn the_ports_of_the_server_that_will_reload_are_a_warning() {
    let folder = tempfile::tempdir().unwrap();
    let pid_file = folder.path().join("svc.pid").to_str().unwrap().to_owned();
    let server = Svc::start(&[], &[STUB, ("PID_FILE", &pid_file)]);
    let (main, ops) = (server.main().to_string(), server.ops().to_string());
    let listen = [STUB, ("LISTEN_ADDR", main.as_str())];
    let with = |more: &[(&'static str, &str)]| -> Vec<String> {
        let environment: Vec<(&str, &str)> = listen.iter().copied().chain(more.iter().copied()).collect();
        let (_, said) = accepted(&["check", "/tmp"], &environment);
        said.lines().map(str::to_owned).collect()
    };
    let pid = server.pid().as_raw_pid();
    assert_eq!(
        with(&[("PID_FILE", &pid_file)]),
        [
            format!(
                "svc: warning: LISTEN_ADDR: {main} is in use; the server of PID_FILE runs (process {pid})"
            ),
            format!(
                "svc: warning: PID_FILE: {pid_file:?} belongs to a server that is running (process {pid})"
            ),
        ]
    );
    let excuse = |name, place| {
        format!("svc: warning: {name}: {place} is in use by the server that answers at INTERNAL_ADDR")
    };
    assert_eq!(
        with(&[("INTERNAL_ADDR", &ops)]),
        [excuse("LISTEN_ADDR", &main), excuse("INTERNAL_ADDR", &ops)]
    );
    // There is no proof that the running server is this one.
    refusal(&["check", "/tmp"], &listen);
    // A port of another process is unavailable whether or not a server runs.
    let other = TcpListener::bind("127.0.0.1:0").unwrap();
    let place = other.local_addr().unwrap().to_string();
    let said = refusal(&["check", "/tmp"], &[STUB, ("LISTEN_ADDR", &place), ("INTERNAL_ADDR", &ops)]);
    assert!(said.contains(&format!("svc: error: LISTEN_ADDR: cannot listen on {place}: ")), "{said}");
}

#[test]
fn a_pid_file_that_cannot_be_written_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let fifo = folder.path().join("fifo");
    rustix::fs::mkfifoat(rustix::fs::CWD, &fifo, rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR).unwrap();
    let paths = [folder.path().to_owned(), folder.path().join("nowhere/svc.pid"), fifo, "/dev/null".into()];
    for path in &paths {
        for word in ["check", "serve"] {
            let environment = [STUB, ("LISTEN_ADDR", "127.0.0.1:0"), ("PID_FILE", path.to_str().unwrap())];
            let said = refusal(&[word, "/tmp"], &environment);
            assert!(said.starts_with(&format!("svc: error: PID_FILE: {path:?} cannot be used (")), "{said}");
        }
    }
    // A command does not wait for a process that would open the other end of a FIFO.
    for path in &paths[2..] {
        let output = svc(&["reload"], &[("PID_FILE", path.to_str().unwrap())]);
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.code() == Some(1) && said.contains("it is not a regular file"), "{said}");
    }
    let path = folder.path().join("svc.pid");
    accepted(&["check", "/tmp"], &[STUB, ("PID_FILE", path.to_str().unwrap())]);
    assert!(!path.exists(), "it was created");
}

#[cfg(feature = "php")]
#[test]
fn the_spool_directory_is_looked_at_by_the_user_of_run_as() {
    if !rustix::process::geteuid().is_root() {
        let said = refusal(&["check", "/tmp"], &[STUB, ("RUN_AS", "nobody")]);
        assert!(said.starts_with("svc: error: RUN_AS: \"nobody\" cannot be used (only root can"), "{said}");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().to_str().unwrap();
    for word in ["check", "serve"] {
        let environment = [STUB, ("LISTEN_ADDR", "127.0.0.1:0"), ("SPOOL_DIR", path), ("RUN_AS", "nobody")];
        let said = refusal(&[word, "/tmp"], &environment);
        assert!(said.starts_with(&format!("svc: error: SPOOL_DIR: {path:?}: ")), "{word}: {said}");
        assert!(said.contains("Permission denied"), "{word}: {said}");
    }
    accepted(&["check", "/tmp"], &[STUB, ("SPOOL_DIR", path)]);
    accepted(&["check", "/tmp"], &[STUB, ("RUN_AS", "nobody")]);
}

/// PHP itself prints such a message, uses the lines before the error, and continues.
#[cfg(feature = "php")]
#[test]
fn a_malformed_ini_file_stops_the_start_and_the_check() {
    let folder = tempfile::tempdir().unwrap();
    let (main, scanned) = (folder.path().join("php.ini"), folder.path().join("conf.d"));
    fs::create_dir(&scanned).unwrap();
    let (other, good) = (scanned.join("20-broken.ini"), scanned.join("10-good.ini"));
    fs::write(&good, "; nothing\nprecision = 10\n").unwrap();
    fs::write(&main, "memory_limit = 99M\nprecision = (1\n").unwrap();
    fs::write(&other, "; a comment\n\n[section\nprecision = 12\n").unwrap();
    let (main, scanned) = (main.to_str().unwrap(), scanned.to_str().unwrap());
    let other = other.to_str().unwrap();
    let listen = ("LISTEN_ADDR", "127.0.0.1:0");
    for (settings, files) in [
        (vec![("PHPRC", main)], vec![main]),
        (vec![("PHP_INI_SCAN_DIR", scanned)], vec![other]),
        (vec![("PHPRC", main), ("PHP_INI_SCAN_DIR", scanned)], vec![main, other]),
    ] {
        for word in ["check", "serve"] {
            let said = refusal(&[word, "/tmp"], &[&settings[..], &[listen]].concat());
            assert_eq!(said.lines().count(), files.len(), "{said}");
            for (line, file) in said.lines().zip(&files) {
                let place = format!(" in {file} on line ");
                assert!(line.starts_with("svc: error: "), "{word}: {line}");
                assert!(line.contains("malformed directives: syntax error, "), "{word}: {line}");
                assert!(line.contains(&place), "{word}: {line}");
            }
        }
    }
    let words = ["/tmp", "-d", "precision=9", "-d", "error_reporting=E_ALL & (1"];
    for word in ["check", "serve"] {
        let said = refusal(&[&[word][..], &words].concat(), &[listen]);
        assert!(said.ends_with(" in the directives of -d\n"), "{said}");
    }
    // ini texts that a script parses are not checked.
    let page = "<?php var_dump(@parse_ini_string('a = (1'));";
    let server = Svc::start(&[("index.php", page)], &[("PHP_INI_SCAN_DIR", "")]);
    assert_eq!(server.get("/").text(), "bool(false)\n");
}

#[cfg(feature = "php")]
#[test]
fn a_php_that_cannot_start_its_modules_is_a_fault_of_the_settings() {
    let folder = tempfile::tempdir().unwrap();
    let script = folder.path().join("preload.php");
    fs::write(&script, "<?php\nthrow new Exception('no preload');").unwrap();
    let preload = format!("opcache.preload={}", script.display());
    // PHP ends the process by itself in the first case.
    let cases = [
        (vec!["-d", "opcache.memory_consumption=200000000"], "Unable to allocate shared memory segment", ""),
        (
            vec!["-d", &preload, "-d", "opcache.preload_user=root"],
            "Uncaught Exception: no preload",
            "svc: error: cannot start PHP: cannot start PHP's modules\n",
        ),
    ];
    for (words, reason, end) in cases {
        for word in ["check", "serve"] {
            let output = svc(&[&[word, "/tmp"][..], &words].concat(), &[("LISTEN_ADDR", "127.0.0.1:0")]);
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            assert_eq!(output.status.code(), Some(2), "{word} {words:?}: {said}");
            assert!(said.ends_with(end), "{word} {words:?}: {said}");
            let records = String::from_utf8_lossy(&output.stdout).into_owned();
            assert!((said + &records).contains(reason), "{word} {words:?}");
            if word == "check" && !end.is_empty() {
                let said = String::from_utf8_lossy(&output.stderr);
                assert!(said.lines().all(|line| line.starts_with("svc: error: ")), "{said}");
            }
        }
    }
}

/// Returns the warnings of a server's log and of a check, as sets of their common text.
#[cfg(feature = "php")]
#[test]
fn the_check_and_the_start_have_the_same_warnings() {
    let root = tempfile::tempdir().unwrap();
    for name in ["composer.json", "tasks.php"] {
        fs::write(root.path().join(name), "{}").unwrap();
    }
    #[cfg(feature = "async")]
    let tasks = root.path().join("tasks.php");
    let nothing: &[(&str, &str)] = &[];
    #[cfg(feature = "trace")]
    let traces: &[_] =
        &[("OTEL_ENABLED", "true"), ("OTEL_BSP_SCHEDULE_DELAY", "soon"), ("OTEL_TRACES_SAMPLER", "dice")];
    #[cfg(feature = "worker")]
    let hooks: &[_] = &[("RUNTIME_HOOKS", "all")];
    #[cfg(feature = "async")]
    let entry: &[_] = &[("ASYNC_WORKERS", "1"), ("ASYNC_ENTRY_FILE", tasks.to_str().unwrap())];
    let shared: &[_] = &[("LOG_LEVEL", "loud"), ("MAX_CONECTIONS", "7")];
    for (settings, directives, count) in [
        (nothing, &[][..], 1),
        #[cfg(feature = "trace")]
        (traces, &[], 3),
        #[cfg(feature = "worker")]
        (hooks, &[], 2),
        #[cfg(feature = "async")]
        (entry, &[], 2),
        (shared, &[], 3),
        (nothing, &["memory_limt=1G", "hard_timeout=5", "opcache.protect_memory=0", "precision=9"], 3),
        (nothing, &["opcache.enable=0"], 2),
    ] {
        let mut words = vec!["check", root.path().to_str().unwrap()];
        words.extend(directives.iter().flat_map(|directive| ["-d", directive]));
        let (_, said) = accepted(&words, settings);
        let checked: Vec<&str> = said.lines().filter(|line| line.starts_with("svc: warning: ")).collect();
        assert_eq!(checked.len(), count, "{settings:?} {directives:?}: {said}");
        let mut command = svc_testing::command(root.path(), settings);
        command.args(directives.iter().flat_map(|directive| ["-d", directive]));
        let mut server = Svc::spawn(tempfile::tempdir().unwrap(), command);
        let records = server.whole_log().of("svc");
        let logged = records.iter().filter(|record| record["level"] == "WARN").count();
        assert_eq!(logged, count, "{settings:?} {directives:?}: {records:#?}");
    }
}
