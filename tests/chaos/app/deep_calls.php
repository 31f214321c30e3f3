<?php
/** Operations that reach the end of a stack inside PHP or a library, which may end the request and nothing else. */
trait DeepCalls
{
    private function do_exhaust(string $kind, string $where): void
    {
        self::attempt(match ($where) {
            'main' => static fn () => DeepCall::reach($kind),
            'fiber' => static fn () => (new Fiber(DeepCall::reach(...)))->start($kind),
            'small' => static fn () => DeepCall::in_small_fiber($kind),
            'task' => static fn () => Svc\async(DeepCall::reach(...), $kind)->await(),
            'fiber of a task' => static fn () => Svc\async(DeepCall::in_small_fiber(...), $kind)->await(),
        });
        $this->check("exhaust $kind");
    }
}

final class DeepCall
{
    private const LEVELS = 60_000;
    /** Each level is indented by more than the one around it. */
    private const INDENTED = 2_000;

    public static function in_small_fiber(string $kind): void
    {
        ini_set('fiber.stack_size', '8K');
        $fiber = new Fiber(self::reach(...));
        try {
            $fiber->start($kind);
        } finally {
            ini_restore('fiber.stack_size');
        }
    }

    public static function reach(string $kind): void
    {
        ob_start(static fn () => '');
        try {
            self::call($kind);
        } finally {
            ob_end_clean();
        }
    }

    private static function call(string $kind): void
    {
        match ($kind) {
            'preg' => [ini_set('pcre.jit', '0'), preg_match('/^' . str_repeat('(', 240) . 'a|b' . str_repeat(')+', 240) . '$/', str_repeat('ab', 20_000)), ini_restore('pcre.jit')],
            'glob' => glob(str_repeat('*/', 2000)),
            'fnmatch' => fnmatch(str_repeat('@(', 1300) . 'a' . str_repeat(')', 1300), 'a', 1 << 5),
            'ereg' => mb_ereg(str_repeat('(', 4000) . 'a' . str_repeat(')', 4000), 'a'),
            'format' => class_exists(MessageFormatter::class) && MessageFormatter::create('en', str_repeat('{0,select,other{', 10_000) . 'x' . str_repeat('}}', 10_000))?->format([1]),
            'transform' => class_exists(XSLTProcessor::class) && self::transform(),
            'nodes' => self::nodes()->cloneNode(true),
            'canonical' => self::nodes()->C14N(),
            'json' => json_encode(self::nested(), depth: PHP_INT_MAX >> 33),
            'serialize' => serialize(self::nested()),
            'export' => var_export(self::nested(self::INDENTED), true),
            'dump' => var_dump(self::nested(self::INDENTED)),
            'print' => print_r(self::nested(self::INDENTED), true),
            'query' => http_build_query(self::nested()),
            'compare' => self::nested() == self::nested(),
            'count' => count(self::nested(), COUNT_RECURSIVE),
            'walk' => [$list = self::nested(), array_walk_recursive($list, static fn () => null)],
            'convert' => mb_convert_encoding(self::nested(), 'UTF-8'),
            'eval' => eval('return ' . str_repeat('[', 20_000) . str_repeat(']', 20_000) . ';'),
            'unserialize' => [ini_set('unserialize_max_depth', '0'), unserialize(str_repeat('a:1:{i:0;', self::LEVELS) . 'i:1;' . str_repeat('}', self::LEVELS)), ini_restore('unserialize_max_depth')],
            'destructors' => self::chain(),
        };
    }

    private static function nested(int $levels = self::LEVELS): array
    {
        for ($list = [], $n = 0; $n < $levels; $n++) {
            $list = [$list];
        }
        return $list;
    }

    private static function chain(): void
    {
        for ($last = null, $n = 0; $n < self::LEVELS; $n++) {
            $link = new OnDestruct(static fn () => strlen('x'));
            $link->self = $last;
            $last = $link;
        }
    }

    private static function nodes(): DOMDocument
    {
        $document = new DOMDocument();
        // Each call of appendChild() looks at all nodes above.
        for ($top = $document, $n = 0; $n < self::LEVELS / 10; $n++) {
            $top = $top->appendChild($document->createElement('a'));
        }
        return $document;
    }

    private static function transform(): void
    {
        $names = 'xmlns:xsl="http://www.w3.org/1999/XSL/Transform"';
        $sheet = new DOMDocument();
        $sheet->loadXML("<xsl:stylesheet version='1.0' $names><xsl:template match='/' name='r'><xsl:call-template name='r'/></xsl:template></xsl:stylesheet>");
        $processor = new XSLTProcessor();
        $processor->importStylesheet($sheet);
        $processor->maxTemplateDepth = 10_000_000;
        $processor->transformToXml($sheet);
    }
}
