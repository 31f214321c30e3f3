//! The operations of the grammar that concern tasks.
//!
//! Every awaited task can finish, with any number of threads: an awaited task takes no lock, because its awaiter may hold
//! that lock.

use serde_json::json;

use crate::grammar::{Dice, Op, Place, operations};

const SHAPES: [&str; 6] = ["method", "function", "captured", "arrow", "static", "nested"];

/// Creates an operation with tasks.
pub(crate) fn operation(dice: &mut Dice, place: Place) -> Op {
    let shape = json!(dice.pick(&SHAPES));
    let below = Place {
        depth: place.depth + 1,
        may_throw: true,
        may_exit: true,
        may_suspend: true,
        is_abandoned: false,
        is_in_chunks: false,
        is_in_fiber: false,
        is_in_task: true,
        may_lock: false,
        ..place
    };
    match dice.below(16) {
        0..=5 => {
            let how = dice.pick(&["await", "await", "timed", "slow", "twice"]);
            Op::with("task", vec![json!(how), shape], operations(dice, below, 4))
        }
        6..=8 => {
            let how = dice.pick(&["cancel", "detach", "leave"]);
            Op::with(
                "task",
                vec![json!(how), shape],
                operations(dice, Place { may_lock: place.may_lock, ..below }, 4),
            )
        }
        9 | 10 => {
            let mut ops = vec![group(dice, below)];
            ops.extend(operations(dice, Place { depth: place.depth + 1, ..place }, 3));
            Op::with("beside", vec![shape], ops)
        }
        11..=13 => {
            let which = dice.pick(&["all", "any", "race"]);
            let count = 1 + dice.below(3);
            Op::with("tasks", vec![json!(which), shape], (0..count).map(|_| group(dice, below)).collect())
        }
        _ => {
            let which = dice.pick(&["one", "all", "any", "race"]);
            let kinds: &[_] = &["sleep", "stream", "task", "stubborn", "spin"];
            // A spinning task could block the thread that its own end needs.
            let count = if place.is_in_task { kinds.len() - 1 } else { kinds.len() };
            let timeout = dice.pick(&[0.0, 0.001, 0.004, 0.015]);
            Op::new("never", vec![json!(which), json!(dice.pick(&kinds[..count])), json!(timeout)])
        }
    }
}

fn group(dice: &mut Dice, place: Place) -> Op {
    Op::with("group", vec![], operations(dice, place, 3))
}
