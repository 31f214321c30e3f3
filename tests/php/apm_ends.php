<?php
// Programs of the tests of `apm`: calls that are cut short.
function fetched(string $path, array $more = []): array
{
    $curl = curl_init(URL . $path);
    curl_setopt_array($curl, [CURLOPT_RETURNTRANSFER => true] + $more);
    return [curl_exec($curl), curl_errno($curl), curl_getinfo($curl, CURLINFO_RESPONSE_CODE)];
}
/** Starts a call in a fiber, which waits in the middle of it. */
function begun(callable $call, array &$seen): Fiber
{
    $fiber = new Fiber(function () use ($call, &$seen) { try { $seen[] = ['returns', $call()]; } finally { $seen[] = 'finally'; } });
    $seen[] = $fiber->start();
    return $fiber;
}
function waiting(): PDO
{
    $db = new PDO('sqlite::memory:');
    $db->sqliteCreateFunction('waits', fn () => Fiber::suspend('query'));
    return $db;
}
/** Calls that wait in the middle, by name. */
function calls(): array
{
    $note = fn (int $code) => $code === STREAM_NOTIFY_CONNECT && Fiber::getCurrent() && Fiber::suspend('stream');
    return [
        'query' => fn () => waiting()->query('select waits() as w')->fetchAll(),
        'exec' => fn () => waiting()->exec('create table t as select waits()'),
        'execute' => function () { $statement = waiting()->prepare('select waits()'); return [$statement->execute(), $statement->fetchAll()]; },
        'exit' => function () { $db = waiting(); $db->sqliteCreateFunction('leaves', function () { Fiber::suspend('exit'); }); return $db->query('select leaves()')->fetchAll(); },
        'curl' => fn () => fetched('/cut/curl', [CURLOPT_WRITEFUNCTION => function ($curl, $data) { Fiber::suspend('curl'); return strlen($data); }]),
        'multi' => function () {
            $multi = curl_multi_init();
            $curl = curl_init(URL . '/cut/multi');
            curl_setopt($curl, CURLOPT_WRITEFUNCTION, function ($curl, $data) { Fiber::suspend('multi'); return strlen($data); });
            curl_multi_add_handle($multi, $curl);
            do { $status = curl_multi_exec($multi, $still); if ($still) curl_multi_select($multi, 1); } while ($still && $status === CURLM_OK);
            return [$status, curl_multi_info_read($multi)['result'], curl_multi_remove_handle($multi, $curl)];
        },
        'stream' => fn () => file_get_contents(URL . '/cut/stream', false, stream_context_create([], ['notification' => $note])),
    ];
}
function cases(): array { return [
    'limit' => function () {
        set_time_limit(1);
        $db = new PDO('sqlite::memory:');
        while (true) { $db->query('with recursive c(x) as (select 1 union all select x + 1 from c limit 200000) select count(*) from c')->fetchAll(); }
    },
    'limit-pdo' => function () { $db = new PDO(DSN, USER, PASSWORD); set_time_limit(1); $db->query(SLEEP); while (true); },
    'limit-pgsql' => function () { $db = pg_connect(DSN); set_time_limit(1); pg_query($db, SLEEP); while (true); },
    'limit-mysqli' => function () { $db = new mysqli('127.0.0.1', USER, PASSWORD, NAME, PORT); set_time_limit(1); $db->query(SLEEP); while (true); },
    'limit-curl' => function () { set_time_limit(1); fetched('/late'); while (true); },
    'limit-stream' => function () { set_time_limit(1); file_get_contents(URL . '/late'); while (true); },
    'limit-callback' => function () { set_time_limit(1); fetched('/spins', [CURLOPT_WRITEFUNCTION => function () { while (true); }]); },
    'fine' => fn () => [waiting()->query('select 1 as one')->fetchAll(), fetched('/fine'), file_get_contents(URL . '/fine')],
    'resumed' => function () {
        $seen = [];
        foreach (calls() as $name => $call) { $fiber = begun($call, $seen); while (!$fiber->isTerminated()) $seen[] = $fiber->resume('resumed'); }
        return $seen;
    },
    'dropped' => function () {
        $seen = [];
        foreach (calls() as $name => $call) { $seen[] = $name; $fiber = begun($call, $seen); unset($fiber); $seen[] = 'dropped'; }
        return [$seen, fetched('/after'), file_get_contents(URL . '/after'), waiting()->query('select 2 as two')->fetchAll()];
    },
    'thrown' => function () {
        $seen = [];
        foreach (calls() as $name => $call) { $fiber = begun(fn () => what($call), $seen); while (!$fiber->isTerminated()) $seen[] = $fiber->throw(new DomainException("into $name")); }
        return $seen;
    },
    'anonymous' => function () {
        $db = new PDO('sqlite::memory:');
        $db->sqliteCreateFunction('fails', fn () => throw new class('nameless') extends DomainException {});
        try { return $db->query('select fails()'); } catch (DomainException $thrown) { return $thrown->getMessage(); }
    },
    'left' => function () {
        $seen = $left = [];
        foreach (calls() as $name => $call) { $left[] = begun($call, $seen); }
        // Kept until after the response, when the request ends.
        register_shutdown_function(fn () => $left);
        return $seen;
    },
    'reused' => function () {
        $curl = curl_init(URL . '/reused');
        curl_setopt_array($curl, [CURLOPT_RETURNTRANSFER => true, CURLOPT_HTTPHEADER => ['X-One: 1'], CURLOPT_WRITEFUNCTION => fn () => Fiber::suspend('curl')]);
        $fiber = new Fiber(fn () => curl_exec($curl));
        $seen = [$fiber->start()];
        unset($fiber);
        curl_setopt($curl, CURLOPT_WRITEFUNCTION, null);
        curl_setopt($curl, CURLOPT_RETURNTRANSFER, true);
        return [$seen, curl_exec($curl), curl_errno($curl)];
    },
    'exits' => function () {
        echo '"left"';
        fetched('/exits', [CURLOPT_WRITEFUNCTION => function () { exit; }]);
    },
    'leaks' => function () {
        $seen = [];
        $round = function () use (&$seen) { file_get_contents(URL . '/number', false, stream_context_create(['http' => ['header' => 7]])); foreach (calls() as $call) { $fiber = begun($call, $seen); unset($fiber); } $seen = []; gc_collect_cycles(); };
        for ($i = 0; $i < 20; $i++) { $round(); }
        $before = memory_get_usage();
        for ($i = 0; $i < 60; $i++) { $round(); }
        return (memory_get_usage() - $before) / 60 < 64;
    },
]; }
