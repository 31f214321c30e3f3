//! Requests that wait while they load code: the engine loads for one request at a time, so they block instead.

use svc_testing::Svc;
use svc_testing::client::{Client, eventually};

const WORKER: &str = r#"<?php
final class Source
{
    public $context;
    private string $left;
    public function stream_open(string $path): bool
    {
        Svc\sleep($_GET['s']);
        $this->left = "<?php\nreturn [__LINE__, " . parse_url($path, PHP_URL_HOST) . '];';
        return true;
    }
    public function stream_read(int $size): string
    {
        Svc\sleep($_GET['s']);
        [$read, $this->left] = [substr($this->left, 0, 9), substr($this->left, 9)];
        return $read;
    }
    public function stream_eof(): bool { return $this->left === ''; }
    public function stream_stat(): array { return []; }
    public function stream_set_option(): bool { return false; }
}
// The conversion of an array to a string raises a warning.
final class Composed
{
    const WHOLE = 'whole ' . self::PART;
    const PART = 'part ' . [];
}
stream_wrapper_register('source', Source::class);
spl_autoload_register(function (string $class) {
    Svc\sleep(0.05);
    class_exists($class, false) && throw new LogicException("$class is there");
    include __DIR__ . "/$class.php";
});
Svc\Worker::serve(function () {
    $n = $_GET['n'] ?? 0;
    switch (ltrim(strtok($_SERVER['REQUEST_URI'], '?'), '/')) {
        case 'autoload':
            echo get_class(new Child());
            return;
        case 'compile':
            // The compiler raises a deprecation for the order of the parameters.
            set_error_handler(fn () => Svc\sleep($_GET['s']) || true);
            file_put_contents($file = __DIR__ . "/own-$n.php", "<?php\nfunction own$n(\$a = 1, \$b) { return __LINE__; }\nreturn [__LINE__, own$n(1, 2), $n];");
            echo json_encode([include $file, eval("function eval$n(\$a = 1, \$b) { return 1; }\nreturn [__LINE__, eval$n(1, 2), $n];")]);
            return;
        case 'wrapper':
            echo json_encode(include "source://$n");
            return;
        case 'constant':
            set_error_handler(fn () => Svc\sleep($_GET['s']) || true);
            echo Composed::WHOLE;
            return;
        case 'constant-fails':
            set_error_handler(fn () => trigger_error('as the test wants it', E_USER_ERROR));
            echo Composed::WHOLE;
            return;
        case 'constant-beside':
            touch(__DIR__ . '/inside');
            while (!file_exists(__DIR__ . '/go')) {
                Svc\sleep(0.002);
                clearstatcache();
            }
            set_error_handler(fn () => true);
            echo Composed::WHOLE;
            return;
        case 'fails':
            spl_autoload_register(fn () => isset($_GET['fails']) && trigger_error('as the test wants it', E_USER_ERROR), prepend: true);
            new Child();
            return;
        case 'beside':
            touch(__DIR__ . '/inside');
            while (!file_exists(__DIR__ . '/go')) {
                Svc\sleep(0.002);
                clearstatcache();
            }
            echo get_class(new Child());
            return;
    }
});"#;

fn start() -> Svc {
    let settings = [("PHP_WORKERS", "1"), ("WORKER_MODE_ENABLED", "true"), ("ENTRY_FILE", "worker.php")];
    let files = [
        ("worker.php", WORKER),
        ("Child.php", "<?php class Child extends Ancestor {}"),
        ("Ancestor.php", "<?php class Ancestor {}"),
    ];
    Svc::start(&files, &settings)
}

fn send(svc: &Svc, path: &str) -> Client {
    let mut client = svc.client();
    client.send(format!("GET {path} HTTP/1.1\r\nHost: x\r\n\r\n"));
    client
}

/// Later requests sleep longer: the first one to begin would be the first to continue.
fn send_six(svc: &Svc, path: &str) -> Vec<Client> {
    (0..6).map(|n| send(svc, &format!("{path}?n={n}&s={}", 0.01 * f64::from(n + 1)))).collect()
}

#[test]
fn all_find_a_class_that_is_being_loaded() {
    let svc = start();
    for mut client in send_six(&svc, "/autoload") {
        assert_eq!(client.response().text(), "Child");
    }
}

#[test]
fn handlers_of_the_compiler_s_complaints_may_wait() {
    let svc = start();
    for (n, client) in send_six(&svc, "/compile").iter_mut().enumerate() {
        assert_eq!(client.response().text(), format!("[[3,2,{n}],[2,1,{n}]]"));
    }
}

#[test]
fn sources_that_come_by_and_by_are_not_mixed() {
    let svc = start();
    for (n, client) in send_six(&svc, "/wrapper").iter_mut().enumerate() {
        assert_eq!(client.response().text(), format!("[2,{n}]"));
    }
}

#[test]
fn a_failed_autoloader_leaves_its_class_loadable() {
    let svc = start();
    let mut beside = send(&svc, "/beside");
    eventually("it is inside", || svc.root().join("inside").exists());
    assert_eq!(svc.get("/fails?fails").status, 500);
    std::fs::write(svc.root().join("go"), "").unwrap();
    assert_eq!(beside.response().text(), "Child");
}

#[test]
fn all_find_the_constant_of_a_class_that_is_being_evaluated() {
    let svc = start();
    for mut client in send_six(&svc, "/constant") {
        assert_eq!(client.response().text(), "whole part Array");
    }
}

#[test]
fn a_constant_that_a_fatal_error_leaves_is_evaluated_by_the_next_one() {
    let svc = start();
    let mut beside = send(&svc, "/constant-beside");
    eventually("it is inside", || svc.root().join("inside").exists());
    assert_eq!(svc.get("/constant-fails").status, 500);
    std::fs::write(svc.root().join("go"), "").unwrap();
    assert_eq!(beside.response().text(), "whole part Array");
}
