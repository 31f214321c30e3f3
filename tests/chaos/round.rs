//! Many programs at once on one server, and what was found.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::grammar::{Program, Temper};
use crate::server::Server;
use crate::visit::visit;

/// Requests at a time.
const WIDTH: usize = 64;
/// Programs of one round: some four for each client.
pub(crate) const PROGRAMS: u64 = 256;

/// The programs of the round with this seed.
pub(crate) fn programs(seed: u64, temper: Temper) -> Vec<Program> {
    (0..PROGRAMS).map(|n| Program::new(seed.wrapping_mul(PROGRAMS).wrapping_add(n), temper)).collect()
}

/// Runs them, waits for rest, and says what went wrong.
pub(crate) fn run(server: &mut Server, programs: &[Program]) -> Vec<String> {
    let (next, found) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let addr = server.main;
    std::thread::scope(|scope| {
        for _ in 0..WIDTH.min(programs.len()) {
            scope.spawn(|| {
                while let Some(program) = programs.get(next.fetch_add(1, Ordering::Relaxed)) {
                    if let Some(wrong) = visit(addr, program) {
                        found.lock().unwrap().push(format!("{}: {wrong}", program.id));
                    }
                }
            });
        }
    });
    let mut found = found.into_inner().unwrap();
    let offences = server.offences_at_rest();
    if let Some(death) = server.death() {
        // Whatever else was found comes from it.
        found = vec![death];
    }
    found.extend(offences);
    found.extend(server.complaints());
    found
}
