//! The routes of paths: a path leads to its file as soon as the file exists, never to a dot-file, and to a linked script
//! under the link's name.
#![cfg(feature = "php")]

use std::os::unix::fs::symlink;

use serde_json::json;

use svc_testing::any_client::{AnyClient, HTTP_VERSIONS};
use svc_testing::client::{Client, eventually};
use svc_testing::{IS_WORKER, Svc};

/// Handles every path: creates the file of that name and redirects to it, and is a persistent worker in worker mode.
const MAKER: &str = r#"<?php
$handle = function () {
    $path = strtok($_SERVER['REQUEST_URI'], '?');
    if (isset($_GET['make'])) {
        @mkdir(__DIR__ . dirname($path), 0777, true);
        file_put_contents(__DIR__ . $path, 'made');
        header("Location: $path");
    }
    echo 'handled ', $path;
};
if (getenv('WORKER_MODE_ENABLED') === 'true') { Svc\Worker::serve($handle); } else { $handle(); }
"#;

const FRONT_CONTROLLER: [(&str, &str); 2] = [("ENTRY_FILE", "index.php"), ("PHP_WORKERS", "1")];

#[test]
fn a_file_that_the_front_controller_makes_answers_the_next_request() {
    for is_worker in IS_WORKER.map(|is_worker| if is_worker { "true" } else { "false" }) {
        let settings = [&FRONT_CONTROLLER[..], &[("WORKER_MODE_ENABLED", is_worker)]].concat();
        let svc = Svc::start(&[("index.php", MAKER), ("d/x", "")], &settings);
        for version in HTTP_VERSIONS {
            let case = format!("worker mode: {is_worker}, {version:?}");
            let mut client = AnyClient::connect(svc.main(), version);
            let name = format!("{version:?}");
            for path in
                ["/^.txt", "/d/^.txt", "/new/^/a.txt", "/d/^.txt/b"].map(|path| path.replace('^', &name))
            {
                // The first responses let an I/O thread cache the route of the path.
                for _ in 0..3 {
                    assert_eq!(client.get(&path).text(), format!("handled {path}"), "{case}");
                }
                let made = client.get(&format!("{path}?make=1"));
                assert_eq!((made.status, made.field("location")), (302, Some(&*path)), "{case}");
                assert!(made.text().ends_with(&format!("handled {path}")), "{}", made.text());
                assert_eq!(client.get(&path).text(), "made", "{case}");
                std::fs::remove_file(svc.root().join(&path[1..])).ok();
            }
        }
    }
}

