<?php
/** Operations that run part of the program inside a callback of the engine or of a library. */
trait Calls
{
    private function do_call(string $kind, array $ops): void
    {
        $left = 1;
        $run = function () use ($ops, &$left): void {
            if ($left-- > 0) {
                $this->run($ops);
            }
        };
        match ($kind) {
            'usort' => $this->sort($run),
            'map' => array_map($run, [1, 2]),
            'walk' => array_walk_recursive(...[[[1], [2]], $run]),
            'replace' => preg_replace_callback('/a(.)/', static function () use ($run) { $run(); return ''; }, 'ab ac'),
            'large' => preg_replace_callback('/' . str_repeat('(a)?', 40) . 'b/', static function () use ($run) { $run(); return ''; }, 'ab'),
            'iterate' => iterator_to_array(new CallbackFilterIterator(new ArrayIterator([1, 2]), static function () use ($run) { $run(); return true; })),
            'reflect' => (new ReflectionFunction($run))->invoke(),
            'json' => json_encode([new Subject($run), new Subject($run)]),
            'serialize' => unserialize(serialize([new Subject($run)])),
            'wakeup' => unserialize(self::sleeping($run)),
            'string' => (string) new Subject($run),
            'offset' => (new Subject($run))['x'],
            'get' => (new Subject($run))->x,
            'count' => count(new Subject($run)),
            'clone' => clone new Subject($run),
            'include' => Included::run($run),
            'eval' => eval('$run();'),
            'autoload' => $this->autoload($run),
            'dynamic' => $this->{'missing_' . $this->id}($run),
            'gc' => $this->collect($run, Baseline::suits_destructor($ops)),
            'generator' => iterator_to_array((static function () use ($run) { yield from (static function () use ($run) { $run(); yield 1; })(); })(), false),
            'tick' => ticking($run),
            'xml' => self::parse($run),
            'sqlite' => self::select($run),
            'curl' => self::transfer($run),
            'filter' => filter_var('x', FILTER_CALLBACK, ['options' => static function (string $x) use ($run) { $run(); return $x; }]),
            'input' => array_filter([1], static function () use ($run) { $run(); return true; }),
            'assert' => $run(),
        };
        $this->check("call of $kind");
    }

    public function __call(string $name, array $arguments): void
    {
        $arguments[0]();
    }

    private function sort(Closure $run): void
    {
        $list = [3, 1, 2];
        usort($list, static function (int $a, int $b) use ($run) { $run(); return $a <=> $b; });
        if ($list !== [1, 2, 3]) {
            Baseline::report($this->id, 'sorts', [1, 2, 3], $list);
        }
    }

    private static function sleeping(Closure $run): string
    {
        Subject::$awaited = $run;
        return 'O:7:"Subject":0:{}';
    }

    private function autoload(Closure $run): void
    {
        $name = "Missing_{$this->id}_" . ++$this->uses;
        Baseline::$autoloads[$name] = $run;
        try {
            class_exists($name);
        } finally {
            unset(Baseline::$autoloads[$name]);
        }
    }

    /** In a destructor that the collector calls, another request may be current: it prints nothing. */
    private function collect(Closure $run, bool $suits): void
    {
        $is_due = true;
        $once = static function () use ($run, &$is_due) {
            if ($is_due) {
                $is_due = false;
                $run();
            }
        };
        if ($suits) {
            $cycle = new OnDestruct($once);
            $cycle->self = $cycle;
            unset($cycle);
        }
        // PHP may call destructors in a separate fiber.
        $this->fibers[] = false;
        gc_collect_cycles();
        if (!$suits) {
            $once();
        }
        array_pop($this->fibers);
        if (gc_status()['running']) {
            // A bailout has aborted the worker's last collection: there will be no other one.
            $once();
        }
    }

    private static function parse(Closure $run): void
    {
        if (!function_exists('xml_parser_create')) {
            $run();
            return;
        }
        $parser = xml_parser_create();
        xml_set_element_handler($parser, static function () use ($run) { $run(); }, null);
        xml_parse($parser, '<a><b/></a>', true);
    }

