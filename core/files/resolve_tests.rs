//! Tests with real directories, links and pipes.

use std::io::Read;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tempfile::TempDir;

use super::*;
use crate::http::uri::normalise;

/// A directory with `root`, which is served, and `outside` beside it.
struct Site {
    folder: TempDir,
}

impl Site {
    fn with(files: &[&str]) -> Self {
        let site = Self { folder: tempfile::tempdir().unwrap() };
        for place in ["root", "outside"] {
            std::fs::create_dir(site.path(place)).unwrap();
        }
        for file in files {
            let path = site.path(file);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, file).unwrap();
        }
        site
    }

    fn path(&self, relative: &str) -> PathBuf {
        self.folder.path().join(relative)
    }

    fn link(&self, from: &str, to: impl AsRef<Path>) {
        symlink(to, self.path(from)).unwrap();
    }

    fn resolve(&self, mode: &RoutingMode, raw: &str) -> Resolved {
        self.resolve_with(true, mode, raw)
    }

    fn resolve_with(&self, links_may_leave: bool, mode: &RoutingMode, raw: &str) -> Resolved {
        let path = normalise(raw.as_bytes()).unwrap().path;
        DocumentRoot::new(self.path("root"), links_may_leave).resolve(mode, &path).unwrap()
    }

    /// Shows the result of files mode as one line.
    fn shown(&self, raw: &str) -> String {
        self.shown_in(&RoutingMode::Files, raw)
    }

    fn shown_in(&self, mode: &RoutingMode, raw: &str) -> String {
        self.as_line(self.resolve(mode, raw))
    }

    fn shown_without_links_out(&self, raw: &str) -> String {
        self.as_line(self.resolve_with(false, &RoutingMode::Files, raw))
    }

    fn as_line(&self, resolved: Resolved) -> String {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        match resolved {
            Resolved::Directory => "directory".into(),
            Resolved::File(mut file) => {
                let mut content = String::new();
                file.plain.file.read_to_string(&mut content).unwrap();
                assert_eq!(content.len() as u64, file.plain.stamp.length);
                format!("file {content}")
            }
            Resolved::DotFile => "dot-file".into(),
            Resolved::Forbidden => "forbidden".into(),
            Resolved::Missing => "missing".into(),
            Resolved::Script(script) => {
                let real = self.folder.path().canonicalize().unwrap();
                let real = format!("{}/", real.display());
                let filename = text(&script.real_path).replace(&real, "");
                assert_eq!(script.filename, [&script.document_root[..], &script.script_name].concat());
                format!("script {filename} {}|{}", text(&script.script_name), text(&script.path_info))
            }
        }
    }
}

#[test]
fn files_scripts_directories_and_nothing() {
    let site = Site::with(&["root/a.css", "root/b.php", "root/d/index.php", "root/e/index.html", "root/f/x"]);
    assert_eq!(site.shown("/a.css"), "file root/a.css");
    assert_eq!(site.shown("/b.php"), "script root/b.php /b.php|");
    assert_eq!(site.shown("/b.php/x/y"), "script root/b.php /b.php|/x/y");
    assert_eq!(site.shown("/d"), "directory");
    assert_eq!(site.shown("/d/"), "script root/d/index.php /d/index.php|");
    assert_eq!(site.shown("/e/"), "file root/e/index.html");
    assert_eq!(site.shown("/f/"), "missing");
    assert_eq!(site.shown("/"), "missing");
    assert_eq!(site.shown("/none"), "missing");
    assert_eq!(site.shown("/a.css/"), "missing");
}

#[test]
fn an_index_script_goes_before_an_index_file() {
    let site = Site::with(&["root/index.html", "root/index.php"]);
    assert_eq!(site.shown("/"), "script root/index.php /index.php|");
}

#[test]
fn an_encoded_script_name_and_path_info_are_decoded() {
    let site = Site::with(&["root/a b.php"]);
    assert_eq!(site.shown("/a%20b.php/c%20d%2Fe"), "script root/a b.php /a b.php|/c d/e");
}

#[test]
fn the_first_file_from_the_left_is_the_script() {
    let site = Site::with(&["root/dir.php/real.php", "root/one.php"]);
    assert_eq!(site.shown("/dir.php/real.php/x"), "script root/dir.php/real.php /dir.php/real.php|/x");
    assert_eq!(site.shown("/one.php/two.php"), "script root/one.php /one.php|/two.php");
    assert_eq!(site.shown("/gone.php/one.php"), "missing");
}

