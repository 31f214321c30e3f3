//! `Svc\per_request()` and the engine: the accepted classes, and PHP's own uses of its objects.

use svc_testing::client::eventually;
use svc_testing::tasks::{Mode, TaskServer, TaskSvc, assert_like, in_requests};

const CODE: &str = r#"
/** An object of the class; for an abstract class or an interface, of a generated class. */
function instance(string $class): object
{
    $reflection = new ReflectionClass($class);
    if (!$reflection->isAbstract() && !$reflection->isInterface()) {
        try { return new $class; } catch (Throwable) { return $reflection->newInstanceWithoutConstructor(); }
    }
    $name = 'Made_' . strtr($class, '\\', '_');
    if (!class_exists($name, false)) {
        $methods = '';
        foreach ($reflection->getMethods(ReflectionMethod::IS_ABSTRACT) as $method) {
            $type = $method->getReturnType() ?? $method->getTentativeReturnType();
            $value = match (ltrim((string) $type, '?')) { 'int' => '7', 'float' => '1.5', 'string' => "'text'", 'bool' => 'false', 'array' => '[1]', 'mixed' => 'null', 'Traversable', 'Iterator' => 'new ArrayIterator([1, 2])', default => 'null' };
            $parameters = implode(', ', array_map(fn ($p) => ($p->getType() ? $p->getType() . ' ' : '') . ($p->isPassedByReference() ? '&' : '') . ($p->isVariadic() ? '...' : '') . "\${$p->name}" . ($p->isOptional() && !$p->isVariadic() ? ' = null' : ''), $method->getParameters()));
            $returns = $type === null || in_array((string) $type, ['static', 'self', 'never']) ? '' : ": $type";
            $body = (string) $type === 'void' ? '' : "return $value;";
            $methods .= '#[ReturnTypeWillChange] ' . ($method->isProtected() ? 'protected' : 'public') . ($method->isStatic() ? ' static' : '') . " function {$method->name}($parameters)$returns { $body } ";
        }
        eval("class $name " . ($reflection->isInterface() ? 'implements' : 'extends') . " \\$class { $methods }");
    }
    return new $name;
}
function described(mixed $value): string { return is_object($value) ? 'object' : (is_array($value) ? 'array of ' . count($value) : var_export($value, true)); }
/** The result or the exception's class. Messages name classes and places; other tests distinguish classes of errors. */
function outcome(callable $call): string
{
    try { return described($call()); } catch (Error) { return 'Error'; } catch (Throwable $e) { return get_class($e); }
}
/** PHP's own operations on an object. */
function handled(object $o): array
{
    return [
        'count' => fn () => count($o), 'iterator_count' => fn () => $o instanceof Traversable ? iterator_count($o) : null, 'json' => fn () => json_encode($o), 'string' => fn () => (string) $o,
        'array' => fn () => (array) $o, 'vars' => fn () => get_object_vars($o), 'methods' => fn () => implode(',', (function ($m) { sort($m); return $m; })(array_map(strtolower(...), array_filter(get_class_methods($o), fn ($m) => !(new ReflectionMethod($o, $m))->isStatic())))),
        'isset' => fn () => isset($o['x']), 'read' => fn () => $o['x'], 'write' => function () use ($o) { $o['x'] = 1; }, 'unset' => function () use ($o) { unset($o['x']); }, 'invoke' => fn () => $o(),
        'property' => fn () => @$o->nothing, 'isset property' => fn () => isset($o->nothing), 'clone' => fn () => clone $o, 'equal' => fn () => $o == $o, 'less' => fn () => $o < $o, 'spaceship' => fn () => $o <=> $o,
        'spread' => fn () => [...$o], 'yield from' => fn () => iterator_count((function () use ($o) { yield from $o; })()), 'foreach' => function () use ($o) { $n = 0; foreach ($o as $x) { if (++$n > 3) { break; } } return $n; },
        'print_r' => fn () => strlen(print_r($o, true)) > 0, 'IteratorIterator' => fn () => $o instanceof Traversable ? iterator_count(new IteratorIterator($o)) : null,
        'LimitIterator' => fn () => $o instanceof Iterator ? iterator_count(new LimitIterator($o, 0, 1)) : null, 'RecursiveIteratorIterator' => fn () => iterator_count(new RecursiveIteratorIterator($o)),
        'CachingIterator' => fn () => $o instanceof Iterator ? iterator_count(new CachingIterator($o, 0)) : null, 'in a set' => function () use ($o) { $s = new SplObjectStorage; $s->attach($o); return $s->contains($o) ? 1 : 0; }, 'sort' => function () use ($o) { $l = [$o, $o]; return sort($l); },
    ];
}
class Stroll { public $a = 1; public array $b = [2]; private $c = 3; public readonly int $d; public function __construct() { $this->d = 4; } }
function walks(): array
{
    $walked = [];
    foreach ([Svc\per_request(Stroll::class, fn () => new Stroll), new Stroll] as $object) {
        $seen = [];
        array_walk($object, function ($value, $key, $extra) use (&$seen) { str_contains($key, "\0") || $seen[] = [$key, $value, $extra]; }, 'x');
        array_walk_recursive($object, function ($value, $key) use (&$seen) { str_contains($key, "\0") || $seen[] = [$key, $value]; });
        $walked[] = json_encode($seen);
    }
    return [$walked[0] === $walked[1] ? 'alike' : $walked, substr_count($walked[0], 'x')];
}
/** These never end, in C, with any iterator. */
const SKIPPED = ['iterator_count', 'IteratorIterator', 'CachingIterator'];
/** The differences between objects of Svc\per_request() and of their class, and the accepted and refused classes. */
function compares()
{
    error_reporting(0);
    $differences = $taken = $refused = [];
    foreach ([...get_declared_classes(), ...get_declared_interfaces()] as $class) {
        if (!(new ReflectionClass($class))->isInternal()) { continue; }
        try {
            $proxy = Svc\per_request($class, fn () => instance($class));
        } catch (InvalidArgumentException $e) { $refused[] = $class; continue; }
        $taken[] = $class;
        $direct = instance($class);
        if (!$proxy instanceof $class) { $differences[] = "$class: no instance"; }
        foreach ((new ReflectionClass($class))->getMethods(ReflectionMethod::IS_PUBLIC) as $method) {
            $name = $method->name;
            if ($method->isStatic() || $method->isConstructor() || "$class::$name" === 'mysqli::close') { continue; }
            $expected = outcome(fn () => $direct->$name());
            foreach ([
                'call' => fn () => $proxy->$name(), 'callable' => fn () => call_user_func([$proxy, $name]), 'closure' => fn () => Closure::fromCallable([$proxy, $name])(),
                'method' => fn () => (new ReflectionMethod($proxy, $name))->invoke($proxy), 'mapped' => fn () => array_map(fn ($m) => $m(), [[$proxy, $name]])[0],
            ] as $way => $call) {
                $actual = outcome($call);
                if ($actual !== $expected) { $differences[] = "$class::$name by $way: $actual, not $expected"; }
            }
        }
        // Calls without arguments leave a mysqli in a state that PHP itself cannot print.
        [$proxy, $direct] = [Svc\per_request($class, fn () => instance($class)), instance($class)];
        $of_direct = handled($direct);
        foreach (handled($proxy) as $what => $call) {
            // Its iterator may never end.
            if (in_array($what, SKIPPED) && !$proxy instanceof IteratorAggregate) { continue; }
            $actual = outcome($call);
            $expected = outcome($of_direct[$what]);
            if ($what === 'methods' && $class !== get_class($direct)) { continue; }
            if ($actual !== $expected) { $differences[] = "$class, $what: $actual, not $expected"; }
        }
    }
    return compact('differences', 'taken', 'refused');
}
class Listed extends ArrayObject { }
class Dated extends DateTimeImmutable { }
interface Odd extends Throwable { }
interface Both extends Iterator { }
interface Walked extends Traversable { public function x(): int; }
class Holder { public function __construct(public int $value = 1) { } }
/** A class of PHP with all methods that the engine calls. */
class Real implements Iterator, Countable, ArrayAccess, JsonSerializable, SeekableIterator, RecursiveIterator
{
    public int $at = 0;
    public array $log = [];
    public function __construct(private array $items = [1, 2, [3, 4], 5]) { }
    public function current(): mixed { return $this->items[$this->at]; }
    public function key(): mixed { return $this->at; }
    public function next(): void { $this->at++; }
    public function rewind(): void { $this->at = 0; }
    public function valid(): bool { return $this->at < count($this->items); }
    public function seek(int $offset): void { $this->at = $offset; }
    public function hasChildren(): bool { return is_array($this->items[$this->at]); }
    public function getChildren(): ?RecursiveIterator { return new self($this->items[$this->at]); }
    public function count(): int { return count($this->items); }
    public function offsetExists(mixed $k): bool { return isset($this->items[$k]); }
    public function offsetGet(mixed $k): mixed { return $this->items[$k]; }
    public function offsetSet(mixed $k, mixed $v): void { $this->items[$k] = $v; }
    public function offsetUnset(mixed $k): void { unset($this->items[$k]); }
    public function jsonSerialize(): mixed { return ['real' => $this->items]; }
    public function __serialize(): array { return $this->items; }
    public function add(string $entry, int $times = 1, string ...$more): static { $this->log[] = str_repeat($entry, $times) . implode(' ', array_map(fn ($k, $v) => "$k=$v", array_keys($more), $more)); return $this; }
    public function &slot() { return $this->at; }
    public function fill(&$into, $value = 'filled') { $into = $value; }
    public function generates() { yield $this->at; yield 'end'; }
    protected function guarded() { return 'guarded'; }
    final public function last() { return 'last'; }
    public function __call($name, $arguments) { return "$name()"; }
    public static function made() { return static::class; }
}
class Aggregate implements IteratorAggregate { public function getIterator(): Iterator { return new ArrayIterator(['a' => 1, 'b' => 2]); } }
function real() { return Reals::$one ??= Svc\per_request(Real::class, fn () => new Real); }
class Reals { public static $one, $closure, $fiber, $made = 0, $suspending; public static array $destructed = []; }
function engine()
{
    $r = real();
    $a = Svc\per_request(Aggregate::class, fn () => new Aggregate);
    $add = Closure::fromCallable([$r, 'add']);
    call_user_func_array([$r, 'fill'], [&$filled]);
    (new ReflectionMethod($r, 'fill'))->invokeArgs($r, [&$other, 'by reflection']);
    return [
        count($r), iterator_to_array(new LimitIterator($r, 1, 1)), iterator_to_array(new RecursiveIteratorIterator($r), false), iterator_to_array(new IteratorIterator($a)), iterator_to_array($a), [...$a],
        iterator_to_array((function () use ($a) { yield from $a; })()), json_encode($r), isset($r[0], $r[9]) || isset($r[9]), $r[1], array_diff(get_class_methods(Real::class), get_class_methods($r)),
        call_user_func([$r, 'add'], 'c') === $r, $add('named', times: 2, extra: 'x') === $r, call_user_func_array([$r, 'add'], ['entry' => 'array', 'more' => 'y']) === $r, $r->log, $filled, $other,
        iterator_to_array((new ReflectionMethod($r, 'generates'))->invoke($r)), (new ReflectionMethod($r, 'last'))->invoke($r), $r->anything(), call_user_func([$r, 'anything']), is_callable([$r, 'guarded']),
        tried(fn () => (new ReflectionMethod($r, 'add'))->invoke($r)), method_exists($r, 'seek'), (string) (new ReflectionMethod($r, 'add'))->getParameters()[1], $r::made() === get_class($r),
        array_map([$r, 'offsetGet'], [0, 1]), tried(fn () => serialize($r)), iterator_apply($r, fn () => true), tried(fn () => new (get_class($r))), (new ReflectionClass($r))->isFinal(),
    ];
}
function compared()
{
    $make = fn ($value) => Svc\per_request(Holder::class, fn () => new Holder($value));
    [$one, $same, $more] = [$make(1), $make(1), $make(2)];
    $list = [$more, $one];
    sort($list);
    return [$one == $same, $one == $more, $one < $more, $one <=> $more, $one == new Holder(1), $one != $more, in_array($one, [$more, $same]), $list[0] === $one, $one == 1, $one === $one];
}
function refused()
{
    return array_map(fn ($class) => tried(fn () => get_class(Svc\per_request($class, fn () => 1))), [
        'DateTimeImmutable', 'ArrayObject', 'DOMDocument', 'SplObjectStorage', 'DateTimeInterface', 'Throwable', 'UnitEnum', 'BackedEnum', 'Traversable', 'Exception', 'PDOStatement', 'Closure', 'Listed', 'Dated', 'Odd', 'Svc\Task', get_class(real()),
    ]);
}
function taken() { return array_map(fn ($class) => tried(fn () => get_class(Svc\per_request($class, fn () => 1))), ['Iterator', 'IteratorAggregate', 'ArrayAccess', 'Both', 'Walked', 'PDO', 'stdClass', 'Holder']); }
function not_traversable()
{
    $h = Svc\per_request(Holder::class, fn () => new Holder(3));
    $seen = [];
    foreach ($h as $name => $value) { $seen[$name] = $value; }
    return [$seen, tried(fn () => [...$h]), tried(fn () => iterator_to_array((function () use ($h) { yield from $h; })())), tried(fn () => count($h)), tried(fn () => max(...$h))];
}
/** A closure over one request's object does not belong to that request. */
function keeps_closure() { Reals::$closure = real()->add(...); (Reals::$closure)('first'); return real()->log; }
function uses_closure() { (Reals::$closure)('second'); return real()->log; }
/** A factory that suspends. */
class Suspended { public function __construct(public int $number) { } public function number() { return $this->number; } public function __destruct() { Reals::$destructed[] = $this->number; } }
function suspending() { return Reals::$suspending ??= Svc\per_request(Suspended::class, function () { $number = ++Reals::$made; if (Reals::$fiber !== null && Fiber::getCurrent() === Reals::$fiber) { Fiber::suspend($number); } return new Suspended($number); }, null, 2); }
function factory_suspends()
{
    $s = suspending();
    $first = Reals::$made + 1;
    Reals::$fiber = new Fiber(fn () => $s->number());
    Reals::$fiber->start();
    $other = new Fiber(fn () => $s->number());
    $other->start();
    $seen = [$s->number() - $first, $other->getReturn() - $first];
    Reals::$fiber->resume();
    return [...$seen, Reals::$fiber->getReturn() - $first, array_map(fn ($n) => $n - $first, Reals::$destructed)];
}
function factory_suspends_and_throws()
{
    $s = suspending();
    Reals::$fiber = new Fiber(fn () => tried(fn () => $s->number()));
    Reals::$fiber->start();
    Reals::$fiber->throw(new DomainException('thrown into'));
    return [Reals::$fiber->getReturn(), $s->number() > 0];
}
function leaves_factory() { $s = suspending(); Reals::$fiber = new Fiber(fn () => tried(fn () => $s->number())); Reals::$fiber->start(); return 'left'; }
function resumes_factory() { $seen = tried(fn () => Reals::$fiber->resume()); Reals::$fiber = null; return [$seen, suspending()->number() > 0]; }
function drops_factory() { Reals::$fiber = null; gc_collect_cycles(); return suspending()->number() > 0; }
function asks_itself()
{
    $s = null;
    $s = Svc\per_request(Holder::class, function () use (&$s) { return (new Fiber(fn () => $s->value))->start() ?? new Holder; });
    return tried(fn () => $s->value);
}
"#;

