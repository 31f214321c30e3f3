//! Requests that wait while the engine guards objects: in magic methods, and in functions that mark values.

use svc_testing::books::series;
use svc_testing::hooked::one_thread;
use svc_testing::tasks::{Mode, TaskServer, TaskSvc};

const CODE: &str = r#"
/** Waits if the request asked for it: marks its place and waits for the test. */
function wait(string $where): void
{
    if (Suspends::$where === $where) { Fiber::suspend(); return; }
    if ((Asked::$where[$_GET['n'] ?? ''] ?? null) !== $where) { return; }
    mark("in-{$_GET['n']}");
    str_ends_with($_GET['n'], 'awaits') ? Svc\async(until(...), "go-{$_GET['n']}")->await() : until("go-{$_GET['n']}");
}
/** The place where a fiber is left suspended. */
class Suspends { public static ?string $where = null; }
/** The places where each request waits. */
class Asked { public static array $where = []; }
class Magic implements JsonSerializable
{
    public array $log = [];
    public function __get($name) { wait("get $name"); return $name === 'deep' ? "deep {$this->inner}" : "got $name"; }
    public function __isset($name) { wait("isset $name"); return true; }
    public function __set($name, $value) { wait("set $name"); $this->log[] = ["$name=$value", $_GET['n']]; }
    public function __unset($name) { wait("unset $name"); $this->log[] = ["-$name", $_GET['n']]; }
    public function jsonSerialize(): mixed { wait('json'); return ['json' => 1]; }
    public function __debugInfo() { wait('debug'); return ['debug' => 1]; }
    public function __toString() { wait('text'); return 'text'; }
    public function __serialize(): array { wait('serialize'); return [1]; }
    public function __clone() { wait('clone'); }
}
/** Objects that serialize another object, or encode another object. */
class Wrapper implements JsonSerializable { public function jsonSerialize(): mixed { return [Objects::$one]; } }
class Encoding implements JsonSerializable { public function jsonSerialize(): mixed { return json_encode(Objects::$list); } }
class Heap extends SplMinHeap { protected function compare($a, $b): int { wait('compare'); return parent::compare($a, $b); } }
class Objects
{
    public static Magic $one;
    public static array $list;
    public static ArrayObject $sorted;
    public static Heap $heap;
    public static Exception $thrown;
    public static array $fibers = [];
}
Objects::$one = new Magic;
Objects::$list = [1, [Objects::$one, 'x'], ['k' => [Objects::$one]]];
Objects::$sorted = new ArrayObject([3, 1, 2]);
Objects::$heap = new Heap;
Objects::$heap->insert(1);
Objects::$thrown = new class extends Exception { public function __construct() { $this->message = Objects::$one; } };
function read(string $property) { return Objects::$one->$property; }
/** The request's writes, and the existing properties. */
function written(callable $write)
{
    $write(Objects::$one);
    $own = array_filter(Objects::$one->log, fn ($entry) => $entry[1] === $_GET['n']);
    Objects::$one->log = array_udiff(Objects::$one->log, $own, fn ($a, $b) => strcmp($a[1], $b[1]));
    return [array_column($own, 0), array_keys(get_object_vars(Objects::$one))];
}
function printed(callable $print) { ob_start(); $print(); return ob_get_clean(); }
function operations(): array
{
    $o = Objects::$one;
    $list = Objects::$list;
    return [
        // The magic methods.
        'get' => [fn () => read('a'), 'get a'],
        'other' => [fn () => read('b'), 'get b'],
        'deep' => [fn () => read('deep'), 'get deep'],
        'inner' => [fn () => read('deep'), 'get inner'],
        'isset' => [fn () => isset($o->a), 'isset a'],
        'empty' => [fn () => empty($o->a), 'get a'],
        'coalesce' => [fn () => $o->a ?? 'nothing', 'isset a'],
        'set' => [fn () => written(fn ($o) => $o->a = 1), 'set a'],
        'unset' => [fn () => written(function ($o) { unset($o->a); }), 'unset a'],
        'serialize' => [fn () => serialize([$o, $list]), 'serialize'],
        'clone' => [fn () => (clone $o)->a, 'clone'],
        'echo' => [fn () => "$o", 'text'],
        'compare with text' => [fn () => strcmp($o, 'text'), 'text'],
        // Functions that mark values.
        'json' => [fn () => json_encode($o) . json_last_error_msg(), 'json'],
        'json in a list' => [fn () => json_encode($list) . json_last_error_msg(), 'json'],
        'json of a wrapper' => [fn () => json_encode([new Wrapper]) . json_last_error_msg(), 'json'],
        'json of an object' => [fn () => json_encode((object) ['o' => $o]) . json_last_error_msg(), 'json'],
        'json within json' => [fn () => json_encode(['x' => new Encoding]) . json_last_error_msg(), 'json'],
        'json twice' => [fn () => json_encode([new Wrapper, [$o], $o]) . json_last_error_msg(), 'json'],
        'var_dump' => [fn () => printed(fn () => var_dump($list)), 'debug'],
        'debug_zval_dump' => [fn () => preg_replace('/refcount\(\d+\)/', '', printed(fn () => debug_zval_dump($list))), 'debug'],
        'print_r' => [fn () => print_r($list, true), 'debug'],
        'equal' => [fn () => $list == [1, ['text', 'x'], ['k' => ['text']]], 'text'],
        'spaceship' => [fn () => $list <=> [1, ['text', 'x'], ['k' => ['text']]], 'text'],
        'switch' => [function () use ($list) { switch ($list) { case [1, ['text', 'x'], ['k' => ['text']]]: return 'same'; default: return 'other'; } }, 'text'],
        'in_array' => [fn () => in_array(['text', 'x'], $list), 'text'],
        'array_search' => [fn () => array_search(['text', 'x'], $list), 'text'],
        'array_keys' => [fn () => array_keys($list, ['text', 'x']), 'text'],
        'max' => [fn () => max([[$o]], [['a']]) === [[$o]], 'text'],
        'sort' => [function () use ($o) { $values = [[$o], ['a']]; sort($values); return $values[0]; }, 'text'],
        'walk' => [function () use ($list) { array_walk_recursive($list, fn () => wait('walk')); return 'walked'; }, 'walk'],
        'filter' => [fn () => filter_var($list[2], FILTER_CALLBACK, ['options' => function ($value) { wait('filter'); return 'filtered'; }]), 'filter'],
        'uasort' => [function () { Objects::$sorted->uasort(function ($a, $b) { wait('uasort'); return $a <=> $b; }); return Objects::$sorted; }, 'uasort'],
        'heap' => [function () { Objects::$heap->recoverFromCorruption(); Objects::$heap->insert(2); return Objects::$heap->count() > 1; }, 'compare'],
        'exception' => [fn () => strstr((string) Objects::$thrown, ' in ', true), 'text'],
    ];
}
/** `$n` is `operation.number.how it waits, or "runs"`. Returns the operation's result and warnings. */
function operate(string $n)
{
    [$name, , $waits] = explode('.', $n);
    [$operation, $where] = operations()[$name];
    Asked::$where[$n] = $waits !== 'runs' ? $where : null;
    $warnings = [];
    set_error_handler(function ($level, $message) use (&$warnings) { $warnings[] = $message; return true; });
    try { return [$operation(), $warnings]; } catch (Throwable $e) { return [get_class($e) . ': ' . $e->getMessage(), $warnings]; } finally { restore_error_handler(); }
}
function names() { return implode('|', array_keys(operations())); }
/** A fiber of the script stays suspended in the operation. */
function suspends(string $n)
{
    [$name] = explode('.', $n);
    [$operation, $where] = operations()[$name];
    Suspends::$where = $where;
    $fiber = new Fiber(function () use ($operation) { return $operation(); });
    $fiber->start();
    Suspends::$where = null;
    Objects::$fibers[$name] = $fiber;
    return $fiber->isSuspended();
}
function resumes(string $n) { [$name] = explode('.', $n); $fiber = Objects::$fibers[$name]; unset(Objects::$fibers[$name]); $fiber->resume(); return $fiber->getReturn(); }
function drops(string $n) { [$name] = explode('.', $n); unset(Objects::$fibers[$name]); return gc_collect_cycles() >= 0; }
/** `$n` is `operation.end.meanwhile`: the function that ends the fiber, and whether the request parks or naps first. */
function stays(string $n)
{
    [, $end, $meanwhile] = explode('.', $n);
    if (!suspends($n)) { return 'not suspended'; }
    if ($meanwhile === 'parks') { mark("in-$n"); until("go-$n"); } else { naps(); }
    return $end($n);
}
function naps() { usleep(1000); return 'slept'; }
/** Ten nested magic methods of one object. */
class Tower { public function __get($name) { if ($name > 0) { return $this->{$name - 1} . $name; } wait('bottom'); return 'bottom '; } }
class Towers { public static Tower $one; }
Towers::$one = new Tower;
function tower(string $n) { Asked::$where[$n] = str_ends_with($n, 'waits') ? 'bottom' : null; return Towers::$one->{'10'}; }
/** An object that has had only one guard at a time so far. */
class Fresh { public static self $one; public function __get($name) { wait("fresh $name"); return $name === 'x' ? "x {$this->y}" : "got $name"; } }
Fresh::$one = new Fresh;
function fresh(string $n) { [$name, , $waits] = explode('.', $n); Asked::$where[$n] = $waits === 'waits' ? "fresh $name" : null; return Fresh::$one->$name; }
/** Lists the functions and methods that do not exist. */
function missing()
{
    $is_there = fn ($name) => str_contains($name, '::') ? method_exists(...explode('::', $name)) : function_exists($name);
    return implode(' ', array_filter(explode(' ', $_GET['names']), fn ($name) => !$is_there($name)));
}
/** As deep as the search of frames goes, and deeper. */
function sinks(int $depth) { return $depth > 0 ? sinks($depth - 1) : naps(); }
function sinks_deep() { return sinks(20000); }
"#;

