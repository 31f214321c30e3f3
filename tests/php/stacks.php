
/* Fibers of a script that suspend themselves inside an unfinished call of a library; see tests/hooks_stacks.rs. */
class Row { public $a; public function __construct() { Fiber::suspend(); if (Held::$bomb) { str_repeat('x', PHP_INT_MAX >> 4); } } }
class Filter extends php_user_filter
{
    public function filter($in, $out, &$consumed, bool $closing): int
    {
        while ($bucket = stream_bucket_make_writeable($in)) {
            if (!$closing) { Fiber::suspend(); }
            $consumed += $bucket->datalen;
            stream_bucket_append($out, $bucket);
        }
        return PSFS_PASS_ON;
    }
}
class Wrapper
{
    public $context;
    private int $left = 3;
    public function stream_open($path, $mode, $options, &$opened) { return true; }
    public function stream_read($count) { Fiber::suspend(); return $this->left-- > 0 ? 'abc' : ''; }
    public function stream_write($data) { Fiber::suspend(); return strlen($data); }
    public function stream_eof() { return $this->left <= 0; }
    public function stream_stat() { return []; }
    public function stream_set_option($option, $a, $b) { return false; }
}
class Held
{
    public static array $fibers = [];
    public static bool $bomb = false;
    public static $pdo, $sqlite, $curl, $multi, $db, $mysqli, $pg;
    public static function open(): void
    {
        mark('booted');
        /* Another thread may be reading the old file. */
        $page = DIR . '/page-' . bin2hex(random_bytes(8));
        file_put_contents($page, str_repeat('x', 100000));
        rename($page, DIR . '/page');
        self::$pdo = new PDO('sqlite::memory:', options: [PDO::ATTR_ERRMODE => PDO::ERRMODE_EXCEPTION]);
        self::$sqlite = new SQLite3(':memory:');
        self::$sqlite->enableExceptions(true);
        self::$curl = curl_init();
        self::$multi = curl_multi_init();
        $wait = function (...$values) { Fiber::suspend(); if (self::$bomb) { str_repeat('x', PHP_INT_MAX >> 4); } return $values[0] ?? 0; };
        $compare = function ($a, $b) { Fiber::suspend(); return strcmp($a, $b); };
        foreach ([self::$pdo, self::$sqlite] as $db) {
            $db->exec('CREATE TABLE t (a)');
            $db->exec('INSERT INTO t VALUES (1), (2), (3)');
            [$function, $aggregate, $collation] = $db === self::$pdo
                ? ['sqliteCreateFunction', 'sqliteCreateAggregate', 'sqliteCreateCollation']
                : ['createFunction', 'createAggregate', 'createCollation'];
            $db->$function('wait', $wait);
            $db->$aggregate('total', fn ($sum, $n, $value) => $wait($value), fn ($sum) => $sum);
            $db->$collation('waits', $compare);
        }
        if (defined('DSN')) {
            self::$db = new PDO(DSN, USER, PASSWORD, [PDO::ATTR_ERRMODE => PDO::ERRMODE_EXCEPTION]);
            if (str_starts_with(DSN, 'mysql:')) {
                self::$db->setAttribute(PDO::MYSQL_ATTR_USE_BUFFERED_QUERY, false);
                self::$mysqli = mysqli_connect('127.0.0.1', USER, PASSWORD, NAME, PORT);
            } else {
                self::$pg = pg_connect('host=127.0.0.1 port=' . PORT . ' dbname=' . NAME . ' user=' . USER . ' password=' . PASSWORD);
            }
        }
    }
}
function servers(): array
{
    $three = 'SELECT 1 AS a UNION SELECT 2 UNION SELECT 3';
    $kinds = [];
    if (Held::$db !== null) {
        $kinds += [
            'fetch_func' => fn () => Held::$db->query($three)->fetchAll(PDO::FETCH_FUNC, function ($a) { Fiber::suspend(); return $a; }),
            'fetch_class' => fn () => Held::$db->query($three)->fetchObject(Row::class),
            'iterator' => function () use ($three) { foreach (Held::$db->query($three, PDO::FETCH_CLASS, Row::class) as $row) { $rows[] = $row; } return $rows; },
            'transaction' => function () use ($three) { Held::$db->beginTransaction(); Held::$db->exec('INSERT INTO money VALUES (1)'); return Held::$db->query($three)->fetchObject(Row::class); },
        ];
    }
    if (Held::$mysqli !== null) {
        $kinds += [
            'mysqli object' => fn () => Held::$mysqli->query($three, MYSQLI_USE_RESULT)->fetch_object(Row::class),
            'mysqli transaction' => function () use ($three) { Held::$mysqli->begin_transaction(); Held::$mysqli->query('INSERT INTO money VALUES (1)'); return Held::$mysqli->query($three)->fetch_object(Row::class); },
        ];
    }
    if (Held::$pg !== null) {
        $kinds += [
            'pg object' => fn () => pg_fetch_object(pg_query(Held::$pg, $three), null, Row::class),
            'pg transaction' => function () use ($three) { pg_query(Held::$pg, 'BEGIN'); pg_query(Held::$pg, 'INSERT INTO money VALUES (1)'); return pg_fetch_object(pg_query(Held::$pg, $three), null, Row::class); },
        ];
    }
    return $kinds;
}
function calls(): array
{
    if (Held::$db !== null) { return servers(); }
    $pdo = Held::$pdo;
    $sqlite = Held::$sqlite;
    $options = [CURLOPT_URL => 'file://' . DIR . '/page', CURLOPT_WRITEFUNCTION => function ($handle, $data) { Fiber::suspend(); return strlen($data); }];
    return [
        'pdo function' => fn () => $pdo->query('SELECT wait(a) FROM t')->fetchAll(PDO::FETCH_COLUMN),
        'pdo aggregate' => fn () => $pdo->query('SELECT total(a) FROM t')->fetchAll(PDO::FETCH_COLUMN),
        'pdo collation' => fn () => $pdo->query('SELECT a FROM t ORDER BY CAST(a AS TEXT) COLLATE waits')->fetchAll(PDO::FETCH_COLUMN),
        'pdo write' => function () use ($pdo) { $pdo->beginTransaction(); $pdo->exec('INSERT INTO t SELECT wait(a) FROM t WHERE a = 1'); $pdo->rollBack(); },
        'pdo fetch_func' => fn () => $pdo->query('SELECT a FROM t')->fetchAll(PDO::FETCH_FUNC, function ($a) { Fiber::suspend(); return $a; }),
        'pdo fetch_class' => fn () => $pdo->query('SELECT a FROM t')->fetchAll(PDO::FETCH_CLASS, Row::class),
        'pdo iterator' => function () use ($pdo) { foreach ($pdo->query('SELECT a FROM t', PDO::FETCH_CLASS, Row::class) as $row) { $rows[] = $row; } return $rows; },
        'sqlite function' => fn () => $sqlite->querySingle('SELECT wait(a) FROM t'),
        'sqlite aggregate' => fn () => $sqlite->querySingle('SELECT total(a) FROM t'),
        'sqlite collation' => fn () => $sqlite->query('SELECT a FROM t ORDER BY CAST(a AS TEXT) COLLATE waits')->fetchArray(),
        'sqlite write' => function () use ($sqlite) { $sqlite->exec('BEGIN'); $sqlite->exec('INSERT INTO t SELECT wait(a) FROM t WHERE a = 1'); $sqlite->exec('ROLLBACK'); },
        'sqlite prepared' => function () use ($sqlite) { $result = $sqlite->prepare('SELECT wait(a) FROM t')->execute(); while ($row = $result->fetchArray()) { $rows[] = $row[0]; } return $rows; },
        'curl' => function () use ($options) { curl_setopt_array(Held::$curl, $options); return curl_exec(Held::$curl); },
        'own curl' => function () use ($options) { $curl = curl_init(); curl_setopt_array($curl, $options); return curl_exec($curl); },
        'multi' => function () use ($options) {
            $curl = curl_init();
            curl_setopt_array($curl, $options);
            curl_multi_add_handle(Held::$multi, $curl);
            do { curl_multi_exec(Held::$multi, $running); } while ($running > 0);
            curl_multi_remove_handle(Held::$multi, $curl);
        },
        'filter read' => function () { $file = fopen(DIR . '/page', 'r'); stream_filter_append($file, 'waits', STREAM_FILTER_READ); return fread($file, 10); },
        'filter write' => function () { $file = fopen('php://memory', 'w+'); stream_filter_append($file, 'waits', STREAM_FILTER_WRITE); return fwrite($file, 'abc'); },
        'wrapper read' => fn () => stream_get_contents(fopen('waits://x', 'r')),
        'wrapper write' => fn () => fwrite(fopen('waits://x', 'w'), 'abc'),
        'wrapper in a call' => fn () => $pdo->query('SELECT a FROM t')->fetchAll(PDO::FETCH_FUNC, fn () => fread(fopen('waits://x', 'r'), 3)),
    ];
}
/** Runs one kind of call, so that it has the connection alone; all kinds if `$kind` is ''. */
function begin(string $kind): array
{
    if (!in_array('waits', stream_get_wrappers())) { stream_wrapper_register('waits', Wrapper::class); }
    @stream_filter_register('waits', Filter::class);
    $fibers = [];
    foreach (calls() as $name => $call) {
        if ($kind !== '' && $name !== $kind) { continue; }
        $fiber = new Fiber(function () use ($call) { return $call(); });
        $fiber->start();
        $fiber->isSuspended() || throw new LogicException("$name does not suspend itself");
        $fibers[] = $fiber;
    }
    return $fibers;
}
function usable(): array
{
    if (Held::$db !== null) {
        $counts = [(int) Held::$db->query('SELECT count(*) FROM money')->fetchAll(PDO::FETCH_COLUMN)[0], Held::$db->inTransaction()];
        if (Held::$mysqli !== null) { $counts[] = (int) Held::$mysqli->query('SELECT count(*) FROM money')->fetch_row()[0]; }
        if (Held::$pg !== null) { $counts[] = (int) pg_fetch_result(pg_query(Held::$pg, 'SELECT count(*) FROM money'), 0, 0); }
        return $counts;
    }
    curl_setopt_array(Held::$curl, [CURLOPT_URL => 'file://' . DIR . '/page', CURLOPT_WRITEFUNCTION => null, CURLOPT_RETURNTRANSFER => true]);
    return [(int) Held::$pdo->query('SELECT count(*) FROM t')->fetchColumn(), Held::$pdo->inTransaction(), Held::$sqlite->querySingle('SELECT count(*) FROM t'), strlen(curl_exec(Held::$curl))];
}
function count_calls(): int { return count(calls()); }
function leave_in_trace(string $n): void { $fibers = begin(name_of($n)); throw new Left; }
/** A bailout inside the fibers. */
function fatal_inside(string $n): void { foreach (begin(name_of($n)) as $fiber) { Held::$bomb = true; $fiber->resume(); } }
/** Two calls at a time, which end in the order in which they began. */
function crossed(): void
{
    foreach (array_chunk(array_merge(begin(''), begin('')), 2) as $pair) {
        foreach ($pair as $fiber) { try { while ($fiber->isSuspended()) { $fiber->resume(); } } catch (Exception) { } }
    }
    fclose(stream_socket_client('tcp://' . LISTENER));
}
