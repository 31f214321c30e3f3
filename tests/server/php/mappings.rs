//! Files that are truncated while PHP reads them: PHP maps none, and a file mapped by a library costs only the request, not
//! the server.

use std::path::{Path, PathBuf};

use svc_core::sync::counter::{Counter, Flag};

use svc_testing::tasks::{MODES, Mode, PLACES, TaskServer};
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
/**
 * Opens a file, truncates it, and continues to read it. Truncated files of this kind may be reported or read in part; `read` says
 * that the file was never mapped.
 */
function shortened(string $n, string $suffix, callable $make, callable $begin, callable $end): string
{
    $seen = [];
    foreach ([0, 1, 50, 99] as $percent) {
        $file = DIR . "/short$n.$percent$suffix";
        $make($file);
        $opened = $begin($file);
        $seen[] = str_contains(file_get_contents('/proc/self/maps'), basename($file)) ? 'mapped' : 'read';
        shorten($file, $percent);
        try { @$end($opened, $file); } catch (Exception | Error) { }
    }
    return implode(' ', array_unique($seen));
}
function shorten(string $file, int $percent): void { clearstatcache(); $opened = fopen($file, 'r+'); ftruncate($opened, intdiv(filesize($file) * $percent, 100)); }
function contents(): string { static $contents = random_bytes(1 << 20); return $contents; }
function from_phar(string $n): string { return from_archive($n, '.tar', Phar::NONE); }
function from_packed_phar(string $n): string { return from_archive($n, '.tar', Phar::GZ); }
function from_zipped_phar(string $n): string { return from_archive($n, '-phar.zip', Phar::NONE); }
function from_archive(string $n, string $suffix, int $compression): string
{
    $make = function (string $file) use ($compression) {
        $archive = new PharData($file);
        $archive['entry'] = contents();
        $archive['other'] = strrev(contents());
        if ($compression !== Phar::NONE) { $archive = $archive->compress($compression, 'gz'); unset($archive); rename(preg_replace('/\.tar$/', '.gz', $file), $file); }
    };
    $begin = function (string $file) { $entry = fopen("phar://$file/entry", 'r'); fread($entry, 8192); return $entry; };
    $end = function ($entry, string $file) { stream_get_contents($entry); file_get_contents("phar://$file/other"); foreach (new PharData($file) as $one) { $one->getContent(); } };
    return shortened($n, $suffix, $make, $begin, $end);
}
function from_zip(string $n): string
{
    $make = function (string $file) {
        $archive = new ZipArchive();
        $archive->open($file, ZipArchive::CREATE);
        foreach ([ZipArchive::CM_STORE, ZipArchive::CM_DEFLATE] as $method) { $archive->addFromString("entry$method", contents()); $archive->setCompressionName("entry$method", $method); }
        $archive->close();
    };
    $begin = function (string $file) {
        $archive = new ZipArchive();
        $archive->open($file);
        $entries = array_map($archive->getStream(...), ['entry' . ZipArchive::CM_STORE, 'entry' . ZipArchive::CM_DEFLATE]);
        array_walk($entries, fn ($entry) => fread($entry, 8192));
        return [$archive, $entries];
    };
    $end = function ($opened, string $file) { array_walk($opened[1], fn ($entry) => stream_get_contents($entry)); $opened[0]->getFromIndex(1); $opened[0]->close(); (new ZipArchive())->open($file); };
    return shortened($n, '.zip', $make, $begin, $end);
}
/** Kinds of files that fileinfo recognizes by a database of the test. */
function magic(string $file): void { file_put_contents($file, implode('', array_map(fn ($i) => "0 string MAGIC$i. kind $i of the test\n", range(1, 4000)))); }
function from_magic(string $n): string
{
    $end = function (finfo $opened, string $file) { $kind = $opened->buffer('MAGIC3999.'); $kind === 'kind 3999 of the test' || mark('unknown', $kind); new finfo(FILEINFO_NONE, $file); };
    return shortened($n, '.magic', magic(...), fn ($file) => new finfo(FILEINFO_NONE, $file), $end) . (marked('unknown') ? ' unknown' : '');
}
/** Truncates an image while GD reads it. */
class CutImage extends php_user_filter
{
    public function filter($in, $out, &$consumed, bool $closing): int
    {
        cut();
        while ($bucket = stream_bucket_make_writeable($in)) { $consumed += $bucket->datalen; stream_bucket_append($out, $bucket); }
        return PSFS_PASS_ON;
    }
}
/** An image that compression hardly shortens. */
function image(string $file, callable $write): void
{
    $image = imagecreatetruecolor(120, 120);
    for ($x = 0; $x < 120; $x++) { for ($y = 0; $y < 120; $y++) { imagesetpixel($image, $x, $y, mt_rand(0, 0xffffff)); } }
    $write($image, $file);
}
function from_image(string $n): string
{
    in_array('cut_image', stream_get_filters(), true) || stream_filter_register('cut_image', CutImage::class);
    $GLOBALS['mapped'] = false;
    foreach (['png', 'jpeg', 'gif', 'webp', 'bmp', 'wbmp', 'gd', 'gd2'] as $kind) {
        $read = "imagecreatefrom$kind";
        $GLOBALS['victim'] = DIR . "/image$n.$kind";
        image($GLOBALS['victim'], "image$kind");
        @$read("php://filter/read=cut_image/resource={$GLOBALS['victim']}");
        image($GLOBALS['victim'], "image$kind");
        foreach ([99, 50, 1, 0] as $percent) { shorten($GLOBALS['victim'], $percent); @$read($GLOBALS['victim']); @getimagesize($GLOBALS['victim']); }
    }
    return $GLOBALS['mapped'] ? 'mapped' : 'read';
}
/** Files that one request reads while another one writes and truncates them. */
function shared_files(): array
{
    return [
        'png' => [fn ($file) => image($file, imagepng(...)), imagecreatefrompng(...)],
        'magic' => [magic(...), fn ($file) => (new finfo(FILEINFO_NONE, $file))->buffer('MAGIC7.')],
        'zip' => [fn ($file) => array_map(fn ($archive) => [$archive->open($file, ZipArchive::CREATE | ZipArchive::OVERWRITE), $archive->addFromString('entry', contents()), $archive->close()], [new ZipArchive()]),
            fn ($file) => array_map(fn ($archive) => $archive->open($file, ZipArchive::RDONLY) === true && $archive->getFromName('entry'), [new ZipArchive()])[0]],
        'tar' => [fn ($file) => file_put_contents($file, (function () use ($file) { $own = tempnam(DIR, 'own') . '.tar'; $archive = new PharData($own); $archive['entry'] = contents(); return file_get_contents($own); })()),
            fn ($file) => (new PharData($file))['entry']->getContent()],
    ];
}
function rewrites(string $kind): int
{
    [$make] = shared_files()[$kind];
    for ($i = 0; $i < 8; $i++) {
        $make(DIR . "/new$i.$kind");
        $contents = file_get_contents(DIR . "/new$i.$kind");
        for ($j = 0; $j < 20; $j++) { file_put_contents(DIR . "/shared.$kind", $contents); shorten(DIR . "/shared.$kind", random_int(0, 99)); }
    }
    mark("rewritten.$kind");
    return $i;
}
function rereads(string $kind): int
{
    [, $read] = shared_files()[$kind];
    for ($i = 0; !marked("rewritten.$kind"); $i++) { try { @$read(DIR . "/shared.$kind"); } catch (Exception | Error) { } }
    return $i;
}
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

