//! From a name in the settings to a started plugin: what is loaded, which errors stop the start, the effects of `svc
//! check`, and the order of callbacks.

use std::fs;

use svc_testing::client::eventually;
use svc_testing::plugins::{Plugins, open_to_others};
use svc_testing::{Svc, c, command};

#[test]
fn a_plugin_lives_from_init_to_stop() {
    let plugins = Plugins::hostile(&[]);
    let mut svc = plugins.start(&[], &[]);
    eventually("it was asked", || plugins.trace().len() > 6);
    let loaded = svc.log().expect("plugin is loaded");
    assert_eq!(
        (&loaded["fields"]["plugin"], &loaded["fields"]["version"]),
        (&"hostile".into(), &"0.9-hostile".into())
    );
    let said = svc.log().expect("hello from the plugin");
    assert_eq!((&said["target"], &said["level"]), (&"plugin".into(), &"WARN".into()));
    assert_eq!(said["fields"]["plugin"], "hostile");
    svc.stop();
    let trace = plugins.trace();
    assert_eq!(trace[..5], ["init", "start", "health", "metrics", "config"]);
    assert_eq!(trace.last().unwrap(), "stop");
    assert_eq!(trace.iter().filter(|call| *call == "stop").count(), 1);
}

#[test]
fn a_plugin_that_cannot_be_used_stops_the_start_with_a_reason() {
    let one = |name: &str, flags: &[&str]| Plugins::none().with(name, flags, &[]);
    let cases = [
        (
            one("a", &["-DWITHOUT_ENTRY", "-Wno-error", "-w"]),
            "has no entry: it does not export svc_plugin_entry",
        ),
        (one("a", &["-DABI=2"]), "has ABI 2, wanted 1"),
        (one("a", &["-DVERSION=\"\""]), "has no valid version: wanted 1 to 256 bytes of UTF-8"),
        (one("a", &["-DENTRY_FAILS"]), "svc_plugin_entry failed: no licence"),
        (one("a", &["-DSMALL"]), "has a struct svc_plugin of 24 bytes, wanted at least 120"),
    ];
    for (plugins, why) in &cases {
        for command in [None, Some("check")] {
            let (code, errors) = plugins.refused(command, &[]);
            let path = plugins.path("a.so");
            assert_eq!(errors, format!("svc: error: PLUGINS: {path:?} {why}\n"), "{command:?}");
            assert_eq!(code, 2);
        }
        assert!(plugins.trace().is_empty());
    }
}

#[test]
fn a_plugin_with_a_name_that_is_none_stops_the_start_and_the_check() {
    let long = "x".repeat(33);
    for name in ["Bad-Name", "1st", "ein-name", &long] {
        let plugins = Plugins::none().with(name, &[], &[]);
        let path = plugins.path(&format!("{name}.so"));
        for command in [None, Some("check")] {
            let (code, errors) = plugins.refused(command, &[]);
            let why = "accepted: up to 32 lower-case letters, digits and underscores, a letter first";
            assert_eq!(errors, format!("svc: error: PLUGINS: {path:?} calls itself {name:?}; {why}\n"));
            assert_eq!(code, 2, "{command:?}");
        }
        assert!(plugins.trace().is_empty());
    }
    let name = "x".repeat(32);
    assert_eq!(Plugins::none().with(&name, &[], &[]).refused(Some("check"), &[]), (0, String::new()));
}

