<?php

declare(strict_types=1);

namespace Svc\LaravelOctane\Commands;

use Laravel\Octane\Commands\StatusCommand as OctaneStatusCommand;
use Svc\LaravelOctane\SvcServer;

/** `octane:status`, also for svc. */
final class StatusCommand extends OctaneStatusCommand
{
    use KnowsSvc;

    public function handle()
    {
        if (! $this->isForRunningSvc()) {
            return parent::handle();
        }
        $isRunning = $this->laravel->make(SvcServer::class)->isRunning();
        $this->info($isRunning ? 'Octane server is running.' : 'Octane server is not running.');

        return $isRunning ? self::SUCCESS : self::FAILURE;
    }
}
