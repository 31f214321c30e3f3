<?php
// What Symfony's Runtime component writes for applications: the entry script's closure makes the application, and the
// runtime runs it.
require_once __DIR__ . '/app.php';
$app = require $_SERVER['SCRIPT_FILENAME'];
$runtime = $_SERVER['APP_RUNTIME'] ?? WorkerRuntime::class;
$runtime = new $runtime(['error_handler' => false]);
[$app, $args] = $runtime->getResolver($app)->resolve();
$app = $app(...$args);
exit($runtime->getRunner($app)->run());
