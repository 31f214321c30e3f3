<?php
namespace Lib;

enum Suit: string
{
    case Hearts = 'h';
    case Spades = 's';
    const Best = self::Spades;
    public static function first(): self { return self::cases()[0]; }
}
