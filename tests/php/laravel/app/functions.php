<?php
use Illuminate\Contracts\Http\Kernel;
use Illuminate\Foundation\Application;
use Illuminate\Http\Request;

if (!function_exists('pause')) {
    /** A point at which other requests could run; fibers.php has a version in which they do. */
    function pause(): void
    {
    }
}

/** Serves the request with an application, which boots if it has not booted yet. */
function answer(Application $app): void
{
    $kernel = $app->make(Kernel::class);
    $request = Request::capture();
    $response = $kernel->handle($request)->send();
    $kernel->terminate($request, $response);
}
