<?php
// The state of a thread for tasks before its first task.
require __DIR__ . '/boot.php';
