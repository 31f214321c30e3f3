//! Failing requests in a worker: the failing request gets a 500, the others get their answers.

use svc_testing::client::{Client, eventually};
use svc_testing::{Svc, c};

const WORKER: &str = r#"<?php
final class Loud
{
    public function __construct(private Closure $last) {}
    public function __destruct() { ($this->last)(); }
}
final class Heavy extends Exception
{
    public function __destruct() { $GLOBALS['destructed'] = ($GLOBALS['destructed'] ?? 0) + 1; }
}
function deep(int $n): int { return $n === 0 ? exit('from below') : array_sum(array_map(fn () => deep($n - 1), [1])); }
function memory(): string { return str_repeat('x', PHP_INT_MAX >> 4); }
file_put_contents(__DIR__ . '/boots', 'x', FILE_APPEND);
$served = 0;
$kept = [];
Svc\Worker::serve(function () use (&$served, &$kept) {
    $served++;
    switch (ltrim(strtok($_SERVER['REQUEST_URI'], '?'), '/')) {
        case 'exception':
            throw new LogicException('not caught');
        case 'heavy':
            throw new Heavy('heavy');
        case 'exit':
            deep(3);
            // No break: never reached.
        case 'memory':
            $held = range(1, 10000);
            memory();
            // No break: never reached.
        case 'recursion':
            (function () { (function ($f) { $f($f); })(fn ($f) => array_map(fn () => $f($f), [1])); })();
            // No break: never reached.
        case 'in-shutdown':
            register_shutdown_function(memory(...));
            register_shutdown_function(function () { echo 'never'; });
            echo 'before';
            return;
        case 'exception-in-shutdown':
            register_shutdown_function(function () { throw new Exception('in shutdown'); });
            register_shutdown_function(function () { echo ' and the next one'; });
            echo 'before';
            return;
        case 'in-destructor':
            $loud = new Loud(memory(...));
            return;
        case 'in-buffer':
            ob_start(function (string $text) { memory(); return $text; });
            echo 'x';
            return;
        case 'in-generator':
            foreach ((function () { yield 1; memory(); })() as $one) {}
            return;
        case 'in-fiber':
            (new Fiber(function () { (new Fiber(memory(...)))->start(); }))->start();
            return;
        case 'beside-fibers':
            $fibers = [];
            for ($n = 0; $n < 10; $n++) {
                $fibers[$n] = new Fiber(function () { (new Fiber(fn () => Fiber::suspend()))->start(); Fiber::suspend(); });
                $fibers[$n]->start();
            }
            memory();
            // No break: never reached.
        case 'include':
            include __DIR__ . '/broken.php';
            return;
        case 'compiler':
            eval('function twice() {} function twice() {}');
            return;
        case 'linking':
            include __DIR__ . '/twice.php';
            include __DIR__ . '/twice.php';
            return;
        case 'in-handler':
            set_exception_handler(function (Throwable $first) { throw new DomainException('not caught either', 0, $first); });
            throw new LogicException('given to the handler');
        case 'handled':
            set_exception_handler(function (Throwable $first) { echo $first->getMessage(); exit; });
            throw new LogicException('given to the handler');
        case 'handled-twice':
            register_shutdown_function(function () { throw new Exception('of the shutdown'); });
            set_exception_handler(function (Throwable $e) {
                echo 'handled: ', $e->getMessage(), ' ';
                match ($_GET['then']) {
                    'end' => null,
                    'exit' => exit('exit '),
                    'throw' => throw new LogicException("about an exception {$e->getMessage()}"),
                };
            });
            throw new Exception('of the request');
        case 'keeps':
            // Its destructor must run although another request of the worker fails meanwhile.
            $loud = new Loud(function () { touch(__DIR__ . '/destructed'); });
            touch(__DIR__ . '/inside');
            while (!file_exists(__DIR__ . '/go')) {
                Svc\sleep(0.002);
                clearstatcache();
            }
            unset($loud);
            $cycle = new stdClass();
            $cycle->self = $cycle;
            unset($cycle);
            echo json_encode([file_exists(__DIR__ . '/destructed'), strlen(str_repeat('x', 1 << 20)), Svc\Worker::current()->exitReason()]);
            return;
    }
    echo $served, ' of boot ', filesize(__DIR__ . '/boots'), ' ', $GLOBALS['destructed'] ?? 0;
});"#;

