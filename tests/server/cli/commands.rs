//! The commands other than `serve`: check, php, reload, stop, help, completions, man.

use std::fs;
#[cfg(feature = "php")]
use std::io::Write;
use std::process::Command;
#[cfg(feature = "php")]
use std::process::Stdio;

use rustix::process::{Pid, Signal, kill_process, test_kill_process};

use crate::cli::settings::{accepted, refusal, svc};
use svc_testing::Svc;
#[cfg(feature = "php")]
use svc_testing::client::eventually;

const STUB: (&str, &str) = ("EXECUTOR", "stub");

/// Returns the path of a file that does not exist yet, in a separate folder.
fn scratch(name: &str) -> (tempfile::TempDir, String) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(name).to_str().unwrap().to_owned();
    (folder, path)
}

#[test]
fn a_server_is_stopped_by_its_pid_file_and_leaves_none() {
    let (_folder, path) = scratch("svc.pid");
    let mut server = Svc::start(&[], &[STUB, ("PID_FILE", &path)]);
    let pid = server.pid().as_raw_pid();
    assert_eq!(fs::read_to_string(&path).unwrap(), format!("{pid}\n"));
    let second = svc(&["serve", "/tmp", "--listen", "127.0.0.1:0", "--pid-file", &path], &[STUB]);
    assert_eq!(second.status.code(), Some(1));
    let said = String::from_utf8(second.stderr).unwrap();
    assert!(said.contains(&format!("belongs to a server that is running (process {pid})")), "{said}");
    accepted(&["reload", "--pid-file", &path], &[]);
    server.log().expect("reload finished");
    accepted(&["stop"], &[("PID_FILE", &path)]);
    // The stopped server is a zombie, which does not count as running; this process reaps it.
    assert_eq!(server.wait(), Some(0));
    assert!(!fs::exists(&path).unwrap());
}

#[cfg(feature = "php")]
#[test]
fn stopping_waits_for_requests_in_progress() {
    let (_folder, path) = scratch("svc.pid");
    let slow = (
        "index.php",
        "<?php touch(__DIR__ . '/began'); while (!file_exists(__DIR__ . '/go')) { usleep(1000); clearstatcache(); } echo 'done';",
    );
    let mut server = Svc::start(&[slow], &[("PID_FILE", &path)]);
    let mut client = server.client();
    client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    eventually("the request runs", || server.root().join("began").exists());
    let mut stop = Command::new(env!("CARGO_BIN_EXE_svc"))
        .arg("stop")
        .env_clear()
        .env("PID_FILE", &path)
        .spawn()
        .unwrap();
    server.log().expect("svc is draining");
    assert!(stop.try_wait().unwrap().is_none(), "the request is not finished");
    fs::write(server.root().join("go"), "").unwrap();
    assert_eq!(client.response().text(), "done");
    assert!(stop.wait().unwrap().success());
    assert_eq!(server.wait(), Some(0));
}

#[test]
fn a_stale_pid_file_signals_no_process() {
    let (_folder, path) = scratch("svc.pid");
    let ended = |words: &[&str]| {
        let output = svc(words, &[("PID_FILE", &path)]);
        assert_eq!(output.status.code(), Some(1));
        String::from_utf8(output.stderr).unwrap()
    };
    for word in ["stop", "reload"] {
        assert!(ended(&[word]).contains("does not exist: the server is not running"));
    }
    let mut stranger = Command::new("/bin/sleep").arg("1000").spawn().unwrap();
    fs::write(&path, stranger.id().to_string()).unwrap();
    let said = ended(&["stop"]);
    assert!(said.contains(&format!("(process {} is another one, \"sleep\")", stranger.id())), "{said}");
    assert!(stranger.try_wait().unwrap().is_none(), "it was killed");
    let pid = Pid::from_child(&stranger);
    kill_process(pid, Signal::KILL).unwrap();
    stranger.wait().unwrap();
    assert!(test_kill_process(pid).is_err());
    assert!(ended(&["stop"]).contains("there is no process"));
    fs::write(&path, "nonsense").unwrap();
    assert!(ended(&["stop"]).contains("contains no process ID"));
    assert!(refusal(&["stop"], &[]).contains("PID_FILE: is not set"));
    // A server replaces the old content.
    fs::write(&path, "nonsense").unwrap();
    Svc::start(&[], &[STUB, ("PID_FILE", &path)]).stop();
}

