<?php
// One boot for all requests, which arrive one at a time, each with a clone of the application.
require __DIR__ . '/vendor/autoload.php';
ignore_user_abort(true);
$worker = new App\Worker(require __DIR__ . '/bootstrap/app.php');
$most = (int) $_SERVER['REQUESTS_AT_MOST'];
for ($count = 0; $count < $most && frankenphp_handle_request($worker->answer(...)); $count++) {
}
