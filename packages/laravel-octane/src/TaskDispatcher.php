<?php

declare(strict_types=1);

namespace Svc\LaravelOctane;

use Closure;
use Laravel\Octane\Contracts\DispatchesTasks;
use Laravel\Octane\Exceptions\TaskExceptionResult;
use Laravel\Octane\Exceptions\TaskTimeoutException;
use Laravel\SerializableClosure\SerializableClosure;
use Svc\Async\TimeoutException;
use Svc\Task;

/** Runs the callbacks of `Octane::concurrently()` on svc's task threads, each of which has booted the application. */
final class TaskDispatcher implements DispatchesTasks
{
    /** Returns whether this thread may dispatch tasks to threads with the application. Tasks run their own in sequence. */
    public static function isSupported(): bool
    {
        return function_exists('Svc\async') && ! TaskRunner::isTaskThread() && (int) getenv('ASYNC_WORKERS') > 0
            && realpath((string) getenv('ASYNC_ENTRY_FILE')) === realpath(self::entryFile());
    }

    /**
     * Returns svc's settings for this number of task threads; `null` stands for one per CPU.
     *
     * @return array<string, string>
     */
    public static function environment(?int $threads): array
    {
        $threads ??= max(1, substr_count((string) @file_get_contents('/proc/cpuinfo'), "\nprocessor") + 1);

        return [
            'ASYNC_WORKERS' => (string) $threads,
            'ASYNC_ENTRY_FILE' => self::entryFile(),
            // Octane has one current application per thread, so a task must not wait while another one runs there.
            'RUNTIME_HOOKS' => 'none',
        ];
    }

    private static function entryFile(): string
    {
        return dirname(__DIR__).'/bin/task-worker.php';
    }

    /**
     * @param  array<array-key, callable>  $tasks
     * @return array<array-key, mixed>  the results under the same keys; `false` for a task that did not finish in time
     */
    public function resolve(array $tasks, int $waitMilliseconds = 3000): array
    {
        $deadline = microtime(true) + $waitMilliseconds / 1000;
        $results = $unfinished = [];
        foreach ($this->begin($tasks) as $key => $task) {
            try {
                $result = unserialize($task->await(max(0.0, $deadline - microtime(true))));
            } catch (TimeoutException) {
                $unfinished[$key] = false;

                continue;
            }
            if ($result instanceof TaskExceptionResult) {
                throw $result->getOriginal();
            }
            $results[$key] = $result->result;
        }
        if ($results === [] && $unfinished !== []) {
            throw TaskTimeoutException::after($waitMilliseconds);
        }

        return array_replace($tasks, $results, $unfinished);
    }

    /** @param  array<array-key, callable>  $tasks */
    public function dispatch(array $tasks): void
    {
        foreach ($this->begin($tasks) as $task) {
            $task->detach();
        }
    }

    /** @return array<array-key, Task> */
    private function begin(array $tasks): array
    {
        $begin = static fn ($task): Task => \Svc\async(
            TaskRunner::run(...),
            serialize($task instanceof Closure ? new SerializableClosure($task) : $task),
        );

        return array_map($begin, $tasks);
    }
}
