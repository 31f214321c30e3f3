<?php
// Packs all shapes, calls them here as well, and blocks its thread until another one has called them.
$shapes = require __DIR__ . '/shapes.php';
$results = ['thread' => test_thread(), 'outcomes' => [], 'shared' => 0];
foreach ($shapes as $key => [$closure]) {
    test_pack($key, $closure);
    $results['shared'] += test_is_shared($closure);
}
foreach ($shapes as $key => $shape) {
    $results['outcomes'][$key] = outcome($shape[0], $shape[1] ?? []);
}
$arguments = array_map(fn ($shape) => $shape[1] ?? [], $shapes);
file_put_contents(__DIR__ . '/arguments', serialize($arguments));
touch(__DIR__ . '/packed');
test_hold(__DIR__ . '/go');
echo json_encode($results, JSON_THROW_ON_ERROR);