#[test]
fn a_file_that_is_missing_invalid_or_writable_by_others_is_not_loaded() {
    let refused = |plugins: &Plugins, entry: &str| plugins.refused(Some("check"), &[("PLUGINS", entry)]);
    let plugins = Plugins::none().with("a", &[], &[]);
    let path = |name: &str| plugins.path(name).to_str().unwrap().to_owned();
    let (code, errors) = refused(&plugins, &path("none.so"));
    assert!(code == 2 && errors.contains("is not found: No such file"), "{errors}");
    let (_, errors) = refused(&plugins, plugins.path("").to_str().unwrap());
    assert!(errors.contains("not a regular file"), "{errors}");
    fs::write(plugins.path("text.so"), "text").unwrap();
    let (_, errors) = refused(&plugins, &path("text.so"));
    assert!(errors.contains("cannot be loaded"), "{errors}");
    // The checks apply to the target of a link.
    std::os::unix::fs::symlink(plugins.path("a.so"), plugins.path("link.so")).unwrap();
    assert_eq!(refused(&plugins, &path("link.so")), (0, String::new()));
    open_to_others(&plugins.path("a.so"));
    for name in ["a.so", "link.so"] {
        let (code, errors) = refused(&plugins, &path(name));
        assert!(code == 2 && errors.contains("a.so is writable by others"), "{errors}");
    }
    let plugins = Plugins::none().with("a", &[], &[]);
    open_to_others(&plugins.path(""));
    let (code, errors) = plugins.refused(None, &[]);
    assert!(code == 2 && errors.contains("is writable by others"), "{errors}");
}

#[test]
fn other_users_cannot_redirect_the_path_of_a_plugin() {
    let plugins = Plugins::none().with("a", &[], &[]);
    let refused = |path: &str, what: &str| {
        let entry = plugins.path(path);
        for command in [Some("check"), None] {
            let (code, errors) = plugins.refused(command, &[("PLUGINS", entry.to_str().unwrap())]);
            let what = fs::canonicalize(plugins.path(what)).unwrap();
            let why = format!("svc: error: PLUGINS: {entry:?} {} is writable by others\n", what.display());
            assert_eq!((code, errors), (2, why));
        }
    };
    fs::create_dir_all(plugins.path("open/sub")).unwrap();
    fs::copy(plugins.path("a.so"), plugins.path("open/sub/a.so")).unwrap();
    std::os::unix::fs::symlink(plugins.path("a.so"), plugins.path("open/link.so")).unwrap();
    std::os::unix::fs::symlink("open/sub", plugins.path("there")).unwrap();
    open_to_others(&plugins.path("open"));
    for path in ["open/link.so", "open/sub/a.so", "there/a.so"] {
        refused(path, "open");
    }
}

#[test]
fn an_error_of_init_stops_the_start_and_stops_the_plugins_before_it() {
    let plugins = Plugins::none().with("a", &[], &[]).with("b", &[], &[("FAIL", "init")]);
    let (code, errors) = plugins.refused(None, &[]);
    assert_eq!((code, errors.as_str()), (1, "svc: error: plugin b: init failed: as it was told\n"));
    assert_eq!(plugins.trace(), ["init", "init", "stop"]);
}

#[test]
fn a_check_loads_and_does_not_initialise() {
    let plugins = Plugins::hostile(&[("FAIL", "init")]);
    assert_eq!(plugins.refused(Some("check"), &[]), (0, String::new()));
    assert!(plugins.trace().is_empty());
}

#[test]
fn a_name_leads_to_a_file_beside_the_binary() {
    // A copy of the binary, so that the test controls the files beside it.
    let home = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let (bin, lib) = (home.path().join("bin"), home.path().join("lib/svc/plugins"));
    fs::create_dir_all(&bin).unwrap();
    fs::create_dir_all(&lib).unwrap();
    let svc = bin.join("svc");
    if fs::hard_link(env!("CARGO_BIN_EXE_svc"), &svc).is_err() {
        fs::copy(env!("CARGO_BIN_EXE_svc"), &svc).unwrap();
    }
    let source = include_str!("../../plugins/hostile.c");
    c::plugin(source, &lib.join("named.so"), &["-DNAME=\"named\""]);
    c::plugin(source, &lib.join("other.so"), &["-DNAME=\"named\""]);
    let check = |names: &str| {
        let plain = command(home.path(), &[("PLUGINS", names), ("EXECUTOR", "stub")]);
        let mut check = std::process::Command::new(&svc);
        check
            .env_clear()
            .arg("check")
            .envs(plain.get_envs().filter_map(|(name, value)| Some((name, value?))));
        let output = check.output().unwrap();
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    };
    assert_eq!(check("named"), (Some(0), String::new()));
    let (code, errors) = check("other");
    assert!(code == Some(2) && errors.contains("other.so\" calls itself \"named\""), "{errors}");
    let (code, errors) = check("missing");
    assert!(code == Some(2) && errors.contains("lib/svc/plugins/missing.so\" is not found"), "{errors}");
    let (code, errors) = check("apm");
    assert_eq!(
        (code, errors.as_str()),
        (
            Some(2),
            "svc: error: PLUGINS: \"apm\" requires OTEL_ENABLED=true: it adds spans to the traces of requests\n"
        )
    );
    let both = format!("named,{}", lib.join("other.so").display());
    let (code, errors) = check(&both);
    assert!(code == Some(2) && errors.contains("as another plugin does"), "{errors}");
}

