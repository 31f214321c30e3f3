<?php

// What svc gives to scripts, for editors and static analysis: never loaded. `make stubs` writes this file.

namespace {
    const FRANKENPHP_LOG_LEVEL_DEBUG = -4;
    const FRANKENPHP_LOG_LEVEL_INFO = 0;
    const FRANKENPHP_LOG_LEVEL_WARN = 4;
    const FRANKENPHP_LOG_LEVEL_ERROR = 8;

    /**
     * The same as getallheaders().
     *
     * @return array<string, string>
     */
    function apache_request_headers(): array {}

    /**
     * Returns the header fields of the response that are set so far.
     *
     * @return array<string, string>
     */
    function apache_response_headers(): array {}

    /** The same as svc_finish_request(). */
    function fastcgi_finish_request(): bool {}

    /** The same as svc_finish_request(). */
    function frankenphp_finish_request(): bool {}

    /**
     * Serves one request, in worker mode.
     *
     * @param callable(): mixed $callback
     * @return bool false: the worker should end
     */
    function frankenphp_handle_request(callable $callback): bool {}

    /**
     * Writes a record to the server's log.
     *
     * @param int $level one of the FRANKENPHP_LOG_LEVEL constants
     * @param array $context data that become an object of the record
     */
    function frankenphp_log(string $message, int $level = \FRANKENPHP_LOG_LEVEL_INFO, array $context = []): void {}

    /**
     * The same as getallheaders().
     *
     * @return array<string, string>
     */
    function frankenphp_request_headers(): array {}

    /**
     * The same as apache_response_headers().
     *
     * @return array<string, string>
     */
    function frankenphp_response_headers(): array {}

    /**
     * Returns the header fields of the request.
     *
     * @return array<string, string>
     */
    function getallheaders(): array {}

    /**
     * Sends the header fields set so far: with an informational status (103) ahead of the response, with any other status
     * as the header of the response.
     *
     * @return bool false if the header was sent before
     */
    function headers_send(int $status = 200): bool {}

    /**
     * Completes the response; the script goes on.
     *
     * @return bool false if it is complete already
     */
    function svc_finish_request(): bool {}

    /** Returns the ID of the request, as in X-Request-ID and in log records. */
    function svc_request_id(): string {}
}

namespace Svc {
    /**
     * Runs a closure in the background, on a thread of the async pool (ASYNC_WORKERS).
     *
     * Arguments, captured variables and the result are copied. The closure must not use $this or references.
     *
     * @param \Closure $task
     * @throws Async\RejectedException if the pool takes no task at the moment
     * @throws Async\TransferException if something cannot be sent to a task
     */
    function async(\Closure $task, mixed ...$arguments): Task {}

    /**
     * Waits for all tasks and returns their results, under the same keys and in the same order.
     *
     * @template TKey of array-key
     * @param iterable<TKey, Task> $tasks
     * @param float|null $timeout seconds for the whole call; when they have passed, what has not ended is cancelled
     * @return array<TKey, mixed>
     * @throws Async\Exception the first failure, as soon as there is one
     */
    function await_all(iterable $tasks, ?float $timeout = null): array {}

    /**
     * Waits for the first task that succeeds and returns its result.
     *
     * @param iterable<array-key, Task> $tasks not empty
     * @param float|null $timeout seconds for the whole call; when they have passed, what has not ended is cancelled
     * @param-out int|string $key the key of that task
     * @throws Async\AggregateException if all have failed
     */
    function await_any(iterable $tasks, ?float $timeout = null, int|string|null &$key = null): mixed {}

    /**
     * Waits for the first task that ends, and returns its result or throws its failure.
     *
     * @param iterable<array-key, Task> $tasks not empty
     * @param float|null $timeout seconds for the whole call; when they have passed, what has not ended is cancelled
     * @param-out int|string $key the key of that task
     * @throws Async\Exception
     */
    function await_race(iterable $tasks, ?float $timeout = null, int|string|null &$key = null): mixed {}

    /**
     * Returns an object whose methods and properties are those of an instance that belongs to the request alone.
     *
     * The instance is made on first use and released at the end of the request.
     *
     * @template T of object
     * @param class-string<T> $class not final
     * @param callable(): T $factory makes an instance
     * @param (callable(T): bool)|null $reset whether the instance can be used again; it has been reset then
     * @param int $max the most instances of a worker; who needs another one waits
     * @return T
     * @throws \InvalidArgumentException if the class cannot be extended
     */
    function per_request(string $class, callable $factory, ?callable $reset = null, int $max = 16): object {}

