//! How a thread finds the function of a task: it compiles the function's file, with OPcache or without it, and takes the
//! function with the same mark.

use std::time::{Duration, SystemTime};

use svc_testing::tasks::{MODES, Mode, TaskServer, TaskSvc, assert_laws, assert_like, everywhere};

const YOUNG_TOO: &str = "opcache.file_update_protection=0";
const OFF: &str = "opcache.enable=0";

/// The ways in which OPcache holds a file, or does not.
const CACHES: [&[&str]; 7] = [
    &[YOUNG_TOO],
    &[],
    &[OFF],
    &[YOUNG_TOO, "opcache.validate_timestamps=0"],
    &[YOUNG_TOO, "opcache.max_file_size=1"],
    &[YOUNG_TOO, "opcache.jit=tracing", "opcache.jit_buffer_size=16M", "opcache.jit_hot_func=1"],
    &[YOUNG_TOO, "zend.multibyte=1"],
];

fn cached(mut server: TaskServer, directives: &[&str]) -> TaskServer {
    for directive in directives {
        server = server.directive(directive);
    }
    server
}

const PLACES: &str = r"
interface Counts { public static function counter(): Closure; }
trait Adds { public static function adder(int $by): Closure { return static fn (int $n) => $n + $by . self::class; } }
final class One { use Adds; }
final class Two { use Adds; }
abstract class Base implements Counts { public static function counter(): Closure { return static function () { static $n = 3; return $n++ . static::class; }; } }
final class Derived extends Base { public static function private(): Closure { return static fn () => self::hidden(); } private static function hidden() { return 'hidden'; } }
enum Level: int { case Low = 1; public static function closure(): Closure { return static fn () => self::Low->value; } }
if (DIR !== '') { function conditional(int $n): int { static $calls = 0; return $n + ++$calls; } }
function outer(): Closure { if (!function_exists('inner')) { function inner(int $n): int { return $n * 2; } } return inner(...); }
function &by_line() { static $list; $list ??= [fn () => 'a', fn () => 'b', static fn () => 'a', function () { return fn () => 'c'; }]; return $list; }
function again(Closure $task): array { return [Svc\async($task)->await(), Svc\async($task)->await()]; }
";

