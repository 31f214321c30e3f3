<?php

// One task in the background, whose result the response needs.
echo Svc\async(static fn (int $n): int => array_sum(range(1, $n)), 100)->await();
