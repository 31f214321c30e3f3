<?php

// The Symfony application of the tests, for roadrunner.php: one boot and one kernel for all requests.
use Symfony\Component\HttpFoundation\Request;

require __DIR__ . '/app.php';
$kernel = application()();
return static function (array $told) use ($kernel): array {
    $server = ['REMOTE_ADDR' => $told['address'] ?? '127.0.0.1', 'SERVER_PROTOCOL' => $told['protocol'] ?? 'HTTP/1.1'];
    foreach ($told['headers'] as $name => $values) {
        $server['HTTP_' . strtoupper(strtr($name, '-', '_'))] = implode(', ', $values);
    }
    $cookies = array_map('reset', $told['cookies']);
    $request = Request::create($told['uri'], $told['method'], [], $cookies, [], $server, $told['body']);
    $response = $kernel->handle($request);
    $answer = [$response->getStatusCode(), $response->headers->all(), $response->getContent()];
    $kernel->terminate($request, $response);
    return $answer;
};
