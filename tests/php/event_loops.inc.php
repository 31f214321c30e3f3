<?php
// Event loops in PHP code that switch fibers like those of Revolt (with futures like Amp's) and React.

namespace Revolt\EventLoop {
    final class Suspension
    {
        private ?\Fiber $fiber;
        private bool $pending = false;

        public function __construct(private Driver $driver)
        {
            $this->fiber = \Fiber::getCurrent();
        }

        public function resume(mixed $value = null): void
        {
            if (!$this->pending) {
                throw new \Error('Must call suspend() before calling resume()');
            }
            $this->pending = false;
            $fiber = $this->fiber;
            if ($fiber !== null) {
                $this->driver->queue(static fn () => $fiber->isTerminated() || $fiber->resume($value));
            } else {
                $this->driver->interrupt(static fn () => $value);
            }
        }

        public function suspend(): mixed
        {
            if ($this->pending) {
                throw new \Error('Must call resume() or throw() before calling suspend() again');
            }
            if ($this->fiber !== \Fiber::getCurrent()) {
                throw new \Error('Must not call suspend() from another fiber');
            }
            $this->pending = true;
            if ($this->fiber !== null) {
                return \Fiber::suspend();
            }
            $result = $this->driver->runFiber();
            if ($this->pending) {
                $this->pending = false;
                throw new \Error('Event loop terminated without resuming the current suspension');
            }
            return $result();
        }
    }

    final class Driver
    {
        private \Fiber $fiber;
        private ?\Closure $interrupt = null;
        private array $queue = [];
        private array $timers = [];
        private array $readable = [];
        private int $next = 0;
        private \WeakMap $suspensions;

        public function __construct()
        {
            $this->suspensions = new \WeakMap();
            $this->fiber = new \Fiber($this->loop(...));
        }

        public function queue(\Closure $closure): void
        {
            $this->queue[] = $closure;
        }

        public function delay(float $delay, \Closure $closure, ?float $interval = null): int
        {
            $this->timers[++$this->next] = [hrtime(true) + $delay * 1e9, $closure, $interval];
            return $this->next;
        }

        public function onReadable(mixed $stream, \Closure $closure): int
        {
            $this->readable[++$this->next] = [$stream, $closure];
            return $this->next;
        }

        public function cancel(int $id): void
        {
            unset($this->timers[$id], $this->readable[$id]);
        }

        public function interrupt(\Closure $interrupt): void
        {
            $this->interrupt = $interrupt;
        }

        public function getSuspension(): Suspension
        {
            $key = \Fiber::getCurrent() ?? $this;
            $suspension = ($this->suspensions[$key] ?? null)?->get();
            if ($suspension === null) {
                $this->suspensions[$key] = \WeakReference::create($suspension = new Suspension($this));
            }
            return $suspension;
        }

        public function run(): void
        {
            if ($this->fiber->isRunning()) {
                throw new \Error('The event loop is already running');
            }
            if (\Fiber::getCurrent() !== null) {
                throw new \Error("Can't call run() within a fiber (i.e., outside of {main})");
            }
            $this->runFiber();
        }

        public function runFiber(): ?\Closure
        {
            if ($this->fiber->isTerminated()) {
                $this->fiber = new \Fiber($this->loop(...));
            }
            return $this->fiber->isStarted() ? $this->fiber->resume() : $this->fiber->start();
        }

        /** Runs callbacks in fibers, so that they may suspend. */
        private function call(\Closure $closure): void
        {
            (new \Fiber(static function () use ($closure) { try { $closure(); } finally { FiberLocal::clear(); } }))->start();
            while ($this->interrupt !== null) {
                $interrupt = $this->interrupt;
                $this->interrupt = null;
                \Fiber::suspend($interrupt);
            }
        }

        private function loop(): void
        {
            while ($this->queue !== [] || $this->timers !== [] || $this->readable !== []) {
                while ($this->queue !== []) {
                    $this->call(array_shift($this->queue));
                }
                $due = $this->timers === [] ? null : max(0, min(array_column($this->timers, 0)) - hrtime(true)) / 1e3;
                if ($this->readable !== []) {
                    $read = array_map(static fn ($one) => $one[0], $this->readable);
                    $write = $except = null;
                    stream_select($read, $write, $except, $due === null ? null : 0, $due === null ? null : (int) ceil($due));
                    foreach (array_keys($read) as $id) {
                        isset($this->readable[$id]) && $this->call($this->readable[$id][1]);
                    }
                } elseif ($due > 0) {
                    usleep((int) ceil($due));
                }
                foreach ($this->timers as $id => [$at, $closure, $interval]) {
                    if ($at <= hrtime(true) && isset($this->timers[$id])) {
                        unset($this->timers[$id]);
                        if ($interval !== null) {
                            $this->timers[$id] = [hrtime(true) + $interval * 1e9, $closure, $interval];
                        }
                        $this->call($closure);
                    }
                }
            }
        }
    }

