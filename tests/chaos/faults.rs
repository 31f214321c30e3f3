//! Ends a request at each point of its life in turn, beside a request that waits and before one that follows.
//!
//! The programs are in tour.json. The waiting request and the following one must get their usual answers; the ended request
//! may get any answer.

use std::fs;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::json;

use crate::client::send;
use crate::grammar::{self, Client, Program};
use crate::program_file;
use crate::round;
use crate::server::{Mode, Server};
use svc_testing::client::LOOK_AGAIN;

const NONBLOCK: i32 = rustix::fs::OFlags::NONBLOCK.bits().cast_signed();
/// More points than any of the programs has.
const POINTS_MAX: u64 = 400;
/// The ID of the program in which the first task ends instead of the request.
const TASK_OF: &str = "task of the victim";
/// The time limit for the neighbour to reach its wait.
const PATIENCE: Duration = Duration::from_secs(60);

struct Cast {
    neighbour: Program,
    victims: Vec<Program>,
    after: Program,
}

fn cast() -> Cast {
    let programs = program_file::from_json(include_str!("tour.json"));
    let mut programs: Vec<_> = programs.into_iter().map(Program::without_known).collect();
    let after = programs.pop().unwrap();
    let neighbour = programs.remove(0);
    Cast { neighbour, victims: programs, after }
}

/// Injects `kind` at every point of each program; returns the number of points, and the failures.
fn inject(kind: &str, only: Option<usize>) -> (u64, Vec<String>) {
    let (mut cast, mut wrong, mut count) = (cast(), Vec::new(), 0);
    let is_allocation = kind == "allocation";
    // Victims with a mark are meant for failing allocations.
    cast.victims
        .retain(|victim| grammar::json_of(&victim.ops).to_string().contains("\"mark\"") == is_allocation);
    let built = tempfile::tempdir().unwrap();
    let directives = if is_allocation { vec![extension(built.path())] } else { Vec::new() };
    let mut server = Server::start_with(Mode::asked().unwrap_or(Mode::Worker), "1", &directives);
    for (number, victim) in
        cast.victims.iter().enumerate().filter(|(number, _)| only.is_none_or(|only| only == *number))
    {
        let first = std::env::var("CHAOS_POINT").ok().map(|n| n.parse::<u64>().unwrap());
        for n in first.map_or(1..POINTS_MAX, |n| n..n + 1) {
            let fault = json!({ "kind": kind, "n": n, "in_task": victim.id == TASK_OF });
            let victim = Program { id: "victim".into(), fault: Some(fault), ..victim.clone() };
            let found = act(&mut server, &cast, &victim);
            if first.is_some() || !found.is_empty() {
                let place = fs::read_to_string(server.place().join("fired")).unwrap_or_default();
                println!(
                    "{kind} at {n} of {number}:\n{place}\n        {}",
                    round::kinds(&found).join("\n        ")
                );
            }
            if !found.is_empty() {
                wrong.push(format!(
                    "{kind} at {n} of {number}:\n        {}",
                    round::kinds(&found).join("\n        ")
                ));
                // The failure may affect the next program on the same server.
                server = Server::start_with(Mode::asked().unwrap_or(Mode::Worker), "1", &directives);
            }
            if fs::remove_file(server.place().join("fired")).is_err() && found.is_empty() {
                break;
            }
            count += 1;
        }
    }
    wrong.extend(server.stop().into_iter().filter(|line| !line.contains("chaos! victim")));
    (count, wrong)
}

