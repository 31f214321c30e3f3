<?php
// Programs of the tests of `apm`: calls inside of background tasks.
function work(): Closure
{
    return static function (string $dsn, ?string $user, ?string $password, string $url): array {
        $db = new PDO($dsn, $user, $password);
        $seen = [$db->query('select 1 as one')->fetchAll(PDO::FETCH_NUM), array_map([$db, 'quote'], ["a'b"])];
        try { $db->query('select missing from nowhere'); } catch (PDOException $error) { $seen[] = [$error->getCode(), $error->getMessage()]; }
        $statement = $db->prepare("select 'of a task'");
        $seen[] = [$statement->execute(), $statement->fetchAll(PDO::FETCH_NUM)];
        $curl = curl_init("$url/curl");
        curl_setopt_array($curl, [CURLOPT_RETURNTRANSFER => true, CURLOPT_HTTPHEADER => ['X-One: 1']]);
        $seen[] = [curl_exec($curl), file_get_contents("$url/stream")];
        $multi = curl_multi_init();
        curl_setopt($curl, CURLOPT_URL, "$url/multi");
        curl_multi_add_handle($multi, $curl);
        do { $status = curl_multi_exec($multi, $still); if ($still) curl_multi_select($multi, 1); } while ($still && $status === CURLM_OK);
        $seen[] = [$status, curl_multi_info_read($multi)['result'], curl_multi_getcontent($curl)];
        $fiber = new Fiber(function () use ($db) { $one = $db->query('select 2 as two')->fetchAll(PDO::FETCH_NUM); Fiber::suspend($one); return $db->query('select 3 as three')->fetchAll(PDO::FETCH_NUM); });
        $seen[] = [$fiber->start(), $fiber->resume(), $fiber->getReturn()];
        $seen[] = Svc\Trace\span('inside', fn () => file_get_contents("$url/inside"));
        return $seen;
    };
}
function cases(): array { return [
    'tasks' => fn () => Svc\Trace\span('dispatching', fn () => Svc\await_all(['a' => Svc\async(work(), DSN, USER, PASSWORD, URL . '/a'), 'b' => Svc\async(work(), DSN, USER, PASSWORD, URL . '/b')])),
    'nested' => fn () => Svc\async(static fn (string $url) => Svc\Trace\span('outer', fn () => [file_get_contents("$url/outer"), Svc\async(static fn (string $url) => file_get_contents("$url/inner"), $url)->await()]), URL)->await(),
    'fails' => fn () => what(fn () => Svc\async(static fn (string $dsn, ?string $user, ?string $password) => (new PDO($dsn, $user, $password))->query('select missing from nowhere'), DSN, USER, PASSWORD)->await()),
    'fatal' => fn () => what(fn () => Svc\async(static function () {
        $db = new PDO('sqlite::memory:');
        $db->sqliteCreateFunction('exhausts', function () { ini_set('memory_limit', '6M'); $all = []; while (true) { $all[] = str_repeat('x', 4096); } });
        $db->query('select exhausts()');
    })->await()),
    'cancelled' => function () {
        $task = Svc\Trace\span('dispatching', fn () => Svc\async(static fn (string $url) => file_get_contents("$url/late"), URL));
        while (!file_exists(__DIR__ . '/go')) { usleep(2000); clearstatcache(); }
        $task->cancel();
        return what(fn () => $task->await());
    },
]; }
