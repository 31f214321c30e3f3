<?php

// Prints stubs/svc.php: svc's API for scripts, by reflection. Query: `functions`, the names of the functions that the
// server registers itself and not through its extension, separated by commas.

// The comment above each function, class and method; a line that begins with @ is for the editor.
const ABOUT = [
    'Svc\async' => "Runs a closure in the background, on a thread of the async pool (ASYNC_WORKERS).\n\nArguments, captured variables and the result are copied. The closure must not use \$this or references.\n\n@param \\Closure \$task\n@throws Async\\RejectedException if the pool takes no task at the moment\n@throws Async\\TransferException if something cannot be sent to a task",
    'Svc\await_all' => "Waits for all tasks and returns their results, under the same keys and in the same order.\n\n@template TKey of array-key\n@param iterable<TKey, Task> \$tasks\n@param float|null \$timeout seconds for the whole call; when they have passed, what has not ended is cancelled\n@return array<TKey, mixed>\n@throws Async\\Exception the first failure, as soon as there is one",
    'Svc\await_any' => "Waits for the first task that succeeds and returns its result.\n\n@param iterable<array-key, Task> \$tasks not empty\n@param float|null \$timeout seconds for the whole call; when they have passed, what has not ended is cancelled\n@param-out int|string \$key the key of that task\n@throws Async\\AggregateException if all have failed",
    'Svc\await_race' => "Waits for the first task that ends, and returns its result or throws its failure.\n\n@param iterable<array-key, Task> \$tasks not empty\n@param float|null \$timeout seconds for the whole call; when they have passed, what has not ended is cancelled\n@param-out int|string \$key the key of that task\n@throws Async\\Exception",
    'Svc\Task' => 'A closure that runs in the background. Svc\async() makes it.',
    'Svc\Task::await' => "Waits for the result. Another call gives the same answer again.\n\n@param float|null \$timeout in seconds; when it passes, the task is cancelled\n@throws Async\\TaskException if the task failed\n@throws Async\\TimeoutException\n@throws Async\\CancelledException",
    'Svc\Task::cancel' => "Cancels the task.\n\n@return bool true: it will not complete; false: it had already ended",
    'Svc\Task::detach' => 'Lets the task outlive its request. Its result is dropped, its failure is logged, and it cannot be awaited.',
    'Svc\Task::isCancelled' => 'Inside a task: whether it was cancelled, and should end.',
    'Svc\Task::isSettled' => 'Whether the task has ended, or was cancelled.',
    'Svc\Async\Exception' => 'All exceptions of the async pool.',
    'Svc\Async\RejectedException' => 'A task was not accepted. The message names the bound.',
    'Svc\Async\TransferException' => 'A value cannot be transferred to another thread. The message names its place.',
    'Svc\Async\TaskException' => 'A task failed. It has the message and the code of what the task threw, which is the previous exception if it can cross.',
    'Svc\Async\TaskException::getTaskClass' => 'The class of what the task threw; the requester need not know it.',
    'Svc\Async\TaskException::getTaskTrace' => 'Where the task threw it, as text, without arguments.',
    'Svc\Async\TimeoutException' => 'A timeout passed.',
    'Svc\Async\CancelledException' => 'A task was cancelled.',
    'Svc\Async\AggregateException' => 'All tasks of await_any() have failed.',
    'Svc\Async\AggregateException::getErrors' => "What each of them threw.\n\n@return array<array-key, \\Throwable>",

    'Svc\per_request' => "Returns an object whose methods and properties are those of an instance that belongs to the request alone.\n\nThe instance is made on first use and released at the end of the request.\n\n@template T of object\n@param class-string<T> \$class not final\n@param callable(): T \$factory makes an instance\n@param (callable(T): bool)|null \$reset whether the instance can be used again; it has been reset then\n@param int \$max the most instances of a worker; who needs another one waits\n@return T\n@throws \InvalidArgumentException if the class cannot be extended",
    'Svc\release_connections' => "Lets other requests use the connections that this one owns, before it ends. Results that were not read are closed.\n\n@throws \\LogicException if a transaction is open on one of them",
    'Svc\ConnectionBusyError' => 'A connection is used by another request, and waiting for it would never end, or is not possible here.',

    'Svc\Cache\clear' => "Removes all responses from the response cache.\n\n@return int how many there were",
    'Svc\Cache\purge_tags' => "Removes the responses with one of these tags (Cache-Tag, Surrogate-Key) from the response cache.\n\n@return int how many there were",
    'Svc\Cache\purge_url' => "Removes the responses to a URL from the response cache.\n\n@param string \$url as clients name it; a path is relative to the host of the request\n@return int how many variants there were\n@throws \ValueError if it is neither",

    'Svc\Trace\current' => 'Returns the span that the script is in: that of Svc\Trace\span(), else that of the request. What is not recorded has a span without effect.',
    'Svc\Trace\span' => "Runs the body in a span of its own, which ends with it. What the body throws is recorded, and goes on.\n\n@template T\n@param callable(): T \$body gets the span if it requires an argument\n@param array<string, bool|int|float|string|list<bool>|list<int>|list<float>|list<string>> \$attributes\n@return T",
    'Svc\Trace\start' => "Starts a span below the current one, without making it the current one. Whoever starts it ends it.\n\n@param array<string, bool|int|float|string|list<bool>|list<int>|list<float>|list<string>> \$attributes\n@param 'internal'|'server'|'client'|'producer'|'consumer' \$kind",
    'Svc\Trace\route' => "Names the route that the request has matched: attribute http.route of its span, whose name becomes \"{method} {route}\".\nThe last call counts. Has no effect in a task, or for a request that is not recorded.",
    'Svc\Trace\traceparent' => "Returns what to pass on to a service that the script calls, as the header field traceparent.\n\n@return string empty without a trace",
    'Svc\Trace\tracestate' => "Returns what to pass on with it, as the header field tracestate.\n\n@return string empty if the trace has none",
    'Svc\Trace\Span' => 'A part of a request, or of a task, as a collector sees it. Once it has ended, nothing changes it.',
    'Svc\Trace\Span::setAttribute' => "Sets an attribute; the last value of a name counts.\n\n@param bool|int|float|string|list<bool>|list<int>|list<float>|list<string> \$value",
    'Svc\Trace\Span::addEvent' => "Notes that something has happened.\n\n@param array<string, bool|int|float|string|list<bool>|list<int>|list<float>|list<string>> \$attributes",
    'Svc\Trace\Span::recordException' => "Notes an exception, without the arguments in its trace. The status stays as it is.\n\n@param array<string, bool|int|float|string|list<bool>|list<int>|list<float>|list<string>> \$attributes",
    'Svc\Trace\Span::setStatus' => "Says how the span ends.\n\n@param 'unset'|'ok'|'error' \$status",
    'Svc\Trace\Span::end' => 'Ends the span. That of the request ends with the request.',

    'Svc\sleep' => "Waits. Inside a request of Svc\\Worker::serve(), others use the thread meanwhile.",
    'Svc\wait_readable' => "Waits until a stream is readable. Inside a request of Svc\\Worker::serve(), others use the thread meanwhile.\n\n@param resource \$stream\n@param float|null \$timeout in seconds\n@return bool false after the timeout, or if the stream was closed",
    'Svc\wait_writable' => "Waits until a stream is writable. Inside a request of Svc\\Worker::serve(), others use the thread meanwhile.\n\n@param resource \$stream\n@param float|null \$timeout in seconds\n@return bool false after the timeout, or if the stream was closed",
    'Svc\Worker' => 'The worker that runs the script, in worker mode.',
    'Svc\Worker::serve' => "Serves requests, each with a call of the handler, side by side on one thread, until the worker ends.\n\n@param callable(): mixed \$handler",
    'Svc\Worker::scheduleExit' => 'Has the worker end once its requests have ended; another one takes its place.',
    'Svc\Worker::current' => "Returns the worker.\n\n@throws \\Error outside of worker mode",
    'Svc\Worker::id' => 'The number of the worker.',
    'Svc\Worker::requestCount' => 'How many requests it has begun.',
    'Svc\Worker::startTime' => 'When it booted, as microtime(true) tells it.',
    'Svc\Worker::memoryUsage' => "The memory in use by PHP's heap, in bytes.",
    'Svc\Worker::exitReason' => "Why it is about to end: scheduled, max_memory or error; null while it is not.\n\n@return 'scheduled'|'max_memory'|'error'|null",
    'Svc\Request' => "The request that runs the script. Each part is a method and a property.\n\n@property-read string \$method\n@property-read string \$uri\n@property-read string \$path\n@property-read array \$query\n@property-read array<string, string> \$headers\n@property-read array<string, string> \$cookies\n@property-read array \$payload\n@property-read array \$files\n@property-read string \$body\n@property-read string \$client",
    'Svc\Request::current' => 'Returns the request.',
    'Svc\Request::method' => 'The method, such as GET.',
    'Svc\Request::uri' => 'The path and the query, as received.',
    'Svc\Request::path' => 'The path.',
    'Svc\Request::query' => 'What $_GET contains.',
    'Svc\Request::headers' => "The header fields; names are in lower case.\n\n@return array<string, string>",
    'Svc\Request::cookies' => "What \$_COOKIE contains.\n\n@return array<string, string>",
    'Svc\Request::payload' => 'What $_POST contains.',
    'Svc\Request::files' => 'What $_FILES contains.',
    'Svc\Request::body' => "The body, as received, for forms too.\n\n@throws \\Error if the request has ended and its body was not kept",
    'Svc\Request::client' => 'The address of the client.',

    'svc_finish_request' => "Completes the response; the script goes on.\n\n@return bool false if it is complete already",
    'fastcgi_finish_request' => 'The same as svc_finish_request().',
    'frankenphp_finish_request' => 'The same as svc_finish_request().',
    'svc_request_id' => 'Returns the ID of the request, as in X-Request-ID and in log records.',
    'getallheaders' => "Returns the header fields of the request.\n\n@return array<string, string>",
    'apache_request_headers' => "The same as getallheaders().\n\n@return array<string, string>",
    'frankenphp_request_headers' => "The same as getallheaders().\n\n@return array<string, string>",
    'apache_response_headers' => "Returns the header fields of the response that are set so far.\n\n@return array<string, string>",
    'frankenphp_response_headers' => "The same as apache_response_headers().\n\n@return array<string, string>",
    'headers_send' => "Sends the header fields set so far: with an informational status (103) ahead of the response, with any other status\nas the header of the response.\n\n@return bool false if the header was sent before",
    'frankenphp_handle_request' => "Serves one request, in worker mode.\n\n@param callable(): mixed \$callback\n@return bool false: the worker should end",
    'frankenphp_log' => "Writes a record to the server's log.\n\n@param int \$level one of the FRANKENPHP_LOG_LEVEL constants\n@param array \$context data that become an object of the record",
];

