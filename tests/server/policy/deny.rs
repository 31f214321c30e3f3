//! Denied paths, from outside: `.svcdeny` and `PHP_DENY_PATHS` in every routing mode.

use std::process::{Output, Stdio};

use rustix::process::Signal;
use svc_testing::client::eventually;
use svc_testing::{Svc, command};

const RUN: &str = "<?php echo 'ran ', $_SERVER['SCRIPT_NAME'];";

const FILES: &[(&str, &str)] = &[
    ("index.php", RUN),
    ("app.html", "app"),
    ("admin/index.php", RUN),
    ("admin/photo.jpg", "photo"),
    ("private/index.html", "hidden"),
    ("private/a/b.txt", "hidden"),
    ("uploads/index.php", RUN),
    ("uploads/x.php", RUN),
    ("uploads/x.txt", "shown"),
    ("dump.sql", "hidden"),
    ("open.txt", "shown"),
    ("other.php", RUN),
];

/// The routing modes, by entry file.
const MODES: [&[(&str, &str)]; 3] = [&[], &[("ENTRY_FILE", "index.php")], &[("ENTRY_FILE", "app.html")]];

fn start(rules: Option<&str>, settings: &[(&str, &str)]) -> Svc {
    let mut files = FILES.to_vec();
    if let Some(rules) = rules {
        files.push((".svcdeny", rules));
    }
    Svc::start(&files, settings)
}

/// The example of docs/migrating.md for files that a front controller creates when they are missing.
#[cfg(feature = "php")]
#[test]
fn scripts_are_denied_where_missing_files_are_made() {
    let page = include_str!("../../../docs/migrating.md");
    let row = page.lines().find(|line| line.contains("image styles of Drupal")).unwrap();
    let (_, pattern) = row.split_once("PHP_DENY_PATHS='").unwrap();
    let pattern = pattern.split('\'').next().unwrap();
    let files = [
        ("index.php", RUN),
        ("sites/default/files/x.php", RUN),
        ("sites/default/files/styles/y.php", RUN),
        ("sites/default/files/a.png", "image"),
    ];
    let svc = Svc::start(&files, &[("ENTRY_FILE", "index.php"), ("PHP_DENY_PATHS", pattern)]);
    for path in ["x.php", "x.php/a.png", "X.PHP", "styles/y.php", "missing.php"] {
        assert_eq!(svc.get(&format!("/sites/default/files/{path}")).status, 404, "{path}");
    }
    assert_eq!(svc.get("/sites/default/files/a.png").text(), "image");
    assert_eq!(svc.get("/sites/default/files/styles/missing.png").text(), "ran /index.php");
}

#[test]
fn a_rule_denies_in_every_mode_however_the_path_is_written() {
    for mode in MODES {
        let svc = start(Some("private/\n*.sql\n/admin/index.php\n"), mode);
        let mut client = svc.client();
        let denied = [
            "/private",
            "/private/",
            "/private/a/b.txt",
            "/private/nothing",
            "/PRIVATE/a/b.txt",
            "/%70rivate/",
            "//private//a/b.txt",
            "/./private/",
            "/open/../private/",
            "/open/%2e%2e/private/",
            "/open%2f..%2fprivate/",
            "/private%2fa%2fb.txt",
            "/dump.sql",
            "/dump.SQL",
            "/dump.sql/",
            "/dump.sql/x.php",
            "/d%75mp.sql?x",
            "/admin/index.php",
            "/admin/index.php/",
            "/admin/index.php/foo",
            "/Admin/Index.php",
        ];
        for path in denied {
            let response = client.get(path);
            assert_eq!(
                (response.status, response.text().as_str()),
                (404, "404 Not Found\n"),
                "{mode:?} {path}"
            );
        }
        let mut count = denied.len();
        if mode != MODES[2] {
            // The index file's name does not appear in the path.
            assert_eq!(client.get("/admin/").status, 404, "{mode:?}");
            count += 1;
        }
        svc.assert_metric("svc_path_deny_total", count as f64);
        for (path, text) in
            [("/open.txt", "shown"), ("/admin/photo.jpg", "photo"), ("/other.php", "ran /other.php")]
        {
            assert_eq!(client.get(path).text(), text, "{mode:?} {path}");
        }
        // Tricks that name another file or none, and do not show denied content either.
        for path in [
            "/dump.sql%00",
            "/dump.sql%20",
            "/dump.sql.",
            "/private\\a\\b.txt",
            "/private%c0%afa/b.txt",
            "/dump%c0%ae.sql",
        ] {
            assert!(!client.get(path).text().contains("hidden"), "{mode:?} {path}");
        }
        let report: serde_json::Value = serde_json::from_str(&svc.ask("/config").text()).unwrap();
        assert_eq!(report["deny_file"]["loaded"], true);
    }
}