#[test]
fn functions_of_all_places_are_found() {
    let cases = [
        // Several functions on a line, some with the same text.
        (
            r"return Svc\await_all([Svc\async(fn () => 1), Svc\async(fn () => 2), Svc\async(static fn () => 1), Svc\async(fn () => 3 * 1)]);",
            "[1,2,1,3]",
        ),
        (
            r"return array_map(fn ($task) => Svc\async($task)->await(), [by_line()[1], by_line()[0], by_line()[2]]);",
            r#"["b","a","a"]"#,
        ),
        // The closure has run before, so that its own static variables have changed.
        (
            r"$task = static function () { static $n = 5, $list = ['x' => [1]]; $list[] = 1; return [++$n, count($list)]; }; $task(); $task(); return again($task);",
            "[[6,2],[6,2]]",
        ),
        (
            r"return [again(One::adder(2)(...) instanceof Closure ? fn () => 1 : null), Svc\async(One::adder(2), 1)->await(), Svc\async(Two::adder(3), 1)->await(), Svc\async(One::adder(4), 1)->await()];",
            r#"[[1,1],"3One","4Two","5One"]"#,
        ),
        (r"return again(Derived::counter());", r#"["3Derived","3Derived"]"#),
        (r"return again(Derived::private());", r#"["hidden","hidden"]"#),
        (r"return again(Level::closure());", "[1,1]"),
        (
            r"return [Svc\async(conditional(...), 1)->await(), Svc\async(conditional(...), 1)->await()];",
            "[2,2]",
        ),
        (r"return Svc\async(outer(), 4)->await();", "8"),
        // Captured variables: unused, undefined, and under the name of a static one.
        (
            r"$unused = 1; $n = ['k' => 2]; return Svc\async(function () use ($unused, $n) { static $s = 4; $s++; return [$n['k'], $s]; })->await();",
            "[2,5]",
        ),
        (r"return Svc\async(fn () => $nowhere ?? 'undefined')->await();", r#""undefined""#),
        (
            r"$a = 1; $b = null; return Svc\async(function () use ($a, $b) { return get_defined_vars(); })->await();",
            r#"{"a":1,"b":null}"#,
        ),
        (r"$x = 3; return Svc\async(fn () => (fn () => fn () => $x * 2)()())->await();", "6"),
        // Constants that the compiler replaces.
        (
            r"return Svc\async(fn () => [__LINE__ > 1, basename(__FILE__), __FUNCTION__ !== '', \strlen('abc')])->await();",
            r#"[true,"tasks.php",true,3]"#,
        ),
        (
            r"return Svc\async(#[Own] static fn (#[SensitiveParameter] int|string $a = PHP_INT_SIZE, ?Level $l = Level::Low, mixed ...$more): array|null => [$a, $l, ...$more])->await();",
            "[8,1]",
        ),
    ];
    for directives in CACHES {
        println!("{directives:?}");
        everywhere(&cached(TaskServer::new(PLACES), directives), &cases);
    }
}

/// Code that only requests load; other code has the same names in the threads of tasks.
const ASIDE: &str = r"
    @require_once DIR . '/page.php';
    function aside() { return Svc\async(page_task())->await(); }";

const PAGE: &str = r"<?php
    class Here { const V = 'of the page'; public static function v() { return self::V; } }
    class OnlyHere { }
    class Above extends OnlyHere { }
    function version() { return 'of the page'; }
    function page_only($deprecated = 1, $order) { return 1; }
    function page_task() {
        return static fn () => [
            Here::V, Here::v(), version(), 'literal',
            function_exists('page_only'), class_exists('OnlyHere', false), class_exists('Above', false),
            count(preg_grep('/page.php/', get_included_files())),
            class_exists('Late', false), Late::V, error_get_last(),
        ];
    }
    class Late { const V = 'of the page'; }";

#[test]
fn compiling_a_file_declares_nothing_and_code_uses_declarations_of_its_thread() {
    let there = r"
        class Here { const V = 'of the thread'; public static function v() { return self::V; } }
        function version() { return 'of the thread'; }
        spl_autoload_register(function ($class) { if ($class === 'Late') { require __DIR__ . '/late.php'; } });";
    for directives in CACHES {
        let server = TaskServer::new("")
            .entry(there)
            .file("page.php", PAGE)
            .file("late.php", "<?php class Late { const V = 'of the thread'; }")
            .set("ASYNC_WORKERS", "1");
        for mode in MODES {
            let running = cached(server.clone(), directives).start_with(mode, ASIDE);
            let expected = |is_loaded| {
                format!(
                    r#"["of the thread","of the thread","of the thread","literal",false,false,false,0,{is_loaded},"of the thread",null]"#
                )
            };
            assert_eq!(running.tell("aside"), expected(false), "{mode:?} {directives:?}");
            assert_eq!(running.tell("aside"), expected(true), "{mode:?} {directives:?}");
            assert_laws(&running.svc);
        }
    }
}

/// Replaces a file; its time of change is later.
fn replace(server: &TaskSvc, name: &str, text: &str) {
    let new = server.path("new");
    std::fs::write(&new, text).unwrap();
    let later = SystemTime::now() + Duration::from_secs(10);
    std::fs::File::open(&new).unwrap().set_modified(later).unwrap();
    std::fs::rename(&new, server.path(name)).unwrap();
}

const CHANGED: &str =
    r"Svc\Async\TransferException: *function is not found in its file, which may have changed*code.php*";

#[test]
fn a_function_whose_file_has_changed_is_refused_unless_opcache_holds_it() {
    let boot = r"
        final class Held { public static ?Closure $task = null; }
        Held::$task = require DIR . '/code.php';
        function plus() { return Svc\async(Held::$task, 4)->await(); }";
    let code = |sign: char| format!("<?php return static fn (int $n) => $n {sign} 3;");
    let fresh: &[&str] = &[YOUNG_TOO, "opcache.revalidate_freq=0"];
    for (directives, is_held) in [(&[OFF] as &[&str], false), (fresh, true)] {
        let server = TaskServer::new("").file("code.php", &code('+')).set("PHP_WORKERS", "1");
        let server = cached(server, directives);
        let running = server.start_with(Mode::Worker, boot);
        // The worker has loaded the file. The threads of tasks have not, before it changes.
        running.tell("strrev");
        replace(&running, "code.php", &code('*'));
        assert_like(&running.tell("plus"), if is_held { "7" } else { CHANGED });
        // The same text again is the same function, whatever its time.
        replace(&running, "code.php", &code('+'));
        assert_eq!(running.tell("plus"), "7", "{directives:?}");
        // A thread keeps the files that it has compiled. The other thread may not have this one.
        replace(&running, "code.php", "<?php class class");
        let text = running.tell("plus");
        assert!(text == "7" || !is_held && text.starts_with(r"Svc\Async\TransferException"), "{text}");
        std::fs::remove_file(running.path("code.php")).unwrap();
        let text = running.tell("plus");
        assert!(text == "7" || !is_held && text.starts_with(r"Svc\Async\TransferException"), "{text}");
        assert_laws(&running.svc);
    }
}

#[test]
fn copies_of_a_file_are_different_files() {
    let copy = "<?php return static fn () => basename(__FILE__);";
    let boot = r"
        function copies() { return array_map(fn ($name) => Svc\async(require DIR . '/' . $name)->await(), ['a.php', 'b.php', 'link.php', 'a.php']); }";
    for directives in CACHES {
        let server = cached(TaskServer::new("").file("a.php", copy).file("b.php", copy), directives);
        for mode in MODES {
            let running = server.start_with(mode, boot);
            std::os::unix::fs::symlink("a.php", running.path("link.php")).unwrap();
            for _ in 0..2 {
                assert_eq!(running.tell("copies"), r#"["a.php","b.php","a.php","a.php"]"#, "{directives:?}");
            }
        }
    }
}

#[test]
fn a_thread_keeps_a_bounded_number_of_files() {
    let boot = r"
        function all() {
            $sum = 0;
            for ($i = 0; $i < 150; $i++) {
                $task = require DIR . '/f' . $i . '.php';
                $sum += Svc\async($task, $i)->await();
            }
            return $sum;
        }
        function heap() { return Svc\async(static function () { gc_collect_cycles(); return memory_get_usage(); })->await(); }";
    for directives in [&[OFF] as &[&str], &[YOUNG_TOO]] {
        let mut server = cached(TaskServer::new("").set("ASYNC_WORKERS", "1"), directives);
        for number in 0..150 {
            let text = format!(
                "<?php namespace N{number}; if (!\\class_exists(C::class, false)) {{ class C extends \\ArrayObject {{ public static function f() {{ return static fn () => 1; }} }} }}
                return static function (int $n) {{ static $s = {number}; return (fn () => $n === $s++ ? 1 : 0)(); }};"
            );
            server = server.file(&format!("f{number}.php"), &text);
        }
        let running = server.start_with(Mode::Worker, boot);
        let all = || assert_eq!(running.tell("all"), "150", "{directives:?}");
        all();
        all();
        let before: i64 = running.tell("heap").parse().unwrap();
        for _ in 0..6 {
            all();
        }
        let after: i64 = running.tell("heap").parse().unwrap();
        assert!(after - before < 65536, "{directives:?}: {before} bytes have become {after}");
        assert_laws(&running.svc);
    }
}
