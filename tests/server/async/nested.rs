//! Tasks that start and await other tasks, on one thread and on several.

use svc_testing::tasks::{TaskServer, everywhere};

const CODE: &str = r"
function down(int $depth): int { return $depth === 0 ? 0 : 1 + Svc\async(down(...), $depth - 1)->await(); }
function tree(int $depth): int { return $depth === 0 ? 1 : array_sum(Svc\await_all([Svc\async(tree(...), $depth - 1), Svc\async(tree(...), $depth - 1)])); }
function fibonacci(int $n): int { return $n < 2 ? $n : Svc\async(fibonacci(...), $n - 1)->await() + Svc\async(fibonacci(...), $n - 2)->await(); }
";

fn pool(threads: &str) -> TaskServer {
    TaskServer::new(CODE).set("ASYNC_WORKERS", threads).set("ASYNC_QUEUE_CAPACITY", "1024")
}

#[test]
fn one_thread_is_enough_for_any_depth() {
    let cases = [
        (r"return Svc\async(down(...), 50)->await();", "50"),
        (r"return Svc\async(tree(...), 6)->await();", "64"),
        (r"return Svc\async(fibonacci(...), 8)->await();", "21"),
        // The outer task waits for a task that was dispatched after it.
        (
            r"$first = Svc\async(fn ($n) => [until($n), 'first'][1], $n); $second = Svc\async(fn ($n) => Svc\async(fn ($n) => [mark($n), 'second'][1], $n)->await(), $n); return Svc\await_all([$first, $second]);",
            r#"["first","second"]"#,
        ),
        (
            r"return Svc\await_race([Svc\async(fn () => Svc\await_race([Svc\async(never(...)), Svc\async(fn () => 'inner')]))]);",
            r#""inner""#,
        ),
        (
            r"return Svc\async(fn () => Svc\async(never(...))->await(0.02))->await();",
            r"Svc\Async\TaskException: *",
        ),
        (
            r"return Svc\async(fn () => Svc\async(never(...))->await())->await(0.02);",
            r"Svc\Async\TimeoutException: *",
        ),
    ];
    everywhere(&pool("1"), &cases);
    everywhere(&pool("3"), &cases);
}

#[test]
fn many_tasks_of_many_requests_all_come_to_an_end() {
    let code = CODE.to_owned()
        + r"function many(string $n) { return array_sum(Svc\await_all(array_map(fn ($i) => Svc\async(function ($i) { Svc\sleep(0.001 * ($i % 5)); return Svc\async(fn ($i) => $i, $i)->await(); }, $i), range(1, 60)))); }";
    let server = TaskServer::new(&code).set("ASYNC_QUEUE_CAPACITY", "1024").set("ASYNC_MAX_FIBERS", "1024");
    server.in_each_mode(|server| {
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..5 {
                        assert_eq!(server.tell("many"), "1830");
                    }
                });
            }
        });
        assert_eq!(svc_testing::tasks::TaskAccounting::at_rest(&server.svc).completed as u64, 4 * 5 * 120);
    });
}

#[test]
fn a_task_that_ends_cancels_those_that_it_leaves() {
    let cases = [
        (
            r"$outer = Svc\async(function ($n) { Svc\async(function ($n) { mark($n . '-in'); try { never(); } finally { mark($n . '-ended'); } }, $n); until($n . '-in'); return 'outer'; }, $n);
           return [$outer->await(), until($n . '-ended')];",
            r#"["outer",null]"#,
        ),
        (
            r"$outer = Svc\async(function ($n) { Svc\async(fn ($n) => [until($n), mark($n . '-went-on')], $n)->detach(); return 'outer'; }, $n);
           return [$outer->await(), mark($n), until($n . '-went-on')];",
            r#"["outer",null,null]"#,
        ),
        (
            r"$outer = Svc\async(function ($n) { Svc\async(function ($n) { mark($n . '-in'); try { never(); } finally { mark($n . '-ended'); } }, $n); until($n . '-in'); throw new Exception('outer'); }, $n);
           return [tried(fn () => $outer->await()), until($n . '-ended')];",
            r#"["Svc\\Async\\TaskException: outer",null]"#,
        ),
    ];
    everywhere(&pool("1"), &cases);
}

/// Where the engine allows no switch, an awaiting task would block its thread, perhaps the one that the awaited task needs.
#[test]
fn where_a_task_cannot_park_awaiting_is_refused_unless_it_has_settled() {
    let cases = [
        (
            r"return Svc\async(function () {
               $task = Svc\async(never(...));
               ob_start(function ($text) use ($task, &$seen) { $seen = tried(fn () => $task->await()); return ''; }); echo 'x'; ob_end_flush();
               return $seen;
           })->await();",
            r#""Svc\\Async\\Exception: *""#,
        ),
        (
            r"return Svc\async(function () {
               $task = settled(Svc\async(fn () => 'there'));
               ob_start(function ($text) use ($task, &$seen) { $seen = tried(fn () => $task->await()); return ''; }); echo 'x'; ob_end_flush();
               return $seen;
           })->await();",
            r#""\"there\"""#,
        ),
        (
            r"return Svc\async(function ($n) {
               $task = Svc\async(never(...));
               spl_autoload_register(function ($class) use ($task, &$seen) { $seen = tried(fn () => Svc\await_all([$task])); });
               class_exists('Nowhere' . $n);
               return $seen;
           }, $n)->await();",
            r#""Svc\\Async\\Exception: *""#,
        ),
        // With a timeout too: the thread itself would wait.
        (
            r"return Svc\async(function () {
               $task = Svc\async(never(...));
               ob_start(function ($text) use ($task, &$seen) { $seen = tried(fn () => Svc\await_race([$task], 0.01)); return ''; }); echo 'x'; ob_end_flush();
               return $seen;
           })->await();",
            r#""Svc\\Async\\Exception: *""#,
        ),
    ];
    everywhere(&pool("1"), &cases);
}

#[test]
fn fibers_of_a_task_s_own_can_await() {
    let cases = [
        (
            r"return Svc\async(function () {
               $fiber = new Fiber(function () { $x = Fiber::suspend('suspended'); return Svc\async(fn ($x) => $x * 2, $x)->await(); });
               return [$fiber->start(), $fiber->resume(21), $fiber->getReturn()];
           })->await();",
            r#"["suspended",null,42]"#,
        ),
        (
            r"$fiber = new Fiber(fn () => Svc\async(fn () => 'in a fiber of the requester')->await()); $fiber->start(); return $fiber->getReturn();",
            r#""in a fiber of the requester""#,
        ),
        (
            r"$list = [3, 1, 2]; usort($list, fn ($a, $b) => Svc\async(fn ($a, $b) => $a <=> $b, $a, $b)->await()); return $list;",
            "[1,2,3]",
        ),
        (
            r"$lazy = (function () { foreach ([1, 2, 3] as $i) { yield Svc\async(fn ($i) => $i * $i, $i)->await(); } })(); return iterator_to_array($lazy);",
            "[1,4,9]",
        ),
    ];
    everywhere(&pool("1"), &cases);
}
