<?php

// The pages as a worker of FrankenPHP: loaded once, one function call per request.
$pages = require __DIR__ . '/pages.php';
$answer = static function () use ($pages): void {
    $page = $pages[$_SERVER['REQUEST_URI']] ?? null;
    if ($page === null) {
        http_response_code(404);
        return;
    }
    [$type, $text] = $page();
    header("Content-Type: $type");
    echo $text;
};
while (frankenphp_handle_request($answer)) {
}
