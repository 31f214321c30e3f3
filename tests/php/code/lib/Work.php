<?php
declare(strict_types=1);
namespace Lib;

class Work
{
    use Tricks;
    const LIMIT = 3;
    private static array $log = ['begun'];
    public function __construct(public readonly int $id = 7) {}
    public static function hidden(): \Closure { return static function (int $by) { self::$log[] = $by; return [self::$log, self::LIMIT * $by, static::class, __METHOD__]; }; }
    public static function strict(): \Closure { return static fn () => strlen(7); }
    public static function arrow(): \Closure { return static fn (int $x = self::LIMIT): array => [$x, new self($x), new static($x)]; }
    public static function plain(int $x, int ...$more): array { return [__FUNCTION__, static::class, self::inner($x), $more]; }
    public static function own(): \Closure { return self::inner(...); }
    public static function counter(): int { static $n = 100; return ++$n; }
    private static function inner(int $x): int { return $x + 1; }
    public static function __callStatic(string $name, array $arguments) { return $name; }
    public function method(): \Closure { return static fn () => static::class; }
    public function bound(): \Closure { return fn () => $this->id; }
    public function dynamic(): int { return $this->id; }
    public function generator(): \Closure { return static function () { yield 1; }; }
}
