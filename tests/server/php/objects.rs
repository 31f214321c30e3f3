//! Objects of the server's own classes, however PHP creates them.
#![cfg(all(feature = "async", feature = "trace"))]

use serde_json::{Value, json};
use svc_testing::databases::{self, Database, PASSWORD, USER};
use svc_testing::tasks::TaskServer;

const CODE: &str = r#"
/** The classes of the extension: a new class is tested without an entry here. */
function own_classes(): array { return array_keys((new ReflectionExtension('svc'))->getClasses()); }
function memory(): PDO { return new PDO('sqlite::memory:', null, null, [PDO::ATTR_ERRMODE => PDO::ERRMODE_EXCEPTION]); }
function row(string $class, int $mode, ...$rest) { $rows = memory()->query('SELECT ' . memory()->quote($class) . ' AS class, 7 AS id, 8 AS message'); $rows->setFetchMode($mode, ...$rest); return $rows->fetch(); }
class Wrapper { public static int $n = 0; }
/** Ways to an object of a class without its constructor. */
function ways(): array
{
    $ways = [
        'new' => fn ($class) => new $class,
        'newInstance' => fn ($class) => (new ReflectionClass($class))->newInstance(),
        'newInstanceArgs' => fn ($class) => (new ReflectionClass($class))->newInstanceArgs([]),
        'newInstanceWithoutConstructor' => fn ($class) => (new ReflectionClass($class))->newInstanceWithoutConstructor(),
        'unserialize O' => fn ($class) => unserialize(sprintf('O:%d:"%s":0:{}', strlen($class), $class)),
        'unserialize O with properties' => fn ($class) => unserialize(sprintf('O:%d:"%s":2:{s:2:"id";i:7;s:7:"message";i:8;}', strlen($class), $class)),
        'unserialize C' => fn ($class) => unserialize(sprintf('C:%d:"%s":0:{}', strlen($class), $class)),
        'unserialize E' => fn ($class) => unserialize(sprintf('E:%d:"%s:x";', strlen($class) + 2, $class)),
        'fetchObject' => fn ($class) => memory()->query('SELECT 7 AS id, 8 AS message')->fetchObject($class),
        'fetchObject without columns' => fn ($class) => memory()->query('SELECT 7 AS "a b"')->fetchObject($class),
        'FETCH_CLASS' => fn ($class) => row($class, PDO::FETCH_CLASS, $class),
        'FETCH_PROPS_LATE' => fn ($class) => row($class, PDO::FETCH_CLASS | PDO::FETCH_PROPS_LATE, $class),
        'FETCH_CLASSTYPE' => fn ($class) => row($class, PDO::FETCH_CLASS | PDO::FETCH_CLASSTYPE),
        'FETCH_CLASSTYPE in fetchAll' => fn ($class) => memory()->query('SELECT ' . memory()->quote($class) . ', 7 AS id UNION ALL SELECT ' . memory()->quote($class) . ', 8')->fetchAll(PDO::FETCH_CLASS | PDO::FETCH_CLASSTYPE)[0],
        'FETCH_CLASSTYPE in foreach' => function ($class) { foreach (memory()->query('SELECT ' . memory()->quote($class) . ', 7 AS id', PDO::FETCH_CLASS | PDO::FETCH_CLASSTYPE, null) as $row) { return $row; } },
        'FETCH_SERIALIZE' => fn ($class) => row($class, PDO::FETCH_CLASS | PDO::FETCH_CLASSTYPE | PDO::FETCH_PROPS_LATE),
        'statement class' => function ($class) { $pdo = memory(); $pdo->setAttribute(PDO::ATTR_STATEMENT_CLASS, [$class]); return $pdo->query('SELECT 1'); },
        'DOM node class' => function ($class) { $d = new DOMDocument; $d->registerNodeClass('DOMElement', $class); return $d->createElement('x'); },
        'SimpleXML' => fn ($class) => simplexml_load_string('<x/>', $class),
        'ArrayObject iterator' => fn ($class) => (new ArrayObject([1], 0, $class))->getIterator(),
        'SplFileInfo' => fn ($class) => (new SplFileInfo(__FILE__))->getFileInfo($class),
        'stream wrapper' => function ($class) { stream_wrapper_register('made', $class); try { return fopen('made://x', 'r'); } finally { stream_wrapper_unregister('made'); } },
        'stream filter' => function ($class) { stream_filter_register("made.$class", $class); return stream_filter_append(fopen('php://memory', 'r'), "made.$class"); },
        'sub class' => function ($class) { $name = 'Below' . ++Wrapper::$n; if ((new ReflectionClass($class))->isFinal()) { throw new Error('PHP ends the script'); } eval("class $name extends \\$class { public function __construct() { } }"); return new $name; },
        '__set_state' => fn ($class) => $class::__set_state(['id' => 7]),
        'clone of one that exists' => fn ($class) => clone existing($class),
        'alias' => function ($class) { $name = 'Alias' . ++Wrapper::$n; class_alias($class, $name); return new $name; },
        'the class of an exception' => fn ($class) => new (get_class(existing($class))),
    ];
    if (method_exists(ReflectionClass::class, 'newLazyGhost')) {
        $ways += [
            'lazy ghost' => function ($class) { $o = (new ReflectionClass($class))->newLazyGhost(fn () => null); (new ReflectionClass($class))->initializeLazyObject($o); return $o; },
            'lazy proxy' => function ($class) { $o = (new ReflectionClass($class))->newLazyProxy(fn ($o) => existing($class)); (new ReflectionClass($class))->initializeLazyObject($o); return $o; },
            'reset as lazy ghost' => function ($class) { $o = existing($class); (new ReflectionClass($class))->resetAsLazyGhost($o, fn () => null); return $o; },
            'reset as lazy proxy' => function ($class) { $o = existing($class); (new ReflectionClass($class))->resetAsLazyProxy($o, fn () => existing($class)); return $o; },
        ];
    }
    defined('MYSQL') && $ways += mysql_ways();
    defined('PGSQL') && $ways += pgsql_ways();
    if (class_exists('SoapClient')) { $ways['SOAP class map'] = fn ($class) => new SoapServer(null, ['uri' => 'x', 'classmap' => ['x' => $class]]) ? throw new Error('no object') : null; }
    return $ways;
}
/** The first row of a class that the row itself names. */
function named_row(PDO $base, string $class, int $mode) { return $base->query('SELECT ' . $base->quote($class) . ', 7 AS id, 8 AS message')->fetch(PDO::FETCH_CLASS | PDO::FETCH_CLASSTYPE | $mode); }
function mysql_ways(): array
{
    static $base, $pdo;
    $base ??= new mysqli(MYSQL['HOST'], MYSQL['USER'], MYSQL['PASSWORD'], MYSQL['NAME'], MYSQL['PORT']);
    $pdo ??= new PDO(MYSQL['DSN'], MYSQL['USER'], MYSQL['PASSWORD']);
    $rows = fn (int $mode = MYSQLI_STORE_RESULT) => $base->query('SELECT 7 AS id, 8 AS message', $mode);
    return [
        'mysqli fetch_object' => fn ($class) => $rows()->fetch_object($class),
        'mysqli fetch_object with arguments' => fn ($class) => $rows()->fetch_object($class, ['made']),
        'mysqli fetch_object of no column of a property' => fn ($class) => $base->query('SELECT 7 AS `a b`')->fetch_object($class),
        'mysqli fetch_object, unbuffered' => fn ($class) => $rows(MYSQLI_USE_RESULT)->fetch_object($class),
        'mysqli fetch_object, prepared' => fn ($class) => $base->execute_query('SELECT ? AS id', [7])->fetch_object($class),
        'mysqli_fetch_object' => fn ($class) => mysqli_fetch_object($rows(), $class),
        'PDO of MySQL, fetchObject' => fn ($class) => $pdo->query('SELECT 7 AS id')->fetchObject($class),
        'PDO of MySQL, FETCH_CLASSTYPE' => fn ($class) => named_row($pdo, $class, 0),
        'PDO of MySQL, FETCH_CLASSTYPE and FETCH_PROPS_LATE' => fn ($class) => named_row($pdo, $class, PDO::FETCH_PROPS_LATE),
    ];
}
function pgsql_ways(): array
{
    static $base, $pdo;
    $base ??= pg_connect(sprintf('host=%s port=%d dbname=%s user=%s password=%s', PGSQL['HOST'], PGSQL['PORT'], PGSQL['NAME'], PGSQL['USER'], PGSQL['PASSWORD']));
    $pdo ??= new PDO(PGSQL['DSN'], PGSQL['USER'], PGSQL['PASSWORD']);
    $rows = fn () => pg_query($base, 'SELECT 7 AS id, 8 AS message');
    return [
        'pg_fetch_object' => fn ($class) => pg_fetch_object($rows(), null, $class),
        'pg_fetch_object of a row' => fn ($class) => pg_fetch_object($rows(), 0, $class),
        'pg_fetch_object with arguments' => fn ($class) => pg_fetch_object($rows(), null, $class, ['made']),
        'pg_fetch_object of no column of a property' => fn ($class) => pg_fetch_object(pg_query($base, 'SELECT 7 AS "a b"'), null, $class),
        'PDO of PostgreSQL, fetchObject' => fn ($class) => $pdo->query('SELECT 7 AS id')->fetchObject($class),
        'PDO of PostgreSQL, FETCH_CLASSTYPE' => fn ($class) => named_row($pdo, $class, 0),
        'PDO of PostgreSQL, FETCH_CLASSTYPE and FETCH_PROPS_LATE' => fn ($class) => named_row($pdo, $class, PDO::FETCH_PROPS_LATE),
    ];
}
/** What each method of a task does when a row of a database names its class. */
function methods_of_rows(): array
{
    $seen = [];
    $ways = ['PDO' => fn ($class) => row($class, PDO::FETCH_CLASS | PDO::FETCH_CLASSTYPE)] + (defined('MYSQL') ? mysql_ways() : []) + (defined('PGSQL') ? pgsql_ways() : []);
    foreach ($ways as $way => $make) {
        foreach (get_class_methods(Svc\Task::class) as $method) { $seen[$way][$method] = tried(fn () => $make(Svc\Task::class)->$method()); }
    }
    return $seen;
}
/** An object as svc creates it; exceptions can be created by any code. */
function existing(string $class): object
{
    return match ($class) {
        'Svc\Task' => Svc\async(fn () => 7),
        'Svc\Request' => Svc\Request::current(),
        'Svc\Worker' => Svc\Worker::current(),
        'Svc\Trace\Span' => Svc\Trace\current(),
        default => new $class('made'),
    };
}
/** All operations on an object. */
function uses(): array
{
    return [
        'var_dump' => function ($o) { ob_start(); try { var_dump($o); } finally { ob_end_clean(); } },
        'debug_zval_dump' => function ($o) { ob_start(); try { debug_zval_dump($o); } finally { ob_end_clean(); } },
        'print_r' => fn ($o) => print_r($o, true),
        'var_export' => fn ($o) => var_export($o, true),
        'serialize' => fn ($o) => serialize($o),
        'json_encode' => fn ($o) => json_encode($o),
        'array' => fn ($o) => (array) $o,
        'string' => fn ($o) => (string) $o,
        'int' => fn ($o) => @(int) $o,
        'float' => fn ($o) => @(float) $o,
        'bool' => fn ($o) => (bool) $o,
        'clone' => fn ($o) => clone $o,
        'foreach' => function ($o) { foreach ($o as $k => $v) { } },
        'foreach by reference' => function ($o) { foreach ($o as $k => &$v) { } },
        'get_object_vars' => fn ($o) => get_object_vars($o),
        'get_mangled_object_vars' => fn ($o) => get_mangled_object_vars($o),
        'equal' => fn ($o) => [$o == $o, $o == new stdClass, $o == existing(get_class($o)), $o <=> existing(get_class($o)), $o == 1, $o == 'x', $o == null],
        'count' => fn ($o) => count($o),
        'call' => fn ($o) => $o(),
        'dimension' => fn ($o) => [isset($o['x']), $o['x']],
        'write dimension' => function ($o) { $o['x'] = 1; },
        'unset dimension' => function ($o) { unset($o['x']); },
        'iterator_to_array' => fn ($o) => iterator_to_array($o),
        'ArrayObject' => fn ($o) => [count(new ArrayObject($o)), iterator_to_array(new ArrayIterator($o))],
        'array_walk' => function ($o) { array_walk($o, fn () => null); },
        'WeakMap' => function ($o) { $map = new WeakMap; $map[$o] = 1; return WeakReference::create($o)->get() === $o; },
        'SplObjectStorage' => fn ($o) => (new SplObjectStorage)->attach($o),
        'properties' => function ($o) {
            $seen = [];
            foreach ([...array_map(fn ($p) => $p->name, (new ReflectionClass($o))->getProperties()), 'body', 'method', 'nothing'] as $name) {
                foreach ([fn () => $o->$name, fn () => isset($o->$name), fn () => empty($o->$name), function () use ($o, $name) { $o->$name = 1; }, function () use ($o, $name) { $o->$name[] = 1; }, function () use ($o, $name) { $r = &$o->$name; }, function () use ($o, $name) { unset($o->$name); }, function () use ($o, $name) { $o->$name++; }] as $access) {
                    try { $seen[] = $access(); } catch (Throwable $e) { $seen[] = get_class($e); }
                }
            }
            foreach ((new ReflectionClass($o))->getProperties() as $property) {
                try { $seen[] = [$property->isInitialized($o), $property->getValue($o)]; } catch (Throwable $e) { $seen[] = get_class($e); }
            }
            return count($seen);
        },
        'unset in its scope' => function ($o) {
            for ($class = get_class($o); $class; $class = get_parent_class($class)) {
                foreach ((new ReflectionClass($class))->getProperties() as $property) {
                    try { Closure::bind(function () use ($property) { unset($this->{$property->name}); }, $o, $class)(); } catch (Throwable) { }
                }
            }
        },
        'gc' => function ($o) { $o = [$o]; $o[] = &$o; unset($o); return gc_collect_cycles(); },
        'task' => fn ($o) => Svc\async(fn ($o) => 1, $o)->await(),
        'await' => fn ($o) => Svc\await_all([$o], 0.01),
        'span' => fn ($o) => Svc\Trace\span('x', fn () => 1, ['o' => $o]),
        'throw' => fn ($o) => throw $o,
    ];
}
/** Arguments for a method: none, and one of each kind. */
function arguments(ReflectionMethod $method): array
{
    $one = array_map(fn ($parameter) => match ((string) $parameter->getType()) {
        'string' => 'x', 'int' => 1, '?float', 'float' => 0.001, 'array' => [], 'Throwable' => new Exception, '?Throwable' => new Exception, default => 'x',
    }, $method->getParameters());
    return [[], $one, array_fill(0, count($one), null), array_fill(0, count($one) + 1, new stdClass)];
}
/** Calls all methods in every way to call a method. */
function calls_methods(object $o): int
{
    $calls = 0;
    foreach ((new ReflectionClass($o))->getMethods() as $method) {
        foreach (arguments($method) as $arguments) {
            $name = $method->name;
            // These end the worker.
            if ($name === 'scheduleExit' || $name === 'serve') { continue; }
            foreach ([
                fn () => $o->$name(...$arguments), fn () => $method->invokeArgs($o, $arguments), fn () => call_user_func_array([$o, $name], $arguments), fn () => $o->$name(...)(...$arguments),
                fn () => $method->getClosure($o)(...$arguments), fn () => Closure::fromCallable([$o, $name])(...$arguments), fn () => Closure::bind($method->getClosure(existing(get_class($o))), $o)(...$arguments),
                fn () => $method->invokeArgs(new stdClass, $arguments),
            ] as $call) {
                $calls++;
                try { $call(); } catch (Throwable) { }
            }
        }
    }
    return $calls;
}
function exercise(object $o): int
{
    $uses = calls_methods($o);
    foreach (uses() as $name => $use) {
        $uses++;
        try { $use($o); } catch (Throwable) { }
    }
    return $uses + calls_methods($o);
}
/** The outcome of each class and way. */
function made()
{
    error_reporting(E_ERROR | E_CORE_ERROR | E_COMPILE_ERROR);
    $made = [];
    $used = 0;
    foreach (own_classes() as $class) {
        foreach (ways() as $way => $make) {
            try {
                $object = @$make($class);
            } catch (Throwable $e) {
                $made[$class][$way] = 'refused';
                continue;
            }
            $made[$class][$way] = is_object($object) && !$object instanceof __PHP_Incomplete_Class ? get_class($object) : 'nothing';
            if (is_object($object)) { $used += exercise($object); }
        }
    }
    return ['made' => $made, 'used' => $used];
}
/** Objects from svc pass the same checks. */
function existing_ones()
{
    error_reporting(E_ERROR | E_CORE_ERROR | E_COMPILE_ERROR);
    $used = 0;
    foreach (own_classes() as $class) {
        try { $object = existing($class); } catch (Error) { continue; }
        $used += exercise($object);
    }
    return $used > 0;
}
function fetched() { return tried(fn () => memory()->query('select 7 as id')->fetchObject(Svc\Task::class)->isSettled()); }
function classes() { return implode(' ', own_classes()); }
"#;

