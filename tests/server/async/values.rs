//! Values transferred to a task and back, their identity, and refusals with the place of the refused value.

use svc_testing::tasks::{MODES, TaskServer, assert_laws, assert_like, everywhere};

const CLASSES: &str = r"
enum Suit: string { case Hearts = 'H'; case Spades = 'S'; }
enum Plain { case One; }
class Point { public function __construct(public int $x, protected array $y = [1], private ?Point $z = null) { } }
final class Frozen { public function __construct(public readonly string $name) { } }
class Own { public array $seen = []; public function __serialize(): array { return ['kept' => 1]; } public function __unserialize(array $data): void { $this->seen = $data; } }
class Sleeps { public $kept = 1; public $dropped = 2; public $woken = false; public function __sleep() { return ['kept']; } public function __wakeup() { $this->woken = true; } }
/** Serializes into a nested text. */
class Boxed implements Serializable
{
    public function __construct(public mixed $a) { }
    public function serialize(): string { return serialize(['a' => $this->a]); }
    public function unserialize(string $text): void { $this->a = unserialize($text)['a']; }
}
class Absent implements Serializable { public function serialize(): ?string { return null; } public function unserialize(string $text): void { } }
class Pair
{
    public array $parts;
    public function __construct(mixed $a, mixed $b) { $this->parts = ['a' => $a, 'b' => $b]; }
    public function __serialize(): array { return ['nested' => [[$this->parts]]]; }
    public function __unserialize(array $data): void { $this->parts = $data['nested'][0][0]; }
}
class Makes
{
    public ?Point $made = null;
    public function __construct(public int $n) { }
    public function __serialize(): array { return [new Point($this->n)]; }
    public function __unserialize(array $data): void { $this->made = $data[0]; $this->n = $this->made->x; }
}
/** Starts a task with the same object while that is being serialized. */
class Asks implements Serializable
{
    public mixed $answer = null;
    public function __construct(public mixed $a) { }
    public function serialize(): string { $this->answer = Svc\async(static fn ($x, $y) => $x === $y && $x->x === 1, $this->a, $this->a)->await(); return serialize([$this->a, $this->answer]); }
    public function unserialize(string $text): void { [$this->a, $this->answer] = unserialize($text); }
}
class Refuses { public function __serialize(): array { throw new DomainException('not me'); } }
class Reveals { public static int $calls = 0; public function __serialize(): array { self::$calls++; return ['handle' => fopen('php://memory', 'r')]; } }
class RefusesThere { public function __unserialize(array $data): void { throw new DomainException('not here'); } }
function same(mixed $value): mixed { return $value; }
/** There and back: whether the value is the same, with the same types at all levels. */
function crosses(mixed $value): bool { return serialize(Svc\async(same(...), $value)->await()) === serialize($value); }
";

