//! Pages about failures of scripts in worker mode, and of the boot of workers.

use svc_testing::client::eventually;

use super::pages::{FAILURES, assert_all_failures, assert_page, files};
use super::{asked, save, start, visit};

#[test]
fn each_failure_has_a_page_in_worker_mode() {
    assert_all_failures(&["--worker", "worker.php"]);
}

#[test]
fn each_failure_has_a_page_in_loops_of_frankenphp() {
    let loops =
        "<?php while (frankenphp_handle_request(fn () => require __DIR__ . $_SERVER['REQUEST_URI'])) {}";
    let files = files();
    let mut files: Vec<_> = files.iter().map(|(name, text)| (name.as_str(), text.as_str())).collect();
    files.push(("loop.php", loops));
    let svc = start(&files, &["--worker", "loop.php"]);
    for name in ["thrown", "memory", "compile", "included"] {
        let (_, _, class, message, _) = FAILURES.into_iter().find(|(other, ..)| *other == name).unwrap();
        assert_page(&visit(&svc, &format!("/{name}.php")), class, message, name);
    }
}

#[test]
fn a_worker_that_does_not_boot_answers_with_the_reason() {
    let code = "<?php\nrequire __DIR__ . '/app.inc';\nSvc\\Worker::serve(fn () => print(answer()));";
    let broken = "<?php\nthrow new RuntimeException('no <database>');";
    let svc = start(
        &[("worker.php", code), ("app.inc", broken), ("plain.txt", "file")],
        &["--worker", "worker.php"],
    );
    eventually("the reason is known", || visit(&svc, "/").text().contains("no &lt;database&gt;"));
    let response = visit(&svc, "/any/path");
    assert_eq!(response.status, 500);
    assert_page(&response, "RuntimeException", "<i>2</i>throw new", "boot");
    assert_eq!(visit(&svc, "/plain.txt").text(), "file", "files are served");
    let app = svc.root().join("app.inc");
    save(&app, "<?php function answer() { return 'one'; }");
    eventually("the mended code runs", || visit(&svc, "/").text().starts_with("one"));
    save(&app, "<?php function (");
    eventually("the reason answers although old workers run", || {
        visit(&svc, "/").text().contains("<h1>ParseError</h1>")
    });
    let json = asked(&mut svc.client(), "GET", "/", "Accept: application/json");
    assert!(json.text().contains("\"class\": \"ParseError\""), "{}", json.text());
    save(&app, "<?php function answer() { return 'two'; }");
    eventually("the mended code runs again", || visit(&svc, "/").text().starts_with("two"));
}

#[test]
fn a_worker_that_does_not_serve_is_reported() {
    let svc = start(&[("worker.php", "<?php $a = 1;")], &["--worker", "worker.php"]);
    eventually("the reason is known", || visit(&svc, "/").text().contains("without waiting for requests"));
}
