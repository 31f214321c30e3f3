//! A bank on one connection per worker, and on one per request: 64 clients make transfers in transactions, a third of which
//! stay unfinished. Money is neither lost nor duplicated, and no request reads the answer of another one.
//!
//! `SVC_BANK_SECONDS` is the duration; a few seconds by default.

use std::collections::HashSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use svc_testing::databases::{self, Database, PASSWORD, USER};
use svc_testing::fetched::fetched;
use svc_testing::tasks::{Mode, TaskServer};

const CLIENTS: usize = 64;
const ACCOUNTS: usize = 8;
const DEPOSIT: i64 = 1000;

const CODE: &str = r#"
class Bank { public static $db, $redis; }
/** A request that reads another token has read another request's answer. */
function ask(string $token): void
{
    $statement = Bank::$db->prepare('SELECT ?');
    $statement->execute([$token]);
    foreach ($statement as $row) { if ($row[0] !== $token) { throw new Error("foreign row: $row[0] for $token"); } }
    if (Bank::$redis !== null) {
        $answer = Bank::$redis->echo($token);
        if ($answer !== $token) { throw new Error("foreign answer: $answer for $token"); }
    }
}
function transfer(string $n): string
{
    [$token, $from, $to, $amount, $end] = explode('-', $n);
    if ($amount % 2 === 1 && Bank::$redis !== null) { Bank::$redis->multi(); Bank::$redis->get($token); Bank::$redis->exec(); }
    Bank::$db->beginTransaction();
    ask($token);
    $rows = Bank::$db->query('SELECT id FROM accounts ORDER BY id FOR UPDATE')->fetchAll();
    Bank::$db->prepare('UPDATE accounts SET balance = balance - ? WHERE id = ?')->execute([$amount, $from]);
    if ($end !== 'commit') { Svc\sleep(0.001); }
    match ($end) {
        'exit' => exit('left'),
        'throw' => throw new Exception('thrown'),
        'fatal' => str_repeat('x', PHP_INT_MAX >> 4),
        'limit' => set_time_limit(1) && Svc\sleep(60),
        'redis' => Bank::$redis?->multi() && exit('left'),
        default => null,
    };
    Bank::$db->prepare('UPDATE accounts SET balance = balance + ? WHERE id = ?')->execute([$amount, $to]);
    Bank::$db->prepare('INSERT INTO ledger VALUES (?, ?, ?, ?)')->execute([$token, $from, $to, $amount]);
    ask($token);
    Bank::$db->commit();
    return count($rows) === 8 ? 'done' : 'too few rows';
}
"#;

const MAKE: &str = r#"
function make_db() { return new PDO(DSN, USER, PASSWORD, [PDO::ATTR_ERRMODE => PDO::ERRMODE_EXCEPTION]); }
function make_redis() { $redis = new Redis; $redis->connect('127.0.0.1', STORE); return $redis; }
"#;

const SHARED: &str = "Bank::$db = make_db(); if (STORE !== 0) { Bank::$redis = make_redis(); }";

const OWN: &str = r#"
Bank::$db = Svc\per_request(PDO::class, make_db(...), fn (PDO $db) => !$db->inTransaction() || $db->rollBack(), 8);
if (STORE !== 0) { Bank::$redis = Svc\per_request(Redis::class, make_redis(...), fn (Redis $redis) => $redis->discard() || true, 64); }
"#;

/// The outcomes of the transfers.
#[derive(Default)]
struct Books {
    done: Mutex<HashSet<String>>,
    /// Their clients left before the answer.
    unknown: Mutex<HashSet<String>>,
    strange: Mutex<Vec<String>>,
    count: AtomicUsize,
}

/// A transfer and its kind of end.
struct Transfer {
    token: String,
    path: String,
    end: &'static str,
}

fn transfer(client: usize, round: usize) -> Transfer {
    let end = match (client * 7 + round * 13) % 60 {
        0..6 => "exit",
        6..12 => "throw",
        12..14 => "redis",
        14..16 => "fatal",
        16 => "limit",
        17..20 => "leave",
        _ => "commit",
    };
    let token = format!("{client}.{round}");
    let (from, to) = ((client + round) % ACCOUNTS, (client * 3 + round * 5 + 1) % ACCOUNTS);
    let amount = 1 + (client + round) % 9;
    let path = format!("/?do=transfer&n={token}-{from}-{to}-{amount}-{end}");
    Transfer { token, path, end }
}

impl Books {
    fn enter(&self, transfer: &Transfer, status: u16, text: &str) {
        self.count.fetch_add(1, Ordering::Relaxed);
        let expected = match transfer.end {
            "commit" => status == 200 && text == "\"done\"",
            "exit" | "redis" => status == 200 && (text == "left" || text == "\"done\""),
            "throw" => status == 200 && text == "Exception: thrown",
            "fatal" => status == 500,
            _ => status == 504,
        };
        if text == "\"done\"" {
            self.done.lock().unwrap().insert(transfer.token.clone());
        } else if !expected {
            self.strange.lock().unwrap().push(format!("{}: {status} {text}", transfer.path));
        }
    }