    /**
     * Lets other requests use the connections that this one owns, before it ends. Results that were not read are closed.
     *
     * @throws \LogicException if a transaction is open on one of them
     */
    function release_connections(): void {}

    /** Waits. Inside a request of Svc\Worker::serve(), others use the thread meanwhile. */
    function sleep(float $seconds): void {}

    /**
     * Waits until a stream is readable. Inside a request of Svc\Worker::serve(), others use the thread meanwhile.
     *
     * @param resource $stream
     * @param float|null $timeout in seconds
     * @return bool false after the timeout, or if the stream was closed
     */
    function wait_readable($stream, ?float $timeout = null): bool {}

    /**
     * Waits until a stream is writable. Inside a request of Svc\Worker::serve(), others use the thread meanwhile.
     *
     * @param resource $stream
     * @param float|null $timeout in seconds
     * @return bool false after the timeout, or if the stream was closed
     */
    function wait_writable($stream, ?float $timeout = null): bool {}

    /** A connection is used by another request, and waiting for it would never end, or is not possible here. */
    class ConnectionBusyError extends \Error
    {
    }

    /**
     * The request that runs the script. Each part is a method and a property.
     *
     * @property-read string $method
     * @property-read string $uri
     * @property-read string $path
     * @property-read array $query
     * @property-read array<string, string> $headers
     * @property-read array<string, string> $cookies
     * @property-read array $payload
     * @property-read array $files
     * @property-read string $body
     * @property-read string $client
     */
    final class Request
    {
        private function __construct() {}

        /** Returns the request. */
        public static function current(): Request {}

        /** The method, such as GET. */
        public function method(): string {}

        /** The path and the query, as received. */
        public function uri(): string {}

        /** The path. */
        public function path(): string {}

        /** What $_GET contains. */
        public function query(): array {}

        /**
         * The header fields; names are in lower case.
         *
         * @return array<string, string>
         */
        public function headers(): array {}

        /**
         * What $_COOKIE contains.
         *
         * @return array<string, string>
         */
        public function cookies(): array {}

        /** What $_POST contains. */
        public function payload(): array {}

        /** What $_FILES contains. */
        public function files(): array {}

        /**
         * The body, as received, for forms too.
         *
         * @throws \Error if the request has ended and its body was not kept
         */
        public function body(): string {}

        /** The address of the client. */
        public function client(): string {}
    }

    /** A closure that runs in the background. Svc\async() makes it. */
    final class Task
    {
        public readonly int $id;

        private function __construct() {}

        /**
         * Waits for the result. Another call gives the same answer again.
         *
         * @param float|null $timeout in seconds; when it passes, the task is cancelled
         * @throws Async\TaskException if the task failed
         * @throws Async\TimeoutException
         * @throws Async\CancelledException
         */
        public function await(?float $timeout = null): mixed {}

        /** Whether the task has ended, or was cancelled. */
        public function isSettled(): bool {}

        /**
         * Cancels the task.
         *
         * @return bool true: it will not complete; false: it had already ended
         */
        public function cancel(): bool {}

        /** Lets the task outlive its request. Its result is dropped, its failure is logged, and it cannot be awaited. */
        public function detach(): static {}

        /** Inside a task: whether it was cancelled, and should end. */
        public static function isCancelled(): bool {}
    }

    /** The worker that runs the script, in worker mode. */
    final class Worker
    {
        private function __construct() {}

        /**
         * Serves requests, each with a call of the handler, side by side on one thread, until the worker ends.
         *
         * @param callable(): mixed $handler
         */
        public static function serve(callable $handler): void {}

        /** Has the worker end once its requests have ended; another one takes its place. */
        public static function scheduleExit(): void {}

        /**
         * Returns the worker.
         *
         * @throws \Error outside of worker mode
         */
        public static function current(): Worker {}

        /** The number of the worker. */
        public function id(): int {}

        /** How many requests it has begun. */
        public function requestCount(): int {}

        /** When it booted, as microtime(true) tells it. */
        public function startTime(): float {}

        /** The memory in use by PHP's heap, in bytes. */
        public function memoryUsage(): int {}

