<?php
// Creates an application that has not booted yet.
use Illuminate\Contracts\Debug\ExceptionHandler;
use Illuminate\Contracts\Http\Kernel;
use Illuminate\Foundation\Application;
use Illuminate\Foundation\Exceptions\Handler;

$app = new Application(dirname(__DIR__));
$app->singleton(Kernel::class, App\Kernel::class);
$app->singleton(ExceptionHandler::class, Handler::class);
return $app;