function about(string $name, string $indent): string
{
    $text = ABOUT[$name] ?? null;
    if ($text === null) {
        return str_ends_with($name, '::__construct') ? '' : "$indent/* NOT DESCRIBED: $name */\n";
    }
    $lines = explode("\n", $text);
    if (count($lines) === 1) {
        return "$indent/** $text */\n";
    }
    return "$indent/**\n" . implode('', array_map(fn ($line) => rtrim("$indent * $line") . "\n", $lines)) . "$indent */\n";
}

/** The notation of a type in the namespace: classes of other namespaces begin with a backslash. */
function type(?ReflectionType $type, string $namespace): string
{
    if ($type === null) {
        return '';
    }
    if ($type instanceof ReflectionNamedType) {
        $name = $type->getName();
        if (!$type->isBuiltin() && !in_array($name, ['self', 'static'], true)) {
            $name = class_name($name, $namespace);
        }
        return ($type->allowsNull() && !in_array($name, ['mixed', 'null'], true) ? '?' : '') . $name;
    }
    $names = array_map(fn ($one) => type($one, $namespace), $type->getTypes());
    if (!array_diff(['\Traversable', 'array'], $names)) {
        $names = ['iterable', ...array_diff($names, ['\Traversable', 'array'])];
    }
    // The order of a union depends on the version of PHP; null comes last, as usual.
    usort($names, fn ($a, $b) => [$a === 'null', $a] <=> [$b === 'null', $b]);
    return implode('|', $names);
}

