<?php

declare(strict_types=1);

namespace Svc\LaravelOctane;

use Laravel\Octane\Worker;

/** Runs serialized callbacks in a task thread, each in a clone of the application that the thread has booted. */
final class TaskRunner
{
    private static ?Worker $worker = null;

    /** Makes this thread run its tasks in `$worker`, which has not booted yet. */
    public static function boot(Worker $worker): void
    {
        self::$worker = $worker;
        $worker->boot();
    }

    /** Returns whether this thread runs tasks. */
    public static function isTaskThread(): bool
    {
        return self::$worker !== null;
    }

    /** Returns Octane's serialized result: a TaskResult or a TaskExceptionResult. */
    public static function run(string $callback): string
    {
        return serialize(self::$worker->handleTask(unserialize($callback)));
    }
}
