//! The plugin apm: calls of databases, stores and HTTP servers are spans, and nothing else is different.
#![cfg(feature = "php")]

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::backend::Backend;
use crate::databases::{self, Database, PASSWORD, USER};
use crate::fetched::fetched;
use crate::spans::{ExportedSpan, Spans};
use crate::support::{Svc, command};

/// What every program below begins with: what calls return, and what they throw.
const BEGIN: &str = r#"<?php
error_reporting(E_ALL);
function what(callable $call): mixed
{
    $errors = [];
    set_error_handler(function ($level, $message) use (&$errors) { $errors[] = [$level, $message]; return true; });
    try { $seen = plain($call()); } catch (Throwable $thrown) { $seen = [$thrown::class, $thrown->getMessage(), $thrown->getCode(), $thrown->getLine()]; }
    restore_error_handler();
    return $errors ? [$seen, $errors] : $seen;
}
function plain(mixed $value): mixed
{
    return match (true) {
        $value instanceof PDOStatement => [$value::class, $value->queryString, plain($value->fetchAll(PDO::FETCH_ASSOC))],
        $value instanceof mysqli_result => [$value::class, $value->fetch_all()],
        is_object($value) => $value::class,
        is_array($value) => array_map(plain(...), $value),
        default => $value,
    };
}
class Sub extends PDO
{
    public function query(string $text, ?int $mode = null, mixed ...$rest): PDOStatement|false { return parent::query($text); }
    public function exec(string $text): int|false { return PDO::exec($text) + 100; }
}
class SubStatement extends PDOStatement { public function execute(?array $values = null): bool { return parent::execute($values); } }
function cases(): array { return [
    'pdo' => function () {
        $db = new PDO(DSN, USER, PASSWORD);
        $db->exec('DROP TABLE IF EXISTS apm_users');
        $seen = [
            $db->exec('create table apm_users (id integer primary key, name varchar(20))'),
            what(fn () => $db->exec("insert into apm_users values (1, 'secret joe')")),
            what(fn () => $db->QUERY('select * from apm_users where id = 1')),
            what(fn () => $db->query('select missing from nowhere')),
            what(fn () => call_user_func([$db, 'exec'], "update apm_users set name = 'secret'")),
            what(fn () => array_map([$db, 'quote'], ["a'b"])),
            what(fn () => array_map($db->query(...), ['select 2 as two'])[0]),
            what(fn () => Closure::fromCallable([$db, 'query'])('select 3 as three')),
            what(fn () => (new ReflectionMethod('PDO', 'query'))->invoke($db, 'select 4 as four')),
            what(fn () => $db->query(statement: 'select 5 as five')),
            what(fn () => $db->query()),
            what(fn () => $db->query([])),
            what(fn () => $db->query('select 6 as six', PDO::FETCH_COLUMN, 0)),
        ];
        $statement = $db->prepare("select name from apm_users where id = ? and name <> 'as is'");
        $id = 1;
        $statement->bindParam(1, $id);
        $seen[] = [$statement->execute(), $statement->fetchAll(), $id];
        $seen[] = [$statement->execute([2]), $statement->fetchAll()];
        $seen[] = what(fn () => $statement->execute([1, 2, 3]));
        $seen[] = what(fn () => (new PDO(DSN, USER, PASSWORD, [PDO::ATTR_ERRMODE => PDO::ERRMODE_SILENT]))->query('select missing from nowhere'));
        $seen[] = what(fn () => (new PDO(DSN, USER, PASSWORD, [PDO::ATTR_ERRMODE => PDO::ERRMODE_WARNING]))->exec('nonsense'));
        $seen[] = [$db->beginTransaction(), $db->exec('delete from apm_users'), $db->inTransaction(), $db->rollBack(), $db->inTransaction()];
        $seen[] = [$db->beginTransaction(), $db->commit(), what(fn () => $db->commit()), what(fn () => $db->rollback())];
        $sub = new Sub(DSN, USER, PASSWORD, [PDO::ATTR_STATEMENT_CLASS => [SubStatement::class]]);
        $seen[] = [what(fn () => $sub->query('select 7 as seven')), $sub->exec('delete from apm_users'), $sub->prepare('select 8')->execute()];
        $fiber = new Fiber(function () use ($db) { $one = plain($db->query('select 9 as nine')); Fiber::suspend(1); return [$one, plain($db->query('select 10 as ten'))]; });
        $seen[] = [$fiber->start(), $db->query('select 11 as eleven')->fetchColumn(), $fiber->resume(), $fiber->getReturn()];
        $seen[] = what(fn () => new PDO('nothing:at=all'));
        $seen[] = what(fn () => new PDO(strstr(DSN, ':', true) . ':host=127.0.0.1;port=1;dbname=x', USER, PASSWORD)) !== null;
        $seen[] = $db->errorCode();
        if (method_exists('PDO', 'connect')) { $seen[] = what(fn () => PDO::connect(DSN, USER, PASSWORD)); }
        return $seen;
    },
    'sqlite-callback' => function () {
        $db = new PDO('sqlite::memory:');
        $db->sqliteCreateFunction('again', fn ($n) => (int) $db->query('select 1')->fetchColumn() + $n);
        $db->sqliteCreateFunction('fails', fn () => throw new DomainException('in a callback'));
        return [what(fn () => $db->query('select again(1) as a')), what(fn () => $db->query('select fails() as a'))];
    },
    'sqlite-exit' => function () {
        $db = new PDO('sqlite::memory:');
        $db->sqliteCreateFunction('leaves', function () { echo '"left"'; exit; });
        $db->query('select leaves()');
    },
    'sqlite-fatal' => function () {
        $db = new PDO('sqlite::memory:');
        $db->sqliteCreateFunction('exhausts', function () { ini_set('memory_limit', '6M'); $all = []; while (true) { $all[] = str_repeat('x', 4096); } });
        $db->query('select exhausts() from sqlite_master union select exhausts()');
    },
    'many' => function () {
        $db = new PDO('sqlite::memory:');
        for ($i = 0; $i < 12000; $i++) { $db->query('select 1'); }
        return $i;
    },
    'generator' => function () {
        $db = new PDO('sqlite::memory:');
        $rows = (function () use ($db) { yield from $db->query('select 1 as a union select 2'); })();
        return [iterator_to_array($rows), Svc\Trace\span('outer', fn () => $db->query('select 3 as a')->fetchColumn())];
    },
    'mysqli' => function () {
        mysqli_report(MYSQLI_REPORT_ERROR | MYSQLI_REPORT_STRICT);
        $db = new mysqli('127.0.0.1', USER, PASSWORD, NAME, PORT);
        $seen = [
            $db->query('create or replace table apm_animals (id int primary key, name varchar(20))'),
            mysqli_query($db, "insert into apm_animals values (1, 'secret')"),
            what(fn () => $db->Query("select * from apm_animals where name = \"secret\"")),
            what(fn () => mysqli_query($db, 'select missing from nowhere')),
            what(fn () => $db->execute_query('select * from apm_animals where id = ?', [1])),
            what(fn () => mysqli_execute_query($db, 'select 1')),
            what(fn () => array_map($db->query(...), ['select 1'])[0]),
            what(fn () => $db->query()),
        ];
        $statement = $db->prepare('select name from apm_animals where id = ?');
        $id = 1;
        $statement->bind_param('i', $id);
        $seen[] = [$statement->execute(), $statement->get_result()->fetch_all(), mysqli_stmt_execute($statement, [2]), $statement->get_result()->fetch_all()];
        $seen[] = [$db->begin_transaction(), $db->commit(), mysqli_begin_transaction($db), mysqli_rollback($db)];
        $seen[] = [$db->multi_query('select 1; select 2'), $db->store_result()->fetch_all(), $db->more_results(), $db->next_result(), $db->store_result()->fetch_all()];
        mysqli_report(MYSQLI_REPORT_OFF);
        $seen[] = [what(fn () => $db->query('nonsense')), $db->errno, what(fn () => $db->prepare('nonsense')), what(fn () => @mysqli_connect('127.0.0.1', 'nobody', 'x', 'x', PORT)), mysqli_connect_errno()];
        $sub = new class('127.0.0.1', USER, PASSWORD, NAME, PORT) extends mysqli {
            public function query(string $text, int $mode = MYSQLI_STORE_RESULT): mysqli_result|bool { return parent::query($text, $mode); }
        };
        $seen[] = what(fn () => $sub->query('select 12'));
        return $seen;
    },
    'pgsql' => function () {
        $db = pg_connect(DSN);
        $rows = fn ($result) => $result ? pg_fetch_all($result) : $result;
        return [
            $rows(pg_query($db, "select 'secret' as a")), $rows(PG_query('select 2 as b')), $rows(pg_query_params($db, 'select $1::int as c', [3])),
            plain(pg_prepare($db, 'named', 'select $1::int as d')), $rows(pg_execute($db, 'named', [4])),
            what(fn () => pg_query($db, 'select missing from nowhere')), what(fn () => pg_query($db)), pg_last_error($db) !== '',
        ];
    },
    'redis' => function () {
        $redis = new Redis;
        $seen = [$redis->connect('127.0.0.1', PORT), $redis->select(2), $redis->flushDB(), $redis->set('secret key', 'secret value'), $redis->GET('secret key'), $redis->get('nothing')];
        $seen[] = [plain($redis->multi()), plain($redis->set('a', 1)), plain($redis->incr('a')), $redis->exec()];
        $seen[] = [$redis->pipeline()->set('b', 2)->get('b')->exec(), $redis->rawCommand('get', 'b'), $redis->hSet('h', 'f', 'v'), $redis->hgetall('h')];
        $seen[] = [what(fn () => $redis->lpush('a', 1)), $redis->getLastError(), what(fn () => $redis->get()), what(fn () => (new Redis)->get('x'))];
        $seen[] = [what(fn () => (new Redis)->connect('127.0.0.1', 1)), $redis->eval('return 1'), call_user_func_array([$redis, 'mget'], [['a', 'b']])];
        $it = null;
        $redis->setOption(Redis::OPT_SCAN, Redis::SCAN_RETRY);
        $seen[] = [count($redis->scan($it)) > 0, $it];
        return $seen;
    },
    'memcached' => function () {
        $store = new Memcached;
        $store->addServer('127.0.0.1', PORT);
        return [
            $store->set('secret', 1), $store->get('secret'), $store->get('nothing'), $store->getResultCode(), $store->add('secret', 2), $store->getResultCode(),
            $store->getMulti(['secret', 'x']), $store->increment('secret', 2), $store->delete('nothing'), $store->getResultMessage(),
            $store->get('computed', function ($m, $key, &$value) { $value = "of $key"; return true; }), $store->get('computed'), what(fn () => $store->get()),
        ];
    },
    'curl' => function () {
        $new = function (string $path, array $more = []) { $curl = curl_init(URL . $path); curl_setopt_array($curl, [CURLOPT_RETURNTRANSFER => true] + $more); return $curl; };
        $run = fn ($curl) => [curl_exec($curl), curl_errno($curl), curl_error($curl), curl_getinfo($curl, CURLINFO_RESPONSE_CODE), curl_getinfo($curl, CURLINFO_EFFECTIVE_URL)];
        $one = $new('/plain?token=x');
        $seen = [$run($one), $run($one)];
        $with = $new('/own', [CURLOPT_HTTPHEADER => ['X-One: 1', 'X-Two: 2']]);
        $seen[] = $run($with);
        $copy = curl_copy_handle($with);
        $clone = clone $with;
        unset($with);
        $seen[] = [$run($copy), $run($clone)];
        curl_setopt($copy, CURLOPT_HTTPHEADER, ['X-Three: 3']);
        $seen[] = [$run($copy), $run($clone)];
        curl_reset($copy);
        curl_setopt_array($copy, [CURLOPT_URL => URL . '/reset', CURLOPT_RETURNTRANSFER => true]);
        $seen[] = $run($copy);
        $seen[] = $run($new('/theirs', [CURLOPT_HTTPHEADER => ['Traceparent: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01']]));
        $seen[] = $run($new('/post', [CURLOPT_POSTFIELDS => 'a=1']));
        $seen[] = $run($new('/missing'));
        $seen[] = what(fn () => curl_exec($new('/throws', [CURLOPT_WRITEFUNCTION => fn () => throw new DomainException('in curl')])));
        $seen[] = what(fn () => curl_setopt($one, CURLOPT_HTTPHEADER, 'no array'));
        $seen[] = what(fn () => curl_exec());
        $refused = curl_init('http://127.0.0.1:1/');
        curl_setopt($refused, CURLOPT_RETURNTRANSFER, true);
        $seen[] = [curl_exec($refused), curl_errno($refused)];
        $line = 'X-Ref: 1';
        $lines = [&$line];
        $seen[] = [$run($new('/ref', [CURLOPT_HTTPHEADER => &$lines])), $lines];
        $multi = curl_multi_init();
        $all = [$new('/multi/1', [CURLOPT_HTTPHEADER => ['X-One: 1']]), $new('/multi/2'), $new('/multi/missing')];
        foreach ($all as $curl) { $seen[] = curl_multi_add_handle($multi, $curl); }
        $seen[] = curl_multi_add_handle($multi, $all[0]);
        do { $status = curl_multi_exec($multi, $running); if ($running) curl_multi_select($multi, 1); } while ($running && $status === CURLM_OK);
        $messages = [];
        while ($message = curl_multi_info_read($multi)) { $messages[] = [$message['msg'], $message['result'], curl_getinfo($message['handle'], CURLINFO_EFFECTIVE_URL)]; }
        sort($messages);
        $seen[] = [$status, $messages, array_map('curl_multi_getcontent', $all)];
        foreach ($all as $curl) { $seen[] = curl_multi_remove_handle($multi, $curl); }
        $seen[] = [$run($all[0]), curl_multi_close($multi)];
        return $seen;
    },
    'streams' => function () {
        $context = stream_context_create(['http' => ['header' => "X-One: 1\r\n", 'timeout' => 5]]);
        $array = stream_context_create(['http' => ['header' => ['X-Two: 2']]]);
        $own = stream_context_create(['http' => ['header' => "X: 1\r\ntraceparent: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"]]);
        $none = stream_context_create();
        $heads = fn ($headers) => $headers === null ? null : $headers[0];
        $seen = [file_get_contents(URL . '/s/1'), $heads($http_response_header ?? null), file_get_contents(URL . '/s/2', false, $context), file_get_contents(URL . '/s/3', false, $array),
            file_get_contents(URL . '/s/4', false, $own), file_get_contents(URL . '/s/5', false, $none), array_map('stream_context_get_options', [$context, $array, $own, $none])];
        $seen[] = [what(fn () => file_get_contents(URL . '/s/missing')), what(fn () => file_get_contents('http://127.0.0.1:1/')), what(fn () => copy(URL . '/s/6', 'php://memory'))];
        $file = fopen(URL . '/s/7', 'r', false, $context);
        $meta = stream_get_meta_data($file);
        $seen[] = [stream_get_contents($file), $meta['wrapper_type'], $meta['wrapper_data'][0], $meta['uri'], stream_context_get_options($file)];
        $seen[] = [stream_get_wrappers(), what(fn () => fopen(URL . '/s/8', 'w')), what(fn () => file_get_contents('http://'))];
        stream_wrapper_unregister('http');
        $seen[] = what(fn () => file_get_contents(URL . '/s/9'));
        stream_wrapper_restore('http');
        $seen[] = what(fn () => file_get_contents(URL . '/s/10'));
        return $seen;
    },
]; }
"#;

