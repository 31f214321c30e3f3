<?php
// One boot and one kernel for all requests, which arrive one at a time.
require __DIR__ . '/app.php';
$kernel = application()();
while (frankenphp_handle_request(static fn () => answer($kernel))) {
}
