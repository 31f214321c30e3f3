<?php
// A page that may be stored for longer than a run takes. Each run of the script is counted.
header('Cache-Control: max-age=60');
file_put_contents(dirname(__DIR__) . '/runs', 'x', FILE_APPEND);
readfile(__DIR__ . '/page.html');