fn server() -> TaskServer {
    one_thread(TaskServer::new(CODE), "sleep")
}

/// Starts a server with the hook, whose requests wait in functions of PHP too, and one without hooks, whose requests wait only in
/// svc's own functions.
fn with_hook_and_without() -> [TaskSvc; 2] {
    ["sleep", "none"].map(|hooks| one_thread(TaskServer::new(CODE), hooks).start(Mode::Worker))
}

fn names(server: &TaskSvc) -> Vec<String> {
    server.tell("names").trim_matches('"').split('|').map(str::to_owned).collect()
}

/// The operations in which a request gives up its thread.
const PARK: [&str; 18] = [
    "walk",
    "filter",
    "get",
    "other",
    "deep",
    "inner",
    "isset",
    "empty",
    "coalesce",
    "set",
    "unset",
    "serialize",
    "clone",
    "echo",
    "compare with text",
    "json",
    "json in a list",
    "json within json",
];

fn encoded(name: &str) -> String {
    name.replace(' ', "%20")
}

fn ask(server: &TaskSvc, function: &str, n: &str) -> String {
    let response = server.svc.get(&format!("/?do={function}&n={}", encoded(n)));
    assert_eq!(response.status, 200, "{function} {n}");
    response.text()
}

fn alone(server: &TaskSvc, name: &str) -> String {
    ask(server, "operate", &format!("{name}.0.runs"))
}