#[test]
fn an_upload_cannot_be_run_through_path_info() {
    let site = Site::with(&["root/avatar.jpg", "root/PHP.jpg"]);
    for path in ["/avatar.jpg/x.php", "/PHP.jpg/x.php", "/avatar.jpg.php", "/avatar.jpg%20.php"] {
        assert_eq!(site.shown(path), "missing", "{path}");
    }
    assert_eq!(site.shown("/avatar.jpg/.php"), "dot-file");
}

#[test]
fn sources_are_never_sent() {
    let site = Site::with(&["root/a.PHP", "root/b.Php", "root/c.php", "root/d.php/e.PHP"]);
    for mode in [RoutingMode::Files, RoutingMode::SinglePage { file: b"/none.html".to_vec() }] {
        for path in ["/a.PHP", "/b.Php", "/d.php/e.PHP", "/c.php.", "/c.php%20", "/c.PHP", "/c.php~"] {
            assert_eq!(site.shown_in(&mode, path), "missing", "{path}");
        }
    }
}

#[test]
fn dot_files_are_not_looked_for_and_well_known_ones_are() {
    let site = Site::with(&[
        "root/.env",
        "root/.git/config",
        "root/.well-known/acme",
        "root/a/.b.php",
        "root/index.php",
    ]);
    let front_controller = RoutingMode::from_entry_file(Some("index.php"));
    for path in ["/.env", "/%2eenv", "/.git/config", "/a/.b.php", "/x/..%2f.env"] {
        assert_eq!(site.shown(path), "dot-file", "{path}");
        assert_eq!(site.shown_in(&front_controller, path), "script root/index.php /index.php|", "{path}");
    }
    assert_eq!(site.shown("/.well-known/acme"), "file root/.well-known/acme");
}

#[test]
fn encoded_and_overlong_dots_do_not_climb() {
    let site = Site::with(&["outside/secret", "root/a/b"]);
    for raw in ["/%2e%2e/outside/secret", "/a/..%2f..%2foutside/secret"] {
        assert!(normalise(raw.as_bytes()).is_err(), "{raw}");
    }
    // Overlong encodings of a dot or a slash are ordinary bytes of a name that does not exist.
    assert_eq!(site.shown("/%c0%ae%c0%ae/outside/secret"), "missing");
    for raw in ["/a/..%c0%af..%c0%afoutside/secret", "/..%5coutside%5csecret"] {
        assert_eq!(site.shown(raw), "dot-file", "{raw}");
    }
}

#[test]
fn links_inside_the_root_are_followed() {
    let site = Site::with(&["root/real/a.css", "root/real/b.php"]);
    site.link("root/relative", "real");
    site.link("root/absolute.css", site.path("root/real/a.css"));
    assert_eq!(site.shown("/relative/a.css"), "file root/real/a.css");
    assert_eq!(site.shown("/absolute.css"), "file root/real/a.css");
    // The interpreter runs the file that was checked.
    assert_eq!(site.shown("/relative/b.php"), "script root/real/b.php /relative/b.php|");
}

/// Returns a site with links out of its root, and their targets.
fn with_links_out() -> (Site, [(&'static str, &'static str); 7]) {
    let site = Site::with(&["outside/secret", "outside/x.php", "root/index.php", "root-beside/secret"]);
    site.link("root/file", site.path("outside/secret"));
    site.link("root/folder", "../outside");
    site.link("root/script.php", "../outside/x.php");
    site.link("root/beside", "../root-beside");
    site.link("root/up", "..");
    let leads = [
        ("/file", "file outside/secret"),
        ("/folder", "directory"),
        ("/folder/secret", "file outside/secret"),
        ("/script.php", "script outside/x.php /script.php|"),
        ("/script.php/x", "script outside/x.php /script.php|/x"),
        ("/beside/secret", "file root-beside/secret"),
        ("/up/outside/secret", "file outside/secret"),
    ];
    (site, leads)
}

#[test]
fn links_that_leave_the_root_are_followed() {
    let (site, leads) = with_links_out();
    for (path, found) in leads {
        assert_eq!(site.shown(path), found, "{path}");
    }
    let Resolved::File(found) = site.resolve(&RoutingMode::Files, "/file") else { panic!("not found") };
    assert_eq!(found.elsewhere, Some(RelativePath::Outside(b"../outside/secret".to_vec())));
    let Resolved::Script(found) = site.resolve(&RoutingMode::Files, "/index.php") else {
        panic!("not found")
    };
    assert_eq!(found.elsewhere, None);
}

