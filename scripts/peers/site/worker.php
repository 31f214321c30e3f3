<?php

// The pages of this folder as an application that stays loaded: a function for each, called once a request.
$hello = static function (): void {
    echo 'Hello, World!';
};

$rows = static function (): void {
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
    header('Content-Type: application/json');
    echo json_encode($rows);
};

$wait = static function (): void {
    Svc\sleep(0.01);
    echo 'waited';
};

$sum = static fn (int $n): int => array_sum(range(1, $n));

$task = static function () use ($sum): void {
    echo Svc\async($sum, 100)->await();
};

$tasks = static function () use ($sum): void {
    echo implode(' ', Svc\await_all([Svc\async($sum, 100), Svc\async($sum, 200), Svc\async($sum, 300), Svc\async($sum, 400)]));
};

$facts = static function (): void {
    require __DIR__ . '/facts.php';
};

$pages = [
    '/hello.php' => $hello, '/rows.php' => $rows, '/wait.php' => $wait, '/task.php' => $task, '/tasks.php' => $tasks,
    '/facts.php' => $facts,
];

Svc\Worker::serve(static function () use ($pages): void {
    $page = $pages[$_SERVER['REQUEST_URI']] ?? null;
    if ($page === null) {
        http_response_code(404);
        return;
    }
    $page();
});
