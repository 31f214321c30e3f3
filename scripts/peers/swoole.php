<?php

// The pages of site/ as a Swoole application: loaded once, a function for each. Arguments: port, workers, folder, mode:
// `base`, where each worker has connections of its own, or `process`, where threads of another process pass requests on;
// the number of task workers.
[, $port, $workers, $site, $mode, $task_workers] = $argv;

$hello = static fn ($request, $response) => $response->end('Hello, World!');

$rows = static function ($request, $response): void {
    $rows = [];
    for ($id = 1; $id <= 200; $id++) {
        $rows[] = [
            'id' => $id,
            'code' => sprintf('C-%05d', $id),
            'name' => "Customer $id",
            'email' => strtolower("Customer.$id@Example.com"),
            'active' => $id % 3 !== 0,
            'balance' => $id * 100 + 7,
            'address' => ['street' => "$id High Street", 'zip' => str_pad((string) ($id * 37), 5, '0', STR_PAD_LEFT)],
            'tags' => ['tag-' . $id % 7, 'tag-' . $id % 11],
        ];
    }
    $response->header('Content-Type', 'application/json');
    $response->end(json_encode($rows));
};

// Swoole gives the thread to other requests meanwhile.
$wait = static function ($request, $response): void {
    Swoole\Coroutine::sleep(0.01);
    $response->end('waited');
};

$task = static function ($request, $response) use (&$server): void {
    $response->end((string) $server->taskwait(100, 2.0));
};

$tasks = static function ($request, $response) use (&$server): void {
    // They come in the order in which the tasks have ended.
    $results = $server->taskWaitMulti([100, 200, 300, 400], 2.0);
    ksort($results);
    $response->end(implode(' ', $results));
};

$facts = static function ($request, $response) use ($site): void {
    ob_start();
    require "$site/facts.php";
    $response->end(ob_get_clean() . 'Swoole=' . SWOOLE_VERSION . "\n");
};

$pages = [
    '/hello.php' => $hello, '/rows.php' => $rows, '/wait.php' => $wait, '/task.php' => $task, '/tasks.php' => $tasks,
    '/facts.php' => $facts,
];

$server = new Swoole\Http\Server('127.0.0.1', (int) $port, $mode === 'base' ? SWOOLE_BASE : SWOOLE_PROCESS);
$server->set([
    'worker_num' => (int) $workers,
    'task_worker_num' => (int) $task_workers,
    'backlog' => 1024,
    'http_compression' => false,
    'log_level' => SWOOLE_LOG_WARNING,
    'enable_static_handler' => true,
    'static_handler_locations' => ['/page.html', '/large.html'],
    'document_root' => $site,
]);
$server->on('request', static function ($request, $response) use ($pages): void {
    $page = $pages[$request->server['request_uri']] ?? null;
    if ($page === null) {
        $response->status(404);
        $response->end();
        return;
    }
    $page($request, $response);
});
// What a task is in Swoole: data for this function.
$server->on('task', static fn ($server, $id, $from, int $n): int => array_sum(range(1, $n)));
$server->start();