    private static function select(Closure $run): void
    {
        if (!class_exists('PDO', false) || !in_array('sqlite', PDO::getAvailableDrivers(), true)) {
            $run();
            return;
        }
        $function = static function () use ($run) { $run(); return 1; };
        // Since PHP 8.4 each driver has a class; since 8.5 the old name is deprecated.
        if (class_exists('Pdo\\Sqlite', false)) {
            $database = new Pdo\Sqlite('sqlite::memory:');
            $database->createFunction('f', $function);
        } else {
            $database = new PDO('sqlite::memory:');
            $database->sqliteCreateFunction('f', $function);
        }
        $database->query('SELECT f()')->fetchAll();
    }

    private static function transfer(Closure $run): void
    {
        if (!function_exists('curl_init')) {
            $run();
            return;
        }
        $handle = curl_init('file://' . __FILE__);
        curl_setopt($handle, CURLOPT_WRITEFUNCTION, static function ($_, string $part) use ($run) { $run(); return strlen($part); });
        curl_exec($handle);
    }

    private function do_deep(string $kind, int $depth): void
    {
        $top = null;
        for ($i = 0; $i < $depth; $i++) {
            $top = match ($kind) {
                'array' => [$top],
                'object' => (object) ['below' => $top],
                'closure' => static fn () => $top,
                'exception' => new Exception('deep', 0, $top),
                'generator' => self::around($top),
            };
        }
        unset($top);
        $this->check("deep $kind");
    }

    private static function around(?Generator $inner): Generator
    {
        $generator = (static function () use ($inner) { yield 1; return $inner; })();
        $generator->current();
        return $generator;
    }

    /** Uses the stack up to its limit, which throws an exception. */
    private function do_recurse(string $kind): void
    {
        $level = 0;
        $again = static function () use (&$again, &$level, $kind): void {
            $level++;
            match ($kind) {
                'map' => array_map($again, [1]),
                'json' => json_encode(new Subject($again)),
                'serialize' => serialize(new Subject($again)),
                'destruct' => (static function () use ($again) { new OnDestruct($again); })(),
            };
        };
        try {
            $again();
            Baseline::report($this->id, 'has no limit of its stack', null, $level);
        } catch (Error $error) {
            $this->say('R');
        }
        $this->check("recurse $kind");
    }

    private function do_cycles(int $count): void
    {
        for ($i = 0; $i < $count; $i++) {
            $cycle = new stdClass();
            $cycle->self = [$cycle];
        }
        unset($cycle);
        if (gc_collect_cycles() < 1 && end($this->fibers) !== false && !$this->is_over) {
            Baseline::report_collector($this->id);
        }
        $this->check('cycles');
    }
}

/** Runs operations when the engine calls one of its methods. */
final class Subject implements JsonSerializable, ArrayAccess, Countable
{
    public static ?Closure $awaited = null;

    public function __construct(private ?Closure $run = null) {}

    public function jsonSerialize(): mixed { ($this->run)(); return 1; }
    public function __serialize(): array { ($this->run)(); return []; }
    public function __unserialize(array $data): void
    {
        [$run, self::$awaited] = [self::$awaited, null];
        if ($run !== null) { $run(); }
    }
    public function __toString(): string { ($this->run)(); return 's'; }
    public function __get(string $name): int { ($this->run)(); return 1; }
    public function __clone() { ($this->run)(); }
    public function count(): int { ($this->run)(); return 1; }
    public function offsetExists(mixed $at): bool { return true; }
    public function offsetGet(mixed $at): mixed { ($this->run)(); return 1; }
    public function offsetSet(mixed $at, mixed $value): void {}
    public function offsetUnset(mixed $at): void {}
}

/** Passes a closure to a file that calls it. */
final class Included
{
    public static function run(Closure $run): void
    {
        include __DIR__ . '/included.php';
    }
}

declare(ticks=1) {
    function ticking(Closure $run): void
    {
        register_tick_function($run);
        try {
            $x = 1;
            $x++;
        } finally {
            unregister_tick_function($run);
        }
    }
}
