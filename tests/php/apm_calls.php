<?php
// Programs of the tests of `apm`: each runs on a server with the plugin and on one without.
class Sub extends PDO
{
    public function query(string $text, ?int $mode = null, mixed ...$rest): PDOStatement|false { return parent::query($text); }
    public function exec(string $text): int|false { return PDO::exec($text) + 100; }
}
class SubStatement extends PDOStatement { public function execute(?array $values = null): bool { return parent::execute($values); } }
// A value that ends in a backslash, and one that continues after it.
const PLAIN = "select 'a\\' as a, 'my secret is' as b";
const ESCAPED = "select 'it\\'s my secret is' as a, 'x' as b";
const BACKSLASHES = [
    'mysql' => ["set sql_mode = 'NO_BACKSLASH_ESCAPES'", PLAIN, "set sql_mode = ''", ESCAPED],
    'pgsql' => ['set standard_conforming_strings = off', ESCAPED, 'set standard_conforming_strings = on', PLAIN],
];
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
    'pdo-backslash' => function () {
        $db = new PDO(DSN, USER, PASSWORD);
        return array_map(fn ($text) => $db->query($text)->fetchAll(PDO::FETCH_NUM), BACKSLASHES[strstr(DSN, ':', true)]);
    },
    'mysqli-backslash' => function () {
        $db = new mysqli('127.0.0.1', USER, PASSWORD, NAME, PORT);
        return array_map(fn ($text) => ($result = $db->query($text)) === true ?: $result->fetch_all(), BACKSLASHES['mysql']);
    },
    'pgsql-backslash' => function () {
        $db = pg_connect(LINK);
        return array_map(fn ($text) => pg_fetch_all(pg_query($db, $text)), BACKSLASHES['pgsql']);
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
        $made = new mysqli_stmt($db, 'select name from apm_animals where id in (?, 2)');
        $empty = new mysqli_stmt($db);
        $class = new class($db, 'select name from apm_animals where id in (?, 3)') extends mysqli_stmt {};
        $seen[] = [$made->execute([1]), $made->get_result()->fetch_all(), $class->execute([1]), $class->get_result()->fetch_all()];
        $seen[] = [what(fn () => $empty->execute()), $empty->prepare('select 13 as a'), $empty->execute(), $empty->get_result()->fetch_all()];
        $seen[] = [what(fn () => new mysqli_stmt($db, 'select missing from somewhere')), what(fn () => new mysqli_stmt()), what(fn () => new mysqli_stmt($db, [])), what(fn () => new mysqli_stmt(mysqli_init(), 'select 1')), what(fn () => (new mysqli_stmt($db, query: null))->errno)];
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
            what(fn () => pg_query('select missing from nowhere')), what(fn () => pg_query_params($db, 'select missing from nowhere', [])),
            what(fn () => pg_query($db, 'select 1 / 0')), what(fn () => pg_query_params($db, 'select 1 / $1::int', [0])),
            what(fn () => pg_execute($db, 'named', ['no number'])), $rows(pg_query($db, 'select 5 as e')),
            (function () use ($db) {
                // The handler's own queries come between the error and its end.
                set_error_handler(fn () => pg_query($db, 'select 6 as f') !== false);
                try { return pg_query($db, 'select missing from nowhere'); } finally { restore_error_handler(); }
            })(),
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
        $redis->setOption(Redis::OPT_SERIALIZER, Redis::SERIALIZER_PHP);
        $seen[] = [$redis->rPush('objects', new ArrayObject), plain($redis->lIndex('objects', 0))];
        return $seen;
    },
    'memcached' => function () {
        $store = new Memcached;
        $store->addServer('127.0.0.1', PORT);
        return [
            $store->set('secret', 1), $store->get('secret'), $store->get('nothing'), $store->getResultCode(), $store->add('secret', 2), $store->getResultCode(),
            $store->getMulti(['secret', 'x']), $store->increment('secret', 2), $store->delete('nothing'), $store->getResultMessage(),
            $store->get('computed', function ($m, $key, &$value) { $value = "of $key"; return true; }), $store->get('computed'), what(fn () => $store->get()),
            $store->setByKey('a', 'object', new ArrayObject), plain($store->getByKey('a', 'object')),
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
        $line = new class { public function __toString(): string { return 'X-Object: 1'; } };
        $seen[] = $run($new('/object', [CURLOPT_HTTPHEADER => [$line]]));
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
    'curl-redirected' => function () {
        $curl = curl_init(URL . '/old');
        curl_setopt_array($curl, [CURLOPT_RETURNTRANSFER => true, CURLOPT_FOLLOWLOCATION => true]);
        $run = fn ($curl) => [curl_exec($curl), curl_getinfo($curl, CURLINFO_EFFECTIVE_URL)];
        $seen = [$run($curl), $run($curl), $run(curl_copy_handle($curl))];
        $multi = curl_multi_init();
        curl_multi_add_handle($multi, $curl);
        do { $status = curl_multi_exec($multi, $running); if ($running) curl_multi_select($multi, 1); } while ($running && $status === CURLM_OK);
        $seen[] = [$status, curl_multi_remove_handle($multi, $curl)];
        curl_setopt($curl, CURLOPT_URL, curl_getinfo($curl, CURLINFO_EFFECTIVE_URL));
        array_push($seen, $run($curl), $run($curl));
        curl_setopt_array($curl, [CURLOPT_URL => URL . '/old']);
        $seen[] = $run($curl);
        return $seen;
    },
    // Multi handles whose handles end with them.
    'curl-gone' => function () {
        $seen = [];
        foreach (['unset', 'close', 'cycle'] as $how) {
            $multi = curl_multi_init();
            $curl = curl_init(URL . "/gone/$how");
            if ($how === 'cycle') { $cycle = (object) ['multi' => $multi]; $cycle->own = $cycle; }
            curl_setopt_array($curl, [CURLOPT_RETURNTRANSFER => true] + ($how === 'cycle' ? [CURLOPT_PRIVATE => $cycle] : []));
            curl_multi_add_handle($multi, $curl);
            do { $status = curl_multi_exec($multi, $running); if ($running) curl_multi_select($multi, 1); } while ($running && $status === CURLM_OK);
            $seen[] = [$status, curl_multi_getcontent($curl)];
            unset($curl, $cycle);
            if ($how === 'close') { curl_multi_close($multi); }
            unset($multi);
            if ($how === 'cycle') { $seen[] = gc_collect_cycles() > 0; }
        }
        return $seen;
    },
    // No earlier call has created a context.
    'streams-first' => fn () => [md5_file(URL . '/first'), @getimagesize(URL . '/first')],
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
