//! Libraries that would end the process, block a thread, or keep the settings of one request for all.

use std::process::Stdio;

use svc_testing::client::eventually;
use svc_testing::tasks::{PLACES, TaskServer};
use svc_testing::{Svc, command, written};

/// Numbers that are too large for libgmp, for the machine, or for `memory_limit`.
const NUMBERS: &str = r"
function operations(): array
{
    return [
        'power' => fn () => gmp_pow(3, PHP_INT_MAX),
        'power of two' => fn () => gmp_pow(2, 1 << 40),
        'limit' => fn () => gmp_pow(2, 1 << 33),
        'overflow' => fn () => gmp_init(1) << PHP_INT_MAX,
        'shift' => fn () => gmp_init(1) << (1 << 42),
        'fiber' => fn () => (new Fiber(fn () => gmp_pow(3, PHP_INT_MAX)))->start(),
        'callback' => fn () => array_map(fn ($n) => gmp_pow($n, PHP_INT_MAX), [3]),
    ];
}
function names(string $n): string { return implode('|', array_keys(operations())); }
function small(string $n): string { return gmp_strval(gmp_pow(2, 1 << 10)) === gmp_strval(gmp_init(1) << (1 << 10)) ? 'equal' : 'different'; }
function compute(string $n): void
{
    register_shutdown_function(function () use ($n) { mark('last', $n . ' ' . (error_get_last()['message'] ?? 'none')); });
    operations()[strtr($n, '-', ' ')]();
}
";

#[test]
fn a_number_that_is_too_large_for_libgmp_is_a_fatal_error() {
    let server = TaskServer::new(NUMBERS).set("PHP_WORKERS", "1").directive("memory_limit=128M");
    server.in_each_mode(|running| {
        let names = running.tell("names");
        for name in names.trim_matches('"').split('|') {
            for place in PLACES {
                let response = running.send(&format!("compute{place}"), &name.replace(' ', "-")).response();
                let is_of_task = place == "&task" && response.text().contains("libgmp");
                assert!(response.status == 500 || is_of_task, "{name}{place}: {response:?}");
                eventually("the server goes on", || running.tell(&format!("small{place}")) == "\"equal\"");
            }
        }
        let last = running.lines("last");
        assert!(
            last.len() >= names.split('|').count() && last.iter().all(|line| line.contains("libgmp")),
            "{last:?}"
        );
    });
}

/// Documents that name a catalog, which a stream wrapper of the script serves.
const CATALOGS: &str = r#"
class Catalogs
{
    public $context;
    public function stream_open(string $path): bool { mark('opened', $path); str_repeat('x', PHP_INT_MAX >> 4); return true; }
    public function stream_read(): string { return ''; }
    public function stream_eof(): bool { return true; }
    public function stream_stat(): array { return []; }
    public function url_stat(): array { return []; }
}
function load(string $name): string
{
    in_array('catalogs', stream_get_wrappers()) || stream_wrapper_register('catalogs', 'Catalogs');
    $document = new DOMDocument;
    @$document->loadXML("<?xml version='1.0'?><?oasis-xml-catalog catalog='catalogs://$name'?><!DOCTYPE r SYSTEM '$name.dtd'><r/>", LIBXML_DTDLOAD);
    return $document->documentElement->nodeName;
}
"#;

#[test]
fn catalogs_that_documents_name_are_ignored() {
    TaskServer::new(CATALOGS).directive("memory_limit=64M").in_each_mode(|running| {
        for place in PLACES {
            // With the lock of libxml2's catalogs left locked, the second document on another thread would wait for good.
            for number in 0..8 {
                let response = running.send(&format!("load{place}"), &format!("c{number}")).response();
                assert_eq!((response.status, &*response.text()), (200, "\"r\""), "{number}{place}");
            }
        }
        assert_eq!(running.lines("opened"), [""; 0]);
    });
}

/// Callbacks of `mb_ereg_replace_callback()` that compile its pattern again, with other options or in another encoding.
const PATTERNS: &str = r"
function compile(int $n): void
{
    mb_ereg_replace('a(b)', 'x', 'ab', $n % 2 ? 'i' : 'x');
    $before = mb_regex_encoding();
    mb_regex_encoding($n % 3 ? 'EUC-JP' : 'UTF-8');
    mb_ereg('a(b)', 'ab');
    mb_regex_encoding($before);
    for ($i = 0; $i < 8; $i++) { mb_ereg('(c' . $n . ')' . str_repeat('(d)', $i), 'cd'); }
}
function replace(?Closure $then = null): string
{
    $n = 0;
    return mb_ereg_replace_callback('a(b)', function () use (&$n, $then) {
        compile(++$n);
        if ($n === 50 && $then) { $then(); }
        return 'y';
    }, str_repeat('ab ', 100));
}
function in_fiber(Closure $begin): string
{
    $fiber = new Fiber(fn () => replace(fn () => Fiber::suspend()));
    $fiber->start();
    compile(0);
    return $begin($fiber);
}
function operations(): array
{
    return [
        'return' => fn () => replace(),
        'nested' => fn () => replace(fn () => replace()),
        'wait' => fn () => replace(fn () => nap()),
        'throw' => function () { try { replace(fn () => throw new Exception()); } catch (Exception) { return replace(); } },
        'resumed' => fn () => in_fiber(function ($fiber) { $fiber->resume(); return $fiber->getReturn(); }),
        'dropped' => fn () => in_fiber(function ($fiber) { unset($fiber); return replace(); }),
        'left' => fn () => in_fiber(function ($fiber) { $GLOBALS['left'] = $fiber; return replace(); }),
        'memory' => fn () => replace(fn () => str_repeat('x', PHP_INT_MAX >> 4)),
        'limit' => fn () => replace(function () { set_time_limit(1); for (;;); }),
        'fatal beside a fiber' => fn () => in_fiber(fn () => str_repeat('x', PHP_INT_MAX >> 4)),
        'exit' => fn () => replace(fn () => exit),
    ];
}
function names(string $n): string { return implode('|', array_keys(operations())); }
function replaces(string $n): string { return operations()[strtr($n, '-', ' ')]() === str_repeat('y ', 100) ? 'whole' : 'torn'; }
";

