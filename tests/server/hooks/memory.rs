//! Out of memory while requests wait in their drivers: only the request without memory ends.

use svc_testing::c;
use svc_testing::client::eventually;
use svc_testing::hooked::{assert_serves, forget, one_thread};
use svc_testing::proxy::Direction;
use svc_testing::skip::skipped;
use svc_testing::tasks::{Mode, TaskSvc};
use svc_testing::turns::looks_in_vain;
use svc_testing::waits::{HTTP_WAYS, Pages, Stores};

const VICTIMS: &str = r#"
class Held { public static $ask; }
function neighbour($way) { set_time_limit(600); $ask = $way(); mark('connected'); until('asks'); return $ask('neighbour'); }
/** Queries the shared connection or a private one, and has one of its allocations fail. */
function victim($n)
{
    [$whose, $way, $at] = explode(':', $n);
    $ask = $whose === 'all' ? Held::$ask : $way();
    $ask('first');
    mark('owns');
    until('fault');
    faults_arm((int) $at, DIR . '/fired');
    $answer = $ask('victim');
    faults_disarm();
    return $answer;
}
/** Waits for the shared connection. Its result may be lost. */
function waits() { mark('look'); return tries('held'); }
function held() { return Held::$ask; }
function after() { return (Held::$ask)('after'); }
"#;

/// Ends a request at its n-th allocation, for each n in turn; returns the number of allocations.
fn end_at_each_allocation(server: &TaskSvc, whose: &str, way: &str) -> usize {
    let (mut at, mut count) = (1, 0);
    loop {
        forget(server, &["fired", "owns", "fault"]);
        let mut victim = server.send("victim", &format!("{whose}:{way}:{at}"));
        server.until("owns");
        // A store is owned only during a call.
        let is_store = ["to_redis", "to_memcached"].contains(&way);
        if whose == "all" && is_store {
            assert_eq!(server.tell("waits"), "\"whole\"");
        }
        let waiting = (whose == "all" && !is_store).then(|| looks_in_vain(server, "waits", ""));
        server.mark("fault");
        let (response, is_fired) = (victim.response(), server.marked("fired"));
        assert_eq!(response.status, if is_fired { 500 } else { 200 }, "{whose} {way} at {at}");
        if let Some(mut waiting) = waiting {
            let text = waiting.response().text();
            assert!(text == "\"whole\"" || is_fired && text == "\"failed\"", "{text}");
        }
        // The next request gets the connection, or a new one.
        eventually("the connection is free for the next one", || {
            let next = server.send("after", "").response();
            next.status == 200 && next.text() == "\"after\""
        });
        if !is_fired {
            return count;
        }
        count += 1;
        at += 1;
    }
}

#[test]
fn a_request_without_memory_ends_alone() {
    let folder = tempfile::tempdir().unwrap();
    let library = folder.path().join("faults.so");
    c::extension(include_str!("../../chaos/app/faults.c"), &library);
    let stores = Stores::new();
    let all: Vec<_> = stores.drivers().collect();
    for (way, proxy) in &all {
        let server = one_thread(stores.server(VICTIMS), "net");
        let server = server.directive(&format!("extension={}", library.display()));
        let server = server.start_with(Mode::Worker, &format!("Held::$ask = {way}();"));
        // Another request waits for another server all the time.
        let neighbour = all.iter().find(|(_, other)| other.address() != proxy.address());
        let neighbour = neighbour.map(|(other, proxy)| {
            let client = server.send("neighbour", other);
            server.until("connected");
            proxy.gate(Direction::ToClient).close();
            server.mark("asks");
            proxy.gate(Direction::ToClient).wait_until_held(1);
            (client, proxy)
        });
        for whose in ["all", "own"] {
            let count = end_at_each_allocation(&server, whose, way);
            println!("{whose} {way}: {count}");
            assert!(count > 2, "{count}");
        }
        if let Some((mut client, proxy)) = neighbour {
            proxy.gate(Direction::ToClient).open();
            assert_eq!(client.response().text(), "\"neighbour\"", "beside {way}");
        }
        assert_serves(&server);
    }
}

const FULL: &str = r#"
/** Queries while the server itself has no memory. */
function full($n)
{
    [$way, $n] = explode(':', $n);
    $ask = str_starts_with($way, 'to_') ? $way() : $way;
    touch(FULL);
    try { return $ask($n); } finally { unlink(FULL); }
}
/** Selects more streams than fit without an allocation. */
function by_many_streams($n)
{
    $streams = [];
    for ($i = 0; $i < 20; $i++) {
        fwrite($streams[] = stream_socket_client('tcp://' . HTTP), question($n));
    }
    for ($text = ''; !feof($streams[0]); $text .= fread($streams[0], 8192)) {
        $reads = $streams;
        $none = null;
        stream_select($reads, $none, $none, null);
    }
    return body($text);
}
"#;

fn ask_without_memory(server: &TaskSvc, ways: &[&str]) {
    for way in ways {
        println!("{way}");
        assert_eq!(server.send("full", &format!("{way}:wombat")).response().text(), "\"wombat\"", "{way}");
        assert_serves(server);
    }
}

#[test]
fn calls_without_memory_for_their_wait_block_and_answer() {
    if std::env::var_os("SVC_SANITIZE").is_some() {
        return skipped("a sanitizer wants to be the first library");
    }
    let folder = tempfile::tempdir().unwrap();
    let (library, full) = (folder.path().join("failing_calloc.so"), folder.path().join("full"));
    let define = format!("#define _GNU_SOURCE\n#define FULL \"{}\"\n", full.display());
    c::library(&(define + include_str!("../../php/failing_calloc.c")), &library);
    let code = format!("const FULL = '{}';\n{FULL}", full.display());
    let preload = library.to_str().unwrap();

    let pages = Pages::new();
    pages.plain.gate().open();
    pages.tls.gate().open();
    let server = one_thread(pages.server(&code), "net").set("LD_PRELOAD", preload).start(Mode::Worker);
    ask_without_memory(&server, &HTTP_WAYS);
    pages.plain.gate().close();
    let mut client = server.send("full", "by_many_streams:wombat");
    pages.plain.gate().wait_until_held(20);
    eventually("it blocks", || {
        let metrics = server.svc.ask("/metrics").text();
        metrics.contains("svc_hook_blocked_total{hook=\"net\",reason=\"memory\"}")
    });
    pages.plain.gate().open();
    assert_eq!(client.response().text(), "\"wombat\"");
    assert_serves(&server);

    let stores = Stores::new();
    let code =
        format!("{code}function question($n): string {{ return $n; }} function body($n) {{ return $n; }}");
    let server = one_thread(stores.server(&code), "net").set("LD_PRELOAD", preload).start(Mode::Worker);
    let ways: Vec<_> = stores.drivers().map(|(way, _)| way).collect();
    ask_without_memory(&server, &ways);
}
