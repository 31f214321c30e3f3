<?php

declare(strict_types=1);

namespace Example;

use GuzzleHttp\Psr7\Response;
use Psr\Http\Message\ResponseInterface;
use Psr\Http\Message\ServerRequestInterface;
use Psr\Http\Server\RequestHandlerInterface;

/** Returns the body of the request, piece by piece. */
final readonly class Echoes implements RequestHandlerInterface
{
    public function handle(ServerRequestInterface $request): ResponseInterface
    {
        $type = $request->getHeaderLine('Content-Type') ?: 'application/octet-stream';
        return new Response(200, ['Content-Type' => $type], $request->getBody());
    }
}
