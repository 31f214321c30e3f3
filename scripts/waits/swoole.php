<?php
require __DIR__ . '/calls.php';
Swoole\Runtime::enableCoroutine(SWOOLE_HOOK_ALL);
$server = new Swoole\Http\Server('127.0.0.1', (int) $argv[1], SWOOLE_BASE);
$server->set(['worker_num' => 1, 'max_coroutine' => 1000, 'log_level' => SWOOLE_LOG_ERROR]);
$server->on('request', static function ($request, $response): void {
    $response->end(call_that_waits($request->get['call']));
});
$server->start();