#[test]
fn a_request_that_waits_in_a_call_is_invisible_to_others() {
    for server in with_hook_and_without() {
        for name in names(&server) {
            let expected = alone(&server, &name);
            for how in ["waits", "awaits"] {
                let n = format!("{name}.1.{how}");
                let mut first = server.send("operate", &encoded(&n));
                server.until(&format!("in-{n}"));
                if PARK.contains(&name.as_str()) {
                    assert_eq!(alone(&server, &name), expected, "{name}, beside one that {how}");
                    server.mark(&format!("go-{n}"));
                } else {
                    // The operation blocks its thread.
                    let mut second = server.send("operate", &encoded(&format!("{name}.2.runs")));
                    server.mark(&format!("go-{n}"));
                    assert_eq!(second.response().text(), expected, "{name}, after one that {how}");
                }
                assert_eq!(first.response().text(), expected, "{name}, which {how}");
                assert_eq!(alone(&server, &name), expected, "{name}, afterwards");
                server.unmark(&[&format!("in-{n}"), &format!("go-{n}")]);
            }
        }
    }
}

#[test]
fn requests_that_wait_in_the_same_object_keep_out_of_each_others_way() {
    for server in with_hook_and_without() {
        keep_out_of_each_others_way(&server);
    }
}

fn keep_out_of_each_others_way(server: &TaskSvc) {
    let magic =
        ["get", "other", "deep", "inner", "isset", "coalesce", "set", "unset", "json", "json in a list"];
    let expected: Vec<_> = magic.iter().map(|name| alone(server, name)).collect();
    let mut number = 0;
    for (one, first) in magic.iter().enumerate() {
        for (other, second) in magic.iter().enumerate() {
            for is_first_in_first_out in [true, false] {
                number += 1;
                let begin = |name: &str, n: u32| {
                    let n = format!("{name}.{n}.waits");
                    let client = server.send("operate", &encoded(&n));
                    server.until(&format!("in-{n}"));
                    (client, n)
                };
                let mut clients = [(begin(first, number * 2), one), (begin(second, number * 2 + 1), other)];
                if !is_first_in_first_out {
                    clients.reverse();
                }
                for ((client, n), index) in &mut clients {
                    server.mark(&format!("go-{n}"));
                    assert_eq!(client.response().text(), expected[*index], "{n} of {first} and {second}");
                }
                assert_eq!(alone(server, first), expected[one], "{first} after {second}");
                assert_eq!(alone(server, second), expected[other], "{second} after {first}");
            }
        }
    }
}

