<?php
/** Runs one program and checks its state. Each operation is a method `do_...`; the model in Rust has a counterpart. */
final class Interpreter
{
    use Calls, DeepCalls, TaskOperations, ShutdownOperations, Leftovers, Streams;

    /** Expected after each wait: a probe and its answer. @var array<string, array{Closure, mixed}> */
    private array $own = [];
    /** The contents of the request's buffers, the outermost first. @var list<string|null> */
    private array $texts = [];
    /** The running fibers, the innermost last. */
    private array $fibers = [];
    /** Fibers that will never be resumed. */
    private WeakMap $abandoned;
    private array $kept = [];
    /** DeepCall of callbacks that run while handlers or buffers differ from what the program has set. */
    private int $in_handler = 0, $in_buffer = 0;
    private int $uses = 0;
    private ?Throwable $armed = null;
    private ?array $random = null;
    /** The request has been torn down, as far as the program can tell. */
    private bool $is_over = false, $has_own_sessions = false;
    private ?WeakReference $guard = null;

    public function __construct(public readonly string $id)
    {
        $this->abandoned = new WeakMap();
        $this->fibers[] = null;
        $this->texts[] = '';
        $name = svc_request_id();
        $this->own = [
            '$_GET' => [static fn () => $_GET, ['id' => $id]],
            '$_COOKIE' => [static fn () => $_COOKIE, ['id' => $id]],
            '$_REQUEST' => [static fn () => $_REQUEST['id'] ?? null, $id],
            '$_SERVER' => [static fn () => $_SERVER['HTTP_X_ID'] ?? null, $id],
            'target' => [static fn () => $_SERVER['REQUEST_URI'] ?? null, "/chaos?id=$id"],
            'request' => [static fn () => Svc\Request::current()->query['id'] ?? null, $id],
            'field' => [static fn () => getallheaders()['X-Id'] ?? null, $id],
            'request id' => [static fn () => svc_request_id(), $name],
            'body' => [static fn () => json_decode(file_get_contents('php://input'), true)['id'] ?? null, $id],
            'fiber' => [fn () => end($this->fibers) === false || Fiber::getCurrent() === end($this->fibers), true],
            'level' => [fn () => $this->in_buffer > 0 || ob_get_level() === count($this->texts), true],
            'handler' => [fn () => $this->in_handler > 0 ? null : $this->name_of_handler(), null],
            'last error' => [static fn () => error_get_last()['message'] ?? null, null],
            'CHAOS_BOOT' => [static fn () => getenv('CHAOS_BOOT'), 'boot'],
            'directory' => [static fn () => getcwd(), getcwd()],
            'umask' => [static fn () => umask(), umask()],
            'session' => [fn () => $this->in_handler > 0 ? $this->own['session'][1] : $_SESSION ?? null, null],
        ];
    }

    /** The state of a task, which has neither a client nor a request. */
    public static function of_task(string $id, string $request): self
    {
        $interpreter = new self($id);
        $none = array_fill_keys(['$_GET', '$_COOKIE', '$_REQUEST', '$_SERVER', 'target', 'request', 'field', 'body'], 0);
        $interpreter->own = array_diff_key($interpreter->own, $none);
        $interpreter->own['request id'][1] = $request;
        foreach (['_GET', '_POST', '_COOKIE', '_FILES', '_REQUEST'] as $name) {
            $interpreter->own["\$$name"] = [static fn () => $GLOBALS[$name] ?? null, []];
        }
        return $interpreter;
    }

    // ---- the frame of a program ----

    /** Runs operations and returns their output. */
    public function text_of(array $ops): string
    {
        ob_start();
        $this->texts[] = '';
        $this->run($ops);
        $this->close_down_to(2);
        array_pop($this->texts);
        return ob_get_clean();
    }

    /** Runs operations one after the other. */
    public function run(array $ops): void
    {
        Fault::here();
        foreach ($ops as $op) {
            $this->{'do_' . $op[0]}(...array_slice($op, 1));
        }
    }

