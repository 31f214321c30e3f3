<?php
// Keeps results of transferred functions while the thread creates more functions than it caches.
$kept = [];
for ($i = 0; $i < 200; $i++) {
    $file = __DIR__ . "/some-$i.php";
    file_put_contents($file, "<?php return static function () { \$own = [$i]; return [static fn () => [\$own, static fn () => \$own], (static function () use (\$own) { try { yield \$own; yield __LINE__; } finally { \$own = null; } })(), new ArrayIterator([\$own])]; };");
    $closure = test_round(require $file);
    $made = $closure();
    $made[1]->current();
    $kept[$i] = $i % 3 ? $made : [$made[0]()[1], test_round($closure), $closure];
    unset($closure, $made);
}
$sum = 0;
foreach ($kept as $i => $made) {
    if ($i % 3) {
        $sum += $made[0]()[0][0] === $i && $made[0]()[1]() === [$i] && $made[1]->current() === [$i];
        $made[1]->next();
        $sum += $made[1]->current() === 1;
    } else {
        $sum += $made[0]() === [$i] && $made[1]()[1]->current() === [$i];
        $sum += $made[2]()[0]()[1]() === [$i];
    }
}
echo $sum;
