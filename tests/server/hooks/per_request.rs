//! Svc\per_request(): an object with one instance per request.

use svc_testing::client::eventually;
use svc_testing::tasks::{MODES, Mode, TaskServer, TaskSvc, assert_like};

const CODE: &str = r#"
class Connection implements Countable, ArrayAccess, IteratorAggregate
{
    public static int $made = 0;
    public array $log = [];
    public ?Connection $next = null;
    protected $guarded = 'guarded';
    private $secret = 'secret';
    public readonly int $id;
    public ?int $number = null;
    public array $unset;
    public int $missing;
    public function __construct() { $this->id = ++self::$made; }
    public function __destruct() { mark('closed', (string) $this->id); }
    public function id(): int { return $this->id; }
    public function add(string $entry): static { $this->log[] = $entry; return $this; }
    public function fill(&$variable, int ...$numbers): void { $variable = array_sum($numbers); }
    final public function last(): string { return 'final'; }
    public static function name(): string { return 'static'; }
    public function __get($name) { return "magic $name"; }
    public function __call($name, $arguments) { return "$name()"; }
    public function __toString(): string { return 'text'; }
    public function __invoke($x) { return $x * 2; }
    public function count(): int { return 7; }
    public function offsetExists($offset): bool { return $offset === 'there'; }
    public function offsetGet($offset): mixed { return "at $offset"; }
    public function offsetSet($offset, $value): void { $this->log[] = "$offset=$value"; }
    public function offsetUnset($offset): void { $this->log[] = "-$offset"; }
    public function getIterator(): Iterator { return new ArrayIterator(['a' => 1, 'b' => 2]); }
    private function hidden() { return 'hidden'; }
}
interface Clock { const ZONE = 'UTC'; public function now(): int; }
abstract class Shape { abstract protected function area(): int; public function describe() { return "area {$this->area()}"; } }
class Plain { public $a = 1; protected $b = 2; public function __construct(public int $c = 3) { } }
/** A list in PHP. */
class Bag implements ArrayAccess, Countable, IteratorAggregate
{
    private array $items = [1, 2, 3];
    public function offsetExists($k): bool { return isset($this->items[$k]); }
    public function offsetGet($k): mixed { return $this->items[$k]; }
    public function offsetSet($k, $v): void { if ($k === null) { $this->items[] = $v; } else { $this->items[$k] = $v; } }
    public function offsetUnset($k): void { unset($this->items[$k]); }
    public function count(): int { return count($this->items); }
    public function getIterator(): Iterator { return new ArrayIterator($this->items); }
}
final class Last { }
enum Suit { case Spades; }
trait Part { }
readonly class Fixed { public function __construct(public int $value) { } }

class Values { const SEVEN = 7; }
class Computed { public $seven = Values::SEVEN; public array $list = [Values::SEVEN, self::class]; public function list() { return $this->list; } }
class Uncomputable { public $nothing = Values::NOTHING; }

function make(string $class): object
{
    return match ($class) {
        'Connection' => Svc\per_request(Connection::class, fn () => new Connection(), max: 2),
        'Kept' => Svc\per_request(Connection::class, fn () => new Connection(), kept(...), 2),
        'Failing' => Svc\per_request(Connection::class, function () { throw new DomainException('no connection'); }),
        'Wrong' => Svc\per_request(Connection::class, fn () => new Plain()),
        'Itself' => Svc\per_request(Connection::class, fn () => objects('Itself')->next ?? new Connection()),
        'Clock' => Svc\per_request(Clock::class, fn () => new class implements Clock { public function now(): int { return 42; } }),
        'Shape' => Svc\per_request(Shape::class, fn () => new class extends Shape { protected function area(): int { return 6; } }),
        'Plain' => Svc\per_request('plain', fn () => new Plain()),
        'Computed' => Svc\per_request(Computed::class, fn () => new Computed()),
        'Fixed' => Svc\per_request(Fixed::class, fn () => new Fixed(5)),
        'Bag' => Svc\per_request(Bag::class, fn () => new Bag()),
        'PDO' => Svc\per_request(PDO::class, fn () => new PDO('sqlite::memory:'), max: 4),
        'Failed reset' => Svc\per_request(Connection::class, fn () => new Connection(), function () { throw new DomainException('reset'); }),
        'Left', 'Right' => Svc\per_request(Connection::class, fn () => new Connection(), fn () => true, 1),
        'Cyclic' => Svc\per_request(Cyclic::class, fn () => new Cyclic()),
        'Kept cyclic' => Svc\per_request(Cyclic::class, fn () => new Cyclic(), fn () => true, 1),
        'Clinging' => Svc\per_request(Clinging::class, fn () => new Clinging(), fn ($c) => $c === objects('Clinging')->add('in reset') && false, 1),
        'Closed with destructor' => Svc\per_request(Connection::class, fn () => new Connection(), fn () => false, 1),
        'Reset once more' => Svc\per_request(Connection::class, fn () => new Connection(), function ($c) { mark('reset'); $c->log = []; return true; }, 1),
        'Jumping reset' => Svc\per_request(Connection::class, fn () => new Connection(), function () { mark('reset'); set_time_limit(1); while (true) { } }, 1),
        'Fatal reset' => Svc\per_request(Connection::class, fn () => new Connection(), function () { undefined(); }),
    };
}
function kept(Connection $connection): bool { $connection->log = []; $kept = !marked('refuse'); mark('reset'); return $kept; }
/** The object of this class: one for the whole thread. */
function objects(string $class): object { return Objects::$all[$class] ??= make($class); }
class Objects { public static array $all = []; public static $held; }
foreach (['Connection', 'Kept', 'Clock', 'PDO'] as $class) { objects($class); }