fn server() -> TaskServer {
    TaskServer::new(CODE).directive("memory_limit=-1").set("PHP_WORKERS", "1").set("ASYNC_WORKERS", "1")
}

#[test]
fn each_class_and_interface_of_php_works_or_is_refused() {
    for mode in [Mode::Classic, Mode::Worker] {
        let server = server().start(mode);
        let found: serde_json::Value = serde_json::from_str(&server.tell("compares")).unwrap();
        assert_eq!(found["differences"], serde_json::json!([]), "{found}");
        let (taken, refused) = (found["taken"].as_array().unwrap(), found["refused"].as_array().unwrap());
        assert!(taken.len() > 20 && refused.len() > 100, "{found}");
        assert_serves(&server);
    }
}

#[track_caller]
fn assert_serves(server: &TaskSvc) {
    eventually("the server still serves", || server.svc.get("/?do=strrev&n=alive").text() == "\"evila\"");
}

#[test]
fn methods_are_real_to_the_engine() {
    let cases = [
        (
            "return engine();",
            r#"[4,{"1":2},[1,2,3,4,5],{"a":1,"b":2},{"a":1,"b":2},*{"a":1,"b":2},"{\"real\":[1,2,[3,4],5]}",false,2,[],true,true,true,["c","namednamedextra=x","arraymore=y"],"filled","by reflection",*,"last","anything()","anything()",*"ArgumentCountError: Too few arguments to function Real::add(), 0 passed and at least 1 expected",true,"Parameter #1 [ <optional> int $times*",true,[1,2],"Exception: Serialization of 'Svc\\PerRequest\\Real' is not allowed",*"#,
        ),
        ("return walks();", r#"["alike",3]"#),
        ("return compared();", "[true,false,true,-1,true,true,true,true,true,true]"),
        (
            "return not_traversable();",
            r#"[{"value":3},"Error: Only arrays and Traversables can be unpacked","Error: *","TypeError: count(): Argument #1 ($value) must be of type Countable|array, *","*Error: *"]"#,
        ),
    ];
    in_requests(&server(), &cases);
}

#[test]
fn a_class_with_a_state_in_c_and_an_interface_that_classes_cannot_implement_are_refused() {
    let server = server().start(Mode::Worker);
    let refused: Vec<String> = serde_json::from_str(&server.tell("refused")).unwrap();
    assert_eq!(refused.len(), 17);
    for result in refused {
        assert_like(
            &result,
            "InvalidArgumentException: Svc\\per_request() needs a class or an interface that can be extended: * *",
        );
    }
    let taken: Vec<String> = serde_json::from_str(&server.tell("taken")).unwrap();
    for result in taken {
        assert_like(&result, "\"Svc\\\\PerRequest\\\\*\"");
    }
    assert_serves(&server);
}

#[test]
fn a_closure_of_its_methods_belongs_to_no_request() {
    let server = server().start(Mode::Worker);
    assert_eq!(server.tell("keeps_closure"), r#"["first"]"#);
    assert_eq!(server.tell("uses_closure"), r#"["second"]"#);
}

#[test]
fn a_factory_that_suspends_keeps_no_other_fiber_from_an_instance() {
    let server = server().start(Mode::Worker);
    assert_eq!(server.tell("factory_suspends"), "[1,1,1,[0]]");
    assert_eq!(server.tell("factory_suspends_and_throws"), r#"["DomainException: thrown into",true]"#);
    for _ in 0..3 {
        assert_eq!(server.tell("leaves_factory"), "\"left\"");
        assert_like(
            &server.tell("resumes_factory"),
            r#"["FiberError: Cannot resume a fiber that is not suspended",true]"#,
        );
        assert_eq!(server.tell("leaves_factory"), "\"left\"");
        assert_eq!(server.tell("drops_factory"), "true");
    }
    assert_like(&server.tell("asks_itself"), "*The factory of Svc\\\\per_request() uses the object*");
    assert_serves(&server);
}
