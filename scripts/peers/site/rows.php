<?php

// 200 rows as JSON: a page that computes, without leaving the process. swoole.php has the same rows.
$rows = [];
for ($id = 1; $id <= 200; $id++) {
    $rows[] = [
        'id' => $id,
        'name' => "Customer $id",
        'email' => 'customer' . $id . '@example.com',
        'active' => $id % 3 !== 0,
        'balance' => $id * 100 + 7,
    ];
}
header('Content-Type: application/json');
echo json_encode($rows);
