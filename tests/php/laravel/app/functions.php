<?php
use Illuminate\Contracts\Http\Kernel;
use Illuminate\Foundation\Application;
use Illuminate\Http\Request;

if (!function_exists('pause')) {
    /** A moment at which other requests could run; where they can, fibers.php has another one. */
    function pause(): void
    {
    }
}

/** Serves the request with an application, which boots if it has not. */
function answer(Application $app): void
{
    $kernel = $app->make(Kernel::class);
    $request = Request::capture();
    $response = $kernel->handle($request)->send();
    $kernel->terminate($request, $response);
}