#[test]
fn values_arrive_as_they_left() {
    let cases = [
        (
            "return array_filter([null, true, false, 0, PHP_INT_MIN, PHP_INT_MAX, 1.5, -0.0, INF, -INF, PHP_FLOAT_EPSILON, 0.1 + 0.2, '', 'x', \"\\0\\xff\\n\", str_repeat('x', 100000)], fn ($value) => !crosses($value));",
            "[]",
        ),
        (r"return is_nan(Svc\async(same(...), NAN)->await());", "true"),
        (
            r"return array_filter([[], [[]], [1, 2, 3], [5 => 'a', 3 => 'b', -7 => 'c'], ['b' => 1, 'a' => ['x' => null]], ['' => 1, ' 1' => 2, '01' => 3], array_fill(0, 5000, 1.5), array_fill_keys(range('a', 'z'), [true])], fn ($value) => !crosses($value));",
            "[]",
        ),
        // An array keeps its packed or hash form and its next index.
        (
            r"$list = [1, 2, 3]; unset($list[2]); $list = Svc\async(same(...), $list)->await(); $list[] = 'next'; return $list;",
            r#"{"0":1,"1":2,"3":"next"}"#,
        ),
        (
            r"$o = new stdClass; $o->list = [1, 2, 3]; unset($o->list[2]); $back = Svc\async(same(...), $o)->await(); $back->list[] = 'next'; return $back->list;",
            r#"{"0":1,"1":2,"3":"next"}"#,
        ),
        (
            r"return [Svc\async(same(...), Suit::Spades)->await() === Suit::Spades, Svc\async(same(...), [Plain::One])->await()[0] === Plain::One];",
            "[true,true]",
        ),
        (r"return Svc\async(fn (Suit $suit) => $suit === Suit::Hearts, Suit::Hearts)->await();", "true"),
        (
            "return array_filter([new stdClass, (object) ['a' => [1]], new Point(1, ['k' => 2], new Point(3)), new Frozen('f'), new DateTimeImmutable('2024-02-29 12:00:00.5', new DateTimeZone('Asia/Tokyo')), new ArrayObject([1, 'a' => 2]), new SplObjectStorage], fn ($value) => !crosses($value));",
            "[]",
        ),
        (r"return Svc\async(same(...), new Own)->await()->seen;", r#"{"kept":1}"#),
        (
            r"$sleeps = new Sleeps; $sleeps->kept = 5; $sleeps->dropped = 6; $back = Svc\async(same(...), $sleeps)->await(); return [$back->kept, $back->dropped, $back->woken];",
            "[5,2,true]",
        ),
        // A deep array.
        (r"$deep = []; for ($i = 0; $i < 300; $i++) { $deep = [$deep]; } return crosses($deep);", "true"),
        // Values are copies: a task's changes do not reach the requester.
        (
            r"$point = new Point(1); Svc\async(function ($point) { $point->x = 9; }, $point)->await(); return $point->x;",
            "1",
        ),
        (r"$n = 1; Svc\async(function () use ($n) { $n++; })->await(); return $n;", "1"),
        (r"$n = 1; $task = Svc\async(fn () => $n); $n = 2; return $task->await();", "1"),
        // References inside arrays are transferred as values.
        (
            r"$x = 1; $list = [&$x, &$x]; $back = Svc\async(function ($list) { $list[0] = 2; return $list; }, $list)->await(); return [$back, $x];",
            "[[2,1],1]",
        ),
        // An exception is an object like others.
        (
            r"$e = Svc\async(fn () => new DomainException('as a value', 3))->await(); return [$e::class, $e->getMessage(), $e->getCode()];",
            r#"["DomainException","as a value",3]"#,
        ),
    ];
    everywhere(&TaskServer::new(CLASSES), &cases);
}

#[test]
fn objects_keep_their_identity_within_a_dispatch() {
    let cases = [
        (
            r"$a = new stdClass; return Svc\async(fn ($x, $y, $list) => [$x === $y, $list['deep'][0] === $x], $a, $a, ['deep' => [$a]])->await();",
            "[true,true]",
        ),
        (r"$a = new stdClass; return Svc\async(fn ($x) => $x === $a, $a)->await();", "true"),
        (
            r"$a = new stdClass; $a->self = $a; $a->list = [$a]; $back = Svc\async(same(...), $a)->await(); return [$back->self === $back, $back->list[0] === $back, $back === $a];",
            "[true,true,false]",
        ),
        (
            r"$a = new Own; $b = [$a, new Point(1), $a]; $back = Svc\async(same(...), $b)->await(); return [$back[0] === $back[2], $back[0]->seen];",
            r#"[true,{"kept":1}]"#,
        ),
        // As a captured variable, and as an argument, inside arrays and objects of each kind of serialization.
        (
            r"$a = new Point(7); $box = new Boxed($a); $pair = new Pair($a, [$box]);
           return Svc\async(fn ($x, $list, $one) => [$one->a === $x, $list['deep'][0] === $box, $box->a === $x, $pair->parts['a'] === $x, $pair->parts['b'][0] === $box], $a, ['deep' => [$box]], $box)->await();",
            "[true,true,true,true,true]",
        ),
        // A value that first occurs inside another object's own text.
        (
            r"$a = new Point(7); return Svc\async(fn ($box, $x, $other) => [$box->a === $x, $other->a === $x, $box !== $other, $x], new Boxed($a), $a, new Boxed($a))->await();",
            r#"[true,true,true,{"x":7}]"#,
        ),
        (
            r"$a = new stdClass; $a->box = new Boxed($a); $a->pair = new Pair([$a], new Boxed([new Boxed($a), $a]));
           [$back, $again] = Svc\async(same(...), [$a, $a->pair])->await();
           return [$back->box->a === $back, $back->pair === $again, $again->parts['a'][0] === $back, $again->parts['b']->a[0]->a === $back, $again->parts['b']->a[1] === $back];",
            "[true,true,true,true,true]",
        ),
        // Values after an object that has serialized itself.
        (
            r"$a = new Point(1); $b = new Point(2); $storage = new SplObjectStorage; $storage[$a] = $b; $list = new ArrayObject([$b, [$a]]);
           $boxes = [new Boxed(null), new Boxed([[1, 'x', 1.5, Suit::Hearts, Suit::Hearts, [$a, $a]]]), new Absent, new Boxed(new Boxed($b)), new Absent];
           $graph = [$a, $boxes, [$b, $storage, $list], new Pair($boxes, [$storage, $a]), new DateTime('2024-02-29'), $boxes, new Sleeps, [$list], $b];
           return [crosses($graph), crosses((object) $graph), crosses([$graph, array_reverse($graph)])];",
            "[true,true,true]",
        ),
        // An object that exists only during packing may have the address of another one.
        (
            r"$all = []; for ($i = 0; $i < 300; $i++) { $all[] = new Makes($i); $all[] = new Boxed(new Makes(-$i)); }
           return [crosses($all), array_sum(array_map(fn ($one) => $one instanceof Makes ? $one->made->x : 0, Svc\async(same(...), $all)->await()))];",
            "[true,44850]",
        ),
        // References inside objects.
        (
            r"$o = new stdClass; $n = 1; $o->list = [&$n, &$n, [&$n]]; $o->box = new Boxed([&$n]); $back = Svc\async(same(...), $o)->await(); $back->list[0] = 5; return [$back->list, $back->box->a];",
            "[[5,5,[5]],[5]]",
        ),
        // A serialization in progress elsewhere has separate state.
        (
            r"$a = new Point(1); $asks = new Asks($a); return [unserialize(serialize([$a, $asks, $a])) == [$a, $asks, $a], $asks->answer];",
            "[true,true]",
        ),
        // A settled task returns the same object again.
        (r"$task = Svc\async(fn () => new stdClass); return $task->await() === $task->await();", "true"),
        // Two dispatches have separate copies.
        (
            r"$a = new stdClass; [$x, $y] = Svc\await_all([Svc\async(same(...), $a), Svc\async(same(...), $a)]); return $x === $y;",
            "false",
        ),
    ];
    everywhere(&TaskServer::new(CLASSES), &cases);
}

#[test]
fn untransferable_values_are_refused_where_they_are_passed() {
    let cases = [
        (
            r"return Svc\async(same(...), ['user' => ['photo' => fopen('php://memory', 'r')]]);",
            r"Svc\Async\TransferException: argument 1 ['user']['photo']: a resource cannot be sent to a task",
        ),
        (
            r"return Svc\async(same(...), fopen('php://memory', 'r'));",
            r"Svc\Async\TransferException: argument 1: a resource cannot be sent to a task",
        ),
        (
            r"$closed = fopen('php://memory', 'r'); fclose($closed); return Svc\async(same(...), $closed);",
            r"Svc\Async\TransferException: argument 1: *",
        ),
        (
            r"return Svc\async(same(...), [3 => [fn () => 1]]);",
            r"Svc\Async\TransferException: argument 1 [3][0]: *",
        ),
        (
            r"$object = new stdClass; $object->list = [1, fn () => 1]; return Svc\async(same(...), $object);",
            r"Svc\Async\TransferException: argument 1 ->list[1]: *",
        ),
        (
            r"return Svc\async(same(...), (function () { yield 1; })());",
            r"Svc\Async\TransferException: argument 1: *",
        ),
        (
            r"return Svc\async(same(...), [Svc\async(fn () => 1)]);",
            r"Svc\Async\TransferException: argument 1 [0]: *Svc\Task*",
        ),
        (r"return Svc\async(same(...), new class { });", r"Svc\Async\TransferException: argument 1: *"),
        (
            r"return Svc\async(same(...), new ReflectionClass('stdClass'));",
            r"Svc\Async\TransferException: argument 1: *",
        ),
        (r"return Svc\async(same(...), new WeakMap);", r"Svc\Async\TransferException: argument 1: *"),
        (
            r"$file = fopen('php://memory', 'r'); return Svc\async(fn () => $file);",
            r"Svc\Async\TransferException: *$file*a resource cannot be sent to a task",
        ),
        (
            r"$list = ['f' => fn () => 1]; return Svc\async(function () use ($list) { return 1; });",
            r"Svc\Async\TransferException: *$list*['f']*",
        ),
        (
            r"$task = Svc\async(fn () => 1); return Svc\async(fn () => $task);",
            r"Svc\Async\TransferException: *$task*",
        ),
        // The exception from __serialize is the previous exception.
        (
            r"try { Svc\async(same(...), ['k' => new Refuses]); } catch (Svc\Async\TransferException $e) { return [str_starts_with($e->getMessage(), 'argument 1'), $e->getPrevious()::class, $e->getPrevious()->getMessage()]; }",
            r#"[true,"DomainException","not me"]"#,
        ),
        // PHP's serializer would write 0. The object is serialized once.
        (
            r"$before = Reveals::$calls; return [tried(fn () => Svc\async(same(...), ['k' => new Reveals])), Reveals::$calls - $before];",
            r#"["Svc\\Async\\TransferException: argument 1 ['k']: a resource cannot be sent to a task",1]"#,
        ),
        // On the other side: the task fails before its first line.
        (
            r"$task = Svc\async(fn ($x, $mark) => mark($mark), new RefusesThere, 'ran'); return [str_contains(tried(fn () => $task->await()), 'Exception: '), marked('ran')];",
            "[true,false]",
        ),
        // The result has to follow the same rules.
        (
            r"return Svc\async(fn () => fopen('php://memory', 'r'))->await();",
            r"Svc\Async\TransferException: *a resource*",
        ),
        (
            r"return Svc\async(fn () => ['a' => fn () => 1])->await();",
            r"Svc\Async\TransferException: *['a']*",
        ),
        (r"return Svc\async(fn () => new Refuses)->await();", r"Svc\Async\TransferException: *"),
    ];
    everywhere(&TaskServer::new(CLASSES), &cases);
}

#[test]
fn a_request_object_does_not_cross() {
    let code =
        CLASSES.to_owned() + r"function own() { return Svc\async(same(...), Svc\Request::current()); }";
    TaskServer::new(&code).in_each_mode(|server| {
        assert_like(&server.tell("own"), r"Svc\Async\TransferException: argument 1: *");
    });
}

#[test]
fn a_class_that_the_other_side_cannot_load_is_reported() {
    let boot = "class OnlyHere { public $x = 1; }
        function there() { return Svc\\async(fn ($object) => [mark('ran'), $object::class], new OnlyHere)->await(); }
        function nested() { return Svc\\async(fn ($object) => [mark('ran'), 1], ['list' => [new OnlyHere]])->await(); }
        function back() { return Svc\\async(back_there(...))->await(); }";
    let server = TaskServer::new("function back_there() { return new OnlyThere; }")
        .entry("class OnlyThere { public $x = 1; }");
    for mode in MODES {
        let running = server.start_with(mode, boot);
        for function in ["there", "nested"] {
            assert_like(&running.tell(function), r"Svc\Async\TransferException: *OnlyHere*");
        }
        assert!(!running.marked("ran"), "it fails before its first line");
        assert_like(&running.tell("back"), r"Svc\Async\TransferException: *OnlyThere*");
        assert_laws(&running.svc);
    }
}

#[test]
fn a_transfer_has_a_bound() {
    let cases = [
        (r"return strlen(Svc\async(same(...), str_repeat('x', 60000))->await());", "60000"),
        (r"return Svc\async(same(...), str_repeat('x', 70000));", r"Svc\Async\TransferException: *65536*"),
        (
            r"return Svc\async(same(...), str_repeat('x', 40000), str_repeat('y', 40000));",
            r"Svc\Async\TransferException: *65536*",
        ),
        (
            r"$big = str_repeat('x', 70000); return Svc\async(fn () => strlen($big));",
            r"Svc\Async\TransferException: *65536*",
        ),
        (r"return Svc\async(same(...), range(1, 100000));", r"Svc\Async\TransferException: *65536*"),
        (
            r"$big = new stdClass; $big->text = str_repeat('x', 70000); return Svc\async(same(...), $big);",
            r"Svc\Async\TransferException: *65536*",
        ),
        (
            r"return Svc\async(fn () => str_repeat('x', 70000))->await();",
            r"Svc\Async\TransferException: *65536*",
        ),
        (
            r"return Svc\async(fn () => throw new Exception(str_repeat('x', 200000)))->await();",
            r"Svc\Async\T*Exception: *",
        ),
        // Nothing remains of the failed transfer.
        (r"return Svc\async(same(...), 'next')->await();", r#""next""#),
    ];
    everywhere(&TaskServer::new(CLASSES).set("ASYNC_MAX_VALUE_BYTES", "65536"), &cases);
}

#[test]
fn sixty_four_mebibytes_are_the_bound_unless_it_is_set() {
    let cases = [
        (r"return strlen(Svc\async(same(...), str_repeat('x', 60 << 20))->await());", "62914560"),
        (
            r"return Svc\async(same(...), str_repeat('x', 65 << 20));",
            r"Svc\Async\TransferException: *67108864*",
        ),
    ];
    everywhere(&TaskServer::new(CLASSES).directive("memory_limit=1G"), &cases);
}
