//! Files that are truncated while PHP reads them: PHP maps none, and a file mapped by a library costs only the request, not
//! the server.

use svc_testing::tasks::{MODES, PLACES, TaskServer};
use svc_testing::{Svc, c};

/// Each way to read a file that PHP would map as a whole. The file is truncated, and its mappings are inspected, while it
/// is read: by an output callback, or by the stream that it is copied to.
const CODE: &str = r#"
function cut(): void
{
    $GLOBALS['mapped'] = ($GLOBALS['mapped'] ?? false) || str_contains(file_get_contents('/proc/self/maps'), basename($GLOBALS['victim']));
    file_put_contents($GLOBALS['victim'], '');
}
class Cutter
{
    public $context;
    public function stream_open(): bool { return true; }
    public function stream_write(string $data): int { cut(); return strlen($data); }
    public function stream_close(): void { }
    public function stream_flush(): bool { return true; }
    public function stream_stat(): array { return []; }
    public function url_stat(): array|false { return false; }
}
function cutting(string $n, callable $read): string
{
    $GLOBALS['victim'] = DIR . '/victim' . $n;
    $GLOBALS['mapped'] = false;
    file_put_contents($GLOBALS['victim'], str_repeat('x', 9 << 20));
    in_array('cut', stream_get_wrappers(), true) || stream_wrapper_register('cut', Cutter::class);
    ob_start(function (string $text): string { cut(); return ''; }, 1);
    $read($GLOBALS['victim']);
    ob_end_clean();
    return $GLOBALS['mapped'] ? 'mapped' : 'read';
}
function by_readfile(string $n): string { return cutting($n, fn ($file) => readfile($file)); }
function by_passthru(string $n): string { return cutting($n, fn ($file) => fpassthru(fopen($file, 'r'))); }
function by_object(string $n): string { return cutting($n, fn ($file) => (new SplFileObject($file))->fpassthru()); }
function by_copy(string $n): string { return cutting($n, fn ($file) => copy($file, 'cut://x')); }
function by_streams(string $n): string { return cutting($n, fn ($file) => stream_copy_to_stream(fopen($file, 'r'), fopen('cut://x', 'w'))); }
function by_put(string $n): string { return cutting($n, fn ($file) => file_put_contents('cut://x', fopen($file, 'r'))); }
function by_temporary(string $n): string
{
    return cutting($n, function ($file) {
        $temporary = fopen('php://temp/maxmemory:1', 'w+');
        fwrite($temporary, str_repeat('x', 100000));
        rewind($temporary);
        stream_copy_to_stream($temporary, fopen('cut://x', 'w'));
    });
}
function by_sqlite(string $n): array
{
    $seen = [];
    $GLOBALS['victim'] = DIR . '/base' . $n;
    foreach ([PDO::class, SQLite3::class] as $class) {
        @unlink($GLOBALS['victim']);
        $base = $class === PDO::class ? new PDO('sqlite:' . $GLOBALS['victim']) : new SQLite3($GLOBALS['victim']);
        foreach (['PRAGMA mmap_size=268435456', 'CREATE TABLE t (a)', 'BEGIN'] as $statement) { $base->query($statement); }
        for ($i = 0; $i < 2000; $i++) { $base->exec(sprintf("INSERT INTO t VALUES ('%s')", str_repeat('y', 200))); }
        $base->exec('COMMIT');
        $rows = $base->query('SELECT * FROM t');
        $row = $class === PDO::class ? $rows->fetch(PDO::FETCH_NUM) : $rows->fetchArray(SQLITE3_NUM);
        $seen[] = [strlen($row[0]), str_contains(file_get_contents('/proc/self/maps'), basename($GLOBALS['victim']))];
        $rows = $row = null;
    }
    return $seen;
}
/** A write-ahead log whose index is truncated: SQLite shares the index by mapping it. */
function index(string $n): string
{
    static $base;
    $file = DIR . '/log.sqlite';
    if ($base === null) {
        $base = new PDO('sqlite:' . $file);
        $base->exec('PRAGMA journal_mode=WAL');
        $base->exec('CREATE TABLE IF NOT EXISTS t (a)');
    }
    $base->exec('INSERT INTO t VALUES (1)');
    isset($_GET['cut']) && file_put_contents($file . '-shm', '');
    $base->exec('INSERT INTO t VALUES (2)');
    return $base->query('SELECT count(*), sum(a) FROM t')->fetch(PDO::FETCH_ASSOC)['sum(a)'];
}
function whole(string $n): string { return (new PDO('sqlite:' . DIR . '/log.sqlite'))->query('PRAGMA integrity_check')->fetchColumn(); }
function lost(string $n): void { $file = DIR . '/lost' . $n; file_put_contents($file, str_repeat('z', 20000)); echo test_lost($file, $_GET['shared'] === '1'); }
function lost_in_task(string $n): string { $file = DIR . '/lost' . $n; file_put_contents($file, str_repeat('z', 20000)); return tried(fn () => Svc\async(test_lost(...), $file, false)->await()); }
function fine(string $n): void { echo 'fine'; }
"#;

