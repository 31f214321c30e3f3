<?php
/** The kinds of code that a task can have. The file exists twice: OPcache has one copy. */
trait KnownShapes
{
    private static function dispatch_as(string $shape, array $order): Svc\Task
    {
        return match ($shape) {
            'method' => Svc\async(TaskCode::run(...), $order),
            'function' => Svc\async(run_task(...), $order),
            'captured' => Svc\async(static function () use ($order) { return TaskCode::run($order); }),
            'arrow' => Svc\async(static fn () => TaskCode::run($order)),
            'static' => Svc\async(static function (array $order) {
                static $calls = 0;
                if (++$calls !== 1) {
                    Baseline::report($order['id'], 'finds static variables', 1, $calls);
                }
                return TaskCode::run($order);
            }, $order),
            'nested' => Svc\async(static function (array $order) {
                $inner = static fn (array $ops) => TaskCode::run(['ops' => $ops] + $order);
                $through = static function () use ($inner, $order) { yield $inner($order['ops']); };
                foreach ($through() as $answer) {
                    return $answer;
                }
            }, $order),
        };
    }
}
