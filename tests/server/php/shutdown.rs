//! The end of a request inside PHP: a thread that does not reach it is replaced, and the last code of a script has a limit.

use serde_json::json;

use svc_testing::Svc;
use svc_testing::books::check_books;
use svc_testing::client::eventually;
use svc_testing::databases::{self, Database, PASSWORD, USER};
#[cfg(feature = "async")]
use svc_testing::tasks::{TaskServer, assert_like};

/// The loops of a persistent worker.
#[cfg(feature = "worker")]
const LOOPS: [(&str, &str); 2] = [
    ("serve", "Svc\\Worker::serve(handle(...));"),
    ("own loop", "while (frankenphp_handle_request(handle(...))) { }"),
];

/// Declares symbols, as every script does: on a thread that still has them, that is an error. The rows exceed the memory
/// limit.
const EXPORT: &str = r"
    function table(): array { return []; }
    final class Row { public array $columns = []; }
    enum Kind: string { case Large = 'x'; }
    const DECLARED = true;
";

fn export(database: &Database) -> String {
    let constants = json!({"USER": USER, "PASSWORD": PASSWORD, "NAME": database.name(), "SOCKET": database.socket(), "DSN": database.dsn()});
    let read = r#"
function read_rows(string $with): array
{
    $sql = "SELECT seq, repeat('x', 600000) FROM seq_1_to_40";
    mysqli_report(MYSQLI_REPORT_ERROR | MYSQLI_REPORT_STRICT);
    $rows = [];
    if ($with === 'pdo') {
        $db = new PDO(DSN, USER, PASSWORD, [PDO::MYSQL_ATTR_USE_BUFFERED_QUERY => false]);
        foreach ($db->query($sql) as $row) { $rows[] = $row; }
        return $rows;
    }
    $db = new mysqli($with === 'persistent' ? 'p:localhost' : 'localhost', USER, PASSWORD, NAME, 0, SOCKET);
    if ($with === 'prepared') {
        $statement = $db->prepare($sql);
        $statement->execute();
        $statement->bind_result($number, $text);
        while ($statement->fetch()) { $rows[] = [$number, $text]; }
        return $rows;
    }
    $result = $db->query($sql, MYSQLI_USE_RESULT);
    while ($row = $result->fetch_row()) { $rows[] = $row; }
    return $rows;
}
"#;
    format!(
        "foreach (json_decode('{constants}', true) as $name => $value) define($name, $value);\n{EXPORT}{read}"
    )
}

const ASKED: [&str; 4] = ["mysqli", "prepared", "persistent", "pdo"];

