<?php

// 200 rows as JSON: a page that computes, without leaving the process. swoole.php and worker.php have the same rows.
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
