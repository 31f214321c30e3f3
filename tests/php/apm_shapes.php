<?php
// Programs of the tests of `apm`: calls of every form, also with arguments of the wrong types or with invalid values. They
// run with strict types and without.
class Text
{
    public int $asked = 0;
    public function __construct(private string $text, private ?Closure $first = null) {}
    public function __toString(): string { $this->asked++; if ($this->first) ($this->first)(); return $this->text; }
}
class Inherits extends PDO
{
    public array $seen = [];
    public function query(string $query, ?int $mode = null, mixed ...$rest): PDOStatement|false { $this->seen[] = $query; return parent::QUERY($query, $mode, ...$rest); }
    public function twice(string $query): array { return array_map(parent::query(...), [$query, $query]); }
    public function byName(string $query): mixed { return call_user_func([$this, 'parent::query'], $query); }
    public function __call(string $name, array $arguments): mixed { return [$name, $arguments]; }
}
class Silent extends PDO { public function __construct() {} }
class Rows extends PDOStatement { protected function __construct(public string $note) {} }
function itself(): array { $all = [1]; $all[0] = &$all; return $all; }
/** Passes the arguments to a function in every possible way. */
function passed(callable $call, array $arguments, array $names): array
{
    $one = $arguments[0];
    $reference = &$one;
    $references = $arguments;
    foreach ($references as &$each) {}
    return [
        what(fn () => $call(...$arguments)), what(fn () => call_user_func($call, ...$arguments)), what(fn () => call_user_func_array($call, $references)),
        what(fn () => call_user_func_array($call, array_combine($names, $arguments))), what(fn () => $call(...array_combine($names, $references))),
        what(fn () => $call(...array_reverse(array_combine($names, $arguments)))), what(fn () => array_map($call, ...array_map(fn ($argument) => [$argument], $arguments))[0]),
        what(fn () => Closure::fromCallable($call)(...$arguments)), what(fn () => (new ReflectionFunction(Closure::fromCallable($call)))->invokeArgs($arguments)),
        what(fn () => (function () use ($call, $arguments) { yield $call(...$arguments); })()->current()),
        what(fn () => $call($reference, ...array_slice($arguments, 1))), $one === $arguments[0],
        what(fn () => $call()), what(fn () => $call(...$arguments, ...array_fill(0, 12, 'more'))), what(fn () => $call(unknown: 1)), what(fn () => $call(...$arguments, unknown: 1)),
        what(fn () => $call(...array_fill(0, count($arguments), itself()))), what(fn () => $call(...array_fill(0, count($arguments), new stdClass))),
        what(fn () => $call(...array_fill(0, count($arguments), null))), what(fn () => $call(...array_fill(0, count($arguments), 1.5))), what(fn () => $call(...array_fill(0, count($arguments), true))),
        what(fn () => $call(...array_fill(0, count($arguments), fopen('php://memory', 'r')))), what(fn () => $call(...array_fill(0, count($arguments), fn () => 1))),
    ];
}
function cases(): array { return [
    'pdo' => function () {
        $db = new PDO(DSN, USER, PASSWORD);
        $sub = new Inherits(DSN, USER, PASSWORD);
        $method = 'QuErY';
        $text = new Text('select 1 as one');
        $failing = new Text('select 2', fn () => throw new DomainException('no text'));
        $again = new Text('select 3 as three', fn () => $db->query('select 4')->fetchAll());
        $seen = [
            passed([$db, 'query'], ['select 5 as five'], ['query']), passed([$db, 'exec'], ['delete from nowhere'], ['statement']), passed([$sub, 'query'], ['select 6 as six'], ['query']),
            passed([$db, 'beginTransaction'], [null], ['x']), passed([$db, 'commit'], [null], ['x']), passed([$db, 'PREPARE'], ['select ?'], ['query']),
            what(fn () => $db->$method('select 7 as seven')), what(fn () => [$db, 'qUERY']('select 8 as eight')), what(fn () => $db?->query('select 9 as nine')), what(fn () => PDO::query('select 1')),
            what(fn () => call_user_func('PDO::query', 'select 1')), what(fn () => $sub->twice('select 10 as ten')), what(fn () => $sub->byName('select 11 as eleven')), $sub->seen, what(fn () => $sub->nothing(1)),
            what(fn () => (new ReflectionMethod('PDO', 'query'))->invoke($sub, 'select 12 as twelve')), what(fn () => (new ReflectionMethod('PDO::query'))->getClosure($sub)('select 13 as a')),
            what(fn () => (new ReflectionMethod('PDO', 'query'))->invoke(new stdClass, 'select 1')), what(fn () => Closure::bind(fn () => parent::query('select 14 as a'), $sub, Inherits::class)()),
            what(fn () => $db->query($text)), $text->asked, what(fn () => $db->query($failing)), $failing->asked, what(fn () => $db->query($again)), $again->asked, what(fn () => $db->exec($failing)),
            what(fn () => $db->query("select '\0' as a")), what(fn () => $db->query('')), what(fn () => $db->query("\xff\xfe")), what(fn () => $db->query(str_repeat(' ', 70000) . 'select 15 as a')),
            what(fn () => $db->query('select 16 as a', PDO::FETCH_COLUMN, 0)->fetchAll()), what(fn () => $db->query('select 1', PDO::FETCH_COLUMN, 'a', 'b')), what(fn () => $db->query('select 1', PDO::FETCH_COLUMN, column: 0)),
            what(fn () => $db->query('select 1', 999)), what(fn () => $db->query('select 1', PDO::FETCH_CLASS, 'nothing')), what(fn () => $db->prepare('select 1', [PDO::ATTR_STATEMENT_CLASS => [Rows::class, ['note']]])->note),
            what(fn () => (new Silent)->query('select 1')), what(fn () => (new Silent)->exec('x')), what(fn () => (new Silent)->beginTransaction()), what(fn () => (new Silent)->prepare('x')),
            what(fn () => (new ReflectionClass('PDO'))->newInstanceWithoutConstructor()->commit()), what(fn () => (new ReflectionClass('PDOStatement'))->newInstanceWithoutConstructor()->execute()),
            what(fn () => clone $db), what(fn () => serialize($db)), what(fn () => (new ReflectionMethod('PDO', '__construct'))->invoke($sub, [])),
        ];
        // PHP itself forgets a connection that is constructed again.
        $bare = fn () => (new ReflectionClass('PDO'))->newInstanceWithoutConstructor();
        foreach ([[], [null], [[]], [new stdClass], [$text], [$failing], [itself()], ['no colon'], [''], [':'], ['sqlite:'], [DSN, itself()], [DSN, USER, PASSWORD, 7], [fn () => 1], [$db], [1, 2, 3, 4, 5]] as $arguments) {
            $seen[] = [what(fn () => new PDO(...$arguments)), what(fn () => $bare()->__construct(...$arguments))];
            if (method_exists('PDO', 'connect')) { $seen[] = [what(fn () => PDO::connect(...$arguments)), what(fn () => call_user_func(['PDO', 'connect'], ...$arguments)), what(fn () => $db->connect(...$arguments))]; }
        }
        return $seen;
    },
    'pdo-references' => function () {
        $db = new PDO(DSN, USER, PASSWORD);
        $statement = $db->prepare('select ' . PLACES);
        $a = '1'; $b = &$a;
        $seen = [$statement->bindParam(1, $a), $statement->bindParam(2, $b), $statement->execute(), $statement->fetchAll(PDO::FETCH_NUM), $a];
        $b = '5';
        $seen[] = [$statement->execute(), $statement->fetchAll(PDO::FETCH_NUM), $a];
        $statement->bindColumn(1, $column);
        $statement->bindColumn(2, $a);
        $seen[] = [$statement->execute(['x', 'y']), $statement->fetch(PDO::FETCH_BOUND), $column, $a, $b, $statement->closeCursor()];
        $values = ['p', 'q']; $values[0] = &$values[1];
        $seen[] = [$statement->execute($values), $statement->fetchAll(PDO::FETCH_NUM), what(fn () => $statement->execute(params: $values)), $statement->fetchAll(PDO::FETCH_NUM)];
        $text = new Text('of an object');
        $failing = new Text('never', fn () => throw new DomainException('no value'));
        $seen[] = [what(fn () => $statement->execute([$text, $text])), $text->asked, what(fn () => $statement->fetchAll(PDO::FETCH_NUM)), what(fn () => $statement->execute(['a', $failing])), $failing->asked];
        $seen[] = [what(fn () => $statement->execute(itself())), what(fn () => $statement->execute([itself(), 1])), what(fn () => $statement->execute([])), what(fn () => $statement->execute('a')), what(fn () => $statement->execute(null, 1)), what(fn () => $statement->execute([1 => 1, 7 => 2])), what(fn () => $statement->execute([':a' => 1]))];
        $missing = null;
        $seen[] = [what(fn () => $statement->bindParam(1, $undefined)), what(fn () => $statement->execute([1, $missing])), what(fn () => array_map($statement->execute(...), [['m', 'n'], ['o', 'p']])), what(fn () => (new ReflectionMethod($statement, 'execute'))->invoke($statement, ['r', 's'])), what(fn () => $statement->fetchAll(PDO::FETCH_NUM))];
        $held = $db->prepare('select ' . PLACES);
        unset($db);
        $seen[] = [what(fn () => $held->execute([1, 2])), $held->fetchAll(PDO::FETCH_NUM)];
        return $seen;
    },
    'mysqli' => function () {
        mysqli_report(MYSQLI_REPORT_ERROR | MYSQLI_REPORT_STRICT);
        $new = fn () => new mysqli('127.0.0.1', USER, PASSWORD, NAME, PORT);
        $db = $new();
        $text = new Text('select 1');
        $failing = new Text('select 1', fn () => throw new DomainException('no text'));
        $seen = [
            passed([$db, 'query'], ['select 1'], ['query']), passed('MYSQLI_query', [$db, 'select 2'], ['mysql', 'query']), passed('mysqli_execute_query', [$db, 'select ?', [3]], ['mysql', 'query', 'params']),
            passed('mysqli_prepare', [$db, 'select ?'], ['mysql', 'query']), passed([$db, 'begin_transaction'], [0, 'a'], ['flags', 'name']), passed('mysqli_commit', [$db], ['mysql']),
            what(fn () => mysqli_query(new stdClass, 'x')), what(fn () => mysqli_query($text, 'x')), what(fn () => mysqli_query(mysqli_init(), 'select 1')), what(fn () => mysqli_init()->query('select 1')), what(fn () => mysqli_stmt_execute($db)),
            what(fn () => (new ReflectionClass('mysqli'))->newInstanceWithoutConstructor()->query('select 1')), what(fn () => (new ReflectionClass('mysqli_stmt'))->newInstanceWithoutConstructor()->execute()),
            what(fn () => mysqli_stmt_prepare((new ReflectionClass('mysqli_stmt'))->newInstanceWithoutConstructor(), 'select 1')), what(fn () => $db->query($text)), $text->asked, what(fn () => $db->query($failing)), $failing->asked,
            what(fn () => mysqli_connect(...itself())), what(fn () => new mysqli([])), what(fn () => new mysqli('127.0.0.1', 'nobody', PORT)), what(fn () => mysqli_real_connect($db, [])), what(fn () => mysqli::__construct()),
        ];
        $statement = $db->prepare('select ?, ?');
        $a = 1; $b = &$a; $names = 'ss';
        $seen[] = [$statement->bind_param($names, $a, $b), $statement->execute(), $statement->get_result()->fetch_all()];
        $b = 'both';
        $seen[] = [mysqli_stmt_execute($statement), $statement->bind_result($x, $y), $statement->fetch(), $x, $y, $a, $statement->free_result()];
        $x = &$y;
        $seen[] = [$statement->execute(), $statement->bind_result($x, $y), mysqli_stmt_fetch($statement), $x, $y, $statement->free_result()];
        $values = ['p', 'q']; $values[0] = &$values[1];
        $seen[] = [mysqli_execute($statement, $values), $statement->get_result()->fetch_all(), what(fn () => $statement->execute(['a'])), what(fn () => $statement->execute(itself())), what(fn () => $statement->execute([1 => 1, 2 => 2])), what(fn () => $statement->execute([$failing, 1]))];
        $seen[] = [what(fn () => call_user_func_array([$statement, 'bind_param'], ['ss', &$a, &$b])), what(fn () => $statement->bind_param('s', $a)), what(fn () => mysqli_stmt_bind_param($statement, 'ss', $a, $a)), what(fn () => $statement->execute()), $statement->get_result()->fetch_all()];
        $other = $db->stmt_init();
        $seen[] = [what(fn () => $other->execute()), what(fn () => $other->prepare('select 3')), what(fn () => $other->execute()), what(fn () => $other->get_result()), what(fn () => mysqli_stmt_prepare($other, 'nonsense')), what(fn () => $other->execute()), what(fn () => $other->prepare('select 4')), what(fn () => $other->execute()), what(fn () => $other->get_result()), what(fn () => $other->close()), what(fn () => $other->execute()), what(fn () => $other->prepare('select 5'))];
        $async = [$new(), $new()];
        foreach ($async as $i => $one) { $one->query("select $i", MYSQLI_ASYNC); }
        $results = [];
        while (count($results) < 2) {
            $read = $error = $reject = $async;
            mysqli_poll($read, $error, $reject, 5);
            foreach ($read as $one) { $results[array_search($one, $async, true)] = $one->reap_async_query()->fetch_all(); $async = array_filter($async, fn ($each) => $each !== $one); }
        }
        ksort($results);
        $seen[] = $results;
        $closed = $new();
        $left = $closed->prepare('select 6');
        $seen[] = [$closed->close(), what(fn () => $closed->query('select 1')), what(fn () => mysqli_query($closed, 'x')), what(fn () => $closed->begin_transaction()), what(fn () => $left->execute()), what(fn () => $closed->real_connect('127.0.0.1', USER, PASSWORD, NAME, PORT))];
        return $seen;
    },
    'pgsql' => function () {
        $db = pg_connect(DSN);
        $rows = fn (string $function, ...$arguments) => what(function () use ($function, $arguments) { $result = $function(...$arguments); return $result instanceof PgSql\Result ? pg_fetch_all($result) : $result; });
        $text = new Text('select 1 as a');
        $failing = new Text('select 1', fn () => throw new DomainException('no text'));
        $value = 'x'; $reference = &$value;
        $seen = [
            passed('PG_query', [$db, 'select 1'], ['connection', 'query']), passed('pg_query_params', [$db, 'select $1::text', ['a']], ['connection', 'query', 'params']), passed('pg_prepare', [$db, '', 'select 1'], ['connection', 'statement_name', 'query']),
            passed('pg_execute', [$db, '', []], ['connection', 'stmtname', 'params']), passed('pg_select', [$db, 'nowhere', ['a' => 1]], ['connection', 'table_name', 'conditions']),
            $rows('pg_query', $text), $text->asked, $rows('pg_query', $db, $text), $rows('pg_query', $db, $failing), $rows('pg_query', new stdClass), $rows('pg_query', $db, new stdClass), $rows('pg_query', null, 'select 1'), $rows('pg_query', 'select 1', 'select 2'), $rows('pg_query', query: 'select 1'),
            $rows('pg_query_params', $db, 'select $1::text as a', [&$reference]), $rows('pg_query_params', 'select $1::text as a', [$text]), $rows('pg_query_params', $db, 'select $1::text', itself()), $rows('pg_query_params', $db, 'select $1::text', [$failing]),
            $rows('pg_execute', $db, 'nothing', []), $rows('pg_execute', 'nothing', []), $rows('pg_insert', $db, 'nowhere', ['a' => 1]), $rows('pg_update', $db, 'nowhere', [], []), $rows('pg_delete', $db, 'nowhere', itself()),
            what(fn () => pg_connect()), what(fn () => pg_connect(new stdClass)), what(fn () => plain(pg_connect(new Text(DSN)))), what(fn () => pg_connect('host=127.0.0.1 port=1')), what(fn () => pg_connect(DSN, 1, 2)),
        ];
        $seen[] = [pg_close($db), $rows('pg_query', $db, 'select 1'), $rows('pg_query_params', $db, 'select 1', []), $rows('pg_select', $db, 'a', [])];
        return $seen;
    },
    'curl' => function () {
        $new = function (string $path, array $more = []) { $curl = curl_init(URL . $path); curl_setopt_array($curl, [CURLOPT_RETURNTRANSFER => true] + $more); return $curl; };
        $run = fn ($curl) => [curl_exec($curl), curl_errno($curl), curl_getinfo($curl, CURLINFO_RESPONSE_CODE)];
        $seen = [passed('cURL_Exec', [$new('/passed')], ['handle']), passed('curl_setopt', [$one = $new('/set'), CURLOPT_HTTPHEADER, ['X-One: 1']], ['handle', 'option', 'value']), $run($one),
            passed('curl_setopt_array', [$one, [CURLOPT_HTTPHEADER => ['X-Two: 2']]], ['handle', 'options']), $run($one), passed('curl_copy_handle', [$one], ['handle']), passed('curl_reset', [$one], ['handle']),
            passed('curl_multi_add_handle', [curl_multi_init(), $one], ['multi_handle', 'handle']), passed('curl_multi_remove_handle', [curl_multi_init(), $one], ['multi_handle', 'handle']), passed('curl_multi_close', [curl_multi_init()], ['multi_handle']),
            what(fn () => curl_exec(curl_multi_init())), what(fn () => curl_multi_add_handle($one, $one)), what(fn () => curl_multi_info_read($one)), what(fn () => clone curl_multi_init()), what(fn () => serialize($one))];
        $line = 'X-A: 1'; $lines = ['X-B: 2', &$line, 3, 4.5, null, true]; $itself = itself();
        $seen[] = [$run($new('/r1', [CURLOPT_HTTPHEADER => &$lines])), $lines, what(fn () => $run($new('/r2', [CURLOPT_HTTPHEADER => $itself]))), what(fn () => $run($new('/r3', [CURLOPT_HTTPHEADER => [new Text('X-C: 3')]]))), what(fn () => $run($new('/r4', [CURLOPT_HTTPHEADER => [new stdClass]])))];
        $seen[] = [what(fn () => curl_setopt($one, (string) CURLOPT_HTTPHEADER, ['X-D: 4'])), what(fn () => curl_setopt($one, 10023.7, ['X-E: 5'])), what(fn () => curl_setopt($one, CURLOPT_HTTPHEADER, null)), what(fn () => curl_setopt($one, CURLOPT_HTTPHEADER, [])),
            what(fn () => curl_setopt_array($one, [CURLOPT_HTTPHEADER => ['X-F: 6'], 99999 => 1])), what(fn () => curl_setopt($one, CURLOPT_URL, URL . '/r5')), what(fn () => curl_setopt($one, CURLOPT_RETURNTRANSFER, true)), $run($one)];
        $body = $head = '';
        $seen[] = [what(fn () => curl_exec($new('/c1', [CURLOPT_WRITEFUNCTION => function ($curl, $data) use (&$body) { $body .= $data; return strlen($data); }, CURLOPT_HEADERFUNCTION => function ($curl, $line) use (&$head) { $head .= $line; return strlen($line); }]))), $body, $head,
            what(fn () => curl_exec($new('/c2', [CURLOPT_WRITEFUNCTION => function (&$curl, &$data) { $length = strlen($data); $curl = $data = null; return $length; }]))), what(fn () => curl_exec($new('/c3', [CURLOPT_WRITEFUNCTION => fn () => 0]))), what(fn () => curl_exec($new('/c4', [CURLOPT_HEADERFUNCTION => 'nothing'])))];
        $inner = $new('/inner');
        $outer = $new('/outer', [CURLOPT_WRITEFUNCTION => function ($curl, $data) use (&$seen, $run, $inner) { $seen[] = ['again', what(fn () => curl_exec($curl)), $run($inner), what(fn () => curl_setopt($curl, CURLOPT_HTTPHEADER, ['X-G: 7']))]; return strlen($data); }]);
        $seen[] = [what(fn () => curl_exec($outer)), what(fn () => curl_exec($outer))];
        $gone = $new('/gone', [CURLOPT_WRITEFUNCTION => function ($curl, $data) use (&$gone) { $gone = null; return strlen($data); }]);
        $seen[] = what(fn () => curl_exec($gone));
        $many = function (CurlMultiHandle $multi, array $all): array {
            $still = 'before'; $reference = &$still; $seen = [];
            do { $status = curl_multi_exec($multi, $reference); if ($still) curl_multi_select($multi, 1); } while ($still && $status === CURLM_OK);
            while ($message = curl_multi_info_read($multi, $queued)) { $seen[] = [$message['result'], curl_getinfo($message['handle'], CURLINFO_EFFECTIVE_URL), $queued]; }
            sort($seen);
            return [$status, $still, array_column($seen, 0), array_map('curl_multi_getcontent', $all)];
        };
        $multi = curl_multi_init();
        $all = [$new('/m1', [CURLOPT_HTTPHEADER => ['X-One: 1']]), $new('/m2')];
        foreach ($all as $curl) { curl_multi_add_handle($multi, $curl); }
        $seen[] = [$many($multi, $all), what(fn () => curl_multi_exec($multi, $multi)), what(fn () => curl_multi_exec(still_running: $other, multi_handle: $multi)), what(fn () => call_user_func('curl_multi_exec', $multi, 1)), what(fn () => curl_multi_add_handle($multi, $all[0]))];
        // Without a call that removes the handles or reads their results.
        unset($multi);
        $seen[] = array_map($run, $all);
        $multi = curl_multi_init();
        foreach ($all as $curl) { curl_multi_add_handle($multi, $curl); }
        $multi = null;
        $seen[] = array_map($run, $all);
        $multi = curl_multi_init();
        $two = curl_multi_init();
        $seen[] = [curl_multi_add_handle($multi, $all[0]), curl_multi_add_handle($two, $all[0]), curl_multi_remove_handle($two, $all[0]), curl_multi_remove_handle($multi, $all[0]), curl_multi_add_handle($two, $all[0]), $many($two, [$all[0]]), curl_multi_close($two), $run($all[0]), what(fn () => curl_multi_add_handle($two, $all[0])), curl_multi_close($two), $run($all[0])];
        return $seen;
    },
    // Options that PHP refuses, all or some of them: libcurl must not keep a freed list of fields.
    'curl-refused' => function () {
        $seen = [];
        $new = function (string $path) { $curl = curl_init(URL . $path); curl_setopt_array($curl, [CURLOPT_RETURNTRANSFER => true, CURLOPT_HTTPHEADER => ['X-One: 1']]); return $curl; };
        // Reuses the freed memory.
        $others = fn () => array_map(function () use ($new) { $curl = $new('/other'); curl_setopt($curl, CURLOPT_HTTPHEADER, array_fill(0, 20, 'X-Other: ' . str_repeat('o', random_int(1, 200)))); return $curl; }, range(1, 50));
        $more = function ($curl) use (&$seen, $others) {
            curl_setopt($curl, CURLOPT_WRITEFUNCTION, null);
            curl_setopt($curl, CURLOPT_RETURNTRANSFER, true);
            $kept = $others();
            $copy = curl_copy_handle($curl);
            array_push($seen, curl_exec($curl), curl_exec($copy), curl_exec($curl));
            curl_setopt($curl, CURLOPT_HTTPHEADER, ['X-Three: 3']);
            array_push($seen, curl_exec($curl), curl_exec($copy), count($kept));
        };
        $refused = [
            [CURLOPT_SSLVERSION => 99, CURLOPT_HTTPHEADER => ['X-Two: 2']], [CURLOPT_HTTPHEADER => ['X-Two: 2'], CURLOPT_SSLVERSION => 99], [CURLOPT_HTTPHEADER => ['X-Two: 2'], 'bad' => 1], ['bad' => 1, CURLOPT_HTTPHEADER => ['X-Two: 2']],
            [CURLOPT_HTTPHEADER => 'X-Two: 2'], [CURLOPT_HTTPHEADER => ['X-Two: 2'], CURLOPT_URL => itself()], [CURLOPT_HTTPHEADER => ['X-Two: 2', new Text('X-Text: 1', fn () => throw new DomainException('no text'))], CURLOPT_SSLVERSION => 99],
        ];
        foreach ($refused as $index => $options) {
            $set = fn ($curl) => what(fn () => curl_setopt_array($curl, $options));
            // Before a transfer, twice; then during one, and while the handle is in a multi handle.
            $curl = $new("/before$index"); array_push($seen, curl_exec($curl), $set($curl), $set($curl)); $more($curl);
            $curl = $new("/inside$index"); curl_setopt($curl, CURLOPT_WRITEFUNCTION, function ($curl, $data) use (&$seen, $set) { $seen[] = $set($curl); return strlen($data); }); $seen[] = curl_exec($curl); $more($curl);
            $curl = $new("/among$index"); curl_multi_add_handle($multi = curl_multi_init(), $curl); array_push($seen, $set($curl), curl_multi_remove_handle($multi, $curl)); $more($curl);
        }
        $curl = $new('/reset'); curl_setopt($curl, CURLOPT_WRITEFUNCTION, function ($curl, $data) use (&$seen) { $seen[] = what(fn () => curl_reset($curl)); return strlen($data); }); $seen[] = curl_exec($curl); $more($curl);
        // The list changes while PHP reads it.
        $lines = ['X-Five: 5']; $curl = $new('/changed'); $options = [CURLOPT_USERAGENT => new Text('a', function () use (&$lines) { $lines = ['X-Six: 6']; }), CURLOPT_HTTPHEADER => &$lines]; $seen[] = curl_setopt_array($curl, $options); $more($curl);
        return $seen;
    },
    'streams' => function () {
        $context = stream_context_create(['http' => ['header' => "X-One: 1\r\n"]]);
        $seen = [
            passed('File_Get_Contents', [URL . '/f'], ['filename']), passed('fopen', [URL . '/o', 'r'], ['filename', 'mode']), passed('copy', [URL . '/y', 'php://memory'], ['from', 'to']), passed('get_headers', [URL . '/h'], ['url']), passed('file', [URL . '/i'], ['filename']),
            what(fn () => file_get_contents(URL . '/1', context: $context)), what(fn () => file_get_contents(context: $context, filename: URL . '/2')), what(fn () => file_get_contents(URL . '/3', true, $context, 1, 3)), what(fn () => file_get_contents(URL . '/4', false, fopen('php://memory', 'r'))),
            what(fn () => file_get_contents(new Text(URL . '/5'))), what(fn () => file_get_contents('HTTP' . substr(URL, 4) . '/6')), what(fn () => file_get_contents("http://\0")), what(fn () => file_get_contents(URL . "/7\r\nX-Evil: 1")), what(fn () => readfile(URL . '/8')), what(fn () => is_dir(URL . '/9')), what(fn () => mkdir(URL . '/10')),
            what(fn () => (new SplFileObject(URL . '/11'))->fgets()), what(fn () => iterator_to_array(new LimitIterator(new SplFileObject(URL . '/12'), 0, 1))), what(fn () => include URL . '/13'), what(fn () => hash_file('crc32', URL . '/14')), what(fn () => md5_file(URL . '/15')), what(fn () => (new DOMDocument)->load(URL . '/xml')), what(fn () => simplexml_load_file(URL . '/xml2')),
            stream_context_get_options($context),
        ];
        $changed = ['X-D: 1', 'X-E: 2']; foreach ($changed as &$line) { $line .= '3'; } unset($line);
        foreach ([$changed, " X-D: 1\r\nX-E: 2", "\r\n\tX-D: 1", "\0 X-D: 1 ", [" X-D: 1", "X-E: 2\r\n\r\n", " "], ["", " X-D: 1"], "A: 1\r\n\r\nB: 2", "", " ", "\r\n", ['X-A: 1', 'X-B: 2'], [], [1, null, ['a']], null, 7, true, new Text('X-C: 1'), itself()] as $header) {
            $one = stream_context_create(['http' => ['header' => $header, 'ignore_errors' => true]]);
            $seen[] = [what(fn () => file_get_contents(URL . '/header', false, $one)), what(fn () => array_map(gettype(...), stream_context_get_options($one)['http']))];
        }
        $value = 'X-Ref: 1'; $options = ['http' => ['header' => &$value]];
        $shared = stream_context_create($options);
        $seen[] = [what(fn () => file_get_contents(URL . '/ref', false, $shared)), $value, $value = 'X-Ref: 2', what(fn () => file_get_contents(URL . '/ref2', false, $shared)), stream_context_get_options($shared)];
        // The calls of a stream's callback while the stream is opened.
        $steps = [];
        $noted = stream_context_create(['http' => ['header' => 'X-N: 1']], ['notification' => function (int $code, ...$rest) use (&$noted, &$steps) { $steps[] = [$code, $rest[3], $rest[4], stream_context_get_options($noted)]; }]);
        $file = fopen(URL . '/noted', 'r', false, $noted);
        $meta = stream_get_meta_data($file);
        $seen[] = [get_resource_id($file) - get_resource_id($noted), stream_get_contents($file), $steps, stream_context_get_options($file), array_keys(stream_context_get_params($file)), $meta['uri'], stream_context_set_option($file, 'http', 'header', 'X-New: 1'), stream_context_get_options($noted), fclose($file)];
        $seen[] = [what(fn () => file_get_contents(URL . '/noted2', false, $noted)), count($steps)];
        return $seen;
    },
    'redis' => function () {
        $redis = new Redis;
        $key = 'apm-shapes'; $reference = &$key; $it = null; $self = itself();
        $seen = [passed([$redis, 'connect'], ['127.0.0.1', PORT], ['host', 'port']), $redis->select(3), passed([$redis, 'SET'], [$key, 'v'], ['key', 'value']), passed([$redis, 'get'], [$key], ['key']), passed([$redis, 'rawCommand'], ['get', $key], ['command', 'args']),
            what(fn () => $redis->set($reference, new Text('of an object'))), what(fn () => $redis->get(new Text($key))), what(fn () => $redis->mget($self)), what(fn () => $redis->mget([&$key, 'nothing'])), what(fn () => Redis::get('a')), what(fn () => $redis->get(new Text('x', fn () => throw new DomainException('no key')))),
            what(fn () => (new ReflectionClass('Redis'))->newInstanceWithoutConstructor()->get('x')), what(fn () => $redis->nothing()), what(fn () => (new ReflectionMethod('Redis', 'get'))->invoke($redis, $key)), what(fn () => $redis->eval('return {KEYS[1], ARGV[1]}', ['a', 'b'], 1)),
            what(function () use ($redis, &$it) { $it = null; return [gettype($redis->scan($it, '*', 1000)), $it]; }), what(function () use ($redis) { $it = 'x'; return [gettype($redis->scan($it)), $it]; }), what(function () use ($redis, $key) { $it = null; return $redis->sscan('nothing', $it); }),
            what(fn () => $redis->multi()->get($key)->exec()), what(fn () => $redis->multi(99)), what(fn () => $redis->multi(Redis::PIPELINE)->get($key)->get('nothing')->exec()), what(fn () => $redis->discard()), what(fn () => $redis->exec())];
        $sub = new class extends Redis { public function get(string $key): mixed { return ['own', parent::get($key)]; } };
        $seen[] = [what(fn () => $sub->connect('127.0.0.1', PORT)), $sub->select(3), what(fn () => $sub->get($key)), what(fn () => $sub->close()), what(fn () => gettype($sub->get($key)))];
        return $seen;
    },
    'memcached' => function () {
        $store = new Memcached;
        $store->addServer('127.0.0.1', PORT);
        $key = 'apm-shapes'; $self = itself();
        return [passed([$store, 'SET'], [$key, 'v'], ['key', 'value']), passed([$store, 'get'], [$key], ['key']), passed([$store, 'getMulti'], [[$key]], ['keys']), what(fn () => $store->get(new Text($key))), what(fn () => $store->get(new Text('x', fn () => throw new DomainException('no key')))),
            what(fn () => $store->get('', fn ($store, $key, &$value) => true)), what(fn () => $store->get('computed2', function ($store, $key, &$value, &$expires = null) { $value = ['of', $key]; $expires = 1; return true; })), what(fn () => $store->get('computed3', fn () => throw new DomainException('no value'))),
            what(fn () => gettype($store->get($key, null, Memcached::GET_EXTENDED))), what(fn () => $store->getMulti([&$key, 'nothing'], Memcached::GET_PRESERVE_ORDER)), what(fn () => (new ReflectionClass('Memcached'))->newInstanceWithoutConstructor()->get('x')), what(fn () => (new Memcached)->get('x')), $store->getResultCode(),
            what(fn () => $store->getDelayed([$key], true, function ($store, $item) {})), what(fn () => $store->fetchAll()), what(fn () => $store->delete($key)), what(fn () => $store->nothing())];
    },
]; }
