//! The applications of docs/applications.md: the tests run the page's commands unchanged, and an administrator and a
//! visitor use the result.
#![cfg(feature = "php")]

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use tempfile::TempDir;

use svc_testing::browser::{Browser, input};
use svc_testing::databases::{self, PASSWORD, USER};
use svc_testing::fetched::fetched;
use svc_testing::{Svc, wiki};

/// Returns the first code block in this language below this heading.
fn block(heading: &str, language: &str) -> String {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/applications.md");
    let page = fs::read_to_string(page).unwrap();
    let (_, rest) = page.split_once(&format!("\n## {heading}\n")).unwrap();
    let section = rest.split("\n## ").next().unwrap();
    let (_, block) = section.split_once(&format!("```{language}\n")).unwrap();
    block.split_once("```").unwrap().0.to_owned()
}

/// Starts the command below this heading of the page, with another directory instead of `directory`.
fn start_as_documented(heading: &str, directory: &str, root: TempDir, variables: &[(&str, &str)]) -> Svc {
    let command = block(heading, "console");
    let command = command.strip_prefix("$ ").unwrap();
    assert!(!command.contains("\n$ "), "one command: {command}");
    assert!(command.contains(directory), "{command}");
    let command = command.replace(directory, root.path().to_str().unwrap());
    let folder = Path::new(env!("CARGO_BIN_EXE_svc")).parent().unwrap();
    let plain = svc_testing::command(root.path(), variables);
    let mut shell = Command::new("sh");
    // `exec` replaces the shell, so that the test ends the server itself.
    shell.arg("-ec").arg(format!("exec env {command}")).env_clear().stdin(Stdio::null());
    shell.envs(plain.get_envs().filter_map(|(name, value)| Some((name, value?))));
    shell.env("PATH", format!("{}:/usr/bin:/bin", folder.display()));
    Svc::spawn(root, shell)
}

fn copied(from: impl AsRef<Path>, to: &Path) {
    let status = Command::new("cp").arg("-rpL").arg(from.as_ref().join(".")).arg(to).status().unwrap();
    assert!(status.success());
}