const CLASSIC: &str = "require __DIR__ . '/cases.php'; header('Content-Type: application/json'); echo json_encode(cases()[$_GET['case']](), JSON_THROW_ON_ERROR | JSON_INVALID_UTF8_SUBSTITUTE);";

/// Two servers that differ in the plugin alone.
struct Pair {
    spans: Spans,
    with: Svc,
    without: Svc,
}

impl Pair {
    fn start(constants: &Value, settings: &[(&str, &str)], is_worker: bool) -> Self {
        Self::start_with(constants, settings, is_worker, &[])
    }

    fn start_with(
        constants: &Value,
        settings: &[(&str, &str)],
        is_worker: bool,
        directives: &[&str],
    ) -> Self {
        let define = format!("<?php foreach (json_decode('{constants}', true) as $n => $v) define($n, $v);");
        let index = if is_worker {
            format!(
                "{define} require __DIR__ . '/cases.php'; Svc\\Worker::serve(function () {{ echo json_encode(cases()[$_GET['case']](), JSON_INVALID_UTF8_SUBSTITUTE); }});"
            )
        } else {
            format!("{define} {CLASSIC}")
        };
        let files = [("index.php", index.as_str()), ("cases.php", BEGIN)];
        let worker = [
            ("WORKER_MODE_ENABLED", "true"),
            ("ENTRY_FILE", "index.php"),
            ("PHP_WORKERS", "1"),
            ("RUNTIME_HOOKS", "all"),
        ];
        let settings = if is_worker { [&worker[..], settings].concat() } else { settings.to_vec() };
        let spans = Spans::collect();
        let with = spans.svc_with(&files, &[&settings[..], &[("PLUGINS", "apm")]].concat(), directives);
        let without = spans.svc_with(&files, &settings, directives);
        Self { spans, with, without }
    }

