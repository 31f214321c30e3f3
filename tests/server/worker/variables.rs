//! `$_SERVER` in worker mode, where one request's strings may serve the next.

use svc_testing::Svc;
use svc_testing::client::eventually;

const WORKER: &str = r#"<?php
$kept = [];
Svc\Worker::serve(function () use (&$kept) {
    $seen = json_encode([$_SERVER['REQUEST_URI'], $_SERVER['HTTP_X_A'] ?? null, $_SERVER['HTTP_X_B'] ?? null,
        filter_input(INPUT_SERVER, 'HTTP_X_A')], JSON_UNESCAPED_SLASHES);
    if (isset($_GET['spoil'])) {
        // In place, through references, and for later.
        foreach ($_SERVER as $name => &$value) {
            $kept[] = $name;
            if (is_string($value)) {
                $kept[] = $value;
                $value .= ' spoilt';
                $value[0] = '!';
                $kept[] = &$value;
            }
        }
    }
    if (isset($_GET['kept'])) {
        $kept = [];
    }
    echo $seen;
});"#;

fn start() -> Svc {
    let settings = [("PHP_WORKERS", "1"), ("WORKER_MODE_ENABLED", "true"), ("ENTRY_FILE", "worker.php")];
    Svc::start_with(&[("worker.php", WORKER)], &settings, &[])
}

fn ask(svc: &Svc, path: &str, fields: &str) -> String {
    let mut client = svc.client();
    client.send(format!("GET {path} HTTP/1.1\r\nHost: x\r\n{fields}\r\n"));
    client.response().text()
}

#[test]
fn changes_of_variables_do_not_reach_the_next_request() {
    let svc = start();
    for round in 0..50 {
        let fields = "X-A: first\r\nX-B: second\r\n";
        assert_eq!(ask(&svc, "/?spoil", fields), r#"["/?spoil","first","second","first"]"#, "round {round}");
        assert_eq!(ask(&svc, "/", fields), r#"["/","first","second","first"]"#, "round {round}");
        if round % 7 == 0 {
            ask(&svc, "/?kept", fields);
        }
    }
}

#[test]
fn requests_that_differ_in_fields_do_not_get_each_other_s() {
    let svc = start();
    let long = "v".repeat(3000);
    for _ in 0..10 {
        assert_eq!(ask(&svc, "/", "X-A: a\r\nX-B: b\r\n"), r#"["/","a","b","a"]"#);
        assert_eq!(ask(&svc, "/", "X-B: b\r\nX-A: a\r\n"), r#"["/","a","b","a"]"#, "another order");
        assert_eq!(ask(&svc, "/", "X-B: a\r\n"), r#"["/",null,"a",null]"#, "one is missing");
        assert_eq!(ask(&svc, "/", "X-A:\r\n"), r#"["/","",null,""]"#, "an empty one");
        assert_eq!(ask(&svc, "/", &format!("X-A: {long}\r\n")), format!(r#"["/","{long}",null,"{long}"]"#));
        let large: String = (0..4).map(|n| format!("X-Large-{n}: {long}{long}\r\n")).collect();
        assert_eq!(ask(&svc, "/", &format!("{large}X-A: l\r\n")), r#"["/","l",null,"l"]"#, "24 KB in all");
        let many: String = (0..90).map(|n| format!("X-{n}: {n}\r\n")).collect();
        assert_eq!(ask(&svc, "/", &format!("{many}X-A: last\r\n")), r#"["/","last",null,"last"]"#);
    }
}

#[test]
fn a_waiting_request_keeps_its_variables_while_others_run() {
    const WAITS: &str = r#"<?php
Svc\Worker::serve(function () {
    if (isset($_GET['waits'])) {
        touch(__DIR__ . '/waits');
        while (!file_exists(__DIR__ . '/goes_on')) {
            Svc\sleep(0.005);
        }
    }
    foreach (['REQUEST_URI', 'HTTP_X_A', 'HTTP_X_B'] as $name) {
        $seen[] = [$_SERVER[$name] ?? null, filter_input(INPUT_SERVER, $name)];
    }
    echo json_encode($seen, JSON_UNESCAPED_SLASHES);
});"#;
    let settings = [("PHP_WORKERS", "1"), ("WORKER_MODE_ENABLED", "true"), ("ENTRY_FILE", "worker.php")];
    let svc = Svc::start(&[("worker.php", WAITS)], &settings);
    let mut waiting = svc.client();
    waiting.send("GET /?waits HTTP/1.1\r\nHost: x\r\nX-A: one\r\nX-B: two\r\n\r\n");
    eventually("the request waits", || svc.root().join("waits").exists());
    assert_eq!(
        ask(&svc, "/", "X-A: three\r\nX-B: two\r\n"),
        r#"[["/","/"],["three","three"],["two","two"]]"#
    );
    assert_eq!(ask(&svc, "/", "X-B: four\r\n"), r#"[["/","/"],[null,null],["four","four"]]"#);
    std::fs::write(svc.root().join("goes_on"), "").unwrap();
    assert_eq!(waiting.response().text(), r#"[["/?waits","/?waits"],["one","one"],["two","two"]]"#);
}

#[test]
fn changes_of_the_environment_do_not_reach_the_next_request() {
    const BOOT: &str = r#"<?php
$_ENV = ['a' => 'boot', 'b' => ['c' => 'boot'], 'd' => 'boot'];
$_ENV['self'] = &$_ENV['b'];
foreach ($_ENV as &$value) { $inner = &$_ENV['b']['c']; }
Svc\Worker::serve(function () {
    $seen = [$_ENV['a'], $_ENV['b']['c'], $_ENV['d'], $_ENV['self']['c']];
    $_ENV['a'] = $_ENV['b']['c'] = $_ENV['d'] = $_ENV['self']['c'] = 'spoilt';
    echo json_encode($seen);
});"#;
    let settings = [("PHP_WORKERS", "1"), ("WORKER_MODE_ENABLED", "true"), ("ENTRY_FILE", "worker.php")];
    let svc = Svc::start(&[("worker.php", BOOT)], &settings);
    for _ in 0..3 {
        assert_eq!(svc.get("/").text(), r#"["boot","boot","boot","boot"]"#);
    }
}

#[test]
fn to_ask_for_a_variable_by_its_name_leaves_no_memory_behind() {
    let worker = r#"<?php
Svc\Worker::serve(function () {
    $before = memory_get_usage();
    for ($i = 0; $i < 1000; $i++) {
        $path = getenv('REQUEST_URI');
    }
    echo $path, ' ', memory_get_usage() - $before < 1000 ? 'nothing' : 'something';
});"#;
    let settings = [("PHP_WORKERS", "1"), ("WORKER_MODE_ENABLED", "true"), ("ENTRY_FILE", "worker.php")];
    let svc = Svc::start(&[("worker.php", worker)], &settings);
    assert_eq!(svc.get("/path").text(), "/path nothing");
}
