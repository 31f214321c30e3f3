<?php
// A stand-in for Octane: the classes that packages/laravel-octane extends and calls, with their methods. Its own commands
// only say that they were asked.
namespace Laravel\Octane\Commands\Concerns {
    trait InteractsWithEnvironmentVariables
    {
        public function forgetEnvironmentVariables()
        {
        }
    }
}

namespace Laravel\Octane\Commands {
    use Symfony\Component\Console\Command\SignalableCommandInterface;

    abstract class Command extends \Illuminate\Console\Command
    {
        public function raw($string)
        {
            $this->output->writeln("raw: $string");
        }

        public function requestInfo($request)
        {
            $this->output->writeln("request: $request[statusCode] $request[method] $request[url]");
        }

        public function handleStream($stream)
        {
            $this->output->writeln("stream: $stream[type]");
        }

        public function handle()
        {
            $this->output->writeln($this->getName() . ' of ' . ($this->option('server') ?: config('octane.server')));
            return 3;
        }
    }

    class StartCommand extends Command implements SignalableCommandInterface
    {
        public $signature = 'octane:start {--server=} {--host=} {--port=} {--admin-port=} {--rpc-host=} {--rpc-port=}
            {--workers=auto} {--task-workers=auto} {--max-requests=500} {--rr-config=} {--caddyfile=} {--https}
            {--http-redirect} {--watch} {--poll} {--log-level=}';

        protected function getHost()
        {
            return $this->option('host') ?? '127.0.0.1';
        }

        protected function getPort()
        {
            return $this->option('port') ?? '8000';
        }

        protected function writeServerRunningMessage()
        {
            $this->info('Server running…');
        }

        protected function stopServer()
        {
            $this->callSilent('octane:stop', ['--server' => $this->option('server') ?: config('octane.server')]);
        }

        public function getSubscribedSignals(): array
        {
            return [SIGINT, SIGTERM];
        }

        public function handleSignal(int $signal, int|false $previousExitCode = 0): void
        {
            $this->stopServer();
            exit(0);
        }
    }

    class ReloadCommand extends Command
    {
        public $signature = 'octane:reload {--server=}';
    }

    class StatusCommand extends Command
    {
        public $signature = 'octane:status {--server=}';
    }

    class StopCommand extends Command
    {
        public $signature = 'octane:stop {--server=}';
    }
}

namespace Laravel\Octane\Contracts {
    interface DispatchesTasks
    {
        public function resolve(array $tasks, int $waitMilliseconds = 3000): array;

        public function dispatch(array $tasks): void;
    }
}

namespace Laravel\Octane\Exceptions {
    class TaskTimeoutException extends \Exception
    {
        public static function after(int $milliseconds): static
        {
            return new static("Task timed out after $milliseconds milliseconds.");
        }
    }

    final class TaskExceptionResult
    {
        public function __construct(private string $class, private string $message)
        {
        }

        public function getOriginal(): \Exception
        {
            return new \Exception("$this->class: $this->message");
        }
    }
}

namespace Laravel\Octane\Swoole {
    final class TaskResult
    {
        public function __construct(public mixed $result)
        {
        }
    }
}

namespace Laravel\Octane\FrankenPhp {
    final class FrankenPhpClient
    {
    }
}

namespace Laravel\Octane {
    use Laravel\Octane\Exceptions\TaskExceptionResult;
    use Laravel\Octane\Swoole\TaskResult;

    final class ApplicationFactory
    {
        public function __construct(public string $basePath)
        {
        }
    }

    final class Worker
    {
        public function __construct(private ApplicationFactory $factory, private object $client)
        {
        }

        public function boot(): void
        {
            $GLOBALS['booted'] = basename($this->factory->basePath);
        }

        public function handleTask(callable $task): TaskResult|TaskExceptionResult
        {
            try {
                return new TaskResult($task());
            } catch (\Throwable $error) {
                return new TaskExceptionResult($error::class, $error->getMessage());
            }
        }
    }

    final class OctaneServiceProvider extends \Illuminate\Support\ServiceProvider
    {
        public function boot(): void
        {
            $this->commands([
                Commands\ReloadCommand::class, Commands\StartCommand::class, Commands\StatusCommand::class, Commands\StopCommand::class,
            ]);
        }
    }
}
