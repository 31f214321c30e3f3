//! curl transfers that a request abandons in a multi handle that later requests use: waiting requests learn of their end.

use serde_json::json;

use svc_testing::backend::{Backend, Visit};
use svc_testing::client::eventually;
use svc_testing::tasks::{Mode, TaskServer, TaskSvc, assert_like};
use svc_testing::turns::server_with;

/// Pages, and a page that never comes, at URL. Later requests can inspect the abandoned transfers.
const CODE: &str = r#"
class Held { public static $promising, $pooled, $left = []; }
function clients() { Held::$promising = new PromisingClient; Held::$pooled = new PooledClient; }
function states() { return array_map(fn ($promised) => [$promised->state, $promised->value], Held::$left); }
function begin(int $times = 3) { for ($i = 0; $i < $times; $i++) { Held::$promising->tick(0.05); } return Held::$promising->count(); }

function leave_added() { Held::$left = [Held::$promising->send(URL . 'never')]; return Held::$promising->count(); }
function leave_begun() { leave_added(); return begin(); }
function leave_many() { Held::$left = array_map(fn ($i) => Held::$promising->send(URL . 'never'), range(1, 20)); return begin(); }
function leave_mixed() { Held::$left = [Held::$promising->send(URL . 'never'), Held::$promising->send(URL), Held::$promising->send(URL . 'never')]; return 3; }
function leave_done() { Held::$left = [Held::$promising->send(URL)]; Held::$promising->run(); return Held::$promising->count(); }
function leave_unkept() { Held::$promising->send(URL . 'never'); Held::$left = []; return begin(); }
function leave_by_exception() { leave_begun(); throw new Exception('left'); }
function leave_in_fiber() { $fiber = new Fiber(function () { leave_begun(); Fiber::suspend(); }); $fiber->start(); return Held::$promising->count(); }

/** Uses two multi handles, in reverse order if `$n` is set. */
function crosses($n)
{
    Held::$left ?: Held::$left = [curl_multi_init(), curl_multi_init()];
    [$first, $second] = $n ? array_reverse(Held::$left) : Held::$left;
    curl_multi_add_handle($first, $one = curl_init(URL));
    mark('has', $n);
    while (count(file(DIR . '/has')) < 2) { Svc\sleep(0.002); }
    try {
        return curl_multi_add_handle($second, $other = curl_init(URL));
    } finally {
        curl_multi_remove_handle($first, $one);
        if (isset($other)) { curl_multi_remove_handle($second, $other); }
    }
}
function page() { return [Held::$promising->send(URL)->wait(), Held::$promising->count()]; }
function wait_for_left() { return Held::$left[0]->wait(); }
function cancel_left() { return [Held::$left[0]->cancel(), Held::$left[0]->cancel(), Held::$promising->count()]; }
function leave_again() { leave_begun(); return 1; }

function leave_response() { Held::$left = Held::$pooled->request(URL . 'never'); Held::$pooled->perform(); return 1; }
function read_response() { return Held::$pooled->request(URL)->content(); }
function read_left() { return Held::$left->content(); }
function open_responses() { return count(Held::$pooled->open); }
function messages_left()
{
    $multi = curl_multi_init();
    $GLOBALS['multi'] = $multi;
    foreach (range(1, 3) as $i) { curl_multi_add_handle($multi, curl_init(URL . 'never')); }
    curl_multi_exec($multi, $running);
    Held::$left = $multi;
    return $running;
}
function read_messages()
{
    curl_multi_exec(Held::$left, $running);
    $seen = [$running];
    while ($done = curl_multi_info_read(Held::$left, $queued)) {
        $seen[] = [$done['result'], $queued, curl_errno($done['handle']), curl_multi_remove_handle(Held::$left, $done['handle'])];
    }
    return $seen;
}
function read_one_and_free() { $done = curl_multi_info_read(Held::$left); Held::$left = null; return $done['result']; }
function add_again()
{
    $done = curl_multi_info_read(Held::$left);
    curl_multi_remove_handle(Held::$left, $done['handle']);
    curl_setopt_array($done['handle'], [CURLOPT_URL => URL, CURLOPT_RETURNTRANSFER => true]);
    curl_multi_add_handle(Held::$left, $done['handle']);
    do { curl_multi_exec(Held::$left, $running); } while ($running > 0 && curl_multi_select(Held::$left, 1) >= 0);
    return curl_multi_getcontent($done['handle']);
}
"#;

fn backend() -> Backend {
    Backend::tcp(|visit: &mut Visit| {
        while let Ok(request) = visit.request() {
            if request.contains("never") {
                return visit.hang();
            }
            visit.answer("page")?;
        }
        Ok(())
    })
}

