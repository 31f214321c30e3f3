<?php
require __DIR__ . '/calls.php';
Svc\Worker::serve(static function (): void {
    echo call_that_waits($_GET['call']);
});
