<?php
// Instead of Composer's file: the framework's classes are in the folder LARAVEL, which has three packages with the same
// namespace Illuminate\Support, and the package's in the folder PACKAGE.

// Debian's Laravel may be older than PHP.
error_reporting(E_ALL & ~E_DEPRECATED & ~E_USER_DEPRECATED);
spl_autoload_register(static function (string $class): void {
    $path = strtr($class, '\\', '/') . '.php';
    $paths = str_starts_with($path, 'Svc/LaravelOctane/')
        ? [getenv('PACKAGE') . '/src/' . substr($path, strlen('Svc/LaravelOctane/'))]
        : array_map(static fn (string $folder) => getenv('LARAVEL') . '/' . str_replace('Illuminate/Support/', $folder, $path),
            ['Illuminate/Support/', 'Illuminate/Collections/', 'Illuminate/Macroable/']);
    foreach ($paths as $file) {
        if (is_file($file)) {
            require $file;
            return;
        }
    }
});
foreach (['Illuminate/Collections', 'Illuminate/Support', 'Illuminate/Foundation'] as $folder) {
    require_once getenv('LARAVEL') . "/$folder/helpers.php";
}
foreach (['Symfony/Contracts/Deprecation/function', 'Symfony/Component/String/Resources/functions'] as $file) {
    require_once getenv('LARAVEL') . "/$file.php";
}
require_once __DIR__ . '/octane.php';
