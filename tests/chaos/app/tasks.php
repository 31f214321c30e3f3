<?php
// What a thread for tasks has before its first task.
require __DIR__ . '/boot.php';
