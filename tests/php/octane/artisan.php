<?php
// The console of an application: Laravel's own, with a stand-in for Octane and the package.
use Illuminate\Config\Repository;
use Illuminate\Console\Application as Artisan;
use Illuminate\Foundation\Application;
use Symfony\Component\Console\Input\ArgvInput;

require __DIR__ . '/autoload.php';

$app = new class(getcwd()) extends Application {
    // As in newer versions of Laravel.
    public function storagePath($path = '')
    {
        return rtrim("$this->basePath/storage/$path", '/');
    }
};
$app['env'] = 'local';
$svc = getenv('SVC') === false ? [] : ['binary' => getenv('SVC')];
$app['config'] = new Repository(['octane' => ['server' => getenv('OCTANE_SERVER') ?: 'roadrunner', 'svc' => $svc]]);
// The order of the two must not matter.
$app->register(Svc\LaravelOctane\SvcServiceProvider::class);
$app->register(Laravel\Octane\OctaneServiceProvider::class);
$app->boot();
$artisan = new Artisan($app, $app['events'], $app->version());
exit($artisan->run(new ArgvInput($_SERVER['argv'])));
