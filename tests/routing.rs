//! What a path leads to: the file of that name as soon as there is one, a dot-file never, a linked script under its own
//! name.
#![cfg(feature = "php")]

use std::os::unix::fs::symlink;

use serde_json::json;

use crate::support::Svc;
use crate::support::client::eventually;

/// Handles every path: makes the file of that name if there is none, and is a persistent worker where it is asked to be.
const MAKER: &str = r#"<?php
$handle = function () {
    $path = strtok($_SERVER['REQUEST_URI'], '?');
    if (isset($_GET['make'])) {
        @mkdir(__DIR__ . dirname($path), 0777, true);
        file_put_contents(__DIR__ . $path, 'made');
    }
    echo 'handled ', $path;
};
if (getenv('WORKER_MODE_ENABLED') === 'true') { Svc\Worker::serve($handle); } else { $handle(); }
"#;

const FRONT_CONTROLLER: [(&str, &str); 2] = [("ENTRY_FILE", "index.php"), ("PHP_WORKERS", "1")];

#[test]
fn a_file_that_the_front_controller_makes_answers_the_next_request() {
    for is_worker in ["false", "true"] {
        let settings = [&FRONT_CONTROLLER[..], &[("WORKER_MODE_ENABLED", is_worker)]].concat();
        let svc = Svc::start(&[("index.php", MAKER), ("d/x", "")], &settings);
        let mut client = svc.client();
        for path in ["/a.txt", "/d/a.txt", "/new/folder/a.txt", "/d/a.txt/b"] {
            // The first answers let an I/O thread learn where the path leads.
            for _ in 0..3 {
                assert_eq!(client.get(path).text(), format!("handled {path}"), "worker mode: {is_worker}");
            }
            let made = client.get(&format!("{path}?make=1")).text();
            assert!(made.ends_with(&format!("handled {path}")), "{made}");
            assert_eq!(client.get(path).text(), "made", "worker mode: {is_worker}");
            std::fs::remove_file(svc.root().join(&path[1..])).ok();
        }
    }
}

#[test]
fn an_index_or_a_script_that_comes_later_is_found_at_once() {
    let svc = Svc::start(&[("index.php", "<?php echo 'handled';")], &FRONT_CONTROLLER);
    let mut client = svc.client();
    for (path, name, text) in [
        ("/shop/", "shop/index.html", "index"),
        ("/tool.php", "tool.php", "script"),
        ("/tools/one.php/info", "tools/one.php", "script below"),
    ] {
        for _ in 0..2 {
            assert_eq!(client.get(path).text(), "handled");
        }
        let file = svc.root().join(name);
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(file, text).unwrap();
        assert_eq!(client.get(path).text(), text);
    }
}

#[test]
fn dots_in_a_path_hide_files_and_nothing_else() {
    const SHOW: &str = "<?php echo $_SERVER['REQUEST_METHOD'], ' ', $_SERVER['PATH_INFO'] ?? '-';";
    let files = [
        ("remote.php", SHOW),
        ("index.php", SHOW),
        (".env", "secret"),
        (".git/config", "secret"),
        ("a/.hidden.php", "<?php echo 'secret';"),
        (".well-known/acme", "token"),
    ];
    let no_entry: [(&str, &str); 2] = [("PHP_WORKERS", "1"), ("ACCESS_LOG", "all")];
    let files_mode = Svc::start(&files, &no_entry);
    let front_controller = Svc::start(&files, &[&FRONT_CONTROLLER[..], &no_entry[1..]].concat());
    let dotted =
        ["/.env", "/.git/config", "/.git/", "/a/.hidden.php", "/a/.hidden.php/x", "/wiki/.NET", "/.env/x"];
    for svc in [&files_mode, &front_controller] {
        let mut client = svc.client();
        for method in ["GET", "PUT", "PROPFIND", "MOVE"] {
            let response = client.request(&format!("{method} /remote.php/dav/.file HTTP/1.1\r\nHost: x"));
            assert_eq!((response.status, response.text()), (200, format!("{method} /dav/.file")));
        }
        assert_eq!(client.get("/.well-known/acme").text(), "token");
    }
    let mut client = files_mode.client();
    for path in dotted {
        assert_eq!(client.get(path).status, 404, "{path}");
    }
    #[expect(clippy::cast_precision_loss, reason = "a handful")]
    files_mode.assert_metric("svc_builtin_deny_total", dotted.len() as f64);
    let mut client = front_controller.client();
    for path in dotted {
        assert_eq!(client.get(path).text(), "GET -", "{path}");
    }
    front_controller.assert_metric("svc_builtin_deny_total", 0.0);
}

#[test]
fn the_access_record_names_the_rule_that_blocks_a_path() {
    let files =
        [(".svcdeny", "private/\n"), ("private/x", ""), ("a.sql", ""), ("up/x.php", ""), ("free", "")];
    let settings = [("ACCESS_LOG", "all"), ("PHP_DENY_PATHS", "/up/**")];
    let mut svc = Svc::start(&files, &settings);
    let expected = [
        ("/private/x", json!("svcdeny")),
        ("/a.sql", json!("never_public")),
        ("/up/x.php", json!("php_deny_paths")),
        ("/.env", json!("dot_file")),
        ("/free", json!(null)),
        ("/none", json!(null)),
    ];
    for (path, _) in &expected {
        svc.get(path);
    }
    let records = svc.whole_log().of("access");
    for (path, rule) in &expected {
        let record = records.iter().find(|record| record["fields"]["path"] == *path).unwrap();
        assert_eq!(record["fields"]["denied_by"], *rule, "{path}");
    }
}

#[test]
fn a_linked_script_runs_under_its_own_name_and_follows_its_link() {
    const SHOW: &str = r#"<?php echo json_encode([$_SERVER['SCRIPT_FILENAME'], $_SERVER['SCRIPT_NAME'], getcwd(), __FILE__, __DIR__,
        get_included_files(), VERSION]);"#;
    let version = |version: &str| SHOW.replace("VERSION", &format!("'{version}'"));
    let svc = Svc::start(
        &[("core/index.php", &version("one")), ("next/index.php", &version("two")), ("site/config.php", "")],
        &[("PHP_WORKERS", "1")],
    );
    let root = svc.root().canonicalize().unwrap();
    let path = |name: &str| root.join(name).to_str().unwrap().to_owned();
    let show = |name: &str| serde_json::from_str::<serde_json::Value>(&svc.get(name).text()).unwrap();
    symlink("../core/index.php", root.join("site/index.php")).unwrap();
    symlink("site", root.join("alias")).unwrap();
    // As with php-fpm: PHP resolves the file that it compiles, and nothing else.
    let seen = |name: &str, at: &str, release: &str| {
        let real = path(&format!("{release}/index.php"));
        let label = if release == "core" { "one" } else { "two" };
        json!([path(name), format!("/{name}"), path(at), real, path(release), [real], label])
    };
    assert_eq!(show("/site/index.php"), seen("site/index.php", "site", "core"));
    assert_eq!(show("/site/"), seen("site/index.php", "site", "core"));
    // The working directory of a process is a real one.
    assert_eq!(show("/alias/index.php"), seen("alias/index.php", "site", "core"));
    std::fs::remove_file(root.join("site/index.php")).unwrap();
    symlink("../next/index.php", root.join("site/index.php")).unwrap();
    let mut client = svc.client();
    eventually("the link is followed", || client.get("/site/index.php").text().contains("two"));
    assert_eq!(show("/site/index.php"), seen("site/index.php", "site", "next"));
}
