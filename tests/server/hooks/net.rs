//! The runtime hook `net`: one thread waits for many connections at once.

use serde_json::json;

use svc_testing::Svc;
use svc_testing::backend::Backend;
use svc_testing::client::{Client, eventually};
use svc_testing::gate::Gate;
use svc_testing::proxy::Direction;
use svc_testing::tasks::{Mode, TaskServer, TaskSvc};
use svc_testing::waits::{HTTP_WAYS, Pages, Stores, json};

/// The concurrency that the hook is designed for.
const CLIENTS: usize = 60;

const CODE: &str = r#"
const CLIENTS = 60;
/** `$n` is a function and its argument. */
function asked($n) { [$way, $n] = explode(':', $n); return $way($n); }
/** Calls a function for each client, each in a task; `$n` is that function and its way. */
function in_tasks($n)
{
    [$function, $way] = explode(':', $n);
    $tasks = array_map(fn (int $n) => Svc\async(run(...), $function, "$way:$n"), range(1, CLIENTS));
    return array_map(fn (Svc\Task $task) => json_decode($task->await()), $tasks);
}
function query($n)
{
    [$way, $n] = explode(':', $n);
    $ask = $way();
    mark('connected', $n);
    until('go');
    return $ask($n);
}
/** Listens, publishes its address, and answers one client with its text reversed. */
function accepts($n)
{
    $socket = socket_create_listen(0);
    socket_getsockname($socket, $host, $port);
    mark('listening', "$port");
    $client = socket_accept($socket);
    $text = socket_read($client, 100);
    socket_write($client, strrev($text));
    return $text;
}
"#;

fn one_thread(server: TaskServer, hooks: &str) -> TaskServer {
    server.set("RUNTIME_HOOKS", hooks).set("PHP_WORKERS", "1").set("ASYNC_WORKERS", "1")
}

fn assert_never_blocked(svc: &Svc) {
    let metrics = svc.ask("/metrics").text();
    assert!(!metrics.contains("svc_hook_blocked_total{"), "{metrics}");
}

fn send_all(server: &TaskSvc, function: &str, way: &str) -> Vec<Client> {
    (1..=CLIENTS).map(|n| server.send(function, &format!("{way}:{n}"))).collect()
}

/// Asserts that each client gets its own answer.
fn assert_answers(clients: Vec<Client>, way: &str) {
    for (mut client, n) in clients.into_iter().zip(1..) {
        assert_eq!(client.response().text(), format!("\"{n}\""), "{way}");
    }
}

#[test]
fn one_thread_waits_for_many_pages() {
    let pages = Pages::new();
    let server = one_thread(pages.server(CODE), "net").start(Mode::Worker);
    for way in HTTP_WAYS {
        println!("{way}");
        let gate = pages.of(way).gate();
        let clients = send_all(&server, "asked", way);
        gate.wait_until_held(CLIENTS);
        assert!(server.tell("strrev").ends_with('"'), "the thread serves others");
        gate.open();
        assert_answers(clients, way);
        gate.close();
    }
    assert_never_blocked(&server.svc);
}

#[test]
fn one_thread_of_tasks_waits_for_many_pages() {
    let pages = Pages::new();
    let server = one_thread(pages.server(CODE), "net").set("PHP_WORKERS", "2").start(Mode::Classic);
    let expected: Vec<_> = (1..=CLIENTS).map(|n| n.to_string()).collect();
    for way in HTTP_WAYS {
        println!("{way}");
        let gate = pages.of(way).gate();
        let mut client = server.send("in_tasks", &format!("asked:{way}"));
        gate.wait_until_held(CLIENTS);
        assert!(server.tell_in_task("strrev").ends_with('"'), "the thread runs other tasks");
        gate.open();
        assert_eq!(json(&client.response().text()), json!(expected), "{way}");
        gate.close();
    }
    assert_never_blocked(&server.svc);
}

