<?php

declare(strict_types=1);

namespace Svc\LaravelOctane\Commands;

use Svc\LaravelOctane\SvcServer;
use Symfony\Component\Process\Process;

trait KnowsSvc
{
    private function isForSvc(): bool
    {
        return ($this->option('server') ?: config('octane.server')) === 'svc';
    }

    /** Returns whether the command is for a server that was started with svc, also where svc is not the default. */
    private function isForRunningSvc(): bool
    {
        return $this->isForSvc() || (! $this->option('server') && $this->laravel->make(SvcServer::class)->isRunning());
    }

    /** Prints why a command of svc has failed; returns its exit code. */
    private function outcome(Process $process): int
    {
        if (! $process->isSuccessful()) {
            $this->error(trim($process->getErrorOutput()));
        }

        return $process->getExitCode() ?? self::FAILURE;
    }
}
