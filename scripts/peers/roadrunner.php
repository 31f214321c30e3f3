<?php

// A worker of RoadRunner that calls the function which the script of its argument returns: once per request, with the
// request as an array; the function returns status, header fields (name => values) and body. It speaks RoadRunner's
// protocol on standard input and output: frames whose first part is a message in the format of Protocol Buffers. There is
// no PSR-7 between them, so that it costs less than the workers of RoadRunner's own packages.

const CONTROL = 0x01;
const PROTOBUF = 0x80;
const STOP = 0x02;

/** Reads `$length` bytes; ends the process at the end of the input. */
function receive(int $length): string
{
    $bytes = '';
    while (strlen($bytes) < $length) {
        $part = fread(STDIN, $length - strlen($bytes));
        if ($part === false || $part === '') {
            exit;
        }
        $bytes .= $part;
    }
    return $bytes;
}

/** Sends one frame: 12 bytes, the length of its first part if it has two, the parts. */
function send(int $flags, string $first, ?string $second = null): void
{
    $options = $second === null ? '' : pack('V', strlen($first));
    $head = pack('CCV', 1 << 4 | 3 + intdiv(strlen($options), 4), $flags, strlen($first . $second));
    fwrite(STDOUT, $head . pack('VCC', crc32($head), 0, 0) . $options . $first . $second);
}

/** A number as Protocol Buffers write it: seven bits a byte, the lowest first. */
function number(int $value): string
{
    $bytes = '';
    for (; $value > 0x7f; $value >>= 7) {
        $bytes .= chr($value & 0x7f | 0x80);
    }
    return $bytes . chr($value);
}

/** Field `$field` of a message, of type string. */
function text(int $field, string $value): string
{
    return number($field << 3 | 2) . number(strlen($value)) . $value;
}

/** Gives each field of a message: its number and value, a string or an integer. */
function fields(string $message): Generator
{
    $at = 0;
    $number = static function () use ($message, &$at): int {
        for ($value = $shift = 0;; $shift += 7) {
            $byte = ord($message[$at++]);
            $value |= ($byte & 0x7f) << $shift;
            if ($byte < 0x80) {
                return $value;
            }
        }
    };
    while ($at < strlen($message)) {
        $tag = $number();
        $value = $number();
        if (($tag & 7) === 2) {
            $length = $value;
            $value = substr($message, $at, $length);
            $at += $length;
        }
        yield $tag >> 3 => $value;
    }
}

/** An entry of a map: its name, and the list of its values. */
function entry(string $message): array
{
    $name = '';
    $values = [];
    foreach (fields($message) as $field => $value) {
        if ($field === 1) {
            $name = $value;
        } else {
            foreach (fields($value) as $one) {
                $values[] = $one;
            }
        }
    }
    return [$name, $values];
}

function request(string $head, string $body): array
{
    $request = ['headers' => [], 'cookies' => [], 'attributes' => [], 'body' => $body];
    $names = [1 => 'address', 'protocol', 'method', 'uri', 'headers', 'cookies', 'query', 'parsed', 'uploads', 'attributes'];
    foreach (fields($head) as $field => $value) {
        $name = $names[$field] ?? '';
        if (is_array($request[$name] ?? null)) {
            [$key, $values] = entry($value);
            $request[$name][$key] = $values;
        } else {
            $request[$name] = $value;
        }
    }
    return $request;
}

function response(int $status, array $headers): string
{
    $message = number(1 << 3) . number($status);
    foreach ($headers as $name => $values) {
        $list = '';
        foreach ($values as $value) {
            $list .= text(1, $value);
        }
        $message .= text(2, text(1, $name) . text(2, $list));
    }
    return $message;
}

$answer = require $argv[1];
while (true) {
    $head = receive(12);
    $options = receive(((ord($head[0]) & 0x0f) - 3) * 4);
    $payload = receive(unpack('V', $head, 2)[1]);
    if (ord($head[1]) & CONTROL) {
        $command = json_decode($payload, true);
        if ($command['stop'] ?? false) {
            exit;
        }
        send(CONTROL, json_encode(['pid' => getmypid()]));
        continue;
    }
    if (ord($head[10]) & STOP) {
        continue;
    }
    $first = unpack('V', $options)[1];
    [$status, $headers, $body] = $answer(request(substr($payload, 0, $first), substr($payload, $first)));
    send(PROTOBUF, response($status, $headers), $body);
}
