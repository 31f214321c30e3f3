//! The examples of the page about background tasks, unchanged.

use tempfile::TempDir;

use svc_testing::Svc;
use svc_testing::client::eventually;
use svc_testing::tasks::{TaskAccounting, assert_laws};

const PAGE: &str = include_str!("../../../docs/async.md");

/// Returns the PHP examples in their order.
fn examples() -> Vec<&'static str> {
    PAGE.split("```php\n").skip(1).map(|rest| rest.split("```").next().unwrap()).collect()
}

/// Creates a folder with these files.
fn folder(files: &[(&str, &str)]) -> TempDir {
    let root = tempfile::tempdir().unwrap();
    std::fs::create_dir(root.path().join("public")).unwrap();
    for (name, text) in files {
        std::fs::write(root.path().join(name), text).unwrap();
    }
    root
}

#[test]
fn the_first_example_prints_the_output_on_the_page() {
    let svc = Svc::start(&[("tasks.php", examples()[0])], &[("ASYNC_WORKERS", "2")]);
    let response = svc.get("/tasks.php");
    assert!(PAGE.contains(&format!("/tasks.php\n{}\n", response.text())), "{}", response.text());
    assert_eq!(response.field("content-type"), Some("application/json"));
    assert_laws(&svc);
}

#[test]
fn every_example_is_php() {
    let linted = r"<?php try { token_get_all(file_get_contents(__DIR__ . $_GET['file']), TOKEN_PARSE); echo 'fine'; } catch (ParseError $e) { echo $e->getMessage(); }";
    let examples = examples();
    assert_eq!(examples.len(), 5);
    let texts = examples
        .iter()
        .map(|text| if text.starts_with("<?php") { (*text).to_owned() } else { format!("<?php\n{text}") });
    let texts: Vec<_> = texts.enumerate().map(|(n, text)| (format!("example-{n}.txt"), text)).collect();
    let mut files: Vec<_> = texts.iter().map(|(name, text)| (name.as_str(), text.as_str())).collect();
    files.push(("lint.php", linted));
    let svc = Svc::start(&files, &[]);
    for (name, text) in &texts {
        assert_eq!(svc.get(&format!("/lint.php?file=/{name}")).text(), "fine", "{text}");
    }
}

#[test]
fn the_long_example_has_one_connection_for_each_thread() {
    let [.., tasks, _] = examples()[..] else { panic!("two at the end") };
    let page = r"<?php
    require_once dirname(__DIR__) . '/tasks.php';
    $ask = fn (string $sql) => Svc\async(Backend::query(...), 'sqlite::memory:', $sql)->await();
    $ask('CREATE TABLE IF NOT EXISTS visits AS SELECT 1 AS visit');
    $ask('INSERT INTO visits VALUES (2)');
    echo json_encode($ask('SELECT visit FROM visits'));";
    let root = folder(&[("tasks.php", tasks), ("public/index.php", page)]);
    let path = |name: &str| root.path().join(name).to_str().unwrap().to_owned();
    let (public, entry) = (path("public"), path("tasks.php"));
    let settings =
        [("DOCUMENT_ROOT", public.as_str()), ("ASYNC_WORKERS", "1"), ("ASYNC_ENTRY_FILE", entry.as_str())];
    let svc = Svc::launch(root, &settings, &[]);
    assert_eq!(svc.get("/").text(), r#"[{"visit":1},{"visit":2}]"#);
    assert_eq!(svc.get("/").text(), r#"[{"visit":1},{"visit":2},{"visit":2}]"#);
}

#[test]
fn the_long_example_serves_a_page_and_sends_a_mail_in_each_mode() {
    let services = Svc::start(
        &[("prices.json", "[5]"), ("reviews.json", r#"["good"]"#), ("stock.json", "no JSON")],
        &[("STATIC_MAX_AGE", "0")],
    );
    let address = format!("http://{}", services.main());
    for mode in ["false", "true"] {
        let [.., tasks, page] = examples()[..] else { panic!("two at the end") };
        let root = folder(&[("tasks.php", tasks), ("public/index.php", page)]);
        let path = |name: &str| root.path().join(name).to_str().unwrap().to_owned();
        let (public, entry, mail) = (path("public"), path("tasks.php"), root.path().join("mail"));
        let settings = [
            ("DOCUMENT_ROOT", public.as_str()),
            ("ENTRY_FILE", "index.php"),
            ("WORKER_MODE_ENABLED", mode),
            ("ASYNC_WORKERS", "4"),
            ("ASYNC_ENTRY_FILE", entry.as_str()),
            ("SERVICES", address.as_str()),
            ("DSN", "sqlite::memory:"),
            ("PATH", "/usr/bin:/bin"),
        ];
        let svc = Svc::launch(root, &settings, &[&format!("sendmail_path=cat > {}", mail.display())]);
        // Half a second is short on a slow machine; a late part is null, like the part of the failing service.
        eventually("all parts are in time", || {
            let text = svc.get("/").text();
            text == r#"{"prices":[5],"stock":null,"reviews":["good"],"product":[{"id":"7"}],"related":[{"id":8},{"id":9}]}"#
                || text
                    == r#"{"prices":[5],"stock":null,"reviews":["good"],"product":[{"id":7}],"related":[{"id":8},{"id":9}]}"#
        });
        eventually("the mail is sent", || {
            std::fs::read_to_string(&mail).is_ok_and(|text| text.contains("looked at product 7"))
        });
        assert_laws(&svc);
        assert!(TaskAccounting::at_rest(&svc).failed > 0.0);
    }
}
