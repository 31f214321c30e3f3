
/* Fibers of a script that suspend themselves inside a call of PHP; see tests/worker_left_fibers.rs. */
class Stays
{
    public $value = 1;
    public function __serialize(): array { Fiber::suspend(); return ['value' => $this->value]; }
    public function __unserialize(array $data): void { Fiber::suspend(); $this->value = $data['value']; }
    public function __toString(): string { Fiber::suspend(); return 'text'; }
    public function __get($name) { Fiber::suspend(); return 'property'; }
    public function __invoke() { Fiber::suspend(); return 'invoked'; }
}
class Sleeps { public $a = 1; public function __sleep() { Fiber::suspend(); return ['a']; } public function __wakeup() { Fiber::suspend(); } }
class Walks implements IteratorAggregate, ArrayAccess, Countable, JsonSerializable
{
    public function getIterator(): Iterator { Fiber::suspend(); return new ArrayIterator([1, 2]); }
    public function offsetGet($offset): mixed { Fiber::suspend(); return $offset; }
    public function offsetSet($offset, $value): void { }
    public function offsetExists($offset): bool { return true; }
    public function offsetUnset($offset): void { }
    public function count(): int { Fiber::suspend(); return 2; }
    public function jsonSerialize(): mixed { Fiber::suspend(); return [1]; }
}
class Ends { public function __destruct() { Fiber::suspend(); } }
class Heaped extends SplMinHeap { protected function compare($a, $b): int { Fiber::suspend(); return $b <=> $a; } }
class Sessions extends SessionHandler
{
    public static string $at = '';
    public function open(string $path, string $name): bool { self::at('open'); return parent::open($path, $name); }
    public function read(string $id): string|false { self::at('read'); return parent::read($id); }
    public function write(string $id, string $data): bool { self::at('write'); return parent::write($id, $data); }
    public function close(): bool { self::at('close'); return parent::close(); }
    private static function at(string $where): void { if (self::$at === $where && Fiber::getCurrent()) { self::$at = ''; Fiber::suspend(); } }
}
class Waits
{
    public $context;
    private int $left = 2;
    public function stream_open($path, $mode, $options, &$opened) { if (str_contains($path, 'open')) { Fiber::suspend(); } return true; }
    public function stream_read($count) { if (--$this->left < 0) { return ''; } Fiber::suspend(); return "<?php return 1;\n"; }
    public function stream_write($data) { Fiber::suspend(); return strlen($data); }
    public function stream_eof() { return $this->left <= 0; }
    public function stream_stat() { return []; }
    public function stream_close() { if (class_exists('Held', false) && Held::$closing) { Fiber::suspend(); } }
    public function stream_set_option($option, $a, $b) { return false; }
    public function url_stat($path, $flags) { Fiber::suspend(); return []; }
    public function dir_opendir($path, $options) { Fiber::suspend(); return true; }
    public function dir_readdir() { return false; }
}
class Held
{
    public static array $fibers = [];
    public static bool $closing = false;
    public static int $named = 0;
}
const DTD = '<?xml version="1.0"?><!DOCTYPE r [<!ENTITY e SYSTEM "left.ent">]><r>&e;</r>';
function calls(): array
{
    $wait = function (...$values) { Fiber::suspend(); return $values[0] ?? null; };
    $compare = function ($a, $b) { Fiber::suspend(); return $a <=> $b; };
    /* The compiler raises a deprecation, whose handler suspends the fiber. */
    $compiled = function (Closure $compile): mixed {
        set_error_handler(function () { Fiber::suspend(); return true; });
        try { return $compile('function left_' . ++Held::$named . '($a = 1, $b) { return 7; } return 5;'); } finally { restore_error_handler(); }
    };
    return [
        'mb_ereg' => fn () => mb_ereg_replace_callback('[a-c]', fn ($m) => $wait($m[0]), 'abcabc'),
        'entity loader' => function () use ($wait) {
            libxml_set_external_entity_loader(function () use ($wait) { $wait(); return fopen('data:,entity', 'r'); });
            $document = new DOMDocument;
            @$document->loadXML(DTD, LIBXML_NOENT | LIBXML_DTDLOAD);
            return $document->textContent;
        },
        'session open' => fn () => session('open'),
        'session read' => fn () => session('read'),
        'session write' => fn () => session('write'),
        'session close' => fn () => session('close'),
        'session serialize' => function () { open_session(); $_SESSION['left'] = new Stays; session_write_close(); },
        'session encode' => function () { open_session(); $_SESSION['left'] = new Stays; return session_encode(); },
        'serialize' => fn () => serialize([new Stays, new Stays]),
        'unserialize' => fn () => unserialize('a:2:{i:0;O:5:"Stays":1:{s:5:"value";i:1;}i:1;O:5:"Stays":1:{s:5:"value";i:2;}}'),
        'sleep' => fn () => serialize([new Sleeps]),
        'wakeup' => fn () => unserialize('O:6:"Sleeps":1:{s:1:"a";i:1;}'),
        'async' => fn () => Svc\async(fn ($stays) => $stays->value, new Stays)->await(),
        'async capture' => function () { $stays = new Stays; return Svc\async(fn () => $stays->value)->await(); },
        'eval' => fn () => $compiled(fn ($code) => eval($code)),
        'include' => fn () => $compiled(function ($code) { file_put_contents($file = DIR . '/left-' . bin2hex(random_bytes(6)) . '.inc', "<?php $code"); return include $file; }),
        'include wrapper' => fn () => include 'waits://include',
        'autoload' => function () { spl_autoload_register($own = function ($class) { if (str_starts_with($class, 'Left\\')) { Fiber::suspend(); } }); try { return class_exists('Left\\C' . ++Held::$named); } finally { spl_autoload_unregister($own); } },
        'link' => function () {
            $name = 'Parent_' . ++Held::$named;
            spl_autoload_register($own = function ($class) use ($name) { if ($class === $name) { Fiber::suspend(); eval("class $name { }"); } });
            try { return get_class(eval("class Child_$name extends $name { } return new Child_$name;")) === "Child_$name"; } finally { spl_autoload_unregister($own); }
        },
        'constant' => function () { $name = 'Constant_' . ++Held::$named; spl_autoload_register($own = function ($class) use ($name) { if ($class === $name) { Fiber::suspend(); eval("class $name { const V = 1; }"); } }); try { return eval("class With_$name { const W = $name::V; } return With_$name::W;"); } finally { spl_autoload_unregister($own); } },
        'usort' => function () use ($compare) { $list = [5, 3, 4, 1]; usort($list, $compare); return $list; },
        'rsort' => function () { $list = [5, 3, 4, 1]; usort($list, function ($a, $b) { Fiber::suspend(); return $b <=> $a; }); return $list; },
        'uasort' => function () use ($compare) { $list = new ArrayObject([5, 3, 4, 1]); $list->uasort($compare); return $list->count(); },
        'sort' => function () { $list = [new Stays, 'text', new Stays]; sort($list, SORT_STRING); return count($list); },
        'multisort' => function () { $list = [new Stays, 'text', new Stays]; array_multisort($list, SORT_ASC, SORT_STRING); return count($list); },
        'array_walk' => function () use ($wait) { $list = [1, 2, 3]; array_walk($list, $wait); return $list; },
        'array_walk reference' => function () { $list = [1, 2, 3]; array_walk($list, function (&$value) { Fiber::suspend(); $value++; }); return $list; },
        'array_map' => fn () => array_map($wait, [1, 2, 3]),
        'preg_replace_callback' => fn () => preg_replace_callback('/(a)(b)?/', fn ($m) => $wait($m[0]), 'ab a ab'),
        'ob_start' => function () use ($wait) { ob_start(fn ($text) => $wait($text)); echo 'text'; return ob_end_clean(); },
        'ob_start chunks' => function () use ($wait) { ob_start(fn ($text) => $wait(''), 2); echo 'text'; echo 'more'; return ob_end_clean(); },
        'iterator_apply' => fn () => iterator_apply(new ArrayIterator([1, 2]), fn () => $wait(true) ?? true),
        'iterator_to_array' => fn () => iterator_to_array((function () { yield 1; Fiber::suspend(); yield 2; })()),
        'iterate' => function () { foreach (new Walks as $value) { $sum = ($sum ?? 0) + $value; } return $sum; },
        'offset' => fn () => (new Walks)[3],
        'count' => fn () => count(new Walks),
        'json' => fn () => json_encode([new Walks, new Walks]),
        'print' => fn () => 'a' . new Stays . 'b',
        'property' => fn () => (new Stays)->missing,
        'invoke' => fn () => (new Stays)(),
        'destruct' => function () { $ends = new Ends; $ends = null; return 1; },
        'open' => fn () => fopen('waits://open', 'r') !== false,
        'object open' => fn () => (new SplFileObject('waits://open', 'r'))->eof(),
        'read' => fn () => fread(fopen('waits://x', 'r'), 10),
        'write' => fn () => fwrite(fopen('waits://x', 'w'), 'abc'),
        'close' => function () { $stream = fopen('waits://x', 'r'); Held::$closing = true; try { return fclose($stream); } finally { Held::$closing = false; } },
        'stat' => fn () => file_exists('waits://x'),
        'opendir' => fn () => is_resource(opendir('waits://x')),
        'xml' => function () use ($wait) { $parser = xml_parser_create(); xml_set_element_handler($parser, fn () => $wait(), fn () => $wait()); return xml_parse($parser, '<a><b/></a>', true); },
        'reader' => function () { $reader = XMLReader::open('waits://x'); return @$reader->read(); },
        'xpath' => function () use ($wait) { $document = new DOMDocument; $document->loadXML('<a><b/></a>'); $path = new DOMXPath($document); $path->registerNamespace('php', 'http://php.net/xpath'); $path->registerPhpFunctions(['waits_in_path']); return $path->query('//b[php:functionString("waits_in_path", name()) = "b"]')->length; },
        'xml error' => function () { set_error_handler(function () { Fiber::suspend(); return true; }); try { return (new DOMDocument)->loadXML('<a><b></a>'); } finally { restore_error_handler(); } },
        'reflection' => fn () => (new ReflectionFunction($wait))->invoke(3),
        'heap' => function () { $heap = new Heaped; $heap->insert(1); $heap->insert(2); return $heap->count(); },
        'generator' => function () { $sum = 0; foreach ((function () { for ($i = 0; $i < 3; $i++) { Fiber::suspend(); yield $i; } })() as $value) { $sum += $value; } return $sum; },
        'plain' => function () use ($wait) { return $wait(1) + $wait(2); },
        'function' => function () { $db = new SQLite3(':memory:'); $db->createFunction('wait', function ($a) { Fiber::suspend(); return $a; }); return $db->querySingle('SELECT wait(3)'); },
        'curl' => function () use ($wait) { $curl = curl_init('file://' . DIR . '/page'); curl_setopt($curl, CURLOPT_WRITEFUNCTION, fn ($handle, $data) => $wait(strlen($data))); return curl_exec($curl); },
        'filter' => fn () => filter_var('text', FILTER_CALLBACK, ['options' => $wait]),
        'constructor' => fn () => (new ReflectionClass(ArrayIterator::class))->newInstance([1])->count() . iterator_count(new CallbackFilterIterator(new ArrayIterator([1, 2]), fn () => (bool) $wait(1))),
    ];
}
function waits_in_path($name) { Fiber::suspend(); return $name; }
function open_session(): void
{
    ini_set('session.save_path', DIR);
    session_id(bin2hex(random_bytes(8)));
    session_start(['use_cookies' => false]);
}
function session(string $at): bool
{
    session_set_save_handler(new Sessions, false);
    Sessions::$at = $at;
    open_session();
    $_SESSION['seen'] = 1;
    return session_write_close();
}
/** Starts a fiber for each kind of call, or for one kind. */
function begin(string $kind): array
{
    if (!in_array('waits', stream_get_wrappers())) { stream_wrapper_register('waits', Waits::class); }
    file_exists(DIR . '/page') || file_put_contents(DIR . '/page', str_repeat('x', 100000));
    $fibers = [];
    foreach (calls() as $name => $call) {
        if ($kind !== '' && $name !== $kind) { continue; }
        $fiber = new Fiber(function () use ($call, $name) { try { return $call(); } finally { Held::$named++; } });
        $fiber->start();
        $fiber->isSuspended() || throw new LogicException("$name does not suspend itself");
        $fibers[$name] = $fiber;
    }
    return $fibers;
}
function started(string $name): Fiber
{
    $call = calls()[$name];
    $fiber = new Fiber(fn () => tried($call));
    $fiber->start();
    return $fiber;
}
function to_the_end(Fiber $fiber): string
{
    while ($fiber->isSuspended()) { $fiber->resume(); }
    return $fiber->getReturn();
}
/** Of two overlapping calls, the first ends first or is destroyed: each returns the same result as alone. */
function crossed(): array
{
    if (!in_array('waits', stream_get_wrappers())) { stream_wrapper_register('waits', Waits::class); }
    file_put_contents(DIR . '/page', str_repeat('x', 100000));
    /* There is only one session and one stack of output buffers. */
    $names = array_values(array_filter(names(), fn ($name) => !preg_match('/session|ob_start/', $name)));
    $wrong = [];
    foreach ($names as $at => $name) {
        $alone = to_the_end(started($name));
        foreach ([$name, $names[($at + 1) % count($names)], 'usort', 'rsort', 'eval', 'serialize', 'link'] as $other) {
            foreach (['end', 'step', 'destroy', 'throw'] as $how) {
                $expected = to_the_end(started($other));
                $first = started($name);
                $second = started($other);
                if ($how === 'step') { while ($first->isSuspended() || $second->isSuspended()) { foreach ([$first, $second] as $one) { $one->isSuspended() && $one->resume(); } } }
                if ($how === 'destroy') { $first = null; gc_collect_cycles(); }
                if ($how === 'throw') { try { $first->throw(new Left); } catch (Throwable) { } }
                $got = $how === 'destroy' || $how === 'throw' ? $alone : to_the_end($first);
                $other_got = to_the_end($second);
                if ([$got, $other_got] !== [$alone, $expected]) { $wrong["$name, $other, $how"] = [$got, $alone, $other_got, $expected]; }
            }
        }
    }
    return $wrong;
}
/** Uses the same functions in another request. */
function usable(): array
{
    $list = [3, 1, 2];
    usort($list, fn ($a, $b) => $a <=> $b);
    $document = new DOMDocument;
    $document->loadXML('<a>b</a>');
    $parser = xml_parser_create();
    $seen = '';
    xml_set_element_handler($parser, function ($parser, $name) use (&$seen) { $seen .= $name; }, fn () => null);
    xml_parse($parser, '<a><b/></a>', true);
    session_set_save_handler(new Sessions, false);
    open_session();
    $_SESSION['a'] = 1;
    $closed = session_write_close();
    ob_start(fn ($text) => strtoupper($text));
    echo 'text';
    $name = 'Usable_' . bin2hex(random_bytes(6));
    $one = new ArrayObject([1]);
    spl_autoload_register($own = fn ($class) => $class === $name ? eval("class $name { const A = 2; }") : null);
    $linked = eval("class Sub_$name extends $name { } return Sub_$name::A;");
    spl_autoload_unregister($own);
    set_error_handler(fn () => true);
    $compiled = eval("function $name(\$a = 1, \$b) { return 7; } return $name(1, 2);");
    restore_error_handler();
    return [$list, mb_ereg_replace_callback('[a-c]', fn ($m) => strtoupper($m[0]), 'abcd'), $document->textContent, $seen, $closed,
        ob_get_clean(), $linked, $compiled, unserialize(serialize([$one, $one]))[1]->count(), json_encode([1 => 2]), PHP_SAPI];
}
function names(): array { return array_keys(calls()); }
function leave_at_shutdown(string $n): void { register_shutdown_function(function () use ($n) { finish(begin(name_of($n)), 'keep'); }); }
/** Whether it is still suspended. */
function still(): bool { return Held::$fibers[0]->isSuspended(); }
/** Leaves a fiber whose `finally` block prints. */
function last_words(): string
{
    Held::$fibers[] = $fiber = new Fiber(function () { try { usort_forever(); } finally { echo 'ended '; } });
    $fiber->start();
    return 'left';
}
function usort_forever(): void { $list = [2, 1]; usort($list, fn () => Fiber::suspend()); }
/** A fiber inside an output callback whose handler is freed when memory is short; a shutdown function resumes it. */
function without_output(): void
{
    $fibers = begin('ob_start chunks');
    register_shutdown_function(function () use ($fibers) { finish($fibers, 'resume'); });
    str_repeat('x', PHP_INT_MAX >> 4);
}
function answer_all(): void { while (frankenphp_handle_request(answer(...))) { } exit; }
/** A fiber is suspended in the autoloader of a class. */
function leave_autoload(): void
{
    spl_autoload_register(function ($class) { if ($class === 'Same' && Fiber::getCurrent()) { Fiber::suspend(); } elseif ($class === 'Same') { eval('class Same { }'); } });
    Held::$fibers[] = $fiber = new Fiber(fn () => class_exists('Same'));
    $fiber->start();
}
function finds_class(): bool { return class_exists('Same'); }
