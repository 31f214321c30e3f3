<?php
/** Operations that leave objects behind or misuse them. Their results are never printed. */
trait Leftovers
{
    private function do_leave(string $call, string $fate): void
    {
        self::attempt(static fn () => Leftover::end_oldest($fate));
        if (!isset($this->own['target']) && in_array($call, ['curl', 'multi'], true)) {
            // The thread of a task has no end of request that would close its open things.
            return;
        }
        $fiber = new Fiber(Leftover::{"in_$call"}(...));
        self::attempt(static fn () => $fiber->start());
        Leftover::$fibers[] = $fiber;
        $this->check("leave $call");
    }

    /** Like a PSR-7 request, which its application may refer to in a cycle. */
    private function do_body(string $how): void
    {
        $kept = new stdClass();
        $kept->self = $how === 'cycle' ? $kept : null;
        $kept->stream = fopen('php://input', 'r');
        if ($how === 'keep') {
            Leftover::$bodies[] = $kept;
        } elseif ($how !== 'cycle' && Leftover::$bodies !== []) {
            $earlier = array_shift(Leftover::$bodies)->stream;
            self::attempt(static fn () => $how === 'read' ? stream_get_contents($earlier, -1, 0) : fclose($earlier));
        }
        Leftover::$bodies = array_slice(Leftover::$bodies, -5);
        $this->check("body $how");
    }

    /** Creates an object of each class of the server without its constructor. */
    private function do_unmade(string $how): void
    {
        foreach (get_declared_classes() as $class) {
            if (!str_starts_with($class, 'Svc\\')) {
                continue;
            }
            $object = self::attempt(static fn () => match ($how) {
                'fetch' => (new PDO('sqlite::memory:'))->query('select 7 as id')->fetchObject($class),
                'unserialize' => unserialize('O:' . strlen($class) . ":\"$class\":0:{}"),
                'reflect' => (new ReflectionClass($class))->newInstanceWithoutConstructor(),
                'clone' => clone (new PDO('sqlite::memory:'))->query('select 7 as id')->fetchObject($class),
            });
            if (!$object instanceof $class) {
                continue;
            }
            foreach ([print_r(...), serialize(...), json_encode(...), count(...), iterator_to_array(...)] as $function) {
                self::attempt(static fn () => $function($object, true));
            }
            foreach ((new ReflectionClass($class))->getMethods(ReflectionMethod::IS_PUBLIC) as $method) {
                if (!$method->isStatic()) {
                    $arguments = array_map(self::argument(...), $method->getParameters());
                    self::attempt(static fn () => $method->invokeArgs($object, $arguments));
                }
            }
        }
        $this->check("unmade $how");
    }

    /** An instance per request of a class of PHP or an extension, passed to functions that inspect objects. */
    private function do_each(string $how, int $number): void
    {
        $classes = array_values(array_filter(
            [...get_declared_classes(), ...get_declared_interfaces()],
            static fn ($class) => (new ReflectionClass($class))->isInternal() && !str_starts_with($class, 'Svc\\'),
        ));
        $class = $classes[$number % count($classes)];
        $object = self::attempt(static fn () => Leftover::$each["$class $how"] ??= Svc\per_request($class, static fn () => match ($how) {
            'made' => new $class(),
            'unmade' => (new ReflectionClass($class))->newInstanceWithoutConstructor(),
            'throws' => throw new DomainException('no instance'),
        }));
        if ($object instanceof $class) {
            foreach ([print_r(...), serialize(...), json_encode(...), count(...), iterator_to_array(...), get_object_vars(...)] as $function) {
                self::attempt(static fn () => $function($object, true));
            }
            self::attempt(static fn () => [$object == clone $object, $object < $object, (array) $object, isset($object->x), $object[0] ?? null]);
            self::attempt(static fn () => new IteratorIterator($object));
        }
        $this->check("each $how");
    }

    private static function argument(ReflectionParameter $parameter): mixed
    {
        $type = (string) $parameter->getType();
        return match (true) {
            $parameter->isDefaultValueAvailable() => $parameter->getDefaultValue(),
            str_contains($type, 'array') => [],
            str_contains($type, 'int'), str_contains($type, 'float') => 0,
            str_contains($type, 'string') => 'internal',
            str_contains($type, 'Throwable') => new Exception('given'),
            default => null,
        };
    }

    /** A file that several requests read and truncate at the same time. */
    private function do_cut(string $how): void
    {
        $file = getenv('CHAOS_FOLDER') . '/cut';
        self::attempt(fn () => match ($how) {
            'write' => file_put_contents($file, '<?php /*' . str_repeat('x', mt_rand_apart(0, 6_000_000)) . '*/'),
            'readfile' => self::discard_output(static fn () => readfile($file)),
            'copy' => copy($file, "$file-$this->id") && unlink("$file-$this->id"),
            'fpassthru' => self::discard_output(static fn () => ($stream = fopen($file, 'r')) && fpassthru($stream)),
            'highlight' => self::discard_output(static fn () => highlight_file($file)),
        });
        $this->check("cut $how");
    }

    private static function discard_output(Closure $call): void
    {
        ob_start(static fn () => '');
        try {
            $call();
        } finally {
            ob_end_clean();
        }
    }

    private function do_circle(string $where): void
    {
        self::attempt(static fn () => match ($where) {
            'task' => Svc\async(Leftover::throw_circle(...))->await(),
            'text' => strlen((string) Leftover::circle()),
            'handler' => Leftover::circle()->getTraceAsString() . Leftover::circle()->getPrevious()->getPrevious()->getMessage(),
        });
        $this->check("circle $where");
    }