#[test]
fn links_that_leave_the_root_are_refused_where_they_may_not() {
    let (site, leads) = with_links_out();
    site.link("root/self", "/proc/self");
    for (path, _) in leads {
        assert_eq!(site.shown_without_links_out(path), "forbidden", "{path}");
    }
    assert_eq!(site.shown_without_links_out("/self/environ"), "forbidden");
    assert_eq!(site.shown_without_links_out("/index.php"), "script root/index.php /index.php|");
    let front_controller = RoutingMode::from_entry_file(Some("index.php"));
    assert_eq!(site.as_line(site.resolve_with(false, &front_controller, "/file")), "forbidden");
}

#[test]
fn no_link_leads_to_a_dot_file() {
    let site = Site::with(&["root/.env", "outside/.ssh/id", "root/..data/a.css", "root/.well-known/x"]);
    for (link, to) in [
        ("env.txt", ".env"),
        ("id", "../outside/.ssh/id"),
        ("keys", "../outside/.ssh"),
        ("home", "../outside"),
        ("a.css", "..data/a.css"),
        ("known", ".well-known"),
    ] {
        site.link(&format!("root/{link}"), to);
    }
    for path in ["/env.txt", "/id", "/keys", "/keys/id"] {
        assert_eq!(site.shown(path), "forbidden", "{path}");
    }
    assert_eq!(site.shown("/home/.ssh/id"), "dot-file");
    assert_eq!(site.shown("/a.css"), "file root/..data/a.css");
    assert_eq!(site.shown("/known/x"), "file root/.well-known/x");
}

#[test]
fn a_link_that_is_swapped_is_judged_anew() {
    let site = Site::with(&["outside/.secret", "root/real"]);
    site.link("root/link", "real");
    assert_eq!(site.shown("/link"), "file root/real");
    std::fs::remove_file(site.path("root/link")).unwrap();
    site.link("root/link", "../outside/.secret");
    assert_eq!(site.shown("/link"), "forbidden");
}

#[test]
fn an_opened_file_stays_the_one_that_was_checked() {
    let site = Site::with(&["outside/secret", "root/a"]);
    let Resolved::File(mut found) = site.resolve(&RoutingMode::Files, "/a") else { panic!("not found") };
    std::fs::remove_file(site.path("root/a")).unwrap();
    site.link("root/a", "../outside/secret");
    let mut content = String::new();
    found.plain.file.read_to_string(&mut content).unwrap();
    assert_eq!((content.as_str(), found.plain.stamp.length), ("root/a", 6));
}

#[test]
fn a_root_that_is_a_switched_link_is_seen_at_once() {
    let site = Site::with(&["v1/a.php", "v2/a.php"]);
    site.link("current", "v1");
    let root = DocumentRoot::new(site.path("current"), true);
    let filename = || match root.resolve(&RoutingMode::Files, b"/a.php").unwrap() {
        Resolved::Script(script) => (script.filename, script.document_root),
        other => panic!("{other:?}"),
    };
    let real = |name: &str| site.path(name).canonicalize().unwrap().into_os_string().into_encoded_bytes();
    assert_eq!(filename(), (real("v1/a.php"), real("v1")));
    site.link("next", "v2");
    std::fs::rename(site.path("next"), site.path("current")).unwrap();
    assert_eq!(filename(), (real("v2/a.php"), real("v2")));
}

#[test]
fn pipes_sockets_and_devices_are_missing_and_nothing_waits() {
    let site = Site::with(&[]);
    for name in ["pipe", "pipe.php"] {
        let path = site.path("root").join(name);
        rustix::fs::mknodat(rustix::fs::CWD, &path, FileType::Fifo, Permissions::RWXU, 0).unwrap();
    }
    let _socket = std::os::unix::net::UnixListener::bind(site.path("root/socket")).unwrap();
    for path in ["/pipe", "/pipe.php", "/socket"] {
        assert_eq!(site.shown(path), "missing", "{path}");
    }
    site.link("root/device", "/dev/zero");
    assert_eq!(site.shown("/device"), "missing");
}

