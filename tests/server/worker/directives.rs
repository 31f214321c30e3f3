//! Changes of directives are private to a request: requests beside it and after it do not see them.

use svc_testing::Svc;

const WORKER: &str = include_str!("../../php/directives.php");
const SETTINGS: [(&str, &str); 3] =
    [("PHP_WORKERS", "1"), ("WORKER_MODE_ENABLED", "true"), ("ENTRY_FILE", "worker.php")];

fn start(worker: &str, directives: &[&str]) -> Svc {
    Svc::start_with(&[("worker.php", worker)], &SETTINGS, directives)
}

fn text(svc: &Svc, path: &str) -> String {
    let response = svc.get(path);
    assert_eq!(response.status, 200, "{path}: {}", response.text());
    response.text()
}

/// Has a request change these directives, and checks requests beside it and after it. Returns how many directives it could
/// change.
fn check(svc: &Svc, names: &str, neutral: &str) -> usize {
    let mut client = svc.client();
    client.send(format!("GET /?do=change&names={} HTTP/1.1\r\nHost: x\r\n\r\n", names.replace(' ', "+")));
    assert_eq!(text(svc, "/?do=look"), neutral, "beside a request that has changed {names}");
    text(svc, "/?do=go");
    let response = client.response();
    assert_eq!(response.status, 200, "{names}: {}", response.text());
    let own = response.text();
    let count = own.strip_suffix(" same").unwrap_or_else(|| panic!("{names}: {own}"));
    assert_eq!(text(svc, "/?do=look"), neutral, "after a request that has changed {names}");
    count.parse().unwrap()
}

#[test]
fn every_directive_is_its_request_s() {
    let mut svc = start(WORKER, &["zend.assertions=1", "session.gc_probability=0"]);
    let neutral = text(&svc, "/?do=look");
    assert_eq!(text(&svc, "/?do=look"), neutral);
    assert!(neutral.ends_with("null,\n    []\n]"), "{neutral}");
    let names = text(&svc, "/?do=names");
    let changed: usize = names.split(' ').map(|name| check(&svc, name, &neutral)).sum();
    assert!(changed > 100, "only {changed} of {names}");
    // All of them together.
    assert!(check(&svc, &names, &neutral) > 100);
    let said = svc.whole_log().of("svc");
    assert!(!said.is_empty() && said.iter().all(|record| record["level"] != "ERROR"), "{said:?}");
}
