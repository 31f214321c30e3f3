<?php

declare(strict_types=1);

namespace Example;

use Psr\Http\Message\ResponseInterface;

/** Sends a response to the client. */
final class Emitter
{
    private const int PIECE_BYTES = 64 * 1024;

    public static function emit(ResponseInterface $response): void
    {
        http_response_code($response->getStatusCode());
        foreach ($response->getHeaders() as $name => $values) {
            foreach ($values as $at => $value) {
                header("$name: $value", $at === 0);
            }
        }
        $body = $response->getBody();
        if ($body->isSeekable()) {
            $body->rewind();
        }
        while (!$body->eof()) {
            echo $body->read(self::PIECE_BYTES);
        }
    }
}
