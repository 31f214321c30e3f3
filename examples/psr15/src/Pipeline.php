<?php

declare(strict_types=1);

namespace Example;

use Psr\Http\Message\ResponseInterface;
use Psr\Http\Message\ServerRequestInterface;
use Psr\Http\Server\MiddlewareInterface;
use Psr\Http\Server\RequestHandlerInterface;

/** Passes a request through middleware, and then to a handler. */
final readonly class Pipeline implements RequestHandlerInterface
{
    /** @param list<MiddlewareInterface> $middleware */
    public function __construct(private array $middleware, private RequestHandlerInterface $handler)
    {
    }

    public function handle(ServerRequestInterface $request): ResponseInterface
    {
        if ($this->middleware === []) {
            return $this->handler->handle($request);
        }
        // The rest is an object of its own, because several requests may be inside the pipeline.
        $rest = new self(array_slice($this->middleware, 1), $this->handler);
        return $this->middleware[0]->process($request, $rest);
    }
}
