//! Tasks with OPcache, without OPcache, during its restarts, and across changes of files.

use svc_core::sync::counter::{Counter, Flag};

use svc_testing::Svc;
use svc_testing::client::eventually;
use svc_testing::tasks::{MODES, TaskServer, assert_laws};

const CODE: &str = r"
final class Point { public function __construct(public int $x) { } public static function times(): Closure { return static fn (Point $p, int $n) => new self($p->x * $n); } }
enum Suit: string { case Hearts = 'H'; }
function named(int $n): int { static $calls = 0; return $n + ++$calls; }
/** Code of each kind; the results do not depend on the cache. */
function shapes(string $n) {
    $k = ['deep' => [1.5, 'text']];
    return Svc\await_all([
        'closure' => Svc\async(static fn (int $a, int $b) => $a + $b, 1, 2),
        'captured' => Svc\async(fn () => $k['deep'][1]),
        'nested' => Svc\async(function (array $list) { $twice = fn ($x) => 2 * $x; return array_map($twice, $list); }, [1, 2]),
        'function' => Svc\async(named(...), 4),
        'method' => Svc\async(Point::times(), new Point(3), 4),
        'internal' => Svc\async(strrev(...), 'abc'),
        'enum' => Svc\async(fn (Suit $suit) => $suit, Suit::Hearts),
        'match' => Svc\async(fn (string $x) => match ($x) { 'a' => 1, 'b' => 2, default => [...[1, 2], 3] }, 'c'),
        'task' => Svc\async(fn () => Svc\async(fn () => 'inner')->await()),
    ]);
}
function reset_cache() { return opcache_reset(); }
";

const SHAPES: &str = r#"{"closure":3,"captured":"text","nested":[2,4],"function":5,"method":{"x":12},"internal":"cba","enum":"H","match":[1,2,3],"task":"inner"}"#;

#[test]
fn code_of_each_kind_runs_with_the_cache_and_without() {
    let cached: &[&str] = &["opcache.file_update_protection=0"];
    let blind: &[&str] = &["opcache.file_update_protection=0", "opcache.validate_timestamps=0"];
    for directives in [cached, blind, &[], &["opcache.enable=0"]] {
        let mut server = TaskServer::new(CODE);
        for directive in directives {
            server = server.directive(directive);
        }
        server.in_each_mode(|server| {
            for _ in 0..5 {
                assert_eq!(server.tell("shapes"), SHAPES, "{directives:?}");
                assert_eq!(server.tell_in_task("shapes"), SHAPES, "{directives:?}");
            }
        });
    }
}

#[test]
fn files_that_a_server_without_tasks_has_cached_on_disk_are_compiled_anew() {
    let index = "<?php echo isset($_GET['task']) ? Svc\\async(static fn () => 'ran')->await() : 'loaded';";
    let stored = tempfile::tempdir().unwrap();
    let file_cache = format!("opcache.file_cache={}", stored.path().display());
    let directives = ["opcache.file_update_protection=0", &file_cache];
    let without = Svc::start_with(&[("index.php", index)], &[], &directives);
    assert_eq!(without.get("/").text(), "loaded");
    assert_ne!(std::fs::read_dir(stored.path()).unwrap().count(), 0, "it stores compiled files");
    let settings = [("DOCUMENT_ROOT", without.root().to_str().unwrap()), ("ASYNC_WORKERS", "1")];
    let with = Svc::launch(tempfile::tempdir().unwrap(), &settings, &directives);
    assert_eq!(with.get("/?task").text(), "ran");
}

#[test]
fn tasks_run_while_the_cache_is_reset_again_and_again() {
    let server = TaskServer::new(CODE).directive("opcache.file_update_protection=0");
    server.in_each_mode(|server| {
        let (done, ran) = (Flag::new(), Counter::new());
        let restarts = || server.svc.metric("svc_opcache_restarts_total");
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    while !done.is_set() {
                        assert_eq!(server.tell("shapes"), SHAPES);
                        ran.incr();
                    }
                });
            }
            for wanted in 1..=2 {
                eventually("the cache restarts", || {
                    let so_far = ran.value();
                    server.tell("reset_cache");
                    eventually("there is load", || ran.value() > so_far + 3);
                    restarts() >= f64::from(wanted)
                });
            }
            done.set();
        });
        assert_eq!(server.tell("shapes"), SHAPES);
        assert_eq!(server.svc.metric("svc_dropped_requests_total") as u64, 0);
    });
}

