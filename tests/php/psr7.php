<?php
// A small application in the manner of PSR-7 and PSR-15, like frameworks without request state: built once, for all
// requests. Messages are immutable copies; a request keeps the stream of its body, php://input behind a cache, and is part
// of a cycle (request, route, arguments, request). Its 404 is an exception that holds the request.
namespace Psr7;

final class Stream
{
    private ?array $meta;
    private bool $finished = false;
    public function __construct(private mixed $resource, private ?Stream $cache = null)
    {
        $this->meta = stream_get_meta_data($resource);
    }
    public function getContents(): string
    {
        if ($this->finished && $this->cache !== null) {
            $this->cache->rewind();
            return $this->cache->getContents();
        }
        $contents = stream_get_contents($this->resource);
        $this->cache?->write($contents);
        $this->finished = true;
        return $contents;
    }
    public function write(string $text): int { return fwrite($this->resource, $text); }
    public function rewind(): void { rewind($this->resource); }
    public function __toString(): string { return $this->getContents(); }
}

final class Request
{
    private array $attributes = [];
    private function __construct(public readonly string $method, public readonly string $path, public readonly array $server, private Stream $body) {}
    public static function fromGlobals(): self
    {
        $cache = new Stream(fopen('php://temp', 'wb+'));
        $body = new Stream(fopen('php://input', 'r'), $cache);
        return new self($_SERVER['REQUEST_METHOD'], strtok($_SERVER['REQUEST_URI'], '?'), $_SERVER, $body);
    }
    public function withAttribute(string $name, mixed $value): self
    {
        $copy = clone $this;
        $copy->attributes[$name] = $value;
        return $copy;
    }
    public function getAttribute(string $name): mixed { return $this->attributes[$name] ?? null; }
    public function getBody(): Stream { return $this->body; }
}

final class Response
{
    public array $headers = ['Content-Type' => 'text/html'];
    public Stream $body;
    public function __construct(public int $status = 200)
    {
        $this->body = new Stream(fopen('php://temp', 'r+'));
    }
    public function text(string $text): self
    {
        $this->body->write($text);
        return $this;
    }
}

class HttpException extends \RuntimeException
{
    public function __construct(public readonly Request $request, string $message, int $code, ?\Throwable $previous = null)
    {
        parent::__construct($message, $code, $previous);
    }
}
final class HttpNotFoundException extends HttpException
{
    public function __construct(Request $request) { parent::__construct($request, 'Not found.', 404); }
}

/** Refers to its request, which refers to it. */
final class RoutingResults
{
    public ?Request $request = null;
    public function __construct(public readonly ?\Closure $handler, public readonly array $arguments) {}
}

final class App
{
    private array $routes = [];
    private array $middleware = [];
    public function map(string $method, string $path, \Closure $handler): void { $this->routes["$method $path"] = $handler; }
    public function add(\Closure $middleware): void { array_unshift($this->middleware, $middleware); }
    public function handle(Request $request): Response
    {
        $next = fn (Request $request): Response => ($request->getAttribute('results')->handler)($request, new Response());
        foreach (array_reverse($this->middleware) as $middleware) {
            $next = fn (Request $request): Response => $middleware($request, $next);
        }
        return $next($request);
    }
    public function route(Request $request, \Closure $next): Response
    {
        $results = new RoutingResults($this->routes["$request->method $request->path"] ?? null, []);
        $request = $request->withAttribute('results', $results);
        $results->request = $request;
        if ($results->handler === null) {
            throw new HttpNotFoundException($request);
        }
        return $next($request);
    }
    public function renderErrors(Request $request, \Closure $next): Response
    {
        try {
            return $next($request);
        } catch (HttpException $e) {
            return (new Response($e->getCode()))->text("<h1>{$e->getCode()} {$e->getMessage()}</h1>");
        }
    }
    public function run(): void
    {
        $response = $this->handle(Request::fromGlobals());
        http_response_code($response->status);
        foreach ($response->headers as $name => $value) {
            header("$name: $value");
        }
        $response->body->rewind();
        echo $response->body;
    }
}

$app = new App();
$app->add($app->route(...));
$app->add($app->renderErrors(...));
$app->map('GET', '/', fn (Request $request, Response $response) => $response->text('Hello'));
$app->map('POST', '/echo', fn (Request $request, Response $response) => $response->text($request->getBody() . '|' . $request->getBody()));
return $app;