    /// Runs a case on both; returns the request's span and those of its calls, by name.
    #[track_caller]
    fn same(&self, case: &str) -> Calls {
        let target = format!("/?case={case}");
        let seen = |svc: &Svc| {
            let response = svc.get(&target);
            (response.status, String::from_utf8_lossy(&response.body).into_owned())
        };
        let plain = seen(&self.without);
        let query = format!("case={case}");
        let other = self.spans.request(&query);
        assert_eq!(seen(&self.with), plain, "{case}");
        assert!(!plain.1.is_empty() || plain.0 == 500, "{case}");
        let request = self.spans.find("the second request", |span| {
            span.is_server() && span.says("url.query") == query && span.trace() != other.trace()
        });
        self.spans.beside(&request, "PHP run");
        let of = |span: &ExportedSpan| {
            let all = self.spans.all().into_iter();
            all.filter(|other| other.trace() == span.trace() && other.kind() == 3).collect::<Vec<_>>()
        };
        assert!(of(&other).is_empty(), "{case}");
        Calls { calls: of(&request), request }
    }
}

struct Calls {
    request: ExportedSpan,
    calls: Vec<ExportedSpan>,
}

impl Calls {
    #[track_caller]
    fn named(&self, name: &str) -> &ExportedSpan {
        let names: Vec<_> = self.calls.iter().map(ExportedSpan::name).collect();
        self.calls.iter().find(|span| span.name() == name).unwrap_or_else(|| panic!("no {name} in {names:?}"))
    }

