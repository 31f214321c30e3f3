//! Two requests of one thread that need the same connection: servers for such tests, and checks of the outcome.

use serde_json::Value;

use crate::client::{Client, eventually};
use crate::tasks::{TaskServer, TaskSvc};

/// Returns a server with one worker and the hook `net`, whose code has these constants.
pub fn server_with(code: &str, constants: &Value) -> TaskServer {
    let constants = constants.to_string();
    let define =
        format!("foreach (json_decode('{constants}', true) as $name => $value) define($name, $value);");
    TaskServer::new(&format!("{define}\n{code}")).set("RUNTIME_HOOKS", "net").set("PHP_WORKERS", "1")
}

/// Sends a request that creates the mark `look` and then must wait: the only thread answers the next request meanwhile.
#[track_caller]
pub fn looks_in_vain(server: &TaskSvc, function: &str, n: &str) -> Client {
    let before = server.lines("look").len();
    let client = server.send(function, n);
    eventually("it looks", || server.lines("look").len() > before);
    // An answer proves that the thread is free.
    server.tell("strrev");
    client
}

/// Asserts that the response has this text.
#[track_caller]
pub fn answers(client: &mut Client, expected: &str) {
    let response = client.response();
    assert_eq!((response.status, response.text().as_str()), (200, expected));
}
