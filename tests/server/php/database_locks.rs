//! SQLite beside other processes and threads: its locks while other requests read the files of the database, and its memory.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};

use svc_testing::c;
use svc_testing::client::eventually;
use svc_testing::tasks::{PLACES, TaskServer, TaskSvc};

const CODE: &str = r#"
const FILE = DIR . '/public/data.bin';
function open(string $driver): PDO|SQLite3
{
    if ($driver === 'pdo') {
        return new PDO('sqlite:' . FILE, options: [PDO::ATTR_TIMEOUT => 0]);
    }
    $db = new SQLite3(FILE, $driver === 'read-only' ? SQLITE3_OPEN_READONLY : SQLITE3_OPEN_READWRITE | SQLITE3_OPEN_CREATE);
    $db->enableExceptions(true);
    return $db;
}
function creates(string $journal): bool
{
    open('pdo')->exec("PRAGMA journal_mode = $journal; CREATE TABLE t (a); INSERT INTO t VALUES (1), (2), (3)");
    return true;
}
/** Holds a lock until the test releases it. */
function holds(string $n): bool
{
    [$driver, $lock] = explode('.', $n);
    $db = open($driver);
    // Keeps the index of the write-ahead log open.
    $beside = open($driver);
    $beside->query('SELECT count(*) FROM t');
    if ($lock === 'reading') {
        // The reader keeps what another process would move from the log.
        open('pdo')->exec('INSERT INTO t VALUES (6)');
        $rows = $db->query('SELECT a FROM t');
        $rows instanceof PDOStatement ? $rows->fetch() : $rows->fetchArray();
    } else {
        $db->exec("BEGIN $lock");
    }
    mark('holds');
    until('release');
    if ($lock !== 'reading') {
        $db->exec('ROLLBACK');
    }
    return true;
}
/** Opens and closes the files of the database in this way. */
function opens_by(string $way): bool
{
    foreach (glob(FILE . '*') as $file) {
        match ($way) {
            'md5_file' => md5_file($file),
            'copy' => copy($file, sys_get_temp_dir() . '/copied'),
            'file_get_contents' => strlen(file_get_contents($file)),
            'finfo' => (new finfo())->file($file),
            'pdo', 'sqlite3', 'read-only' => open($way),
        };
    }
    return true;
}
/** Forks a child that ends, and with it the connection that it has inherited. */
function holds_and_forks(string $n): bool
{
    $db = open($n);
    $db->exec('BEGIN IMMEDIATE');
    $child = pcntl_fork();
    if ($child === 0) {
        exit;
    }
    pcntl_waitpid($child, $status);
    mark('holds');
    until('release');
    return true;
}
function writes(string $driver): bool
{
    $db = open($driver);
    $db->exec('BEGIN IMMEDIATE; INSERT INTO t VALUES (4)');
    $db->exec('ROLLBACK');
    return true;
}
"#;

const DRIVERS: [&str; 2] = ["pdo", "sqlite3"];
const WAYS: [&str; 7] = ["md5_file", "copy", "file_get_contents", "finfo", "pdo", "sqlite3", "read-only"];

/// Writes to the database, empties its write-ahead log, or holds a lock until the standard input ends.
const OTHER: &str = r#"
import sqlite3, sys
try:
    db = sqlite3.connect(sys.argv[1], timeout=0, isolation_level=None)
    if sys.argv[2] == 'checkpoint':
        print('locked' if db.execute('PRAGMA wal_checkpoint(TRUNCATE)').fetchone()[0] else 'written')
    else:
        db.execute('BEGIN IMMEDIATE')
        db.execute('INSERT INTO t VALUES (5)')
        if sys.argv[2] == 'hold':
            print('holds', flush=True)
            sys.stdin.read()
        db.execute('COMMIT')
        if sys.argv[2] != 'hold':
            print('written')
except sqlite3.OperationalError as error:
    print('locked' if 'locked' in str(error) else error)
"#;

/// Debian's own Python has SQLite. Starts another process on the database.
fn other(server: &TaskSvc, action: &str) -> Command {
    let mut command = Command::new("/usr/bin/python3");
    command.args(["-c", OTHER]).arg(server.path("public/data.bin")).arg(action);
    command
}