#[test]
fn link_circles_and_endless_names_are_missing() {
    let site = Site::with(&["root/a"]);
    site.link("root/loop", "loop");
    site.link("root/dangling", "nowhere");
    assert_eq!(site.shown("/loop"), "missing");
    assert_eq!(site.shown("/dangling"), "missing");
    assert_eq!(site.shown(&format!("/{}", "n".repeat(300))), "missing");
    assert_eq!(site.shown(&"/x.php".repeat(5000)), "missing");
}

#[test]
fn unreadable_files_are_forbidden_and_other_failures_are_errors() {
    // By error number, because the tests may run as root, who may read everything.
    for errno in [Errno::ACCESS, Errno::PERM] {
        assert!(matches!(verdict(errno), Ok(Probe::Found(Resolved::Forbidden))), "{errno}");
    }
    for errno in [Errno::MFILE, Errno::NFILE, Errno::NOMEM, Errno::IO] {
        assert!(verdict(errno).is_err(), "{errno}");
    }
}

#[test]
fn the_front_controller_runs_when_no_file_is_there() {
    let site =
        Site::with(&["root/index.php", "root/a.css", "root/other.php", "root/d/x", "root/admin/index.php"]);
    let mode = RoutingMode::from_entry_file(Some("index.php"));
    assert_eq!(site.shown_in(&mode, "/a.css"), "file root/a.css");
    assert_eq!(site.shown_in(&mode, "/other.php/x"), "script root/other.php /other.php|/x");
    assert_eq!(site.shown_in(&mode, "/admin/"), "script root/admin/index.php /admin/index.php|");
    assert_eq!(site.shown_in(&mode, "/admin"), "directory");
    for path in ["/", "/posts/1", "/none.php", "/d", "/d/", "/a.css/x"] {
        assert_eq!(site.shown_in(&mode, path), "script root/index.php /index.php|", "{path}");
    }
    assert_eq!(site.shown_in(&mode, "/index.php/x"), "script root/index.php /index.php|/x");
}

#[test]
fn the_single_page_is_sent_when_nothing_is_there() {
    let site = Site::with(&["root/app.html", "root/a.css", "root/api.php", "root/d/x"]);
    let mode = RoutingMode::from_entry_file(Some("app.html"));
    assert_eq!(site.shown_in(&mode, "/a.css"), "file root/a.css");
    assert_eq!(site.shown_in(&mode, "/api.php/x"), "script root/api.php /api.php|/x");
    for path in ["/", "/posts/1", "/d", "/d/", "/none.php"] {
        assert!(site.shown_in(&mode, path).starts_with("file "), "{path}");
    }
}

#[test]
fn a_missing_root_is_an_error_and_not_a_missing_file() {
    let site = Site::with(&[]);
    let root = DocumentRoot::new(site.path("nowhere"), true);
    assert_eq!(
        root.resolve(&RoutingMode::Files, b"/").map_err(|error| error.kind()).err(),
        Some(io::ErrorKind::NotFound)
    );
}

#[test]
fn a_redirect_encodes_the_path_and_keeps_the_query() {
    assert_eq!(directory_location(b"/a b", None), b"/a%20b/");
    assert_eq!(directory_location(b"/a\r\n", Some(b"x=%20&y")), b"/a%0D%0A/?x=%20&y");
    assert_eq!(directory_location(b"/\\evil.example", Some(b"")), b"/%5Cevil.example/?");
}

#[test]
fn times_before_the_epoch_are_kept() {
    let site = Site::with(&["root/a"]);
    let time = UNIX_EPOCH - Duration::new(10, 500_000_000);
    File::options().write(true).open(site.path("root/a")).unwrap().set_modified(time).unwrap();
    let Resolved::File(found) = site.resolve(&RoutingMode::Files, "/a") else { panic!("not found") };
    assert_eq!(found.plain.stamp.modified, time);
}

