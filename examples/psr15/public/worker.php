<?php

declare(strict_types=1);

use Example\Echoes;
use Example\Emitter;
use Example\Greeting;
use Example\Pipeline;
use Example\Routes;
use Example\Timing;
use GuzzleHttp\Psr7\ServerRequest;

require __DIR__ . '/../vendor/autoload.php';

// The application is built once. All requests of this worker use it, so it keeps nothing of any of them.
$application = new Pipeline(
    [new Timing()],
    new Routes([
        'GET /' => new Greeting('Hello'),
        'POST /echo' => new Echoes(),
    ]),
);

Svc\Worker::serve(static function () use ($application): void {
    Emitter::emit($application->handle(ServerRequest::fromGlobals()));
});
