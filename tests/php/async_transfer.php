<?php
// The transferred values, each with the conditions that its copy must satisfy beyond equality.

enum Suit { case Hearts; case Spades; const Wild = self::Spades; }
enum Level: int { case Low = 1; case High = 2; }
class Plain { public $a = 1; protected $b = [2]; private $c = '3'; public ?Plain $next = null; }
class Child extends Plain { private $c = 'own'; public mixed $extra = null; }
final class Point { public function __construct(public readonly int $x, public readonly ?Point $y = null) {} }
class Typed { public int $set = 1; public string $unset; public ?Suit $suit = Suit::Hearts; }
#[AllowDynamicProperties] class Dynamic { public $declared = 1; }
class Magic
{
    public $seen = null;
    public function __construct(public mixed $data = null) {}
    public function __serialize(): array { return ['d' => $this->data, 5 => new Plain()]; }
    public function __unserialize(array $data): void { $this->data = $data['d']; $this->seen = array_keys($data); }
}
class Sleeper
{
    public $kept = 'kept'; protected $also = [1]; private $mine = 1.5; public $lost = 'lost'; public $awake = false;
    public function __sleep() { return ['kept', 'also', 'mine']; }
    public function __wakeup() { $this->awake = true; }
}
class Old implements Serializable
{
    public $inner;
    public function serialize() { return serialize([1, $this->inner]); }
    public function unserialize($text) { $this->inner = unserialize($text)[1]; }
}
class Both { public $self; public array $list = []; public $ref; }

function plain_with(mixed $next): object { $o = new Both(); $o->self = $next; return $o; }
function holes(): array { $a = range(0, 9); unset($a[3], $a[9]); return $a; }
function emptied(): array { $a = [1, 2, 3]; array_pop($a); array_pop($a); array_pop($a); $a[] = 4; unset($a[3]); unset($a[0]); return $a; }
function next_free(array $a): int { $a[] = 'x'; return array_key_last($a); }
function storage(): SplObjectStorage { $s = new SplObjectStorage(); $k = new Plain(); $s[$k] = 'data'; $s[new Point(1)] = $k; return $s; }
function referring(): Both { $o = new Both(); $o->list = [1, 2]; $o->ref = &$o->list; return $o; }
function cyclic(): Both { $o = new Both(); $o->self = $o; $o->list = ['me' => $o]; return $o; }
function self_array(): Both { $o = new Both(); $a = [1]; $a['self'] = &$a; $o->list = [&$a]; return $o; }
function deep_array(int $n): array { $a = []; while ($n-- > 0) { $a = [$a]; } return $a; }
function deep_object(int $n): Both { $o = new Both(); while ($n-- > 0) { $p = new Both(); $p->self = $o; $o = $p; } return $o; }
function with_reference(): array { $x = ['in']; return ['a' => &$x, 'b' => &$x]; }
function dynamic(): Dynamic { $d = new Dynamic(); $d->more = 2; $d->{'12'} = 3; return $d; }
function thrown(): Throwable
{
    try { (function ($unsendable) { throw new LogicException('why', 7, new Error('first')); })(fn () => 1); } catch (LogicException $e) { return $e; }
}
function closed() { $f = fopen('php://memory', 'r'); fclose($f); return $f; }
function dynamic_closed() { $d = new Dynamic(); $d->more = [0, closed()]; return $d; }
function deep_mixed(int $n): array { $a = []; while ($n-- > 0) { $a = [plain_with($a)]; } return $a; }
/** Actions of script code at the places that a test chooses. */
final class Fault
{
    public static array $at = [];
    public static function here(string $place): void
    {
        match (self::$at[$place] ?? null) {
            null => null,
            'throw' => throw new DomainException("at $place"),
            'exit' => exit('exited'),
            'fatal' => str_repeat('x', PHP_INT_MAX >> 4),
            'sleep' => Svc\sleep(0.002),
            'fiber' => Fiber::suspend(),
        };
    }
}
class FaultyMagic
{
    public function __construct(public mixed $v = null) {}
    public function __serialize(): array { Fault::here('__serialize'); serialize([new Plain()]); return [$this->v]; }
    public function __unserialize(array $data): void { Fault::here('__unserialize'); $this->v = $data[0]; }
}
class FaultySleep
{
    public $v;
    public function __sleep(): array { Fault::here('__sleep'); return ['v']; }
    public function __wakeup(): void { Fault::here('__wakeup'); unserialize(serialize([$this->v])); }
}
class FaultyOld implements Serializable
{
    public $v;
    public function serialize() { Fault::here('serialize'); return serialize([$this->v, $this->v]); }
    public function unserialize($text) { Fault::here('unserialize'); $this->v = unserialize($text)[0]; }
}
class FaultyError extends RuntimeException
{
    public mixed $held = null;
    public function __serialize(): array { Fault::here('__serialize'); return [$this->held]; }
    public function __unserialize(array $data): void { Fault::here('__unserialize'); $this->held = $data[0]; }
}
class HoldingError extends RuntimeException { public mixed $held = null; }
spl_autoload_register(function (string $class): void { Fault::here('autoload'); });
/** Objects with every callback, one of them twice. */
function faulty(): array
{
    $shared = new Plain();
    $objects = [new FaultyMagic($shared), new FaultySleep(), new FaultyOld(), $shared];
    $objects[1]->v = $shared;
    $objects[2]->v = new Point(1);
    return $objects;
}
/** An object of an undeclared class. */
function missing(mixed $value): int
{
    $payload = test_pack([$value]);
    $other = test_payload(strtr(test_bytes($payload), ['Plain' => 'Ghost', 'Hearts' => 'Horses']));
    test_free($payload);
    return $other;
}
function task_exception(Throwable|string $failure, ?array $replaced = null): Throwable
{
    $payload = test_pack_failure($failure);
    if ($replaced) { $other = test_payload(strtr(test_bytes($payload), $replaced)); test_free($payload); $payload = $other; }
    try { test_throw_failure($payload); } catch (Throwable $e) { return $e; } finally { test_free($payload); }
}
/** The exception: its message, and those of its previous exceptions. */
function caught(callable $call): string
{
    try {
        $call();
        return 'nothing';
    } catch (Svc\Async\TransferException $e) {
        for ($text = $e->getMessage(); $e = $e->getPrevious();) { $text .= ' < ' . get_class($e) . ': ' . $e->getMessage(); }
        return $text;
    }
}
function binary(): string { $s = ''; for ($i = 0; $i < 256; $i++) { $s .= chr($i); } return $s; }

