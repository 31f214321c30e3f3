//! Rules and patterns with persistent workers, where one script answers every request that matches no file.

use crate::support::Site;
use svc_testing::client::Client;

fn start(rules: &str, settings: &[(&str, &str)]) -> Site {
    let root = tempfile::tempdir().unwrap();
    for (name, text) in [("index.php", "script"), (".svcdeny", rules), ("a.txt", "a"), ("a.sql", "hidden")] {
        std::fs::write(root.path().join(name), text).unwrap();
    }
    let mode = [("WORKER_MODE_ENABLED", "true")];
    Site::start_in(root, &mode.iter().chain(settings).copied().collect::<Vec<_>>())
}

fn status(client: &mut Client, path: &str) -> u16 {
    client.get(path).status
}

#[test]
fn denied_requests_do_not_reach_a_worker() {
    let site = start("*.sql\nprivate/\n*.php\n", &[("PHP_DENY_PATHS", "/uploads/**")]);
    let mut client = site.client();
    for path in ["/a.sql", "/A.SQL", "/private", "/private/hello", "/index.php", "/hello/x.php"] {
        assert_eq!(status(&mut client, path), 404, "{path}");
    }
    for path in ["/uploads/x.txt", "/uploads/", "/uploads/%78"] {
        assert_eq!(status(&mut client, path), 404, "{path}");
    }
    assert_eq!((site.metrics().path_denied.value(), site.metrics().php_denied.value()), (6, 3));
    // The worker's script answers requests that no rule covers, even if a rule names the script.
    assert_eq!(client.get("/hello").text(), "hello");
    assert_eq!(client.get("/a.txt").text(), "a");
    drop(client);
    site.check_books();
}

#[test]
fn a_client_over_its_limit_takes_no_place_in_the_pool() {
    let site = start("", &[("RATE_LIMIT", "2"), ("RATE_WINDOW_SECONDS", "3600")]);
    let mut client = site.client();
    let statuses: Vec<u16> =
        ["/hello", "/hello", "/hello", "/a.txt"].map(|path| status(&mut client, path)).into();
    assert_eq!(statuses, [200, 200, 429, 429]);
    assert_eq!(site.metrics().rate_limited.value(), 2);
    assert_eq!(site.metrics().queue_wait.snapshot().count(), 2, "what a worker took");
    drop(client);
    site.check_books();
}
