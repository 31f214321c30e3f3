<?php

declare(strict_types=1);

namespace Example;

use GuzzleHttp\Psr7\Response;
use Psr\Http\Message\ResponseInterface;
use Psr\Http\Message\ServerRequestInterface;
use Psr\Http\Server\RequestHandlerInterface;

/** Greets the name in the query. */
final readonly class Greeting implements RequestHandlerInterface
{
    public function __construct(private string $greeting)
    {
    }

    public function handle(ServerRequestInterface $request): ResponseInterface
    {
        $name = $request->getQueryParams()['name'] ?? 'World';
        $name = is_string($name) ? $name : 'World';
        return new Response(200, ['Content-Type' => 'text/plain; charset=utf-8'], "$this->greeting, $name!\n");
    }
}
