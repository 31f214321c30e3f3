//! Runs many programs at once on one server, and reports the failures.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::client::send;
use crate::grammar::{Program, Temper};
use crate::server::Server;

/// The number of concurrent requests.
const WIDTH: usize = 64;
/// Programs of one round: about four for each client.
pub(crate) const PROGRAMS: u64 = 256;

/// Returns the programs of the round with this seed.
pub(crate) fn programs(seed: u64, temper: Temper) -> Vec<Program> {
    let of = |n| Program::new(seed.wrapping_mul(PROGRAMS).wrapping_add(n), temper).without_known();
    (0..PROGRAMS).map(of).collect()
}

/// Returns the failures by kind: the count, and the first one.
pub(crate) fn kinds(found: &[String]) -> Vec<String> {
    let mut kinds: Vec<(String, usize, &String)> = Vec::new();
    for line in found {
        // A kind is the message without the program's name and the received text.
        let words = line
            .split(' ')
            .filter(|word| !word.starts_with('p') || !word.contains(|c: char| c.is_ascii_digit()));
        let kind = words.take(7).collect::<Vec<_>>().join(" ");
        let kind = kind.split(['(', '\n', '"']).next().unwrap_or_default().to_owned();
        match kinds.iter_mut().find(|(known, ..)| *known == kind) {
            Some((_, count, _)) => *count += 1,
            None => kinds.push((kind, 1, line)),
        }
    }
    kinds.into_iter().map(|(_, count, line)| format!("{count} x {line}")).collect()
}

/// Runs programs, waits until the server is at rest, and returns the failures.
pub(crate) fn run(server: &mut Server, programs: &[Program]) -> Vec<String> {
    let (next, found) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let target = server.target;
    std::thread::scope(|scope| {
        for _ in 0..WIDTH.min(programs.len()) {
            scope.spawn(|| {
                while let Some(program) = programs.get(next.fetch_add(1, Ordering::Relaxed)) {
                    if let Some(wrong) = send(target, program) {
                        found.lock().unwrap().push(format!("{}: {wrong}", program.id));
                    }
                }
            });
        }
    });
    let mut found = found.into_inner().unwrap();
    let violations = server.violations_at_rest();
    if let Some(death) = server.death() {
        // The other failures follow from the death.
        found = vec![death];
    }
    found.extend(violations);
    found.extend(server.reports());
    found
}
