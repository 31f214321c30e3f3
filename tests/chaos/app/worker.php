<?php
// The application under chaos: each request contains a program, and the response is the program's output.
require __DIR__ . '/boot.php';
$handler = static function (): void {
    if ($_GET['id'] === 'collector') {
        Left::$fibers = Left::$bodies = [];
        gc_collect_cycles();
        return;
    }
    if ($_GET['id'] === 'nobody') {
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