#[test]
fn a_killed_server_leaves_a_file_that_is_known_to_be_stale() {
    let (_folder, path) = scratch("svc.pid");
    let server = Svc::start(&[], &[STUB, ("PID_FILE", &path)]);
    drop(server);
    let output = svc(&["stop"], &[("PID_FILE", &path)]);
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8(output.stderr).unwrap().contains("is stale: the server is not running"));
}

#[test]
fn misspelt_words_are_reported_with_a_suggestion() {
    for (words, expected) in [
        (
            &["chekc"][..],
            "svc: error: \"chekc\": is neither a command nor a directory; did you mean check?\n",
        ),
        (&["--listn", ":80"], "svc: error: --listn: unknown option; did you mean --listen?\n"),
        (&["check", "--chnged"], "svc: error: --chnged: unknown option; did you mean --changed?\n"),
        (&["help", "chekc"], "svc: error: \"chekc\": unknown help topic; did you mean check?\n"),
        // The command's name in other servers.
        (&["start"], "svc: error: \"start\": is neither a command nor a directory; did you mean serve?\n"),
        (&["run", "/tmp"], "svc: error: \"run\": unknown command; did you mean serve?\n"),
        (
            &["configtest"],
            "svc: error: \"configtest\": is neither a command nor a directory; did you mean check?\n",
        ),
        (&["--port", "80"], "svc: error: --port: unknown option; did you mean --listen :PORT?\n"),
        (&["--port=80", "/tmp"], "svc: error: --port: unknown option; did you mean --listen :PORT?\n"),
        (
            &["serve", "--host", "::1"],
            "svc: error: --host: unknown option; did you mean --listen HOST:PORT?\n",
        ),
        (&["-p", "80"], "svc: error: -p: unknown option; did you mean --listen :PORT?\n"),
        (&["-t", "/srv"], "svc: error: -t: unknown option; did you mean svc serve DIR, or svc check?\n"),
        (&["stop", "--port", "80"], "svc: error: --port: unknown option; see svc help\n"),
    ] {
        assert_eq!(refusal(words, &[]), expected);
    }
    // A directory may have any name, even that of a command.
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("chekc")).unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_svc"))
        .args(["chekc", "-d", "=1"])
        .env_clear()
        .current_dir(folder.path())
        .output()
        .unwrap();
    assert!(String::from_utf8(output.stderr).unwrap().contains("-d: \"=1\" is not a valid directive"));
}

#[test]
fn check_shows_changed_settings_and_all_of_them_as_json() {
    let environment = [STUB, ("IO_WORKERS", "3"), ("LOG_LEVEL", "info")];
    let (page, _) = accepted(&["check", "/tmp", "--changed"], &environment);
    let names: Vec<_> = page.lines().map(|line| line.split_whitespace().next().unwrap()).collect();
    assert_eq!(names, ["LISTEN_ADDR", "DOCUMENT_ROOT", "EXECUTOR", "IO_WORKERS"], "{page}");
    let (page, _) = accepted(&["check", "/tmp", "--changed", "--json", "-d", "a=1"], &environment);
    let report: serde_json::Value = serde_json::from_str(&page).unwrap();
    let rows = report["settings"].as_array().unwrap();
    assert_eq!(
        rows[3],
        serde_json::json!({"name": "IO_WORKERS", "value": "3", "source": "environment", "is_default": false})
    );
    assert_eq!(
        (rows.len(), rows[4]["value"].as_str(), &report["php"]),
        (5, Some("a=1"), &serde_json::Value::Null)
    );
    let output = svc(&["check", "--json"], &[STUB, ("IO_WORKERS", "x")]);
    assert_eq!(output.status.code(), Some(2));
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(report["errors"][0].as_str().unwrap().starts_with("IO_WORKERS: \"x\""), "{report}");
}

