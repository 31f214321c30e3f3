<?php
declare(strict_types=1);
namespace App\Shapes;

use Lib\{Suit, Work, Derived};
use function Lib\twice;
use function Lib\swap as exchange;
use const Lib\NUMBER;

#[\Attribute(\Attribute::TARGET_ALL)]
class Note { public function __construct(public string $text = '', public array $more = []) {} }

$text = 'captured'; $list = [1, 'two' => [2.5, null, true]]; $suit = Suit::Hearts; $work = new Work(3); $number = 5;
$later = function () use (&$later) { return 1; };

return [
    'empty' => [static function () {}],
    'constant' => [static fn () => 42],
    'arrow' => [static fn ($x) => $x * $number, [3]],
    'arrow twice' => [static fn ($x) => array_map(static fn ($y) => [$x, $y, $number, $text], [1, 2]), [9]],
    'undefined' => [static fn () => @$nothing],
    'captured' => [static function () use ($text, $list, $suit, $work) { return [$text, $list, $suit, $suit === Suit::Hearts, $work]; }],
    'captured unused' => [static function () use ($text, $list) { return $text; }],
    'static' => [static function () { static $n = 5; static $all = ['x' => 1]; $all[] = $n; return [++$n, $all]; }],
    'static computed' => [static function () { static $n = twice(4); static $m; $m ??= 3; return [++$n, ++$m]; }],
    'static expression' => [static function () { static $n = NUMBER + Work::LIMIT; return ++$n; }],
    'static in nested' => [static function () { $f = static function () { static $n = 1; return $n++; }; return [$f(), $f(), $f()]; }],
    'recursion' => [static function (int $n) { $f = static function ($n) use (&$f) { return $n <= 1 ? 1 : $n * $f($n - 1); }; return $f($n); }, [6]],
    'generator inside' => [static function () { $g = (static function () { $got = yield 1; yield $got; yield from [3, 4]; return 5; })(); $a = $g->current(); $b = $g->send("x"); $rest = []; while ($g->valid()) { $rest[] = $g->current(); $g->next(); } return [$a, $b, $rest, $g->getReturn()]; }],
    'generator called' => [static fn () => iterator_to_array(\Lib\numbers(4))],
    'types' => [static function (int|string $a, ?array $b, Suit|Work $c, iterable $d = [], self|null $e = null): array|false { return [\gettype($a), $b, $c::class, $d]; }, ['1', null, $suit]],
    'types refused' => [static fn (int $a): string => (string) $a, ['1']],
    'return refused' => [static function (): int { return 'x'; }],
    'intersection' => [static fn ((\Countable&\Traversable)|null $x = null) => $x === null ? 0 : \count($x), [new \ArrayObject([1, 2])]],
    'never' => [static function (): never { throw new \LogicException('never'); }],
    'defaults' => [static function ($a = 1, $b = [1, NUMBER, Work::LIMIT], $c = new \ArrayObject([1]), $d = Suit::Best, $e = __LINE__ . __CLASS__, $f = PHP_INT_MAX, $g = Suit::Hearts->value) { return \func_get_args() ?: [$a, $b, $c, $d, $e, $f, $g]; }],
    'variadic' => [static fn (int $first, string ...$rest) => [$first, $rest], [1, 'a', 'b']],
    'named' => [static fn (int $a, int $b = 2, int ...$c) => [$a, $b, $c], ['b' => 5, 'a' => 1, 'z' => 9]],
    'match' => [static fn ($x) => match (true) { $x instanceof Suit => 'suit', \is_int($x), \is_float($x) => 'number', default => 'other' }, [$suit]],
    'match values' => [static fn ($x) => match ($x) { 1 => 'a', 2, 3 => 'b', 4 => 'c', 5 => 'd', 6 => 'e' }, [3]],
    'match strings' => [static fn ($x) => match ($x) { 'a' => 1, 'b' => 2, 'c' => 3, 'd' => 4, 'e' => 5 }, ['z']],
    'switch' => [static function ($x) { switch ($x) { case 'a': return 1; case 'b': case 'c': return 2; case 'd': return 3; case 'e': return 4; default: return 5; } }, ['c']],
    'switch numbers' => [static function ($x) { switch ($x) { case 1: return 'a'; case 2: return 'b'; case 3: return 'c'; case 4: return 'd'; case 5: return 'e'; } }, [4]],
    'finally' => [static function () { $order = []; try { try { throw new \RuntimeException('x'); } finally { $order[] = 'finally'; } } catch (\LogicException | \RuntimeException $e) { $order[] = $e->getMessage(); } finally { $order[] = 'last'; } return $order; }],
    'finally returns' => [static function () { foreach ([1, 2] as $i) { try { return $i; } finally { if ($i < 2) { $i = 9; } } } }],
    'loops' => [static function () { $s = 0; for ($i = 0; $i < 10; $i++) { if ($i == 3) continue; $s += $i; } while (true) { if (--$s < 20) break; } do { $s++; } while ($s < 5); foreach (['a' => [1, 2], 'b' => [3, 4]] as $k => [$x, $y]) { $s .= "$k$x$y"; } foreach ([1, 2] as &$r) { $r *= 2; } return [$s, $r]; }],
    'place' => [static fn () => [__FILE__, __DIR__, __LINE__, __FUNCTION__, __CLASS__, __NAMESPACE__, __METHOD__]],
    'function of namespace' => [static fn () => [twice(4), \strlen('abc'), strtoupper('x'), \Lib\twice(NUMBER), namespace\Note::class]],
    'reference to function' => [static function () { $pair = [1, 2]; exchange($pair); sort($pair); preg_match('/b/', 'abc', $m); return [$pair, $m]; }],
    'strict' => [static fn () => twice('4')],
    'coalesce' => [static fn (array $a) => [$a['x'] ?? 'none', $a['y']['z'] ?? null, $a['o']?->id, isset($a['x'], $a['o']), empty($a['x'])], [['o' => $work]]],
    'destructuring' => [static function () { ['a' => $a, 'b' => [, $b]] = ['a' => 1, 'b' => [2, 3]]; [$a, $b] = [$b, $a]; return compact('a', 'b') + ['c' => [...[1, 2], ...['k' => 3]]]; }],
    'heredoc' => [static function () use ($text, $work) { return <<<X
        a $text {$work->id} \$ ä
          b
        X; }],
    'dynamic names' => [static function () use ($number) { $f = 'strrev'; $c = Work::class; $v = 'number'; $m = 'plain'; return [$f('abc'), new $c(1), $$v, $c::$m(2), [Work::class, 'plain'](3), constant(Work::class . '::LIMIT')]; }],
    'callable' => [static function () { $f = strlen(...); $g = Work::plain(...); $h = \Lib\twice(...); return [$f('four'), $g(1), array_map($h, [1, 2])]; }],
    'globals' => [static function () { global $unknown; return [$unknown, isset($GLOBALS['nothing'])]; }],
    'exception' => [static function () { throw new \DomainException('message', 7, new \Exception('inner')); }],
    'line' => [static function () { try { throw new \Exception('x'); } catch (\Exception $e) { return [$e->getLine(), basename($e->getFile())]; } }],
    'attributes' => [static function () { $f = #[Note('text', more: [1, NUMBER])] static fn (#[\SensitiveParameter] $x) => 1; $r = new \ReflectionFunction($f); return [$r->getAttributes()[0]->getName(), $r->getAttributes()[0]->getArguments(), $r->getParameters()[0]->getAttributes()[0]->getName()]; }],
    'documented' => [static function () { $f = /** Says what. */ static function (int $a = 3, ?string ...$b): ?int { return $a; }; $r = new \ReflectionFunction($f); return [$r->getDocComment(), (string) $r->getReturnType(), (string) $r->getParameters()[0], $r->getStartLine()]; }],
    'declares a function' => [static function () { if (!\function_exists(__NAMESPACE__ . '\declared')) { function declared(int $n = 4) { static $s = 1; return [__FUNCTION__, $n, $s++]; } } return declared(5); }],
    'fiber' => [static function () { $f = new \Fiber(static function ($x) { $y = \Fiber::suspend($x + 1); return $y * 2; }); return [$f->start(1), $f->resume(5), $f->getReturn()]; }],
    'enum' => [static fn () => [Suit::from('s'), Suit::tryFrom('x'), Suit::Best->name, Suit::first(), array_column(Suit::cases(), 'value')]],
    'clone' => [static function () use ($work) { $copy = clone $work; return [$copy == $work, $copy === $work, $copy instanceof Work]; }],
    'closure of closures' => [static fn () => (static fn () => (static fn () => static fn () => [__LINE__, $text])())()()],
    'returns a closure' => [static fn () => (static function ($n) { return static fn ($m) => $n + $m; })(3)(4)],
    'in a class' => [Work::hidden(), [4]],
    'in a class strict' => [Work::strict()],
    'in a class arrow' => [Work::arrow()],
    'called scope' => [Derived::arrow()],
    'in a method' => [(new Derived)->method()],
    'in a trait' => [Work::trick()],
    'in a trait derived' => [Derived::trick()],
    'class bound' => [\Closure::bind(static fn () => [self::$log, static::class], null, Work::class)],
    'scope removed' => [\Closure::bind(static fn () => __CLASS__, null, null)],
    'closure of closure' => [(static fn ($x) => $x + $number)(...), [2]],
    'internal function' => [strrev(...), ['abc']],
    'internal by name' => [\Closure::fromCallable('array_sum'), [[1, 2, 3]]],
    'internal static' => [\DateTime::createFromFormat(...), ['!Y-m-d', '2020-01-02']],
    'enum static' => [Suit::from(...), ['h']],
    'user function' => [twice(...), [21]],
    'user function statics' => [\Lib\counted(...)],
    'static method' => [Work::plain(...), [1, 2, 3]],
    'static method derived' => [Derived::plain(...), [1]],
    'static method private' => [Work::own(), [1]],
    'static method array' => [\Closure::fromCallable([Work::class, 'plain']), [5]],
    'static method statics' => [Work::counter(...)],
    'shape 50' => [static function (): array { $x = []; for ($i = 0; $i < 3; $i++) { $x[] = static function () use ($i, $x) { return [$i, \count($x)]; }; } return array_map(static fn ($f) => $f(), $x); }],
];