#[test]
fn a_file_that_comes_later_answers_in_place_of_the_page_of_an_application() {
    for room in ["64M", "0"] {
        let settings = [("ENTRY_FILE", "/api/=api/app.html,/=app.html"), ("STATIC_CACHE_BYTES", room)];
        let svc = Svc::start(&[("app.html", "page"), ("api/app.html", "page of a part")], &settings);
        let mut client = svc.client();
        for (path, page) in [
            ("/a.txt", "page"),
            ("/d/a.txt", "page"),
            ("/users/1", "page"),
            ("/tool.php", "page"),
            ("/api/a.txt", "page of a part"),
        ] {
            for _ in 0..3 {
                let response = client.get(path);
                assert_eq!((response.status, response.text().as_str()), (200, page), "{path}");
                assert_eq!(response.field("content-type"), Some("text/html; charset=utf-8"), "{path}");
            }
            let file = svc.root().join(&path[1..]);
            std::fs::create_dir_all(file.parent().unwrap()).unwrap();
            std::fs::write(file, "made").unwrap();
            assert_eq!(client.get(path).text(), "made", "{path}, cache: {room}");
        }
        for number in 0..50 {
            assert_eq!(client.get(&format!("/made/up/{number}")).text(), "page");
        }
        let status = Client::connect(svc.ops()).request("GET /status HTTP/1.1\r\nHost: localhost");
        let status: serde_json::Value = serde_json::from_str(&status.text()).unwrap();
        let kept = status["caches"]["static"]["files"].as_u64().unwrap();
        assert!(kept <= 6, "{kept} files for two pages and the files that came later");
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
    for (version, svc) in
        HTTP_VERSIONS.iter().flat_map(|version| [(*version, &files_mode), (*version, &front_controller)])
    {
        let mut client = AnyClient::connect(svc.main(), version);
        for method in ["GET", "PUT", "PROPFIND", "MOVE"] {
            let response = client.request(method, "/remote.php/dav/.file", &[], b"");
            assert_eq!((response.status, response.text()), (200, format!("{method} /dav/.file")));
        }
        assert_eq!(client.get("/.well-known/acme").text(), "token");
    }
    for version in HTTP_VERSIONS {
        let mut client = AnyClient::connect(files_mode.main(), version);
        for path in dotted {
            assert_eq!(client.get(path).status, 404, "{path}, {version:?}");
        }
        let mut client = AnyClient::connect(front_controller.main(), version);
        for path in dotted {
            assert_eq!(client.get(path).text(), "GET -", "{path}, {version:?}");
        }
    }
    #[expect(clippy::cast_precision_loss, reason = "a handful")]
    files_mode.assert_metric("svc_builtin_deny_total", (HTTP_VERSIONS.len() * dotted.len()) as f64);
    front_controller.assert_metric("svc_builtin_deny_total", 0.0);
}

#[cfg(feature = "worker")]
#[test]
fn a_persistent_worker_gets_paths_with_dots_and_no_dot_file_is_sent() {
    const SHOW: &str = "<?php Svc\\Worker::serve(function () {
        echo $_SERVER['REQUEST_METHOD'], ' ', $_SERVER['REQUEST_URI'], ' ', $_SERVER['PATH_INFO'] ?? '-'; });";
    let files = [
        ("index.php", SHOW),
        (".env", "secret"),
        (".git/config", "secret"),
        ("a/.hidden.php", "<?php echo 'secret';"),
        (".well-known/acme", "token"),
    ];
    let svc = Svc::start(&files, &[&FRONT_CONTROLLER[..], &[("WORKER_MODE_ENABLED", "true")]].concat());
    for version in HTTP_VERSIONS {
        let mut client = AnyClient::connect(svc.main(), version);
        for (path, info) in [
            ("/index.php/dav/.file", "/dav/.file"),
            ("/remote.php/dav/.file", "-"),
            ("/wiki/.NET", "-"),
            ("/.env", "-"),
            ("/.env/x", "-"),
            ("/.git/", "-"),
            ("/.git/config", "-"),
            ("/a/.hidden.php", "-"),
            ("/.well-known/none", "-"),
        ] {
            for method in ["GET", "PUT", "PROPFIND", "MOVE"] {
                let response = client.request(method, path, &[], b"");
                let expected = (200, format!("{method} {path} {info}"));
                assert_eq!((response.status, response.text()), expected, "{version:?}");
            }
        }
        assert_eq!(client.get("/.well-known/acme").text(), "token");
    }
    svc.assert_metric("svc_builtin_deny_total", 0.0);
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
    let parsed = |text: &str| serde_json::from_str::<serde_json::Value>(text).unwrap();
    let show = |name: &str| {
        let [seen, other] = HTTP_VERSIONS.map(|version| AnyClient::connect(svc.main(), version).get(name));
        assert_eq!(parsed(&seen.text()), parsed(&other.text()));
        parsed(&seen.text())
    };
    symlink("../core/index.php", root.join("site/index.php")).unwrap();
    symlink("site", root.join("alias")).unwrap();
    // As with php-fpm: PHP resolves only the file that it compiles.
    let seen = |name: &str, at: &str, release: &str| {
        let real = path(&format!("{release}/index.php"));
        let label = if release == "core" { "one" } else { "two" };
        json!([path(name), format!("/{name}"), path(at), real, path(release), [real], label])
    };
    assert_eq!(show("/site/index.php"), seen("site/index.php", "site", "core"));
    assert_eq!(show("/site/"), seen("site/index.php", "site", "core"));
    // The working directory of a process is always a real path.
    assert_eq!(show("/alias/index.php"), seen("alias/index.php", "site", "core"));
    std::fs::remove_file(root.join("site/index.php")).unwrap();
    symlink("../next/index.php", root.join("site/index.php")).unwrap();
    let mut client = svc.client();
    eventually("the link is followed", || client.get("/site/index.php").text().contains("two"));
    assert_eq!(show("/site/index.php"), seen("site/index.php", "site", "next"));
}