/// Libraries that read files.
const LIBRARIES: [&str; 6] =
    ["from_phar", "from_packed_phar", "from_zipped_phar", "from_zip", "from_magic", "from_image"];

#[test]
fn a_file_that_is_truncated_while_a_library_reads_it_is_never_mapped() {
    let server = TaskServer::new(CODE).directive("memory_limit=1G").set("PHP_WORKERS", "1");
    server.in_each_mode(|running| {
        for library in LIBRARIES {
            for place in PLACES {
                assert_eq!(running.tell(&format!("{library}{place}")), "\"read\"", "{library}{place}");
            }
        }
        assert_eq!(running.svc.get("/?do=fine&raw").text(), "fine");
    });
}

#[test]
fn files_that_other_requests_truncate_all_the_time_cost_nothing_but_an_error() {
    let server = TaskServer::new(CODE).directive("memory_limit=1G").set("PHP_WORKERS", "2");
    server.in_each_mode(|running| {
        for kind in ["png", "magic", "zip", "tar"] {
            let mut writes = running.send("rewrites", kind);
            let mut reads = running.send("rereads", kind);
            assert_eq!(writes.response().text(), "8", "{kind}");
            let response = reads.response();
            assert_eq!(response.status, 200, "{kind}: {}", response.text());
            running.unmark(&[&format!("rewritten.{kind}")]);
        }
    });
}

