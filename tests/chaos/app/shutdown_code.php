<?php
/** Operations that leave objects open. Closing them at the end of the request, or of its thread, runs code of the script. */
trait ShutdownOperations
{
    private function do_last(string $place, string $keeper, array $ops, string $end): void
    {
        $request = svc_request_id();
        $is_due = true;
        $is_cycle = !in_array($place, ['buffer', 'session'], true) && in_array($keeper, ['cycle', 'lost'], true);
        $run = function (bool $is_certain) use ($request, $ops, $end, $is_cycle, &$is_due): void {
            Fault::here();
            // A collector may free it in the middle of its own request or of another one.
            $now = (string) svc_request_id();
            $is_at_end = $now === $request && ob_get_level() === 0 && $this->in_buffer === 0;
            if ($is_due && ($is_certain || $now === '' || $is_at_end)) {
                $is_due = false;
                $this->is_over = true;
                $this->fibers[] = false;
                $this->run($ops);
                // The model does not know which cycles a worker collects before the end of their request.
                $this->end_by($is_cycle && $now !== '' && !ShutdownCode::$is_classic ? 'quiet' : $end);
            }
        };
        match ($place) {
            'buffer' => $this->leave_buffer($run),
            'session' => $this->leave_session($run),
            default => ShutdownCode::keep($keeper, static fn (bool $is_certain) => ShutdownCode::make($place, static fn () => $run($is_certain))),
        };
        $this->check("last $place");
    }

    private function leave_buffer(Closure $run): void
    {
        ob_start(function (string $text, int $phase) use ($run): string {
            if ($phase & PHP_OUTPUT_HANDLER_FINAL) {
                $this->in_buffer++;
                $run(true);
            }
            return $text;
        });
        $this->texts[] = '';
    }

    private function leave_session(Closure $run): void
    {
        if (headers_sent()) {
            return;
        }
        if (session_status() === PHP_SESSION_ACTIVE) {
            session_write_close();
        }
        $this->has_own_sessions = true;
        $this->in_handler++;
        try {
            session_set_save_handler(new ShutdownSession($run), false);
            session_id("last-$this->id");
            $this->own['session id'] = [static fn () => session_id(), "last-$this->id"];
            session_start();
        } finally {
            $this->in_handler--;
        }
        $_SESSION = ['who' => $this->id];
        $this->own['session'][1] = $_SESSION;
    }

    private function end_by(string $end): void
    {
        match ($end) {
            'quiet' => null,
            'echo' => print 'L',
            'header' => self::attempt(fn () => header("X-Chaos-9: $this->id")),
            'exit' => exit,
            'throw' => throw new Exception('thrown'),
            'memory' => $this->do_fatal('memory'),
            'grow' => ShutdownCode::grow(),
            'limit' => $this->do_limit(),
            'suspend' => self::attempt(static fn () => Fiber::suspend()),
            'sleep' => Svc\sleep(0.001),
            'task' => self::attempt(static fn () => Svc\async(static fn () => 1)->await()),
            'leave' => self::attempt(static fn () => Svc\async(static fn () => 1)),
            'http' => $this->do_http('own'),
            'closed' => $this->do_http('closed'),
            'open' => self::attempt(static fn () => ShutdownCode::open_more()),
        };
    }

    /** A request to the server itself, which may have no free thread, or to a closed port. */
    private function do_http(string $to): void
    {
        $port = $to === 'own' ? (int) @file_get_contents(getenv('CHAOS_FOLDER') . '/port') : 1;
        $context = stream_context_create(['http' => ['timeout' => 0.02, 'ignore_errors' => true]]);
        self::attempt(static fn () => file_get_contents("http://127.0.0.1:$port/chaos?id=none", false, $context));
        $this->check("http $to");
    }

    private function do_regex(string $name): void
    {
        mb_regex_encoding($name);
        $this->own['mb regex'] = [static fn () => mb_regex_encoding(), $name];
    }

    /** An interim response, or the head of the response at once. */
    private function do_hint(int $status): void
    {
        if ($status >= 200 && !headers_sent()) {
            $this->own['status'] = [static fn () => self::status($status), $status];
        }
        headers_send($status);
        $this->check("hint $status");
    }
}

/** Objects whose end runs code of the script, and the references that keep them until then. */
final class ShutdownCode
{
    public static bool $is_classic = false;
    /** More objects would only repeat the same work at the end of the thread. */
    private const HELD_MAX = 12;
    private static array $held = [];
    /** Fibers that end with their requests. @var list<Fiber> */
    private static array $calls = [];
    private static array $more = [];

