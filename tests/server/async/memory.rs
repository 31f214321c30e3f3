//! Tasks leave no memory behind, neither in their thread nor in the thread that awaits them.

use svc_testing::tasks::{Mode, TaskServer, TaskSvc, assert_laws};

const CODE: &str = r"
class Node { public ?Node $next = null; public array $data = []; public function __construct(public string $text = '') { } }
class Holding extends Exception { public function __construct(public array $held) { parent::__construct('held'); } }
function same(mixed $value): mixed { return $value; }
/** Fails where the task begins: its thread has no class Ghost. */
function unknown(): void
{
    class_exists('Ghost', false) || eval('class Ghost { }');
    $captured = new Ghost();
    try { Svc\async(fn () => $captured)->await(); } catch (Svc\Async\TransferException) { }
}
/** Ways in which a task can run and end, by number. */
function way(int $i): void
{
    $ring = new Node('ring'); $ring->next = new Node(str_repeat('x', 200)); $ring->next->next = $ring;
    $text = str_repeat('y', $i % 300);
    try {
        match ($i % 15) {
            0 => Svc\async(fn () => 1)->await(),
            1 => Svc\async(same(...), ['k' => [1.5, $text, null]])->await(),
            2 => Svc\async(fn () => $ring)->await(),
            3 => Svc\async(function ($node) { $node->data[] = $node; return $node; }, $ring)->await(),
            4 => Svc\async(fn () => throw new Holding([$text, $ring]))->await(),
            5 => Svc\async(fn () => Svc\sleep(60))->await(0.001),
            6 => Svc\async(fn () => exit)->await(),
            7 => Svc\async(fn () => fopen('php://memory', 'r'))->await(),
            8 => Svc\async(same(...), [$text, fn () => 1]),
            9 => Svc\await_any([Svc\async(fn () => throw new Exception($text)), Svc\async(fn () => nowhere())]),
            10 => Svc\await_race(['a' => Svc\async(fn () => $text), 'b' => Svc\async(never(...))], null, $key),
            11 => Svc\async(fn () => Svc\async(fn () => $text)->await())->await(),
            12 => Svc\async(function () use ($text) { ob_start(); echo $text; $_GET['left'] = $text; register_shutdown_function(fn () => $text); static $own; $own = $text; })->await(),
            13 => Svc\async(never(...))->cancel(),
            14 => array_map(unknown(...), range(1, 16)),
        };
    } catch (Svc\Async\Exception) { }
}
function ways(string $n): int { for ($i = 0; $i < 420; $i++) { way($i); } gc_collect_cycles(); return 1; }
function heap(): int { gc_collect_cycles(); return memory_get_usage(); }
function of_thread(): int { return Svc\async(heap(...))->await(); }
function of_request(): int { return heap(); }
";

/// Where memory is measured.
const PLACES: [&str; 2] = ["of_thread", "of_request"];

fn measure(server: &TaskSvc, function: &str) -> i64 {
    server.tell(function).parse().unwrap()
}

#[test]
fn tasks_leave_no_memory_behind() {
    let server = TaskServer::new(CODE).set("ASYNC_WORKERS", "1").set("PHP_WORKERS", "1");
    std::thread::scope(|scope| {
        for opcache in ["opcache.enable=1", "opcache.enable=0"] {
            let server = server.clone().directive(opcache).directive("opcache.file_update_protection=0");
            scope.spawn(move || {
                let running = server.start(Mode::Worker);
                let both = || {
                    // By now the leftovers of the last request are cancelled and freed.
                    assert_laws(&running.svc);
                    PLACES.map(|function| measure(&running, function))
                };
                // Tables grow by doubling, not with each task.
                for _ in 0..4 {
                    running.tell("ways");
                }
                let before = both();
                for _ in 0..8 {
                    running.tell("ways");
                }
                let after = both();
                for ((place, before), after) in PLACES.into_iter().zip(before).zip(after) {
                    assert!(after - before < 32768, "{opcache}, {place}: {before} bytes have become {after}");
                }
            });
        }
    });
}
