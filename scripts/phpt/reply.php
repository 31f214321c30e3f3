<?php
// What a server answered: bytes taken apart, as far as they came.

declare(strict_types=1);

namespace Phpt;

final class Reply
{
    /** @param list<string> $fields lines of the head after the status line */
    private function __construct(
        public readonly string $statusLine,
        public readonly array $fields,
        public readonly string $body,
        /** Whether the framing says that nothing more comes. */
        public readonly bool $isWhole,
    ) {
    }

    /** Takes apart all that came over a connection; informational responses are skipped. */
    public static function parse(string $bytes): ?self
    {
        do {
            if (!preg_match('~^HTTP/1\.[01] \d{3} ?.*\r\n~', $bytes)) {
                return null;
            }
            [$head, $bytes] = explode("\r\n\r\n", $bytes, 2) + [1 => ''];
        } while ($head[9] === '1' && str_starts_with($bytes, 'HTTP/'));
        $fields = explode("\r\n", $head);
        $status = array_shift($fields);
        if (preg_grep('~^transfer-encoding: *chunked$~i', $fields)) {
            return new self($status, $fields, self::joinChunks($bytes), str_ends_with($bytes, "0\r\n\r\n"));
        }
        $length = preg_replace('~^\D*~', '', implode('', preg_grep('~^content-length:~i', $fields)));
        if ($length === '') {
            return new self($status, $fields, $bytes, false);
        }
        return new self($status, $fields, substr($bytes, 0, (int) $length), strlen($bytes) >= (int) $length);
    }

    /** The code and its reason. */
    public function status(): string
    {
        return substr($this->statusLine, 9);
    }

    private static function joinChunks(string $bytes): string
    {
        $body = '';
        $at = 0;
        while (preg_match('~\G([0-9a-f]+)\r\n~i', $bytes, $match, 0, $at) && ($size = hexdec($match[1])) > 0) {
            $body .= substr($bytes, $at + strlen($match[0]), $size);
            $at += strlen($match[0]) + $size + 2;
        }
        return $body;
    }
}
