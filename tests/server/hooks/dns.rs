//! Name lookups in requests: other requests of the thread run meanwhile, and each request gets the same answer as without
//! the hook.

use std::fs;
use std::net::{Ipv4Addr, Ipv6Addr};

use rustix::process::Signal;
use svc_core::limits::{HELPER_QUEUE_MAX, HELPER_THREADS_MAX};
use tempfile::TempDir;

use svc_testing::client::{Client, eventually};
use svc_testing::dns::{DnsServer, Manner, Record};
use svc_testing::skip::skipped;
use svc_testing::{Svc, c};

const WORKER: &str = r#"<?php
function ask(string $name): mixed
{
    switch ($_GET['do'] ?? 'host') {
        case 'host': return gethostbyname($name);
        case 'hosts': return gethostbynamel($name);
        case 'address': return gethostbyaddr($name);
        case 'records': return dns_get_record($name, DNS_A | DNS_AAAA | DNS_MX | DNS_TXT);
        case 'check': return [checkdnsrr($name, 'A'), checkdnsrr($name, 'TXT')];
        case 'mx': return [getmxrr($name, $hosts, $weights), $hosts, $weights];
        case 'connect': return [fsockopen($name, 1, $code, $message, 5), $code, $message];
        case 'http': return file_get_contents("http://$name:1/");
        case 'addresses':
            $addresses = socket_addrinfo_lookup($name, $_GET['service'] ?? '80') ?: [];
            return array_map(fn ($address) => socket_addrinfo_explain($address), $addresses);
        case 'pgsql': return pg_connect("host=$name port=1 connect_timeout=5");
        case 'socket':
            $socket = socket_create(AF_INET, SOCK_STREAM, SOL_TCP);
            return [socket_connect($socket, $name, 1), socket_last_error($socket)];
    }
}
function until(string $name): void { while (!file_exists(__DIR__ . "/$name")) { Svc\sleep(0.002); clearstatcache(); } }
function curl(string $name): CurlHandle
{
    $curl = curl_init("http://$name:1/");
    curl_setopt($curl, CURLOPT_RETURNTRANSFER, true);
    return $curl;
}
Svc\Worker::serve(function () {
    $name = $_GET['name'] ?? '';
    if (isset($_GET['look'])) { return; }
    if (isset($_GET['limit'])) { set_time_limit(1); }
    if (isset($_GET['full'])) {
        touch($_GET['full']);
        $answer = ask($name);
        unlink($_GET['full']);
        echo json_encode($answer);
        return;
    }
    if (isset($_GET['leave'])) {
        // The lookup is in progress when the request gives up the transfer.
        $multi = curl_multi_init();
        curl_multi_add_handle($multi, $curl = curl($name));
        curl_multi_exec($multi, $running);
        until('go');
        touch(__DIR__ . '/leaving');
        curl_multi_remove_handle($multi, $curl);
        echo 'left';
        return;
    }
    if (isset($_GET['buffer'])) {
        ob_start(fn ($text) => gethostbyname($text));
        echo $name;
        ob_end_flush();
        return;
    }
    if (isset($_GET['fork'])) {
        $child = test_fork();
        if ($child === 0) {
            file_put_contents(__DIR__ . '/answer', gethostbyname($name));
            // A file exists before it has its contents.
            rename(__DIR__ . '/answer', __DIR__ . '/child');
            return;
        }
        until('child');
        echo file_get_contents(__DIR__ . '/child');
        return;
    }
    if (isset($_GET['task'])) {
        $task = Svc\async(function (string $name) {
            $answer = gethostbyname($name);
            touch(__DIR__ . '/not-cancelled');
            return $answer;
        }, $name);
        until('go');
        $task->cancel();
        try { $task->await(); } catch (Svc\Async\CancelledException) { echo 'cancelled'; }
        return;
    }
    if (isset($_GET['curl'])) {
        $curl = curl($name);
        echo json_encode([curl_exec($curl), curl_errno($curl)]);
        return;
    }
    $answer = ask($name);
    echo json_encode([$answer, error_get_last()['message'] ?? null]);
});"#;

const WORKER_MODE: [(&str, &str); 3] =
    [("WORKER_MODE_ENABLED", "true"), ("ENTRY_FILE", "worker.php"), ("PHP_WORKERS", "1")];
const ON: (&str, &str) = ("RUNTIME_HOOKS", "all");

