<?php
namespace App;

use Illuminate\Auth\GenericUser;
use Illuminate\Contracts\Auth\Authenticatable;
use Illuminate\Contracts\Auth\UserProvider;
use Illuminate\Support\Facades\Auth;
use Illuminate\Support\Facades\Route;
use Illuminate\Support\ServiceProvider;

final class Provider extends ServiceProvider
{
    public function register(): void
    {
        $this->app->singleton('requests', static fn () => new Counter());
        $this->app->singleton('own', static fn () => new Counter());
        $this->app->scoped('scoped', static fn () => new Counter());
    }

    public function boot(): void
    {
        Auth::provider('anybody', static fn () => new Anybody());
        Route::middleware('web')->group(base_path('routes/web.php'));
        // Both exist before the first request: one is shared by all requests of a boot, the other is new for each request.
        $this->app->make('requests');
        $this->app->make('scoped');
        // What a page of the documentation adds to this method.
        if (is_file($addition = base_path('addition.php'))) {
            require $addition;
        }
    }
}

final class Counter
{
    private int $count = 0;

    public function next(): int
    {
        return ++$this->count;
    }
}

/** Users without a database: every name is valid. */
final class Anybody implements UserProvider
{
    public function retrieveById($identifier)
    {
        return new GenericUser(['id' => $identifier, 'remember_token' => null]);
    }

    public function retrieveByToken($identifier, $token)
    {
        return null;
    }

    public function updateRememberToken(Authenticatable $user, $token)
    {
    }

    public function retrieveByCredentials(array $credentials)
    {
        return null;
    }

    public function validateCredentials(Authenticatable $user, array $credentials)
    {
        return false;
    }
}
