<?php
// Instead of Composer's file: classes are in the folders of their namespaces, the framework's in the folder LARAVEL, which
// has three packages with the same namespace Illuminate\Support.

// Debian's Laravel may be older than PHP.
error_reporting(E_ALL & ~E_DEPRECATED & ~E_USER_DEPRECATED);
spl_autoload_register(static function (string $class): void {
    $path = strtr($class, '\\', '/') . '.php';
    $paths = str_starts_with($path, 'App/')
        ? [dirname(__DIR__) . '/app/' . substr($path, 4)]
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
    require getenv('LARAVEL') . "/$folder/helpers.php";
}
foreach (['Symfony/Contracts/Deprecation/function', 'Symfony/Component/String/Resources/functions', 'Ramsey/Uuid/functions'] as $file) {
    require getenv('LARAVEL') . "/$file.php";
}
require dirname(__DIR__) . '/app/functions.php';
