<?php
// Replaces the file that Symfony's Runtime component generates: the entry script's closure creates the application, and the
// runtime runs it.
require_once __DIR__ . '/app.php';
$app = require $_SERVER['SCRIPT_FILENAME'];
$runtime = $_SERVER['APP_RUNTIME'] ?? WorkerRuntime::class;
$runtime = new $runtime(['error_handler' => false]);
[$app, $args] = $runtime->getResolver($app)->resolve();
$app = $app(...$args);
exit($runtime->getRunner($app)->run());
