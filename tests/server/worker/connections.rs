//! Connections of requests that take turns on one thread: `pg_connect()` finds only the request's own connections again.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use svc_testing::Svc;
use svc_testing::client::{Client, eventually};

const WORKER: &str = r#"<?php
const NAME = 'host=127.0.0.1 port=PORT user=x sslmode=disable gssencmode=disable';
if (BOOTS) {
    final class Kept { public static ?PgSql\Connection $connection = null; }
    Kept::$connection = pg_connect(NAME);
}
function standard(): ?string
{
    try {
        return @pg_parameter_status('number');
    } catch (Error) {
        return null;
    }
}
Svc\Worker::serve(function () {
    $seen = [standard()];
    $connection = isset($_GET['connect']) ? pg_connect(NAME) : null;
    $seen[] = standard();
    if (isset($_GET['forget'])) {
        Kept::$connection = null;
    }
    if (isset($_GET['stay'])) {
        touch(__DIR__ . "/inside-{$_GET['stay']}");
        while (!file_exists(__DIR__ . "/go-{$_GET['stay']}")) {
            Svc\sleep(0.002);
            clearstatcache();
        }
    }
    $again = $connection ? pg_connect(NAME) : null;
    $seen[] = $again === $connection;
    $seen[] = standard();
    echo json_encode($seen);
});"#;

/// The part of a PostgreSQL server that libpq needs to consider a connection open.
struct Postgres {
    port: u16,
    open: Arc<AtomicUsize>,
}

impl Postgres {
    fn start() -> Postgres {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let open = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&open);
        std::thread::spawn(move || {
            for (number, client) in listener.incoming().enumerate() {
                let (client, count) = (client.unwrap(), Arc::clone(&count));
                count.fetch_add(1, Ordering::SeqCst);
                std::thread::spawn(move || {
                    converse(client, number + 1);
                    count.fetch_sub(1, Ordering::SeqCst);
                });
            }
        });
        Postgres { port, open }
    }

    fn open(&self) -> usize {
        self.open.load(Ordering::SeqCst)
    }
}

/// Answers the start of a connection with its `number`, and reads until the client leaves.
fn converse(mut client: TcpStream, number: usize) {
    let mut length = [0; 4];
    client.read_exact(&mut length).unwrap();
    let mut parameters = vec![0; u32::from_be_bytes(length) as usize - 4];
    client.read_exact(&mut parameters).unwrap();
    let parameter = format!("number\0{number}\0");
    let mut answer = b"R\0\0\0\x08\0\0\0\0S\0\0\0".to_vec();
    answer.push(u8::try_from(4 + parameter.len()).unwrap());
    answer.extend(parameter.as_bytes());
    answer.extend(b"Z\0\0\0\x05I");
    client.write_all(&answer).unwrap();
    while client.read(&mut [0; 64]).is_ok_and(|read| read > 0) {}
}

fn start(postgres: &Postgres, boots: bool) -> Svc {
    let worker = WORKER.replace("PORT", &postgres.port.to_string()).replace("BOOTS", &boots.to_string());
    let settings = [("PHP_WORKERS", "1"), ("WORKER_MODE_ENABLED", "true"), ("ENTRY_FILE", "worker.php")];
    Svc::start_with(&[("worker.php", &worker)], &settings, &[])
}

fn stay(svc: &Svc, path: &str, name: &str) -> Client {
    let mut client = svc.client();
    client.send(format!("GET {path}stay={name} HTTP/1.1\r\nHost: x\r\n\r\n"));
    eventually("the request is inside", || svc.root().join(format!("inside-{name}")).exists());
    client
}

fn leave(svc: &Svc, client: &mut Client, name: &str) -> String {
    std::fs::write(svc.root().join(format!("go-{name}")), "").unwrap();
    client.response().text()
}

#[test]
fn a_connection_is_the_requests_that_opened_it() {
    let postgres = Postgres::start();
    let svc = start(&postgres, false);
    let mut first = stay(&svc, "/?connect&", "first");
    assert_eq!(svc.get("/").text(), "[null,null,true,null]", "the default connection is the request's own");
    let mut second = stay(&svc, "/?connect&", "second");
    assert_eq!(svc.get("/?connect").text(), "[null,\"3\",true,\"3\"]");
    assert_eq!(leave(&svc, &mut first, "first"), "[null,\"1\",true,\"1\"]");
    assert_eq!(leave(&svc, &mut second, "second"), "[null,\"2\",true,\"2\"]");
    eventually("connections end with their requests", || postgres.open() == 0);
}

#[test]
fn the_boot_scripts_connection_is_the_standard_and_not_found_again() {
    let postgres = Postgres::start();
    let svc = start(&postgres, true);
    assert_eq!(svc.get("/").text(), "[\"1\",\"1\",true,\"1\"]");
    let mut first = stay(&svc, "/?connect&", "first");
    assert_eq!(svc.get("/?forget").text(), "[\"1\",\"1\",true,\"1\"]");
    assert_eq!(leave(&svc, &mut first, "first"), "[\"1\",\"2\",true,\"2\"]");
    assert_eq!(svc.get("/?connect").text(), "[\"1\",\"3\",true,\"3\"]");
    eventually("connections end with their requests", || postgres.open() == 1);
}