    /** Ignores the result and the warnings. */
    private static function attempt(Closure $call): mixed
    {
        set_error_handler(static fn () => true);
        try {
            return $call();
        } catch (Svc\Async\CancelledException $cancelled) {
            throw $cancelled;
        } catch (Throwable) {
            return null;
        } finally {
            restore_error_handler();
        }
    }
}

/** Leaves the program's own sequence of random numbers alone. */
function mt_rand_apart(int $from, int $to): int
{
    return $from + hrtime(true) % ($to - $from + 1);
}

final class Serialized
{
    public function __serialize(): array
    {
        Leftover::suspend();
        return [];
    }
}

/** Objects that outlive the requests that left them, per thread. */
final class Leftover
{
    /** Suspended, the oldest first. @var list<Fiber> */
    public static array $fibers = [];
    /** @var list<stdClass> */
    public static array $bodies = [];
    /** Results of Svc\per_request(), by class. @var array<string, object> */
    public static array $each = [];

    public static function register(): void
    {
        stream_wrapper_register('left', LeftoverStream::class);
        stream_filter_register('left', LeftoverFilter::class);
    }

    public static function end_oldest(string $fate): void
    {
        if ($fate === 'stay' && count(self::$fibers) < 6 || self::$fibers === []) {
            return;
        }
        $fiber = array_shift(self::$fibers);
        try {
            if ($fate === 'cycle') {
                $cycle = new stdClass();
                $cycle->both = [$cycle, $fiber];
            } elseif ($fiber->isSuspended() && $fate === 'resume') {
                $fiber->resume('1');
            } elseif ($fiber->isSuspended() && $fate === 'throw') {
                $fiber->throw(new DomainException('into a fiber'));
            }
            // The fiber is destroyed here.
            unset($fiber);
        } catch (Svc\Async\CancelledException $cancelled) {
            throw $cancelled;
        } catch (Throwable) {
        }
    }

    public static function suspend(): string
    {
        return (string) Fiber::suspend();
    }

    public static function in_filter(): void
    {
        $stream = fopen('php://temp', 'w+');
        stream_filter_append($stream, 'left', STREAM_FILTER_WRITE);
        fwrite($stream, 'text');
    }

    public static function in_wrapper(): void
    {
        file_get_contents('left://x');
    }

    private static function database(): PDO
    {
        $database = new PDO('sqlite::memory:');
        ($database->sqliteCreateFunction(...))('left', self::suspend(...));
        ($database->sqliteCreateCollation(...))('left', static fn ($a, $b) => strcmp($a, $b . self::suspend()));
        return $database;
    }

    public static function in_sqlite(): void
    {
        self::database()->query('select left() union all select left()')->fetchAll();
    }

    public static function in_collate(): void
    {
        self::database()->query("select x from (select 'b' as x union all select 'a') order by x collate left")->fetchAll();
    }

    public static function in_fetch(): void
    {
        (new PDO('sqlite::memory:'))->query('select 1 union all select 2')->fetchAll(PDO::FETCH_FUNC, self::suspend(...));
    }

    private static function transfer(): CurlHandle
    {
        $curl = curl_init('file://' . __FILE__);
        curl_setopt($curl, CURLOPT_WRITEFUNCTION, static function ($curl, string $data): int { self::suspend(); return strlen($data); });
        return $curl;
    }

    public static function in_curl(): void
    {
        curl_exec(self::transfer());
    }

    public static function in_multi(): void
    {
        $multi = curl_multi_init();
        curl_multi_add_handle($multi, self::transfer());
        do {
            curl_multi_exec($multi, $running);
        } while ($running > 0);
    }

    public static function in_replace(): void
    {
        preg_replace_callback('/x/', self::suspend(...), 'xxx');
    }

    public static function in_sort(): void
    {
        $list = [3, 1, 2];
        usort($list, self::suspend(...));
    }

    public static function in_ereg(): void
    {
        mb_ereg_replace_callback('x', self::suspend(...), 'xxx');
    }

    public static function in_serialize(): void
    {
        serialize([new Serialized()]);
    }

    public static function in_load(): void
    {
        $load = static function (string $class): void { str_starts_with($class, 'Missing\\') && Leftover::suspend(); };
        spl_autoload_register($load);
        try {
            class_exists('Missing\\C' . random_int(0, 1 << 40));
        } finally {
            spl_autoload_unregister($load);
        }
    }

    public static function in_generator(): void
    {
        $generator = (static function () { try { yield self::suspend(); yield 2; } finally { strlen('x'); } })();
        foreach ($generator as $_) {
        }
    }

    public static function circle(): Exception
    {
        $inner = new Exception('inner');
        $outer = new RuntimeException('outer', 0, $inner);
        (new ReflectionProperty(Exception::class, 'previous'))->setValue($inner, $outer);
        return $outer;
    }

    public static function throw_circle(): never
    {
        throw self::circle();
    }
}

final class LeftoverFilter extends php_user_filter
{
    public function filter($in, $out, &$consumed, bool $closing): int
    {
        while ($bucket = stream_bucket_make_writeable($in)) {
            Fiber::getCurrent() === null || Leftover::suspend();
            $consumed += $bucket->datalen;
            stream_bucket_append($out, $bucket);
        }
        return PSFS_PASS_ON;
    }
}

final class LeftoverStream
{
    public mixed $context = null;
    private int $reads = 0;

    public function stream_open(): bool { return true; }
    public function stream_read(int $count): string { Leftover::suspend(); return $this->reads++ ? '' : 'text'; }
    public function stream_eof(): bool { return $this->reads > 1; }
    public function stream_stat(): array { return []; }
    public function stream_close(): void {}
}
