<?php
// A worker whose boot script has set up state that scripts change in place: contexts, filters, wrappers, a directory, a
// log, an assertion's callback. Requests change it (?do=...), wait on demand (&stay), and print what they see (?do=look).
final class Upper extends php_user_filter
{
    public function filter($in, $out, &$consumed, bool $closing): int
    {
        while ($bucket = stream_bucket_make_writeable($in)) {
            $bucket->data = strtoupper($bucket->data);
            $consumed += $bucket->datalen;
            stream_bucket_append($out, $bucket);
        }
        return PSFS_PASS_ON;
    }
}

final class Fixed
{
    public $context;
    private bool $over = false;
    public function stream_open(): bool
    {
        return true;
    }
    public function stream_read(): string
    {
        $this->over = !$this->over;
        return $this->over ? 'fixed' : '';
    }
    public function stream_eof(): bool
    {
        return !$this->over;
    }
    public function stream_stat(): array
    {
        return [];
    }
}

if (is_file(__DIR__ . '/full')) {
    stream_context_set_default(['http' => ['user_agent' => 'boot', 'header' => ['X-Boot: 1']]]);
    stream_context_set_params(stream_context_get_default(), ['notification' => 'boot_notified']);
    libxml_set_streams_context(stream_context_create(['http' => ['user_agent' => 'boot']]));
    stream_filter_register('boot.upper', Upper::class);
    stream_wrapper_register('boot', Fixed::class);
    output_add_rewrite_var('boot', '1');
    output_reset_rewrite_vars();
    output_add_rewrite_var('boot', '2');
    opendir(__DIR__);
    openlog('boot', 0, LOG_USER);
    // Resolved when it is set: it does not follow a request's directory.
    ini_set('open_basedir', '.');
    assert_options(ASSERT_CALLBACK, new class {
        public function __invoke(): void
        {
            $GLOBALS['asserted'] = ($GLOBALS['asserted'] ?? 0) + 1;
        }
    });
} else {
    // Any function of streams creates a default context.
    file_get_contents(__FILE__);
}
$kept = null;
$turn = 0;

function boot_notified(): void
{
}

function of_wrapper(string $name): mixed
{
    return @file_get_contents("$name://x");
}

function of_filter(string $name): mixed
{
    $stream = fopen('php://memory', 'w+');
    fwrite($stream, 'text');
    rewind($stream);
    return @stream_filter_append($stream, $name, STREAM_FILTER_READ) ? stream_get_contents($stream) : false;
}

function own_assertion(): void
{
    $GLOBALS['asserted'] += 10;
}

/** Returns the next name in the directory that was opened last; null if none was. */
function of_directory(): mixed
{
    try {
        return @readdir();
    } catch (TypeError) {
        return null;
    }
}

function is_dir_from_below(): bool
{
    $here = getcwd();
    chdir(__DIR__ . '/sub');
    $is = @is_dir(__DIR__);
    chdir($here);
    return $is;
}

function look(): array
{
    $asserted = $GLOBALS['asserted'] ?? 0;
    @assert(false);
    return [
        'context' => stream_context_get_params(stream_context_get_default()),
        'filters' => [of_filter('boot.upper'), of_filter('own.upper'), preg_grep('/upper/', stream_get_filters())],
        'wrappers' => [of_wrapper('boot'), of_wrapper('own'), in_array('data', stream_get_wrappers(), true)],
        'directory' => is_string(of_directory()),
        'asserted' => ($GLOBALS['asserted'] ?? 0) - $asserted,
        'basedir' => [ini_get('open_basedir'), @is_dir('/etc'), is_dir_from_below()],
        'cwd' => getcwd(),
    ];
}

/** Changes all of that state in place. */
function change(): void
{
    stream_context_set_default(['http' => ['header' => 'Authorization: Bearer secret', 'method' => 'POST'], 'ssl' => ['x' => 1]]);
    stream_context_set_option(stream_context_get_default(), 'http', 'user_agent', 'own');
    stream_context_set_params(stream_context_get_default(), ['notification' => fn () => null]);
    stream_filter_register('own.upper', Upper::class);
    @stream_filter_register('boot.upper', Upper::class);
    stream_wrapper_register('own', Fixed::class);
    @stream_wrapper_unregister('boot');
    stream_wrapper_unregister('data');
    output_add_rewrite_var('more', str_repeat('x', 999));
    while (is_string(of_directory())) {
    }
    opendir(__DIR__);
    openlog('own', 0, LOG_USER);
    openlog('again', 0, LOG_USER);
    @ini_set('assert.callback', 'own_assertion');
    ini_set('open_basedir', __DIR__ . '/sub/..');
    ini_set('open_basedir', __DIR__);
    chdir(__DIR__ . '/sub');
    sys_get_temp_dir();
}

Svc\Worker::serve(function () use (&$turn, &$kept) {
    switch ($_GET['do']) {
        case 'look':
            echo json_encode(look(), JSON_PRETTY_PRINT);
            return;
        case 'go':
            $turn++;
            return;
        case 'memory':
            gc_collect_cycles();
            echo memory_get_usage();
            return;
        case 'change':
            change();
            $before = look();
            $own = $turn;
            while (isset($_GET['stay']) && $turn === $own) {
                Svc\sleep(0.001);
            }
            for ($i = 0; $i < 3; $i++) {
                Svc\sleep(0);
            }
            $same = $before == ($after = look());
            echo $same ? 'same' : json_encode([$before, $after], JSON_PRETTY_PRINT);
            return;
        case 'rewrite':
            output_add_rewrite_var('own', str_repeat('x', $_GET['length']));
            echo '<form></form>';
            return;
        case 'keep':
            // A stream outlives its request, and the wrapper that its request has registered.
            stream_wrapper_register('own', Fixed::class);
            $kept = fopen('own://x', 'r');
            return;
        case 'kept':
            echo stream_get_contents($kept);
            fclose($kept);
            return;
    }
});