/// Starts one worker thread, with settings and options of `resolv.conf`.
fn start_with(dns: &DnsServer, options: &str, settings: &[(&str, &str)]) -> Svc {
    dns.svc(options, &[("worker.php", WORKER)], &[&WORKER_MODE, settings].concat())
}

/// Starts a server whose queries time out so late that none is repeated.
fn start(dns: &DnsServer) -> Svc {
    start_with(dns, "timeout:30", &[ON])
}

/// Serves `n1.example`, `n2.example` and so on, with the addresses 192.0.2.1, 192.0.2.2 and so on.
fn numbered(count: usize, manner: Option<Manner>) -> Option<DnsServer> {
    let dns = DnsServer::start(&[])?;
    for number in 1..=count {
        let [high, low] = u16::try_from(number).unwrap().to_be_bytes();
        dns.add(&numbered_name(number), &[Record::A(Ipv4Addr::new(192, 0, 2 + high, low))]);
        if let Some(manner) = manner {
            dns.answer(&numbered_name(number), manner);
        }
    }
    Some(dns)
}

fn numbered_name(number: usize) -> String {
    format!("n{number}.example")
}

fn numbered_answer(number: usize) -> String {
    let [high, low] = u16::try_from(number).unwrap().to_be_bytes();
    format!(r#"["192.0.{}.{low}",null]"#, 2 + high)
}

fn send(svc: &Svc, query: &str) -> Client {
    let mut client = svc.client();
    client.send(format!("GET /?{query} HTTP/1.1\r\nHost: x\r\n\r\n"));
    client
}

/// Returns the calls that blocked their threads: the existing series of the metric.
fn blocked(svc: &Svc) -> Vec<String> {
    let page = svc.ask("/metrics").text();
    page.lines().filter(|line| line.starts_with("svc_hook_blocked_total{")).map(str::to_owned).collect()
}

/// Returns the number of the server's helper threads.
fn helpers(svc: &Svc) -> usize {
    let threads = fs::read_dir(format!("/proc/{}/task", svc.pid().as_raw_pid())).unwrap();
    let name = |path: std::path::PathBuf| fs::read_to_string(path.join("comm")).unwrap_or_default();
    threads.filter(|thread| name(thread.as_ref().unwrap().path()).starts_with("svc-helper-")).count()
}

#[test]
fn requests_of_one_thread_wait_for_names_at_once_and_each_gets_its_own_answer() {
    const COUNT: usize = 8;
    let Some(dns) = numbered(COUNT, Some(Manner::Hold)) else { return };
    let svc = start(&dns);
    assert_eq!(helpers(&svc), 0, "none is started before it is needed");
    let mut clients: Vec<_> =
        (1..=COUNT).map(|number| send(&svc, &format!("name={}", numbered_name(number)))).collect();
    dns.gate().wait_until_held(COUNT);
    assert_eq!(svc.get("/?look").status, 200, "the thread is free");
    assert_eq!(helpers(&svc), COUNT);
    dns.gate().open();
    for (number, client) in (1..).zip(&mut clients) {
        assert_eq!(client.response().text(), numbered_answer(number));
    }
    // Records, whose answers are longer, and addresses, which take two queries.
    for (what, questions) in [("records", 1), ("check", 1), ("addresses", 2)] {
        dns.gate().close();
        let query = |number| format!("do={what}&name={}", numbered_name(number));
        let mut clients: Vec<_> = (1..=COUNT).map(|number| send(&svc, &query(number))).collect();
        dns.gate().wait_until_held(COUNT * questions);
        dns.gate().open();
        for (number, client) in (1..).zip(&mut clients) {
            let (text, own) = (client.response().text(), format!("192.0.2.{number}\""));
            assert!(
                text.contains(&own) || what == "check" && text == "[[true,false],null]",
                "{what}: {text}"
            );
        }
    }
    assert_eq!(helpers(&svc), COUNT, "threads are used again");
}

#[test]
fn without_the_hook_one_request_asks_at_a_time() {
    let Some(dns) = numbered(3, Some(Manner::Hold)) else { return };
    let svc = start_with(&dns, "timeout:30", &[("RUNTIME_HOOKS", "sleep,net,process")]);
    let asked = || (1..=3).map(|number| dns.asked(&numbered_name(number), false)).sum::<usize>();
    let mut clients: Vec<_> =
        (1..=3).map(|number| send(&svc, &format!("name={}", numbered_name(number)))).collect();
    for number in 1..=3 {
        dns.gate().wait_until_held(1);
        assert_eq!(asked(), number);
        dns.gate().release(1);
        eventually("it is answered", || dns.gate().held() == 0 || asked() > number);
    }
    for (number, client) in (1..).zip(&mut clients) {
        assert_eq!(client.response().text(), numbered_answer(number));
    }
    assert_eq!(helpers(&svc), 0);
}

#[test]
fn names_beyond_the_threads_wait_and_beyond_the_queue_block() {
    const WAITING: usize = HELPER_THREADS_MAX + HELPER_QUEUE_MAX;
    let Some(dns) = numbered(WAITING + 1, Some(Manner::Hold)) else { return };
    // One thread cannot carry this many requests.
    let svc = start_with(&dns, "timeout:30", &[ON, ("PHP_WORKERS", "2")]);
    let query = |number| format!("name={}", numbered_name(number));
    // Before the threads have taken their lookups, the queue fills up sooner.
    let mut clients: Vec<_> = (1..=HELPER_THREADS_MAX).map(|number| send(&svc, &query(number))).collect();
    dns.gate().wait_until_held(HELPER_THREADS_MAX);
    clients.extend((HELPER_THREADS_MAX + 1..=WAITING).map(|number| send(&svc, &query(number))));
    let parked =
        || (0..2).map(|id| svc.metric(&format!(r#"svc_worker_request_fibers_active{{worker="{id}"}}"#)));
    eventually("all wait", || parked().sum::<f64>() == WAITING as f64);
    assert_eq!((dns.gate().held(), helpers(&svc)), (HELPER_THREADS_MAX, HELPER_THREADS_MAX));
    assert!(blocked(&svc).is_empty(), "{:?}", blocked(&svc));
    clients.push(send(&svc, &query(WAITING + 1)));
    dns.gate().wait_until_held(HELPER_THREADS_MAX + 1);
    assert_eq!(blocked(&svc), [r#"svc_hook_blocked_total{hook="dns",reason="helpers"} 1"#]);
    dns.gate().open();
    for (number, client) in (1..).zip(&mut clients) {
        assert_eq!(client.response().text(), numbered_answer(number));
    }
}

#[test]
fn answers_and_failures_are_those_that_would_come_without_the_hook() {
    let local = Record::A(Ipv4Addr::LOCALHOST);
    let all = [
        Record::A(Ipv4Addr::new(192, 0, 2, 9)),
        Record::Aaaa(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 9)),
        Record::Mx(10, "mail.example"),
        Record::Mx(20, "backup.example"),
        Record::Txt("a wombat"),
    ];
    let aliases = [Record::A(Ipv4Addr::new(192, 0, 2, 1)), Record::A(Ipv4Addr::new(192, 0, 2, 2))];
    let names: [(&str, &[Record]); 6] = [
        ("all.example", &all),
        ("two.example", &aliases),
        ("local.example", std::slice::from_ref(&local)),
        ("failing.example", &[]),
        ("silent.example", &[]),
        ("long.example", &all),
    ];
    let Some(dns) = DnsServer::start(&names) else { return };
    dns.answer("failing.example", Manner::Fail);
    dns.answer("silent.example", Manner::Silent);
    dns.answer("long.example", Manner::Truncate);
    let with = start_with(&dns, "timeout:1 attempts:1", &[ON]);
    let without = start_with(&dns, "timeout:1 attempts:1", &[]);
    let ways = ["host", "hosts", "records", "check", "mx", "addresses"];
    let mut queries: Vec<_> = ["all", "two", "local", "failing", "silent", "long", "none"]
        .iter()
        .flat_map(|name| ways.map(|way| format!("do={way}&name={name}.example")))
        .collect();
    let refused = ["local", "failing", "none"];
    let asking = ["connect", "http", "pgsql", "socket"];
    queries.extend(refused.iter().flat_map(|name| asking.map(|way| format!("do={way}&name={name}.example"))));
    // Numeric addresses, the hosts file, and invalid names.
    for name in [
        "192.0.2.77",
        "192.0.2",
        "localhost",
        "::1",
        "",
        "a%20b",
        "192.0.2.77.",
        &"x".repeat(250),
        "%C3%A4.example",
    ] {
        queries.extend(["host", "addresses", "connect"].map(|way| format!("do={way}&name={name}")));
    }
    queries
        .extend(["127.0.0.1", "192.0.2.9", "::1", "2001:db8::9"].map(|ip| format!("do=address&name={ip}")));
    queries.push("do=addresses&name=all.example&service=http".to_owned());
    queries.push("do=addresses&name=all.example&service=nonsense".to_owned());
    for query in queries {
        let [own, expected] = [&with, &without].map(|svc| svc.get(&format!("/?{query}")));
        assert_eq!((own.status, own.text()), (expected.status, expected.text()), "{query}");
        assert_eq!(own.status, 200, "{query}");
    }
    assert_eq!(helpers(&without), 0);
    assert!(blocked(&with).is_empty(), "{:?}", blocked(&with));
}

#[test]
fn numbers_need_no_thread() {
    let Some(dns) = DnsServer::start(&[]) else { return };
    let svc = start(&dns);
    for query in [
        "name=192.0.2.7",
        "do=addresses&name=192.0.2.7",
        "do=addresses&name=::1",
        "do=connect&name=127.0.0.1",
    ] {
        assert_eq!(svc.get(&format!("/?{query}")).status, 200, "{query}");
    }
    assert_eq!(helpers(&svc), 0);
}

#[test]
fn a_time_limit_ends_a_request_that_waits_for_a_name() {
    let Some(dns) = DnsServer::start(&[]) else { return };
    dns.answer("held.example", Manner::Hold);
    let svc = start(&dns);
    for way in ["host", "records", "addresses", "connect", "http", "pgsql"] {
        let before = dns.asked("held.example", false);
        let mut client = send(&svc, &format!("limit&do={way}&name=held.example"));
        eventually("it asks", || dns.asked("held.example", false) > before);
        assert_eq!(svc.get("/?look").status, 200, "{way}");
        assert_eq!(client.response().status, 504, "{way}");
    }
    // The abandoned lookups end without their requests.
    dns.gate().open();
    dns.add("n1.example", &[Record::A(Ipv4Addr::new(192, 0, 2, 1))]);
    assert_eq!(svc.get("/?name=n1.example").text(), numbered_answer(1));
}

#[test]
fn a_task_that_is_cancelled_does_not_wait_for_its_name() {
    let Some(dns) = numbered(1, None) else { return };
    dns.answer("held.example", Manner::Hold);
    let svc = start_with(&dns, "timeout:30", &[ON, ("ASYNC_WORKERS", "1")]);
    let mut client = send(&svc, "task&name=held.example");
    dns.gate().wait_until_held(1);
    fs::write(svc.root().join("go"), "").unwrap();
    assert_eq!(client.response().text(), "cancelled");
    eventually("its thread has nothing to do", || svc.metric("svc_async_tasks_in_flight") == 0.0);
    assert!(!svc.root().join("not-cancelled").exists());
}

#[test]
fn a_request_that_cannot_be_suspended_blocks_and_is_counted() {
    let Some(dns) = numbered(1, None) else { return };
    let svc = start(&dns);
    assert_eq!(svc.get("/?buffer&name=n1.example").text(), "192.0.2.1");
    assert_eq!(blocked(&svc), [r#"svc_hook_blocked_total{hook="dns",reason="output_handler"} 1"#]);
    assert_eq!(helpers(&svc), 0);
}

#[test]
fn without_memory_the_call_blocks() {
    if std::env::var_os("SVC_SANITIZE").is_some() {
        return skipped("a sanitizer wants to be the first library");
    }
    let Some(dns) = numbered(1, None) else { return };
    let folder = tempfile::tempdir().unwrap();
    let (library, full) = (folder.path().join("failing_calloc.so"), folder.path().join("full"));
    let define = format!("#define _GNU_SOURCE\n#define FULL \"{}\"\n", full.display());
    c::extension(&(define + include_str!("../../php/failing_calloc.c")), &library);
    let svc = start_with(&dns, "timeout:30", &[ON, ("LD_PRELOAD", library.to_str().unwrap())]);
    for (way, part) in
        [("host", r#""192.0.2.1""#), ("records", r#""ip":"192.0.2.1""#), ("addresses", "192.0.2.1")]
    {
        let text = svc.get(&format!("/?full={}&do={way}&name=n1.example", full.display())).text();
        assert!(text.contains(part), "{way}: {text}");
    }
    // Records of four types are four queries.
    assert_eq!(blocked(&svc), [r#"svc_hook_blocked_total{hook="dns",reason="memory"} 6"#]);
    assert_eq!(helpers(&svc), 0);
}

#[test]
fn a_worker_is_replaced_while_its_requests_wait_for_names() {
    let Some(dns) = numbered(2, Some(Manner::Hold)) else { return };
    let svc = start(&dns);
    let mut clients = [1, 2].map(|number| send(&svc, &format!("name={}", numbered_name(number))));
    dns.gate().wait_until_held(2);
    svc.signal(Signal::HUP);
    eventually("another worker has its place", || svc.metric("svc_workers_lingering") == 1.0);
    dns.gate().open();
    for (number, client) in (1..).zip(&mut clients) {
        assert_eq!(client.response().text(), numbered_answer(number));
    }
    eventually("the old one has ended", || svc.metric("svc_workers_lingering") == 0.0);
    assert_eq!(svc.get("/?name=n1.example").text(), numbered_answer(1));
}

#[test]
fn the_drain_waits_for_names_until_its_deadline() {
    let Some(dns) = numbered(1, Some(Manner::Hold)) else { return };
    let mut svc = start(&dns);
    let mut client = send(&svc, "name=n1.example");
    dns.gate().wait_until_held(1);
    svc.signal(Signal::TERM);
    eventually("it drains", || svc.ask("/readyz").status == 503);
    dns.gate().open();
    assert_eq!(client.response().text(), numbered_answer(1));
    assert_eq!(svc.wait(), Some(0));

    dns.gate().close();
    let mut svc = start_with(&dns, "timeout:30", &[ON, ("DRAIN_TIMEOUT_SECONDS", "1")]);
    let _client = send(&svc, "name=n1.example");
    dns.gate().wait_until_held(1);
    svc.signal(Signal::TERM);
    assert_eq!(svc.wait(), Some(0));

    // A thread hangs in a call whose request has ended.
    let mut svc = start(&dns);
    let mut client = send(&svc, "limit&name=n1.example");
    assert_eq!(client.response().status, 504);
    svc.signal(Signal::TERM);
    assert_eq!(svc.wait(), Some(0));
}

#[test]
fn a_client_that_leaves_takes_nothing_with_it() {
    let Some(dns) = numbered(1, None) else { return };
    dns.answer("held.example", Manner::Hold);
    let svc = start(&dns);
    let client = send(&svc, "name=held.example");
    dns.gate().wait_until_held(1);
    drop(client);
    svc.assert_metric(r#"svc_request_cancelled_total{reason="client_abort"}"#, 1.0);
    assert_eq!(svc.get("/?name=n1.example").text(), numbered_answer(1));
    dns.gate().open();
    svc.assert_metric(r#"svc_worker_request_fibers_active{worker="0"}"#, 0.0);
}

#[test]
fn a_child_that_is_forked_meanwhile_asks_for_itself() {
    let Some(dns) = numbered(1, None) else { return };
    dns.answer("held.example", Manner::Hold);
    let folder: TempDir = tempfile::tempdir().unwrap();
    let library = folder.path().join("processes.so");
    c::extension(include_str!("../../php/processes.c"), &library);
    fs::write(folder.path().join("php.ini"), format!("extension={}\n", library.display())).unwrap();
    let svc = start_with(&dns, "timeout:30", &[ON, ("PHPRC", folder.path().to_str().unwrap())]);
    let mut waiting = send(&svc, "name=held.example");
    dns.gate().wait_until_held(1);
    assert_eq!(svc.get("/?fork&name=n1.example").text(), "192.0.2.1");
    dns.gate().open();
    assert_eq!(waiting.response().text(), r#"["held.example",null]"#);
    assert_eq!(dns.asked("n1.example", false), 1);
}

#[test]
fn curl_resolves_on_its_threads_and_the_request_waits() {
    let Some(dns) = DnsServer::start(&[]) else { return };
    dns.answer("held.example", Manner::Hold);
    let svc = start(&dns);
    // Each request asks for an address of each family.
    let mut clients: Vec<_> = (0..4).map(|_| send(&svc, "curl&name=held.example")).collect();
    dns.gate().wait_until_held(8);
    assert_eq!(svc.get("/?look").status, 200);
    dns.gate().open();
    for client in &mut clients {
        assert_eq!(client.response().text(), "[false,6]");
    }
    assert_eq!(helpers(&svc), 0);
    // Giving up a transfer joins its thread, whose lookup continues.
    dns.gate().close();
    let mut client = send(&svc, "leave&name=held.example");
    dns.gate().wait_until_held(2);
    fs::write(svc.root().join("go"), "").unwrap();
    eventually("it leaves", || svc.root().join("leaving").exists());
    assert_eq!(svc.get("/?look").status, 200, "the thread is free");
    dns.gate().open();
    assert_eq!(client.response().text(), "left");
}
