<?php

// Four tasks in the background at once, whose results the response needs.
$sum = static fn (int $n): int => array_sum(range(1, $n));
echo implode(' ', Svc\await_all([Svc\async($sum, 100), Svc\async($sum, 200), Svc\async($sum, 300), Svc\async($sum, 400)]));
