<?php
// Calls all shapes in a thread that has never loaded their file, several times each.
$arguments = unserialize(file_get_contents(__DIR__ . '/arguments'));
$results = ['thread' => test_thread(), 'outcomes' => [], 'loaded' => in_array(__DIR__ . '/shapes.php', get_included_files())];
for ($round = 0; $round < 3; $round++) {
    foreach ($arguments as $key => $of) {
        try { $closure = test_unpack($key); } catch (Throwable $e) { $results['outcomes'][$key][] = 'not unpacked: ' . $e->getMessage(); continue; }
        $results['outcomes'][$key][] = outcome($closure, $of);
    }
}
echo json_encode($results, JSON_THROW_ON_ERROR);
