<?php
// The code is loaded once; each request has a separate application, since requests overlap. Laravel's static variables
// belong to the application that has registered last, so an application registers again after every wait.
use Illuminate\Container\Container;

function pause(): void
{
    $app = Container::getInstance();
    Svc\sleep(0.001);
    App\Worker::put($app);
}

require __DIR__ . '/vendor/autoload.php';
Svc\Worker::serve(static fn () => answer(require __DIR__ . '/bootstrap/app.php'));
