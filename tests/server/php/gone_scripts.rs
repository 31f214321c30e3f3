//! Scripts that are deleted before their worker opens them: the path is resolved a second time.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use tempfile::TempDir;

use svc_testing::any_client::{AnyClient, HTTP_VERSIONS};
use svc_testing::client::{Client, eventually};
use svc_testing::{Svc, written};

const SHOW: &str = r#"<?php
echo 'RELEASE ', basename(__DIR__), ' ', basename($_SERVER['SCRIPT_FILENAME']), ' ', basename(getcwd()), ' ',
    $_SERVER['SCRIPT_NAME'], ' ', $_SERVER['PATH_INFO'] ?? '-', ' ', strlen(file_get_contents('php://input')), ' ', $_POST['a'] ?? '-';
"#;

/// Creates two releases, and a link `current` to the first one.
fn releases(files: &[(&str, &str)]) -> TempDir {
    let root = tempfile::tempdir().unwrap();
    for release in ["one", "two"] {
        for (name, text) in files {
            let path = root.path().join(release).join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text.replace("RELEASE", release)).unwrap();
        }
    }
    symlink("one", root.path().join("current")).unwrap();
    root
}

fn switch(root: &Path, release: &str) {
    symlink(release, root.join("next")).unwrap();
    fs::rename(root.join("next"), root.join("current")).unwrap();
}

/// With and without OPcache: OPcache runs a deleted file from its cache until it checks the disk.
const CACHES: [&[&str]; 2] = [&["opcache.enable=0"], &["opcache.revalidate_freq=0"]];

fn start(root: TempDir, document_root: &str, entry: &str, directives: &[&str]) -> Svc {
    let path = root.path().join(document_root);
    let settings = [("DOCUMENT_ROOT", path.to_str().unwrap()), ("ENTRY_FILE", entry), ("PHP_WORKERS", "1")];
    let settings = if entry.is_empty() { &[settings[0], settings[2]][..] } else { &settings[..] };
    Svc::launch(root, settings, directives)
}

fn post(client: &mut Client, path: &str) -> String {
    client.send(format!(
        "POST {path} HTTP/1.1\r\nHost: x\r\nContent-Type: application/x-www-form-urlencoded\r\nContent-Length: 3\r\n\r\na=5"
    ));
    client.response().text()
}

#[test]
fn a_release_is_switched_and_the_old_one_removed() {
    // A link to the document root, and a link below it.
    let links = [("current", ""), ("", "/current")];
    let cases = CACHES.iter().flat_map(|cache| links.map(|link| (cache, link)));
    for ((directives, (document_root, prefix)), version) in
        cases.flat_map(|case| HTTP_VERSIONS.map(|version| (case, version)))
    {
        let mut svc = start(releases(&[("index.php", SHOW)]), document_root, "", directives);
        let mut client = AnyClient::connect(svc.main(), version);
        let path = format!("{prefix}/index.php/info");
        let seen = |release: &str, rest: &str| {
            format!("{release} {release} index.php {release} {prefix}/index.php /info {rest}")
        };
        assert_eq!(client.get(&path).text(), seen("one", "0 -"));
        switch(svc.root(), "two");
        fs::remove_dir_all(svc.root().join("one")).unwrap();
        // Within the second for which I/O threads cache scripts.
        let form = [("content-type", "application/x-www-form-urlencoded")];
        assert_eq!(client.request("POST", &path, &form, b"a=5").text(), seen("two", "3 5"), "{version:?}");
        assert_eq!(client.get(&path).text(), seen("two", "0 -"), "{version:?}");
        svc.assert_metric("svc_dropped_requests_total", 0.0);
        assert!(svc.whole_log().of("php").is_empty(), "nothing is reported");
    }
}

