//! Requests that take turns on one thread do not see each other's state.

use svc_testing::Svc;
use svc_testing::client::{Client, eventually};

const WORKER: &str = include_str!("../../php/worker.php");
const EXTENSIONS: &str = include_str!("../../php/extensions.php");

fn start() -> Svc {
    start_with(WORKER)
}

fn start_with(worker: &str) -> Svc {
    let settings = [("PHP_WORKERS", "1"), ("WORKER_MODE_ENABLED", "true"), ("ENTRY_FILE", "worker.php")];
    Svc::start_with(&[("worker.php", worker)], &settings, &["zend.assertions=1"])
}

/// Starts a request that changes everything, and stays inside it until the file `leave` appears.
fn enter(svc: &Svc, name: &str) -> Client {
    stay(svc, "/dirty?", name)
}

fn stay(svc: &Svc, path: &str, name: &str) -> Client {
    let mut client = svc.client();
    client.send(format!("GET {path}stay={name} HTTP/1.1\r\nHost: x\r\n\r\n"));
    eventually("the dirty request is inside", || svc.root().join(format!("inside-{name}")).exists());
    client
}

fn leave(svc: &Svc, name: &str) {
    std::fs::write(svc.root().join(format!("go-{name}")), "").unwrap();
}

fn look(svc: &Svc) -> String {
    let response = svc.get("/look");
    assert_eq!(response.status, 200, "{}", response.text());
    response.text()
}

#[test]
fn nothing_stays_on_the_thread() {
    let svc = start();
    let clean = look(&svc);
    assert!(clean.contains("\"precision\":\"11\"") && clean.contains("Europe\\/Berlin"), "{clean}");
    for (end, status) in [("", 201), ("?end=exit", 201), ("?end=exception", 201), ("?end=buffers", 201)] {
        let response = svc.get(&format!("/dirty{end}"));
        assert_eq!(response.status, status, "{end}: {}", response.text());
        assert!(response.text().contains(" bye"), "its shutdown function ran: {}", response.text());
        assert_eq!(look(&svc), clean, "after {end:?}");
    }
}

#[test]
fn nothing_is_seen_while_another_request_waits() {
    let svc = start();
    let clean = look(&svc);
    let mut dirty = enter(&svc, "a");
    for _ in 0..3 {
        assert_eq!(look(&svc), clean);
    }
    let other = svc.get("/dirty").text();
    assert_eq!(other, "[still dirty bye]");
    assert_eq!(look(&svc), clean);
    leave(&svc, "a");
    let response = dirty.response();
    assert_eq!(
        response.text(),
        "[still dirty bye]",
        "the other requests cleaned up behind the wrong one's back"
    );
    assert_eq!(response.status, 201);
    assert_eq!(response.field("x-left"), Some("behind"));
    assert_eq!(look(&svc), clean);
}

#[test]
fn relative_names_are_looked_up_where_the_request_is() {
    let worker = r#"<?php
Svc\Worker::serve(function () {
    $in = $_GET['in'] ?? null;
    $in === null || chdir(__DIR__ . "/$in");
    include 'name.php';
    Svc\sleep(0.03);
    include 'name.php';
});"#;
    let files = [
        ("worker.php", worker),
        ("name.php", "<?php echo 'root ';"),
        ("a/name.php", "<?php echo 'a ';"),
        ("b/name.php", "<?php echo 'b ';"),
    ];
    let settings = [("PHP_WORKERS", "1"), ("WORKER_MODE_ENABLED", "true"), ("ENTRY_FILE", "worker.php")];
    let svc = Svc::start_with(&files, &settings, &["opcache.file_update_protection=0", "include_path=."]);
    let asked = ["/x?in=a", "/x?in=b", "/x", "/x?in=a", "/x", "/x?in=b"];
    for _ in 0..2 {
        let mut clients: Vec<_> = asked
            .iter()
            .map(|path| {
                let mut client = svc.client();
                client.send(format!("GET {path} HTTP/1.1\r\nHost: x\r\n\r\n"));
                client
            })
            .collect();
        let texts: Vec<_> = clients.iter_mut().map(|client| client.response().text()).collect();
        assert_eq!(texts, ["a a ", "b b ", "root root ", "a a ", "root root ", "b b "]);
    }
}