fn start() -> Svc {
    start_with(&[])
}

fn start_with(directives: &[&str]) -> Svc {
    let settings = [("PHP_WORKERS", "1"), ("WORKER_MODE_ENABLED", "true"), ("ENTRY_FILE", "worker.php")];
    Svc::start_with(
        &[("worker.php", WORKER), ("broken.php", "<?php function ("), ("twice.php", "<?php class Twice {}")],
        &settings,
        directives,
    )
}

fn send(svc: &Svc, path: &str) -> Client {
    let mut client = svc.client();
    client.send(format!("GET {path} HTTP/1.1\r\nHost: x\r\n\r\n"));
    client
}

#[test]
fn an_exception_ends_its_request_only() {
    let svc = start();
    for served in 0..3 {
        assert_eq!(svc.get("/exception").status, 500);
        assert_eq!(svc.get("/include").status, 500, "a ParseError");
        assert_eq!(svc.get("/exit").text(), "from below");
        assert_eq!(svc.get("/heavy").status, 500);
        let response = svc.get("/exception-in-shutdown");
        assert_eq!((response.status, response.text().as_str()), (500, "before and the next one"));
        let expected = format!("{} of boot 1 {}", 6 * served + 6, served + 1);
        assert_eq!(svc.get("/").text(), expected, "the application stays loaded");
    }
    for text in ["Uncaught LogicException: not caught", "Uncaught Exception: in shutdown"] {
        eventually("it is logged", || {
            svc.log().of("php").iter().any(|record| record["fields"]["message"].to_string().contains(text))
        });
    }
}

#[test]
fn messages_of_php_about_a_form_do_not_reach_the_error_handler() {
    const HANDLER: &str = "<?php
        set_error_handler(static fn ($level, $message) => throw new ErrorException($message));
        Svc\\Worker::serve(function () {
            try {
                echo [][1];
            } catch (ErrorException $e) {
                echo count($_POST), ' ', $e->getMessage();
            }
        });";
    const URLENCODED: &str = "application/x-www-form-urlencoded\r\nContent-Length: 15\r\n\r\na=1&b=2&c=3&d=4";
    const MULTIPART: &str = "multipart/form-data\r\nContent-Length: 1\r\n\r\nx";
    for mode in ["true", "false"] {
        let script = if mode == "true" {
            HANDLER
        } else {
            &HANDLER.replace("Svc\\Worker::serve(", "(fn ($f) => $f())(")
        };
        let settings = [("PHP_WORKERS", "1"), ("WORKER_MODE_ENABLED", mode), ("ENTRY_FILE", "worker.php")];
        let svc = Svc::start_with(&[("worker.php", script)], &settings, &["max_input_vars=2"]);
        for (form, fields) in [(URLENCODED, 3), (MULTIPART, 0), (URLENCODED, 3)] {
            let mut client = svc.client();
            client.send(format!("POST / HTTP/1.1\r\nHost: x\r\nContent-Type: {form}"));
            let response = client.response();
            let expected = format!("{fields} Undefined array key 1");
            assert_eq!((response.status, response.text()), (200, expected), "worker mode: {mode}");
        }
        for text in ["Input variables exceeded 2", "Missing boundary in multipart/form-data POST data"] {
            eventually("it is logged", || {
                svc.log()
                    .of("php")
                    .iter()
                    .any(|record| record["fields"]["message"].to_string().contains(text))
            });
        }
    }
}

#[test]
fn a_fatal_error_ends_its_request_and_boots_the_worker_again() {
    let svc = start();
    for (boots, path) in
        ["/memory", "/in-shutdown", "/in-destructor", "/in-buffer", "/in-generator", "/in-fiber"]
            .into_iter()
            .enumerate()
    {
        let response = svc.get(path);
        assert_eq!(response.status, 500, "{path}: {}", response.text());
        assert!(!response.text().contains("never"), "{path}");
        assert_eq!(svc.get("/").text(), format!("1 of boot {} 0", boots + 2), "after {path}");
    }
}