const WAYS: [&str; 7] =
    ["by_readfile", "by_passthru", "by_object", "by_copy", "by_streams", "by_put", "by_temporary"];

#[test]
fn a_plain_file_is_read_and_never_mapped() {
    let server = TaskServer::new(CODE).set("PHP_WORKERS", "1");
    server.in_each_mode(|running| {
        for way in WAYS {
            for place in PLACES {
                assert_eq!(running.tell(&format!("{way}{place}")), "\"read\"", "{way}{place}");
            }
        }
        assert_eq!(running.tell("by_sqlite"), "[[200,false],[200,false]]");
    });
}

#[test]
fn a_large_file_is_sent_whole() {
    let text: String = (0..3_000_000).map(|i| char::from(b'a' + (i % 23) as u8)).collect();
    let files = [("large.txt", text.as_str()), ("send.php", "<?php readfile('large.txt', false);")];
    let svc = Svc::start(&files, &[]);
    assert!(svc.get("/send.php").text() == text);
}

#[test]
fn a_page_lost_by_a_library_ends_its_request() {
    let folder = tempfile::tempdir().unwrap();
    let library = folder.path().join("processes.so");
    c::extension(include_str!("../../php/processes.c"), &library);
    let server = TaskServer::new(CODE).directive(&format!("extension={}", library.display()));
    for mode in MODES {
        let running = server.clone().set("PHP_WORKERS", "1").start(mode);
        for (shared, size) in [("0", "0"), ("1", "20480")] {
            let response = running.svc.get(&format!("/?do=lost&raw&n={shared}&shared={shared}"));
            assert_eq!(response.status, 500, "{mode:?}: {}", response.text());
            let left = std::fs::metadata(running.path(&format!("lost{shared}"))).unwrap().len();
            assert_eq!(left.to_string(), size, "{mode:?}");
            assert_eq!(running.svc.get("/?do=fine&raw").text(), "fine");
        }
        if cfg!(feature = "async") {
            let text = running.tell("lost_in_task");
            assert!(
                text.contains("A file was truncated while a library had it mapped into memory"),
                "{text}"
            );
        }
        assert_eq!(running.svc.get("/?do=fine&raw").text(), "fine");
    }
}

#[test]
fn a_database_survives_the_loss_of_its_index() {
    let server = TaskServer::new(CODE).set("PHP_WORKERS", "1");
    for mode in MODES {
        let running = server.start(mode);
        assert_eq!(running.tell("index"), "\"3\"", "{mode:?}");
        let response = running.svc.get("/?do=index&cut");
        assert!([200, 500].contains(&response.status), "{mode:?}: {}", response.text());
        assert_eq!(running.tell("whole"), "\"ok\"", "{mode:?}");
        // Both rows of each request; of the ended request, only the first row or both.
        let sum: i64 = running.tell("index").trim_matches('"').parse().unwrap();
        assert!([7, 9].contains(&sum), "{mode:?}: {sum}");
    }
}