#[cfg(feature = "worker")]
#[test]
fn a_linked_script_of_a_persistent_worker_runs_under_its_own_name() {
    const SHOW: &str = r#"<?php
$paths = fn () => [$_SERVER['SCRIPT_FILENAME'], $_SERVER['SCRIPT_NAME'], getcwd()];
$boot = $paths();
require getcwd() . '/config.php';
Svc\Worker::serve(function () use ($boot, $paths) {
    echo json_encode([$boot, $paths(), __FILE__, get_included_files(), SITE]);
});
"#;
    for site in ["blog", "shop"] {
        let config = format!("<?php const SITE = '{site}';");
        let root =
            svc_testing::written(&[("core/index.php", SHOW), (&format!("{site}/config.php"), &config)]);
        let real = root.path().canonicalize().unwrap();
        let path = |name: &str| real.join(name).to_str().unwrap().to_owned();
        symlink("../core/index.php", real.join(site).join("index.php")).unwrap();
        // The document root contains the link, or the folder of the link.
        for (document_root, entry) in [(site, "index.php"), ("", "^/index.php")] {
            let (document_root, entry) = (path(document_root), entry.replace('^', site));
            let svc = Svc::start(
                &[],
                &[("DOCUMENT_ROOT", &document_root), ("ENTRY_FILE", &entry), ("WORKER_MODE_ENABLED", "true")],
            );
            let (link, folder) = (path(&format!("{site}/index.php")), path(site));
            let seen = json!([link, format!("/{entry}"), folder]);
            let (script, config) = (path("core/index.php"), path(&format!("{site}/config.php")));
            let expected = json!([seen, seen, script, [script, config], site]);
            for version in HTTP_VERSIONS {
                let text = AnyClient::connect(svc.main(), version).get("/").text();
                assert_eq!(
                    serde_json::from_str::<serde_json::Value>(&text).unwrap(),
                    expected,
                    "{version:?}"
                );
            }
        }
    }
}

/// A site whose parts have separate front controllers, like Joomla, osTicket and an application with a page for its
/// administrators.
const PARTS: &str = "/api/=api/index.php, /api/tickets=api/http.php/, /admin/=admin/app.html, index.php";

const VARIABLES: &str = r#"<?php
foreach (['SCRIPT_NAME', 'PATH_INFO', 'PHP_SELF', 'REQUEST_URI', 'QUERY_STRING'] as $name) {
    echo $_SERVER[$name] ?? '-', ' ';
}
if (substr($_SERVER['SCRIPT_FILENAME'], strlen($_SERVER['DOCUMENT_ROOT'])) !== $_SERVER['SCRIPT_NAME']) { echo 'another file'; }
if (getcwd() !== __DIR__) { echo 'another folder'; }
"#;

#[test]
fn each_part_of_a_site_has_its_front_controller() {
    let files = [
        ("index.php", VARIABLES),
        ("api/index.php", VARIABLES),
        ("api/http.php", VARIABLES),
        ("api/tool.php", VARIABLES),
        ("api/spec.json", "{}"),
        ("admin/app.html", "<p>admin"),
        ("admin/app.js", "js"),
        ("admin/login.php", VARIABLES),
        (".well-known/acme", "token"),
        (".svcdeny", "/api/private/\n"),
    ];
    let svc = Svc::start(&files, &[("ENTRY_FILE", PARTS), ("PHP_WORKERS", "1")]);
    let cases = [
        ("/", "/index.php - /index.php / "),
        ("/a/b?c=d", "/index.php - /index.php /a/b?c=d c=d"),
        ("/index.php/a", "/index.php /a /index.php/a /index.php/a "),
        ("/apis/x", "/index.php - /index.php /apis/x "),
        ("/api/", "/api/index.php - /api/index.php /api/ "),
        ("/api/v1/x%20y?c=d", "/api/index.php - /api/index.php /api/v1/x%20y?c=d c=d"),
        ("/api/index.php/v1", "/api/index.php /v1 /api/index.php/v1 /api/index.php/v1 "),
        ("/api/tool.php/x", "/api/tool.php /x /api/tool.php/x /api/tool.php/x "),
        ("/a/../api/./v1", "/api/index.php - /api/index.php /a/../api/./v1 "),
        ("/api/tickets/1.json", "/api/http.php /1.json /api/http.php/1.json /api/tickets/1.json "),
        ("/api/tickets", "/api/http.php - /api/http.php /api/tickets "),
        ("/api/ticketsx", "/api/index.php - /api/index.php /api/ticketsx "),
        ("/admin/login.php", "/admin/login.php - /admin/login.php /admin/login.php "),
        ("/.well-known/carddav", "/index.php - /index.php /.well-known/carddav "),
        ("/api/.well-known", "/api/index.php - /api/index.php /api/.well-known "),
    ];
    let files = [
        ("/api/spec.json", "{}"),
        ("/admin/app.js", "js"),
        ("/admin/users/1", "<p>admin"),
        ("/admin/", "<p>admin"),
        ("/.well-known/acme", "token"),
    ];
    let mut client = svc.client();
    // The second round is answered from an I/O thread's cache.
    for _ in 0..2 {
        for (path, expected) in cases.iter().chain(&files) {
            let expected = expected.trim_end();
            assert_eq!(client.get(path).text().trim_end(), expected, "{path}");
        }
    }
    assert_eq!(client.get("/api").field("location"), Some("/api/"));
    assert_eq!(client.get("/api/private/x").status, 404);
}