    /** Checks that everything that the request sees belongs to it. */
    public function check(string $when): void
    {
        if ($this->is_over) {
            return;
        }
        foreach ($this->own as $what => [$probe, $expected]) {
            $found = $probe();
            if ($found !== $expected && !($what === 'handler' && $this->in_handler > 0)) {
                Baseline::report($this->id, "sees another $what ($when)", $expected, $found);
            }
        }
        if ($this->in_buffer === 0 && end($this->texts) !== null && ob_get_contents() !== end($this->texts)) {
            Baseline::report($this->id, "sees another buffer ($when)", end($this->texts), ob_get_contents());
        }
        if ($this->random !== null && $this->random !== []) {
            $expected = array_shift($this->random);
            $found = mt_rand();
            if ($found !== $expected) {
                Baseline::report($this->id, "draws another number ($when)", $expected, $found);
            }
        }
    }

    /** When the last reference to the result goes, the program leaves no cycles behind that a collector would find later,
     * in another request. */
    public function guard(): Guard
    {
        $guard = $this->guard?->get() ?? new Guard(fn () => $this->forget());
        $this->guard = WeakReference::create($guard);
        return $guard;
    }

    private function forget(): void
    {
        $this->is_over = true;
        $this->own = [];
        $this->fibers = [null];
        $this->kept = [];
    }

    public function end(): void
    {
        $this->check('end');
        [$kept, $this->kept] = [$this->kept, []];
        foreach ($kept as $one) {
            if ($one instanceof OnDestruct) {
                $one->ends_in_time();
            }
        }
    }

    private function say(string $text): void
    {
        // Before printing: printing may wait, and then another part of the program checks the texts.
        $last = array_key_last($this->texts);
        if ($this->texts[$last] !== null) {
            $this->texts[$last] .= $text;
            if ($last === 0 && strlen($this->texts[0]) >= 4096) {
                $this->texts[0] = '';
            }
        }
        echo $text;
    }

    private function wait(float $seconds, string $when): void
    {
        Svc\sleep($seconds);
        $this->check("after a wait in $when");
    }

    /** Returns to `level` buffers after other operations. */
    private function close_down_to(int $level): void
    {
        while (count($this->texts) > $level) {
            $this->close_buffer(true);
        }
    }

    private function close_buffer(bool $is_sent): void
    {
        array_pop($this->texts);
        // Only the model knows what the callback returns; and a check here would see it half done.
        $last = array_key_last($this->texts) ?? 0;
        $is_known = ($this->texts[$last] ?? null) !== null;
        $this->texts[$last] = null;
        $this->in_buffer++;
        try {
            $is_sent ? ob_end_flush() : ob_end_clean();
        } finally {
            $this->in_buffer--;
            $this->texts[$last] = $is_known && ob_get_level() > 0 ? ob_get_contents() : null;
        }
    }

    private function name_of_handler(): ?string
    {
        $handler = set_error_handler(null);
        restore_error_handler();
        return $handler instanceof Handler ? $handler->name : null;
    }

    // ---- operations ----

    private function do_echo(string $text): void
    {
        $this->say($text);
    }

    private function do_big(int $bytes): void
    {
        $this->say(str_repeat('x', $bytes));
    }

    private function do_sleep(float $seconds): void
    {
        $this->wait($seconds, 'sleep');
    }

    /** Reports that it has arrived, and waits for permission to continue. */
    private function do_await(string $name): void
    {
        // Continues only when the gate opens: other requests run meanwhile.
        $gate = fopen(getenv('CHAOS_FOLDER') . "/go-$name", 'r+');
        touch(getenv('CHAOS_FOLDER') . "/at-$name");
        Svc\wait_readable($gate);
        $this->check('after a wait in await');
    }

    private function do_mark(): void
    {
        Fault::mark();
    }

    private function do_unmark(): void
    {
        Fault::unmark();
    }

