<?php

// Boots the application in a task thread of svc (ASYNC_ENTRY_FILE).

use Laravel\Octane\ApplicationFactory;
use Laravel\Octane\FrankenPhp\FrankenPhpClient;
use Laravel\Octane\Worker;
use Laravel\SerializableClosure\Support\ClosureStream;
use Svc\LaravelOctane\TaskRunner;

$basePath = require $_SERVER['APP_BASE_PATH'].'/vendor/laravel/octane/bin/bootstrap.php';

// The library registers this wrapper once, and wrappers that a task registers end with the task.
ClosureStream::register();

TaskRunner::boot(new Worker(new ApplicationFactory($basePath), new FrankenPhpClient));