#[test]
fn state_of_extensions_belongs_to_the_request() {
    let svc = start_with(EXTENSIONS);
    let of = |path: &str| {
        let response = svc.get(path);
        assert_eq!(response.status, 200, "{}", response.text());
        response.text()
    };
    let (clean, a, b) = (of("/"), of("/?as=a"), of("/?as=b"));
    assert!(clean.contains("\"boot\""), "the loader of entities that the boot script has set: {clean}");
    assert!(clean != a && a != b && b != clean, "{clean}\n{a}\n{b}");
    assert!(a.contains("\"still\"") && b.contains("\"still\""), "{a}\n{b}");
    assert_eq!(of("/"), clean);
    let mut first = stay(&svc, "/?as=a&", "first");
    assert_eq!(of("/"), clean, "beside one");
    let mut second = stay(&svc, "/?as=b&", "second");
    let mut third = stay(&svc, "/?", "third");
    assert_eq!(of("/?as=b"), b);
    for (client, name, alone) in
        [(&mut first, "first", &a), (&mut third, "third", &clean), (&mut second, "second", &b)]
    {
        leave(&svc, name);
        assert_eq!(client.response().text(), *alone, "{name}");
        assert_eq!(of("/"), clean, "after {name}");
    }
}

const LATE: &str = r#"<?php
final class Late
{
    public function __construct(public string $id) {}
    public function __invoke(): bool { return false; }
    public function __destruct()
    {
        Svc\sleep(0.002);
        echo 'late';
        putenv('LATE=1');
        ini_set('precision', '7');
        setcookie('late', '1');
        set_error_handler(fn () => true);
        set_exception_handler(fn () => null);
        register_shutdown_function(fn () => touch(__DIR__ . '/never'));
        register_tick_function(fn () => null);
        stream_context_set_default(['http' => ['user_agent' => 'late']]);
        $_GET['late'] = $_SERVER['late'] = 1;
        Svc\sleep(0.002);
        $GLOBALS['gone'] = ($GLOBALS['gone'] ?? 0) + (($_COOKIE['id'] ?? $this->id) === $this->id ? 1 : 1000);
    }
}
Svc\Worker::serve(function () {
    if (isset($_GET['look'])) {
        $handlers = [set_error_handler(null), set_exception_handler(null)];
        echo json_encode([$handlers, getenv('LATE'), ini_get('precision'), count(headers_list()), isset($_SERVER['late']),
            stream_context_get_options(stream_context_get_default()), $GLOBALS['gone'] ?? 0]);
        return;
    }
    $id = $_COOKIE['id'];
    set_error_handler(new Late($id));
    set_error_handler(new Late($id));
    set_exception_handler(new Late($id));
    register_shutdown_function(new Late($id));
    register_tick_function(new Late($id));
    stream_context_set_default(['http' => ['late' => new Late($id)]]);
    $_GET['object'] = $_SERVER['object'] = new Late($id);
    @assert_options(ASSERT_CALLBACK, new Late($id));
    echo $id;
});"#;

#[test]
fn destructors_at_the_end_run_on_behalf_of_their_request() {
    let mut svc = Svc::start(
        &[("worker.php", LATE)],
        &[("PHP_WORKERS", "1"), ("WORKER_MODE_ENABLED", "true"), ("ENTRY_FILE", "worker.php")],
    );
    let before = svc.get("/?look").text();
    assert!(before.ends_with(",0]"), "{before}");
    for round in 1..=3 {
        let ask = |id: u32| {
            let mut client = svc.client();
            client.send(format!("GET / HTTP/1.1\r\nHost: x\r\nCookie: id={id}\r\n\r\n"));
            client
        };
        let clients: Vec<_> = (0..6).map(ask).collect();
        for (id, mut client) in clients.into_iter().enumerate() {
            assert!(client.response().text().starts_with(&id.to_string()));
        }
        let (rest, none) = (before.trim_end_matches("0]"), format!("{}]", round * 6 * 8));
        eventually("all objects are gone", || {
            let text = svc.get("/?look").text();
            assert!(text.starts_with(rest), "{text} instead of {rest}");
            text.ends_with(&format!(",{none}"))
        });
    }
    assert!(!svc.root().join("never").exists());
    let said = svc.whole_log().of("svc");
    assert!(!said.is_empty() && said.iter().all(|record| record["level"] != "ERROR"), "{said:?}");
}
