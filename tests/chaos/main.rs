//! Chaos: random programs in many concurrent requests, compared with a model of their isolation.
//!
//! A program changes everything that a request can change, waits wherever a request can wait, and checks after each wait
//! that its state is unchanged; its answer must equal the answer of the model. A round is 256 programs on 64 clients and 2
//! workers. `make chaos` runs for a given time; `make chaos SEED=...` repeats a seed that failed and shrinks its programs.

mod client;
mod faults;
mod grammar;
mod leftovers;
mod model;
mod program_file;
mod round;
mod server;
mod shrink;
mod shutdown_code;
mod tasks;

use std::path::PathBuf;
use std::time::{Duration, Instant};

use grammar::{Program, Temper};
use server::{Mode, Server};

/// The seeds of the ordinary test run.
const FIXED: std::ops::Range<u64> = 1..5;

/// The number of programs to show; longer lists are not readable.
const SHOWN: usize = 8;

#[test]
fn fixed_programs_find_nothing() {
    fixed(Temper::Mild, Mode::Worker);
}

#[test]
fn fixed_programs_with_fatal_errors_find_nothing() {
    fixed(Temper::Wild, Mode::Worker);
}

#[test]
fn fixed_programs_find_nothing_with_hooks() {
    fixed(Temper::Wild, Mode::Hooks);
}

#[test]
fn fixed_programs_find_nothing_in_classic_mode() {
    fixed(Temper::Wild, Mode::Classic);
}

#[test]
fn last_code_leaves_nothing_to_other_requests() {
    let programs: Vec<_> = shutdown_code::all().into_iter().map(Program::without_known).collect();
    for mode in [Mode::Worker, Mode::Hooks, Mode::Classic] {
        if Mode::asked().is_some_and(|asked| asked != mode) {
            continue;
        }
        let mut server = Server::start(mode);
        let mut found = round::run(&mut server, &programs);
        found.extend(server.stop());
        assert!(found.is_empty(), "{mode:?}:\n{}", round::kinds(&found).join("\n"));
    }
}

fn fixed(temper: Temper, mode: Mode) {
    let mut server = Server::start(mode);
    for seed in FIXED {
        let found = round::run(&mut server, &round::programs(seed, temper));
        assert!(found.is_empty(), "{mode:?}, seed {seed}:\n{}", round::kinds(&found).join("\n"));
    }
    assert_eq!(server.stop(), Vec::<String>::new());
}

#[test]
#[ignore = "runs for CHAOS_SECONDS; make chaos"]
fn programs_find_nothing_for_as_long_as_asked() {
    if let Some(file) = setting("CHAOS_FILE") {
        let programs = program_file::from_json(&std::fs::read_to_string(file).unwrap());
        return again(&programs, Mode::asked().unwrap_or(Mode::Worker));
    }
    let temper = if setting("CHAOS_MILD").is_some() { Temper::Mild } else { Temper::Wild };
    if let Some(seed) = setting("CHAOS_SEED") {
        let seed = seed.parse().unwrap();
        return again(&programs(seed, temper), Mode::of(seed));
    }
    let seconds = setting("CHAOS_SECONDS").map_or(60, |seconds| seconds.parse().unwrap());
    let until = Instant::now() + Duration::from_secs(seconds);
    let first: u64 = setting("CHAOS_FIRST")
        .map_or_else(|| u64::from(std::process::id()) << 20, |first| first.parse().unwrap());
    println!("seeds from {first} on");
    let mut server = Server::start(Mode::of(first));
    let (mut count, mut failed) = (0, Vec::new());
    for seed in first.. {
        if Instant::now() > until {
            break;
        }
        let mode = Mode::of(seed);
        let mut found = Vec::new();
        if server.target.mode != mode {
            found = std::mem::replace(&mut server, Server::start(mode)).stop();
        }
        found.extend(round::run(&mut server, &programs(seed, temper)));
        count += round::PROGRAMS;
        if !found.is_empty() {
            println!(
                "seed {seed} ({mode:?}) found {} failures:\n    {}",
                found.len(),
                round::kinds(&found).join("\n    ")
            );
            failed.push(seed);
            // A failure may affect the next seed on the same server.
            server = Server::start(mode);
        }
    }
    failed.extend((!server.stop().is_empty()).then_some(0));
    println!("{count} programs, {} of {} rounds failed", failed.len(), count / round::PROGRAMS);
    assert!(failed.is_empty(), "seeds: {failed:?}; make chaos SEED=... runs one alone");
}

/// Returns the programs of a round, with their leftovers.
fn programs(seed: u64, temper: Temper) -> Vec<Program> {
    leftovers::add(round::programs(seed, temper), seed, temper)
}

/// Runs programs on a fresh server, and shrinks them if they fail.
fn again(programs: &[Program], mode: Mode) {
    let mut server = Server::start(mode);
    let mut found = round::run(&mut server, programs);
    found.extend(server.stop());
    if found.is_empty() {
        return;
    }
    println!("found:\n    {}", round::kinds(&found).join("\n    "));
    let budget = Duration::from_secs(setting("CHAOS_SHRINK").map_or(120, |seconds| seconds.parse().unwrap()));
    let Some((fewer, found)) = shrink::shrink(programs.to_vec(), mode, budget) else {
        panic!("the failure does not recur");
    };
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("chaos-{}.json", std::process::id()));
    std::fs::write(&path, program_file::to_json(&fewer)).unwrap();
    panic!(
        "{} programs are left; make chaos FILE={} runs them\n{}\nthey find:\n    {}",
        fewer.len(),
        path.display(),
        if fewer.len() <= SHOWN { program_file::to_json(&fewer) } else { String::new() },
        round::kinds(&found).join("\n    ")
    );
}

fn setting(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

/// Prints one program as it is sent.
#[test]
#[ignore = "shows the program CHAOS_PROGRAM"]
fn show() {
    let seed = u64::from_str_radix(setting("CHAOS_PROGRAM").unwrap().trim_start_matches('p'), 16).unwrap();
    let program =
        Program::new(seed, if setting("CHAOS_MILD").is_some() { Temper::Mild } else { Temper::Wild });
    println!(
        "{}\n{:?}",
        program_file::to_json(std::slice::from_ref(&program)),
        model::answer(&program, Mode::asked().unwrap_or(Mode::Worker))
    );
}
