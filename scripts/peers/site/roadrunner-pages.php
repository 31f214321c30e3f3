<?php

// The pages for roadrunner.php: a function of the request that returns status, header fields and body.
$pages = require __DIR__ . '/pages.php';
return static function (array $request) use ($pages): array {
    $page = $pages[parse_url($request['uri'], PHP_URL_PATH)] ?? null;
    if ($page === null) {
        return [404, [], ''];
    }
    [$type, $text] = $page();
    return [200, ['Content-Type' => [$type]], $text];
};
