<?php
spl_autoload_register(function ($class) {
    $file = __DIR__ . '/lib/' . basename(str_replace('\\', '/', $class)) . '.php';
    if (is_file($file)) { require $file; }
});
require __DIR__ . '/functions.php';
require __DIR__ . '/calls.php';
Svc\Worker::serve(function () { require __DIR__ . "/{$_GET['do']}.php"; });
