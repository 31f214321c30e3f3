<?php
namespace App;

use Illuminate\Contracts\Foundation\Application;
use Illuminate\Cookie\Middleware\AddQueuedCookiesToResponse;
use Illuminate\Cookie\Middleware\EncryptCookies;
use Illuminate\Foundation\Bootstrap\HandleExceptions;
use Illuminate\Foundation\Http\Kernel as HttpKernel;
use Illuminate\Foundation\Http\Middleware\ConvertEmptyStringsToNull;
use Illuminate\Foundation\Http\Middleware\TrimStrings;
use Illuminate\Foundation\Http\Middleware\VerifyCsrfToken;
use Illuminate\Routing\Middleware\SubstituteBindings;
use Illuminate\Session\Middleware\StartSession;
use Illuminate\Support\Str;
use Illuminate\View\Middleware\ShareErrorsFromSession;

final class Kernel extends HttpKernel
{
    protected $middleware = [TrimStrings::class, ConvertEmptyStringsToNull::class];

    protected $middlewareGroups = ['web' => [
        EncryptCookies::class,
        AddQueuedCookiesToResponse::class,
        StartSession::class,
        ShareErrorsFromSession::class,
        Tokens::class,
        SubstituteBindings::class,
    ]];

    protected function bootstrappers()
    {
        return array_map(static fn ($class) => $class === HandleExceptions::class ? HandleErrors::class : $class, $this->bootstrappers);
    }
}

/** Handles errors like Laravel, except for PHP's newer deprecations. */
final class HandleErrors extends HandleExceptions
{
    public function bootstrap(Application $app)
    {
        // Loaded before an error level would report it: OPcache compiles without a handler.
        class_exists(Str::class);
        parent::bootstrap($app);
        error_reporting(E_ALL & ~E_DEPRECATED & ~E_USER_DEPRECATED);
    }

    public function handleDeprecation($message, $file, $line)
    {
    }
}

final class Tokens extends VerifyCsrfToken
{
    protected $except = ['json/*'];
}
