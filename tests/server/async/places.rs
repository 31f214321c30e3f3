//! An awaited task always gets a place to run, with any number of awaiting tasks, few threads, and many thread
//! replacements.

use svc_core::limits::LINGERING_MIN;

use svc_testing::tasks::{TaskAccounting, TaskServer, assert_like};

const CODE: &str = r"
function leaf(int $i): int { Svc\sleep(0.001); return $i; }
function above(int $i, int $depth): int { return $depth === 0 ? leaf($i) : Svc\async(above(...), $i, $depth - 1)->await(); }
/** Starts this many tasks at once, each with its own subtasks. */
function wide(int $width, int $depth): int
{
    $tasks = array_map(fn ($i) => Svc\async(above(...), $i, $depth), range(1, $width));
    return array_sum(Svc\await_all($tasks));
}
function broad(int $width, int $depth): int
{
    if ($depth === 0) { return 1; }
    return array_sum(Svc\await_all(array_map(fn () => Svc\async(broad(...), $width, $depth - 1), range(1, $width))));
}
/** Ends its thread, or ends in another way that gives no result. */
function ends(string $how): void
{
    match ($how) {
        'memory' => str_repeat('x', PHP_INT_MAX >> 4),
        'compile' => eval('function strlen() {}'),
        'exit' => exit,
        'failure' => exit(1),
        'exception' => throw new Exception('thrown'),
    };
}
/** Awaiting tasks, and between them tasks that end their thread: the awaited tasks come last. */
function between(string $how, int $count, int $depth): string
{
    for ($i = 1; $i <= $count; $i++) {
        $awaiting[] = Svc\async(above(...), $i, $depth);
        $ending[] = Svc\async(ends(...), $how);
    }
    $failed = 0;
    foreach ($ending as $task) { try { $task->await(); } catch (Svc\Async\TaskException) { $failed++; } }
    return array_sum(Svc\await_all($awaiting)) . ' ' . $failed;
}
/** A tree of tasks; each node has a neighbour that ends its thread. */
function tree(string $how, int $depth): int
{
    $beside = Svc\async(ends(...), $how);
    $sum = $depth === 0 ? 1 : array_sum(Svc\await_all([Svc\async(tree(...), $how, $depth - 1), Svc\async(tree(...), $how, $depth - 1)]));
    try { $beside->await(); } catch (Svc\Async\TaskException) { }
    return $sum;
}
/** The tasks in the middle are cancelled while they await. */
function cancelled(int $count): string
{
    for ($i = 1; $i <= $count; $i++) {
        $kept[] = Svc\async(above(...), $i, 2);
        $dropped[] = Svc\async(above(...), $i, 2);
        $ending[] = Svc\async(ends(...), 'memory');
    }
    $told = 0;
    foreach ($dropped as $task) {
        $task->cancel();
        try { $task->await(); } catch (Svc\Async\CancelledException) { $told++; }
    }
    return array_sum(Svc\await_all($kept)) . ($told <= $count ? ' told' : '');
}
function wide_300(string $n): int { return wide(300, 1); }
function wide_300_deep(string $n): int { return wide(300, 3); }
function wide_1000(string $n): int { return wide(1000, 1); }
function broad_7_3(string $n): int { return broad(7, 3); }
function between_memory(string $n): string { return between('memory', 16, 1); }
function between_compile(string $n): string { return between('compile', 16, 2); }
function between_exit(string $n): string { return between('exit', 16, 2); }
function between_failure(string $n): string { return between('failure', 16, 1); }
function between_exception(string $n): string { return between('exception', 16, 3); }
function tree_memory(string $n): int { return tree('memory', 4); }
function tree_exit(string $n): int { return tree('exit', 4); }
function cancelled_16(string $n): string { return cancelled(16); }
";

// More threads need a replacement than may linger.
const _: () = assert!(16 > 2 * LINGERING_MIN);

/// The results of the functions.
const CASES: [(&str, &str); 12] = [
    ("wide_300", "45150"),
    ("wide_300_deep", "45150"),
    ("wide_1000", "500500"),
    ("broad_7_3", "343"),
    ("between_memory", r#""136 16""#),
    ("between_compile", r#""136 16""#),
    ("between_exit", r#""136 16""#),
    ("between_failure", r#""136 16""#),
    ("between_exception", r#""136 16""#),
    ("tree_memory", "16"),
    ("tree_exit", "16"),
    ("cancelled_16", r#""136 told""#),
];

#[test]
fn an_awaited_task_has_a_place_to_run() {
    for threads in ["1", "2", "3"] {
        let server = TaskServer::new(CODE)
            .set("ASYNC_WORKERS", threads)
            .set("ASYNC_MAX_FIBERS", "4096")
            .set("ASYNC_QUEUE_CAPACITY", "8192");
        server.in_each_mode(|server| {
            for (function, expected) in CASES {
                println!("{threads}: {function}");
                assert_like(&server.tell(function), expected);
            }
        });
    }
}

/// Also from within a task, and from several requests at once.
#[test]
fn the_threads_of_several_requests_are_replaced_together() {
    let server = TaskServer::new(CODE)
        .set("ASYNC_WORKERS", "1")
        .set("ASYNC_MAX_FIBERS", "4096")
        .set("ASYNC_QUEUE_CAPACITY", "8192");
    server.in_each_mode(|server| {
        std::thread::scope(|scope| {
            for (function, expected) in
                CASES.into_iter().filter(|(function, _)| !function.starts_with("wide"))
            {
                scope.spawn(move || assert_like(&server.tell_in_task(function), expected));
            }
        });
        assert!(TaskAccounting::at_rest(&server.svc).completed > 0.0);
    });
}
