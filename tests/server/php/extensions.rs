//! The extensions of the PHP that scripts/php-zts.sh builds, on several threads at a time.

use std::thread;

use serde_json::Value;

use svc_testing::skip::skipped;
use svc_testing::{IS_WORKER, Svc};

/// Uses an extension of each library, and of each kind of state in PHP's own sources.
const PROGRAM: &str = r#"<?php
function uses(int $n): array
{
    putenv("LANGUAGE=en");
    $xml = new DOMDocument;
    $xml->loadXML("<a><b>$n</b></a>");
    $sheet = new DOMDocument;
    $sheet->loadXML('<s:stylesheet version="1.0" xmlns:s="http://www.w3.org/1999/XSL/Transform"><s:output method="text"/><s:template match="/"><s:value-of select="a/b"/></s:template></s:stylesheet>');
    $processor = new XSLTProcessor;
    $processor->importStylesheet($sheet);
    $key = ftok(__FILE__, 'a');
    $semaphore = sem_get($key, 1);
    sem_acquire($semaphore);
    $memory = shm_attach($key, 10000);
    $before = shm_has_var($memory, 1) ? shm_get_var($memory, 1) : 0;
    shm_put_var($memory, 1, $before + 1);
    sem_release($semaphore);
    $soap = new SoapServer(null, ['uri' => 'urn:test']);
    $soap->addFunction('twice');
    ob_start();
    $soap->handle('<e:Envelope xmlns:e="http://schemas.xmlsoap.org/soap/envelope/"><e:Body><t:twice xmlns:t="urn:test"><n>' . $n . '</n></t:twice></e:Body></e:Envelope>');
    $answer = strip_tags(ob_get_clean());
    header_remove();
    return [
        trim($processor->transformToXml($xml)), (string) gmp_powm($n, 3, 1000003), bzdecompress(bzcompress("text $n")),
        cal_days_in_month(CAL_GREGORIAN, 2, 2000 + $n), jdtogregorian(gregoriantojd(1, 2, $n + 1)), gettext("word $n"), ngettext('one', 'many', $n),
        ldap_escape("a*$n", '', LDAP_ESCAPE_FILTER), ldap_err2str(49), ldap_connect("ldap://127.0.0.1:1") instanceof LDAP\Connection,
        trim($answer), pcntl_strerror(2), function_exists('ftp_connect'), function_exists('shmop_open'), function_exists('msg_get_queue'),
    ];
}
function twice(int $n): int { return 2 * $n; }
function counted(): int { $key = ftok(__FILE__, 'a'); $memory = shm_attach($key, 10000); $n = shm_get_var($memory, 1); shm_remove($memory); sem_remove(sem_get($key, 1)); return $n; }
"#;

const CLASSIC: &str = "<?php require __DIR__ . '/uses.php';
echo json_encode(match ($_GET['what']) { 'extensions' => [ZEND_DEBUG_BUILD || !function_exists('cal_days_in_month'), get_loaded_extensions(), get_include_path()], 'count' => counted(), default => uses((int) $_GET['n']) });";

const WORKER: &str = "<?php require __DIR__ . '/uses.php';
Svc\\Worker::serve(function () { echo json_encode($_GET['what'] === 'count' ? counted() : uses((int) $_GET['n'])); });";

fn start(is_worker: bool) -> Svc {
    let files = [("index.php", if is_worker { WORKER } else { CLASSIC }), ("uses.php", PROGRAM)];
    let worker = [("WORKER_MODE_ENABLED", "true"), ("ENTRY_FILE", "index.php"), ("RUNTIME_HOOKS", "all")];
    Svc::start(&files, if is_worker { &worker } else { &[] })
}

/// Returns whether this is another PHP, or a build for `make sanitize`: its builder has chosen the extensions.
fn is_another() -> bool {
    let answer: Value = serde_json::from_str(&start(false).get("/?what=extensions").text()).unwrap();
    let is_other = answer[0] == true;
    if is_other {
        skipped("this PHP is not built by scripts/php-zts.sh");
    }
    is_other
}

