<?php
// Code that stays text until its first use: a stream wrapper, registered once, from which a closure is included. Frameworks
// cache closures in this way (routes, jobs).
final class ClosureStream
{
    private static bool $isRegistered = false;
    public $context;
    private string $code;
    private int $at = 0;
    public static function register(): void
    {
        if (!self::$isRegistered) {
            self::$isRegistered = stream_wrapper_register('closure-code', self::class);
        }
    }
    public function stream_open(string $path, string $mode, int $options, ?string &$opened): bool
    {
        $this->code = "<?php\nreturn " . substr($path, strlen('closure-code://')) . ';';
        return true;
    }
    public function stream_read(int $count): string
    {
        $part = substr($this->code, $this->at, $count);
        $this->at += strlen($part);
        return $part;
    }
    public function stream_eof(): bool { return $this->at >= strlen($this->code); }
    public function stream_set_option(int $option, int $one, int $two): bool { return false; }
    public function stream_stat(): array { return ['size' => strlen($this->code)]; }
    public function url_stat(): array { return ['size' => strlen($this->code)]; }
}

function unserialized_closure(string $code): Closure
{
    ClosureStream::register();
    return include "closure-code://$code";
}
