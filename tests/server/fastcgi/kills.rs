//! Processes that are killed under load: the requests that are lost are those that ran in them.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use svc_testing::Svc;
use svc_testing::books::check_books;
use svc_testing::client::eventually;
use svc_testing::dice::Dice;

use super::processes::{PID, has_php, start};

/// The number of requests, and the interval of the kills. `SVC_KILL_REQUESTS` sets another number.
const REQUESTS: usize = 4000;
const INTERVAL: Duration = Duration::from_millis(50);

const CLIENTS: usize = 6;
const WORKERS: &str = "4";

/// A request that was lost.
struct Loss {
    request_id: String,
    sent: Instant,
    answered: Instant,
}

/// The observations of the clients.
#[derive(Default)]
struct Seen {
    /// The number of requests that were sent.
    requests: AtomicUsize,
    /// The processes that have answered. One that is killed before that is replaced after a pause, which the requests
    /// would have to wait for.
    processes: Mutex<BTreeSet<i32>>,
}

/// Sends requests until there are enough; returns those that were lost.
fn load(svc: &Svc, seen: &Seen, requests: usize) -> Vec<Loss> {
    let mut client = svc.client();
    let mut losses = Vec::new();
    while seen.requests.fetch_add(1, Ordering::Relaxed) < requests {
        let sent = Instant::now();
        let response = client.get(&format!("/{}", PID.0));
        match response.status {
            200 => {
                seen.processes.lock().unwrap().insert(response.text().parse().unwrap());
            }
            500 => losses.push(Loss {
                request_id: response.field("x-request-id").unwrap().to_owned(),
                sent,
                answered: Instant::now(),
            }),
            other => panic!("{other}: {}", response.text()),
        }
    }
    losses
}

/// The end of a process: from the signal, which the process does not notice at once, to the end of its connections.
#[derive(Clone, Copy)]
struct Kill {
    sent: Instant,
    ended: Instant,
}

/// Returns whether a process no longer exists, apart from its exit status.
fn has_ended(pid: i32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit(") ").next().is_none_or(|rest| rest.is_empty() || rest.starts_with(['Z', 'X']))
}

/// Kills a random process at each interval until enough requests were sent; returns which.
fn kill(seen: &Seen, requests: usize) -> BTreeMap<i32, Kill> {
    let mut dice = Dice::new(37);
    let mut kills = BTreeMap::new();
    while seen.requests.load(Ordering::Relaxed) < requests {
        // The rate of the kills; nothing is expected within this time.
        thread::park_timeout(INTERVAL);
        let mut processes = seen.processes.lock().unwrap();
        let living: Vec<_> = processes.iter().copied().filter(|pid| !kills.contains_key(pid)).collect();
        if living.is_empty() {
            continue;
        }
        let victim = living[dice.below(living.len() as u64) as usize];
        processes.remove(&victim);
        drop(processes);
        let sent = Instant::now();
        kill_process(Pid::from_raw(victim).unwrap(), Signal::KILL).unwrap();
        eventually("it has ended", || has_ended(victim));
        kills.insert(victim, Kill { sent, ended: Instant::now() });
    }
    kills
}

