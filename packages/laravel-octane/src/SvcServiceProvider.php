<?php

declare(strict_types=1);

namespace Svc\LaravelOctane;

use Illuminate\Support\ServiceProvider;
use Laravel\Octane\Contracts\DispatchesTasks;

/** Adds svc to the servers of Octane's commands, and runs Octane's tasks on svc's threads. */
final class SvcServiceProvider extends ServiceProvider
{
    public function register(): void
    {
        $this->app->singleton(SvcServer::class, static fn ($app): SvcServer => new SvcServer(
            binary: $app['config']->get('octane.svc.binary'),
            pidFile: $app['config']->get('octane.svc.pid_file') ?? $app->storagePath('logs/svc.pid'),
        ));
        if (TaskDispatcher::isSupported()) {
            $this->app->bind(DispatchesTasks::class, TaskDispatcher::class);
        }
    }

    public function boot(): void
    {
        if (! $this->app->runningInConsole()) {
            return;
        }
        // Octane registers commands of the same names; those that are registered last replace them.
        $this->app->booted(fn () => $this->commands([
            Commands\ReloadCommand::class,
            Commands\StartCommand::class,
            Commands\StatusCommand::class,
            Commands\StopCommand::class,
        ]));
    }
}
