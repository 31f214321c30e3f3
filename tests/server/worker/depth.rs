//! Structures of any depth: freeing them never crashes the process, on any stack.

use svc_testing::Svc;
use svc_testing::client::eventually;

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
                let path = format!("/?kind={kind}&length=100000&where={place}");
                let response = svc.get(&path);
                let count = if place == "destructor" { "200000" } else { "100000" };
                let expected = if kind == "destructors" { count } else { "freed" };
                assert_eq!((response.status, response.text()), (200, expected.to_owned()), "{mode} {path}");
            }
        }
    }
}

/// Functions that recurse into a structure without checking the stack.
const WALKS: &str = r#"
function nested(string $kind, int $depth): mixed
{
    for ($head = null; $depth > 0; $depth--) {
        if ($kind === 'array') { $head = [$head]; continue; }
        $link = new stdClass(); $link->next = $head; $head = $link;
    }
    return $head;
}
function handle(): void
{
    if (!isset($_GET['walk'])) { echo 'served'; return; }
    register_shutdown_function(static function () {
        $last = error_get_last();
        if ($last === null) { return; }
        $line = "$last[type] " . basename($last['file']) . ' ' . ($last['line'] > 0 ? 'line' : '') . " $last[message]\n";
        file_put_contents(__DIR__ . '/last', $line, FILE_APPEND);
    });
    [$one, $other] = [nested($_GET['kind'], 120000), nested($_GET['kind'], 120000)];
    $run = function () use ($one, $other) {
        ob_start();
        match ($_GET['walk']) {
            'compare' => $one == $other,
            'count' => count((array) $one, COUNT_RECURSIVE),
            'convert' => mb_convert_encoding($one, 'UTF-8'),
            'filter' => filter_var($one, FILTER_DEFAULT, FILTER_REQUIRE_ARRAY),
            'replace' => array_replace_recursive((array) $one, (array) $other),
        };
        ob_end_clean();
    };
    if (isset($_GET['fiber'])) { (new Fiber($run))->start(); } else { $run(); }
    echo 'walked';
}
"#;

#[test]
fn a_structure_that_is_too_deep_to_be_followed_is_a_fatal_error() {
    for mode in ["true", "false"] {
        let serve = if mode == "true" { "Svc\\Worker::serve(handle(...));" } else { "handle();" };
        let script = format!("<?php {WALKS} {serve}");
        let settings = [("PHP_WORKERS", "1"), ("WORKER_MODE_ENABLED", mode), ("ENTRY_FILE", "worker.php")];
        let svc = Svc::start_with(&[("worker.php", &script)], &settings, &["memory_limit=1G"]);
        let mut ended = 0;
        for walk in ["compare", "count", "convert", "filter", "replace"] {
            for kind in ["array", "object"] {
                for stack in ["", "&fiber=1"] {
                    let response = svc.get(&format!("/?walk={walk}&kind={kind}{stack}"));
                    let is_told = response.status == 500 || response.text() == "walked";
                    assert!(is_told, "{mode} {walk} {kind} {stack}: {}", response.status);
                    ended += usize::from(response.status == 500);
                    eventually("it continues", || svc.get("/").text() == "served");
                }
            }
        }
        assert!(ended > 0, "nothing came to the end of a stack");
        let message = "Maximum call stack size reached inside the engine: a structure is nested too deeply";
        let last = std::fs::read_to_string(svc.root().join("last")).unwrap();
        let told = format!("1 worker.php line {message}");
        let overflows = last.lines().filter(|line| *line == told).count();
        assert!(overflows > 0, "{mode}: {last}");
        eventually("it is logged", || {
            let is_told = |record: &serde_json::Value| {
                let text = record.to_string();
                text.contains(message) && text.contains("worker.php") && !text.contains("\"line\":0")
            };
            svc.log().of("php").iter().filter(|record| is_told(record)).count() == overflows
        });
        assert_eq!(svc.metric("svc_php_errors_total{level=\"error\"}"), overflows as f64, "{mode}");
    }
}

