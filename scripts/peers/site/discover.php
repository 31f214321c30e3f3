<?php

// Like a framework that discovers its classes: the real path of each file below a folder, by both functions that return it.
$found = 0;
$folder = new RecursiveDirectoryIterator(__DIR__ . '/classes', FilesystemIterator::SKIP_DOTS);
foreach (new RecursiveIteratorIterator($folder) as $file) {
    $found += realpath($file->getPathname()) === $file->getRealPath() ? 1 : 0;
}
echo $found;
