<?php
namespace App;

use Illuminate\Container\Container;
use Illuminate\Contracts\Http\Kernel;
use Illuminate\Foundation\Application;
use Illuminate\Http\Request;
use Illuminate\Support\Facades\Facade;

/** An application that boots once and is cloned for each request. */
final class Worker
{
    /** Services that the clones share because they exist before them; prepare() resets them for the next request. */
    private const SHARED = ['auth', 'cookie', 'encrypter', 'files', 'log', 'redirect', 'router', 'routes', 'session',
        'session.store', 'translator', 'url', 'view', Kernel::class];

    public function __construct(private Application $app)
    {
        $app->instance('request', Request::create('http://localhost'));
        $app->make(Kernel::class)->bootstrap();
        array_map($app->make(...), self::SHARED);
    }

    public function answer(): void
    {
        $copy = clone $this->app;
        self::put($copy);
        $this->prepare($copy);
        $kernel = $copy->make(Kernel::class);
        $request = Request::capture();
        try {
            $response = $kernel->handle($request)->send();
            $kernel->terminate($request, $response);
            $request->route()?->flushController();
        } finally {
            $this->app->forgetScopedInstances();
            $copy->flush();
            self::put($this->app);
        }
    }

    /** Makes facades and helpers use an application. */
    public static function put(Application $app): void
    {
        $app->instance('app', $app);
        $app->instance(Container::class, $app);
        Container::setInstance($app);
        Facade::clearResolvedInstances();
        Facade::setFacadeApplication($app);
    }

    /** Removes the last request from shared services, and binds them to the clone. */
    private function prepare(Application $copy): void
    {
        $copy->instance('config', clone $copy['config']);
        $copy[Kernel::class]->setApplication($copy);
        $copy['router']->setContainer($copy);
        $copy['view']->setContainer($copy);
        $copy['view']->share('app', $copy);
        $copy['auth']->setApplication($copy);
        $copy['auth']->forgetGuards();
        $copy['cookie']->flushQueuedCookies();
        $copy['session']->driver()->flush();
        $copy['session']->driver()->regenerate();
        $copy['translator']->setLocale($copy['config']['app.locale']);
        foreach (['blade', 'php'] as $engine) {
            $copy['view']->getEngineResolver()->forget($engine);
        }
    }
}
