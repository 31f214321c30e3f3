<?php
// Stream filters between PHP's tests of its development server and svc.
//
// Those tests write the lines of a request with bare line feeds and forget the Host, which svc refuses, and compare
// whole heads. What the connection and the server add to a head is brought to the form and place that the development
// server gives it; what the script sent stays as it is, and so does the body. A connection carries one reply.

declare(strict_types=1);

namespace Phpt;

require_once __DIR__ . '/reply.php';

/** Both directions of one connection. */
final class Wire
{
    public bool $inHead = true;
    public string $request = '';

    /** The host that the request names. */
    public function host(): ?string
    {
        return preg_match('~^host: *(\S+)~mi', $this->request, $match) ? $match[1] : null;
    }

    /** @param resource $socket */
    public static function wrap(mixed $socket): mixed
    {
        foreach (['svc.request' => RequestFilter::class, 'svc.reply' => ReplyFilter::class] as $name => $class) {
            in_array($name, stream_get_filters(), true) || stream_filter_register($name, $class);
        }
        $wire = new self();
        stream_filter_append($socket, 'svc.request', STREAM_FILTER_WRITE, $wire);
        stream_filter_append($socket, 'svc.reply', STREAM_FILTER_READ, $wire);
        return $socket;
    }
}

/** Ends the lines of the first head as HTTP wants it, and names the host. */
final class RequestFilter extends \php_user_filter
{
    public function filter($in, $out, &$consumed, bool $closing): int
    {
        $wire = $this->params;
        while ($bucket = stream_bucket_make_writeable($in)) {
            $consumed += $bucket->datalen;
            if ($wire->inHead) {
                $parts = preg_split('~(?<=\n)(?=\r?\n)~', $bucket->data, 2);
                $parts[0] = preg_replace('~(?<!\r)\n~', "\r\n", $parts[0]);
                $wire->request .= $parts[0];
                if (isset($parts[1])) {
                    $wire->inHead = false;
                    $host = preg_match('~^\S+ \S+ HTTP/1.1\r\n~', $wire->request) && !$wire->host() ? "Host: localhost\r\n" : '';
                    $parts[1] = $host . preg_replace('~^\r?\n~', "\r\n", $parts[1]);
                }
                $bucket->data = implode('', $parts);
            }
            stream_bucket_append($out, $bucket);
        }
        return PSFS_PASS_ON;
    }
}

/** Holds a reply back until it is whole, and then gives it the development server's head. */
final class ReplyFilter extends \php_user_filter
{
    private string $held = '';
    private bool $isOver = false;

    public function filter($in, $out, &$consumed, bool $closing): int
    {
        while ($bucket = stream_bucket_make_writeable($in)) {
            $consumed += $bucket->datalen;
            $this->held .= $bucket->data;
        }
        $reply = $this->isOver ? null : Reply::parse($this->held);
        if ($reply === null || !($closing || $reply->isWhole)) {
            return PSFS_FEED_ME;
        }
        $this->isOver = true;
        stream_bucket_append($out, stream_bucket_new($this->stream, $this->dress($reply)));
        return PSFS_PASS_ON;
    }

    private function dress(Reply $reply): string
    {
        $own = array_search('x-request-id', array_map(fn (string $field): string => strtolower(strtok($field, ':')), $reply->fields), true);
        $script = array_slice($reply->fields, 0, $own === false ? null : $own);
        // It answers in the version of the request.
        $version = preg_match('~ (HTTP/1.0)\r\n~', $this->params->request, $match) ? $match[1] : 'HTTP/1.1';
        $lines = ["$version {$reply->status()}"];
        if ($this->params->host() !== null) {
            $lines[] = "Host: {$this->params->host()}";
        }
        if (preg_grep('~^date:~i', $script) === []) {
            array_push($lines, ...preg_grep('~^date:~i', $reply->fields));
        }
        return implode("\r\n", [...$lines, 'Connection: close', ...$script]) . "\r\n\r\n$reply->body";
    }
}