#[test]
fn the_front_controller_of_all_paths_is_not_denied() {
    let svc = start(Some("*.php\n"), &[("ENTRY_FILE", "index.php")]);
    let mut client = svc.client();
    for path in ["/posts/1", "/"] {
        assert_eq!(client.get(path).text(), "ran /index.php", "{path}");
    }
    for path in ["/index.php", "/index.php/posts/1", "/other.php", "/uploads/", "/admin/"] {
        assert_eq!(client.get(path).status, 404, "{path}");
    }
    let svc = start(Some("*.html\n"), &[("ENTRY_FILE", "app.html")]);
    assert_eq!(svc.get("/some/view").text(), "app");
    assert_eq!(svc.get("/app.html").status, 404);
    // Without an entry file, the path names the index.
    assert_eq!(start(Some("*.php\n"), &[]).get("/").status, 404);
}

#[test]
fn php_does_not_run_at_denied_patterns_and_files_are_served() {
    for mode in MODES {
        let settings = [mode, &[("PHP_DENY_PATHS", "/uploads/**,admin/*.php")]].concat();
        let svc = start(None, &settings);
        let mut client = svc.client();
        let denied = [
            "/uploads/x.php",
            "/uploads/X.PHP",
            "/uploads/x.php/",
            "/uploads/x.php/foo",
            "/uploads/%78.php",
            "//uploads//x.php",
            "/uploads/none.php",
            "/admin/index.php",
            "/admin/index.php/foo",
            "/a/../uploads/x.php",
        ];
        for path in denied {
            assert_eq!(client.get(path).status, 404, "{mode:?} {path}");
        }
        // These paths name no script but lead to one.
        let mut count = denied.len();
        if mode != MODES[2] {
            for path in ["/uploads/", "/admin/"] {
                assert_eq!(client.get(path).status, 404, "{mode:?} {path}");
                count += 1;
            }
        }
        if mode == MODES[1] {
            // The front controller does not answer either.
            assert_eq!(client.get("/uploads/none.jpg").status, 404);
            count += 1;
        }
        svc.assert_metric("svc_php_deny_total", count as f64);
        svc.assert_metric("svc_path_deny_total", 0.0);
        for (path, text) in
            [("/uploads/x.txt", "shown"), ("/admin/photo.jpg", "photo"), ("/other.php", "ran /other.php")]
        {
            assert_eq!(client.get(path).text(), text, "{mode:?} {path}");
        }
        let report: serde_json::Value = serde_json::from_str(&svc.ask("/config").text()).unwrap();
        assert_eq!(report["deny_file"]["loaded"], false);
    }
}

#[test]
fn a_path_that_both_deny_counts_as_a_denied_path() {
    let svc = start(Some("/uploads/\n/admin/index.php\n"), &[("PHP_DENY_PATHS", "/uploads/**,/admin/**")]);
    for path in ["/uploads/x.php", "/admin/"] {
        assert_eq!(svc.get(path).status, 404, "{path}");
    }
    svc.assert_metric("svc_path_deny_total", 2.0);
    svc.assert_metric("svc_php_deny_total", 0.0);
}

