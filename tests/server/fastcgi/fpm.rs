//! The FastCGI executor in front of a php-fpm, whatever happens to that: its end costs the requests that it had, and no
//! others.

use std::collections::BTreeSet;
use std::fs;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use rustix::process::{Signal, kill_process};

use svc_testing::Svc;
use svc_testing::books::check_books;
use svc_testing::client::{Client, eventually};
use svc_testing::fpm::Fpm;

const PID: (&str, &str) = ("pid.php", "<?php echo getmypid();");

/// Runs until a file exists.
const WAIT: (&str, &str) = (
    "wait.php",
    "<?php touch(__DIR__ . '/inside-' . $_GET['n']);
    while (!file_exists(__DIR__ . '/go')) { usleep(1000); clearstatcache(); } echo 'waited';",
);

fn in_front_of(fpm: &Fpm, settings: &[(&str, &str)], directives: &[&str]) -> Svc {
    let addr = fpm.addr();
    let own = [("EXECUTOR", "fastcgi"), ("FASTCGI_ADDR", addr.as_str())];
    Svc::start_with(&[PID, WAIT], &[&own[..], settings].concat(), directives)
}

/// Sends a request that waits, and returns its connection once the script runs.
fn wait_inside(svc: &Svc, number: usize) -> Client {
    let client = send_waiting(svc, number);
    eventually("the script runs", || svc.root().join(format!("inside-{number}")).exists());
    client
}

fn send_waiting(svc: &Svc, number: usize) -> Client {
    let mut client = svc.client();
    client.send(format!("GET /wait.php?n={number} HTTP/1.1\r\nHost: x\r\n\r\n"));
    client
}

fn go(svc: &Svc) {
    fs::write(svc.root().join("go"), "").unwrap();
}

/// Asserts the number of requests that were lost, and that the metrics agree with each other.
#[track_caller]
fn has_lost(svc: &Svc, count: u32) {
    svc.assert_metric("svc_dropped_requests_total", f64::from(count));
    svc.assert_metric("svc_busy_workers", 0.0);
    check_books(svc);
}

/// A client of php-fpm beside svc, which keeps a worker of the pool busy with [`WAIT`].
struct Rival(UnixStream);

impl Rival {
    fn send(fpm: &Fpm, svc: &Svc, number: usize) -> Self {
        let mut stream = UnixStream::connect(fpm.socket()).unwrap();
        let script = svc.root().join(WAIT.0);
        let query = format!("n={number}");
        let parameters = [
            ("REQUEST_METHOD", "GET"),
            ("SCRIPT_FILENAME", script.to_str().unwrap()),
            ("QUERY_STRING", &query),
        ];
        let pair = |(name, value): &(&str, &str)| {
            [&[name.len() as u8, value.len() as u8], name.as_bytes(), value.as_bytes()].concat()
        };
        let parameters = parameters.iter().flat_map(pair).collect::<Vec<_>>();
        let record =
            |kind: u8, content: &[u8]| [&[1, kind, 0, 1, 0, content.len() as u8, 0, 0], content].concat();
        let begin = record(1, &[0, 1, 0, 0, 0, 0, 0, 0]);
        let request = [begin, record(4, &parameters), record(4, b""), record(5, b"")].concat();
        stream.write_all(&request).unwrap();
        Self(stream)
    }

    fn run(fpm: &Fpm, svc: &Svc, number: usize) -> Self {
        let rival = Self::send(fpm, svc, number);
        eventually("its script runs", || svc.root().join(format!("inside-{number}")).exists());
        rival
    }

    fn response(mut self) -> String {
        let mut response = Vec::new();
        self.0.read_to_end(&mut response).unwrap();
        String::from_utf8_lossy(&response).into_owned()
    }
}

#[test]
fn a_pool_is_used_as_it_is_configured() {
    let Some(fpm) = Fpm::start("pm.max_children = 2\nphp_admin_value[memory_limit] = 77M") else { return };
    let svc = in_front_of(&fpm, &[], &[]);
    fs::write(svc.root().join("limit.php"), "<?php echo ini_get('memory_limit'), PHP_SAPI;").unwrap();
    let mut client = svc.client();
    assert_eq!(client.get("/limit.php").text(), "77Mfpm-fcgi");
    let workers: BTreeSet<_> = fpm.workers().iter().map(|pid| pid.as_raw_nonzero().to_string()).collect();
    for _ in 0..8 {
        assert!(workers.contains(&client.get("/pid.php").text()));
    }
    drop(client);
    has_lost(&svc, 0);
}

#[test]
fn a_killed_worker_loses_its_own_request() {
    let Some(fpm) = Fpm::start("pm.max_children = 2") else { return };
    for (number, signal) in [Signal::KILL, Signal::SEGV].into_iter().enumerate() {
        let svc = in_front_of(&fpm, &[], &[]);
        let script = "<?php file_put_contents(__DIR__ . '/pid', getmypid()); sleep(60);";
        fs::write(svc.root().join("sleep.php"), script).unwrap();
        let mut client = svc.client();
        client.send("GET /sleep.php HTTP/1.1\r\nHost: x\r\n\r\n");
        let mut other = wait_inside(&svc, number);
        let pid = || {
            let text = fs::read_to_string(svc.root().join("pid")).unwrap_or_default();
            fpm.workers().into_iter().find(|pid| pid.as_raw_nonzero().to_string() == text)
        };
        eventually("the script runs", || pid().is_some());
        kill_process(pid().unwrap(), signal).unwrap();
        assert_eq!(client.response().status, 502);
        let record = svc.log().expect("FastCGI responder failed");
        assert_eq!(record["fields"]["reason"], "the connection was closed before the end of the response");
        go(&svc);
        assert_eq!(other.response().text(), "waited");
        drop((client, other));
        has_lost(&svc, 1);
        assert_eq!(svc.get("/pid.php").status, 200);
        assert_eq!(svc.ask("/readyz").status, 200);
    }
}

