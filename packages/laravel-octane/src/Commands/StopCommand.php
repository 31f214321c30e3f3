<?php

declare(strict_types=1);

namespace Svc\LaravelOctane\Commands;

use Laravel\Octane\Commands\StopCommand as OctaneStopCommand;
use Svc\LaravelOctane\SvcServer;

/** `octane:stop`, also for svc. */
final class StopCommand extends OctaneStopCommand
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
        $this->info('Stopping server...');

        return $this->outcome($server->order('stop'));
    }
}