    fn count(&self, name: &str) -> usize {
        self.calls.iter().filter(|span| span.name() == name).count()
    }

    /// Nothing that is told contains this.
    #[track_caller]
    fn keeps(&self, secret: &str) {
        for span in &self.calls {
            let told = format!("{} {:?} {:?}", span.name(), span.attributes(), span.status());
            assert!(!told.contains(secret), "{told}");
        }
    }
}

#[track_caller]
fn says(span: &ExportedSpan, expected: &Value) {
    let expected: BTreeMap<String, Value> =
        expected.as_object().unwrap().iter().map(|(key, value)| (key.clone(), value.clone())).collect();
    assert_eq!(span.attributes(), expected);
}

fn constants_of(database: &Database) -> Value {
    let dsn = database.dsn_on(database.address().port());
    json!({"DSN": dsn, "USER": USER, "PASSWORD": PASSWORD, "NAME": database.name(), "PORT": database.address().port()})
}

const MODES: [bool; 2] = [false, true];

fn queries_are_spans(constants: &Value, system: &str, missing: &Value) {
    for is_worker in MODES {
        let pair = Pair::start(constants, &[], is_worker);
        let calls = pair.same("pdo");
        calls.keeps("secret");
        calls.keeps(PASSWORD);
        let select = calls
            .calls
            .iter()
            .find(|span| span.says("db.query.text") == "select * from apm_users where id = ?")
            .unwrap();
        assert_eq!((select.name(), select.parent()), ("SELECT apm_users", calls.request.id()));
        let mut expected = json!({
            "db.system.name": system, "db.query.summary": "SELECT apm_users", "db.collection.name": "apm_users",
            "db.operation.name": "SELECT", "db.query.text": "select * from apm_users where id = ?",
        });
        if system == "sqlite" {
            expected["db.namespace"] = json!(":memory:");
        } else {
            expected["db.namespace"] = constants["NAME"].clone();
            expected["server.address"] = json!("127.0.0.1");
            expected["server.port"] = constants["PORT"].clone();
        }
        if system != "sqlite" {
            says(select, &expected);
        }
        let failed = calls.named("SELECT nowhere");
        assert!(failed.is_error());
        assert_eq!(&failed.says("db.response.status_code"), missing);
        assert_eq!(&failed.says("error.type"), missing);
        let failures =
            calls.calls.iter().filter(|span| span.name() == "SELECT nowhere" && span.is_error()).count();
        assert_eq!(failures, 2, "by exception, and silently");
        let prepared = "select name from apm_users where id = ? and name <> 'as is'";
        let executed = calls.calls.iter().filter(|span| span.says("db.query.text") == prepared);
        let operations: Vec<_> = executed.map(|span| span.says("db.operation.name")).collect();
        assert_eq!(operations, ["PREPARE", "SELECT", "SELECT", "SELECT"]);
        for operation in ["BEGIN", "COMMIT", "ROLLBACK", "CONNECT"] {
            let count = calls.calls.iter().filter(|span| span.says("db.operation.name") == operation).count();
            assert!(count >= 1, "{operation}");
        }
        let sevens =
            calls.calls.iter().filter(|span| span.says("db.query.text") == "select ? as seven").count();
        assert_eq!(sevens, 1, "a method of a subclass and its parent's are one call");
    }
}

