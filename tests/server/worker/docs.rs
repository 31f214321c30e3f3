//! The example of the page about PHP, unchanged.

use svc_testing::Svc;

const PAGE: &str = include_str!("../../../docs/php.md");

#[test]
fn the_example_serves() {
    let example = PAGE.split("```php\n").nth(1).and_then(|rest| rest.split("```").next()).unwrap();
    let settings = [("PHP_WORKERS", "1"), ("WORKER_MODE_ENABLED", "true"), ("ENTRY_FILE", "worker.php")];
    let svc = Svc::start(&[("worker.php", example), ("file.txt", "a file")], &settings);
    for served in 1..4 {
        let response = svc.get("/any/path?name=You");
        assert_eq!(response.text(), "Hello, You!");
        assert_eq!(response.field("x-served"), Some(&*served.to_string()));
        assert_eq!(response.field("content-type"), Some("text/plain;charset=UTF-8"));
    }
    assert_eq!(svc.get("/file.txt").text(), "a file");
}
