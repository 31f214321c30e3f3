<?php
// The state of every thread before its first program.
require __DIR__ . '/loop.php';
require __DIR__ . '/baseline.php';
require __DIR__ . '/calls.php';
require __DIR__ . '/streams.php';
require __DIR__ . '/shapes.php';
require __DIR__ . '/fresh.php';
require __DIR__ . '/task_operations.php';
require __DIR__ . '/leftovers.php';
require __DIR__ . '/shutdown_code.php';
require __DIR__ . '/deep_calls.php';
require __DIR__ . '/interpreter.php';

Leftover::register();
ShutdownCode::register();
Baseline::capture();