#[cfg(feature = "worker")]
#[test]
fn a_persistent_worker_boots_from_the_release_that_is_there() {
    const WORKER: &str = "<?php Svc\\Worker::serve(function () {
        if (isset($_GET['exit'])) { Svc\\Worker::scheduleExit(); }
        echo 'RELEASE ', basename(__DIR__), ' ', basename(getcwd()), ' ', strlen(file_get_contents('php://input')); });";
    let long = "RELEASE ".repeat(300_000);
    let files = [("index.php", WORKER), ("a.txt", "RELEASE"), ("long.txt", &long)];
    for directives in CACHES {
        for ((document_root, prefix), version) in [("current", ""), ("", "/current")]
            .into_iter()
            .flat_map(|link| HTTP_VERSIONS.map(|version| (link, version)))
        {
            let case = format!("{directives:?} {document_root:?} {version:?}");
            let root = releases(&files);
            let path = root.path().join(document_root);
            let entry = if prefix.is_empty() { "index.php" } else { "current/index.php" };
            let settings = [
                ("DOCUMENT_ROOT", path.to_str().unwrap()),
                ("ENTRY_FILE", entry),
                ("PHP_WORKERS", "1"),
                ("WORKER_MODE_ENABLED", "true"),
            ];
            let mut svc = Svc::launch(root, &settings, directives);
            let mut client = AnyClient::connect(svc.main(), version);
            let at = |name: &str| format!("{prefix}/{name}");
            assert_eq!(client.get(&at("")).text(), "one one one 0", "{case}");
            assert_eq!(client.get(&at("a.txt")).text(), "one", "{case}");
            assert!(client.get(&at("long.txt")).text().starts_with("one "), "{case}");
            switch(svc.root(), "two");
            fs::remove_dir_all(svc.root().join("one")).unwrap();
            // What has booted goes on. Files are those of either release for as long as they are cached.
            assert_eq!(client.request("POST", &at(""), &[], b"abc").text(), "one one one 3", "{case}");
            for name in ["a.txt", "long.txt"] {
                let response = client.get(&at(name));
                assert_eq!((response.status, response.is_whole), (200, true), "{name}, {case}");
            }
            assert_eq!(client.get(&at("?exit")).text(), "one one one 0", "{case}");
            assert_eq!(client.request("POST", &at(""), &[], b"abc").text(), "two two two 3", "{case}");
            svc.assert_metric("svc_dropped_requests_total", 0.0);
            assert!(svc.whole_log().of("php").is_empty(), "nothing is reported");
        }
    }
}

#[test]
fn a_path_whose_script_is_removed_is_resolved_again() {
    for directives in CACHES {
        let files = [
            ("shop/index.php", SHOW),
            ("shop/index.html", "<p>shop"),
            ("tool.php", SHOW),
            ("page.php", SHOW),
            ("sub/index.php", SHOW),
            ("denied.php", SHOW),
            ("linked.php", SHOW),
        ];
        let mut svc = start(written(&files), "", "", directives);
        symlink("linked.php", svc.root().join("link.php")).unwrap();
        let mut client = svc.client();
        let root = svc.root().to_owned();
        for path in ["/shop/", "/tool.php", "/page.php/x", "/sub/", "/denied.php", "/link.php"] {
            assert!(client.get(path).text().starts_with("RELEASE"), "{path}");
        }
        fs::remove_file(root.join("shop/index.php")).unwrap();
        let shop = client.get("/shop/");
        assert_eq!((shop.status, shop.text().as_str()), (200, "<p>shop"));
        assert_eq!(shop.field("content-type"), Some("text/html; charset=utf-8"));
        fs::remove_file(root.join("tool.php")).unwrap();
        assert_eq!(client.get("/tool.php").status, 404);
        fs::remove_file(root.join("page.php")).unwrap();
        assert_eq!(client.post("/page.php/x", b"a").status, 404);
        fs::remove_dir_all(root.join("sub")).unwrap();
        fs::write(root.join("sub"), "file").unwrap();
        assert_eq!(client.get("/sub/").status, 404);
        fs::remove_file(root.join("denied.php")).unwrap();
        symlink("nowhere.php", root.join("denied.php")).unwrap();
        assert_eq!(client.get("/denied.php").status, 404);
        fs::remove_file(root.join("linked.php")).unwrap();
        assert_eq!(client.get("/link.php").status, 404);
        assert_eq!(client.get("/shop/").text(), "<p>shop", "the connection lives");
        assert!(svc.whole_log().of("php").is_empty(), "nothing is reported");
    }
}

#[test]
fn the_front_controller_serves_the_path_of_a_removed_script() {
    for directives in CACHES {
        let files = [("index.php", SHOW), ("tool.php", SHOW)];
        let svc = start(written(&files), "", "index.php", directives);
        let mut client = svc.client();
        assert!(client.get("/tool.php/a").text().contains("/tool.php /a"));
        fs::remove_file(svc.root().join("tool.php")).unwrap();
        assert!(post(&mut client, "/tool.php/a").ends_with(" /index.php - 3 5"));
        // The front controller itself is deleted and restored.
        assert!(client.get("/x").text().contains(" /index.php -"));
        fs::rename(svc.root().join("index.php"), svc.root().join("away")).unwrap();
        assert_eq!(client.get("/x").status, 404);
        fs::rename(svc.root().join("away"), svc.root().join("index.php")).unwrap();
        assert!(client.get("/x").text().contains(" /index.php -"));
    }
}

