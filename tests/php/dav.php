<?php
// A small WebDAV server of files, like servers that are created for each request: the server and its plugins refer to each
// other, and the request, a property of the server, keeps php://input as the stream of its body.
namespace Dav;

final class Message
{
    private mixed $body;
    public function __construct(public readonly string $method, public readonly string $path, private array $server)
    {
        $this->body = fopen('php://input', 'r');
    }
    public function getHeader(string $name): ?string { return $this->server['HTTP_' . strtoupper(strtr($name, '-', '_'))] ?? null; }
    public function getBodyAsStream(): mixed { return $this->body; }
    public function getBodyAsString(): string { return stream_get_contents($this->body); }
    public function setBody(mixed $body): void { $this->body = $body; }
}

abstract class Plugin
{
    protected Server $server;
    public function initialize(Server $server): void
    {
        $this->server = $server;
        foreach ($this->methods() as $method => $handler) {
            $server->on($method, $handler);
        }
    }
    /** @return array<string, callable> */
    abstract protected function methods(): array;
}

final class CorePlugin extends Plugin
{
    protected function methods(): array
    {
        return ['OPTIONS' => $this->options(...), 'GET' => $this->get(...), 'PUT' => $this->put(...), 'DELETE' => $this->delete(...),
            'MKCOL' => $this->mkcol(...), 'COPY' => $this->copy(...), 'MOVE' => $this->copy(...)];
    }
    private function options(): array { return [200, '', ['DAV' => '1, 3']]; }
    private function get(string $file): array { return is_file($file) ? [200, file_get_contents($file)] : [404, '']; }
    private function put(string $file): array
    {
        if (!is_dir(dirname($file))) { return [409, '']; }
        $is_new = !file_exists($file);
        $first = fread($this->server->request->getBodyAsStream(), 4);
        $body = fopen('php://temp', 'r+');
        fwrite($body, $first);
        stream_copy_to_stream($this->server->request->getBodyAsStream(), $body);
        rewind($body);
        $this->server->request->setBody($body);
        file_put_contents($file, $body);
        return [$is_new ? 201 : 204, ''];
    }
    private function delete(string $file): array
    {
        if (!file_exists($file)) { return [404, '']; }
        is_dir($file) ? rmdir($file) : unlink($file);
        return [204, ''];
    }
    private function mkcol(string $file): array
    {
        if ($this->server->request->getBodyAsString() !== '') { return [415, '']; }
        if (file_exists($file)) { return [405, '']; }
        return @mkdir($file) ? [201, ''] : [409, ''];
    }
    private function copy(string $file): array
    {
        $target = $this->server->file(parse_url($this->server->request->getHeader('Destination'), PHP_URL_PATH));
        if (!file_exists($file)) { return [404, '']; }
        if (file_exists($target) && $this->server->request->getHeader('Overwrite') === 'F') { return [412, '']; }
        $status = file_exists($target) ? 204 : 201;
        $this->server->request->method === 'MOVE' ? rename($file, $target) : copy($file, $target);
        return [$status, ''];
    }
}

final class PropertiesPlugin extends Plugin
{
    protected function methods(): array
    {
        return ['PROPFIND' => $this->propfind(...), 'PROPPATCH' => $this->proppatch(...)];
    }
    private function propfind(string $file): array
    {
        $asked = $this->server->request->getBodyAsString();
        if ($asked !== '' && !str_starts_with($asked, '<?xml')) { return [400, '']; }
        if (!file_exists($file)) { return [404, '']; }
        $found = [basename($file)];
        if ($this->server->request->getHeader('Depth') === '1' && is_dir($file)) {
            array_push($found, ...array_values(array_diff(scandir($file), ['.', '..'])));
        }
        return [207, '<multistatus>' . implode('', array_map(fn ($name) => "<response>$name</response>", $found)) . '</multistatus>'];
    }
    private function proppatch(string $file): array
    {
        preg_match('~<set>(.*)</set>~', $this->server->request->getBodyAsString(), $found);
        return file_exists($file) ? [207, "<multistatus>$found[1]</multistatus>"] : [404, ''];
    }
}

final class LocksPlugin extends Plugin
{
    protected function methods(): array { return ['LOCK' => $this->lock(...), 'UNLOCK' => fn () => [204, '']]; }
    private function lock(): array
    {
        return [200, '<lock>' . md5($this->server->request->getBodyAsString()) . '</lock>', ['Lock-Token' => '<opaquelocktoken:1>']];
    }
}

final class Server
{
    public Message $request;
    private array $handlers = [];
    private array $plugins = [];
    public function __construct(private string $root)
    {
        $this->request = new Message($_SERVER['REQUEST_METHOD'], strtok($_SERVER['REQUEST_URI'], '?'), $_SERVER);
        foreach ([new CorePlugin(), new PropertiesPlugin(), new LocksPlugin()] as $plugin) {
            $this->plugins[] = $plugin;
            $plugin->initialize($this);
        }
    }
    public function on(string $method, callable $handler): void { $this->handlers[$method] = $handler; }
    public function file(string $path): string { return $this->root . '/' . trim($path, '/'); }
    public function start(): void
    {
        [$status, $text, $headers] = (isset($this->handlers[$this->request->method])
            ? $this->handlers[$this->request->method]($this->file($this->request->path)) : [501, '']) + [2 => []];
        http_response_code($status);
        header('Content-Type: application/xml');
        foreach ($headers as $name => $value) {
            header("$name: $value");
        }
        echo $text;
    }
}