        /**
         * Why it is about to end: scheduled, max_memory or error; null while it is not.
         *
         * @return 'scheduled'|'max_memory'|'error'|null
         */
        public function exitReason(): ?string {}
    }
}

namespace Svc\Async {
    /** All tasks of await_any() have failed. */
    class AggregateException extends Exception
    {
        /**
         * What each of them threw.
         *
         * @return array<array-key, \Throwable>
         */
        public function getErrors(): array {}
    }

    /** A task was cancelled. */
    class CancelledException extends Exception
    {
    }

    /** All exceptions of the async pool. */
    class Exception extends \RuntimeException
    {
    }

    /** A task was not accepted. The message names the bound. */
    class RejectedException extends Exception
    {
    }

    /** A task failed. It has the message and the code of what the task threw, which is the previous exception if it can cross. */
    class TaskException extends Exception
    {
        /** The class of what the task threw; the requester need not know it. */
        public function getTaskClass(): string {}

        /** Where the task threw it, as text, without arguments. */
        public function getTaskTrace(): string {}
    }

    /** A timeout passed. */
    class TimeoutException extends Exception
    {
    }

    /** A value cannot be transferred to another thread. The message names its place. */
    class TransferException extends Exception
    {
    }
}

namespace Svc\Cache {
    /**
     * Removes all responses from the response cache.
     *
     * @return int how many there were
     */
    function clear(): int {}

    /**
     * Removes the responses with one of these tags (Cache-Tag, Surrogate-Key) from the response cache.
     *
     * @return int how many there were
     */
    function purge_tags(string ...$tags): int {}

    /**
     * Removes the responses to a URL from the response cache.
     *
     * @param string $url as clients name it; a path is relative to the host of the request
     * @return int how many variants there were
     * @throws \ValueError if it is neither
     */
    function purge_url(string $url): int {}
}

namespace Svc\Trace {
    /** Returns the span that the script is in: that of Svc\Trace\span(), else that of the request. What is not recorded has a span without effect. */
    function current(): Span {}

    /**
     * Names the route that the request has matched: attribute http.route of its span, whose name becomes "{method} {route}".
     * The last call counts. Has no effect in a task, or for a request that is not recorded.
     */
    function route(string $route): void {}

    /**
     * Runs the body in a span of its own, which ends with it. What the body throws is recorded, and goes on.
     *
     * @template T
     * @param callable(): T $body gets the span if it requires an argument
     * @param array<string, bool|int|float|string|list<bool>|list<int>|list<float>|list<string>> $attributes
     * @return T
     */
    function span(string $name, callable $body, array $attributes = []): mixed {}

    /**
     * Starts a span below the current one, without making it the current one. Whoever starts it ends it.
     *
     * @param array<string, bool|int|float|string|list<bool>|list<int>|list<float>|list<string>> $attributes
     * @param 'internal'|'server'|'client'|'producer'|'consumer' $kind
     */
    function start(string $name, array $attributes = [], string $kind = 'internal'): Span {}

    /**
     * Returns what to pass on to a service that the script calls, as the header field traceparent.
     *
     * @return string empty without a trace
     */
    function traceparent(): string {}

    /**
     * Returns what to pass on with it, as the header field tracestate.
     *
     * @return string empty if the trace has none
     */
    function tracestate(): string {}

    /** A part of a request, or of a task, as a collector sees it. Once it has ended, nothing changes it. */
    final class Span
    {
        private function __construct() {}

        /**
         * Sets an attribute; the last value of a name counts.
         *
         * @param bool|int|float|string|list<bool>|list<int>|list<float>|list<string> $value
         */
        public function setAttribute(string $name, array|bool|float|int|string $value): static {}

        /**
         * Notes that something has happened.
         *
         * @param array<string, bool|int|float|string|list<bool>|list<int>|list<float>|list<string>> $attributes
         */
        public function addEvent(string $name, array $attributes = []): static {}

        /**
         * Notes an exception, without the arguments in its trace. The status stays as it is.
         *
         * @param array<string, bool|int|float|string|list<bool>|list<int>|list<float>|list<string>> $attributes
         */
        public function recordException(\Throwable $exception, array $attributes = []): static {}

        /**
         * Says how the span ends.
         *
         * @param 'unset'|'ok'|'error' $status
         */
        public function setStatus(string $status, string $description = ''): static {}

        /** Ends the span. That of the request ends with the request. */
        public function end(): void {}
    }
}
