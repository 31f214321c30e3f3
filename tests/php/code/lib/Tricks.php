<?php
namespace Lib;

trait Tricks
{
    private static int $used = 5;
    public static function trick(): \Closure
    {
        return static fn () => [__CLASS__, __TRAIT__, self::class, static::class, ++self::$used, self::secret()];
    }
    private static function secret(): string { return 'secret of ' . self::class; }
}
