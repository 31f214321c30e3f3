<?php

declare(strict_types=1);

namespace Svc\LaravelOctane\Commands;

use Laravel\Octane\Commands\Concerns\InteractsWithEnvironmentVariables;
use Laravel\Octane\Commands\StartCommand as OctaneStartCommand;
use RuntimeException;
use Svc\LaravelOctane\SvcServer;
use Svc\LaravelOctane\TaskDispatcher;
use Symfony\Component\Process\Process;

/** `octane:start`, also for svc. */
final class StartCommand extends OctaneStartCommand
{
    use InteractsWithEnvironmentVariables;
    use KnowsSvc;

    /** An incomplete line of the server's output. */
    private string $rest = '';

    public function handle()
    {
        if (! $this->isForSvc()) {
            return parent::handle();
        }
        foreach (['https', 'http-redirect', 'caddyfile', 'rr-config', 'poll'] as $option) {
            if ($this->hasOption($option) && $this->option($option)) {
                $this->error("--$option is not an option of svc; see docs/octane.md.");

                return self::FAILURE;
            }
        }
        $server = $this->laravel->make(SvcServer::class);
        if ($server->isRunning()) {
            $this->error('Octane server is already running.');

            return self::FAILURE;
        }
        // The server's workers read .env themselves, so that a reload applies a change of it.
        $this->forgetEnvironmentVariables();
        try {
            $process = $server->process($this->laravel->basePath(), $this->serverOptions(), $this->environment());
        } catch (RuntimeException $error) {
            $this->error($error->getMessage());

            return self::FAILURE;
        }
        $process->start();
        $this->writeServerRunningMessage();
        try {
            while ($process->isRunning()) {
                $this->writeServerOutput($process);
                usleep(100_000);
            }
            $this->writeServerOutput($process);
        } finally {
            if ($process->isRunning()) {
                $this->stopServer();
            }
        }

        return $process->getExitCode();
    }

    /** @return list<string> */
    private function serverOptions(): array
    {
        $host = str_contains($this->getHost(), ':') ? '['.trim($this->getHost(), '[]').']' : $this->getHost();
        $options = ['--listen', $host.':'.$this->getPort(), '--max-requests', $this->option('max-requests')];
        if ($this->option('workers') !== 'auto') {
            array_push($options, '--workers', $this->option('workers'));
        }
        if ($this->option('admin-port')) {
            array_push($options, '--ops', '127.0.0.1:'.$this->option('admin-port'));
        }
        if ($this->option('watch')) {
            $options[] = '--watch';
        }

        return $options;
    }

    /** @return array<string, string> */
    private function environment(): array
    {
        $environment = ['APP_ENV' => $this->laravel->environment(), 'LOG_FORMAT' => 'json'];
        if ($this->laravel->isLocal()) {
            $environment['ACCESS_LOG'] = 'all';
        }
        if ($this->option('log-level')) {
            $environment['LOG_LEVEL'] = $this->option('log-level');
        }
        $taskWorkers = $this->option('task-workers');

        return $environment + TaskDispatcher::environment($taskWorkers === 'auto' ? null : (int) $taskWorkers);
    }

    /** Prints the complete lines that the server has written. */
    protected function writeServerOutput(Process $process): void
    {
        $lines = explode("\n", $this->rest.$process->getIncrementalOutput());
        $this->rest = array_pop($lines);
        foreach ($lines as $line) {
            $this->writeRecord($line);
        }
        $errors = trim($process->getIncrementalErrorOutput());
        if ($errors !== '') {
            $this->error($errors);
        }
        $process->clearOutput()->clearErrorOutput();
    }

    private function writeRecord(string $line): void
    {
        $record = json_decode($line, true);
        $fields = $record['fields'] ?? null;
        if (! is_array($fields)) {
            $this->raw($line);

            return;
        }
        $message = $fields['message'] ?? '';
        if ($record['target'] === 'access') {
            $this->requestInfo([
                'method' => $fields['method'],
                'url' => $fields['path'],
                'statusCode' => $fields['status'],
                'duration' => $fields['duration_us'] / 1000,
            ]);
        } elseif (is_array($stream = json_decode($message, true))) {
            // Octane's own records of exceptions.
            $this->handleStream($stream);
        } elseif ($record['level'] === 'ERROR') {
            $this->error($message.$this->details($fields));
        } elseif ($record['level'] === 'WARN') {
            $this->warn($message.$this->details($fields));
        } elseif ($this->option('log-level')) {
            $this->info($message.$this->details($fields));
        }
    }

    private function details(array $fields): string
    {
        unset($fields['message']);

        return $fields === [] ? '' : ' '.json_encode($fields, JSON_UNESCAPED_SLASHES | JSON_UNESCAPED_UNICODE);
    }
}
