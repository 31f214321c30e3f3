//! Code of a script that runs when its request ends, because an object that is still open is closed. A stream, an object
//! or a generator is referenced by a static property, a cycle, or a fiber that never ends; PHP itself closes output buffers
//! and sessions. The code changes state of the request, and then ends in one of several ways. Also, calls that reach the
//! end of a stack.

use serde_json::json;

use crate::grammar::{Dice, Op, Place, Program, Temper, operations};

/// The kinds of open objects. Closing one calls code of the script.
const PLACES: [&str; 7] = ["close", "flush", "directory", "filter", "closing", "destructor", "generator"];
/// `fiber`: a static property with a fiber that is suspended in the script's own code; `call`: in a function of PHP, so
/// that it ends with its request; `lost`: a cycle with a fiber.
const KEEPERS: [&str; 5] = ["static", "cycle", "call", "fiber", "lost"];
/// How the code ends.
const ENDS: [&str; 12] = [
    "quiet", "echo", "header", "exit", "throw", "suspend", "sleep", "task", "leave", "http", "closed", "open",
];
/// These end the worker, too.
pub(crate) const VIOLENT_ENDS: [&str; 3] = ["memory", "grow", "limit"];

/// Functions that recurse into their argument.
const DEPTHS: [&str; 21] = [
    "preg",
    "glob",
    "fnmatch",
    "ereg",
    "format",
    "transform",
    "nodes",
    "canonical",
    "json",
    "serialize",
    "export",
    "dump",
    "print",
    "query",
    "compare",
    "count",
    "walk",
    "convert",
    "eval",
    "unserialize",
    "destructors",
];
const STACKS: [&str; 5] = ["main", "fiber", "small", "task", "fiber of a task"];

/// A place where nothing is printed, and that no exception leaves.
const SILENT: Place = Place {
    depth: 2,
    is_silent: true,
    may_throw: false,
    may_exit: false,
    may_lock: false,
    may_suspend: false,
    is_abandoned: false,
    is_in_chunks: false,
    is_in_fiber: true,
    is_in_task: false,
    may_dispatch: false,
};

fn last(dice: &mut Dice, temper: Temper, is_finished: bool) -> Op {
    let end =
        if temper == Temper::Wild && dice.one_in(8) { dice.pick(&VIOLENT_ENDS) } else { dice.pick(&ENDS) };
    let place = match dice.below(5) {
        // svc_finish_request() would close it earlier.
        0 if !is_finished => "buffer",
        1 => "session",
        _ => dice.pick(&PLACES),
    };
    // PHP discards the buffers while it reports that memory has run out, and then calls them without a limit.
    let is_unlimited = place == "buffer" && ["memory", "grow"].contains(&end);
    let end = if is_unlimited { "limit" } else { end };
    let ops = operations(dice, SILENT, 3);
    of(place, dice.pick(&KEEPERS), ops, end)
}

fn of(place: &'static str, keeper: &str, ops: Vec<Op>, end: &'static str) -> Op {
    Op { last: Some(end), ..Op::with("last", vec![json!(place), json!(keeper)], ops) }
}

/// Adds shutdown code and deep calls to a program; the rest of the program stays unchanged.
pub(crate) fn add(dice: &mut Dice, program: &mut Program, temper: Temper) {
    let at = |dice: &mut Dice, ops: &Vec<Op>| usize::try_from(dice.below(ops.len() as u64 + 1)).unwrap();
    if dice.one_in(2) {
        let is_finished = program.ops.iter().any(|op| op.name == "finish");
        let op = last(dice, temper, is_finished);
        // A task that is not awaited may end in any way.
        let task = program.ops.iter_mut().find(|op| {
            op.name == "task" && ["cancel", "detach", "leave"].contains(&op.text(0)) && op.ops.is_some()
        });
        let ops = match task {
            Some(task) if dice.one_in(2) => task.ops.as_mut().unwrap(),
            _ => &mut program.ops,
        };
        let at = at(dice, ops);
        ops.insert(at, op);
    }
    if temper == Temper::Wild && dice.one_in(24) {
        let at = at(dice, &program.ops);
        program.ops.insert(at, exhaust(dice.pick(&DEPTHS), dice.pick(&STACKS)));
    }
}

fn exhaust(kind: &str, stack: &str) -> Op {
    Op::new("exhaust", vec![json!(kind), json!(stack)])
}

/// Returns a program for each object, keeper and end, and one for each deep call on each stack.
pub(crate) fn all() -> Vec<Program> {
    let mut dice = Dice::new(1);
    let mut ops = Vec::new();
    for end in ENDS.into_iter().chain(VIOLENT_ENDS) {
        // These take long, or end a worker.
        let keepers = if VIOLENT_ENDS.contains(&end) { &KEEPERS[..3] } else { &KEEPERS };
        for place in PLACES {
            ops.extend(keepers.iter().map(|keeper| of(place, keeper, leaving(&mut dice), end)));
        }
        ops.extend(["buffer", "session"].map(|place| of(place, "static", leaving(&mut dice), end)));
    }
    for kind in DEPTHS {
        ops.extend(STACKS.map(|stack| exhaust(kind, stack)));
    }
    let program = |(n, op): (usize, Op)| {
        // Some answers have no output, so that their heads are sent at the end.
        let said = (n % 3 > 0).then(|| Op::new("echo", vec![json!("said")]));
        Program::of(format!("p{n:x}"), said.into_iter().chain([op]).collect())
    };
    ops.into_iter().enumerate().map(program).collect()
}

/// Returns operations on state that a following request must not see.
fn leaving(dice: &mut Dice) -> Vec<Op> {
    vec![
        Op::new("umask", vec![json!(0o77)]),
        Op::new("chdir", vec![json!(dice.below(4))]),
        Op::new("locale", vec![json!("C.UTF-8")]),
        Op::new("encoding", vec![json!("SJIS")]),
        Op::new("regex", vec![json!("SJIS")]),
        Op::new("env", vec![json!("A")]),
        Op::new("zone", vec![json!("Asia/Tokyo")]),
        Op::new("ini", vec![json!("precision"), json!("5")]),
        Op::new("context", vec![]),
        Op::new("libxml", vec![]),
    ]
}
