//! Two requests of one thread that want the same connection: servers for such tests, and what is to be seen of it.

use serde_json::Value;

use crate::support::client::{Client, eventually};
use crate::tasks::{TaskServer, TaskSvc};

/// A server with one worker and the hook `net`, whose code knows these constants.
pub(crate) fn server_with(code: &str, constants: &Value) -> TaskServer {
    let constants = constants.to_string();
    let define =
        format!("foreach (json_decode('{constants}', true) as $name => $value) define($name, $value);");
    TaskServer::new(&format!("{define}\n{code}")).set("RUNTIME_HOOKS", "net").set("PHP_WORKERS", "1")
}

/// Sends a request that marks `look` and then cannot go on: the next request of the only thread is answered meanwhile.
#[track_caller]
pub(crate) fn looks_in_vain(server: &TaskSvc, function: &str, n: &str) -> Client {
    let before = server.lines("look").len();
    let client = server.send(function, n);
    eventually("it looks", || server.lines("look").len() > before);
    // The thread is free.
    server.tell("strrev");
    client
}

/// The response is this text.
#[track_caller]
pub(crate) fn answers(client: &mut Client, expected: &str) {
    let response = client.response();
    assert_eq!((response.status, response.text().as_str()), (200, expected));
}