#[test]
fn queries_of_sqlite_are_spans() {
    let file = tempfile::tempdir().unwrap();
    let dsn = format!("sqlite:{}", file.path().join("a.db").display());
    queries_are_spans(&json!({"DSN": dsn, "USER": null, "PASSWORD": null}), "sqlite", &json!("1"));
}

#[test]
fn queries_of_pdo_mysql_are_spans() {
    let Some(database) = databases::mariadb() else { return };
    queries_are_spans(&constants_of(&database), "mysql", &json!("1146"));
}

#[test]
fn queries_of_pdo_pgsql_are_spans() {
    let Some(database) = databases::postgres() else { return };
    queries_are_spans(&constants_of(&database), "postgresql", &json!("42P01"));
}

#[test]
fn callbacks_jumps_and_bounds_leave_nothing_behind() {
    for is_worker in MODES {
        // One request has more spans than wait by default.
        let pair = Pair::start(&json!({}), &[("OTEL_BSP_MAX_QUEUE_SIZE", "65536")], is_worker);
        let calls = pair.same("sqlite-callback");
        assert_eq!(calls.named("SELECT").parent(), calls.request.id());
        assert_eq!(calls.calls.iter().filter(|span| span.says("error.type") == "DomainException").count(), 1);
        pair.same("sqlite-exit");
        let fatal = pair.same("sqlite-fatal");
        let cut =
            fatal.calls.iter().find(|span| span.says("svc.unfinished") == true).expect("it did not end");
        assert_eq!(cut.says("db.operation.name"), "SELECT");
        let generated = pair.same("generator");
        let outer = pair.spans.beside(&generated.request, "outer");
        assert!(generated.calls.iter().any(|span| span.parent() == outer.id()));
        let many = pair.same("many");
        let run = pair.spans.beside(&many.request, "PHP run");
        assert_eq!(run.says("svc.spans_dropped"), 2001);
    }
}