    private function do_check(): void
    {
        $this->check('check');
    }

    private function do_ini(string $name, string $value): void
    {
        if (str_starts_with($name, 'session.') && (headers_sent() || session_status() === PHP_SESSION_ACTIVE)) {
            return;
        }
        ini_set($name, $value);
        // A directive may be deprecated.
        $this->own['last error'][1] = error_get_last()['message'] ?? null;
        $this->own["ini $name"] = [static fn () => ini_get($name), $value];
        $this->check('ini');
    }

    private function do_handler(string $kind): void
    {
        $handler = new Handler($this->id . ++$this->uses, $kind, $this->on_error(...));
        set_error_handler($handler);
        $this->own['handler'][1] = $handler->name;
    }

    private function on_error(string $kind, string $message): bool
    {
        Fault::here();
        $is_mine = str_starts_with($message, 'warning of ');
        if ($is_mine && $message !== "warning of $this->id") {
            Baseline::report($this->id, 'receives the error of another program', "warning of $this->id", $message);
        }
        $this->in_handler++;
        try {
            if ($kind === 'park') {
                $this->wait(0.001, 'an error handler');
            }
            if (!$is_mine) {
                return true;
            }
            if ($kind === 'throw') {
                throw new ErrorException('thrown');
            }
            $this->say('E');
            return true;
        } finally {
            $this->in_handler--;
        }
    }

    private function do_warn(): void
    {
        if ($this->own['handler'][1] === null) {
            $this->own['last error'][1] = "warning of $this->id";
        }
        trigger_error("warning of $this->id", E_USER_WARNING);
    }

    private function do_catcher(string $kind): void
    {
        set_exception_handler(function (Throwable $thrown) use ($kind) {
            // PHP removes the handler during its call; the fibers that the exception has left are gone too.
            $this->fibers = [$this->fibers[0]];
            Fault::here();
            if ($kind === 'park') {
                $this->wait(0.001, 'an exception handler');
            }
            $this->say('X' . $thrown->getMessage());
        });
    }

    private function do_buffer(string $kind, int $chunk, bool $is_sent, array $ops): void
    {
        $callback = match ($kind) {
            'plain' => null,
            'wrap' => static function (string $text) { Fault::here(); return "[$text]"; },
            'false' => static function () { Fault::here(); return false; },
            'sleep' => function (string $text) {
                Fault::here();
                $this->in_buffer++;
                Svc\sleep(0.001);
                $this->in_buffer--;
                return "<$text>";
            },
            'throw' => function (string $text) {
                if ($this->armed !== null) {
                    [$armed, $this->armed] = [$this->armed, null];
                    throw $armed;
                }
                return $text;
            },
        };
        ob_start($callback, $chunk);
        // With a chunk size PHP passes data on at times that only the model knows.
        $this->texts[] = $chunk > 0 ? null : '';
        $level = count($this->texts);
        $this->run($ops);
        $this->close_down_to($level);
        $this->armed = $kind === 'throw' ? new RuntimeException('of a buffer') : null;
        $this->close_buffer($is_sent);
        $this->check('buffer');
    }

    private function do_generator(int $stops_after, array $ops): void
    {
        $fiber = end($this->fibers);
        $generator = (function () use ($ops, $fiber) {
            try {
                foreach ($ops as $op) {
                    $this->run([$op]);
                    yield;
                }
            } finally {
                Fault::here();
                if (!$fiber instanceof Fiber || !isset($this->abandoned[$fiber])) {
                    $this->say('F');
                }
            }
        })();
        $count = 0;
        foreach ($generator as $_) {
            $this->say('.');
            if (++$count === $stops_after) {
                break;
            }
        }
        unset($generator);
    }