fn act(server: &mut Server, cast: &Cast, victim: &Program) -> Vec<String> {
    let at = ["at-neighbour", "at-task"].map(|name| server.place().join(name));
    let go = ["go-neighbour", "go-task"].map(|name| server.place().join(name));
    // The files do not exist at first.
    at.iter().for_each(|at| drop(fs::remove_file(at)));
    for gate in go.iter().filter(|gate| !gate.exists()) {
        assert!(Command::new("mkfifo").arg(gate).status().unwrap().success());
    }
    let target = server.target;
    let mut found = Vec::new();
    std::thread::scope(|scope| {
        let neighbour = scope.spawn(|| send(target, &cast.neighbour));
        let until = Instant::now() + PATIENCE;
        while !at.iter().all(|at| at.exists()) && Instant::now() < until && !neighbour.is_finished() {
            std::thread::sleep(LOOK_AGAIN);
        }
        let mut ended = server.ended();
        let mut meet = |program: &Program, name: &str| {
            ended += 1.0;
            found.extend(send(target, program).map(|wrong| format!("{name}: {wrong}")));
            ended
        };
        let mut ended = meet(victim, "victim");
        // While the failing allocation is still ahead, the next request may hit it at its beginning.
        let next = Program { fault: Some(json!(null)), ..cast.after.clone() };
        if is_ahead(server, victim) {
            ended = meet(&next, "the next one");
        }
        if matches!(victim.client, Client::Gone(_)) {
            // The next request runs only now. Once the neighbour continued, the allocation could hit the neighbour.
            server.wait_until_ended(ended, 1.0);
            if is_ahead(server, victim) {
                meet(&next, "the next one");
            }
        }
        // A dead server reads no gates.
        for gate in &go {
            while !neighbour.is_finished() {
                let pipe = fs::File::options().write(true).custom_flags(NONBLOCK).open(gate);
                if let Ok(mut pipe) = pipe {
                    pipe.write_all(b"go").unwrap();
                    break;
                }
                std::thread::sleep(LOOK_AGAIN);
            }
        }
        found.extend(neighbour.join().unwrap().map(|wrong| format!("neighbour: {wrong}")));
    });
    found.extend(send(target, &cast.after).map(|wrong| format!("after: {wrong}")));
    found.extend(server.violations_at_rest());
    if let Some(death) = server.death() {
        found = vec![death];
    }
    // The victim may see anything of itself after its end.
    found.extend(server.reports().into_iter().filter(|line| !line.contains("chaos! victim")));
    found
}

/// Returns whether an allocation that has to fail may still be ahead.
fn is_ahead(server: &Server, victim: &Program) -> bool {
    is_allocation(victim) && !server.place().join("fired").exists()
}

fn is_allocation(victim: &Program) -> bool {
    victim.fault.as_ref().is_some_and(|fault| fault["kind"] == "allocation")
}

/// Compiles the extension that fails allocations; returns the directive that loads it.
fn extension(place: &Path) -> String {
    let config = std::env::var("SVC_PHP_CONFIG").unwrap_or_else(|_| "php-config".into());
    let includes = Command::new(config).arg("--includes").output().unwrap();
    let (source, library) = (place.join("faults.c"), place.join("faults.so"));
    fs::write(&source, include_str!("app/faults.c")).unwrap();
    let mut compiler = Command::new("cc");
    compiler.args(["-shared", "-fPIC", "-g", "-Wall", "-o"]).arg(&library);
    compiler.arg(&source).args(String::from_utf8(includes.stdout).unwrap().split_whitespace());
    assert!(compiler.status().unwrap().success(), "the extension cannot be compiled");
    format!("extension={}", library.display())
}

#[track_caller]
fn finds_nothing(kind: &str) {
    let only = std::env::var("CHAOS_VICTIM").ok().map(|number| number.parse().unwrap());
    let (count, wrong) = inject(kind, only);
    println!("{count} points of {kind}");
    assert!(wrong.is_empty(), "{}", wrong.join("\n    "));
    assert!(count > 20, "only {count} points were met");
}

#[test]
fn an_exception_in_each_callback_stays_with_its_request() {
    finds_nothing("throw");
}

#[test]
fn a_fatal_error_in_each_callback_stays_with_its_request() {
    finds_nothing("fatal");
}

#[test]
fn an_exit_in_each_callback_stays_with_its_request() {
    finds_nothing("exit");
}

#[test]
fn a_suspension_in_each_callback_stays_with_its_request() {
    finds_nothing("suspend");
}

#[test]
fn an_allocation_that_fails_in_a_step_stays_with_its_request() {
    finds_nothing("allocation");
}
