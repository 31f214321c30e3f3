<?php

declare(strict_types=1);

namespace Svc\LaravelOctane;

use RuntimeException;
use Symfony\Component\Process\ExecutableFinder;
use Symfony\Component\Process\Process;

/** The svc process of an application, found by its PID file. */
final class SvcServer
{
    public function __construct(private readonly ?string $binary, private readonly string $pidFile)
    {
    }

    /** Returns whether the server runs: it holds a lock on the file for its lifetime. */
    public function isRunning(): bool
    {
        $file = @fopen($this->pidFile, 'r');

        return $file !== false && ! flock($file, LOCK_SH | LOCK_NB);
    }

    /**
     * Returns the process that serves the application in `$basePath`, not yet started.
     *
     * @param  list<string>  $options  options of `svc octane`
     * @param  array<string, string|false>  $environment
     */
    public function process(string $basePath, array $options, array $environment): Process
    {
        $command = [$this->binary(), 'octane', '--pid-file', $this->pidFile, ...$options, $basePath];

        return new Process($command, $basePath, $environment, timeout: null);
    }

    /** Runs `svc reload` or `svc stop`, which wait for the outcome. */
    public function order(string $command): Process
    {
        $process = new Process([$this->binary(), $command, '--pid-file', $this->pidFile], timeout: null);
        $process->run();

        return $process;
    }

    /** @throws RuntimeException if there is no svc */
    private function binary(): string
    {
        if ($this->binary !== null) {
            return $this->binary;
        }
        $found = (new ExecutableFinder)->find('svc', null, [base_path(), base_path('vendor/bin')]);

        return $found ?? throw new RuntimeException(
            'svc was not found on PATH. Install it, or name the file in octane.svc.binary of config/octane.php.',
        );
    }
}
