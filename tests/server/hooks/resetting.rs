//! The end of a request resets its connections: meanwhile they are not lent, and one that cannot be reset is closed.

use serde_json::json;

use svc_testing::client::eventually;
use svc_testing::databases::{self, PASSWORD, USER};
use svc_testing::proxy::{Direction, Proxy};
use svc_testing::tasks::{Mode, TaskSvc, assert_like};
use svc_testing::turns::{answers, looks_in_vain, server_with};

const CODE: &str = r#"
class Held { public static $db; }
function open(mixed $persists): PDO { return new PDO(DSN, USER, PASSWORD, [PDO::ATTR_ERRMODE => PDO::ERRMODE_EXCEPTION, PDO::ATTR_PERSISTENT => $persists]); }
function leave_when_told(PDO $db) { $db->beginTransaction(); mark('begun', identity($db)); until('leave'); return 7; }
function leave_held() { return leave_when_told(Held::$db); }
function leave_persistent() { return leave_when_told(persistent()); }
function leave_persistent_and_held() { identity(Held::$db); return leave_when_told(persistent('other')); }
function persistent(string $id = 'one'): PDO { return open($id); }
function identity(PDO $db): string { return (string) $db->query(str_starts_with(DSN, 'mysql:') ? 'SELECT CONNECTION_ID()' : 'SELECT pg_backend_pid()')->fetchColumn(); }
function look_at_held() { mark('look'); return identity(Held::$db); }
function look_at_persistent() { mark('look'); return identity(persistent()); }
function look_at_other_persistent() { mark('look'); return identity(persistent('other')); }
function outlast_patience() { Svc\sleep(1.2); return 7; }
"#;

/// Runs a test with each database server behind a proxy.
fn with_proxies(test: impl Fn(&TaskSvc, &Proxy)) {
    for database in [databases::mariadb(), databases::postgres()].into_iter().flatten() {
        let proxy = Proxy::tcp(database.address());
        let dsn = database.dsn_on(proxy.address().port());
        println!("{dsn}");
        let constants = json!({"DSN": dsn, "USER": USER, "PASSWORD": PASSWORD});
        let server = server_with(CODE, &constants).set("RUNTIME_HOOKS", "all");
        test(&server.start_with(Mode::Worker, "Held::$db = open(false);"), &proxy);
    }
}

/// The owner has ended its script and waits for the server to roll its transaction back. A request that borrowed the connection
/// would write into that exchange.
#[test]
fn a_connection_is_not_lent_while_its_owner_resets_it() {
    with_proxies(|server, proxy| {
        let queries = proxy.gate(Direction::ToServer);
        // A persistent connection is the owner's in the first round, and one of the shared ones in the second.
        for (owner, other) in [
            ("leave_held", "look_at_held"),
            ("leave_persistent", "look_at_persistent"),
            ("leave_persistent_and_held", "look_at_other_persistent"),
            ("leave_persistent", "look_at_persistent"),
            ("leave_persistent_and_held", "look_at_other_persistent"),
        ] {
            println!("{owner}");
            server.unmark(&["begun", "leave"]);
            let mut owner = server.send(owner, "0");
            server.until("begun");
            let connection = server.lines("begun").remove(0);
            queries.close();
            server.mark("leave");
            queries.wait_until_held(1);
            let mut other = looks_in_vain(server, other, "0");
            assert_eq!(server.tell("outlast_patience"), "7");
            queries.open();
            answers(&mut owner, "7");
            answers(&mut other, &format!("{connection:?}"));
        }
    });
}

/// The server does not answer when the end of the owner rolls its transaction back.
#[test]
fn a_connection_that_cannot_be_reset_is_closed() {
    with_proxies(|server, proxy| {
        let mut owner = server.send("leave_held", "0");
        server.until("begun");
        let connection = format!("{:?}", server.lines("begun").remove(0));
        let queries = proxy.gate(Direction::ToServer);
        queries.close();
        server.mark("leave");
        let mut other = looks_in_vain(server, "look_at_held", "0");
        answers(&mut owner, "7");
        assert_like(&other.response().text(), "*Exception: *");
        queries.open();
        eventually("a worker with another connection serves", || {
            let text = server.tell("look_at_held");
            text != connection && text.starts_with('"')
        });
    });
}