#[test]
fn endless_recursion_is_an_ordinary_error() {
    let svc = start();
    assert_eq!(svc.get("/recursion").status, 500);
    assert!(svc.get("/").text().ends_with(" 0"));
}

#[test]
fn an_exception_of_an_exception_handler_is_an_error() {
    let svc = start();
    assert_eq!(svc.get("/in-handler").status, 500);
    eventually("it is logged", || {
        svc.log()
            .of("php")
            .iter()
            .any(|record| record["fields"]["message"].to_string().contains("not caught either"))
    });
    let handled = svc.get("/handled");
    assert_eq!((handled.status, handled.text().as_str()), (200, "given to the handler"));
    assert_eq!(svc.get("/").text(), "3 of boot 1 0", "the application stays loaded");
}

#[test]
fn a_handler_of_exceptions_that_does_not_return_is_not_called_again() {
    let svc = start();
    let answers = [
        ("end", (200, "handled: of the request handled: of the shutdown ")),
        ("exit", (500, "handled: of the request exit ")),
        ("throw", (500, "handled: of the request ")),
    ];
    for (then, expected) in answers {
        let response = svc.get(&format!("/handled-twice?then={then}"));
        assert_eq!((response.status, response.text().as_str()), expected, "{then}");
    }
    assert_eq!(svc.get("/").text(), "4 of boot 1 0", "the application stays loaded");
}

#[test]
fn neighbours_of_a_fatal_error_go_on() {
    for path in ["/memory", "/compiler", "/linking"] {
        neighbours_go_on(&start(), path);
    }
}

#[test]
fn neighbours_of_a_fatal_error_that_a_debugger_shows_go_on() {
    let folder = tempfile::tempdir().unwrap();
    let library = folder.path().join("debugger.so");
    c::extension(include_str!("../../php/debugger.c"), &library);
    let extension = format!("extension={}", library.display());
    for path in ["/memory", "/compiler", "/linking"] {
        neighbours_go_on(&start_with(&[&extension]), path);
    }
}

fn neighbours_go_on(svc: &Svc, path: &str) {
    let mut neighbour = send(svc, "/keeps");
    eventually("the neighbour is inside", || svc.root().join("inside").exists());
    assert_eq!(svc.get(path).status, 500);
    std::fs::write(svc.root().join("go"), "").unwrap();
    let response = neighbour.response();
    assert_eq!((response.status, response.text().as_str()), (200, r#"[true,1048576,"error"]"#));
    assert_eq!(svc.get("/").text(), "1 of boot 2 0", "the worker boots anew when the neighbour has ended");
}

#[test]
fn many_failures_leave_no_memory_behind() {
    let svc = start();
    let resident = || {
        let status = std::fs::read_to_string(format!("/proc/{}/status", svc.pid().as_raw_nonzero())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
        line.trim().trim_end_matches(" kB").parse::<u64>().unwrap()
    };
    let mut client = svc.client();
    let mut round = |count: usize| {
        for _ in 0..count {
            assert_eq!(client.get("/exception").status, 500);
            assert_eq!(client.get("/memory").status, 500);
        }
    };
    round(20);
    let before = resident();
    round(40);
    let grown = resident().saturating_sub(before);
    assert!(grown < 8 * 1024, "{grown} KiB more after forty fatal errors");
}

#[test]
fn fibers_that_a_failure_leaves_behind_are_freed() {
    let svc = start();
    let mappings = || {
        std::fs::read_to_string(format!("/proc/{}/maps", svc.pid().as_raw_nonzero())).unwrap().lines().count()
    };
    let round = || {
        for _ in 0..10 {
            assert_eq!(svc.get("/beside-fibers").status, 500);
        }
        assert!(svc.get("/").text().contains("1 of boot"));
        mappings()
    };
    let before = round();
    let after = round();
    assert!(after < before + 40, "{} more mappings after ten failures with ten fibers each", after - before);
}
