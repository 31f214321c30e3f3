<?php
// A page of the application: what `Octane::concurrently()` passes to the dispatcher of the package.
use Svc\LaravelOctane\TaskDispatcher;

return static function (): string {
    if (! TaskDispatcher::isSupported()) {
        return 'no tasks';
    }
    $tasks = new TaskDispatcher;
    $outcome = static function (callable $call): mixed {
        try {
            return $call();
        } catch (Throwable $error) {
            return $error->getMessage();
        }
    };
    return json_encode([
        $tasks->resolve(['booted' => static fn () => $GLOBALS['booted'] . (TaskDispatcher::isSupported() ? ', again' : ''),
            2 => static fn () => [1, 2]]),
        $outcome(static fn () => $tasks->resolve([
            static fn () => throw new LogicException('no'),
        ])),
        $tasks->resolve([
            'slow' => static function () { sleep(60); },
            'quick' => static fn () => 'done',
        ], 10000),
        $outcome(static fn () => $tasks->resolve([
            static function () { sleep(60); },
        ], 1)),
    ]);
};