    final class FiberLocal
    {
        private static ?\Fiber $mainFiber = null;
        private static ?\WeakMap $localStorage = null;

        public static function clear(): void
        {
            $fiber = \Fiber::getCurrent() ?? self::$mainFiber;
            if (self::$localStorage !== null && $fiber !== null) {
                unset(self::$localStorage[$fiber]);
            }
        }

        private static function storage(): \WeakMap
        {
            $fiber = \Fiber::getCurrent() ?? self::$mainFiber ??= new \Fiber(static fn () => null);
            self::$localStorage ??= new \WeakMap();
            return self::$localStorage[$fiber] ??= new \WeakMap();
        }

        public function set(mixed $value): void
        {
            self::storage()[$this] = [$value];
        }

        public function get(): mixed
        {
            return (self::storage()[$this] ?? [null])[0];
        }
    }
}

namespace Revolt {
    final class EventLoop
    {
        private static EventLoop\Driver $driver;

        public static function getDriver(): EventLoop\Driver
        {
            return self::$driver ??= new EventLoop\Driver();
        }

        public static function __callStatic(string $name, array $arguments): mixed
        {
            return self::getDriver()->$name(...$arguments);
        }
    }
}

namespace Amp {
    use Revolt\EventLoop;

    function delay(float $seconds): void
    {
        $suspension = EventLoop::getSuspension();
        EventLoop::delay($seconds, static fn () => $suspension->resume());
        $suspension->suspend();
    }

    final class Future
    {
        public mixed $value = null;
        public ?\Throwable $failure = null;
        public bool $isComplete = false;
        public array $waiting = [];

        public function await(): mixed
        {
            if (!$this->isComplete) {
                $this->waiting[] = $suspension = EventLoop::getSuspension();
                $suspension->suspend();
            }
            return $this->failure === null ? $this->value : throw $this->failure;
        }
    }

    function async(\Closure $closure): Future
    {
        $future = new Future();
        EventLoop::queue(static function () use ($closure, $future): void {
            try {
                $future->value = $closure();
            } catch (\Throwable $failure) {
                $future->failure = $failure;
            }
            $future->isComplete = true;
            foreach ($future->waiting as $suspension) {
                $suspension->resume();
            }
        });
        return $future;
    }
}

namespace React\EventLoop {
    final class Loop
    {
        private static ?Loop $instance = null;
        private static bool $stopped = false;
        private array $timers = [];

        public static function get(): self
        {
            if (self::$instance === null) {
                $loop = self::$instance = new self();
                $stopped =& self::$stopped;
                register_shutdown_function(static function () use ($loop, &$stopped) {
                    $stopped || $loop->work();
                });
            }
            return self::$instance;
        }

        public static function addTimer(float $interval, \Closure $callback): void
        {
            self::get()->timers[] = [hrtime(true) + $interval * 1e9, $callback];
        }

        public static function run(): void
        {
            self::get()->work();
        }

        public static function stop(): void
        {
            self::$stopped = true;
        }

        private function work(): void
        {
            while ($this->timers !== [] && !self::$stopped) {
                sort($this->timers);
                [$at, $callback] = array_shift($this->timers);
                $at > hrtime(true) && usleep((int) (($at - hrtime(true)) / 1e3));
                $callback();
            }
        }
    }
}

namespace React\Async {
    use React\EventLoop\Loop;

    final class SimpleFiber
    {
        private static ?\Fiber $scheduler = null;
        private static ?\Closure $suspend = null;
        private ?\Fiber $fiber;

        public function __construct()
        {
            $this->fiber = \Fiber::getCurrent();
        }

        public function resume(mixed $value): void
        {
            if ($this->fiber !== null) {
                $this->fiber->resume($value);
            } else {
                self::$suspend = static fn () => $value;
            }
            if (self::$suspend !== null && \Fiber::getCurrent() === self::$scheduler) {
                $suspend = self::$suspend;
                self::$suspend = null;
                \Fiber::suspend($suspend);
            }
        }

        public function suspend(): mixed
        {
            if ($this->fiber !== null) {
                return \Fiber::suspend();
            }
            if (self::$scheduler === null || self::$scheduler->isTerminated()) {
                self::$scheduler = new \Fiber(static fn () => Loop::run());
                register_shutdown_function(static fn () => self::$scheduler->isSuspended() && self::$scheduler->resume());
            }
            return (self::$scheduler->isStarted() ? self::$scheduler->resume() : self::$scheduler->start())();
        }
    }

    /** Waits for the value that `$begin` passes to its callback. */
    function await(\Closure $begin): mixed
    {
        $fiber = new SimpleFiber();
        $begin($fiber->resume(...));
        return $fiber->suspend();
    }

    function async(\Closure $function): void
    {
        (new \Fiber($function))->start();
    }
}
