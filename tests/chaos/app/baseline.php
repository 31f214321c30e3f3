<?php
/** The initial state of every request, and the state that requests share. */
final class Baseline
{
    /** The code that the autoloader runs for a class. @var array<string, Closure> */
    public static array $autoloads = [];
    private static array $expected;

    public static function capture(): void
    {
        // Boot has its own state, which requests must find unchanged.
        putenv('CHAOS_BOOT=boot');
        set_error_handler(self::boot_error(...));
        spl_autoload_register(static function (string $class): void {
            if (isset(self::$autoloads[$class])) {
                (self::$autoloads[$class])();
            }
        });
        stream_context_get_default(['http' => ['header' => 'X-Boot: 1']]);
        ini_set('user_agent', 'boot');
        self::$expected = self::state_of_first();
    }

    /** Returns the state that the first thread of this kind has found: in classic mode, a request boots in the state that the
     * previous one has left. */
    private static function state_of_first(): array
    {
        $file = getenv('CHAOS_FOLDER') . '/baseline-' . basename(get_included_files()[0]);
        $state = serialize(self::state());
        if (!file_exists($file)) {
            file_put_contents($mine = $file . getmypid() . '-' . hrtime(true), $state);
            // Fails if another thread was faster.
            @link($mine, $file);
            error_clear_last();
        }
        return unserialize(file_get_contents($file));
    }

    public static function boot_error(int $type, string $message): bool
    {
        return false;
    }

    /** Returns all state that could come from another request. */
    public static function state(): array
    {
        $handler = set_error_handler(null);
        restore_error_handler();
        $exceptions = set_exception_handler(null);
        restore_exception_handler();
        $umask = umask();
        return [
            'error handler' => $handler instanceof Closure ? (new ReflectionFunction($handler))->getName() : $handler,
            'exception handler' => $exceptions === null,
            'ini' => self::directives(),
            'env' => array_filter(getenv(), static fn ($name) => str_starts_with($name, 'CHAOS'), ARRAY_FILTER_USE_KEY),
            'locale' => setlocale(LC_ALL, 0),
            'directory' => getcwd(),
            'umask' => $umask,
            'session' => [session_status(), session_id(), session_name(), isset($_SESSION)],
            'last error' => error_get_last(),
            'wrappers' => stream_get_wrappers(),
            'filters' => stream_get_filters(),
            'context' => stream_context_get_options(stream_context_get_default()),
            'zone' => date_default_timezone_get(),
            'mb' => [mb_internal_encoding(), mb_substitute_character(), mb_language(), mb_http_output(), mb_detect_order(), mb_regex_encoding(), mb_regex_set_options()],
            'libxml' => extension_loaded('libxml') ? libxml_use_internal_errors() : null,
            'json' => json_last_error(),
            'preg' => preg_last_error(),
            'aborted' => ignore_user_abort(),
            'gc' => gc_enabled(),
            'assert' => ini_get('assert.callback'),
        ];
    }

    private static function directives(): array
    {
        // The time zone is compared separately.
        return array_diff_key(ini_get_all(null, false), ['date.timezone' => 0]);
    }

    public static function check(string $id): void
    {
        $found = self::state();
        // The engine may have set a time limit for the script that runs.
        foreach ($found as $what => $value) {
            if ($value !== self::$expected[$what]) {
                $before = self::$expected[$what];
                if (is_array($value)) {
                    [$value, $before] = [array_diff_assoc(self::flat($value), self::flat($before)), array_diff_assoc(self::flat($before), self::flat($value))];
                }
                self::report($id, "begins with another $what", $before, $value);
            }
        }
        $fresh = [
            'level' => [ob_get_level(), 1],
            'headers' => [array_values(preg_grep('/^X-Powered/i', headers_list(), PREG_GREP_INVERT)), []],
            'status' => [http_response_code(), 200],
            'written' => [ob_get_contents(), ''],
        ];
        foreach ($fresh as $what => [$is, $should]) {
            if ($is !== $should) {
                self::report($id, "begins with $what", $should, $is);
            }
        }
        if (Fiber::getCurrent() !== null) {
            self::report($id, 'begins in a fiber', null, null);
        }
        if (Revolt\EventLoop::$driver !== null) {
            self::report($id, 'begins with the event loop of another request', null, Revolt\EventLoop::$driver);
        }
        self::check_collector($id);
    }

    /** Cycles are collected, generators end, destructors run. */
    public static function check_collector(string $id): void
    {
        $cycle = new stdClass();
        $cycle->self = $cycle;
        unset($cycle);
        if (gc_collect_cycles() < 1) {
            self::report_collector($id);
        }
        $ran = [];
        $generator = (static function () use (&$ran) {
            try {
                yield;
            } finally {
                $ran[] = 'finally';
            }
        })();
        $generator->current();
        unset($generator);
        (new OnDestruct(static function () use (&$ran) { $ran[] = 'destructor'; }));
        if ($ran !== ['finally', 'destructor']) {
            self::report($id, 'finds ends that do not run', ['finally', 'destructor'], $ran);
        }
    }