#[test]
fn a_bailout_out_of_a_destructor_leaves_nothing_to_later_requests() {
    const HANDLER: &str = r#"
final class Failing { public function __destruct() { str_repeat('x', PHP_INT_MAX >> 4); } }
function handle(): void
{
    if (isset($_GET['fail'])) {
        $deep = function (int $n) use (&$deep): void { if ($n > 0) { $deep($n - 1); return; } $failing = new Failing(); unset($failing); };
        $deep((int) $_GET['fail']);
        return;
    }
    for ($i = 0; $i < 1000; $i++) { $held[] = [new stdClass(), [[$i]]]; }
    unset($held);
    echo 'served';
}
"#;
    for mode in ["true", "false"] {
        let serve = if mode == "true" { "Svc\\Worker::serve(handle(...));" } else { "handle();" };
        let script = format!("<?php {HANDLER} {serve}");
        let settings = [("PHP_WORKERS", "1"), ("WORKER_MODE_ENABLED", mode), ("ENTRY_FILE", "worker.php")];
        let svc = Svc::start(&[("worker.php", &script)], &settings);
        for depth in [1, 100, 3000] {
            assert_eq!(svc.get(&format!("/?fail={depth}")).status, 500, "{mode} {depth}");
            eventually("it continues", || svc.get("/").text() == "served");
        }
    }
}

/// Calls in which a library recurses, and a stack that is too small for any.
const LIBRARIES: &str = r#"
function transform(): void
{
    $ns = 'xmlns:xsl="http://www.w3.org/1999/XSL/Transform"';
    $sheet = new DOMDocument();
    $sheet->loadXML("<xsl:stylesheet version='1.0' $ns><xsl:template match='/' name='r'><xsl:call-template name='r'/></xsl:template></xsl:stylesheet>");
    $processor = new XSLTProcessor();
    $processor->importStylesheet($sheet);
    $processor->maxTemplateDepth = 10_000_000;
    @$processor->transformToXml($sheet);
}
function handle(): void
{
    if (!isset($_GET['call'])) { echo 'served'; return; }
    $needed = ['format' => MessageFormatter::class, 'transform' => XSLTProcessor::class][$_GET['call']] ?? stdClass::class;
    if (!class_exists($needed)) { echo 'called'; return; }
    if ($_GET['call'] === 'small') { ini_set('fiber.stack_size', '8K'); }
    $run = fn () => match ($_GET['call']) {
        'glob' => glob(str_repeat('*/', 2000)),
        'fnmatch' => fnmatch(str_repeat('@(', 1300) . 'a' . str_repeat(')', 1300), 'a', 1 << 5),
        'format' => MessageFormatter::create('en', str_repeat('{0,select,other{', 10000) . 'x' . str_repeat('}}', 10000))?->format([1]),
        'transform' => transform(),
        'small' => [preg_match('/(a|b)+/', 'ab'), gethostbyname('localhost'), date('c')],
    };
    if (isset($_GET['fiber'])) { (new Fiber($run))->start(); } else { $run(); }
    echo 'called';
}
"#;

#[test]
fn a_library_that_overflows_a_stack_ends_its_request_only() {
    for mode in ["true", "false"] {
        let serve = if mode == "true" { "Svc\\Worker::serve(handle(...));" } else { "handle();" };
        let script = format!("<?php {LIBRARIES} {serve}");
        let settings = [("PHP_WORKERS", "1"), ("WORKER_MODE_ENABLED", mode), ("ENTRY_FILE", "worker.php")];
        let svc = Svc::start(&[("worker.php", &script)], &settings);
        for call in ["glob", "fnmatch", "format", "transform", "small"] {
            for stack in ["", "&fiber=1"] {
                let response = svc.get(&format!("/?call={call}{stack}"));
                let has_ended = response.status == 500 || response.text() == "called";
                assert!(has_ended, "{mode} {call} {stack}: {}", response.status);
                eventually("it continues", || svc.get("/").text() == "served");
            }
        }
        assert_eq!(svc.get("/?call=small&fiber=1").text(), "called", "{mode}: a small stack is enlarged");
        eventually("the library is logged", || {
            let named = |record: &serde_json::Value| record.to_string().contains("reached inside lib");
            svc.log().of("php").iter().any(named)
        });
    }
}
