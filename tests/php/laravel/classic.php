<?php
// A boot for each request.
require __DIR__ . '/vendor/autoload.php';
answer(require __DIR__ . '/bootstrap/app.php');
