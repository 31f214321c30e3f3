<?php
// The application under chaos: each request brings a program, and is answered with what the program prints.
require __DIR__ . '/world.php';
require __DIR__ . '/calls.php';
require __DIR__ . '/streams.php';
require __DIR__ . '/shapes.php';
require __DIR__ . '/fresh.php';
require __DIR__ . '/errands.php';
require __DIR__ . '/mind.php';

World::found();
$handler = static function (): void {
    if ($_GET['id'] === 'collector') {
        gc_collect_cycles();
        return;
    }
    $program = json_decode(file_get_contents('php://input'), true);
    World::check_neutral($program['id']);
    Fault::arm($program['fault'] ?? null);
    $mind = new Mind($program['id']);
    $guard = $mind->guard();
    $mind->check('begin');
    $mind->run($program['ops']);
    $mind->end();
};
$is_classic = false;
try {
    Svc\Worker::serve($handler);
} catch (Error $refused) {
    $is_classic = true;
}
if ($is_classic) {
    $handler();
}