#[test]
fn neighbours_in_content_codings_are_found_unless_they_are_older() {
    let site = Site::with(&["root/a.css", "root/a.css.br", "root/a.css.gz", "root/a.css.zst", "root/b.css"]);
    site.link("root/b.css.br", "../outside");
    site.link("root/b.css.gz", site.path("outside/secret"));
    std::fs::write(site.path("outside/secret"), "secret").unwrap();
    rustix::fs::mknodat(rustix::fs::CWD, site.path("root/b.css.zst"), FileType::Fifo, Permissions::RWXU, 0)
        .unwrap();
    let codings = |path: &str| match site.resolve(&RoutingMode::Files, path) {
        Resolved::File(file) => file.coded.iter().map(|(coding, _)| *coding).collect::<Vec<_>>(),
        other => panic!("{other:?}"),
    };
    let set_time = |name: &str, time: SystemTime| {
        File::options().write(true).open(site.path(name)).unwrap().set_modified(time).unwrap();
    };
    let time = UNIX_EPOCH + Duration::from_secs(1_000_000);
    set_time("root/a.css", time);
    set_time("root/a.css.br", time);
    set_time("root/a.css.zst", time + Duration::from_secs(1));
    set_time("root/a.css.gz", time - Duration::from_nanos(1));
    assert_eq!(codings("/a.css"), [Coding::Brotli, Coding::Zstd]);
    assert_eq!(codings("/a.css.br"), []);
    assert_eq!(codings("/b.css"), [], "links that lead elsewhere, pipes");
    for (link, to) in
        [("c.css", "a.css"), ("c.css.br", "a.css.br"), ("folder", "."), ("c.css.zst", "a.css.gz")]
    {
        site.link(&format!("root/{link}"), to);
    }
    assert_eq!(codings("/c.css"), [Coding::Brotli], "what links lead to lies beside each other");
    assert_eq!(codings("/folder/a.css"), [Coding::Brotli, Coding::Zstd]);
}

#[test]
fn a_path_for_the_front_controller_is_recognised_without_disk_access() {
    let site = Site::with(&["root/index.php", "root/a.css", "root/admin/index.php", "root/d/x"]);
    site.link("root/link", "d");
    let root = DocumentRoot::new(site.path("root"), true);
    let mode = RoutingMode::from_entry_file(Some("index.php"));
    let is_left = |path: &str| root.leaves_all_to_the_entry(&mode, path.as_bytes());
    for path in ["/a.css", "/admin", "/admin/", "/d/x", "/index.php/x", "/link/x", "/a.css/x"] {
        assert!(!is_left(path), "{path}");
    }
    for path in ["/", "/index.php", "/.env", "/a/.file"] {
        assert!(is_left(path), "{path}: nothing has to be looked for");
    }
    for path in ["/posts/1", "/posts/2", "/none.php", "/none"] {
        // The first lookup makes the system remember that the file does not exist.
        assert_eq!(site.shown_in(&mode, path), "script root/index.php /index.php|", "{path}");
        if !is_left(path) {
            println!("skipped: this system cannot tell");
            return;
        }
    }
    std::fs::write(site.path("root/none"), "").unwrap();
    assert!(!is_left("/none"), "what has come since is seen at once");
    std::fs::create_dir_all(site.path("root/posts/1")).unwrap();
    assert!(!is_left("/posts/1"));
    let below = RoutingMode::from_entry_file(Some("admin/index.php"));
    assert!(!root.leaves_all_to_the_entry(&below, b"/admin"), "a directory that has an index");
    assert!(!root.leaves_all_to_the_entry(&RoutingMode::Files, b"/none.php"));
    assert!(!DocumentRoot::new(site.path("nowhere"), true).leaves_all_to_the_entry(&mode, b"/none.php"));
}

#[test]
fn a_path_for_the_page_is_recognised_without_disk_access() {
    let site = Site::with(&["root/app.html", "root/a.css", "root/d/x.php"]);
    let root = DocumentRoot::new(site.path("root"), true);
    let mode = RoutingMode::from_entry_file(Some("app.html"));
    let is_left = |path: &str| root.leaves_all_to_the_entry(&mode, path.as_bytes());
    for path in ["/a.css", "/d/x.php", "/d/x.php/y", "/d"] {
        assert!(!is_left(path), "{path}");
    }
    for path in ["/", "/d/", "/users/", "/app.html", "/.env"] {
        assert!(is_left(path), "{path}: nothing has to be looked for");
    }
    for path in ["/users/1", "/none.php", "/d/none.css"] {
        assert_eq!(site.shown_in(&mode, path), "file root/app.html", "{path}");
        if !is_left(path) {
            println!("skipped: this system cannot tell");
            return;
        }
    }
    std::fs::write(site.path("root/d/none.css"), "").unwrap();
    assert!(!is_left("/d/none.css"), "what has come since is seen at once");
}