#[test]
fn private_files_count_separately_unless_a_rule_or_pattern_denies_them_too() {
    let files = [
        (".svcdeny", "/dumps/\nown.log\n"),
        ("a.log", "hidden"),
        ("own.log", "hidden"),
        ("dumps/a.sql", "hidden"),
        ("vendor/autoload.php", RUN),
        ("vendor/index.php", RUN),
        ("vendor/tool/index.php", RUN),
        ("vendor/tool/a.css", "hidden"),
        ("notes/own.log/a.txt", "hidden"),
    ];
    for mode in MODES {
        let svc = Svc::start(
            &[&files[..], FILES].concat(),
            &[mode, &[("PHP_DENY_PATHS", "/vendor/*.php")]].concat(),
        );
        let mut counts = [0.0; 3];
        for (path, counted_as) in [
            ("/a.log", 2),
            ("/A.LOG", if mode.is_empty() { 3 } else { 4 }),
            ("/own.log", 0),
            ("/dumps/a.sql", 0),
            ("/notes/own.log/a.txt", 0),
            ("/vendor/autoload.php", 1),
            ("/vendor/", if mode == MODES[2] { 4 } else { 1 }),
            ("/vendor/tool/index.php", 2),
            ("/vendor/tool/a.css", 2),
        ] {
            let response = svc.get(path);
            assert!(!response.text().contains("hidden"), "{mode:?} {path}");
            // Paths without a file, and paths that the fallback answers, are not denied.
            assert_eq!(response.status, if counted_as == 4 { 200 } else { 404 }, "{mode:?} {path}");
            if let Some(count) = counts.get_mut(counted_as) {
                *count += 1.0;
            }
        }
        svc.assert_metric("svc_path_deny_total", counts[0]);
        svc.assert_metric("svc_php_deny_total", counts[1]);
        svc.assert_metric("svc_builtin_deny_total", counts[2]);
    }
}

#[test]
fn a_denied_path_causes_no_disk_access_and_a_denied_body_no_wait() {
    let svc = start(Some("*.sql\n"), &[]);
    let mut client = svc.client();
    let response =
        client.request("POST /dump.sql HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 5");
    assert_eq!(response.status, 404);
    let mut client = svc.client();
    assert_eq!(client.post("/dump.sql", b"12345").status, 404);
    assert_eq!(client.get("/open.txt").text(), "shown", "the connection was lost");
}

/// Runs `svc check` on this root, without serving it.
fn check(rules: &str, words: &[&str], settings: &[(&str, &str)]) -> Output {
    let root = tempfile::tempdir().unwrap();
    std::fs::write(root.path().join(".svcdeny"), rules).unwrap();
    let mut command = command(root.path(), settings);
    command.args(words).stdout(Stdio::piped()).stderr(Stdio::piped()).output().unwrap()
}

#[test]
fn rules_and_patterns_that_are_none_stop_the_start() {
    for words in [&["check"][..], &["serve"]] {
        let output = check("*.sql\n\na[b\n", words, &[]);
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{words:?}: {said}");
        assert!(
            said.starts_with("svc: error: ") && said.contains("/.svcdeny:3: \"a[b\" is not a valid rule"),
            "{said}"
        );
        assert_eq!(said.lines().count(), 1, "{said}");
        let output = check("", words, &[("PHP_DENY_PATHS", "/ok/**,/a[")]);
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{words:?}: {said}");
        assert!(
            said.contains("PHP_DENY_PATHS: \"/ok/**,/a[\" contains \"/a[\", which is not a valid pattern"),
            "{said}"
        );
    }
    assert!(check("*.sql\n", &["check"], &[]).status.success());
}

#[test]
fn a_denied_path_stays_denied_beside_a_busy_front_controller() {
    let svc = start(None, &[("ENTRY_FILE", "index.php"), ("PHP_DENY_PATHS", "/uploads/**")]);
    let mut client = svc.client();
    for round in 0..20 {
        assert_eq!(client.get(&format!("/posts/{round}")).text(), "ran /index.php");
        for path in ["/uploads/none", "/uploads/none/x", &format!("/uploads/{round}"), "/uploads/x.php"] {
            let response = client.get(path);
            assert_eq!((response.status, response.text().contains("ran")), (404, false), "{path}");
        }
        assert_eq!(client.get("/uploads/x.txt").text(), "shown");
    }
    svc.assert_metric("svc_php_deny_total", 80.0);
}

