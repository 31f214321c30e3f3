<?php
// The state of every thread before its first program.
require __DIR__ . '/loop.php';
require __DIR__ . '/world.php';
require __DIR__ . '/calls.php';
require __DIR__ . '/streams.php';
require __DIR__ . '/shapes.php';
require __DIR__ . '/fresh.php';
require __DIR__ . '/errands.php';
require __DIR__ . '/leftovers.php';
require __DIR__ . '/lasts.php';
require __DIR__ . '/depths.php';
require __DIR__ . '/mind.php';

Left::register();
Last::register();
World::found();