/// PHP ends with a fatal error if a fiber is destroyed in `__debugInfo()`.
const FATAL: [&str; 3] = ["var_dump", "debug_zval_dump", "print_r"];

#[test]
fn a_script_s_fiber_that_stays_suspended_in_the_middle_is_invisible_to_other_requests() {
    let server = server().start(Mode::Worker);
    for name in names(&server) {
        let expected = alone(&server, &name);
        for end in if FATAL.contains(&name.as_str()) { ["resumes", "resumes"] } else { ["resumes", "drops"] }
        {
            let parks = PARK.contains(&name.as_str());
            let n = format!("{name}.{end}.{}", if parks { "parks" } else { "naps" });
            let mut request = server.send("stays", &encoded(&n));
            if parks {
                server.until(&format!("in-{n}"));
                assert_eq!(alone(&server, &name), expected, "{name}, beside a fiber");
                server.mark(&format!("go-{n}"));
            }
            let ended = request.response().text();
            assert!(!ended.contains("Error") && !ended.contains("not suspended"), "{n}: {ended}");
            assert_eq!(alone(&server, &name), expected, "{name}, afterwards");
        }
    }
    let page = server.svc.ask("/metrics").text();
    let blocked = series(&page, "svc_hook_blocked_total{hook=\"sleep\",reason=\"marks\"}");
    assert_eq!(blocked, 2.0 * (names(&server).len() - PARK.len()) as f64, "{page}");
}

#[test]
fn a_fiber_that_a_request_leaves_in_the_middle_leaves_no_marks() {
    let server = server().start(Mode::Worker);
    for name in names(&server) {
        let expected = alone(&server, &name);
        let _ = server.svc.get(&format!("/?do=suspends&n={}", encoded(&format!("{name}.1"))));
        assert_eq!(ask(&server, "naps", "x"), "\"slept\"");
        assert_eq!(alone(&server, &name), expected, "{name}");
    }
    let page = server.svc.ask("/metrics").text();
    assert!(!page.contains("reason=\"marks\""), "{page}");
}

#[test]
fn the_first_guard_of_an_object_keeps_its_name() {
    for server in with_hook_and_without() {
        let mut first = server.send("fresh", "x.1.waits");
        server.until("in-x.1.waits");
        assert_eq!(ask(&server, "fresh", "y.2.runs"), "\"got y\"");
        server.mark("go-x.1.waits");
        assert_eq!(first.response().text(), "\"x got y\"");
        assert_eq!(ask(&server, "fresh", "x.3.runs"), "\"x got y\"");
    }
}

#[test]
fn guards_within_each_other_are_all_put_back() {
    for server in with_hook_and_without() {
        let expected = ask(&server, "tower", "0.runs");
        assert_eq!(expected, "\"bottom 12345678910\"");
        let mut first = server.send("tower", "1.waits");
        server.until("in-1.waits");
        let mut second = server.send("tower", "2.waits");
        server.until("in-2.waits");
        assert_eq!(ask(&server, "tower", "3.runs"), expected);
        server.mark("go-1.waits");
        assert_eq!(first.response().text(), expected);
        assert_eq!(ask(&server, "tower", "4.runs"), expected);
        server.mark("go-2.waits");
        assert_eq!(second.response().text(), expected);
        assert_eq!(ask(&server, "tower", "5.runs"), expected);
    }
}

#[test]
fn a_request_that_is_deeper_than_frames_are_looked_at_blocks() {
    let server = server().directive("zend.max_allowed_stack_size=-1").start(Mode::Worker);
    assert_eq!(ask(&server, "naps", "x"), "\"slept\"");
    assert_eq!(ask(&server, "sinks_deep", "x"), "\"slept\"");
    let page = server.svc.ask("/metrics").text();
    assert_eq!(series(&page, "svc_hook_blocked_total{hook=\"sleep\",reason=\"marks\"}"), 1.0);
}

/// Returns the names in the table of `c/worker/engine/marking.c`.
fn marking() -> Vec<String> {
    let table = include_str!("../../../c/worker/engine/marking.c");
    let rows = table.lines().filter_map(|line| line.trim().strip_prefix('{')?.strip_suffix("},"));
    let names = rows.flat_map(|row| {
        let (class, names) = row.split_once(", ").unwrap();
        let class = if class == "NULL" { String::new() } else { format!("{}::", class.trim_matches('"')) };
        names.trim_matches('"').split(' ').map(move |name| format!("{class}{name}")).collect::<Vec<_>>()
    });
    names.collect()
}

#[test]
fn the_functions_that_mark_values_exist() {
    let server = server().start(Mode::Worker);
    let names = marking();
    assert!(names.len() > 40, "{names:?}");
    assert_eq!(server.tell(&format!("missing&names={}", names.join("%20"))), "\"\"");
}
