//! Which functions can be tasks, where a thread finds their code, and which functions are refused.

use svc_testing::tasks::{MODES, TaskServer, assert_laws, assert_like, everywhere};

const CODE: &str = r"
namespace App { function double(int $n): int { return 2 * $n; } const RATE = 3; }
namespace {
class Base
{
    private static int $secret = 4;
    public int $own = 5;
    public static function made(): Closure { return static fn (int $n) => self::$secret * $n . static::class . self::class; }
    public static function twice(int $n): int { return 2 * $n; }
    private static function hidden(): string { return 'hidden'; }
    public static function hiding(): Closure { return self::hidden(...); }
    public function bound(): Closure { return fn () => $this->own; }
    public function unbound(): Closure { return fn () => 1; }
    public function method(): int { return 1; }
    public static function __callStatic($name, $arguments) { return $name; }
    public function __call($name, $arguments) { return $name; }
    public function __invoke() { return 'invoked'; }
}
class Derived extends Base { }
trait Counts { public static function counter(): Closure { return static function () { static $n = 10; return ++$n . self::class; }; } }
final class Counting { use Counts; }
function counts(): int { static $n = 0; return ++$n; }
function &by_reference(array &$list) { return $list; }
function generates() { yield 1; }
function declares() { class Declared { } }
function variadic(string $first, int ...$rest) { return [$first, $rest]; }
}";

fn server() -> TaskServer {
    // The prelude has no namespace, so code with a namespace is in a separate file.
    let path = "/* the code of the test */ require_once __DIR__ . '/code.php';";
    TaskServer::new(path).file("code.php", &format!("<?php {CODE}"))
}