#[test]
fn settings_go_to_the_plugin_with_the_longest_name() {
    let plugins = Plugins::none().with("a", &[], &[("X", "1"), ("B_X", "2")]).with("a_b", &[], &[("Y", "")]);
    let svc = plugins.start(&[], &[("PLUGIN_C_X", "of nobody")]);
    let setting = |plugin: &str, key: &str| {
        let mut answer = String::new();
        eventually("it has started", || {
            let response = svc.ask(&format!("/plugins/{plugin}/setting/{key}"));
            answer = response.text();
            response.status == 200
        });
        answer
    };
    assert_eq!((setting("a", "X"), setting("a", "B_X")), ("1".to_owned(), String::new()));
    assert_eq!((setting("a_b", "X"), setting("a_b", "Y")), ("2".to_owned(), String::new()));
}

#[test]
fn a_plugin_beside_php_sees_its_requests() {
    let plugins = Plugins::hostile(&[]);
    let files = [("a b.php", "<?php echo 'hello';"), ("a.txt", "text")];
    let svc = plugins.start(&files, &[("EXECUTOR", "sapi")]);
    let last = || svc.ask("/plugins/hostile/facts").text();
    eventually("it has started", || svc.ask("/plugins/hostile/facts").status == 200);
    let sees = |path: &str, facts: &str| {
        svc.get(path);
        eventually(facts, || last().starts_with(facts));
    };
    sees("/a%20b.php?secret", "GET /a%20b.php HTTP/1.1 127.0.0.1 200 5 1 1");
    sees("/a.txt", "GET /a.txt HTTP/1.1 127.0.0.1 200 4 1 0");
    sees("/none", "GET /none HTTP/1.1 127.0.0.1 404 ");
    drop(svc);
}

#[cfg(feature = "worker")]
#[test]
fn a_plugin_beside_worker_mode_and_hooks_waits_on_its_own_thread() {
    // It sleeps and reads files, through functions that the server defines before libc.
    let plugins = Plugins::hostile(&[("HANG", "health")]);
    let code = "<?php Svc\\Worker::serve(function () { usleep(1000); echo file_get_contents(__DIR__ . '/a.txt'); });";
    let mode = [
        ("EXECUTOR", "sapi"),
        ("WORKER_MODE_ENABLED", "true"),
        ("ENTRY_FILE", "app.php"),
        ("RUNTIME_HOOKS", "all"),
    ];
    let mut svc = plugins.start(&[("app.php", code), ("a.txt", "text")], &mode);
    eventually("it hangs", || plugins.trace().contains(&"health".to_owned()));
    assert_eq!(svc.get("/x").text(), "text");
    plugins.release();
    let last = || svc.ask("/plugins/hostile/facts").text();
    eventually("it has seen it", || last().starts_with("GET /x HTTP/1.1 127.0.0.1 200 4 1 1"));
    svc.stop();
    assert_eq!(plugins.trace().last().unwrap(), "stop");
}

#[test]
fn without_plugins_nothing_is_different() {
    let svc = Svc::start(&[], &[("EXECUTOR", "stub")]);
    assert_eq!(svc.ask("/plugins/hostile/").status, 404);
    assert!(!svc.ask("/metrics").text().contains("svc_plugin"));
    let config: serde_json::Value = serde_json::from_slice(&svc.ask("/config").body).unwrap();
    assert_eq!(config["plugins"], serde_json::json!({}));
}