/// Has all clients wait for the server's first answer, and then for the answer to their query.
fn wait_for_store(
    server: &TaskSvc,
    way: &str,
    gate: &Gate,
    ask: impl FnOnce() -> Vec<Client>,
) -> Vec<Client> {
    println!("{way}");
    for mark in ["connected", "go"] {
        // A previous way may have left the marks.
        let _ = std::fs::remove_file(server.path(mark));
    }
    // Its client connects on the first command.
    let is_lazy = way == "to_memcached" || way == "to_redis";
    gate.close();
    let clients = ask();
    if !is_lazy {
        gate.wait_until_held(CLIENTS);
        gate.open();
    }
    eventually("all are connected", || server.lines("connected").len() == CLIENTS);
    gate.close();
    server.mark("go");
    gate.wait_until_held(CLIENTS);
    assert!(server.tell("strrev").ends_with('"'), "the thread serves others");
    gate.open();
    clients
}

#[test]
fn one_thread_waits_for_many_queries() {
    let stores = Stores::new();
    let server = one_thread(stores.server(CODE), "net").start(Mode::Worker);
    for (way, proxy) in stores.drivers() {
        let ask = || send_all(&server, "query", way);
        assert_answers(wait_for_store(&server, way, proxy.gate(Direction::ToClient), ask), way);
    }
    assert_never_blocked(&server.svc);
}

#[test]
fn one_thread_of_tasks_waits_for_many_queries() {
    let stores = Stores::new();
    let server = one_thread(stores.server(CODE), "net").set("PHP_WORKERS", "2").start(Mode::Classic);
    let expected: Vec<_> = (1..=CLIENTS).map(|n| n.to_string()).collect();
    for (way, proxy) in stores.drivers() {
        let ask = || vec![server.send("in_tasks", &format!("query:{way}"))];
        let mut clients = wait_for_store(&server, way, proxy.gate(Direction::ToClient), ask);
        assert_eq!(json(&clients[0].response().text()), json!(expected), "{way}");
    }
    assert_never_blocked(&server.svc);
}

#[test]
fn one_thread_accepts_connections() {
    let server = one_thread(TaskServer::new(CODE), "net").start(Mode::Worker);
    let mut clients: Vec<_> = (0..CLIENTS).map(|_| server.send("accepts", "1")).collect();
    eventually("all listen", || server.lines("listening").len() == CLIENTS);
    for (n, port) in server.lines("listening").iter().enumerate() {
        let mut client = Client::connect(([127, 0, 0, 1], port.parse().unwrap()).into());
        client.send(format!("<{n}>"));
        let reversed: String = format!("<{n}>").chars().rev().collect();
        assert_eq!(String::from_utf8(client.rest()).unwrap(), reversed);
    }
    let mut texts: Vec<_> = clients.iter_mut().map(|client| client.response().text()).collect();
    let mut expected: Vec<_> = (0..CLIENTS).map(|n| format!("\"<{n}>\"")).collect();
    texts.sort();
    expected.sort();
    assert_eq!(texts, expected);
    assert_never_blocked(&server.svc);
}

#[test]
fn without_the_hook_a_thread_waits_for_one_at_a_time() {
    let backend = Backend::tcp(svc_testing::waits::held_path);
    let code = format!(
        "{}const CA = '';\nconst HTTP = '{}';\n{CODE}",
        svc_testing::waits::OVER_HTTP,
        backend.address()
    );
    for hooks in ["none", "sleep,process"] {
        let server = one_thread(TaskServer::new(&code), hooks).start(Mode::Worker);
        let before = backend.accepted();
        let clients: Vec<_> = (1..=3).map(|n| server.send("asked", &format!("by_curl:{n}"))).collect();
        for n in 1..=3 {
            backend.gate().wait_until_held(1);
            assert_eq!(backend.accepted() - before, n, "{hooks}");
            backend.gate().release(1);
            eventually("it passed", || backend.gate().held() == 0 || backend.accepted() - before > n);
        }
        assert_answers(clients, "by_curl");
    }
}
