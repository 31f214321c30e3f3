<?php

declare(strict_types=1);

namespace Svc\LaravelOctane\Commands;

use Laravel\Octane\Commands\ReloadCommand as OctaneReloadCommand;
use Svc\LaravelOctane\SvcServer;

/** `octane:reload`, also for svc. */
final class ReloadCommand extends OctaneReloadCommand
{
    use KnowsSvc;

    public function handle()
    {
        if (! $this->isForRunningSvc()) {
            return parent::handle();
        }
        $server = $this->laravel->make(SvcServer::class);
        if (! $server->isRunning()) {
            $this->error('Octane server is not running.');

            return self::FAILURE;
        }
        $this->info('Reloading workers...');

        return $this->outcome($server->order('reload'));
    }
}