    private function do_fiber(array $ops): void
    {
        $fiber = $this->fiber($ops);
        $depth = count($this->fibers);
        $this->fibers[] = $fiber;
        try {
            $fiber->start();
            while (!$fiber->isTerminated()) {
                array_splice($this->fibers, $depth);
                $this->say('~');
                $this->wait(0.0, 'between fibers');
                $this->fibers[] = $fiber;
                $fiber->resume();
            }
        } finally {
            // A cancelled task leaves the fiber in place, for a collector to find.
            $this->abandoned[$fiber] = true;
        }
        array_splice($this->fibers, $depth);
    }

    private function do_abandon(array $ops): void
    {
        $fiber = $this->fiber($ops);
        $level = count($this->texts);
        $depth = count($this->fibers);
        $this->fibers[] = $fiber;
        $fiber->start();
        array_splice($this->fibers, $depth);
        if (!$fiber->isTerminated()) {
            $this->abandoned[$fiber] = true;
            $this->kept[] = $fiber;
        }
        $this->close_down_to($level);
        $this->check('abandon');
    }

    private function fiber(array $ops): Fiber
    {
        return new Fiber(function () use ($ops) { $this->run($ops); });
    }

    private function do_suspend(): void
    {
        if (count($this->fibers) > 1 && end($this->fibers) !== false) {
            Fiber::suspend();
        }
    }

    private function do_try(array $ops): void
    {
        $level = count($this->texts);
        $depth = count($this->fibers);
        try {
            $this->run($ops);
        } catch (Throwable $thrown) {
            array_splice($this->fibers, $depth);
            $this->close_down_to($level);
            $this->say('C' . $thrown->getMessage());
        }
    }

    private function do_throw(): void
    {
        throw new Exception('thrown');
    }

    private function do_exit(): void
    {
        exit;
    }

    private function do_fatal(string $kind): void
    {
        match ($kind) {
            'memory' => str_repeat('x', PHP_INT_MAX >> 4),
            'compile' => eval('function strlen() {}'),
            'recursion' => (static function (Closure $self): void { $self($self); })(static function (Closure $self): void { $self($self); }),
        };
    }

    private function do_shutdown(array $ops): void
    {
        $guard = $this->guard();
        register_shutdown_function(function () use ($ops, $guard) {
            $this->fibers = [$this->fibers[0]];
            // The cause of the program's end is known by now. After a fatal error the engine stays as it is.
            $error = error_get_last();
            $this->own['last error'][1] = $error['message'] ?? null;
            $is_fatal = in_array($error['type'] ?? 0, [E_ERROR, E_PARSE, E_CORE_ERROR, E_COMPILE_ERROR], true);
            $this->is_over = $this->is_over || ($is_fatal && !str_starts_with($error['message'], 'Uncaught '));
            $this->run($ops);
        });
    }

    private function do_destruct(array $ops): void
    {
        if (!Baseline::suits_destructor($ops)) {
            $this->run($ops);
            return;
        }
        $object = new OnDestruct(fn () => $this->run($ops));
        unset($object);
    }

    private function do_keep(array $ops): void
    {
        if (!Baseline::suits_destructor($ops)) {
            return;
        }
        $this->kept[] = new OnDestruct(function (bool $is_in_time) use ($ops) {
            $this->is_over = $this->is_over || !$is_in_time;
            $this->run($ops);
        });
    }

    private function do_loop_driver(string $kind): void
    {
        if (!$this->is_over) {
            Revolt\EventLoop::$driver ??= new LoopDriver($this->id, $kind);
            $this->own['loop_driver'] = [fn () => $this->is_over ? $this->id : Revolt\EventLoop::$driver?->id, $this->id];
        }
    }
}

/** An error handler that differs from all others. */
final class Handler
{
    public function __construct(public readonly string $name, private string $kind, private Closure $tell) {}

    public function __invoke(int $type, string $message): bool
    {
        return ($this->tell)($this->kind, $message);
    }
}

/** Calls a closure when its last reference goes. */
final class Guard
{
    public function __construct(private Closure $last) {}
    public function __destruct() { ($this->last)(); }
}