    public static function register(): void
    {
        stream_wrapper_register('last', ShutdownStream::class);
        stream_filter_register('last', ShutdownFilter::class);
    }

    public static function keep(string $keeper, Closure $make): void
    {
        if ($keeper === 'call') {
            self::$calls = array_filter(self::$calls, static fn ($fiber) => !$fiber->isTerminated());
            self::$calls[] = self::fiber($make, true, self::sort(...));
        } elseif ($keeper === 'cycle' || $keeper === 'lost') {
            $cycle = new stdClass();
            $cycle->both = [$cycle, $keeper === 'cycle' ? $make(false) : self::fiber($make, false, Fiber::suspend(...))];
        } elseif (count(self::$held) < self::HELD_MAX) {
            self::$held[] = $keeper === 'static' ? $make(true) : self::fiber($make, true, Fiber::suspend(...));
        }
    }

    private static function fiber(Closure $make, bool $is_certain, Closure $wait): Fiber
    {
        $fiber = new Fiber(static function () use ($make, $is_certain, $wait): void {
            $thing = $make($is_certain);
            try {
                $wait();
            } finally {
                // PHP calls no wrapper while the exception that ends a fiber is on its way.
                unset($thing);
            }
        });
        $fiber->start();
        return $fiber;
    }

    /** PHP calls the comparison: such a fiber ends with its request. */
    private static function sort(): void
    {
        $list = [2, 1];
        usort($list, static fn () => Fiber::suspend() ?? 0);
    }

    public static function make(string $place, Closure $run): mixed
    {
        $context = stream_context_create(['last' => ['run' => $run]]);
        switch ($place) {
            case 'close':
            case 'flush':
                $stream = fopen("last://$place", 'w', false, $context);
                fwrite($stream, 'x');
                return $stream;
            case 'directory':
                $directory = opendir("last://$place", $context);
                // PHP refers to the directory that was opened last.
                closedir(opendir('last://other', $context));
                return $directory;
            case 'filter':
            case 'closing':
                $stream = fopen('php://temp', 'w+');
                stream_filter_append($stream, 'last', STREAM_FILTER_WRITE, [$place, $run]);
                fwrite($stream, 'x');
                return $stream;
            case 'destructor':
                return new OnDestruct(static fn () => $run());
            case 'generator':
                $generator = (static function () use ($run) { try { yield; } finally { $run(); } })();
                $generator->current();
                return $generator;
        }
    }

    /** Closing a stream opens another one, again and again. */
    public static function open_more(): void
    {
        if (count(self::$more) < self::HELD_MAX) {
            self::$more[] = self::make('filter', static fn () => self::open_more());
        }
    }

    public static function grow(): void
    {
        ini_set('memory_limit', (string) (memory_get_usage(true) + 4_000_000));
        for ($list = [];;) {
            $list[] = str_repeat('x', 100_000);
        }
    }
}

final class ShutdownStream
{
    public mixed $context = null;
    private ?Closure $run = null;
    private string $place = '';

    private function open(string $path): bool
    {
        $this->run = stream_context_get_options($this->context)['last']['run'];
        $this->place = parse_url($path, PHP_URL_HOST);
        return true;
    }

    private function at(string $place): void
    {
        if ($this->place === $place) {
            ($this->run)();
        }
    }

    public function stream_open(string $path): bool { return $this->open($path); }
    public function stream_write(string $data): int { return strlen($data); }
    public function stream_flush(): bool { $this->at('flush'); return true; }
    public function stream_close(): void { $this->at('close'); }
    public function dir_opendir(string $path): bool { return $this->open($path); }
    public function dir_readdir(): bool { return false; }
    public function dir_closedir(): bool { $this->at('directory'); return true; }
}

final class ShutdownFilter extends php_user_filter
{
    public function filter($in, $out, &$consumed, bool $closing): int
    {
        while ($bucket = stream_bucket_make_writeable($in)) {
            $consumed += $bucket->datalen;
            stream_bucket_append($out, $bucket);
        }
        if ($closing) {
            $this->at('closing');
        }
        return PSFS_PASS_ON;
    }

    public function onClose(): void
    {
        $this->at('filter');
    }

    private function at(string $place): void
    {
        if ($this->params[0] === $place) {
            ($this->params[1])();
        }
    }
}

/** A session that is written at the end of its request. */
final class ShutdownSession implements SessionHandlerInterface
{
    public function __construct(private Closure $run) {}

    public function open(string $path, string $name): bool { return true; }
    public function close(): bool { return true; }
    public function read(string $id): string { return ''; }
    public function write(string $id, string $data): bool { ($this->run)(false); return true; }
    public function destroy(string $id): bool { return true; }
    public function gc(int $age): int { return 1; }
}