function class_name(string $name, string $namespace): string
{
    $prefix = $namespace . '\\';
    return $namespace !== '' && str_starts_with($name, $prefix) ? substr($name, strlen($prefix)) : '\\' . $name;
}

function parameter(ReflectionParameter $parameter, string $namespace): string
{
    $default = '';
    if ($parameter->isDefaultValueAvailable()) {
        $value = $parameter->isDefaultValueConstant() ? '\\' . $parameter->getDefaultValueConstantName() : match ($value = $parameter->getDefaultValue()) {
            null => 'null', [] => '[]', default => var_export($value, true),
        };
        $default = " = $value";
    }
    return ltrim(type($parameter->getType(), $namespace) . ' ') . ($parameter->isPassedByReference() ? '&' : '')
        . ($parameter->isVariadic() ? '...' : '') . '$' . $parameter->getName() . $default;
}

function callable_stub(ReflectionFunctionAbstract $function, string $namespace): string
{
    $parameters = implode(', ', array_map(fn ($parameter) => parameter($parameter, $namespace), $function->getParameters()));
    $returns = type($function->getReturnType(), $namespace);
    return 'function ' . $function->getShortName() . "($parameters)" . ($returns === '' ? '' : ": $returns");
}

function class_stub(ReflectionClass $class): string
{
    $namespace = $class->getNamespaceName();
    $parent = $class->getParentClass();
    $text = about($class->getName(), '    ') . '    ' . ($class->isFinal() ? 'final ' : ($class->isAbstract() ? 'abstract ' : ''))
        . 'class ' . $class->getShortName() . ($parent ? ' extends ' . class_name($parent->getName(), $namespace) : '') . "\n    {\n";
    $members = [];
    foreach ($class->getProperties() as $property) {
        if ($property->class === $class->getName() && !$property->isPrivate()) {
            // From PHP 8.4 on, a read-only property is also protected(set), which goes without saying.
            $modifiers = ($property->isProtected() ? 'protected' : 'public') . ($property->isStatic() ? ' static' : '') . ($property->isReadOnly() ? ' readonly' : '');
            $members[] = "        $modifiers " . ltrim(type($property->getType(), $namespace) . ' ') . '$' . $property->getName() . ";\n";
        }
    }
    foreach ($class->getMethods() as $method) {
        if ($method->class === $class->getName()) {
            $modifiers = implode(' ', Reflection::getModifierNames($method->getModifiers() & ~ReflectionMethod::IS_FINAL));
            $members[] = about($class->getName() . '::' . $method->getName(), '        ')
                . "        $modifiers " . callable_stub($method, $namespace) . " {}\n";
        }
    }
    return $text . implode("\n", $members) . "    }\n";
}

