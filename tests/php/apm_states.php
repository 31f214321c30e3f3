<?php
// Calls that propagate a trace, each to a separate path of the server at URL.
const URL = 'http://BACKEND';
const PARENT = '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01';

function handle(string $path, array $fields = [])
{
    $curl = curl_init(URL . $path);
    curl_setopt_array($curl, [CURLOPT_RETURNTRANSFER => true] + ($fields ? [CURLOPT_HTTPHEADER => $fields] : []));
    return $curl;
}

function open(string $path, string|array $fields): void
{
    file_get_contents(URL . $path, false, stream_context_create(['http' => ['header' => $fields]]));
}

function states(): array
{
    curl_exec(handle('/curl'));
    $curl = handle('/curl-fields', ['X-One: 1']);
    curl_exec($curl);
    curl_setopt($curl, CURLOPT_URL, URL . '/curl-again');
    curl_exec($curl);
    $copy = curl_copy_handle($curl);
    curl_setopt($copy, CURLOPT_URL, URL . '/curl-copied');
    curl_exec($copy);
    curl_reset($curl);
    curl_setopt_array($curl, [CURLOPT_RETURNTRANSFER => true, CURLOPT_URL => URL . '/curl-reset']);
    curl_exec($curl);
    curl_exec(handle('/curl-own-state', ['TraceState: mine=1']));
    curl_exec(handle('/curl-own-parent', ['Traceparent: ' . PARENT]));
    $multi = curl_multi_init();
    curl_multi_add_handle($multi, $one = handle('/multi'));
    do { curl_multi_exec($multi, $running); if ($running) curl_multi_select($multi, 1); } while ($running);
    curl_multi_remove_handle($multi, $one);
    file_get_contents(URL . '/stream');
    open('/stream-fields', "X-One: 1\r\n");
    open('/stream-list', ['X-One: 1', 'X-Two: 2']);
    open('/stream-own-state', ['X-One: 1', 'TRACESTATE: mine=1']);
    open('/stream-own-parent', "X-One: 1\r\ntraceparent: " . PARENT);
    $task = Svc\async(static function (string $url) { file_get_contents($url); return Svc\Trace\tracestate(); }, URL . '/task');
    return [Svc\Trace\tracestate(), $_SERVER['HTTP_TRACESTATE'] ?? null, $task->await()];
}