#[test]
fn queries_of_mysqli_are_spans() {
    let Some(database) = databases::mariadb() else { return };
    for is_worker in MODES {
        let constants = constants_of(&database);
        let pair = Pair::start(&constants, &[("PLUGIN_APM_SLOW_QUERY_MS", "0")], is_worker);
        let calls = pair.same("mysqli");
        calls.keeps("secret");
        says(
            calls.named("INSERT apm_animals"),
            &json!({
                "db.system.name": "mysql", "db.query.summary": "INSERT apm_animals", "db.collection.name": "apm_animals",
                "db.operation.name": "INSERT", "db.query.text": "insert into apm_animals values (?, ?)",
                "db.namespace": database.name(), "server.address": "127.0.0.1",
                "server.port": database.address().port(), "svc.slow_query": true,
            }),
        );
        assert_eq!(calls.named("SELECT nowhere").says("db.response.status_code"), "1146");
        let executed = calls
            .calls
            .iter()
            .filter(|span| span.says("db.query.text") == "select name from apm_animals where id = ?");
        assert_eq!(executed.count(), 3);
        let nonsense = calls.calls.iter().filter(|span| span.says("error.type") == "1064").count();
        assert_eq!(nonsense, 2);
        let twelve = calls.calls.iter().filter(|span| span.says("db.query.text") == "select ?");
        assert!(twelve.count() >= 2);
    }
}

#[test]
fn queries_of_pgsql_are_spans() {
    let Some(database) = databases::postgres() else { return };
    let port = database.address().port();
    let name = database.name();
    let dsn = format!("host=127.0.0.1 port={port} dbname={name} user={USER} password={PASSWORD}");
    for is_worker in MODES {
        let pair = Pair::start(&json!({ "DSN": dsn }), &[], is_worker);
        let calls = pair.same("pgsql");
        calls.keeps(PASSWORD);
        let first = calls.calls.iter().find(|span| span.says("db.query.text") == "select ? as a").unwrap();
        says(
            first,
            &json!({
                "db.system.name": "postgresql", "db.query.summary": "SELECT", "db.operation.name": "SELECT",
                "db.query.text": "select ? as a", "db.namespace": name, "server.address": "127.0.0.1", "server.port": port,
            }),
        );
        assert_eq!(calls.named(&format!("CONNECT {name}")).says("server.port"), port);
        assert!(calls.named("SELECT nowhere").is_error());
        assert_eq!(calls.count(&format!("EXECUTE {name}")), 1);
    }
}

#[test]
fn commands_of_redis_are_spans() {
    let Some((store, extensions)) = databases::redis().zip(fetched("php-extensions")) else { return };
    let port = store.address().port();
    let ini = format!("extension={extensions}/redis.so");
    for is_worker in MODES {
        let pair = Pair::start_with(&json!({ "PORT": port }), &[], is_worker, &[&ini]);
        let calls = pair.same("redis");
        calls.keeps("secret");
        says(
            calls.named("GET 2"),
            &json!({
                "db.system.name": "redis", "db.operation.name": "GET", "db.namespace": "2",
                "server.address": "127.0.0.1", "server.port": port,
            }),
        );
        assert_eq!(calls.count("INCR 2"), 0, "what is queued is no call");
        assert_eq!(calls.count("EXEC 2"), 2);
        assert!(calls.calls.iter().any(|span| span.says("error.type") == "RedisException"));
    }
}