$extension = new ReflectionExtension('svc');
$parts = [];
$constants = '';
foreach ($extension->getConstants() as $name => $value) {
    $constants .= "    const $name = " . var_export($value, true) . ";\n";
}
$parts[''][] = $constants;
$functions = array_values($extension->getFunctions());
foreach (explode(',', $_GET['functions']) as $name) {
    $functions[] = new ReflectionFunction($name);
}
usort($functions, fn ($a, $b) => strcmp($a->getName(), $b->getName()));
foreach ($functions as $function) {
    $parts[$function->getNamespaceName()][] = about($function->getName(), '    ') . '    ' . callable_stub($function, $function->getNamespaceName()) . " {}\n";
}
$classes = $extension->getClasses();
ksort($classes);
foreach ($classes as $class) {
    $parts[$class->getNamespaceName()][] = class_stub($class);
}
ksort($parts);

$known = [];
foreach ($functions as $function) { $known[$function->getName()] = true; }
foreach ($classes as $class) {
    $known[$class->getName()] = true;
    foreach ($class->getMethods() as $method) { $known[$class->getName() . '::' . $method->getName()] = true; }
}
header('X-Strangers: ' . implode(', ', array_keys(array_diff_key(ABOUT, $known))));
header('Content-Type: text/plain');
echo "<?php\n\n// What svc gives to scripts, for editors and static analysis: never loaded. `make stubs` writes this file.\n";
foreach ($parts as $namespace => $members) {
    echo "\nnamespace", $namespace === '' ? '' : " $namespace", " {\n", implode("\n", $members), "}\n";
}
