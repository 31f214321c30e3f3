<?php

require_once __DIR__ . '/origin.php';
Svc\Worker::serve(answer(...));
