<?php
// Sends the same functions repeatedly, and more functions than a thread caches. Prints the memory in use after the first
// rounds and after the last.
$shapes = require __DIR__ . '/shapes.php';
// Their effects stay with the thread.
unset($shapes['declares a function'], $shapes['in a class'], $shapes['class bound']);
for ($i = 0; $i < 150; $i++) {
    $file = __DIR__ . "/many-$i.php";
    file_put_contents($file, "<?php return static function () { static \$kept = [$i]; \$f = static fn (\$x) => [\$x(), \$kept, __FUNCTION__]; return \$f(static fn () => 'last'); };");
    $shapes["many $i"] = [require $file, []];
}
$call = function () use ($shapes) {
    foreach ($shapes as [$closure, $arguments]) {
        outcome(test_round($closure), $arguments ?? []);
        test_round($closure);
    }
    gc_collect_cycles();
    return memory_get_usage();
};
for ($round = 0; $round < 4; $round++) { $first = $call(); }
for ($round = 0; $round < 50; $round++) { $last = $call(); }
echo json_encode([2 * 54 * count($shapes), $first, $last]);
