<?php
// The kinds of code and values of tasks. Each method dispatches one kind of task, awaits it, and returns the actual result
// and the expected one.
use Svc\Async;
use function Svc\{async, await_all, await_any, await_race};

enum Suit: string
{
    case Hearts = 'H';
    case Spades = 'S';
    const Wild = self::Spades;

    public function other(): self { return $this === self::Hearts ? self::Spades : self::Hearts; }
    public static function first(): self { return self::cases()[0]; }
}

class Box
{
    public ?Box $next = null;
    public mixed $held = null;

    public function __construct(public readonly int $n = 0) {}
    public static function made(int $n): static { return new static($n); }
    public static function scaler(int $by): Closure { return static fn (self $box): self => new self($box->n * $by); }
    public static function counter(): Closure { return static function (): int { static $calls = 0; return ++$calls; }; }
}

final class Crate extends Box {}

#[Attribute(Attribute::TARGET_FUNCTION)]
final class Own {}

final class Packed
{
    public function __construct(private array $data) {}
    public function __serialize(): array { return ['d' => $this->data]; }
    public function __unserialize(array $data): void { $this->data = $data['d']; }
    public function sum(): int { return array_sum($this->data); }
}

final class Sleeper
{
    public int $kept = 1;
    public int $lost = 2;
    public array $log = [];

    public function __sleep(): array { return ['kept', 'log']; }
    public function __wakeup(): void { $this->log[] = 'woke'; }
}

final class Told extends RuntimeException
{
    public function __construct(string $message, public array $data = [], ?Throwable $previous = null)
    {
        parent::__construct($message, 7, $previous);
    }
}

final class Holding extends Exception
{
    public Closure $closure;
}

trait Adds
{
    public static function add(int $a, int $b = 10): int { static $calls = 0; return $a + $b + $calls++; }
}

final class Adder { use Adds; }

function doubled(int $n): int { return 2 * $n; }
function counted(int $n): int { static $seen = []; $seen[] = $n; return count($seen); }
function first_of(iterable $list): mixed { foreach ($list as $item) { return $item; } }
/** The exception, as text. */
function failure(callable $call): string
{
    try {
        return 'returned ' . json_encode($call());
    } catch (Async\Exception $thrown) {
        $what = $thrown::class . ': ' . $thrown->getMessage();
        for ($cause = $thrown->getPrevious(); $cause !== null; $cause = $cause->getPrevious()) {
            $what .= ' < ' . $cause::class . '(' . $cause->getCode() . ')';
        }
        return str_replace('Svc\\Async\\', '', $what);
    }
}
function doomed(string $kind): string
{
    return failure(static fn () => async(static function () use ($kind) {
        match ($kind) {
            'exit' => exit(3),
            'error' => intdiv(1, 0),
            'type' => doubled('x'),
            'chain' => throw new Told('outer', [Suit::Hearts], new LogicException('middle', 2, new ErrorException('inner', 3))),
            'closure' => (static function () { $thrown = new Holding('holds'); $thrown->closure = static fn () => 1; throw $thrown; })(),
            'resource' => fopen('php://memory', 'r'),
        };
        return match ($kind) { 'resource' => fopen('php://memory', 'r'), default => 'unharmed' };
    })->await());
}

