<?php
// A boot for each request.
require __DIR__ . '/app.php';
answer(application()());
