<?php

declare(strict_types=1);

namespace Svc\LaravelOctane\Commands;

use Symfony\Component\Process\Process;

trait KnowsSvc
{
    private function isForSvc(): bool
    {
        return ($this->option('server') ?: config('octane.server')) === 'svc';
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