function behaves()
{
    $c = objects('Connection');
    $c->fill($sum, 1, 2, numbers: 3);
    $c['there'] = 'x';
    unset($c['there']);
    $c->log[] = 'indirect';
    $c->next = new Connection();
    $method = $c->add(...);
    $method('closure');
    call_user_func([$c, 'add'], 'callable');
    [$c, 'add']('array');
    (new ReflectionMethod(Connection::class, 'add'))->invoke($c->add('reflection'), 'invoked');
    $reference = &$c->log;
    $reference[] = 'reference';
    unset($reference);
    return [
        $sum, $c->log, $c->last(), $c::name(), $c->name(), $c->unknown, $c->unknown(), "$c", $c(4), count($c), $c['there'], isset($c['there'], $c->log),
        isset($c['not there']), isset($c->nothing), empty($c->log), iterator_to_array($c), $c instanceof Connection, is_callable([$c, 'id']),
        is_callable([$c, 'add']), method_exists($c, 'id'), $c === objects('Connection'), $c == clone $c, (clone $c)->id === $c->id, $c->next->id > $c->id,
        tried(fn () => $c->hidden()), tried(fn () => $c->id = 5), tried(fn () => serialize($c)),
    ];
}
function keeps_types()
{
    $c = objects('Connection');
    $log = &$c->log;
    $number = &$c->number;
    $number = '5';
    $c->unset['a']['b'] = 1;
    $name = 'number';
    return [
        tried(function () use (&$log) { $log = 'text'; }), tried(function () use (&$number) { $number = 'text'; }), tried(function () use ($c) { $c->number[] = 1; }),
        tried(function () use ($c, $name) { $reference = &$c->$name; $reference = []; }), tried(function () use ($c) { $reference = &$c->missing; }),
        $c->log, $c->number, $c->unset, isset($c->missing),
    ];
}
function looks()
{
    $c = objects('Plain');
    $before = print_r($c, true);
    $c->a = 10;
    $c->c++;
    $seen = [];
    foreach ($c as $name => $value) { $seen[$name] = $value; }
    return [$before, print_r($c, true), $seen, (array) $c, get_object_vars($c), json_encode($c), var_export($c, true)];
}
function fits()
{
    $clock = objects('Clock');
    $list = objects('Bag');
    $list[] = 4;
    $pdo = objects('PDO');
    $pdo->exec('CREATE TABLE t (x); INSERT INTO t VALUES (1), (2)');
    return [
        (fn (Clock $clock) => $clock->now())($clock), $clock::ZONE, objects('Shape')->describe(), tried(fn () => objects('Shape')->area()), objects('Fixed')->value,
        tried(fn () => objects('Fixed')->value = 6), count($list), array_sum(iterator_to_array($list)), objects('Computed')->list(), objects('Computed')->seven, $pdo->query('SELECT sum(x) FROM t')->fetchColumn(), get_class($pdo),
    ];
}
function refused()
{
    return array_map(tried(...), [
        fn () => Svc\per_request('Last', fn () => 1), fn () => Svc\per_request('Suit', fn () => 1), fn () => Svc\per_request('Part', fn () => 1),
        fn () => Svc\per_request('Nowhere', fn () => 1), fn () => Svc\per_request('Plain', fn () => 1, null, 0), fn () => Svc\per_request('Plain', 'nothing'),
        fn () => Svc\per_request('Uncomputable', fn () => 1),
        fn () => objects('Failing')->id(), fn () => objects('Wrong')->id(), fn () => objects('Itself')->id(), fn () => objects('Failing')->log, fn () => count(objects('Failing')),
        function () { foreach (objects('Failing') as $x) { } }, fn () => clone objects('Failing'), fn () => (string) objects('Failing'),
    ]);
}
/** Uses its connection, waits for the test, and uses it again. */
function holds(string $n)
{
    $id = objects('Connection')->id();
    mark('holding', (string) $id);
    until("go-$n");
    return [$id === objects('Connection')->add('x')->id(), $id];
}
function id() { return objects('Connection')->id(); }
function kept_id() { return objects('Kept')->add('of the request')->id(); }
function kept_log() { return objects('Kept')->log; }
function keeps_reference() { $held = &Objects::$held; $held = objects('Kept')->add('x'); return $held->id(); }
function dies() { objects('Kept')->id(); undefined(); }
function resets(string $n) { return [objects('Failed reset')->id(), objects('Fatal reset')->id()]; }
class Cyclic extends Connection
{
    private $self;
    public function __construct(public ?string $left = null) { parent::__construct(); $this->self = $this; }
}
/** Uses its request's connection while that is reset, and while it is closed. */
class Clinging extends Connection
{
    public function __destruct() { mark('clinging', tried(fn () => objects('Clinging')->id)); parent::__destruct(); }
}
function cyclic() { return objects('Cyclic')->id(); }
function kept_cyclic() { return objects('Kept cyclic')->id(); }
function kept_clinging() { return objects('Clinging')->id(); }
function reset_once_more() { objects('Closed with destructor')->next = new class extends Connection { public function __destruct() { objects('Reset once more')->add('of a destructor'); } }; return objects('Reset once more')->add('of the request')->log; }
function reset_log() { return objects('Reset once more')->log; }
function jumps_in_reset() { return objects('Jumping reset')->id(); }
/** Takes two connections that all requests share. */
function takes(string $n)
{
    [$first, $second] = $n === 'left' ? ['Left', 'Right'] : ['Right', 'Left'];
    $id = objects($first)->id();
    mark('has', $n);
    until('go');
    return [$id, tried(fn () => objects($second)->id())];
}
class Late { public function __destruct() { mark('late', (string) objects('Connection')->id()); } }
function in_destructor()
{
    $late = new Late;
    register_shutdown_function(function () use ($late) { mark('late', (string) objects('Connection')->id()); });
    return objects('Connection')->id();
}
function waits_too_long() { set_time_limit(4); return objects('Connection')->id(); }
function collected() { $c = Svc\per_request(Plain::class, function () use (&$c) { return new Plain(); }); $c->a = 3; unset($c); return gc_collect_cycles() >= 0; }
"#;

