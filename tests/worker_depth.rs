//! Structures of any depth: freeing them ends no process, on whatever stack it happens.
#![cfg(feature = "php")]

#[expect(dead_code, reason = "each test file uses its part of the support")]
mod support;

use support::Svc;

const HANDLER: &str = r#"
final class Link
{
    public mixed $next = null;
    public static int $destructed = 0;
}
final class Counted
{
    public mixed $next = null;
    public function __destruct() { Link::$destructed++; }
}
function generator(mixed $held): Generator { yield $held; }
function chain(string $kind, int $length): mixed
{
    for ($head = null, $i = 0; $i < $length; $i++) {
        switch ($kind) {
            case 'objects': $link = new Link(); $link->next = $head; break;
            case 'destructors': $link = new Counted(); $link->next = $head; break;
            case 'arrays': $link = [$head]; break;
            case 'references': unset($link); $link = [&$head]; $head = $link; unset($head); $head = $link; continue 2;
            case 'closures': $link = static fn () => $head; break;
            case 'generators': $link = generator($head); $link->current(); break;
            case 'exceptions': $link = new Exception('', 0, $head); break;
            case 'lists': $link = new SplObjectStorage(); if ($head !== null) { $link[$head] = $head; } break;
        }
        $head = $link;
    }
    return $head;
}
function handle(): void
{
    Link::$destructed = 0;
    $length = (int) $_GET['length'];
    $where = $_GET['where'];
    $run = function () use ($length) { $chain = chain($_GET['kind'], $length); $chain = null; };
    if ($where === 'fiber') { (new Fiber($run))->start(); } else { $run(); }
    if ($where === 'destructor') {
        $outer = new class($run) { public function __construct(private Closure $run) {} public function __destruct() { ($this->run)(); } };
        unset($outer);
    }
    echo $_GET['kind'] === 'destructors' ? Link::$destructed : 'freed';
}
"#;

#[test]
fn structures_of_any_depth_are_freed() {
    for mode in ["true", "false"] {
        let serve = if mode == "true" { "Svc\\Worker::serve(handle(...));" } else { "handle();" };
        let script = format!("<?php {HANDLER} {serve}");
        let settings = [("PHP_WORKERS", "1"), ("WORKER_MODE_ENABLED", mode), ("ENTRY_FILE", "worker.php")];
        let svc = Svc::start_with(&[("worker.php", &script)], &settings, &["memory_limit=1G"]);
        for kind in [
            "objects",
            "destructors",
            "arrays",
            "references",
            "closures",
            "generators",
            "exceptions",
            "lists",
        ] {
            for place in ["request", "fiber", "destructor"] {
                let path = format!("/?kind={kind}&length=200000&where={place}");
                let response = svc.get(&path);
                let count = if place == "destructor" { "400000" } else { "200000" };
                let expected = if kind == "destructors" { count } else { "freed" };
                assert_eq!((response.status, response.text()), (200, expected.to_owned()), "{mode} {path}");
            }
        }
    }
}
