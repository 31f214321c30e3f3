<?php
// Results and exceptions of calls, as comparable values.
error_reporting(E_ALL);
function what(callable $call): mixed
{
    $errors = [];
    set_error_handler(function ($level, $message) use (&$errors) { $errors[] = [$level, placeless($message)]; return true; });
    try { $seen = plain($call()); } catch (Throwable $thrown) { $seen = [$thrown::class, placeless($thrown->getMessage()), $thrown->getCode(), $thrown->getLine()]; }
    restore_error_handler();
    return $errors ? [$seen, $errors] : $seen;
}
/** Each server has a separate folder. */
function placeless(string $text): string { return str_replace(__DIR__, '', $text); }
function plain(mixed $value): mixed
{
    return match (true) {
        $value instanceof PDOStatement => [$value::class, $value->queryString, plain($value->fetchAll(PDO::FETCH_ASSOC))],
        $value instanceof mysqli_result => [$value::class, $value->fetch_all()],
        is_object($value) => $value::class,
        is_array($value) => array_map(plain(...), $value),
        default => $value,
    };
}