#[test]
fn the_page_lists_what_there_is() {
    if is_another() {
        return;
    }
    let page = include_str!("../../../docs/extensions.md").replace('\n', " ");
    let (_, list) = page.split_once("ask for beyond it: ").unwrap();
    let (list, _) = list.split_once(" and zlib.").unwrap();
    let answer: Value = serde_json::from_str(&start(false).get("/?what=extensions").text()).unwrap();
    let loaded: Vec<_> =
        answer[1].as_array().unwrap().iter().map(|name| name.as_str().unwrap().to_lowercase()).collect();
    // Without the text in parentheses.
    let mut plain = String::new();
    let mut depth = 0;
    for letter in list.chars() {
        depth += i32::from(letter == '(') - i32::from(letter == ')');
        if depth == 0 && letter != ')' {
            plain.push(letter);
        }
    }
    let names: Vec<_> = plain.split(", ").map(|name| name.trim().to_lowercase()).collect();
    assert!(names.len() > 45, "{names:?}");
    for name in names {
        let name = if name == "opcache" { "zend opcache".to_owned() } else { name };
        assert!(loaded.contains(&name), "{name} in {loaded:?}");
    }
    assert_eq!(answer[2], ".:/usr/share/php");
}

#[test]
fn extensions_of_libraries_work_side_by_side() {
    const CLIENTS: usize = 4;
    const REQUESTS: usize = 25;
    if is_another() {
        return;
    }
    for is_worker in IS_WORKER {
        let svc = start(is_worker);
        let answer = |n: usize| svc.get(&format!("/?what=uses&n={n}")).text();
        let expected: Vec<_> = (0..REQUESTS).map(answer).collect();
        let first: Value = serde_json::from_str(&expected[7]).unwrap_or_else(|_| panic!("{}", expected[7]));
        assert_eq!(
            first.as_array().unwrap()[..9]
                .iter()
                .map(std::string::ToString::to_string)
                .collect::<Vec<_>>()
                .join(" "),
            r#""7" "343" "text 7" 28 "1/2/8" "word 7" "many" "a\\2a7" "Invalid credentials""#
        );
        assert_eq!(first[10], "14", "{first}");
        thread::scope(|scope| {
            for _ in 0..CLIENTS {
                scope.spawn(|| {
                    let mut client = svc.client();
                    for (n, expected) in expected.iter().enumerate() {
                        assert_eq!(
                            &client.get(&format!("/?what=uses&n={n}")).text(),
                            expected,
                            "{is_worker}"
                        );
                    }
                });
            }
        });
        let count = svc.get("/?what=count").text();
        assert_eq!(count, (REQUESTS * (CLIENTS + 1)).to_string(), "the semaphore holds between threads");
    }
}

/// Damages a segment in a way, and calls each function that follows its offsets.
const SEGMENT: &str = r#"<?php
$key = ftok(__FILE__, 'b');
if ($_GET['way'] === 'small') {
    $other = shmop_open($key, 'c', 0600, 100);
    $memory = shm_attach($key, 100000);
} else {
    $memory = shm_attach($key, 10000);
    shm_put_var($memory, 1, 'one');
    shm_put_var($memory, 2, str_repeat('x', 1000));
    $other = shmop_open($key, 'w', 0, 0);
    if ($_GET['way'] !== 'none') { shmop_write($other, pack('q', (int) $_GET['value']), (int) $_GET['way']); }
}
$call = match ($_GET['call']) {
    'get' => fn () => shm_get_var($memory, 2),
    'has' => fn () => shm_has_var($memory, 2),
    'put' => fn () => shm_put_var($memory, 3, str_repeat('y', 5000)),
    'remove' => fn () => shm_remove_var($memory, 1),
};
try { $result = @$call(); } finally { shm_remove($memory); }
echo is_string($result) ? strlen($result) : json_encode($result), ' ', str_contains(error_get_last()['message'] ?? '', 'is damaged') ? 'damaged' : '';
"#;

#[test]
fn a_damaged_segment_of_shared_memory_fails_one_call() {
    if is_another() {
        return;
    }
    let svc = Svc::start(&[("index.php", SEGMENT)], &[("PHP_WORKERS", "1")]);
    let tell =
        |call: &str, way: &str, value: i64| svc.get(&format!("/?call={call}&way={way}&value={value}")).text();
    for (call, result) in [("get", "1000 "), ("has", "true "), ("put", "true "), ("remove", "true ")] {
        assert_eq!(tell(call, "none", 0), result);
        assert_eq!(tell(call, "small", 0), "false damaged");
        // The head has its offsets at 8, 16 and 24, the first entry its length at 48 and the offset of the next one at 56.
        for way in ["8", "16", "24", "48", "56"] {
            for value in [i64::MAX, 0x7f7f_7f7f_7f7f_7f7f, 1 << 40, 9_999_999] {
                assert_eq!(tell(call, way, value), "false damaged", "{call} {way} {value}");
            }
            for value in [i64::MIN, -1, -8, 0, 1, 8, 9_990] {
                assert!(!tell(call, way, value).is_empty(), "{call} {way} {value}");
            }
        }
    }
}
