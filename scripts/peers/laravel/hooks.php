<?php

// A Laravel application in worker mode with runtime hooks: each of the requests that a worker serves at once has an
// application, with its connection to the database, and a later request uses it again.
use Illuminate\Container\Container;
use Illuminate\Contracts\Http\Kernel;
use Illuminate\Foundation\Application;
use Illuminate\Http\Request;
use Illuminate\Support\Facades\Facade;

require dirname(__DIR__) . '/vendor/autoload.php';

// The framework keeps its current application in static variables: there, it is the one of the request that asks.
$application = Svc\per_request(
    Application::class,
    static function () use (&$application): Application {
        $own = require dirname(__DIR__) . '/bootstrap/app.php';
        $own->make(Kernel::class)->bootstrap();
        Container::setInstance($application);
        Facade::setFacadeApplication($application);
        return $own;
    },
    static function (Application $own): bool {
        $own->forgetScopedInstances();
        foreach ($own->make('db')->getConnections() as $connection) {
            $connection->rollBack(0);
            $connection->flushQueryLog();
        }
        return true;
    },
    max: 64,
);
// Facades keep the services that they have found, which belong to an application.
(static fn () => static::$cached = false)->bindTo(null, Facade::class)();

Svc\Worker::serve(static function () use ($application): void {
    $kernel = $application->make(Kernel::class);
    $request = Request::capture();
    $response = $kernel->handle($request);
    $response->send();
    $kernel->terminate($request, $response);
});
