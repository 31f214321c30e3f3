<?php

// The pages of this folder as functions that return type and text, for servers that keep an application loaded and have
// no API of their own for waiting: frankenphp.php and ../roadrunner.php.
$rows = static function (): array {
    $rows = [];
    for ($id = 1; $id <= 200; $id++) {
        $rows[] = [
            'id' => $id,
            'code' => sprintf('C-%05d', $id),
            'name' => "Customer $id",
            'email' => strtolower("Customer.$id@Example.com"),
            'active' => $id % 3 !== 0,
            'balance' => $id * 100 + 7,
            'address' => ['street' => "$id High Street", 'zip' => str_pad((string) ($id * 37), 5, '0', STR_PAD_LEFT)],
            'tags' => ['tag-' . $id % 7, 'tag-' . $id % 11],
        ];
    }
    return ['application/json', json_encode($rows)];
};

$wait = static function (): array {
    usleep(10000);
    return ['text/html', 'waited'];
};

$facts = static function (): array {
    ob_start();
    require __DIR__ . '/facts.php';
    return ['text/plain', ob_get_clean()];
};

return [
    '/hello.php' => static fn (): array => ['text/html', 'Hello, World!'], '/rows.php' => $rows, '/wait.php' => $wait,
    '/facts.php' => $facts,
];