#[test]
fn commands_of_memcached_are_spans() {
    let Some((store, extensions)) = databases::memcached().zip(fetched("php-extensions")) else { return };
    let port = store.address().port();
    let ini = format!("extension={extensions}/memcached.so");
    for is_worker in MODES {
        let pair = Pair::start_with(&json!({ "PORT": port }), &[], is_worker, &[&ini]);
        let calls = pair.same("memcached");
        calls.keeps("secret");
        says(
            calls.named(&format!("set 127.0.0.1:{port}")),
            &json!({
                "db.system.name": "memcached", "db.operation.name": "set", "server.address": "127.0.0.1",
                "server.port": port,
            }),
        );
        assert!(
            calls.calls.iter().filter(|span| !span.name().starts_with("get")).all(|span| !span.is_error())
        );
    }
}

/// Answers every request, with 404 where a path says so; the body says which header fields of the script's came.
fn server() -> Backend {
    Backend::tcp(|visit| {
        loop {
            let request = visit.request()?;
            let own = request.lines().filter(|line| line.starts_with("X-")).collect::<Vec<_>>().join(",");
            let line = request.lines().next().unwrap_or_default();
            let status = if line.contains("missing") { "404 Not Found" } else { "200 OK" };
            let body = format!("{line} {own}");
            visit.send(format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\n\r\n{body}", body.len()))?;
            if request.contains("Connection: close") {
                return Ok(());
            }
        }
    })
}

/// The `traceparent` fields of the requests with this path, of the traces of one server.
fn parents(backend: &Backend, path: &str) -> Vec<Vec<String>> {
    let requests =
        backend.requests().into_iter().filter(|request| request.lines().next().unwrap().contains(path));
    let fields = |request: String| -> Vec<String> {
        let lines = request.lines().filter_map(|line| line.split_once(": "));
        lines
            .filter(|(name, _)| name.eq_ignore_ascii_case("traceparent"))
            .map(|(_, value)| value.to_owned())
            .collect()
    };
    requests.map(fields).collect()
}

#[track_caller]
fn is_passed_on(backend: &Backend, calls: &Calls, path: &str) {
    let span =
        calls.calls.iter().find(|span| span.says("url.full").as_str().unwrap_or_default().contains(path));
    let span = span.unwrap_or_else(|| panic!("no span for {path}"));
    let expected = format!("00-{}-{}-", span.trace(), span.id());
    let seen = parents(backend, path);
    assert!(
        seen.iter().any(|fields| fields.len() == 1 && fields[0].starts_with(&expected)),
        "{path}: {expected} {seen:?}"
    );
    assert!(seen.iter().any(Vec::is_empty), "{path} without the plugin: {seen:?}");
}

const THEIRS: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

#[test]
fn requests_of_curl_are_spans_and_pass_the_trace_on() {
    for is_worker in MODES {
        let backend = server();
        let url = format!("http://{}", backend.address());
        let pair = Pair::start(&json!({ "URL": url }), &[("OTEL_REDACT_QUERY", "token")], is_worker);
        let calls = pair.same("curl");
        let first = calls
            .calls
            .iter()
            .find(|span| span.says("url.full") == format!("{url}/plain?token=REDACTED"))
            .unwrap();
        assert_eq!((first.name(), first.parent()), ("GET", calls.request.id()));
        says(
            first,
            &json!({
                "http.request.method": "GET", "http.response.status_code": 200, "network.protocol.version": "1.1",
                "server.address": "127.0.0.1", "server.port": backend.address().port(),
                "url.full": format!("{url}/plain?token=REDACTED"),
            }),
        );
        for path in [
            "/plain",
            "/own",
            "/reset",
            "/post",
            "/missing",
            "/ref",
            "/multi/1",
            "/multi/2",
            "/multi/missing",
        ] {
            is_passed_on(&backend, &calls, path);
        }
        assert_eq!(calls.count("POST"), 1);
        assert_eq!(parents(&backend, "/theirs"), vec![vec![THEIRS.to_owned()]; 2]);
        let with = |path: &str| {
            calls.calls.iter().find(|span| span.says("url.full") == format!("{url}{path}")).unwrap()
        };
        assert_eq!(with("/missing").says("error.type"), "404");
        assert_eq!(with("/multi/missing").says("http.response.status_code"), 404);
        assert_eq!(with("/throws").says("error.type"), "DomainException");
        let refused = calls.calls.iter().find(|span| span.says("server.port") == 1).unwrap();
        assert_eq!(refused.says("error.type"), "CURLE_COULDNT_CONNECT");
    }
}

#[test]
fn streams_of_http_are_spans_and_pass_the_trace_on() {
    for is_worker in MODES {
        let backend = server();
        let url = format!("http://{}", backend.address());
        let pair = Pair::start(&json!({ "URL": url }), &[], is_worker);
        let calls = pair.same("streams");
        for path in ["/s/1", "/s/2", "/s/3", "/s/5", "/s/6", "/s/7", "/s/10", "/s/missing"] {
            is_passed_on(&backend, &calls, path);
        }
        assert_eq!(parents(&backend, "/s/4"), vec![vec![THEIRS.to_owned()]; 2]);
        let missing =
            calls.calls.iter().find(|span| span.says("url.full") == format!("{url}/s/missing")).unwrap();
        assert!(missing.is_error());
        assert_eq!(
            calls.calls.iter().filter(|span| span.says("url.full") == format!("{url}/s/2")).count(),
            1
        );
    }
}

#[test]
fn one_trace_goes_through_two_servers() {
    let spans = Spans::collect();
    let inner = spans.svc(&[("index.php", "<?php echo 'inner';")], &[]);
    let script = format!(
        "<?php $c = curl_init('http://{0}/?hop=curl'); curl_setopt($c, CURLOPT_RETURNTRANSFER, true); echo curl_exec($c), file_get_contents('http://{0}/?hop=stream');",
        inner.main()
    );
    let outer = spans.svc(&[("index.php", &script)], &[("PLUGINS", "apm")]);
    assert_eq!(outer.get("/?hop=first").body, b"innerinner");
    let first = spans.request("hop=first");
    for hop in ["hop=curl", "hop=stream"] {
        let second = spans.request(hop);
        assert_eq!(second.trace(), first.trace());
        let call = spans.find("the call", |span| span.id() == second.parent());
        assert_eq!((call.kind(), call.parent()), (3, first.id()));
    }
}

#[test]
fn what_is_not_recorded_passes_its_decision_on() {
    let spans = Spans::collect();
    let backend = server();
    let script = format!(
        "<?php file_get_contents('http://{}/none'); (new PDO('sqlite::memory:'))->query('select 1'); echo Svc\\Trace\\traceparent();",
        backend.address()
    );
    let settings = [("PLUGINS", "apm"), ("OTEL_TRACES_SAMPLER", "always_off")];
    let svc = spans.svc(&[("index.php", &script)], &settings);
    let own = String::from_utf8(svc.get("/").body).unwrap();
    assert_eq!(parents(&backend, "/none"), [[own.clone()]]);
    assert!(own.ends_with("-00") && spans.all().is_empty());
}

#[test]
fn the_plugin_is_listed_and_checked() {
    let spans = Spans::collect();
    let svc = spans.svc(&[("index.php", "")], &[("PLUGINS", "apm"), ("PLUGIN_APM_SLOW_QUERY_MS", "7")]);
    let config: Value = serde_json::from_slice(&svc.ask("/config").body).unwrap();
    crate::support::client::eventually("its configuration is shown", || {
        let config: Value = serde_json::from_slice(&svc.ask("/config").body).unwrap();
        config["plugins"]["apm"]["slow_query_ms"] == 7
    });
    assert_eq!(config["plugins"]["apm"]["path"], "built-in");
    crate::support::client::eventually("it is well", || {
        let health: Value = serde_json::from_slice(&svc.ask("/health").body).unwrap();
        health["plugins"]["apm"] == "ok"
    });
    let refused = |settings: &[(&str, &str)]| {
        let mut check = command(svc.root(), &[&[("PLUGINS", "apm")], settings].concat());
        let output = check.arg("check").output().unwrap();
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    };
    for (settings, why) in [
        (&[][..], "requires OTEL_ENABLED=true"),
        (
            &[("OTEL_ENABLED", "true"), ("PLUGIN_APM_SLOW_QUERY_MS", "soon")],
            "is not a number (accepts 0 to 3600000)",
        ),
        (
            &[("OTEL_ENABLED", "true"), ("PLUGIN_APM_SLOW", "1")],
            "has no setting PLUGIN_APM_SLOW; accepted: PLUGIN_APM_SLOW_QUERY_MS",
        ),
    ] {
        let (code, error) = refused(settings);
        assert!(code == Some(2) && error.contains(why), "{code:?} {error}");
    }
}