fn is_exception(class: &str) -> bool {
    class.ends_with("Exception") || class.ends_with("Error")
}

/// Asserts that PHP has created only exceptions.
#[track_caller]
fn assert_refused(made: &str) {
    let made: Value = serde_json::from_str(made).unwrap();
    let classes = made["made"].as_object().unwrap();
    assert!(classes.len() >= 12, "{made}");
    assert!(made["used"].as_u64().unwrap() > 1000, "{made}");
    for (class, ways) in classes {
        for (way, result) in ways.as_object().unwrap() {
            let result = result.as_str().unwrap();
            let is_refused = ["refused", "nothing"].contains(&result);
            // A worker has no state: a copy is as good.
            let is_copy = class == "Svc\\Worker" && way.starts_with("clone");
            assert!(is_refused || is_copy || is_exception(class), "{class} by {way}: {result}");
        }
    }
}

#[test]
fn no_object_of_the_server_s_classes_exists_unless_the_server_has_made_it() {
    TaskServer::new(CODE).directive("memory_limit=-1").in_each_mode(|server| {
        assert_refused(&server.tell("made"));
        assert_eq!(server.tell("existing_ones"), "true");
        // Each of them still answers.
        assert_eq!(server.tell("fetched"), "\"Error: Cannot instantiate abstract class Svc\\\\Task\"");
    });
}