#[test]
fn a_process_killed_under_load_loses_its_request() {
    if !has_php() {
        return;
    }
    let requests = std::env::var("SVC_KILL_REQUESTS").map_or(REQUESTS, |number| number.parse().unwrap());
    let svc = start(&[PID], &[("PHP_WORKERS", WORKERS)], &[]);
    let seen = Seen::default();
    let began = Instant::now();
    let (losses, kills) = thread::scope(|scope| {
        let clients: Vec<_> = (0..CLIENTS).map(|_| scope.spawn(|| load(&svc, &seen, requests))).collect();
        let kills = kill(&seen, requests);
        let losses: Vec<_> = clients.into_iter().flat_map(|client| client.join().unwrap()).collect();
        (losses, kills)
    });
    let took = began.elapsed();
    let ends =
        || svc.log().of("svc").into_iter().filter(|it| it["fields"]["message"] == "PHP process has ended");
    eventually("the end of each process is logged", || ends().count() >= kills.len());
    let of_request: BTreeMap<_, _> = ends()
        .filter_map(|record| {
            let id = record["fields"]["request_id"].as_str().filter(|id| !id.is_empty())?;
            Some((id.to_owned(), record["fields"]["pid"].as_i64().unwrap() as i32))
        })
        .collect();
    println!("{requests} requests in {took:?}: {} kills, {} lost", kills.len(), losses.len());
    for loss in &losses {
        let pid = of_request.get(&loss.request_id).expect("a request is lost with its process only");
        let kill = kills.get(pid).expect("only the test ends processes");
        assert!(loss.sent <= kill.ended, "a request was given to a process that had ended");
        assert!(loss.answered >= kill.sent, "a request was lost before its process was killed");
    }
    assert_eq!(of_request.len(), losses.len(), "each process that ended in a request cost that request");
    svc.assert_metric("svc_requests_total", requests as f64);
    svc.assert_metric("svc_dropped_requests_total", losses.len() as f64);
    svc.assert_metric("svc_responses_by_status_total{status=\"2xx\"}", (requests - losses.len()) as f64);
    svc.assert_metric("svc_busy_workers", 0.0);
    check_books(&svc);
}

/// The action of a script on its process, the status of its response, and whether it counts as lost.
const FAULTS: [(&str, &str, u16, bool); 5] = [
    ("killed", "posix_kill(getmypid(), SIGKILL); sleep(60);", 500, true),
    ("crashed", "posix_kill(getmypid(), SIGSEGV); sleep(60);", 500, true),
    ("ended", "posix_kill(getmypid(), SIGTERM); posix_kill(getmypid(), SIGKILL); sleep(60);", 500, true),
    ("stopped", "posix_kill(getmypid(), SIGSTOP); sleep(60);", 504, false),
    ("deaf", "while (true) { sleep(60); }", 504, false),
];

#[test]
fn a_fault_under_load_ends_the_request_that_caused_it() {
    if !has_php() {
        return;
    }
    let scripts = FAULTS.map(|(name, code, ..)| (format!("{name}.php"), format!("<?php {code}")));
    let files: Vec<_> =
        scripts.iter().map(|(name, code)| (name.as_str(), code.as_str())).chain([PID]).collect();
    // Processes are replaced meanwhile. The limit leaves time for the other requests on a busy machine.
    let settings = [("PHP_WORKERS", WORKERS), ("WORKER_MAX_REQUESTS", "100")];
    let svc = start(&files, &settings, &["max_execution_time=4", "hard_timeout=0"]);
    let is_over = AtomicBool::new(false);
    let served = thread::scope(|scope| {
        let load = || {
            let (mut client, mut served) = (svc.client(), 0);
            while !is_over.load(Ordering::Relaxed) {
                let response = client.get(&format!("/{}", PID.0));
                assert_eq!(response.status, 200, "{}", response.text());
                served += 1;
            }
            served
        };
        let clients: Vec<_> = (0..2).map(|_| scope.spawn(load)).collect();
        for (name, _, status, _) in FAULTS {
            assert_eq!(svc.get(&format!("/{name}.php")).status, status, "{name}");
        }
        is_over.store(true, Ordering::Relaxed);
        clients.into_iter().map(|client| client.join().unwrap()).sum::<usize>()
    });
    let lost = FAULTS.iter().filter(|(.., is_lost)| *is_lost).count();
    svc.assert_metric("svc_requests_total", (served + FAULTS.len()) as f64);
    svc.assert_metric("svc_dropped_requests_total", lost as f64);
    svc.assert_metric("svc_request_cancelled_total{reason=\"timeout\"}", (FAULTS.len() - lost) as f64);
    eventually("all processes exist", || svc.metric("svc_workers_idle") == 4.0);
    check_books(&svc);
}