#[test]
fn a_pattern_lives_as_long_as_the_call_whose_callback_compiles_it_again() {
    let server = TaskServer::new(PATTERNS).set("PHP_WORKERS", "1").directive("memory_limit=128M");
    server.in_each_mode(|running| {
        let names = running.tell("names");
        for name in names.trim_matches('"').split('|') {
            for place in PLACES {
                let response = running.send(&format!("replaces{place}"), &name.replace(' ', "-")).response();
                let ends = ["memory", "limit", "fatal beside a fiber", "exit"].contains(&name);
                assert!(ends || response.text() == "\"whole\"", "{name}{place}: {response:?}");
                let next = format!("replaces{place}");
                eventually("the server goes on", || {
                    running.send(&next, "return").response().text() == "\"whole\""
                });
            }
        }
    });
}

#[test]
fn standard_input_is_empty() {
    let root = written(&[(
        "index.php",
        "<?php echo strlen(file_get_contents('php://stdin')), ' ', strlen((string) shell_exec('cat'));",
    )]);
    let mut command = command(root.path(), &[("PHP_WORKERS", "1")]);
    command.stdin(Stdio::piped());
    let svc = Svc::spawn(root, command);
    assert_eq!(svc.get("/").text(), "0 0");
}

#[test]
fn the_time_limit_ends_waits_that_php_begins_again() {
    const CODE: &str = r"
function sleeps(string $n): void { time_sleep_until(microtime(true) + 600); }
function holds(string $n): void { sem_acquire($semaphore = sem_get(ftok(DIR, 's'))); mark('held'); set_time_limit(60); until('go'); sem_release($semaphore); sem_remove($semaphore); }
function waits(string $n): void { sem_acquire(sem_get(ftok(DIR, 's'))); }
function serves(string $n): string { return 'served'; }
";
    let server = TaskServer::new(CODE).set("PHP_WORKERS", "2").directive("max_execution_time=1");
    let running = server.start(svc_testing::tasks::Mode::Classic);
    let mut holder = running.send("holds", "");
    running.until("held");
    for wait in ["sleeps", "waits"] {
        assert_eq!(running.send(wait, "").response().status, 504, "{wait}");
        assert_eq!(running.tell("serves"), "\"served\"", "{wait}");
    }
    running.mark("go");
    assert_eq!(holder.response().status, 200);
}

#[test]
fn libraries_that_read_the_environment_once_read_that_of_the_server() {
    const CODE: &str = r#"<?php
if (isset($_GET['set'])) {
    putenv('LDAPTLS_REQCERT=never');
    putenv('TZ=Asia/Tokyo');
}
ldap_get_option(ldap_connect('ldap://127.0.0.1:1'), LDAP_OPT_X_TLS_REQUIRE_CERT, $checks);
echo $checks === LDAP_OPT_X_TLS_NEVER ? 'never' : 'checked', ' ', IntlTimeZone::createDefault()->getID(), ' ', getenv('TZ') ?: 'none';
"#;
    let svc = Svc::start_with(&[("index.php", CODE)], &[("PHP_WORKERS", "2"), ("TZ", "Europe/Paris")], &[]);
    assert_eq!(svc.get("/?set").text(), "checked Europe/Paris Asia/Tokyo");
    assert_eq!(svc.get("/").text(), "checked Europe/Paris Europe/Paris");
}

#[test]
fn relative_paths_of_libraries_begin_in_the_directory_of_the_request() {
    const CODE: &str = r#"
function attach(string $name): bool
{
    (new PDO('sqlite::memory:'))->exec("ATTACH '$name' AS other; CREATE TABLE other.rows (n)");
    return file_exists(getcwd() . "/$name");
}
function enters(string $n): array
{
    mkdir(DIR . "/first-$n");
    chdir(DIR . "/first-$n");
    $before = attach('before.db');
    mark('entered');
    until('go');
    return [$before, attach('after.db'), getcwd() === DIR . "/first-$n"];
}
function others(string $n): array
{
    $start = [getcwd() === DIR . '/public', attach("start-$n.db")];
    mkdir(DIR . "/other-$n");
    chdir(DIR . "/other-$n");
    return [...$start, attach('other.db')];
}
"#;
    TaskServer::new(CODE).set("PHP_WORKERS", "1").in_each_mode(|running| {
        let is_alone = running.svc.ask("/config").text().contains("\"worker_mode_enabled\":false");
        for place in PLACES {
            running.unmark(&["entered", "go"]);
            let mut first = running.send(&format!("enters{place}"), &format!("1{}", place.len()));
            running.until("entered");
            if !is_alone {
                assert_eq!(running.tell("others"), "[true,true,true]");
            }
            running.mark("go");
            assert_eq!(first.response().text(), "[true,true,true]", "{place}");
            assert_eq!(running.tell("others"), "[true,true,true]", "afterwards");
        }
    });
}