#[test]
fn a_task_that_is_queued_or_runs_keeps_the_cache_from_restarting() {
    let code = CODE.to_owned()
        + r"
        function holds(string $n) {
            Svc\async(gate(...), $n)->detach();
            until('at-' . $n);
            Svc\async(fn ($n) => mark('ran-' . $n, json_encode([...['behind'], 'it'])), $n)->detach();
            return opcache_reset();
        }
        function idle() { return 1; }";
    let server =
        TaskServer::new(&code).set("ASYNC_WORKERS", "1").directive("opcache.file_update_protection=0");
    server.in_each_mode(|server| {
        assert_eq!(server.tell("shapes"), SHAPES);
        let restarts = || server.svc.metric("svc_opcache_restarts_total");
        let (n, before) = (server.another().to_string(), restarts());
        server.close_gate(&n);
        assert_eq!(server.send("holds", &n).response().text(), "true");
        for _ in 0..20 {
            server.tell("idle");
        }
        assert_eq!(restarts(), before, "its code is in that memory");
        server.open_gate(&n);
        eventually("what was queued has run", || server.lines(&format!("ran-{n}")) == [r#"["behind","it"]"#]);
        eventually("the cache restarts", || {
            server.tell("idle");
            restarts() > before
        });
        assert_eq!(server.tell("shapes"), SHAPES);
    });
}

#[test]
fn threads_without_tasks_delay_no_restart_and_boot_again() {
    let server = TaskServer::new(CODE)
        .entry("mark('boots');")
        .set("ASYNC_WORKERS", "3")
        .directive("opcache.file_update_protection=0");
    server.in_each_mode(|server| {
        assert_eq!(server.tell("shapes"), SHAPES);
        eventually("all have booted", || server.lines("boots").len() == 3);
        assert_eq!(server.tell("reset_cache"), "true");
        eventually("the cache restarts", || {
            server.tell("shapes");
            server.svc.metric("svc_opcache_restarts_total") >= 1.0
        });
        eventually("they have booted anew", || server.lines("boots").len() >= 6);
        assert_eq!(server.tell("shapes"), SHAPES);
    });
}

#[test]
fn a_file_that_changes_between_dispatch_and_run_does_not_run_as_something_else() {
    let boot = r"
        function changes(string $n) {
            $block = Svc\async(gate(...), $n);
            until('at-' . $n);
            $task = (require DIR . '/code.php')();
            $task = Svc\async($task, 4);
            mark('queued-' . $n);
            until('changed-' . $n);
            return tried(fn () => $task->await());
        }";
    for directive in ["opcache.file_update_protection=0", "opcache.enable=0"] {
        // The same closure at the same place, with other code.
        let code = |sign: char| format!("<?php return fn () => static fn (int $n) => $n {sign} 3;");
        let server =
            TaskServer::new("").file("code.php", &code('+')).set("ASYNC_WORKERS", "1").directive(directive);
        for mode in MODES {
            let running = server.start_with(mode, boot);
            running.close_gate("a");
            let mut changes = running.send("changes", "a");
            running.until("queued-a");
            std::fs::write(running.path("code.new"), code('*') + "// and longer").unwrap();
            std::fs::rename(running.path("code.new"), running.path("code.php")).unwrap();
            running.open_gate("a");
            running.mark("changed-a");
            let text = changes.response().text();
            assert!(text == r#""7""# || text.starts_with(r#""Svc\\Async\\"#), "{mode:?} {directive}: {text}");
            assert_laws(&running.svc);
        }
    }
}

#[test]
fn a_class_of_a_changed_file_is_the_one_that_its_thread_has_loaded() {
    let boot = r"
        function shared() { return Svc\async(Shared::version(...))->await(); }";
    let code = |version: u32| {
        format!(
            "<?php final class Shared {{ public static function version() {{ return self::V; }} const V = {version}; }}"
        )
    };
    let server = TaskServer::new("require_once __DIR__ . '/shared.php';")
        .file("shared.php", &code(1))
        .directive("opcache.file_update_protection=0")
        .directive("opcache.revalidate_freq=0");
    for mode in MODES {
        let running = server.start_with(mode, boot);
        assert_eq!(running.tell("shared"), "1");
        std::fs::write(running.path("shared.new"), code(2) + "// and longer").unwrap();
        // OPcache compares times in seconds.
        let later = std::time::SystemTime::now() + std::time::Duration::from_secs(5);
        std::fs::File::open(running.path("shared.new")).unwrap().set_modified(later).unwrap();
        std::fs::rename(running.path("shared.new"), running.path("shared.php")).unwrap();
        // Old code, new code, or a failure with a reason; never a mixture.
        for _ in 0..5 {
            let text = running.tell("shared");
            assert!(text == "1" || text == "2" || text.starts_with(r"Svc\Async\"), "{text}");
        }
        running.svc.signal(rustix::process::Signal::HUP);
        eventually("a roll brings the new code to each side", || running.tell("shared") == "2");
        assert_laws(&running.svc);
    }
}
