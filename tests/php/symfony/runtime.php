<?php
// Like loop.php, behind Symfony's own Runtime component, with a runner like those of other worker servers.
use Symfony\Component\HttpFoundation\Request;
use Symfony\Component\HttpKernel\HttpKernel;
use Symfony\Component\Runtime\RunnerInterface;
use Symfony\Component\Runtime\SymfonyRuntime;

require_once __DIR__ . '/autoload_runtime.php';

final class WorkerRuntime extends SymfonyRuntime
{
    public function getRunner(?object $application): RunnerInterface
    {
        if (!($_SERVER['FRANKENPHP_WORKER'] ?? false)) {
            return parent::getRunner($application);
        }
        return new WorkerRunner($application, (int) $_SERVER['REQUESTS_AT_MOST']);
    }
}

final class WorkerRunner implements RunnerInterface
{
    public function __construct(private HttpKernel $kernel, private int $requests)
    {
    }

    public function run(): int
    {
        ignore_user_abort(true);
        // Variables of the boot are also a request's, unless they belong to a request.
        $boot = array_filter($_SERVER, static fn (string $name) => !str_starts_with($name, 'HTTP_'), ARRAY_FILTER_USE_KEY);
        $handler = function () use ($boot, &$request, &$response): void {
            $_SERVER += $boot;
            $request = Request::createFromGlobals();
            $response = $this->kernel->handle($request);
            $response->send();
        };
        do {
            $more = frankenphp_handle_request($handler);
            if ($response !== null) {
                $this->kernel->terminate($request, $response);
            }
            gc_collect_cycles();
        } while ($more && --$this->requests > 0);
        return 0;
    }
}

return static fn (array $context): HttpKernel => application()();