/// Runs another process on the database.
fn other_process(server: &TaskSvc, action: &str) -> String {
    let output = other(server, action).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

/// Another process that holds a lock on the database.
fn hold(server: &TaskSvc) -> Child {
    let mut child = other(server, "hold").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(line, "holds\n");
    child
}

fn server() -> TaskServer {
    TaskServer::new(CODE).set("PHP_WORKERS", "3")
}

/// Starts a server with a database in each journal mode.
fn with_each_journal(check: impl Fn(&TaskSvc)) {
    for journal in ["delete", "wal"] {
        println!("{journal}");
        server().in_each_mode(|server| {
            assert_eq!(server.send("creates", journal).response().text(), "true");
            check(server);
        });
    }
}

/// Has a request hold a lock while others open the files, and asserts that another process is kept out until the request
/// releases it.
#[track_caller]
fn keeps_out(server: &TaskSvc, function: &str, n: &str, action: &str, ways: &[&str]) {
    server.unmark(&["holds", "release"]);
    let mut client = server.send(function, n);
    eventually("the request holds the lock", || server.path("holds").exists());
    assert_eq!(other_process(server, action), "locked", "{function} {n}: before");
    for way in ways {
        let response = server.send("opens_by", way).response();
        assert_eq!(response.text(), "true", "{way}");
        assert_eq!(other_process(server, action), "locked", "{function} {n}: {way}");
    }
    assert_eq!(server.svc.get("/data.bin").status, 200);
    assert_eq!(other_process(server, action), "locked", "{function} {n}: a download");
    server.mark("release");
    assert_eq!(client.response().text(), "true");
    eventually("the lock is released", || other_process(server, action) == "written");
}

#[test]
fn another_process_is_kept_out_while_requests_read_the_file() {
    for (journal, locks) in [
        ("delete", [("immediate", "write"), ("exclusive", "write"), ("reading", "write")]),
        ("wal", [("immediate", "write"), ("exclusive", "write"), ("reading", "checkpoint")]),
    ] {
        println!("{journal}");
        server().in_each_mode(|server| {
            assert_eq!(server.send("creates", journal).response().text(), "true");
            for place in PLACES {
                for driver in DRIVERS {
                    for (lock, action) in locks {
                        keeps_out(
                            server,
                            &format!("holds{place}"),
                            &format!("{driver}.{lock}"),
                            action,
                            &WAYS,
                        );
                    }
                }
            }
        });
    }
}

#[test]
fn another_process_is_kept_out_after_a_child_has_ended() {
    with_each_journal(|server| {
        for driver in DRIVERS {
            keeps_out(server, "holds_and_forks", driver, "write", &[]);
        }
    });
}

#[test]
fn requests_are_kept_out_by_another_process() {
    with_each_journal(|server| {
        for driver in DRIVERS {
            let mut child = hold(server);
            for way in WAYS {
                assert_eq!(server.send("opens_by", way).response().text(), "true", "{way}");
                let answer = server.send("writes", driver).response().text();
                assert!(answer.contains("database is locked"), "{driver}: {answer}");
            }
            drop(child.stdin.take());
            child.wait().unwrap();
            eventually("the lock is released", || server.send("writes", driver).response().text() == "true");
        }
    });
}

#[test]
fn requests_write_beside_a_connection_that_only_reads() {
    server().in_each_mode(|server| {
        assert_eq!(server.send("creates", "delete").response().text(), "true");
        let mut client = server.send("holds", "read-only.reading");
        eventually("the request reads", || server.path("holds").exists());
        for driver in DRIVERS {
            assert_eq!(server.send("writes", driver).response().text(), "true");
        }
        server.mark("release");
        assert_eq!(client.response().text(), "true");
    });
}

#[test]
fn descriptors_for_locks_are_closed_with_the_connections() {
    server().in_each_mode(|server| {
        assert_eq!(server.send("creates", "wal").response().text(), "true");
        let opened = |count: usize| {
            for _ in 0..count {
                assert_eq!(server.send("writes", "pdo").response().text(), "true");
            }
            server.svc.metric("process_open_fds")
        };
        let before = opened(3);
        assert!(opened(50) < before + 20.0);
    });
}

/// The counter has one mutex for all threads.
#[test]
fn sqlite_counts_no_memory() {
    let folder = tempfile::tempdir().unwrap();
    let library = folder.path().join("sqlite_memory.so");
    c::extension(include_str!("../../php/sqlite_memory.c"), &library);
    let code = "function used(): ?int { $db = new PDO('sqlite::memory:'); $db->exec('CREATE TABLE t (a)'); return test_sqlite_memory(); }";
    TaskServer::new(code).directive(&format!("extension={}", library.display())).in_each_mode(|running| {
        for place in PLACES {
            assert_eq!(running.tell(&format!("used{place}")), "0");
        }
    });
}
