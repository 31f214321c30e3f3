//! The arguments of `openlog()`, which libc keeps for the process and svc for each request.

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
