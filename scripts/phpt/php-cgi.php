<?php
// Stands in for php-cgi: run-tests.php calls it as one, and the request goes over HTTP to a server that runs for
// this one call, with the directives of the command line.
//
// Promises: run-tests.php sees head and body as the client got them. What is no request (a SKIPIF section, the look
// at the configuration) is run by the CLI.

declare(strict_types=1);

namespace Phpt;

require __DIR__ . '/server.php';
require __DIR__ . '/reply.php';

/** Fields that describe the connection or come from the server: CGI does not know them. */
const NOT_OF_THE_SCRIPT = '~^(connection|transfer-encoding|date|server|host|keep-alive|x-request-id):~i';

/** Variables that CGI makes from the request. */
const OF_THE_REQUEST = '~^(HTTP_.*|REDIRECT_STATUS|QUERY_STRING|PATH_TRANSLATED|PATH_INFO|SCRIPT_NAME|SCRIPT_FILENAME'
    . '|REQUEST_METHOD|REQUEST_URI|CONTENT_TYPE|CONTENT_LENGTH)$~';

/** @return array{array<string, string>, ?string} directives, and the script of a request */
function parse_words(array $words): array
{
    $ini = [];
    $script = null;
    while (($word = array_shift($words)) !== null) {
        if ($word === '-d') {
            [$name, $value] = explode('=', (string) array_shift($words), 2) + [1 => '1'];
            $ini[trim($name)] = trim(trim($value), '"');
        } elseif ($word === '-f') {
            $script = array_shift($words);
        }
    }
    // Write-protects what all threads of a process share: it is for one thread only.
    unset($ini['opcache.protect_memory']);
    return [$ini, $script];
}

function message(string $script, array $environment, string $body): string
{
    $query = $environment['QUERY_STRING'] ?? '';
    $path = '/' . rawurlencode(basename($script)) . ($environment['PATH_INFO'] ?? '');
    $target = $environment['REQUEST_URI'] ?? $path . ($query === '' ? '' : "?$query");
    // php-cgi gets the query as it is; a client encodes what has no place in a request line.
    $target = preg_replace_callback('~[^\x21-\x7e]~', fn (array $match): string => rawurlencode($match[0]), $target);
    $method = $environment['REQUEST_METHOD'] ?? 'GET';
    $lines = ["$method $target HTTP/1.1", 'Host: localhost', 'Connection: close'];
    if (($environment['CONTENT_TYPE'] ?? '') !== '') {
        $lines[] = "Content-Type: {$environment['CONTENT_TYPE']}";
    }
    if ($body !== '') {
        $lines[] = 'Content-Length: ' . strlen($body);
    }
    foreach ($environment as $name => $value) {
        if (str_starts_with($name, 'HTTP_') && $value !== '') {
            // In HTTP a field is one line.
            $lines[] = str_replace('_', '-', substr($name, 5)) . ': ' . preg_replace('~\s*\n\s*~', ' ', $value);
        }
    }
    return implode("\r\n", $lines) . "\r\n\r\n$body";
}

$words = array_slice($_SERVER['argv'], 1);
[$ini, $script] = parse_words($words);
if ($script === null) {
    $words = array_filter($words, fn (string $word): bool => $word !== '-C');
    $child = proc_open([getenv('PHP'), ...$words], [STDIN, STDOUT, STDERR], $pipes);
    exit(proc_close($child));
}

$environment = getenv();
$own = array_filter($environment, fn (string $name): bool => !preg_match(OF_THE_REQUEST, $name), ARRAY_FILTER_USE_KEY);
$body = stream_get_contents(STDIN);
$server = new Server(dirname($script), $ini, $own);
$socket = stream_socket_client("tcp://$server->address");
fwrite($socket, message($script, $environment, $body));
stream_set_timeout($socket, 50);
$reply = Reply::parse((string) stream_get_contents($socket));
fclose($socket);
$server->stop();
if ($reply === null) {
    echo "the server gave no answer\n";
    exit(1);
}
if ($reply->status() !== '200 OK') {
    echo "Status: {$reply->status()}\r\n";
}
foreach (preg_grep(NOT_OF_THE_SCRIPT, $reply->fields, PREG_GREP_INVERT) as $field) {
    // run-tests.php compares names by case; this is how scripts write the one that the server sends in their place.
    echo preg_replace('~^content-length:~i', 'Content-length:', $field), "\r\n";
}
echo "\r\n$reply->body";
