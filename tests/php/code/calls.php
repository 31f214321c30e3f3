<?php
// Calls closures and returns their outcomes.
function outcome(Closure $closure, array $arguments): string
{
    try {
        $result = $closure(...$arguments);
        if ($result instanceof Closure) { $result = $result(); }
        return serialize($result);
    } catch (Throwable $e) {
        return get_class($e) . ': ' . preg_replace('/, called in .*/', '', $e->getMessage()) . ' @' . basename($e->getFile()) . ($e->getPrevious() ? ' < ' . $e->getPrevious()->getMessage() : '');
    }
}
