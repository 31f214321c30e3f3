<?php

declare(strict_types=1);

namespace Example;

use GuzzleHttp\Psr7\Response;
use Psr\Http\Message\ResponseInterface;
use Psr\Http\Message\ServerRequestInterface;
use Psr\Http\Server\RequestHandlerInterface;

/** Chooses a handler by method and path. */
final readonly class Routes implements RequestHandlerInterface
{
    /** @param array<string, RequestHandlerInterface> $handlers by `METHOD /path` */
    public function __construct(private array $handlers)
    {
    }

    public function handle(ServerRequestInterface $request): ResponseInterface
    {
        $method = $request->getMethod() === 'HEAD' ? 'GET' : $request->getMethod();
        $handler = $this->handlers[$method . ' ' . $request->getUri()->getPath()] ?? null;
        return $handler?->handle($request) ?? new Response(404, ['Content-Type' => 'text/plain'], "Not found\n");
    }
}