#[test]
fn check_and_start_refuse_the_same_configurations() {
    let (folder, path) = scratch("php.ini");
    fs::write(folder.path().join("page.php"), "").unwrap();
    let settings = [
        ("SPOOL_DIR", "/proc", "SPOOL_DIR: \"/proc\": "),
        ("MAX_CONNECTIONS", "1000000", "MAX_CONNECTIONS: 1000000 requires"),
        ("TLS_CERT", "/nowhere.pem", "TLS_KEY: is not set"),
        ("PLUGINS", "/nowhere.so", "PLUGINS: \"/nowhere.so\""),
        ("ERROR_PAGES_DIR", "/nowhere", "ERROR_PAGES_DIR: "),
        ("DOCUMENT_ROOT", "/nowhere", "DOCUMENT_ROOT: "),
    ];
    for (name, value, start) in settings {
        if name == "MAX_CONNECTIONS"
            && rustix::process::getrlimit(rustix::process::Resource::Nofile)
                .maximum
                .is_none_or(|most| most > 1_100_000)
        {
            continue;
        }
        for word in ["check", "serve"] {
            let said = refusal(&[word], &[STUB, ("LISTEN_ADDR", "127.0.0.1:0"), (name, value)]);
            assert!(said.starts_with(&format!("svc: error: {start}")), "{word}: {said}");
        }
    }
    let several = refusal(&["check", "/tmp"], &[STUB, ("SPOOL_DIR", "/proc"), ("PLUGINS", "/nowhere.so")]);
    assert_eq!(several.lines().count(), 2, "{several}");
    if cfg!(not(feature = "php")) {
        return;
    }
    fs::write(&path, "extension = nowhere\n").unwrap();
    for (words, environment) in
        [(&["-d", "extension=nowhere"][..], vec![]), (&[], vec![("PHPRC", path.as_str())])]
    {
        for word in ["check", "serve"] {
            let environment = [&environment[..], &[("LISTEN_ADDR", "127.0.0.1:0")]].concat();
            let output = svc(&[&[word, "/tmp"], words].concat(), &environment);
            let said = String::from_utf8(output.stderr).unwrap();
            let expected = "Unable to load dynamic library 'nowhere'";
            assert!(!output.status.success() && said.contains(expected), "{word}: {said}");
        }
    }
}

#[cfg(feature = "php")]
#[test]
fn check_lists_ini_files_and_extensions() {
    let (_folder, path) = scratch("php.ini");
    fs::write(&path, "memory_limit = 99M\n").unwrap();
    let (page, said) = accepted(&["check", "/tmp", "-d", "memory_limt=1G"], &[("PHPRC", &path)]);
    assert!(page.contains(&format!("\nini file: {path}\n")), "{page}");
    assert!(page.contains("\nextensions: Core, "), "{page}");
    assert!(
        said.contains("svc: warning: -d: \"memory_limt\" is not a directive of PHP or its extensions\n"),
        "{said}"
    );
    let (page, _) = accepted(&["check", "/tmp", "--json"], &[("PHPRC", &path)]);
    let report: serde_json::Value = serde_json::from_str(&page).unwrap();
    assert_eq!(report["php"]["ini_files"][0], path);
    assert_eq!(report["php"]["extensions"]["Core"], report["php"]["version"]);
}

