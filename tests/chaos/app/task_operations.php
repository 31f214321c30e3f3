<?php
/** Operations that dispatch tasks. */
trait TaskOperations
{
    use FreshShapes, KnownShapes {
        FreshShapes::dispatch_as as private dispatch_fresh;
        KnownShapes::dispatch_as insteadof FreshShapes;
    }

    /** @return array{Svc\Task, string} a task that runs the operations, and its name */
    private function dispatch(string $shape, array $ops): array
    {
        $order = ['id' => $this->id . 't' . ++$this->uses, 'ops' => $ops, 'fault' => Fault::of_task()];
        $order += ['request' => svc_request_id(), 'side' => Side::Out, 'more' => $more = new Transferred($order['id'])];
        // Code that is in OPcache, and code that is copied.
        $task = $this->uses % 2 ? self::dispatch_as($shape, $order) : self::dispatch_fresh($shape, $order);
        if ($more->id !== $order['id']) {
            Baseline::report($this->id, 'shares an object with a task', $order['id'], $more->id);
        }
        return [$task, $order['id']];
    }

    private function read(array $answer, string $id): string
    {
        ['id' => $found, 'side' => $side, 'more' => $more] = $answer;
        if ([$found, $side, $more->id, $more->self === $more] !== [$id, Side::Back, "$id back", true]) {
            Baseline::report($this->id, 'gets the answer of another task', $id, $answer);
        }
        return $answer['text'];
    }

    /** Returns the outcome of the task in the model's notation. */
    private function outcome(Svc\Task $task, string $id, ?float $timeout = null): string
    {
        try {
            return 'T' . $this->read($task->await($timeout), $id) . ';';
        } catch (Svc\Async\TaskException $failure) {
            return 't' . TaskCode::reason($failure) . ';';
        } catch (Svc\Async\TimeoutException) {
            Baseline::report($this->id, 'waits for a task for too long', "at most $timeout s", 'a timeout');
            return 'late;';
        }
    }

    private function do_task(string $how, string $shape, array $ops): void
    {
        [$task, $id] = $this->dispatch($shape, $ops);
        $this->say(match ($how) {
            'await' => $this->outcome($task, $id),
            'timed' => $this->outcome($task, $id, 30.0),
            'slow' => [$this->wait(0.003, 'beside a task'), $this->outcome($task, $id)][1],
            'twice' => $this->twice($task, $id),
            'cancel' => $this->cancel($task, $id),
            'detach' => [$task->detach(), 'd'][1],
            'leave' => 'l',
        });
        $this->check("task $how");
    }

    private function twice(Svc\Task $task, string $id): string
    {
        [$first, $second] = [$this->outcome($task, $id), $this->outcome($task, $id)];
        if ($first !== $second) {
            Baseline::report($this->id, 'gets two answers of a task', $first, $second);
        }
        return $second;
    }

    private function cancel(Svc\Task $task, string $id): string
    {
        $is_cancelled = $task->cancel();
        if (!$task->isSettled()) {
            Baseline::report($this->id, 'has cancelled a task', true, false);
        }
        $this->expect_cancelled($task, $is_cancelled);
        return 'c';
    }

    private function expect_cancelled(Svc\Task $task, bool $should): void
    {
        try {
            $task->await();
            $found = false;
        } catch (Svc\Async\CancelledException) {
            $found = true;
        } catch (Svc\Async\TaskException) {
            $found = false;
        }
        if ($found !== $should) {
            Baseline::report($this->id, 'awaits a cancelled task', $should, $found);
        }
    }

    /** A task that runs the first operation while the others run here. */
    private function do_beside(string $shape, array $ops): void
    {
        if ($ops === []) {
            return;
        }
        [$task, $id] = $this->dispatch($shape, [array_shift($ops)]);
        $this->run($ops);
        $this->say($this->outcome($task, $id));
        $this->check('beside');
    }

    /** A task for each operation. */
    private function do_tasks(string $which, string $shape, array $ops): void
    {
        $tasks = $ids = [];
        foreach ($ops as $n => $op) {
            [$tasks["k$n"], $ids["k$n"]] = $this->dispatch($shape, [$op]);
        }
        if ($tasks !== []) {
            $this->say($this->{"of_$which"}($tasks, $ids));
            $this->check("tasks $which");
        }
    }

    private function of_all(array $tasks, array $ids): string
    {
        try {
            $answers = Svc\await_all((static function () use ($tasks) { yield from $tasks; })());
        } catch (Svc\Async\TaskException) {
            return 'a';
        }
        if (array_keys($answers) !== array_keys($tasks)) {
            Baseline::report($this->id, 'gets answers under other keys', array_keys($tasks), array_keys($answers));
        }
        return 'A' . implode(',', array_map($this->read(...), $answers, $ids)) . ';';
    }

