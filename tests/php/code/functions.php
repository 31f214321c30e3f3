<?php
// Code that every thread has loaded.
namespace Lib;

const NUMBER = 41;
function twice(int $n): int { return 2 * $n; }
function swap(array &$pair): void { $pair = array_reverse($pair); }
function counted(): int { static $n = 10; return ++$n; }
function numbers(int $to): \Generator { for ($i = 1; $i <= $to; $i++) { yield $i; } }