fn server(backend: &Backend) -> TaskServer {
    let url = format!("http://{}/", backend.address());
    server_with(&format!("require __DIR__ . '/clients.php';\n{CODE}"), &json!({ "URL": url }))
        .file("clients.php", include_str!("../../php/curl_clients.php"))
        .set("ASYNC_WORKERS", "1")
        .entry("clients();")
}

fn start(backend: &Backend) -> TaskSvc {
    server(backend).start_with(Mode::Worker, "clients();")
}

const ABORTED: &str = r#"["rejected","cURL error 42: *"]"#;

#[test]
fn the_next_user_of_a_client_waits_for_none_of_them() {
    let backend = backend();
    for place in ["", "&task"] {
        let server = start(&backend);
        for (leave, count) in [("added", "1"), ("begun", "1"), ("many", "20"), ("in_fiber", "1")] {
            println!("{leave}{place}");
            assert_eq!(server.tell(&format!("leave_{leave}{place}")), count);
            assert_eq!(server.tell(&format!("page{place}")), r#"["page",0]"#);
            let states = server.tell(&format!("states{place}"));
            let all = vec![ABORTED; count.parse().unwrap()].join(",");
            svc_testing::tasks::assert_like(&states, &format!("[{all}]"));
        }
        assert_eq!(server.tell(&format!("leave_unkept{place}")), "1");
        assert_eq!(server.tell(&format!("page{place}")), r#"["page",0]"#);
        assert_eq!(server.tell(&format!("leave_by_exception{place}")), "Exception: left");
        assert_eq!(server.tell(&format!("page{place}")), r#"["page",0]"#);
    }
}

#[test]
fn a_wait_for_a_left_transfer_gets_a_message() {
    let backend = backend();
    let server = start(&backend);
    server.tell("leave_begun");
    svc_testing::tasks::assert_like(&server.tell("wait_for_left"), "RuntimeException: cURL error 42: *");
    server.tell("leave_begun");
    assert_eq!(server.tell("cancel_left"), "[true,false,0]");
    assert_eq!(server.tell("page"), r#"["page",0]"#);
    assert_eq!(server.tell("leave_mixed"), "3");
    assert_eq!(server.tell("page"), r#"["page",0]"#);
    svc_testing::tasks::assert_like(&server.tell("states"), &format!("[{ABORTED},{ABORTED},{ABORTED}]"));
}

#[test]
fn a_transfer_that_ended_by_itself_has_its_result() {
    let backend = backend();
    let server = start(&backend);
    assert_eq!(server.tell("leave_done"), "1");
    assert_eq!(server.tell("page"), r#"["page",0]"#);
    assert_eq!(server.tell("states"), r#"[["fulfilled","page"]]"#);
}

#[test]
fn the_connections_of_left_transfers_are_closed() {
    let backend = backend();
    let server = start(&backend);
    assert_eq!(server.tell("leave_many"), "20");
    assert_eq!(server.tell("page"), r#"["page",0]"#);
    eventually("those of what was left are closed", || backend.connected() <= 1);
}

#[test]
fn a_pool_of_responses_goes_on() {
    let backend = backend();
    let server = start(&backend);
    server.tell("leave_response");
    assert_eq!(server.tell("read_response"), "\"page\"");
    svc_testing::tasks::assert_like(&server.tell("read_left"), "RuntimeException: *");
    assert_eq!(server.tell("open_responses"), "0");
    assert_eq!(server.tell("read_response"), "\"page\"");
}

#[test]
fn each_message_is_read_once() {
    let backend = backend();
    let server = start(&backend);
    assert_eq!(server.tell("messages_left"), "3");
    assert_eq!(server.tell("read_messages"), "[0,[42,2,42,0],[42,1,42,0],[42,0,42,0]]");
    assert_eq!(server.tell("read_messages"), "[0]");
    assert_eq!(server.tell("messages_left"), "3");
    assert_eq!(server.tell("read_one_and_free"), "42");
    assert_eq!(server.tell("messages_left"), "3");
    assert_eq!(server.tell("add_again"), "\"page\"");
    assert_eq!(server.tell("read_messages"), "[0,[42,2,42,0],[42,1,42,0],[0,0,0,0]]");
}

#[test]
fn multi_handles_in_different_orders_are_refused() {
    let backend = backend();
    let server = start(&backend);
    let mut both = ["0", "1"].map(|n| server.send("crosses", n));
    let mut texts = [both[0].response().text(), both[1].response().text()];
    texts.sort();
    assert_eq!(texts[0], "0");
    assert_like(
        &texts[1],
        "Svc\\ConnectionBusyError: Curl handle is used by*let all requests use such objects in the same order*",
    );
}