#[test]
fn closures_and_first_class_callables_run() {
    let cases = [
        (r"return Svc\async(fn () => 1)->await();", "1"),
        (r"return Svc\async(static function (int $a, int $b = 5) { return $a * $b; }, 2)->await();", "10"),
        (r"return Svc\async(strtoupper(...), 'x')->await();", r#""X""#),
        (r"return Svc\async(App\double(...), 4)->await();", "8"),
        (r"return Svc\async(Base::twice(...), 4)->await();", "8"),
        (r"return Svc\async(Derived::twice(...), 4)->await();", "8"),
        (r"return Svc\async(Base::hiding())->await();", r#""hidden""#),
        (r"return Svc\async(Closure::fromCallable('App\double'), 4)->await();", "8"),
        (r"return Svc\async(Closure::fromCallable(['Base', 'twice']), 4)->await();", "8"),
        (
            r"return Svc\async(DateTimeImmutable::createFromFormat(...), '!Y', '2024')->await()->format('Y');",
            r#""2024""#,
        ),
        (r"return Svc\async(variadic(...), 'a', 1, 2)->await();", r#"["a",[1,2]]"#),
        // The class that declares the closure, and the class that it was called on.
        (r"return Svc\async(Base::made(), 2)->await();", r#""8BaseBase""#),
        (r"return Svc\async(Derived::made(), 2)->await();", r#""8DerivedBase""#),
        // Nested closures: inside another one, in an arrow function, made in the task.
        (r"$two = 2; return Svc\async(fn ($n) => (fn ($m) => $m * $two)($n), 3)->await();", "6"),
        (r"return Svc\async(fn () => array_map(static fn ($n) => $n ** 2, [1, 2, 3]))->await();", "[1,4,9]"),
        (
            r"return Svc\async(function () { $inner = function ($n) { return fn () => $n; }; return $inner(7)(); })->await();",
            "7",
        ),
        // Calls check their arguments as usual.
        (
            r"return Svc\async(fn (int $n) => $n, 'x')->await();",
            r"Svc\Async\TaskException: *must be of type int, string given*",
        ),
        (r"return Svc\async(fn (int $n) => $n)->await();", r"Svc\Async\TaskException: Too few arguments*"),
    ];
    everywhere(&server(), &cases);
}

#[test]
fn static_variables_begin_at_their_declared_value() {
    let cases = [
        (
            r"counts(); counts(); return [Svc\async(counts(...))->await(), Svc\async(counts(...))->await()];",
            "[1,1]",
        ),
        (
            r"$count = function () { static $n = 5; return ++$n; }; $count(); return [Svc\async($count)->await(), Svc\async($count)->await(), $count()];",
            "[6,6,7]",
        ),
        (
            r"return [Svc\async(Counting::counter())->await(), Svc\async(Counting::counter())->await()];",
            r#"["11Counting","11Counting"]"#,
        ),
        (
            r"$count = fn () => (function () { static $n = 0; return ++$n; })(); return Svc\async(fn () => [$count instanceof Closure])->await();",
            r"Svc\Async\TransferException: *$count*",
        ),
    ];
    // Once a variable has changed, only OPcache knows its initial value.
    everywhere(&server().directive("opcache.file_update_protection=0"), &cases);
}

#[test]
fn functions_that_depend_on_their_request_are_refused() {
    let cases = [
        (r"return Svc\async((new Base)->bound());", r"Svc\Async\TransferException: *static*"),
        (r"return Svc\async((new Base)->unbound());", r"Svc\Async\TransferException: *static*"),
        (r"return Svc\async((new Base)->method(...));", r"Svc\Async\TransferException: *"),
        (r"return Svc\async((new Base)(...));", r"Svc\Async\TransferException: *"),
        (r"return Svc\async((new Base)->nowhere(...));", r"Svc\Async\TransferException: *"),
        (r"return Svc\async(Base::nowhere(...));", r"Svc\Async\TransferException: *"),
        (r"$x = 1; return Svc\async(function () use (&$x) { });", r"Svc\Async\TransferException: *$x*"),
        (r"return Svc\async(function (&$x) { }, 1);", r"Svc\Async\TransferException: *$x*"),
        (r"return Svc\async(by_reference(...), []);", r"Svc\Async\TransferException: *$list*"),
        (r"return Svc\async(sort(...), []);", r"Svc\Async\TransferException: *$array*"),
        (r"return Svc\async(function () { yield 1; });", r"Svc\Async\TransferException: *generator*"),
        (r"return Svc\async(generates(...));", r"Svc\Async\TransferException: *generator*"),
        (r"return Svc\async(declares(...));", r"Svc\Async\TransferException: *class*"),
        (
            r"return Svc\async(function () { return new class { }; });",
            r"Svc\Async\TransferException: *class*",
        ),
        (r"return Svc\async(eval('return fn () => 1;'));", r"Svc\Async\TransferException: *eval*"),
        // A refused task is never dispatched, and the next one runs.
        (r"return Svc\async(fn () => 'next')->await();", r#""next""#),
    ];
    everywhere(&server(), &cases);
}

#[test]
fn code_that_no_async_thread_has_loaded_is_found() {
    // A file that only the requests load: it has a closure, a function, and the class that declares the closure.
    let boot = r"
        function mine() { return Svc\async(static fn (int $n) => $n + 1, 1)->await(); }
        function nested() { return Svc\async(function ($n) { $add = fn ($m) => $m + $n; return $add(1); }, 5)->await(); }
        function captured() { $k = ['a' => 1]; return Svc\async(fn () => $k)->await(); }
        function twice() { return [mine(), mine()]; }
        class OnlyHere { public static function made() { return static fn () => mark('ran'); } }
        function scoped() { return Svc\async(OnlyHere::made())->await(); }";
    for opcache in ["opcache.enable=1", "opcache.enable=0"] {
        for entry in ["", "the usual"] {
            let mut server =
                TaskServer::new("").directive(opcache).directive("opcache.file_update_protection=0");
            if entry.is_empty() {
                server = server.set("ASYNC_ENTRY_FILE", "");
            }
            for mode in MODES {
                let running = server.start_with(mode, boot);
                for _ in 0..2 {
                    assert_eq!(running.tell("mine"), "2", "{opcache} {mode:?}");
                    assert_eq!(running.tell("nested"), "6", "{opcache} {mode:?}");
                    assert_eq!(running.tell("captured"), r#"{"a":1}"#, "{opcache} {mode:?}");
                    assert_eq!(running.tell("twice"), "[2,2]", "{opcache} {mode:?}");
                }
                assert_like(&running.tell("scoped"), r"Svc\Async\*Exception: *OnlyHere*");
                assert!(!running.marked("ran"), "it fails before its first line");
                assert_laws(&running.svc);
            }
        }
    }
}

#[test]
fn a_class_is_found_by_name_through_the_autoloader_of_the_thread() {
    let boot = r"
        spl_autoload_register(function ($class) { mark('here', $class); require_once DIR . '/late.php'; });
        function late() { return Svc\async(Late::made(), new Late(4))->await(); }";
    let late = r"<?php class Late { public function __construct(public int $n) { }
        public static function made() { return static fn (Late $late) => [$late->n, self::class]; } }";
    let server = TaskServer::new("")
        .file("late.php", late)
        .entry("spl_autoload_register(function ($class) { mark('there', $class); require_once DIR . '/late.php'; });");
    for mode in MODES {
        let running = server.start_with(mode, boot);
        assert_eq!(running.tell("late"), r#"[4,"Late"]"#);
        assert_eq!(running.lines("there").first().map(String::as_str), Some("Late"));
        assert_laws(&running.svc);
    }
}

#[test]
fn a_closure_of_a_file_that_is_gone_does_not_run_something_else() {
    let boot = "function gone() { $task = require DIR . '/gone.php'; unlink(DIR . '/gone.php'); return Svc\\async($task)->await(); }";
    let server = TaskServer::new("")
        .file("gone.php", "<?php return static fn () => 'ran';")
        .directive("opcache.enable=0");
    for mode in MODES {
        let running = server.start_with(mode, boot);
        // The task gets either the complete code or a failure; it neither hangs nor runs other code.
        let text = running.tell("gone");
        assert!(text == r#""ran""# || text.starts_with(r"Svc\Async\"), "{text}");
        assert_laws(&running.svc);
    }
}