#[test]
fn code_before_the_script_does_not_run_twice() {
    let files = [
        ("index.php", SHOW),
        ("tool.php", "<?php echo 'tool';"),
        (
            "before.php",
            "<?php header('X-Before: 1', false); echo 'before '; if (isset($_GET['flush'])) { flush(); } file_put_contents(__DIR__ . '/ran', 'x', FILE_APPEND);",
        ),
    ];
    let root = written(&files);
    let before = format!("auto_prepend_file={}", root.path().join("before.php").display());
    let svc = start(root, "", "index.php", &["opcache.enable=0", &before]);
    let mut client = svc.client();
    assert_eq!(client.get("/tool.php").text(), "before tool");
    fs::remove_file(svc.root().join("tool.php")).unwrap();
    let response = client.get("/tool.php");
    assert!(response.text().starts_with("before RELEASE"), "{}", response.text());
    assert_eq!(response.fields.iter().filter(|(name, _)| name == "x-before").count(), 1);
    // Also after the response has been sent.
    fs::write(svc.root().join("tool.php"), "<?php echo 'tool';").unwrap();
    assert!(client.get("/tool.php?flush=1").text().ends_with("tool"));
    fs::remove_file(svc.root().join("tool.php")).unwrap();
    let response = client.get("/tool.php?flush=1");
    assert!(response.text().starts_with("before RELEASE") && response.is_whole, "{}", response.text());
    assert_eq!(fs::read(svc.root().join("ran")).unwrap(), b"xxxx");
}

#[test]
fn a_script_that_php_may_not_open_is_an_error_as_ever() {
    let files = [("index.php", SHOW), ("allowed/a.php", SHOW)];
    let root = written(&files);
    let allowed = format!("open_basedir={}", root.path().join("allowed").display());
    let mut svc = start(root, "", "", &["opcache.enable=0", &allowed]);
    assert!(svc.get("/allowed/a.php").text().starts_with("RELEASE"));
    assert_eq!(svc.get("/index.php").status, 500);
    let log = svc.whole_log();
    assert!(log.of("php").iter().any(|record| record.to_string().contains("open_basedir")));
}

/// Ends the clients with the test, even if it panics.
struct EndsClients<'a>(&'a AtomicBool);

impl Drop for EndsClients<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn clients_meet_no_error_while_releases_come_and_go() {
    for (document_root, prefix) in [("current", ""), ("", "/current")] {
        let files = [("index.php", "<?php echo 'release RELEASE';"), ("a.txt", "release RELEASE")];
        let svc = start(releases(&files), document_root, "", &["opcache.enable=0"]);
        let root = svc.root().to_owned();
        let (done, answers) = (AtomicBool::new(false), [const { AtomicUsize::new(0) }; 4]);
        std::thread::scope(|scope| {
            let _end = EndsClients(&done);
            for (path, answers) in ["/index.php", "/", "/a.txt", "/a.txt?fresh"].into_iter().zip(&answers) {
                let (svc, done) = (&svc, &done);
                scope.spawn(move || {
                    let mut client = svc.client();
                    while !done.load(Ordering::Relaxed) {
                        let response = client.get(&format!("{prefix}{path}"));
                        assert_eq!(response.status, 200, "{path}: {}", response.text());
                        assert!(response.text().starts_with("release"), "{path}: {:?}", response.text());
                        answers.fetch_add(1, Ordering::Relaxed);
                    }
                });
            }
            let mut old = "one".to_owned();
            for round in 0..60 {
                let new = format!("{round}");
                fs::create_dir(root.join(&new)).unwrap();
                for (name, text) in files {
                    fs::write(root.join(&new).join(name), text.replace("RELEASE", &new)).unwrap();
                }
                switch(&root, &new);
                fs::remove_dir_all(root.join(&old)).unwrap();
                old = new;
                // A request overlaps with at most one switch.
                for answers in &answers {
                    let seen = answers.load(Ordering::Relaxed);
                    eventually("requests continue", || answers.load(Ordering::Relaxed) > seen);
                }
            }
        });
    }
}