#[test]
fn a_hang_up_reads_the_rules_again_and_a_broken_file_changes_nothing() {
    let svc = start(None, &[("STATIC_REVALIDATE", "false")]);
    let is_loaded = || svc.ask("/config").text().contains(r#""deny_file":{"loaded":true}"#);
    for path in ["/uploads/x.txt", "/other.php", "/private/"] {
        assert_eq!(svc.get(path).status, 200, "{path}");
    }
    assert!(!is_loaded());
    let write = |rules: &str| {
        std::fs::write(svc.root().join(".svcdeny"), rules).unwrap();
        svc.signal(Signal::HUP);
    };
    write("x.txt\nother.php\nindex.html\n");
    for path in ["/uploads/x.txt", "/other.php", "/private/"] {
        eventually("it is denied", || svc.get(path).status == 404);
    }
    assert!(is_loaded());
    write("open.txt\na[b\n");
    let refusal = || svc.log().find("reload failed; the previous state stays in effect");
    eventually("it is refused", || refusal().is_some());
    let error = refusal().unwrap()["fields"]["error"].as_str().unwrap().to_owned();
    assert!(error.contains("/.svcdeny:2: \"a[b\" is not a valid rule"), "{error}");
    assert_eq!((svc.get("/uploads/x.txt").status, svc.get("/open.txt").status), (404, 200));
    std::fs::remove_file(svc.root().join(".svcdeny")).unwrap();
    svc.signal(Signal::HUP);
    eventually("nothing is denied", || svc.get("/uploads/x.txt").status == 200);
    assert!(!is_loaded());
    eventually("all is well", || svc.metric("svc_config_last_reload_successful") == 1.0);
}

#[test]
fn a_project_directory_as_root_shows_no_secrets_and_is_warned_of() {
    let files = [
        ("composer.json", "secret"),
        ("artisan", "<?php secret"),
        ("database/app.sqlite", "secret"),
        ("storage/logs/app.log", "secret"),
        ("backup.sql.gz", "secret"),
        ("config.inc", "<?php secret"),
        ("index.php~", "<?php secret"),
        ("vendor/autoload.php", "<?php echo 'secret';"),
        ("vendor/tool/eval-stdin.php", "<?php echo 'secret';"),
        ("vendor/tool/a.css", "secret"),
        ("index.php", RUN),
        ("build/vendor/a.css", "shown"),
        ("package.json", "shown"),
    ];
    for mode in [&[][..], &[("ENTRY_FILE", "index.php")]] {
        let svc = Svc::start(&files, mode);
        let mut client = svc.client();
        for (path, content) in files {
            let response = client.get(&format!("/{path}"));
            assert_eq!(response.status, if content.contains("secret") { 404 } else { 200 }, "{path}");
            assert!(!response.text().contains("secret"), "{path}");
        }
        svc.assert_metric("svc_builtin_deny_total", 10.0);
        svc.assert_metric("svc_path_deny_total", 0.0);
        let said = svc.log().find("document root looks like a project directory: usually only a subdirectory of it should be served");
        assert_eq!(said.unwrap()["fields"]["found"], "artisan");
    }
    // Paths that the application answers may have such names, and a rule may allow a file.
    let svc = Svc::start(
        &[("index.php", RUN), ("a.log", "shown"), (".svcdeny", "!*.log\n")],
        &[("ENTRY_FILE", "index.php")],
    );
    assert_eq!(svc.get("/export.sql").text(), "ran /index.php");
    assert_eq!(svc.get("/a.log").text(), "shown");
    assert!(svc.log().find("document root looks like a project directory: usually only a subdirectory of it should be served").is_none());
}
