//! Objects that programs leave behind or misuse: fibers that are suspended inside a call and outlive their
//! request, objects without a constructor call, `Svc\per_request()` of each class of PHP, handles of a request's body,
//! files that are truncated while they are read, exceptions that form a circle. They print nothing, and the model
//! does not depend on them.
//!
//! `CHAOS_WITHOUT` omits some of them, as in `unmade,leave sqlite,circle task`.

use serde_json::json;

use crate::grammar::{Dice, Op, Program, Temper, insert_deep};
use crate::shutdown_code;

/// Calls that a fiber is suspended in. Not the compiler: it calls the error handler, and the rest of the request would run
/// without that handler.
const CALLS: [&str; 13] = [
    "filter",
    "wrapper",
    "sqlite",
    "collate",
    "fetch",
    "curl",
    "multi",
    "replace",
    "generator",
    "sort",
    "ereg",
    "serialize",
    "load",
];

/// The ends of the fiber that has been suspended for the longest time.
const FATES: [&str; 5] = ["stay", "resume", "drop", "throw", "cycle"];

fn leftover(dice: &mut Dice) -> Op {
    match dice.below(11) {
        0..=3 => Op::new("leave", vec![json!(dice.pick(&CALLS)), json!(dice.pick(&FATES))]),
        4 | 5 => Op::new("body", vec![json!(dice.pick(&["keep", "cycle", "read", "close"]))]),
        6 => Op::new("unmade", vec![json!(dice.pick(&["fetch", "unserialize", "reflect", "clone"]))]),
        7 | 8 => {
            Op::new("cut", vec![json!(dice.pick(&["write", "readfile", "copy", "fpassthru", "highlight"]))])
        }
        9 => {
            Op::new("each", vec![json!(dice.pick(&["made", "unmade", "throws"])), json!(dice.below(1 << 16))])
        }
        _ => Op::new("circle", vec![json!(dice.pick(&["task", "text", "handler"]))]),
    }
}

/// Adds leftovers and shutdown code to each program; the rest of the program stays unchanged.
pub(crate) fn add(programs: Vec<Program>, seed: u64, temper: Temper) -> Vec<Program> {
    let mut dice = Dice::new(seed ^ 0x1ef7);
    let with = |mut program: Program| {
        for _ in 0..dice.below(4) {
            let op = leftover(&mut dice);
            insert_deep(&mut dice, &mut program.ops, op);
        }
        shutdown_code::add(&mut dice, &mut program, temper);
        program.without_known()
    };
    programs.into_iter().map(with).collect()
}
