<?php
// One boot for all requests, and a kernel for each, since requests overlap and a kernel holds its request.
require __DIR__ . '/app.php';
$kernel = application();
Svc\Worker::serve(static fn () => answer($kernel()));