fn server() -> TaskServer {
    TaskServer::new(CODE).set("PHP_WORKERS", "1").set("ASYNC_WORKERS", "1").set("RUNTIME_HOOKS", "all")
}

fn ids(server: &TaskSvc, name: &str) -> Vec<String> {
    server.lines(name)
}

#[test]
fn the_object_is_the_instance_of_the_request() {
    let server = server();
    for mode in MODES {
        let server = server.start(mode);
        let expected = concat!(
            r#"[6,["there=x","-there","indirect","closure","callable","array","reflection","invoked","reference"],"#,
            r#""final","static","static","magic unknown","unknown()","text",8,7,"at there",true,false,false,false,{"a":1,"b":2},"#,
            r#"true,true,true,true,true,true,true,true,"\"hidden()\"","Error: Cannot modify readonly property Connection::$id","#,
            r#""Exception: Serialization of 'Svc\\PerRequest\\Connection' is not allowed"]"#
        );
        let answer = server.tell("behaves").replace("\\\\\\\\", "\\\\");
        assert_eq!(answer, expected, "{mode:?}");
        assert_eq!(
            server.tell("behaves").replace("\\\\\\\\", "\\\\"),
            expected,
            "the next request begins anew"
        );
    }
}

#[test]
fn references_to_properties_keep_to_their_types() {
    server().in_each_mode(|server| {
        let answer: serde_json::Value = serde_json::from_str(&server.tell("keeps_types")).unwrap();
        let expected = [
            "TypeError: Cannot assign string to reference held by property Connection::$log of type array",
            "TypeError: Cannot assign string to reference held by property Connection::$number of type ?int",
            "Error: Cannot use a scalar value as an array",
            "TypeError: Cannot assign array to reference held by property Connection::$number of type ?int",
            "Error: Cannot access uninitialized non-nullable property Connection::$missing by reference",
        ];
        for (i, expected) in expected.into_iter().enumerate() {
            assert_eq!(answer[i], expected);
        }
        let rest = &answer.as_array().unwrap()[5..];
        assert_eq!(rest, [serde_json::json!([]), 5.into(), serde_json::json!({"a": {"b": 1}}), false.into()]);
    });
}