    /** A bailout out of a collection leaves it unfinished until the tainted worker boots again. */
    public static function report_collector(string $id): void
    {
        $status = gc_status();
        if (!$status['running'] || Svc\Worker::current()->exitReason() !== 'error') {
            self::report($id, 'finds the collector off', null, $status);
        }
    }

    /** Whether a destructor may run these operations: before PHP 8.4 none can switch fibers, and waiting for a lock or a task is that. */
    public static function suits_destructor(array $ops): bool
    {
        return PHP_VERSION_ID >= 80400 || !preg_match('/"(fiber|abandon|suspend|lock|task|tasks|beside|never)"/', json_encode($ops));
    }

    public static function report(string $id, string $what, mixed $expected, mixed $found): void
    {
        self::append("chaos! $id $what: expected " . self::show($expected) . ', found ' . self::show($found));
    }

    private static function append(string $line): void
    {
        file_put_contents(getenv('CHAOS_REPORTS'), "$line\n", FILE_APPEND);
    }

    public static function show(mixed $value): string
    {
        return substr((string) json_encode($value, JSON_PARTIAL_OUTPUT_ON_ERROR | JSON_UNESCAPED_SLASHES), 0, 400);
    }

    private static function flat(array $list): array
    {
        return array_map(static fn ($item) => is_scalar($item) ? (string) $item : json_encode($item), $list);
    }
}

/** Ends a program at one point: the n-th call of `here`, at the beginning of a callback. */
final class Fault
{
    private static ?string $kind = null;
    private static int $left = 0;
    private static ?string $request = null;

    /** For the first task of the request, not for the request. */
    private static ?array $of_task = null;

    /** @param array{kind: string, n: int, in_task?: bool}|null $fault */
    public static function arm(?array $fault): void
    {
        self::$of_task = null;
        if ($fault['in_task'] ?? false) {
            [self::$of_task, $fault] = [['in_task' => false] + $fault, null];
        }
        [self::$kind, self::$left, self::$request] = [$fault['kind'] ?? null, $fault['n'] ?? 0, svc_request_id()];
        if (function_exists('faults_disarm')) {
            faults_disarm();
        }
    }

    /** The fault of the next task. Only the first task gets it: a second end would hit another request. */
    public static function of_task(): ?array
    {
        if (self::$request !== svc_request_id()) {
            return null;
        }
        [$fault, self::$of_task] = [self::$of_task, null];
        return $fault;
    }

    /** Allocations count from here on. */
    public static function mark(): void
    {
        if (self::$kind === 'allocation') {
            self::$kind = null;
            faults_arm(self::$left, getenv('CHAOS_FOLDER') . '/fired');
        }
    }

    public static function unmark(): void
    {
        if (function_exists('faults_disarm')) {
            faults_disarm();
        }
    }

    public static function here(): void
    {
        if (self::$kind === null || self::$kind === 'allocation') {
            return;
        }
        // Only its own callbacks, and those that run without a current request.
        $request = svc_request_id();
        if (($request !== '' && $request !== null && $request !== self::$request) || --self::$left > 0) {
            return;
        }
        [$kind, self::$kind] = [self::$kind, null];
        file_put_contents(getenv('CHAOS_FOLDER') . '/fired', (new Exception())->getTraceAsString());
        match ($kind) {
            'throw' => throw new DomainException('injected'),
            'fatal' => str_repeat('x', PHP_INT_MAX >> 4),
            'compile' => eval('function strlen() {}'),
            'exit' => exit,
            'park' => Svc\sleep(0.003),
            'suspend' => self::suspend(),
        };
    }

    private static function suspend(): void
    {
        try {
            Fiber::suspend();
        } catch (Error) {
            // The request does not run in a fiber.
        }
    }
}

/** Calls a closure when it is destroyed. */
final class OnDestruct
{
    public ?object $self = null;
    private bool $is_in_time = false;

    public function __construct(private Closure $last) {}
    public function ends_in_time(): void { $this->is_in_time = true; }

    public function __destruct()
    {
        Fault::here();
        ($this->last)($this->is_in_time);
    }
}

/** An object that a request leaves in its event loop: its destructor runs at the end of the request. */
final class LoopDriver
{
    public function __construct(public string $id, private string $kind) {}

    public function __destruct()
    {
        Fault::here();
        match ($this->kind) {
            'quiet' => null,
            'park' => Svc\sleep(0.001),
            'throw' => throw new LogicException('a loop_driver of ' . $this->id),
            'fatal' => str_repeat('x', PHP_INT_MAX >> 4),
            // In classic mode, it is destructed before the response is complete.
            'print' => getenv('WORKER_MODE_ENABLED') === 'true' && print "printed by the loop_driver of $this->id",
        };
    }
}
