<?php
// Code is loaded once; each request has an application of its own, since requests overlap. What Laravel keeps in static
// variables is the application's that made itself known last, so whoever waits makes itself known again.
use Illuminate\Container\Container;

function pause(): void
{
    $app = Container::getInstance();
    Svc\sleep(0.001);
    App\Worker::put($app);
}

require __DIR__ . '/vendor/autoload.php';
Svc\Worker::serve(static fn () => answer(require __DIR__ . '/bootstrap/app.php'));