    private function of_any(array $tasks, array $ids): string
    {
        try {
            $this->read(Svc\await_any($tasks, 30.0, $key), $ids[$key]);
            return 'Y';
        } catch (Svc\Async\AggregateException $failures) {
            $keys = array_keys($failures->getErrors());
            if (array_diff(array_keys($tasks), $keys) !== []) {
                Baseline::report($this->id, 'misses a failure', array_keys($tasks), $keys);
            }
            return 'y';
        }
    }

    private function of_race(array $tasks, array $ids): string
    {
        try {
            $this->read(Svc\await_race($tasks, null, $key), $ids[$key]);
        } catch (Svc\Async\TaskException) {
        }
        return 'R';
    }

    /** Tasks that never end by themselves, and a timeout. */
    private function do_never(string $which, string $kind, float $timeout): void
    {
        $tasks = array_map(static fn () => Svc\async(TaskCode::never(...), $kind), $which === 'one' ? [1] : [1, 2]);
        try {
            match ($which) {
                'one' => $tasks[0]->await($timeout),
                'all' => Svc\await_all($tasks, $timeout),
                'any' => Svc\await_any($tasks, $timeout),
                'race' => Svc\await_race($tasks, $timeout),
            };
            $is_late = $kind === 'spin';
        } catch (Svc\Async\TimeoutException) {
            $is_late = true;
            if ($kind !== 'spin') {
                array_map(fn ($task) => $this->expect_cancelled($task, true), $tasks);
            }
        }
        if (!$is_late) {
            Baseline::report($this->id, "waits for what never ends ($which, $kind)", 'a timeout', null);
        }
        $this->say('N');
        $this->check("never $which");
    }

    private function do_group(array $ops): void
    {
        $this->run($ops);
    }
}

enum Side: string
{
    case Out = 'out';
    case Back = 'back';
}

/** An object that is transferred with the task and refers to itself. */
final class Transferred
{
    public self $self;

    public function __construct(public string $id) { $this->self = $this; }
}

/** The code that runs in the thread of a task. */
final class TaskCode
{
    public static function run(array $order): array
    {
        Baseline::check($order['id']);
        Fault::arm($order['fault']);
        $interpreter = Interpreter::of_task($order['id'], $order['request']);
        $guard = $interpreter->guard();
        $interpreter->check('begin of a task');
        $text = $interpreter->text_of($order['ops']);
        $interpreter->end();
        $more = $order['more'];
        if ([$order['side'], $more->id, $more->self === $more] !== [Side::Out, $order['id'], true]) {
            Baseline::report($order['id'], 'has received other data', Side::Out, $order);
        }
        $more->id .= ' back';
        return ['id' => $order['id'], 'text' => $text, 'side' => Side::Back, 'more' => $more];
    }

    public static function never(string $kind): string
    {
        match ($kind) {
            'sleep' => Svc\sleep(60),
            'stream' => Svc\wait_readable(($pair = stream_socket_pair(STREAM_PF_UNIX, STREAM_SOCK_STREAM, 0))[0]),
            'task' => Svc\async(self::never(...), 'sleep')->await(),
            'stubborn' => self::insist(),
            // A spinning task blocks other tasks, perhaps one that it waits for.
            'spin' => self::spin(),
        };
        return 'ended';
    }

    private static function insist(): void
    {
        for ($n = 0; $n < 3; $n++) {
            try {
                Svc\sleep(60);
            } catch (Svc\Async\CancelledException) {
            }
        }
    }

    private static function spin(): void
    {
        $until = hrtime(true) + 200_000_000;
        while (!Svc\Task::isCancelled() && hrtime(true) < $until) {
        }
    }

    /** Returns the failure in the model's notation; unpredictable text becomes `!`. */
    public static function reason(Svc\Async\TaskException $failure): string
    {
        $message = $failure->getMessage();
        return match (true) {
            str_contains($message, 'exit()') => 'exit',
            // Its message is not reported if error_reporting excludes it.
            str_contains($message, 'ended by a fatal error'),
            str_contains($message, 'Allowed memory size'),
            str_contains($message, 'Maximum execution time'),
            // The control thread says this if the task's own thread gets no processor time.
            str_contains($message, 'time limit has expired'),
            str_contains($message, 'Cannot redeclare'),
            str_contains($message, 'strlen()') => '!',
            default => $message,
        };
    }
}

function run_task(array $order): array
{
    return TaskCode::run($order);
}
