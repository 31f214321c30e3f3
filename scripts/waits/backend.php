<?php
// What HTTP clients wait for.
Svc\Worker::serve(static function (): void {
    Svc\sleep(0.05);
    echo 'answer';
});