#[test]
fn tasks_hold_as_well() {
    let server = TaskServer::new(CODE).directive("memory_limit=-1").set("ASYNC_MAX_FIBERS", "256");
    server.in_each_mode(|server| {
        let made: Value = serde_json::from_str(&server.tell_in_task("made")).unwrap();
        assert!(made["used"].as_u64().unwrap() > 1000, "{made}");
    });
}

fn constants(name: &str, host: &str, database: &Database) -> String {
    let values = json!({"HOST": host, "PORT": database.address().port(), "USER": USER, "PASSWORD": PASSWORD,
        "NAME": database.name(), "DSN": database.dsn()});
    format!("define('{name}', json_decode('{values}', true));\n")
}

#[test]
fn rows_of_databases_become_no_objects_of_these_classes() {
    let (mysql, pgsql) = (databases::mariadb(), databases::postgres());
    let constants: String = [("MYSQL", &mysql), ("PGSQL", &pgsql)]
        .into_iter()
        .filter_map(|(name, database)| Some(constants(name, "127.0.0.1", database.as_ref()?)))
        .collect();
    TaskServer::new(&(constants + CODE)).directive("memory_limit=-1").in_each_mode(|server| {
        assert_refused(&server.tell("made"));
        let seen: Value = serde_json::from_str(&server.tell("methods_of_rows")).unwrap();
        let ways = seen.as_object().unwrap();
        assert_eq!(ways.len(), 1 + if mysql.is_some() { 9 } else { 0 } + if pgsql.is_some() { 7 } else { 0 });
        for (way, methods) in ways {
            for method in ["await", "cancel", "detach", "isSettled"] {
                let outcome = methods[method].as_str().unwrap_or_else(|| panic!("{way}, {method}: {seen}"));
                assert!(
                    outcome.starts_with("Error: ") && outcome.contains("Svc\\Task"),
                    "{way}, {method}: {outcome}"
                );
            }
        }
    });
}