#[cfg(feature = "php")]
#[test]
fn php_is_the_one_of_the_build_with_the_same_ini_and_extensions() {
    let (_folder, path) = scratch("php.ini");
    fs::write(&path, "memory_limit = 99M\n").unwrap();
    let environment = [("PHPRC", path.as_str())];
    let code = "echo json_encode([PHP_SAPI, PHP_BINARY, (int) PHP_ZTS, PHP_VERSION, ini_get('memory_limit'), \
                get_loaded_extensions(), php_ini_loaded_file(), php_ini_scanned_files(), array_slice($argv, 1)]);";
    let (printed, _) = accepted(&["php", "-r", code, "--", "-d", "x", ""], &environment);
    let of_cli: serde_json::Value = serde_json::from_str(&printed).unwrap();
    let binary = of_cli[1].as_str().unwrap();
    assert!(of_cli[0] == "cli" && of_cli[2] == 1 && binary.ends_with("/bin/php"), "{of_cli}");
    assert!(std::path::Path::new(binary).is_file());
    assert_eq!((&of_cli[4], &of_cli[8]), (&"99M".into(), &serde_json::json!(["-d", "x", ""])));
    let (page, _) = accepted(&["check", "/tmp", "--json"], &environment);
    let of_server: serde_json::Value = serde_json::from_str(&page).unwrap();
    assert_eq!(of_server["php"]["version"], of_cli[3]);
    assert_eq!(of_server["php"]["ini_files"][0], of_cli[6]);
    let names: std::collections::BTreeSet<_> =
        of_server["php"]["extensions"].as_object().unwrap().keys().map(String::as_str).collect();
    let loaded: Vec<_> = of_cli[5].as_array().unwrap().iter().map(|name| name.as_str().unwrap()).collect();
    let (missing, own): (Vec<_>, Vec<_>) = (
        loaded.iter().filter(|name| !names.contains(*name)).collect(),
        names.iter().filter(|name| !loaded.contains(name)).collect(),
    );
    assert_eq!(missing, [&"readline"][..missing.len().min(1)], "the command line alone has readline");
    assert_eq!(own, [&"svc"][..own.len().min(1)], "svc's own functions");
}

#[cfg(feature = "php")]
#[test]
fn php_takes_the_place_of_the_process() {
    let mut child = Command::new(env!("CARGO_BIN_EXE_svc"))
        .args(["php", "-r", "echo getmypid(), fgets(STDIN); exit(7);"])
        .env_clear()
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(b" hello").unwrap();
    let pid = child.id();
    let output = child.wait_with_output().unwrap();
    assert_eq!(String::from_utf8(output.stdout).unwrap(), format!("{pid} hello"));
    assert_eq!(output.status.code(), Some(7));
}

#[cfg(feature = "php")]
#[test]
fn a_file_of_variables_and_options_reach_php() {
    let (_folder, path) = scratch("svc.env");
    fs::write(&path, "DATABASE=\"a b\"\nHOME=/nowhere\n").unwrap();
    let root = tempfile::tempdir().unwrap();
    fs::write(
        root.path().join("show.php"),
        "<?php echo getenv('DATABASE'), ' ', getenv('HOME'), ' ', shell_exec('echo $DATABASE');",
    )
    .unwrap();
    let mut command = svc_testing::command(root.path(), &[("HOME", "/root"), ("PATH", "/usr/bin:/bin")]);
    command.args(["serve", "--env-file", &path]);
    let svc = Svc::spawn(root, command);
    assert_eq!(svc.get("/show.php").text(), "a b /root a b\n");
}

#[cfg(feature = "worker")]
#[test]
fn a_worker_is_chosen_by_an_option() {
    let root = tempfile::tempdir().unwrap();
    let script = "<?php $n = 0; Svc\\Worker::serve(function () use (&$n) { echo ++$n; });";
    fs::write(root.path().join("worker.php"), script).unwrap();
    let mut command = svc_testing::command(root.path(), &[]);
    command.args(["--worker", "worker.php", "--workers", "1"]);
    let svc = Svc::spawn(root, command);
    assert_eq!((svc.get("/a").text(), svc.get("/b").text()), ("1".to_owned(), "2".to_owned()));
}

#[test]
fn help_tells_each_command() {
    let (overview, _) = accepted(&["help"], &[]);
    for command in
        ["serve", "check", "reload", "stop", "healthcheck", "php", "version", "completions", "man", "help"]
    {
        assert!(overview.contains(&format!("\n  {command} ")), "{command}");
        let (page, _) = accepted(&["help", command], &[]);
        assert!(page.starts_with(&format!("Usage: svc {command}")), "{page}");
        if command != "php" {
            assert_eq!(accepted(&[command, "--help"], &[]).0, page);
        }
    }
}