#[test]
fn an_export_that_does_not_fit_ends_its_request_only() {
    let Some(database) = databases::mariadb() else { return };
    let script = format!(
        "<?php\nini_set('memory_limit', '12M');\n{}\nif (isset($_GET['with'])) {{ read_rows($_GET['with']); }}\necho 'fine';",
        export(&database)
    );
    let svc = Svc::start(&[("index.php", &script)], &[("PHP_WORKERS", "1")]);
    assert_eq!(svc.get("/").text(), "fine");
    for (before, with) in ASKED.into_iter().enumerate() {
        let spawned = svc.metric("svc_workers_spawned_total");
        assert_eq!(svc.get(&format!("/?with={with}")).status, 500, "{with}");
        for _ in 0..3 {
            let response = svc.get("/");
            assert_eq!((response.status, response.text().as_str()), (200, "fine"), "after {with}");
        }
        svc.assert_metric("svc_workers_spawned_total", spawned + 1.0);
        let asked = 1.0 + 4.0 * (before as f64 + 1.0);
        svc.assert_metric("svc_php_request_duration_seconds_count", asked);
    }
    assert_eq!(svc.metric("svc_workers_current"), 1.0);
    svc.assert_metric(r#"svc_responses_by_status_total{status="5xx"}"#, ASKED.len() as f64);
}

#[cfg(feature = "worker")]
#[test]
fn a_worker_whose_export_does_not_fit_is_replaced() {
    let Some(database) = databases::mariadb() else { return };
    for (name, serve) in LOOPS {
        let script = format!(
            "<?php\nini_set('memory_limit', '12M');\n{}\nfunction handle() {{ if (isset($_GET['with'])) {{ read_rows($_GET['with']); }} echo 'fine'; }}\n{serve}",
            export(&database)
        );
        let settings = [("PHP_WORKERS", "1"), ("WORKER_MODE_ENABLED", "true"), ("ENTRY_FILE", "worker.php")];
        let svc = Svc::start(&[("worker.php", &script)], &settings);
        for with in ASKED {
            let spawned = svc.metric("svc_workers_spawned_total");
            assert_eq!(svc.get(&format!("/?with={with}")).status, 500, "{name}, {with}");
            assert_eq!(svc.get("/").text(), "fine", "{name}, after {with}");
            svc.assert_metric("svc_workers_spawned_total", spawned + 1.0);
        }
        check_books(&svc);
    }
}

/// Functions for tasks, one of which is declared by the first task of a thread.
#[cfg(feature = "async")]
const IN_TASKS: &str = r"
    function exports(string $with): int { return count(read_rows($with)); }
    function export_in_task(string $n): array { return Svc\async(exports(...), $_GET['with'])->await(); }
    function late(): string { $has = function_exists('late_one'); require_once DIR . '/late.php'; return ($has ? 'had ' : 'new ') . late_one() . ' ' . Kind::Large->value . ' ' . count(table()); }
    function late_in_task(): string { return Svc\async(late(...))->await(); }
";

#[cfg(feature = "async")]
#[test]
fn the_thread_of_a_task_whose_export_does_not_fit_is_replaced() {
    let Some(database) = databases::mariadb() else { return };
    let server = TaskServer::new(&(export(&database) + IN_TASKS))
        .file("late.php", "<?php function late_one(): string { return 'late'; }")
        .entry("mark('boots');")
        .directive("memory_limit=12M")
        .set("PHP_WORKERS", "1")
        .set("ASYNC_WORKERS", "1");
    server.in_each_mode(|server| {
        assert_eq!(server.tell("late_in_task"), "\"new late x 0\"");
        for with in ASKED {
            let boots = server.lines("boots").len();
            let outcome = server.tell(&format!("export_in_task&with={with}"));
            assert_like(&outcome, "Svc\\Async\\TaskException: Allowed memory size of *");
            // The new thread declares all functions and classes again.
            for expected in ["new", "had", "had"] {
                assert_eq!(server.tell("late_in_task"), format!("\"{expected} late x 0\""), "after {with}");
            }
            assert_eq!(server.lines("boots").len(), boots + 1, "{with}");
        }
    });
}

/// Streams whose last code never ends.
const ENDLESS: &str = r"
final class Endless
{
    public $context;
    public function stream_open(): bool { return true; }
    public function stream_write(string $data): int { return strlen($data); }
    public function stream_read(): string { return ''; }
    public function stream_eof(): bool { return true; }
    public function stream_close(): void { for (;;) { } }
}
final class EndlessFilter extends php_user_filter
{
    public function filter($in, $out, &$consumed, bool $closing): int { return PSFS_PASS_ON; }
    public function onClose(): void { for (;;) { } }
}
/** Refers to itself and to an object, so that both exist until the end. */
final class Round { public self $self; public function __construct(public mixed $held) { $this->self = $this; } }
function opened(string $how): mixed
{
    if ($how === 'wrapper') {
        in_array('endless', stream_get_wrappers(), true) || stream_wrapper_register('endless', Endless::class);
        return fopen('endless://x', 'r+');
    }
    in_array('endless', stream_get_filters(), true) || stream_filter_register('endless', EndlessFilter::class);
    $stream = fopen($how === 'body' ? 'php://input' : 'php://temp', 'r');
    stream_filter_append($stream, 'endless', STREAM_FILTER_READ);
    return $stream;
}
";

/// The time limit of the scripts.
const LIMIT: &str = "max_execution_time=1";

#[test]
fn the_last_code_of_a_script_has_a_limit() {
    let script = format!(
        "<?php {ENDLESS} if (isset($_GET['how'])) {{ new Round(array_map(opened(...), explode(',', $_GET['how']))); }} echo 'fine';"
    );
    let svc = Svc::start_with(&[("index.php", &script)], &[("PHP_WORKERS", "1")], &[LIMIT]);
    for how in ["wrapper", "filter", "body", "wrapper,filter,body,wrapper"] {
        let response = svc.get(&format!("/?how={how}"));
        assert_eq!(response.status, 504, "{how}: {}", response.text());
        assert_eq!(svc.get("/").text(), "fine", "after {how}");
    }
    assert_eq!(svc.metric("svc_workers_spawned_total"), 1.0, "PHP has come to its end");
    check_books(&svc);
}

#[cfg(feature = "worker")]
#[test]
fn the_last_code_of_a_worker_has_a_limit() {
    for (name, serve) in LOOPS {
        for how in ["wrapper", "filter", "body"] {
            let script = format!(
                "<?php {ENDLESS} function handle() {{ static $kept; isset($_GET['how']) && $kept = opened($_GET['how']); echo 'fine'; }} {serve}"
            );
            let settings =
                [("PHP_WORKERS", "1"), ("WORKER_MODE_ENABLED", "true"), ("ENTRY_FILE", "worker.php")];
            let mut svc = Svc::start_with(&[("worker.php", &script)], &settings, &[LIMIT]);
            assert_eq!(svc.get(&format!("/?how={how}")).text(), "fine", "{name}, {how}");
            eventually("the thread is free", || svc.metric("svc_busy_workers") == 0.0);
            assert_eq!(svc.get("/").text(), "fine", "{name}, after {how}");
            check_books(&svc);
            svc.stop();
        }
    }
}

#[cfg(feature = "worker")]
#[test]
fn code_of_a_worker_script_after_its_requests_has_a_limit() {
    for (name, serve) in LOOPS {
        let script = format!("<?php function handle() {{ echo 'fine'; }} {serve} for (;;) {{ }}");
        let settings = [("PHP_WORKERS", "1"), ("WORKER_MODE_ENABLED", "true"), ("ENTRY_FILE", "worker.php")];
        let mut svc = Svc::start_with(&[("worker.php", &script)], &settings, &[LIMIT]);
        assert_eq!(svc.get("/").text(), "fine", "{name}");
        svc.stop();
        svc.log().expect("Maximum execution time of 1 second exceeded");
    }
}

#[cfg(feature = "async")]
#[test]
fn closing_streams_at_the_end_of_a_task_thread_has_a_limit() {
    let root = tempfile::tempdir().unwrap();
    let entry = root.path().join("entry.inc").display().to_string();
    std::fs::write(&entry, format!("<?php {ENDLESS} $kept = [opened('wrapper'), opened('filter')];"))
        .unwrap();
    let script = r"<?php echo Svc\async(static fn () => 'fine')->await();";
    std::fs::write(root.path().join("index.php"), script).unwrap();
    let mut svc = Svc::launch(root, &[("ASYNC_WORKERS", "1"), ("ASYNC_ENTRY_FILE", &entry)], &[LIMIT]);
    assert_eq!(svc.get("/").text(), "fine");
    svc.stop();
    svc.log().expect("Maximum execution time of 1 second exceeded");
}

/// Code that PHP would run after the extensions have ended the request: each call uses, or changes, what an extension frees
/// or resets at that point.
const LAST: &str = r#"
final class Last
{
    public static ?Closure $code = null;
    public static array $held = [];
    public static function run(): void
    {
        $code = self::$code;
        self::$code = null;
        if ($code !== null) { $code(); }
    }
}
final class LastFilter extends php_user_filter
{
    public function filter($in, $out, &$consumed, bool $closing): int { return PSFS_PASS_ON; }
    public function onClose(): void { Last::run(); }
}
final class LastWrapper
{
    public $context;
    public function stream_open(): bool { return true; }
    public function stream_close(): void { Last::run(); }
}
final class LastSession implements SessionHandlerInterface
{
    public function open(string $path, string $name): bool { return true; }
    public function close(): bool { return true; }
    public function read(string $id): string { return ''; }
    public function write(string $id, string $data): bool { Last::run(); return true; }
    public function destroy(string $id): bool { return true; }
    public function gc(int $age): int { return 1; }
}
function filtered(): mixed
{
    $file = tmpfile();
    stream_filter_append($file, 'last');
    return $file;
}
function state(): string
{
    return json_encode([umask(), getcwd(), date_default_timezone_get(), setlocale(LC_ALL, 0), stream_get_wrappers(), stream_get_filters(),
        getenv('LAST'), function_exists('mb_regex_encoding') ? mb_regex_encoding() : '', spl_autoload_functions()]);
}
$codes = [
    'context' => fn () => @file_get_contents('http://127.0.0.1:1/'),
    'wrapper' => function () { stream_wrapper_register('late', LastWrapper::class); Last::$held[] = fopen('late://', 'r'); },
    'filter' => function () { Last::$held[] = filtered(); Last::$code = fn () => Last::$held[] = filtered(); },
    'zone' => function () { date_default_timezone_set('Asia/Tokyo'); new DateTime('now', new DateTimeZone('Europe/Rome')); },
    'locale' => fn () => setlocale(LC_ALL, 'C.UTF-8'),
    'tick' => fn () => register_tick_function('phpversion'),
    'environment' => fn () => putenv('LAST=1'),
    'process' => function () { umask(0077); chdir('/'); },
    'text' => fn () => function_exists('mb_regex_encoding') && mb_regex_encoding('SJIS'),
    'archive' => function () { $path = tempnam(sys_get_temp_dir(), 'last') . '.tar'; $archive = new PharData($path); $archive['a'] = 'b'; file_get_contents("phar://$path/a"); unlink($path); },
    'tls' => fn () => @stream_socket_client('tls://127.0.0.1:1'),
    'handlers' => function () { set_error_handler(fn () => true); echo $unknown; spl_autoload_register(fn () => null); },
    'exception' => fn () => throw new Exception('late'),
    'exit' => fn () => exit(1),
];
if (!isset($_GET['code'])) { echo isset($_GET['state']) ? state() : implode(' ', array_keys($codes)); return; }
stream_filter_register('last', LastFilter::class);
stream_wrapper_register('last', LastWrapper::class);
Last::$code = $codes[$_GET['code']];
switch ($_GET['where']) {
    case 'filter': Last::$held[] = filtered(); break;
    case 'wrapper': Last::$held[] = fopen('last://', 'r'); break;
    case 'session': session_set_save_handler(new LastSession(), false); session_start(); $_SESSION['a'] = 1; break;
    case 'header': header_register_callback(Last::run(...)); return;
}
@file_get_contents('http://127.0.0.1:1/');
echo 'done';
"#;

#[test]
fn the_last_code_of_a_script_runs_before_extensions_end_the_request() {
    let svc = Svc::start(&[("index.php", &format!("<?php {LAST}"))], &[("PHP_WORKERS", "1")]);
    let state = svc.get("/?state=1").text();
    let codes = svc.get("/").text();
    for at in ["filter", "wrapper", "session", "header"] {
        for code in codes.split(' ') {
            let response = svc.get(&format!("/?code={code}&where={at}"));
            let expected = if code == "exception" { 500 } else { 200 };
            assert_eq!(response.status, expected, "{code} in {at}: {}", response.text());
            for _ in 0..2 {
                assert_eq!(svc.get("/?state=1").text(), state, "after {code} in {at}");
            }
        }
    }
}

/// Closing a stream opens another one, in a list of resources with gaps: PHP closes the gaps before it makes room.
const REOPENED: &str = r#"<?php
final class Next extends php_user_filter
{
    public static array $held = [];
    private static int $left = 8;
    public function filter($in, $out, &$consumed, bool $closing): int { return PSFS_PASS_ON; }
    public function onClose(): void { self::$left-- > 0 && self::open(); }
    public static function open(): void { $gap = stream_context_create(); stream_filter_append(self::$held[] = tmpfile(), 'next'); }
}
stream_filter_register('next', Next::class);
for ($held = [], $n = 0; $n < (int) $_GET['gaps']; $n++) { $held[] = tmpfile(); }
Next::open();
$held = [];
echo 'done';
"#;

#[test]
fn streams_that_are_opened_at_the_end_are_closed_before_extensions_end() {
    let svc = Svc::start(&[("index.php", REOPENED)], &[("PHP_WORKERS", "1")]);
    for gaps in 0..24 {
        assert_eq!(svc.get(&format!("/?gaps={gaps}")).text(), "done", "{gaps}");
    }
    check_books(&svc);
}

/// Closing a stream opens another one.
const NEVER_CLOSED: &str = r#"<?php
final class Again extends php_user_filter
{
    public static array $held = [];
    public function filter($in, $out, &$consumed, bool $closing): int { return PSFS_PASS_ON; }
    public function onClose(): void { self::open(); }
    public static function open(): void { stream_filter_append(self::$held[] = tmpfile(), 'again', STREAM_FILTER_READ); usleep(1000); }
}
if (!isset($_GET['again'])) { echo 'fine'; return; }
stream_filter_register('again', Again::class);
set_time_limit(1);
Again::open();
echo 'done';
"#;

#[test]
fn streams_that_are_opened_again_whenever_they_are_closed_end_with_their_request() {
    let svc = Svc::start(
        &[("index.php", NEVER_CLOSED)],
        &[("PHP_WORKERS", "1"), ("QUEUE_WAIT_TIMEOUT_MS", "60000")],
    );
    assert_eq!(svc.get("/?again=1").status, 504);
    eventually("its thread is free again", || svc.get("/").text() == "fine");
    check_books(&svc);
}