    fn check(&self, database: &Database) {
        let strange = self.strange.lock().unwrap();
        assert!(
            strange.is_empty(),
            "{} of {:?}: {:#?}",
            strange.len(),
            self.count,
            &strange[..strange.len().min(9)]
        );
        let done = self.done.lock().unwrap();
        assert!(done.len() > DONE_MIN, "{} transfers", done.len());
        let ledger = database.query("SELECT token FROM ledger");
        let tokens: Vec<_> =
            ledger.as_array().unwrap().iter().map(|row| row[0].as_str().unwrap().to_owned()).collect();
        let distinct: HashSet<_> = tokens.iter().cloned().collect();
        assert_eq!(distinct.len(), tokens.len(), "nothing is booked twice");
        assert!(done.is_subset(&distinct), "what was done is booked: {:?}", done.difference(&distinct));
        let unknown = self.unknown.lock().unwrap();
        let others: Vec<_> = distinct.difference(&done).filter(|token| !unknown.contains(*token)).collect();
        assert!(others.is_empty(), "what was not done is not booked: {others:?}");
        let wrong = database.query(
            "SELECT id, balance FROM accounts a WHERE balance <> 1000 \
             + (SELECT coalesce(sum(amount), 0) FROM ledger WHERE target = a.id) \
             - (SELECT coalesce(sum(amount), 0) FROM ledger WHERE source = a.id)",
        );
        assert_eq!(wrong, json!([]), "balances are those of the ledger");
        println!("{:?} requests, {} transfers", self.count, done.len());
    }
}

/// A run must complete more transfers than this before its books are checked.
const DONE_MIN: usize = 100;

fn seconds() -> u64 {
    std::env::var("SVC_BANK_SECONDS").ok().map_or(4, |text| text.parse().unwrap())
}

fn open(database: &Database) {
    database.query("CREATE TABLE accounts (id INTEGER PRIMARY KEY, balance INTEGER)");
    database.query("CREATE TABLE ledger (token VARCHAR(40), source INTEGER, target INTEGER, amount INTEGER)");
    let rows: Vec<_> = (0..ACCOUNTS).map(|id| format!("({id}, {DEPOSIT})")).collect();
    database.query(&format!("INSERT INTO accounts VALUES {}", rows.join(", ")));
}

fn stays_in_balance(database: &Database, boot: &str) {
    open(database);
    let store = databases::redis().zip(fetched("php-extensions"));
    let port = store.as_ref().map_or(0, |(store, _)| store.address().port());
    let constants =
        json!({"DSN": database.dsn(), "USER": USER, "PASSWORD": PASSWORD, "STORE": port}).to_string();
    let define =
        format!("foreach (json_decode('{constants}', true) as $name => $value) define($name, $value);");
    let mut server = TaskServer::new(&format!("{define}\n{CODE}{MAKE}"))
        .set("ASYNC_WORKERS", "0")
        .set("RUNTIME_HOOKS", "net")
        .set("PHP_WORKERS", "4")
        .set("QUEUE_WAIT_TIMEOUT_MS", "60000");
    if let Some((_, extensions)) = &store {
        server = server.directive(&format!("extension={extensions}/redis.so"));
    }
    let server = server.start_with(Mode::Worker, boot);
    let books = Books::default();
    let end = Instant::now() + Duration::from_secs(seconds());
    // A slow machine gets more time for that number.
    let is_enough = |books: &Books| books.done.lock().unwrap().len() > DONE_MIN;
    let patience = Duration::from_secs(60);
    std::thread::scope(|scope| {
        for client in 0..CLIENTS {
            let (server, books) = (&server, &books);
            scope.spawn(move || {
                for round in 0.. {
                    let now = Instant::now();
                    if now > end && is_enough(books) || now > end + patience {
                        return;
                    }
                    let transfer = transfer(client, round);
                    let mut connection = server.svc.client();
                    connection.send(format!("GET {} HTTP/1.1\r\nHost: x\r\n\r\n", transfer.path));
                    if transfer.end == "leave" {
                        books.unknown.lock().unwrap().insert(transfer.token);
                        continue;
                    }
                    let response = connection.response();
                    books.enter(&transfer, response.status, &response.text());
                }
            });
        }
    });
    let rest = server.svc.get("/?do=transfer&n=last-0-1-1-commit");
    books.enter(
        &Transfer { token: "last".to_owned(), path: "last".to_owned(), end: "commit" },
        rest.status,
        &rest.text(),
    );
    server.svc.assert_metric("svc_busy_workers", 0.0);
    let foreign: Vec<Value> =
        server.svc.log().of("php").into_iter().filter(|line| line.to_string().contains("foreign")).collect();
    assert!(foreign.is_empty(), "{foreign:#?}");
    books.check(database);
}

#[test]
fn money_stays_in_balance_in_mariadb() {
    if let Some(database) = databases::mariadb() {
        stays_in_balance(&database, SHARED);
    }
}

#[test]
fn money_stays_in_balance_in_postgres() {
    if let Some(database) = databases::postgres() {
        stays_in_balance(&database, SHARED);
    }
}

#[test]
fn money_stays_in_balance_in_mariadb_with_a_connection_for_each_request() {
    if let Some(database) = databases::mariadb() {
        stays_in_balance(&database, OWN);
    }
}

#[test]
fn money_stays_in_balance_in_postgres_with_a_connection_for_each_request() {
    if let Some(database) = databases::postgres() {
        stays_in_balance(&database, OWN);
    }
}
