<?php

declare(strict_types=1);

namespace Example;

use Psr\Http\Message\ResponseInterface;
use Psr\Http\Message\ServerRequestInterface;
use Psr\Http\Server\MiddlewareInterface;
use Psr\Http\Server\RequestHandlerInterface;

/** Reports how long the handlers took. */
final readonly class Timing implements MiddlewareInterface
{
    public function process(ServerRequestInterface $request, RequestHandlerInterface $handler): ResponseInterface
    {
        $began = hrtime(true);
        $response = $handler->handle($request);
        return $response->withHeader('Server-Timing', sprintf('app;dur=%.3F', (hrtime(true) - $began) / 1e6));
    }
}