#[test]
fn a_reload_under_load_loses_no_request() {
    let Some(fpm) = Fpm::start("pm.max_children = 4") else { return };
    let svc = in_front_of(&fpm, &[("PHP_WORKERS", "4")], &[]);
    let before: BTreeSet<_> = fpm.workers().iter().map(|pid| pid.as_raw_nonzero().get()).collect();
    let has_finished = AtomicBool::new(false);
    thread::scope(|scope| {
        let load = || {
            let mut client = svc.client();
            while !has_finished.load(Ordering::Relaxed) {
                let response = client.get("/pid.php");
                assert_eq!(response.status, 200, "{}", response.text());
            }
        };
        let clients: Vec<_> = (0..4).map(|_| scope.spawn(load)).collect();
        for _ in 0..3 {
            fpm.reload();
        }
        has_finished.store(true, Ordering::Relaxed);
        clients.into_iter().for_each(|client| client.join().unwrap());
    });
    assert!(!before.contains(&svc.get("/pid.php").text().parse().unwrap()));
    has_lost(&svc, 0);
}

#[test]
fn a_php_fpm_that_stops_loses_its_requests_and_restarts() {
    // Whether or not it leaves its socket behind.
    type End = fn(&Fpm);
    let ends: [(&str, End); 2] = [("stopped", Fpm::stop), ("killed", Fpm::kill)];
    for (what, end) in ends {
        let Some(fpm) = Fpm::start("pm.max_children = 2") else { return };
        let svc = in_front_of(&fpm, &[], &[]);
        let mut client = wait_inside(&svc, 0);
        end(&fpm);
        assert_eq!(client.response().status, 502, "{what}");
        drop(client);
        eventually("no worker is left", || svc.metric("svc_workers_current") == 0.0);
        assert_eq!(svc.get("/pid.php").status, 500, "{what}");
        let probes = ["/readyz", "/startupz", "/healthz"].map(|path| svc.ask(path).status);
        assert_eq!(probes, [503, 503, 200], "{what}");
        assert!(svc.metric("svc_admission_refused_total{reason=\"pool_unavailable\"}") >= 1.0);
        has_lost(&svc, 1);
        fpm.start_again();
        eventually("the workers are back", || svc.ask("/readyz").status == 200);
        assert_eq!(svc.get("/pid.php").status, 200, "{what}");
        has_lost(&svc, 1);
    }
}

#[test]
fn a_removed_socket_ends_no_running_request() {
    let Some(fpm) = Fpm::start("pm.max_children = 2") else { return };
    let svc = in_front_of(&fpm, &[], &[]);
    let mut client = wait_inside(&svc, 0);
    let (path, aside) = (fpm.socket(), fpm.socket().with_extension("aside"));
    fs::rename(&path, &aside).unwrap();
    svc.log().expect("FastCGI address cannot be reached");
    go(&svc);
    assert_eq!(client.response().text(), "waited");
    drop(client);
    eventually("no worker is left", || svc.metric("svc_workers_current") == 0.0);
    assert_eq!(svc.get("/pid.php").status, 500);
    fs::rename(&aside, &path).unwrap();
    eventually("the workers are back", || svc.ask("/readyz").status == 200);
    assert_eq!(svc.get("/pid.php").status, 200);
    has_lost(&svc, 0);
}

#[test]
fn requests_wait_while_another_client_has_the_pool() {
    let Some(fpm) = Fpm::start("pm.max_children = 1") else { return };
    let svc = in_front_of(&fpm, &[], &[]);
    let rival = Rival::run(&fpm, &svc, 0);
    // As many as the workers of svc, in the backlog of php-fpm; one of the clients leaves.
    let (mut patient, leaving) = (send_waiting(&svc, 1), send_waiting(&svc, 2));
    eventually("both are busy", || svc.metric("svc_busy_workers") == 2.0);
    drop(leaving);
    svc.assert_metric("svc_request_cancelled_total{reason=\"client_abort\"}", 1.0);
    svc.assert_metric("svc_busy_workers", 1.0);
    go(&svc);
    assert!(rival.response().contains("waited"));
    assert_eq!(patient.response().text(), "waited");
    drop(patient);
    has_lost(&svc, 0);
}

#[test]
fn the_time_limit_holds_while_another_client_has_the_pool() {
    // A backlog of none is full with one connection, which nothing accepts; the probes of svc take part.
    for backlog in ["", "listen.backlog = 0"] {
        let Some(fpm) = Fpm::start(&format!("pm.max_children = 1\n{backlog}")) else { return };
        let svc = in_front_of(&fpm, &[("PHP_WORKERS", "1")], &["max_execution_time=3"]);
        let rival = Rival::run(&fpm, &svc, 0);
        thread::scope(|scope| {
            // Blocks if a probe of svc has filled the backlog.
            let next = scope.spawn(|| Rival::send(&fpm, &svc, 1).response());
            assert_eq!(svc.get("/pid.php").status, 504);
            svc.assert_metric("svc_request_cancelled_total{reason=\"timeout\"}", 1.0);
            assert_eq!(svc.ask("/readyz").status, 200, "a pool that is busy is reachable");
            go(&svc);
            assert!(rival.response().contains("waited") && next.join().unwrap().contains("waited"));
        });
        assert_eq!(svc.get("/pid.php").status, 200);
        has_lost(&svc, 0);
    }
}
