//! State that libc keeps for the process and svc for each request: the arguments of `openlog()`, the text domain, results
//! in static memory, and CPU time.

use svc_testing::c;
use svc_testing::tasks::{Mode, PLACES, TaskServer};

/// `LOG_PERROR` copies each record to standard error, which the test redirects to a file.
const CODE: &str = r"
function errors_to_file(string $n): bool { return test_stderr(DIR . '/errors'); }
function records(string $n): void
{
    openlog('first', LOG_PERROR, LOG_USER);
    mark('opened');
    until('go');
    syslog(LOG_DEBUG, 'of the first');
}
function others(string $n): void
{
    openlog('second', 0, LOG_USER);
    openlog('third', LOG_PERROR | LOG_PID, LOG_USER);
    syslog(LOG_DEBUG, 'of the third');
    closelog();
}
function unopened(string $n): void { syslog(LOG_DEBUG, 'without openlog'); }
function renames(string $n): void
{
    $end = microtime(true) + 3;
    // Blocks of these sizes are mapped, and do not follow each other at the same address.
    $names = [str_repeat('x', 400000), str_repeat('y', 40 << 20)];
    for ($i = 0; microtime(true) < $end; $i++) { openlog($names[$i % 2], 0, LOG_USER); }
}
function writes(string $n): void
{
    $end = microtime(true) + 3;
    while (microtime(true) < $end) { syslog(LOG_DEBUG, 'x'); usleep(200); }
}
";

const TRANSLATIONS: &str = r#"
function catalogs(string $n): void
{
    mkdir($folder = DIR . '/locale/C.UTF-8/LC_MESSAGES', 0777, true);
    foreach (['fruit', 'colour'] as $domain) {
        $texts = ['', 'orange', "Content-Type: text/plain; charset=UTF-8\n", "orange as a $domain"];
        $table = $data = '';
        foreach ($texts as $text) {
            $table .= pack('V2', strlen($text), 60 + strlen($data));
            $data .= "$text\0";
        }
        file_put_contents("$folder/$domain.mo", pack('V7', 0x950412de, 0, 2, 28, 44, 0, 60) . $table . $data);
    }
}
function translations(): array
{
    setlocale(LC_ALL, 'C.UTF-8', 'C.utf8');
    foreach (['fruit', 'colour'] as $domain) { bindtextdomain($domain, DIR . '/locale'); }
    return [_('orange'), ngettext('orange', 'oranges', 1), dcgettext('fruit', 'orange', LC_MESSAGES), textdomain(null)];
}
function names_none(string $n): array { return translations(); }
function names_fruit(string $n): array
{
    textdomain('fruit');
    mark('named');
    until('go');
    return translations();
}
function names_colour(string $n): array { textdomain('colour'); return translations(); }
"#;

const NONE: &str = r#"["orange","orange","orange as a fruit","messages"]"#;
const FRUIT: &str = r#"["orange as a fruit","orange as a fruit","orange as a fruit","fruit"]"#;
const COLOUR: &str = r#"["orange as a colour","orange as a colour","orange as a fruit","colour"]"#;

/// Each function runs on two threads at the same time, and returns the number of results that are not its own.
const STATIC_RESULTS: &str = r"
function others_folders(string $n): int
{
    mkdir($folder = DIR . str_repeat('/' . str_repeat($n, 200), (int) $n), 0777, true);
    $others = 0;
    for ($i = 0; $i < 20000; $i++) { $others += bindtextdomain('x', $folder) !== $folder; }
    return $others;
}
function others_encodings(string $n): int
{
    $others = 0;
    for ($i = 0; $i < 200000; $i++) { $others += bind_textdomain_codeset('x', str_repeat($n, 40)) !== str_repeat($n, 40); }
    return $others;
}
function others_services(string $n): int
{
    $asked = [['http', 80], ['submission', 587]][$n - 1];
    $others = 0;
    for ($i = 0; $i < 5000; $i++) {
        $others += getservbyname($asked[0], 'tcp') !== $asked[1] || getservbyport($asked[1], 'tcp') !== $asked[0];
    }
    return $others;
}
function others_protocols(string $n): int
{
    $asked = [['tcp', 6], ['ipv6-icmp', 58]][$n - 1];
    $others = 0;
    for ($i = 0; $i < 5000; $i++) {
        $others += getprotobyname($asked[0]) !== $asked[1] || getprotobynumber($asked[1]) !== $asked[0];
    }
    return $others;
}
";

/// The expected answers are those of libc's `setlocale()`, with only the locales `C` and `C.utf8`.
const LOCALES: &str = r#"
function locales(string $n): array
{
    $all = 'LC_CTYPE=C.utf8;LC_NUMERIC=C;LC_TIME=C;LC_COLLATE=C;LC_MONETARY=C;LC_MESSAGES=C.utf8;LC_PAPER=C;LC_NAME=C;LC_ADDRESS=C;LC_TELEPHONE=C;LC_MEASUREMENT=C;LC_IDENTIFICATION=C';
    $calls = [[LC_ALL, 'C'], [LC_MESSAGES, '0'], [LC_MESSAGES, 'C'], [LC_MESSAGES, 'C.utf8'], [LC_MESSAGES, 'C.utf8'], [LC_MESSAGES, 'none'],
        [LC_CTYPE, 'C.utf8'], [LC_ALL, '0'], [LC_ALL, $all], [LC_ALL, 'C.utf8'], [LC_ALL, 'C.utf8'], [LC_ALL, $all], [LC_CTYPE, '0'], [LC_TIME, '0']];
    $answers = array_map(fn ($call) => str_replace($all, 'both', (string) setlocale(...$call)), $calls);
    return [...$answers, mb_strlen(escapeshellarg("\u{e9}"), 'UTF-8')];
}
"#;

