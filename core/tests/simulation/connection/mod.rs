//! Whole connections under thousands of random histories, without sockets, on a simulated clock.
//!
//! The server's state machine is connected to an independently written client by a transport that splits, joins, delays
//! and loses bytes, and to an owner that decides early, late or badly. A model keeps a few numbers for each request: it
//! ends once; its response is the intended one, in order, framed so that the client can tell whether it is complete,
//! and counted as the socket accepted it; memory is bounded; and everything that the machine waits for can happen or
//! has a deadline. A failure names its seed, and a seed replays its history with a trace: `make simulate SEED=7`.
//! `make simulate SECONDS=600` runs other seeds for that time.

mod model;
mod owner;
mod peer_http1;
mod peer_http2;
mod plan;
mod readers;
mod supply;
mod wire;
mod world;

use std::hash::{BuildHasher, RandomState};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::time::Duration;

use world::World;

/// The number of histories that always run.
const SEEDS: u64 = 1200;

/// Runs a history; returns the number of commands that its machine gave. With `is_told`, prints them.
fn run(seed: u64, is_told: bool) -> u64 {
    catch_unwind(AssertUnwindSafe(|| World::new(seed, is_told).run())).unwrap_or_else(|panic| {
        eprintln!("seed {seed} has failed; make simulate SEED={seed} replays it");
        resume_unwind(panic)
    })
}

#[expect(clippy::disallowed_methods, reason = "a test has no other input from its caller")]
fn number(variable: &str) -> Option<u64> {
    let text = std::env::var(variable).ok().filter(|text| !text.is_empty())?;
    Some(text.parse().unwrap_or_else(|_| panic!("{variable}={text} is no number")))
}

#[test]
fn connections_keep_their_promises() {
    if let Some(seed) = number("CONNECTION_SEED") {
        run(seed, true);
        return;
    }
    let commands: u64 = (1..=SEEDS).map(|seed| run(seed, false)).sum();
    assert!(commands > 10 * SEEDS, "{commands} commands: too little happens");
    let Some(seconds) = number("CONNECTION_SECONDS") else { return };
    // Starts elsewhere each time, so that repeated runs add up.
    let began = svc_core::time::now();
    let first = RandomState::new().hash_one(SEEDS) >> 1;
    let mut seed = first;
    while svc_core::time::now() - began < Duration::from_secs(seconds) {
        run(seed, false);
        seed += 1;
    }
    println!("{} histories, from seed {first} on", seed - first);
}
