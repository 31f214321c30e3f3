<?php
namespace App\Refusals;

use Lib\{Work, Derived, Suit};

class Anonymous { public static function of(): object { return new class { public static function closure() { return static fn () => 1; } public static function own() { return 1; } }; } }
function by_reference(int $a, array &$b, &...$c) {}
function generates() { yield 1; }
function declares() { if (!class_exists('App\Refusals\Inner')) { class Inner {} } }

$x = 1; $resource = fopen('php://memory', 'r'); $closure = static fn () => 1;
$anonymous = Anonymous::of();
$deep = ['a' => [3 => (object) ['photo' => $resource]]];

$refused = [
    'this' => (new Work)->bound(),
    'method' => (new Work)->dynamic(...),
    'reference' => static function () use ($closure, &$x) { return $x; },
    'parameter' => static fn (int $a, array &$b) => 1,
    'variadic parameter' => static fn (int ...$all) => 1,
    'variadic reference' => static fn (int &...$all) => 1,
    'parameter of a function' => by_reference(...),
    'parameter of an internal function' => sort(...),
    'preferred reference' => array_multisort(...),
    'generator' => static function () { yield 1; },
    'generator from' => static function () { yield from [1]; },
    'generator arrow' => static fn () => yield 1,
    'generator of a function' => generates(...),
    'generator of a method' => (new Work)->generator(),
    'magic' => Work::unknown(...),
    'class' => declares(...),
    'anonymous class' => static function () {
        return new class {};
    },
    'anonymous class in nested' => static fn () => static fn () => new class extends \ArrayObject {},
    'eval' => eval('return static fn () => 1;'),
    'eval in eval' => eval('return eval("return static function () {};");'),
    'in an anonymous class' => $anonymous::closure(),
    'of an anonymous class' => $anonymous::own(...),
    'resource' => static fn () => $resource,
    'deep resource' => static function () use ($x, $deep) { return [$x, $deep]; },
    'closure' => static fn () => $closure,
];
$results = [];
foreach ($refused as $key => $closure) {
    try {
        test_pack('refused', $closure);
        $results[$key] = 'packed';
    } catch (\Svc\Async\TransferException $e) {
        $results[$key] = str_replace(__DIR__, '', $e->getMessage());
    }
}
echo json_encode($results, JSON_PRETTY_PRINT | JSON_UNESCAPED_SLASHES);