/// Creates a project of a framework: the tests' application, with its front controller and a stylesheet in `public`.
pub(super) fn project(name: &str, folders: &[&str]) -> TempDir {
    let root = tempfile::tempdir().unwrap();
    copied(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/php").join(name), root.path());
    for folder in folders {
        fs::create_dir_all(root.path().join(folder)).unwrap();
    }
    fs::create_dir(root.path().join("public")).unwrap();
    fs::write(root.path().join("public/index.php"), "<?php require __DIR__ . '/../classic.php';").unwrap();
    fs::write(root.path().join("public/app.css"), "body { color: #123 }").unwrap();
    root
}

/// The page names the versions of Debian 12; other distributions have others.
#[test]
fn the_page_names_the_versions_that_are_tested() {
    let release = fs::read_to_string("/etc/os-release").unwrap_or_default();
    if !release.lines().any(|line| line == "VERSION_CODENAME=bookworm") {
        return;
    }
    let page = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/applications.md")).unwrap();
    let page = page.replace('\n', " ");
    for (application, name, file, before, parts) in [
        ("wordpress", "WordPress", "wp-includes/version.php", "$wp_version = '", 2),
        ("laravel", "Laravel", "Illuminate/Foundation/Application.php", "const VERSION = '", 2),
        ("symfony", "Symfony", "Symfony/Component/HttpKernel/Kernel.php", "const VERSION = '", 2),
        ("symfony", "Twig", "Twig/Environment.php", "const VERSION = '", 2),
        ("dokuwiki", "DokuWiki", "VERSION", "", 0),
    ] {
        let Some(folder) = fetched(application) else { return };
        let text = fs::read_to_string(Path::new(&folder).join(file)).unwrap();
        let (_, version) = text.split_once(before).unwrap();
        let version = if parts == 0 {
            // In `2022-07-31b "Igor"`, the letter counts the fixes of a release.
            let (date, code) = version.trim().split_once(' ').unwrap();
            format!("{} {code}", date.trim_end_matches(char::is_alphabetic))
        } else {
            version.split('\'').next().unwrap().split('.').take(parts).collect::<Vec<_>>().join(".")
        };
        assert!(page.contains(&format!("{name} {version}")), "{name} {version}");
    }
}

fn assert_asset(svc: &Svc, path: &str, kind: &str) {
    let asset = svc.get(path);
    assert_eq!((asset.status, asset.field("content-type")), (200, Some(kind)), "{path}");
}

/// Installs WordPress, with a plugin in `wp-content/mu-plugins` if there is one. Returns the server, and the session of
/// an administrator.
fn install_wordpress(
    database: &databases::Database,
    plugin: Option<&str>,
    variables: &[(&str, &str)],
) -> Option<(Svc, Browser)> {
    let source = fetched("wordpress")?;
    let root = tempfile::tempdir().unwrap();
    copied(source, root.path());
    if let Some(plugin) = plugin {
        let folder = root.path().join("wp-content/mu-plugins");
        fs::create_dir_all(&folder).unwrap();
        fs::copy(Path::new(env!("CARGO_MANIFEST_DIR")).join(plugin), folder.join("plugin.php")).unwrap();
    }
    // WordPress checks over HTTP whether pretty permalinks work while it answers the installer.
    let svc = start_as_documented("WordPress", "/srv/wordpress", root, variables);
    let mut admin = Browser::open(svc.main());
    assert!(admin.get("/").text().contains("Setup Configuration File"), "the front page leads to the setup");
    let host = format!("localhost:{}", database.socket().display());
    let fields = [
        ("dbname", database.name()),
        ("uname", USER),
        ("pwd", PASSWORD),
        ("dbhost", &host),
        ("prefix", "wp_"),
    ];
    let page = admin.submit("/wp-admin/setup-config.php?step=2", &fields);
    assert!(page.text().contains("Successful database connection"), "{}", page.text());
    let fields = [
        ("weblog_title", "Wombats"),
        ("user_name", "ada"),
        ("admin_password", "s3cret & l\u{f6}ng"),
        ("admin_password2", "s3cret & l\u{f6}ng"),
        ("pw_weak", "on"),
        ("admin_email", "ada@example.org"),
        ("Submit", "Install WordPress"),
    ];
    let page = admin.submit("/wp-admin/install.php?step=2", &fields);
    assert!(page.text().contains("WordPress has been installed"), "{}", page.text());
    log_in_to_wordpress(&mut admin);
    Some((svc, admin))
}

#[test]
fn wordpress_is_installed_and_has_pretty_permalinks() {
    let Some(database) = databases::mariadb() else { return };
    let Some((svc, mut admin)) = install_wordpress(&database, None, &[("PHP_WORKERS", "4")]) else { return };
    let mut visitor = Browser::open(svc.main());
    let front = visitor.get("/").text();
    let site = format!("href=\"http://{}", svc.main());
    let permalink = front.split(&site).skip(1).find(|rest| rest.contains("/hello-world/"));
    let permalink = permalink.and_then(|rest| rest.split('"').next()).unwrap_or_else(|| panic!("{front}"));
    assert!(!permalink.contains("index.php") && permalink.starts_with("/2"), "{permalink}");
    assert!(visitor.get(permalink).text().contains("<title>Hello world! &#8211; Wombats</title>"));
    // The address with a query redirects to it.
    assert!(visitor.get("/?p=1").text().contains("<title>Hello world! &#8211; Wombats</title>"));
    let comment = [("comment", "A <em>wombat</em> digs."), ("comment_post_ID", "1"), ("comment_parent", "0")];
    let page = admin.submit("/wp-comments-post.php", &comment);
    assert!(page.text().contains("A <em>wombat</em> digs."), "{}", page.text());
    assert!(visitor.get(permalink).text().contains("A <em>wombat</em> digs."));
    assert_eq!(visitor.get("/no/such/page/").status, 404);
    let posts: serde_json::Value = serde_json::from_str(&visitor.get("/wp-json/wp/v2/posts").text()).unwrap();
    assert_eq!(posts[0]["slug"], "hello-world");
    assert_asset(&svc, "/wp-includes/css/dashicons.min.css?ver=6", "text/css; charset=utf-8");
    assert_asset(&svc, "/wp-includes/js/jquery/jquery.min.js", "text/javascript; charset=utf-8");

    fs::create_dir_all(svc.root().join("wp-content/uploads/2026")).unwrap();
    fs::write(svc.root().join("wp-content/uploads/2026/shell.php"), "<?php echo 'run';").unwrap();
    let upload = visitor.get("/wp-content/uploads/2026/shell.php");
    assert!(upload.status == 404 && !upload.text().contains("run"), "{upload:?}");
    assert_no_error(&svc);
}

/// Publishes a post, as an editor or a program does.
const PUBLISH: &str = r"<?php
require 'wp-load.php';
header('Content-Type: text/plain');
echo get_permalink(wp_insert_post(['post_title' => $_GET['title'], 'post_content' => 'Text of ' . $_GET['title'],
    'post_status' => 'publish', 'post_author' => 1, 'post_password' => $_GET['password'] ?? '']));";

/// Changes what all pages show, as the screens of the administration do.
const RESHAPE: &str = r"<?php
require 'wp-load.php';
header('Cache-Control: no-store');
match ($_GET['what']) {
    'category' => wp_update_term(1, 'category', ['name' => 'Monotremes']),
    'tagline' => update_option('blogdescription', 'Eggs and milk'),
    'author' => wp_update_user(['ID' => 1, 'display_name' => 'Ada L.']),
};";

/// A shop in the manner of WooCommerce: its cookies, and a page that shows the cart.
const SHOP: &str = r"<?php
add_action('wp_loaded', function () {
    if (isset($_GET['add-to-cart'])) {
        setcookie('woocommerce_items_in_cart', '1', 0, '/');
        setcookie('woocommerce_cart_hash', md5('1'), 0, '/');
        setcookie('wp_woocommerce_session_' . COOKIEHASH, 't_1||2||3||4', time() + 3600, '/');
    }
});
add_action('wp', function () {
    if (isset($_GET['checkout'])) {
        define('DONOTCACHEPAGE', true);
    }
    if (isset($_GET['account'])) {
        nocache_headers();
    }
});
add_action('wp_footer', fn () => print('Items: ' . ($_COOKIE['woocommerce_items_in_cart'] ?? 0) . '.'));";

#[test]
fn wordpress_visitors_get_cached_pages_and_see_new_posts() {
    let Some(database) = databases::mariadb() else { return };
    // The plugin calls functions of svc.
    let settings = [("PHP_WORKERS", "4"), ("RESPONSE_CACHE_BYTES", "64M"), ("EXECUTOR", "sapi")];
    let plugin = Some("examples/wordpress-cache.php");
    let Some((svc, mut admin)) = install_wordpress(&database, plugin, &settings) else { return };
    fs::write(svc.root().join("publish.php"), PUBLISH).unwrap();
    fs::write(svc.root().join("wp-content/mu-plugins/shop.php"), SHOP).unwrap();
    let site = format!("http://{}", svc.main());
    let status = |response: &svc_testing::client::Response| {
        response.field("cache-status").unwrap_or("none").to_owned()
    };
    let visitor = || Browser::open(svc.main());
    // The redirect to the setup was not stored, so that requests for the front page ran side by side for a while.
    svc_testing::client::eventually("it is stored", || status(&visitor().get("/")).starts_with("svc; hit"));
    let front = visitor().get("/");
    assert!(front.field("cache-tag").is_none() && front.field("svc-cache-control").is_none());

    // Users who have logged in bypass the cache: their responses are not stored, and they get no stored ones.
    let page = admin.get("/");
    assert!(status(&page) == "svc; fwd=bypass" && page.text().contains("wp-admin-bar"), "{}", status(&page));
    assert!(!visitor().get("/").text().contains("wp-admin-bar"));
    assert_eq!(status(&admin.get("/?p=1&preview=true")), "svc; fwd=bypass");

    // A new post is visible at once, and so is a comment.
    let publish = |query: &str| visitor().get(&format!("/publish.php?{query}")).text().replace(&site, "");
    let post = publish("title=Echidna");
    assert!(visitor().get("/").text().contains("Echidna"));
    assert!(status(&visitor().get("/")).starts_with("svc; hit"));
    visitor().get(&post);
    assert!(status(&visitor().get(&post)).starts_with("svc; hit"), "{post}");
    let id = visitor().get("/wp-json/wp/v2/posts").text();
    let id: serde_json::Value = serde_json::from_str(&id).unwrap();
    let id = id[0]["id"].to_string();

    // Commenters see their comments before these are approved; others do not.
    let mut commenter = visitor();
    let own = [
        ("comment", "I saw one."),
        ("comment_post_ID", &*id),
        ("comment_parent", "0"),
        ("author", "Grace"),
        ("email", "grace@example.org"),
        ("wp-comment-cookies-consent", "yes"),
    ];
    commenter.submit("/wp-comments-post.php", &own);
    let page = commenter.get(&post);
    assert!(status(&page) == "svc; fwd=bypass" && page.text().contains("I saw one."), "{}", status(&page));
    assert!(!visitor().get(&post).text().contains("I saw one."));
    // A comment that is approved is there at once.
    let comment = [("comment", "It has spines."), ("comment_post_ID", &*id), ("comment_parent", "0")];
    admin.submit("/wp-comments-post.php", &comment);
    assert!(visitor().get(&post).text().contains("It has spines."));

    // A password opens a post for those who know it.
    let secret = publish("title=Platypus&password=duck");
    let mut friend = visitor();
    for _ in 0..2 {
        let page = friend.get(&secret);
        assert!(
            !page.text().contains("Text of Platypus") && !status(&page).contains("hit"),
            "{}",
            status(&page)
        );
    }
    friend.submit("/wp-login.php?action=postpass", &[("post_password", "duck"), ("Submit", "Enter")]);
    assert!(friend.get(&secret).text().contains("Text of Platypus"));
    assert!(!visitor().get(&secret).text().contains("Text of Platypus"));

    // A visitor with a cart sees it, and others do not.
    let mut shopper = visitor();
    assert!(shopper.get("/").text().contains("Items: 0."));
    assert!(!status(&shopper.get("/?add-to-cart=1")).contains("stored"));
    let page = shopper.get("/");
    assert!(status(&page) == "svc; fwd=bypass" && page.text().contains("Items: 1."), "{}", status(&page));
    for path in ["/", "/?add-to-cart=1"] {
        assert!(visitor().get(path).text().contains("Items: 0."), "{path}");
    }
    for path in ["/?checkout", "/?account", "/?checkout", "/?account"] {
        let page = visitor().get(path);
        assert!(status(&page).starts_with("svc; fwd=") && !status(&page).contains("stored"), "{path}");
    }
    assert_no_error(&svc);
}

#[test]
fn wordpress_visitors_see_settings_that_change() {
    let Some(database) = databases::mariadb() else { return };
    // The plugin calls functions of svc.
    let settings = [("PHP_WORKERS", "4"), ("RESPONSE_CACHE_BYTES", "64M"), ("EXECUTOR", "sapi")];
    let plugin = Some("examples/wordpress-cache.php");
    let Some((svc, _)) = install_wordpress(&database, plugin, &settings) else { return };
    fs::write(svc.root().join("reshape.php"), RESHAPE).unwrap();
    let get = |path: &str| Browser::open(svc.main()).get(path);
    let is_hit =
        |path: &str| get(path).field("cache-status").is_some_and(|status| status.starts_with("svc; hit"));
    for (what, path, text) in [
        ("category", "/?p=1", "Monotremes"),
        ("tagline", "/feed/", "Eggs and milk"),
        ("author", "/?p=1", "Ada L."),
    ] {
        svc_testing::client::eventually("it is stored", || is_hit(path));
        assert!(!get(path).text().contains(text), "{what}");
        assert_eq!(get(&format!("/reshape.php?what={what}")).status, 200, "{what}");
        assert!(get(path).text().contains(text), "{what}");
    }
    assert_no_error(&svc);
}

fn log_in_to_wordpress(admin: &mut Browser) {
    admin.get("/wp-login.php");
    let fields = |password| {
        [
            ("log", "ada"),
            ("pwd", password),
            ("redirect_to", "/wp-admin/"),
            ("testcookie", "1"),
            ("rememberme", "forever"),
        ]
    };
    let page = admin.submit("/wp-login.php", &fields("wrong"));
    assert!(page.text().contains("is incorrect"), "{}", page.text());
    let page = admin.submit("/wp-login.php", &fields("s3cret & l\u{f6}ng"));
    assert!(page.text().contains("<title>Dashboard"), "{}", page.text());
}

fn assert_no_error(svc: &Svc) {
    let fatal: Vec<_> = svc.log().of("php").into_iter().filter(|record| record["level"] == "ERROR").collect();
    assert!(fatal.is_empty(), "{fatal:?}");
    svc.assert_metric("svc_responses_by_status_total{status=\"5xx\"}", 0.0);
}

#[test]
fn laravel_answers_forms_and_pretty_urls() {
    let Some(classes) = fetched("laravel") else { return };
    let folders =
        ["bootstrap/cache", "storage/framework/sessions", "storage/framework/views", "storage/app/public"];
    let root = project("laravel", &folders);
    std::os::unix::fs::symlink("../storage/app/public", root.path().join("public/storage")).unwrap();
    fs::write(root.path().join("storage/app/public/note.txt"), "stored").unwrap();
    fs::write(root.path().join("storage/app/public/shell.php"), "<?php echo 'run';").unwrap();
    let svc = start_as_documented("Laravel", "/srv/laravel", root, &[("LARAVEL", &classes)]);
    let mut browser = Browser::open(svc.main());
    assert_eq!(browser.get("/?name=Ada").status, 200);
    let form = browser.get("/form").text();
    let token = input(&form, "_token");
    let fields = [("_token", token.as_str()), ("name", "Ada"), ("visit", "1"), ("list[]", "a")];
    let page = browser.submit("/form", &fields);
    assert!(page.status == 200 && page.text().contains("Saved 3 fields."), "{}", page.text());
    assert_eq!(browser.get("/json/7").status, 405, "a route with a parameter, which takes PUT only");
    assert_eq!(browser.get("/nowhere").status, 404);
    assert_asset(&svc, "/app.css", "text/css; charset=utf-8");
    assert_eq!(svc.get("/storage/note.txt").text(), "stored");
    let upload = svc.get("/storage/shell.php");
    assert!(upload.status == 404 && !upload.text().contains("run"), "{upload:?}");
}

#[test]
fn symfony_answers_forms_and_pretty_urls() {
    let Some(classes) = fetched("symfony") else { return };
    let root = project("symfony", &["var/twig"]);
    let svc = start_as_documented("Symfony", "/srv/symfony", root, &[("SYMFONY", &classes)]);
    let mut browser = Browser::open(svc.main());
    assert!(browser.get("/?name=Ada").text().contains("Ada"));
    let page = browser.submit("/form", &[("name", "Ada"), ("visit", "1"), ("list[]", "a"), ("empty", "")]);
    assert_eq!(page.status, 200, "{}", page.text());
    assert!(browser.get("/saved").text().contains("Ada"), "{}", browser.get("/saved").text());
    assert!(browser.get("/json/7").text().contains("\"id\":7"));
    assert_eq!(browser.get("/nowhere").status, 404);
    assert_asset(&svc, "/app.css", "text/css; charset=utf-8");
}

#[test]
fn dokuwiki_is_installed_and_keeps_its_files_to_itself() {
    let root = wiki::fresh_copy();
    fs::write(root.path().join(".svcdeny"), block("DokuWiki", "text")).unwrap();
    let svc = start_as_documented("DokuWiki", "/srv/dokuwiki", root, &[("PHP_WORKERS", "4")]);
    let mut admin = Browser::open(svc.main());
    wiki::install(&mut admin);
    wiki::log_in(&mut admin);
    let pages = svc.root().join("data/pages");
    assert!(pages.is_dir() && svc.root().join("conf/users.auth.php").is_file());
    fs::write(pages.join("digging.txt"), "====== Digging ======\n").unwrap();
    let settings = "<?php $conf['userewrite'] = 2;";
    fs::write(svc.root().join("conf/local.protected.php"), settings).unwrap();
    for path in [
        "/data/pages/digging.txt",
        "/conf/local.php",
        "/conf/dokuwiki.php",
        "/inc/init.php",
        "/bin/wantedpages.php",
    ] {
        assert_eq!(svc.get(path).status, 404, "{path}");
    }
    for path in ["/doku.php?id=digging", "/doku.php/digging", "/"] {
        assert_eq!(admin.get(path).status, 200, "{path}");
    }
    assert!(
        admin.get("/doku.php/digging").text().contains("Digging"),
        "{:?}",
        admin.get("/doku.php/digging")
    );
    assert_asset(&svc, "/lib/tpl/dokuwiki/images/logo.png", "image/png");
    assert_no_error(&svc);
}