final class Shapes
{
    // Closures and their captured variables.
    public static function plain(int $i): array { return [async(static fn (int $n): int => $n + 1, $i)->await(), $i + 1]; }
    public static function arrow(int $i): array { return [async(fn () => $i * 3)->await(), $i * 3]; }
    public static function captured(int $i): array { $k = ['deep' => [1.5, [$i, "text $i"]]]; return [async(static function () use ($k, $i) { $k['deep'][1][0]++; return [$k, $i]; })->await(), [['deep' => [1.5, [$i + 1, "text $i"]]], $i]]; }
    public static function captured_object(int $i): array { $box = new Box($i); return [async(static fn () => $box->n)->await(), $i]; }
    public static function captured_enum(int $i): array { $suit = Suit::Hearts; return [async(static fn () => $suit->other())->await(), Suit::Spades]; }
    public static function captured_null(int $i): array { $none = null; return [async(static fn () => [$none, isset($none)])->await(), [null, false]]; }
    public static function no_statement(int $i): array { return [async(static function () {})->await(), null]; }
    public static function long_body(int $i): array { return [async(static function (int $n) { $sum = 0; for ($x = 0; $x < $n; $x++) { if ($x % 3 === 0) { continue; } $sum += $x; while ($sum > 1000) { $sum -= 7; } } do { $sum++; } while ($sum % 5); return $sum % 5; }, $i % 50)->await(), 0]; }
    public static function statics(int $i): array { $task = static function (int $n): array { static $calls = 0, $list = ['a' => [1, 2]], $late; $late ??= $n; return [++$calls, count($list, COUNT_RECURSIVE), $late]; }; return [[async($task, $i)->await(), async($task, $i + 1)->await()], [[1, 3, $i], [1, 3, $i + 1]]]; }
    public static function static_of_method(int $i): array { return [async(Box::counter())->await(), 1]; }
    public static function scope(int $i): array { return [async(Box::scaler(3), new Box($i))->await()->n, 3 * $i]; }
    public static function nested(int $i): array { return [async(static function (array $list) { $by = 2; $twice = fn ($x) => $by * $x; $all = function ($list) use ($twice) { return array_map(static fn ($x) => $twice($x), $list); }; return $all($list); }, [$i, 1])->await(), [2 * $i, 2]]; }
    public static function nested_static(int $i): array { return [async(static function () { $count = static function () { static $n = 10; return $n++; }; return [$count(), $count()]; })->await(), [10, 11]]; }
    public static function returns_of_closure(int $i): array { return [async(static fn () => (static fn () => (static fn () => 'inmost')())())->await(), 'inmost']; }
    public static function references_inside(int $i): array { return [async(static function (array $list) { foreach ($list as &$item) { $item++; } unset($item); $add = function () use (&$list) { $list[] = 9; }; $add(); return $list; }, [1, $i])->await(), [2, $i + 1, 9]]; }
    public static function compact_and_extract(int $i): array { return [async(static function (array $of) { extract($of); $b = $a + 1; return compact('a', 'b'); }, ['a' => $i])->await(), ['a' => $i, 'b' => $i + 1]]; }
    public static function attributes(int $i): array { return [async(#[Own] static fn (#[SensitiveParameter] int $n): int => $n, $i)->await(), $i]; }

    // Callables.
    public static function named(int $i): array { return [async(doubled(...), $i)->await(), 2 * $i]; }
    public static function named_statics(int $i): array { return [[async(counted(...), $i)->await(), async(counted(...), $i)->await()], [1, 1]]; }
    public static function internal(int $i): array { return [async(strrev(...), "ab$i")->await(), strrev("ab$i")]; }
    public static function internal_callback(int $i): array { return [async(static fn () => usort($GLOBALS['list'], fn ($a, $b) => $a <=> $b) && $GLOBALS['list'] === [1, 2, 3])->await(), true]; }
    public static function static_method(int $i): array { return [async(Box::made(...), $i)->await()->n, $i]; }
    public static function late_static(int $i): array { return [async(Crate::made(...), $i)->await()::class, Crate::class]; }
    public static function of_trait(int $i): array { return [[async(Adder::add(...), $i)->await(), async(Adder::add(...), $i)->await()], [$i + 10, $i + 10]]; }
    public static function of_enum(int $i): array { return [async(Suit::first(...))->await(), Suit::Hearts]; }
    public static function of_internal_class(int $i): array { return [async(DateTimeImmutable::createFromFormat(...), '!Y-m-d', '2024-02-29')->await(), new DateTimeImmutable('2024-02-29')]; }
    public static function variable(int $i): array { $made = static fn (int $n) => -$n; return [async($made(...), $i)->await(), -$i]; }
    public static function from_name(int $i): array { return [async(Closure::fromCallable('doubled'), $i)->await(), 2 * $i]; }

    // Parameters.
    public static function variadic(int $i): array { return [async(static fn (int ...$all) => array_sum($all), 1, 2, $i)->await(), 3 + $i]; }
    public static function defaults(int $i): array { return [async(static fn (int $a, ?Box $b = new Box(4), string $c = PHP_EOL . 'x', Suit $d = Suit::Wild) => [$a, $b->n, $c, $d], $i)->await(), [$i, 4, "\nx", Suit::Spades]]; }
    public static function unions(int $i): array { return [async(static fn (int|string|null $a, (Countable&Traversable)|array $b): int|float => $a + count($b), $i, new ArrayObject([1]))->await(), $i + 1]; }
    public static function too_few(int $i): array { return [str_starts_with(failure(static fn () => async(static fn (int $a, int $b) => 1, $i)->await()), 'TaskException: Too few arguments'), true]; }

    // Values.
    public static function numbers(int $i): array { $all = [PHP_INT_MIN, PHP_INT_MAX, 1.5e300, INF, -0.0, 0.1 + 0.2]; return [async(static fn (array $all) => $all, $all)->await(), $all]; }
    public static function not_a_number(int $i): array { return [is_nan(async(static fn (float $x) => $x, NAN)->await()), true]; }
    public static function text(int $i): array { $text = str_repeat("\0\xff$i", 500 * ($i % 40)); return [async(strrev(...), $text)->await(), strrev($text)]; }
    public static function keys(int $i): array { $all = ['' => 1, -5 => 2, '007' => 3, 'x' => null, 7 => ['' => []]]; return [async(static fn (array $all) => $all, $all)->await(), $all]; }
    public static function large(int $i): array { $list = range(0, 200 * ($i % 10)); return [array_sum(async(static fn (array $list) => array_reverse($list), $list)->await()), array_sum($list)]; }
    public static function holes(int $i): array { $list = [1, 2, 3, 4]; unset($list[1]); return [async(static function (array $list) { $list[] = 'next'; return $list; }, $list)->await(), [0 => 1, 2 => 3, 3 => 4, 4 => 'next']]; }
    public static function one_object_twice(int $i): array { $box = new Box($i); return [async(static function (array $pair) use ($box) { $pair[0]->held = 'x'; return [$pair[1]->held, $box->held]; }, [$box, $box])->await(), ['x', 'x']]; }
    public static function ring(int $i): array { $ring = new Box(1); $ring->next = new Box(2); $ring->next->next = $ring; $back = async(static function (Box $ring) { $ring->held = [$ring->next]; return $ring; }, $ring)->await(); return [$back->next->next === $back && $back->held[0] === $back->next, true]; }
    public static function serialisable(int $i): array { return [async(static fn (Packed $p) => [new Packed([$p->sum(), 1]), $p->sum()], new Packed([$i, 2]))->await()[0]->sum(), $i + 3]; }
    public static function sleeper(int $i): array { return [async(static fn (Sleeper $s) => $s, new Sleeper())->await()->log, ['woke', 'woke']]; }
    public static function collections(int $i): array { $set = new SplObjectStorage(); $set[new Box($i)] = Suit::Hearts; return [async(static function (SplObjectStorage $set, ArrayObject $list) { $set->rewind(); return new ArrayIterator([$set->current()->n, $set->getInfo(), ...$list]); }, $set, new ArrayObject(['z']))->await()->getArrayCopy(), [$i, Suit::Hearts, 'z']]; }
    public static function dates(int $i): array { $now = new DateTimeImmutable("@$i"); return [async(static fn (DateTimeImmutable $at, DateInterval $by) => $at->add($by), $now, new DateInterval('P1D'))->await()->getTimestamp(), $i + 86400]; }

    // Code that runs inside.
    public static function generator(int $i): array { return [async(static function (int $n) { $list = (function () use ($n) { try { for ($x = 0;; $x++) { $got = yield $x => $x * $n; if ($got) { return $got; } } } finally { $n = null; } })(); $list->current(); $list->next(); return [$list->current(), $list->send('end'), $list->getReturn()]; }, $i)->await(), [$i, null, 'end']]; }
    public static function generator_left(int $i): array { return [async(static fn () => first_of((function () { try { yield from [5, 6]; } finally { $x = 1; } })()))->await(), 5]; }
    public static function fiber(int $i): array { return [async(static function () { $fiber = new Fiber(fn () => Fiber::suspend(1) + 1); $one = $fiber->start(); Svc\sleep(0.0); $fiber->resume($one + 1); return $fiber->getReturn(); })->await(), 3]; }
    public static function fiber_left(int $i): array { return [async(static function () { $fiber = new Fiber(function () { try { Fiber::suspend(); } finally { $GLOBALS['x'] = 1; } }); $fiber->start(); return 'left'; })->await(), 'left']; }
    public static function syntax(int $i): array { return [async(static function (?Box $box, array $of) { ['a' => $a, 'b' => [, $b]] = $of; return [$box?->n, [...$of['b'], 9], "{$a}-{$of['b'][1]}", $b ** 2, $a <=> $b, <<<TEXT
        heredoc {$of['a']}
        TEXT]; }, null, ['a' => 1, 'b' => [2, 3]])->await(), [null, [2, 3, 9], '1-3', 9, -1, 'heredoc 1']]; }
    public static function finally_runs(int $i): array { return [async(static function () { foreach ([1, 2] as $x) { try { try { throw new Told('t'); } finally { $x *= 10; } } catch (Told) { if ($x === 20) { return $x; } } finally { $y = $x; } } })->await(), 20]; }
    public static function eval_inside(int $i): array { return [async(static fn (int $n) => eval('return (fn () => $n + 1)();'), $i)->await(), $i + 1]; }
    public static function anonymous_outside(int $i): array { return [async(static fn () => Made::anonymous()->x)->await(), 'anonymous']; }
    public static function state(int $i): array { return [async(static function () { $before = [isset($GLOBALS['left']), ini_get('precision'), getenv('LEFT'), $_GET]; $GLOBALS['left'] = 1; ini_set('precision', '5'); putenv('LEFT=1'); $_GET['left'] = 1; set_error_handler(fn () => true); ob_start(); echo 'output'; register_shutdown_function(fn () => array_sum(range(1, 9))); return $before; })->await(), [false, '14', false, []]]; }
    public static function collected(int $i): array { return [async(static function () { for ($x = 0; $x < 50; $x++) { $a = new Box(1); $a->next = new Box(2); $a->next->next = $a; } return gc_collect_cycles() > 0; })->await(), true]; }
    public static function parks(int $i): array { return [async(static fn () => [Svc\sleep(0.001), 'slept'])->await(), [null, 'slept']]; }

    // Nested tasks, and several tasks.
    public static function inner_task(int $i): array { return [async(static fn (int $n) => async(static fn (int $n) => async(doubled(...), $n)->await() + 1, $n)->await() + 1, $i)->await(), 2 * $i + 2]; }
    public static function all(int $i): array { return [await_all((static function () use ($i) { foreach (['a', 'b', 'c'] as $at => $key) { yield $key => async(static fn (int $n) => $n, $i + $at); } })()), ['a' => $i, 'b' => $i + 1, 'c' => $i + 2]]; }
    public static function any(int $i): array { return [await_any(['no' => async(static fn () => throw new Told('no')), 'yes' => async(static fn () => 'yes')], null, $key) . $key, 'yesyes']; }
    public static function none(int $i): array { return [failure(static fn () => await_any([async(static fn () => throw new Told('no'))])), 'AggregateException: All tasks have failed']; }
    public static function race(int $i): array { return [await_race([async(static fn () => Svc\sleep(60)), async(static fn () => 'first')]), 'first']; }
    public static function too_late(int $i): array { return [str_starts_with(failure(static fn () => async(static fn () => Svc\sleep(60))->await(0.001)), 'TimeoutException'), true]; }
    public static function cancelled(int $i): array { $task = async(static fn () => Svc\sleep(60)); return [[$task->cancel(), str_starts_with(failure(static fn () => $task->await()), 'CancelledException')], [true, true]]; }
    public static function detached(int $i): array { return [async(static function (int $n) { static $kept; $kept = new Box($n); return $kept; }, $i)->detach() instanceof Svc\Task, true]; }
    public static function left(int $i): array { return [async(static fn () => Svc\sleep(60)) instanceof Svc\Task, true]; }

    // Failures.
    public static function exits(int $i): array { return [str_contains(doomed('exit'), 'exit()'), true]; }
    public static function error(int $i): array { return [doomed('error'), 'TaskException: Division by zero < DivisionByZeroError(0)']; }
    public static function type_error(int $i): array { return [str_starts_with(doomed('type'), 'TaskException: doubled(): Argument #1 ($n) must be of type int, string given'), true]; }
    public static function chain(int $i): array { return [doomed('chain'), 'TaskException: outer < Told(7) < LogicException(2) < ErrorException(3)']; }
    public static function holding(int $i): array { return [doomed('closure'), 'TaskException: holds']; }
    public static function no_transfer(int $i): array { return [str_starts_with(doomed('resource'), 'TransferException'), true]; }
    public static function no_argument(int $i): array { return [str_starts_with(failure(static fn () => async(static fn ($x) => 1, ['a' => ['b' => static fn () => 1]])), "TransferException: argument 1 ['a']['b']"), true]; }
    public static function no_reference(int $i): array { return [str_starts_with(failure(static fn () => async(static function (array &$x) {}, [])), 'TransferException'), true]; }
    public static function no_generator(int $i): array { return [str_starts_with(failure(static fn () => async(static function () { yield 1; })), 'TransferException'), true]; }
}

final class Made
{
    public static function anonymous(): object { return new class { public string $x = 'anonymous'; }; }
}

$GLOBALS['list'] = [3, 1, 2];

/** Runs all shapes, beginning with a number; returns how many there are. */
function shapes(string $from): int
{
    $names = get_class_methods(Shapes::class);
    foreach ($names as $at => $name) {
        [$found, $expected] = Shapes::$name((int) $from + $at);
        if ($found != $expected || gettype($found) !== gettype($expected)) {
            throw new Exception("$name: " . var_export($found, true) . ' and not ' . var_export($expected, true));
        }
    }
    return count($names);
}

/** Closures of a file that changes: a task runs the dispatched code, or fails with a reason. */
function changing(string $n): string
{
    clearstatcache();
    [$version, $tasks] = require DIR . '/changing.php';
    foreach ($tasks as $at => $task) {
        $found = failure(static fn () => async($task, $at)->await());
        $is_refused = preg_match('/^(Transfer|Task)Exception: .*(file|code|function|closure)/i', $found) === 1;
        if ($found !== 'returned ' . json_encode([$version, $at]) && !$is_refused) {
            throw new Exception("of version $version came $found");
        }
    }
    return 'done';
}
function reset_cache(): bool { return opcache_reset(); }
