//! The runtime hook `net` when the object of a wait is closed or abandoned during the wait.

use svc_testing::backend::{Backend, Visit};
use svc_testing::client::eventually;
use svc_testing::hooked::{assert_serves, forget, one_thread};
use svc_testing::tasks::{Mode, TaskServer};
use svc_testing::waits::Pages;

const CLOSING: &str = r#"
class Held { public static array $of = []; }
function opens($n)
{
    [$host, $port] = explode(':', HTTP);
    Held::$of[$n] = $socket = socket_create(AF_INET, SOCK_STREAM, SOL_TCP);
    socket_connect($socket, $host, (int) $port);
    mark('in');
    $count = match ($n) {
        'read' => @socket_recv($socket, $bytes, 100, 0),
        'all' => @socket_recv($socket, $bytes, 100, MSG_WAITALL),
        'write' => @socket_write($socket, str_repeat('x', 1 << 25)),
    };
    return [is_int($count) ? 'part' : $count, socket_last_error()];
}
/** Closes it, and at once reuses its number for a connection with readable data. */
function closes($n)
{
    $number = fn () => count(glob('/proc/self/fd/*'));
    $before = $number();
    socket_close(Held::$of[$n]);
    $stream = stream_socket_client('tcp://' . TALKS);
    $reads = [$stream];
    $none = null;
    stream_select($reads, $none, $none, 60);
    return [$before === $number(), fgets($stream)];
}
function opens_stream()
{
    Held::$of[''] = $stream = stream_socket_client('tcp://' . HTTP);
    fwrite($stream, "GET /page HTTP/1.1\r\n\r\n");
    return explode("\r\n\r\n", stream_get_contents($stream))[1];
}
function closes_stream() { return [@fclose(Held::$of['']), error_get_last()['message']]; }
"#;

#[test]
fn a_call_never_reads_data_for_the_next_owner_of_its_descriptor() {
    let (silent, talks) = (
        Backend::tcp(Visit::hold),
        Backend::tcp(|visit| visit.send("not yours\n").and_then(|()| visit.hang())),
    );
    let constants = format!("const HTTP = '{}';\nconst TALKS = '{}';\n", silent.address(), talks.address());
    let server = one_thread(TaskServer::new(&format!("{constants}{CLOSING}")), "net").start(Mode::Worker);
    for (way, answer) in [("read", "[false,9]"), ("all", "[false,9]"), ("write", "[\"part\",0]")] {
        forget(&server, &["in"]);
        let mut client = server.send("opens", way);
        server.until("in");
        // Once its thread answers, the request waits.
        assert_serves(&server);
        assert_eq!(server.send("closes", way).response().text(), r#"[true,"not yours\n"]"#, "{way}");
        assert_eq!(client.response().text(), answer, "{way}");
    }
}

#[test]
fn a_stream_that_another_request_reads_cannot_be_closed() {
    let pages = Pages::new();
    let server = one_thread(pages.server(CLOSING), "net").start(Mode::Worker);
    let mut client = server.send("opens_stream", "");
    pages.plain.gate().wait_until_held(1);
    assert_serves(&server);
    assert_eq!(
        server.tell("closes_stream"),
        r#"[false,"fclose(): cannot close the provided stream, as it is in use"]"#
    );
    pages.plain.gate().open();
    assert_eq!(client.response().text(), "\"page\"");
}

const TRANSFERS: &str = r#"
function ends_in_callback($n)
{
    $curl = curl_init('http://' . HTTP . '/page');
    curl_setopt($curl, CURLOPT_WRITEFUNCTION, function () { str_repeat('x', PHP_INT_MAX >> 4); });
    curl_exec($curl);
}
"#;

#[test]
fn a_bailout_out_of_a_transfer_stops_before_the_library_of_its_own_request() {
    let pages = Pages::new();
    let server = one_thread(pages.server(TRANSFERS), "net").start(Mode::Worker);
    let mut around = Vec::new();
    for round in 0..20 {
        let mut ends = server.send("ends_in_callback", "");
        pages.plain.gate().wait_until_held(1);
        // Another transfer begins and ends on the same thread, and a third one continues.
        let mut other = server.send("by_curl_tls", "other");
        pages.tls.gate().wait_until_held(1);
        if round % 2 == 0 {
            pages.tls.gate().release(1);
            assert_eq!(other.response().text(), "\"other\"");
        }
        pages.plain.gate().release(1);
        assert_eq!(ends.response().status, 500);
        if round % 2 == 1 {
            pages.tls.gate().release(1);
            assert_eq!(other.response().text(), "\"other\"");
        }
        around.push(server.svc.metric("process_open_fds"));
    }
    eventually("all is closed", || server.svc.metric("process_open_fds") < around[0] + 10.0);
}