#[test]
fn a_file_that_a_front_controller_of_a_part_makes_answers_the_next_request() {
    let files = [("index.php", MAKER), ("api/index.php", MAKER_OF_PART), ("api/http.php", MAKER_OF_PART)];
    let entries = "/api/v2/=api/http.php/,/api/=api/index.php,/=index.php";
    let svc = Svc::start(&files, &[("ENTRY_FILE", entries), ("PHP_WORKERS", "1")]);
    let mut client = svc.client();
    for path in ["/a.txt", "/api/a.txt", "/api/v2/a.txt", "/api/v2/b/a.txt"] {
        for _ in 0..3 {
            assert_eq!(client.get(path).text(), format!("handled {path}"));
        }
        let made = client.get(&format!("{path}?make=1")).text();
        assert!(made.ends_with(&format!("handled {path}")), "{made}");
        assert_eq!(client.get(path).text(), "made");
    }
}

/// The same as [`MAKER`], below the folder of the script.
const MAKER_OF_PART: &str = r#"<?php
$path = strtok($_SERVER['REQUEST_URI'], '?');
if (isset($_GET['make'])) {
    @mkdir($_SERVER['DOCUMENT_ROOT'] . dirname($path), 0777, true);
    file_put_contents($_SERVER['DOCUMENT_ROOT'] . $path, 'made');
}
echo 'handled ', $path;
"#;

#[test]
fn paths_outside_of_all_parts_are_looked_up_on_disk_only() {
    let files =
        [("index.php", "<?php echo 'index';"), ("api/index.php", VARIABLES), ("shop/index.html", "shop")];
    let svc = Svc::start(&files, &[("ENTRY_FILE", "/api/=api/index.php"), ("PHP_WORKERS", "1")]);
    let mut client = svc.client();
    assert_eq!(client.get("/").text(), "index");
    assert_eq!(client.get("/none").status, 404);
    assert_eq!(client.get("/shop").field("location"), Some("/shop/"));
    assert!(client.get("/api/none").text().starts_with("/api/index.php - "));
}

#[test]
fn a_list_of_entry_files_is_checked() {
    let root = svc_testing::written(&[("index.php", ""), ("api/index.php", ""), ("app.html", "")]);
    let check = |entries: &str, is_worker: &str| {
        let settings = [("ENTRY_FILE", entries), ("WORKER_MODE_ENABLED", is_worker)];
        let mut command = svc_testing::command(root.path(), &settings);
        let output = command.arg("check").output().unwrap();
        (output.status.success(), String::from_utf8(output.stderr).unwrap())
    };
    assert!(check("/api/=api/index.php,/app/=app.html,/=index.php", "false").0);
    for (entries, is_worker, message) in [
        (
            "/api/=api/index.php,/=index.php",
            "true",
            "requires ENTRY_FILE to name one script, which handles all paths",
        ),
        ("index.php/", "true", "requires ENTRY_FILE to name one script, which handles all paths"),
        (
            "/api/=api/none.php,/=index.php",
            "false",
            r#"ENTRY_FILE: "api/none.php" is not a file in the document root"#,
        ),
        (
            "/api/=../x.php,/=index.php",
            "false",
            r#"ENTRY_FILE: "../x.php" is outside the document root or hidden"#,
        ),
        (
            "/a//b=index.php",
            "false",
            "which is not a percent-encoded path that begins with a slash, without empty segments, . and ..",
        ),
        ("/api=index.php,/api/=api/index.php", "false", r#""/api/""#),
        ("api=api/index.php,/=index.php", "false", r#"contains the prefix "api""#),
        ("app.html/", "false", "is not a file in the document root"),
    ] {
        let (is_good, errors) = check(entries, is_worker);
        assert!(!is_good && errors.contains(message), "{entries}: {errors}");
    }
}