#[test]
fn introspection_sees_the_instance() {
    server().in_each_mode(|server| {
        let answer: serde_json::Value = serde_json::from_str(&server.tell("looks")).unwrap();
        assert_eq!(answer[0], "Svc\\PerRequest\\Plain Object\n(\n)\n");
        assert_like(answer[1].as_str().unwrap(), "*[a] => 10*[b:protected] => 2*[c] => 4*");
        assert_eq!(answer[2], serde_json::json!({"a": 10, "c": 4}));
        assert_eq!(answer[3], serde_json::json!({"a": 10, "\0*\0b": 2, "c": 4}));
        assert_eq!(answer[4], serde_json::json!({"a": 10, "c": 4}));
        assert_eq!(answer[5], r#"{"a":10,"c":4}"#);
        assert_like(answer[6].as_str().unwrap(), "*'a' => 10*");
    });
}

#[test]
fn interfaces_and_classes_of_all_kinds_fit() {
    server().in_each_mode(|server| {
        assert_like(
            &server.tell("fits"),
            r#"[42,"UTC","area 6","Error: Call to protected method*",5,"Error: Cannot modify readonly property Fixed::$value",4,10,[7,"Computed"],7,3,"Svc\\PerRequest\\PDO"]"#,
        );
    });
}

#[test]
fn unsupported_classes_and_arguments_are_refused() {
    server().in_each_mode(|server| {
        let answer: Vec<String> = serde_json::from_str(&server.tell("refused")).unwrap();
        let expected = [
            "InvalidArgumentException: *Last is final",
            "InvalidArgumentException: *Suit is an enum",
            "InvalidArgumentException: *Part is a trait",
            "InvalidArgumentException: Class \"Nowhere\" does not exist",
            "ValueError: *Argument #4 ($max) must be between 1 and 65536",
            "TypeError: *",
            "Error: Undefined constant Values::NOTHING",
            "DomainException: no connection",
            "TypeError: The factory of Svc\\per_request() must return an instance of Connection, Plain returned",
            "Error: The factory of Svc\\per_request() uses the object that it makes an instance for",
        ];
        for (answer, expected) in answer.iter().zip(expected) {
            assert_like(answer, expected);
        }
        assert!(answer[10..].iter().all(|answer| answer == "DomainException: no connection"), "{answer:?}");
        assert_eq!(answer.len(), 15);
        assert_eq!(server.tell("collected"), "true");
    });
}

#[test]
fn a_boot_script_makes_it_and_cannot_use_it() {
    let boot = "file_put_contents(DIR . '/boot', tried(fn () => objects('Connection')->id()));";
    let server = server().start_with(Mode::Worker, boot);
    assert_eq!(server.tell("id"), "1");
    let said = std::fs::read_to_string(server.path("boot")).unwrap();
    assert_like(&said, "LogicException: Connection has an instance for each request*");
}

#[test]
fn requests_have_instances_of_their_own_and_wait_in_order_for_more() {
    let server = server().start(Mode::Worker);
    let fibers = r#"svc_worker_request_fibers_active{worker="0"}"#;
    // In sequence, so that they arrive in this order.
    let arrives = |function: &str, n: u32| {
        let client = server.send(function, &n.to_string());
        eventually("it runs as far as it can", || {
            server.svc.metric(fibers) == f64::from(n + 1)
                && (n > 1 || ids(&server, "holding").len() as u32 == n + 1)
        });
        client
    };
    let mut clients: Vec<_> = (0..2).map(|n| arrives("holds", n)).collect();
    assert_eq!(ids(&server, "holding"), ["1", "2"], "two hold one each");
    // All are in use: two more requests wait, and a third one has a time limit.
    let mut waiting: Vec<_> = (2..4).map(|n| arrives("holds", n)).collect();
    let mut late = arrives("waits_too_long", 4);
    assert_eq!(late.response().status, 504);
    assert_eq!(ids(&server, "holding").len(), 2);
    server.mark("go-1");
    assert_eq!(clients[1].response().text(), "[true,2]");
    eventually("the first in line is next", || ids(&server, "holding") == ["1", "2", "3"]);
    assert_eq!(ids(&server, "closed"), ["2"], "closed at the end of its request");
    for n in [0, 2, 3] {
        server.mark(&format!("go-{n}"));
    }
    assert_eq!(clients[0].response().text(), "[true,1]");
    let answers: Vec<_> = waiting.iter_mut().map(|client| client.response().text()).collect();
    assert_eq!(answers, ["[true,3]", "[true,4]"]);
    eventually("all are closed", || ids(&server, "closed").len() == 4);
}

#[test]
fn requests_that_wait_for_each_others_instances_do_not_wait_for_ever() {
    let server = server().start(Mode::Worker);
    let [mut left, mut right] = ["left", "right"].map(|n| {
        let client = server.send("takes", n);
        eventually("it has one", || ids(&server, "has").contains(&n.to_owned()));
        client
    });
    server.mark("go");
    // The younger request fails, and the older one gets its connection.
    assert_eq!(
        right.response().text(),
        r#"[2,"Svc\\ConnectionBusyError: All 1 instances of Connection are in use by requests that wait for this one"]"#
    );
    assert_eq!(left.response().text(), r#"[1,"2"]"#);
}

#[test]
fn an_instance_that_was_reset_is_used_again() {
    let server = server().start(Mode::Worker);
    let first = server.tell("kept_id");
    assert_eq!(server.tell("kept_log"), "[]");
    assert_eq!(server.tell("kept_id"), first);
    eventually("the last request has ended", || ids(&server, "reset").len() == 3);
    server.mark("refuse");
    assert_eq!(server.tell("kept_id"), first);
    eventually("it is closed, because reset said no", || ids(&server, "closed") == [first.as_str()]);
    assert_ne!(server.tell("kept_id"), first);
    eventually("so has that one", || ids(&server, "reset").len() == 5);
    std::fs::remove_file(server.path("refuse")).unwrap();
    // Other references to it do not matter.
    let held = server.tell("keeps_reference");
    assert_eq!(server.tell("kept_id"), held);
}

#[test]
fn an_instance_that_refers_to_itself_is_used_again_or_closed_with_its_request() {
    let server = server().start(Mode::Worker);
    assert_eq!(server.tell("kept_cyclic"), "1");
    assert_eq!(server.tell("kept_cyclic"), "1");
    assert_eq!(server.tell("cyclic"), "2");
    eventually("it is closed", || ids(&server, "closed") == ["2"]);
}

#[test]
fn a_destructor_that_uses_a_kept_instance_has_it_reset_once_more() {
    let server = server().start(Mode::Worker);
    assert_eq!(server.tell("reset_once_more"), r#"["of the request"]"#);
    assert_eq!(server.tell("reset_log"), "[]");
    eventually("twice, and once for the request that looked", || ids(&server, "reset").len() == 3);
}

#[test]
fn an_instance_is_there_while_it_is_reset_and_no_more_while_it_is_closed() {
    let server = server().start(Mode::Worker);
    for id in ["1", "2"] {
        assert_eq!(server.tell("kept_clinging"), id);
        eventually("it is closed", || ids(&server, "closed").last().is_some_and(|closed| closed == id));
    }
    for said in ids(&server, "clinging") {
        assert_eq!(
            said,
            "LogicException: Clinging has an instance for each request, and that of this request is being closed"
        );
    }
}

#[test]
fn a_reset_that_is_cut_short_is_not_tried_again() {
    let server = server().start(Mode::Worker);
    assert_eq!(server.tell("jumps_in_reset"), "1");
    assert_eq!(server.tell("id"), "1", "of a new worker");
    assert_eq!(ids(&server, "reset").len(), 1);
}

#[test]
fn a_fatal_error_and_a_failing_reset_cost_the_instance() {
    let server = server().start(Mode::Worker);
    assert_eq!(server.tell("resets"), "[1,2]");
    eventually("both are closed", || ids(&server, "closed").len() == 2);
    assert_eq!(server.svc.get("/?do=dies&raw").status, 500);
    assert_like(&server.tell("kept_id"), "*");
    let said = server.tell("id");
    assert!(said.parse::<u32>().is_ok(), "{said}");
}

#[test]
fn destructors_use_the_instance_of_their_request() {
    let server = server().start(Mode::Worker);
    let id = server.tell("in_destructor");
    eventually("it is closed last", || ids(&server, "closed") == [id.as_str()]);
    assert_eq!(ids(&server, "late"), [id.as_str(), id.as_str()]);
}

#[test]
fn tasks_have_instances_as_well() {
    let server = server().start(Mode::Classic);
    assert_eq!(server.tell_in_task("kept_id"), "1");
    assert_eq!(server.tell_in_task("kept_id"), "1");
    assert_eq!(server.tell_in_task("kept_log"), "[]");
}
