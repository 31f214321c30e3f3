//! Makes the programs of a failed round fewer and smaller while they still fail.

use std::time::{Duration, Instant};

use crate::grammar::{Op, Program};
use crate::round;
use crate::server::{Mode, Server};

/// How many passing runs make programs count as innocent.
const TRIES: usize = 2;

/// Returns the smallest failing programs that were found within `budget`, and their failures; `None` if the failure does
/// not recur.
pub(crate) fn shrink(
    programs: Vec<Program>,
    mode: Mode,
    budget: Duration,
) -> Option<(Vec<Program>, Vec<String>)> {
    let until = Instant::now() + budget;
    let mut found = finds(&programs, mode)?;
    let mut best = programs;
    let mut part = best.len().div_ceil(2);
    while part > 0 && Instant::now() < until {
        let mut at = 0;
        while at < best.len() && best.len() > 1 && Instant::now() < until {
            let mut fewer = best.clone();
            fewer.drain(at..(at + part).min(best.len()));
            match finds(&fewer, mode).filter(|_| !fewer.is_empty()) {
                Some(now) => (best, found) = (fewer, now),
                None => at += part,
            }
        }
        part = if part == 1 { 0 } else { part.div_ceil(2) };
    }
    for at in 0..best.len() {
        let mut step = 0;
        while Instant::now() < until {
            let mut smaller = best.clone();
            let mut left = step;
            if !remove(&mut smaller[at].ops, &mut left) {
                break;
            }
            match finds(&smaller, mode) {
                Some(now) => (best, found) = (smaller, now),
                None => step += 1,
            }
        }
    }
    Some((best, found))
}

fn finds(programs: &[Program], mode: Mode) -> Option<Vec<String>> {
    (0..TRIES).find_map(|_| {
        let mut server = Server::start(mode);
        let found = round::run(&mut server, programs);
        (!found.is_empty()).then_some(found)
    })
}

/// Removes operation number `left`, counted from the root: first with its nested operations, then alone. Returns false if
/// it does not exist.
fn remove(ops: &mut Vec<Op>, left: &mut usize) -> bool {
    let mut at = 0;
    while at < ops.len() {
        if *left == 0 {
            ops.remove(at);
            return true;
        }
        *left -= 1;
        if ops[at].ops.is_some() {
            if *left == 0 {
                let inner = ops[at].ops.take().unwrap_or_default();
                ops.splice(at..=at, inner);
                return true;
            }
            *left -= 1;
            if let Some(inner) = &mut ops[at].ops
                && remove(inner, left)
            {
                return true;
            }
        }
        at += 1;
    }
    false
}
