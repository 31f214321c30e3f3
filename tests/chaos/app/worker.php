<?php
// The application under chaos: each request contains a program, and the response is the program's output.
require __DIR__ . '/boot.php';
$handler = static function (): void {
    if ($_GET['id'] === 'collector') {
        Leftover::$fibers = Leftover::$bodies = [];
        gc_collect_cycles();
        return;
    }
    if ($_GET['id'] === 'none') {
        return;
    }
    $program = json_decode(file_get_contents('php://input'), true);
    Baseline::check($program['id']);
    Fault::arm($program['fault'] ?? null);
    $interpreter = new Interpreter($program['id']);
    $guard = $interpreter->guard();
    $interpreter->check('begin');
    $interpreter->run($program['ops']);
    $interpreter->end();
};
$is_classic = false;
try {
    Svc\Worker::serve($handler);
} catch (Error $refused) {
    $is_classic = true;
}
if ($is_classic) {
    ShutdownCode::$is_classic = true;
    $handler();
}