const CPU_TIME: &str = r"
function used(): int { $used = getrusage(); return $used['ru_utime.tv_sec'] * 1000 + intdiv($used['ru_utime.tv_usec'], 1000); }
function burns(string $n): void
{
    for ($start = used(); used() < $start + 600;) { }
    mark('burnt');
}
function rests(string $n): array
{
    [$start, $ticks] = [used(), posix_times()['utime']];
    mark('resting');
    while (!marked('burnt')) { usleep(20000); }
    return [used() - $start < 300, posix_times()['utime'] - $ticks < 30];
}
";

fn server() -> TaskServer {
    TaskServer::new(CODE).set("PHP_WORKERS", "2")
}

#[test]
fn a_request_s_records_have_its_own_identity_and_options() {
    let folder = tempfile::tempdir().unwrap();
    let library = folder.path().join("stderr.so");
    c::extension(include_str!("../../php/stderr.c"), &library);
    server().directive(&format!("extension={}", library.display())).in_each_mode(|running| {
        assert_eq!(running.tell("errors_to_file"), "true");
        for place in PLACES {
            running.unmark(&["opened", "go"]);
            let mut first = running.send(&format!("records{place}"), "");
            running.until("opened");
            for other in PLACES {
                running.tell(&format!("others{other}"));
                running.tell(&format!("unopened{other}"));
            }
            running.mark("go");
            assert_eq!(first.response().status, 200);
            let of_process = format!("third[{}]: of the third", running.svc.pid().as_raw_nonzero());
            let mut expected = vec![of_process; PLACES.len()];
            expected.push("first: of the first".to_owned());
            assert_eq!(running.lines("errors"), expected, "{place}");
            std::fs::write(running.path("errors"), "").unwrap();
        }
    });
}

#[test]
fn an_identity_is_not_read_after_it_was_freed() {
    let running = server().start(Mode::Classic);
    let mut clients = ["renames", "writes"].map(|function| running.send(function, ""));
    for client in &mut clients {
        assert_eq!(client.response().status, 200);
    }
}

#[test]
fn a_request_has_its_own_text_domain() {
    TaskServer::new(TRANSLATIONS).set("PHP_WORKERS", "2").in_each_mode(|running| {
        assert_eq!(running.tell("catalogs"), "null");
        for place in PLACES {
            running.unmark(&["named", "go"]);
            let mut fruit = running.send(&format!("names_fruit{place}"), "");
            running.until("named");
            for other in PLACES {
                assert_eq!(running.tell(&format!("names_colour{other}")), COLOUR);
                assert_eq!(running.tell(&format!("names_none{other}")), NONE);
            }
            running.mark("go");
            assert_eq!(fruit.response().text(), FRUIT, "{place}");
        }
    });
}

#[test]
#[cfg(feature = "worker")]
fn requests_begin_with_the_text_domain_of_the_boot_script() {
    let running = TaskServer::new(TRANSLATIONS).start_with(Mode::Worker, "textdomain('fruit');");
    assert_eq!(running.tell("catalogs"), "null");
    for _ in 0..2 {
        assert_eq!(running.tell("names_none"), FRUIT);
        assert_eq!(running.tell("names_colour"), COLOUR);
    }
}

#[test]
fn locales_are_answered_as_by_libc() {
    TaskServer::new(LOCALES).in_each_mode(|running| {
        for place in PLACES {
            for _ in 0..2 {
                assert_eq!(
                    running.tell(&format!("locales{place}")),
                    r#"["C","C","C","C.utf8","C.utf8","","C.utf8","both","both","C.utf8","C.utf8","both","C.utf8","C",3]"#
                );
            }
        }
    });
}

#[test]
fn results_in_static_memory_are_those_of_the_caller() {
    let running = TaskServer::new(STATIC_RESULTS).set("PHP_WORKERS", "2").start(Mode::Classic);
    for function in ["others_folders", "others_encodings", "others_services", "others_protocols"] {
        let mut clients = ["1", "2"].map(|n| running.send(function, n));
        assert_eq!(clients.each_mut().map(|client| client.response().text()), ["0", "0"], "{function}");
    }
}

#[test]
fn cpu_time_is_that_of_the_request_s_thread() {
    TaskServer::new(CPU_TIME).set("PHP_WORKERS", "2").in_each_mode(|running| {
        for place in PLACES {
            running.unmark(&["burnt", "resting"]);
            let mut resting = running.send(&format!("rests{place}"), "");
            running.until("resting");
            running.tell("burns");
            assert_eq!(resting.response().text(), "[true,true]", "{place}");
        }
    });
}