/// A file with functions, classes and constants, which OPcache keeps in its folder.
fn cached_code(index: usize) -> String {
    let methods: String = (0..200)
        .map(|n| format!("public static function m{n}(): array {{ return ['m', {n}, [{index}]]; }}\n"))
        .collect();
    format!("<?php final class Cached{index} {{ {methods} }} return ['cached', {index}];")
}

#[test]
fn files_of_opcache_that_are_truncated_are_compiled_again() {
    let code = r"
        function parts(string $n): array { $seen = []; for ($i = 0; $i < 4; $i++) { $seen[] = [...require_once DIR . '/part' . $i . '.php', ...('Cached' . $i)::m199()]; } return $seen; }
        function waits(string $n): array { $seen = parts($n); mark('inside'); until('go'); return [$seen === parts_again(), str_contains(file_get_contents('/proc/self/maps'), CACHE)]; }
        function parts_again(): array { return array_map(fn ($i) => ['cached', $i, ...('Cached' . $i)::m199()], range(0, 3)); }
    ";
    let parts = r#"[["cached",0,"m",199,[0]],["cached",1,"m",199,[1]],["cached",2,"m",199,[2]],["cached",3,"m",199,[3]]]"#;
    for shares_memory in ["opcache.file_cache_only=0", "opcache.file_cache_only=1"] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().display();
        let mut server = TaskServer::new(&format!("const CACHE = '{path}'; {code}"))
            .directive("opcache.file_update_protection=0")
            .directive(shares_memory)
            .directive(&format!("opcache.file_cache={path}"))
            .set("PHP_WORKERS", "2");
        for index in 0..4 {
            server = server.file(&format!("part{index}.php"), &cached_code(index));
        }
        let running = server.start(Mode::Classic);
        let mut inside = running.send("waits", "1");
        running.until("inside");
        for percent in [0, 1, 10, 50, 90, 99] {
            let files = stored(folder.path());
            assert!(files.len() >= 4, "{files:?}");
            for file in files {
                let file = std::fs::OpenOptions::new().write(true).open(file).unwrap();
                file.set_len(file.metadata().unwrap().len() * percent / 100).unwrap();
            }
            assert_eq!(running.tell("parts"), parts, "{shares_memory}, {percent} %");
        }
        running.mark("go");
        assert_eq!(inside.response().text(), "[true,false]", "{shares_memory}");
        // Truncated while they are loaded.
        let (done, cut) = (Flag::new(), Counter::new());
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !done.is_set() {
                    for file in stored(folder.path()) {
                        if let Ok(file) = std::fs::OpenOptions::new().write(true).open(file) {
                            let _ = file.set_len(cut.value() * 997 % 20000);
                            cut.incr();
                        }
                    }
                }
            });
            let mut outcomes = Vec::new();
            while outcomes.len() < 300 || (cut.value() <= 100 && outcomes.len() < 10_000) {
                outcomes.push(running.svc.get("/?do=parts&n=1"));
            }
            done.set();
            assert!(cut.value() > 100, "{shares_memory}: {}", cut.value());
            for response in outcomes {
                assert_eq!((response.status, response.text().as_str()), (200, parts), "{shares_memory}");
            }
        });
        assert_eq!(running.tell("parts"), parts, "{shares_memory}");
    }
}

/// Returns the files below a folder.
fn stored(folder: &Path) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(folder) else { return Vec::new() };
    let paths = entries.filter_map(|entry| Some(entry.ok()?.path()));
    paths.flat_map(|path| if path.is_dir() { stored(&path) } else { vec![path] }).collect()
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