$cases = [
    'null' => [null], 'true' => [true], 'false' => [false],
    'zero' => [0], 'one' => [1], 'minus' => [-1], '127' => [127], '128' => [128], 'max' => [PHP_INT_MAX], 'min' => [PHP_INT_MIN],
    'float' => [1.5], 'third' => [1 / 3], 'negative zero' => [-0.0, fn ($w) => fdiv(1, $w) === -INF],
    'infinity' => [INF], 'minus infinity' => [-INF], 'nan' => [NAN, fn ($w) => is_nan($w)],
    'smallest' => [5e-324], 'epsilon' => [0.1 + 0.2], 'float like an int' => [3.0, fn ($w) => is_float($w)],
    'empty string' => [''], 'one byte' => ['x'], 'NUL' => ["\0"], 'all bytes' => [binary()], 'long' => [str_repeat('long', 100000)],
    'numeric string' => ['123'], 'quotes' => ['";s:1:"x'],
    'empty array' => [[], fn ($w) => next_free($w) === 0], 'list' => [[1, 2, 3]], 'keys' => [['id' => 1, 'name' => 'x', 'tags' => [1, 2, 3]]],
    'mixed keys' => [[5 => 'a', 'k' => 'b', -7 => 'c', '' => 'd', "\0x" => 'e']],
    'order' => [array_reverse(['a' => 1, 'b' => 2, 3 => 3], true)],
    'holes' => [holes(), fn ($w) => next_free($w) === 10], 'emptied' => [emptied(), fn ($w) => next_free($w) === next_free(emptied()) && $w === []],
    'next free' => [[100 => 1], fn ($w) => next_free($w) === 101],
    'negative next' => [[-5 => 1], fn ($w) => next_free($w) === next_free([-5 => 1])],
    'int keys apart' => [[3 => 'x', 1 => 'y']],
    'nested' => [[[['deep' => [[]]]]]], 'large list' => [range(1, 100000)], 'large hash' => [array_flip(array_map('md5', range(1, 5000)))],
    'references' => [with_reference(), function ($w) { $w['a'][] = 1; return $w['b'] === ['in']; }],
    'case' => [Suit::Spades, fn ($w) => $w === Suit::Spades], 'backed case' => [Level::High, fn ($w) => $w === Level::High],
    'case by constant' => [Suit::Wild, fn ($w) => $w === Suit::Spades],
    'cases' => [[Suit::Hearts, 'k' => Level::Low, Suit::Hearts], fn ($w) => $w[0] === $w[1]],
    'std class' => [(object) ['a' => 1, 'b' => [new stdClass()]]], 'numeric properties' => [(object) [1, 2]],
    'plain' => [new Plain()], 'child' => [new Child()], 'readonly' => [new Point(1, new Point(2)), fn ($w) => $w->y->x === 2],
    'typed' => [new Typed(), fn ($w) => !(new ReflectionProperty('Typed', 'unset'))->isInitialized($w) && $w->suit === Suit::Hearts],
    'dynamic' => [dynamic(), fn ($w) => $w->more === 2 && $w->{'12'} === 3],
    'magic' => [new Magic([1, Suit::Spades]), fn ($w) => $w->seen === ['d', 5]],
    'sleeper' => [new Sleeper(), fn ($w) => $w->awake && $w->kept === 'kept'],
    'storage' => [storage(), function ($w) { $w->rewind(); $k = $w->current(); $w->next(); return $w[$w->current()] === $k; }],
    'array object' => [new ArrayObject(['x' => new Plain(), 2 => [1]]), fn ($w) => $w['x'] instanceof Plain],
    'fixed array' => [SplFixedArray::fromArray([1, 'b'])], 'list object' => [(function () { $l = new SplDoublyLinkedList(); $l->push(1); return $l; })()],
    'date' => [new DateTimeImmutable('2024-02-29 12:30:00.123456', new DateTimeZone('Europe/Berlin')), fn ($w) => $w->format('c u') === '2024-02-29T12:30:00+01:00 123456'],
    'interval' => [new DateInterval('P1DT2H'), fn ($w) => $w->d === 1],
    'floats in an object' => [plain_with([0.1 + 0.2, -0.0, INF, 1 / 3]), fn ($w) => $w->self[0] === 0.1 + 0.2 && fdiv(1, $w->self[1]) === -INF],
    'cases in an object' => [plain_with([Suit::Hearts, Suit::Hearts, Level::Low]), fn ($w) => $w->self[1] === Suit::Hearts],
    'cyclic' => [cyclic(), fn ($w) => $w->self === $w && $w->list['me'] === $w],
    'reference in an object' => [referring(), function ($w) { $w->list[] = 3; return $w->ref === [1, 2, 3]; }],
    'array with itself in an object' => [self_array(), fn ($w) => $w->list[0]['self']['self'][0] === 1],
    'same object twice' => [(function () { $o = new Plain(); return ['a' => $o, 'b' => [$o, plain_with($o)]]; })(), fn ($w) => $w['a'] === $w['b'][0] && $w['b'][1]->self === $w['a']],
    'same array with an object twice' => [(function () { $a = [new Plain()]; return [$a, $a, plain_with($a)]; })(), fn ($w) => $w[0][0] === $w[1][0] && $w[2]->self[0] === $w[0][0]],
    'object after magic' => [(function () { $p = new Plain(); return [new Magic($p), $p, new Magic($p), new Sleeper(), $p]; })(), fn ($w) => $w[0]->data === $w[1] && $w[2]->data === $w[4] && $w[1] === $w[4]],
    'object after a reference' => [(function () { $r = referring(); $r->self = &$r; $p = new Plain(); $q = plain_with($p); return [$r, $p, $q, $r]; })(), fn ($w) => $w[2]->self === $w[1] && $w[3] === $w[0] && $w[0]->self === $w[0]],
    'object after old' => [(function () { $o = new Old(); $o->inner = new Plain(); $p = new Plain(); return [$p, $o, $p, plain_with($o)]; })(), fn ($w) => $w[0] === $w[2] && $w[3]->self === $w[1] && $w[1]->inner instanceof Plain],
    'exception' => [thrown(), fn ($w) => $w->getMessage() === 'why' && $w->getCode() === 7 && $w->getPrevious()->getMessage() === 'first' && $w->getLine() === thrown()->getLine(), fn ($v) => [get_class($v), (string) $v->getPrevious()->getMessage()]],
    'deep array' => [deep_array(500)], 'deep objects' => [deep_object(500)],
    'many objects' => [array_map(fn ($i) => new Point($i), range(1, 3000)), fn ($w) => $w[2999]->x === 3000],
    'shared by many' => [(function () { $p = new Plain(); return array_map(fn () => plain_with($p), range(1, 3000)); })(), fn ($w) => $w[0]->self === $w[2999]->self],
];
if (PHP_VERSION_ID >= 80400) {
    $ghost = (new ReflectionClass(Point::class))->newLazyGhost(function (Point $p) { $p->__construct(8); });
    $cases['lazy ghost'] = [$ghost, fn ($w) => $w->x === 8];
}

/** Lists the differences of the copies; empty if there are none. */
function compare(array $cases, array $copies): array
{
    $wrong = [];
    foreach (array_values($cases) as $i => $case) {
        $name = array_keys($cases)[$i];
        $see = $case[2] ?? serialize(...);
        if ($see($case[0]) !== $see($copies[$i]) && $name !== 'nan' && $name !== 'references' && $name !== 'magic' && $name !== 'sleeper') {
            $wrong[] = "$name: " . substr(print_r($see($copies[$i]), true), 0, 200);
        }
        if (gettype($case[0]) !== gettype($copies[$i]) || (is_object($case[0]) && get_class($case[0]) !== get_class($copies[$i]))) {
            $wrong[] = "$name: its type";
        } elseif (isset($case[1]) && !$case[1]($copies[$i])) {
            $wrong[] = "$name: " . substr(print_r($copies[$i], true), 0, 300);
        }
    }
    return $wrong;
}
