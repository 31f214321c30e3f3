//! The runtime hook `net` when the server at the other end goes away.
#![cfg(feature = "php")]

use crate::hooked::{assert_serves, one_thread};
use crate::proxy::Direction;
use crate::tasks::Mode;
use crate::waits::Stores;

#[test]
fn a_server_that_dies_in_its_answer_ends_the_query() {
    let stores = Stores::new();
    let server = one_thread(stores.server(""), "net").start(Mode::Worker);
    for (way, proxy) in stores.drivers() {
        let (mut failed, mut count) = (0, 0);
        // Ever further into the conversation, until it is over.
        loop {
            proxy.cut_after(Direction::ToClient, count);
            let answer = server.send("tries", way).response().text();
            if answer == "\"whole\"" {
                break;
            }
            assert_eq!(answer, "\"failed\"", "{way} after {count} bytes");
            failed += 1;
            // TLS and its certificates are long.
            count += 1 + count / 7;
        }
        assert!(failed > 3, "{way} {failed}");
        proxy.cut_after(Direction::ToClient, usize::MAX);
        assert_serves(&server);
    }
}