#[test]
fn bash_completes_commands_options_and_values() {
    let (script, _) = accepted(&["completions", "bash"], &[]);
    let (folder, path) = scratch("svc.bash");
    fs::write(&path, script).unwrap();
    fs::create_dir(folder.path().join("checked")).unwrap();
    let completed = |line: &str| {
        let words: Vec<String> = line.split(' ').map(|word| format!("'{word}'")).collect();
        let program = format!(
            "source '{path}'; COMP_WORDS=({}); COMP_CWORD={}; _svc; printf '%s\\n' \"${{COMPREPLY[@]}}\"",
            words.join(" "),
            words.len() - 1
        );
        let output =
            Command::new("bash").args(["-uc", &program]).current_dir(folder.path()).output().unwrap();
        assert!(output.status.success(), "{line}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap().split_whitespace().map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(completed("svc che"), ["check", "checked"]);
    assert_eq!(completed("svc check --ch"), ["--changed"]);
    assert_eq!(completed("svc --lis"), ["--listen"]);
    assert_eq!(completed("svc serve --env-file sv"), ["svc.bash"]);
    assert_eq!(completed("svc healthcheck l"), ["liveness"]);
    assert_eq!(completed("svc completions "), ["bash", "zsh", "fish"]);
    assert_eq!(completed("svc version x"), Vec::<String>::new());
}

#[cfg(feature = "php")]
#[test]
fn scripts_of_other_shells_are_understood_by_them() {
    for (shell, option) in [("zsh", "-n"), ("fish", "--no-execute")] {
        let (_folder, path) = scratch("svc.script");
        fs::write(&path, accepted(&["completions", shell], &[]).0).unwrap();
        let Some(program) = svc_testing::daemon::find(shell) else { continue };
        let output = Command::new(program).args([option, &path]).output().unwrap();
        assert!(output.status.success(), "{shell}: {}", String::from_utf8_lossy(&output.stderr));
    }
}

#[cfg(feature = "php")]
#[test]
fn the_manual_is_understood_by_man() {
    let (_folder, path) = scratch("svc.1");
    fs::write(&path, accepted(&["man"], &[]).0).unwrap();
    let Some(groff) = svc_testing::daemon::find("groff") else { return };
    let output = Command::new(groff).args(["-man", "-Tascii", "-ww", "-P-cbou", &path]).output().unwrap();
    assert!(output.status.success());
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
    let text = String::from_utf8_lossy(&output.stdout);
    for words in [
        "NAME",
        "svc - a PHP application server",
        "svc check [OPTIONS] [DIR]",
        "--env-file FILE",
        "LISTEN_ADDR",
    ] {
        assert!(text.contains(words), "{words}");
    }
}

#[test]
fn stubs_are_written_for_editors() {
    let (folder, path) = scratch("project/ide");
    let (said, _) = accepted(&["stubs", &path], &[]);
    assert_eq!(said.trim_end(), format!("{path}/svc.php"));
    let own = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/stubs/svc.php")).unwrap();
    assert_eq!(fs::read_to_string(format!("{path}/svc.php")).unwrap(), own);
    accepted(&["stubs", &path], &[]);
    let code = "<?php // What an application calls svc.php\n";
    fs::write(folder.path().join("svc.php"), code).unwrap();
    let refused = svc(&["stubs", folder.path().to_str().unwrap()], &[]);
    assert_eq!(refused.status.code(), Some(1));
    assert_eq!(fs::read_to_string(folder.path().join("svc.php")).unwrap(), code);
    fs::write(folder.path().join("file"), "").unwrap();
    let refused = svc(&["stubs", folder.path().join("file").to_str().unwrap()], &[]);
    assert_eq!(refused.status.code(), Some(1));
    let missing = svc(&["stubs"], &[]);
    assert_eq!(missing.status.code(), Some(2));
    assert!(String::from_utf8(missing.stderr).unwrap().contains("DIR"));
}

#[test]
fn help_begins_with_the_first_steps() {
    let (help, _) = accepted(&["help"], &[]);
    let places: Vec<_> = [
        "Start here:",
        "Serve an application:",
        "Operate a server:",
        "Write an application:",
        "Look something up:",
    ]
    .map(|title| help.find(title).unwrap_or_else(|| panic!("{title}: {help}")))
    .to_vec();
    assert!(places.is_sorted());
    assert!(help.contains("svc dev"));
}
