//! Random programs: a request's actions, as a tree of operations.
//!
//! A seed produces the same program on every machine. Programs affect others only in ways that the server must isolate, so
//! that their answers can be predicted. The grammar knows no servers.

use serde_json::{Value, json};

use crate::tasks;

/// A sequence of random numbers that the seed determines.
#[derive(Clone, Debug)]
pub(crate) struct Dice(u64);

/// One step of a program, with its nested steps.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Op {
    pub(crate) name: &'static str,
    pub(crate) args: Vec<Value>,
    pub(crate) ops: Option<Vec<Op>>,
    /// Text that follows `ops`.
    pub(crate) last: Option<&'static str>,
}

/// How the client treats its request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Client {
    Patient,
    /// Reads only after this many milliseconds.
    Slow(u64),
    /// Hangs up after this many milliseconds.
    Gone(u64),
}

/// One request.
#[derive(Clone, Debug)]
pub(crate) struct Program {
    pub(crate) id: String,
    pub(crate) client: Client,
    pub(crate) ops: Vec<Op>,
    /// The point where it ends, in the application's format.
    pub(crate) fault: Option<Value>,
}

/// The operations that a place allows.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    pub(crate) depth: u32,
    /// Nothing may be printed.
    pub(crate) is_silent: bool,
    /// Exceptions and exit() may leave the place.
    pub(crate) may_throw: bool,
    pub(crate) may_exit: bool,
    pub(crate) may_lock: bool,
    pub(crate) may_suspend: bool,
    pub(crate) is_abandoned: bool,
    /// Inside a buffer that flushes by chunk size; PHP could flush it while an exception is under way.
    pub(crate) is_in_chunks: bool,
    /// On the small stack of a fiber of the program.
    pub(crate) is_in_fiber: bool,
    /// On a thread for tasks.
    pub(crate) is_in_task: bool,
    pub(crate) may_dispatch: bool,
}

/// The violence of programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Temper {
    /// Nothing that ends a worker.
    Mild,
    /// Fatal errors and time limits too.
    Wild,
}

impl Dice {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Returns a number below `end`.
    pub(crate) fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    pub(crate) fn one_in(&mut self, count: u64) -> bool {
        self.below(count) == 0
    }

    pub(crate) fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[usize::try_from(self.below(from.len() as u64)).unwrap()]
    }
}

impl Op {
    pub(crate) fn new(name: &'static str, args: Vec<Value>) -> Self {
        Self { name, args, ops: None, last: None }
    }

    pub(crate) fn with(name: &'static str, args: Vec<Value>, ops: Vec<Op>) -> Self {
        Self { name, args, ops: Some(ops), last: None }
    }

    /// Returns the step in the application's format.
    pub(crate) fn json(&self) -> Value {
        let mut list = vec![json!(self.name)];
        list.extend(self.args.iter().cloned());
        list.extend(self.ops.as_ref().map(|ops| json_of(ops)));
        list.extend(self.last.map(|last| json!(last)));
        Value::Array(list)
    }

    pub(crate) fn text(&self, at: usize) -> &str {
        self.args[at].as_str().unwrap()
    }

    pub(crate) fn number(&self, at: usize) -> u64 {
        self.args[at].as_u64().unwrap()
    }

    pub(crate) fn inner(&self) -> &[Op] {
        self.ops.as_deref().unwrap_or_default()
    }
}

pub(crate) fn json_of(ops: &[Op]) -> Value {
    Value::Array(ops.iter().map(Op::json).collect())
}

impl Program {
    pub(crate) fn new(seed: u64, temper: Temper) -> Self {
        let mut dice = Dice::new(seed);
        let place = Place {
            depth: 0,
            is_silent: false,
            may_throw: true,
            may_exit: true,
            may_lock: true,
            may_suspend: true,
            is_abandoned: false,
            is_in_chunks: false,
            is_in_fiber: false,
            is_in_task: false,
            may_dispatch: true,
        };
        let mut ops = operations(&mut dice, place, 8);
        // Operations on the whole response are at the top, where the model can follow them.
        for _ in 0..dice.below(3) {
            let at = usize::try_from(dice.below(ops.len() as u64 + 1)).unwrap();
            ops.insert(at, of_the_reply(&mut dice));
        }
        if temper == Temper::Wild && dice.one_in(12) {
            let end = violent_end(&mut dice);
            insert_deep(&mut dice, &mut ops, end);
        }
        if dice.one_in(10) {
            ops.push(Op::new("finish", vec![]));
            ops.extend(operations(&mut dice, place, 4));
        }
        let client = match dice.below(20) {
            0 | 1 => Client::Gone(dice.below(20)),
            2 => Client::Slow(dice.below(60)),
            _ => Client::Patient,
        };
        Self { client, ..Self::of(format!("p{seed:x}"), ops) }
    }

    /// Returns a program with these operations.
    pub(crate) fn of(id: String, ops: Vec<Op>) -> Self {
        Self { id, client: Client::Patient, ops, fault: None }
    }

    /// Removes the operations that `CHAOS_WITHOUT` names, as in `deep,call gc`: known bugs.
    pub(crate) fn without_known(mut self) -> Self {
        let without = std::env::var("CHAOS_WITHOUT").unwrap_or_default();
        remove(&mut self.ops, &without.split(',').collect::<Vec<_>>());
        self
    }

    /// Returns the request's body.
    pub(crate) fn body(&self) -> String {
        json!({ "id": self.id, "ops": json_of(&self.ops), "fault": self.fault }).to_string()
    }
}

fn remove(ops: &mut Vec<Op>, names: &[&str]) {
    ops.retain(|op| {
        let kind = op.args.first().and_then(Value::as_str).unwrap_or_default();
        !names.iter().any(|name| *name == op.name || *name == format!("{} {kind}", op.name))
    });
    ops.iter_mut().filter_map(|op| op.ops.as_mut()).for_each(|inner| remove(inner, names));
}

fn of_the_reply(dice: &mut Dice) -> Op {
    let silent = Place {
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
    match dice.below(9) {
        0 | 1 => Op::new("header", vec![json!(dice.below(5))]),
        2 => Op::new("status", vec![json!(dice.pick(&[201, 404, 418, 503]))]),
        3 => {
            let mut ops = operations(dice, silent, 2);
            if dice.one_in(2) {
                ops.push(Op::new("hint", vec![json!(103)]));
            }
            Op::with("head_callback", vec![], ops)
        }
        4 => Op::new("flush", vec![]),
        7 => Op::new("hint", vec![json!(dice.pick(&[103, 103, 203]))]),
        5 => Op::new("big", vec![json!(dice.pick(&[100, 5000, 70_000, 400_000]))]),
        6 => Op::new("catcher", vec![json!(dice.pick(&["say", "park"]))]),
        _ => Op::new("handler", vec![json!(dice.pick(&["say", "park", "throw"]))]),
    }
}

fn violent_end(dice: &mut Dice) -> Op {
    match dice.below(8) {
        0 => Op::new("limit", vec![]),
        1 => Op::new("limit_sleep", vec![]),
        2 => Op::new("fatal", vec![json!("recursion")]),
        3 | 4 => Op::new("fatal", vec![json!("compile")]),
        _ => Op::new("fatal", vec![json!("memory")]),
    }
}

/// Inserts `op` at a random place of the tree.
pub(crate) fn insert_deep(dice: &mut Dice, ops: &mut Vec<Op>, op: Op) {
    // Not inside operations that run after the response, which the model does not follow.
    let is_open = |op: &Op| op.ops.is_some() && !["keep", "head_callback", "last"].contains(&op.name);
    let inner: Vec<usize> = (0..ops.len()).filter(|at| is_open(&ops[*at])).collect();
    if !inner.is_empty() && !dice.one_in(3) {
        let at = dice.pick(&inner);
        return insert_deep(dice, ops[at].ops.as_mut().unwrap(), op);
    }
    let at = usize::try_from(dice.below(ops.len() as u64 + 1)).unwrap();
    ops.insert(at, op);
}

pub(crate) fn operations(dice: &mut Dice, place: Place, most: u64) -> Vec<Op> {
    let count = 1 + dice.below(most);
    (0..count)
        .map(|_| if place.depth < 5 && dice.one_in(2) { nested(dice, place) } else { leaf(dice, place) })
        .collect()
}

const DIRECTIVES: [(&str, &[&str]); 17] = [
    ("precision", &["5", "9", "17"]),
    ("serialize_precision", &["5", "17"]),
    ("memory_limit", &["512M", "1G", "700M"]),
    ("error_reporting", &["0", "32767", "1"]),
    ("display_errors", &["0"]),
    ("log_errors", &["0", "1"]),
    ("user_agent", &["a", "b"]),
    ("default_socket_timeout", &["11", "22"]),
    ("include_path", &["/tmp", ".:/usr"]),
    ("arg_separator.output", &[";", "|"]),
    ("session.gc_maxlifetime", &["100", "200"]),
    ("session.sid_length", &["30", "40"]),
    ("session.name", &["CHAOSA", "CHAOSB"]),
    ("pcre.backtrack_limit", &["5000", "900000"]),
    ("max_execution_time", &["70", "80"]),
    ("html_errors", &["0", "1"]),
    ("zend.enable_gc", &["1"]),
];

fn leaf(dice: &mut Dice, place: Place) -> Op {
    let prints = if place.is_silent { 0 } else { 7 };
    match dice.below(28 + prints) {
        0..=3 => Op::new("sleep", vec![json!(dice.pick(&[0.0, 0.001, 0.003, 0.01]))]),
        4 | 5 => Op::new("pair", vec![json!(dice.pick(&["time", "data"]))]),
        6..=8 => {
            let (name, values) = dice.pick(&DIRECTIVES);
            Op::new("ini", vec![json!(name), json!(dice.pick(values))])
        }
        9 => Op::new("env", vec![json!(dice.pick(&["A", "B"]))]),
        10 => Op::new("unset_env", vec![]),
        11 => Op::new("locale", vec![json!(dice.pick(&["C", "C.UTF-8", "POSIX"]))]),
        12 => Op::new("umask", vec![json!(dice.pick(&[0o22, 0o27, 0o77]))]),
        13 => Op::new("chdir", vec![json!(dice.below(4))]),
        14 => Op::new("zone", vec![json!(dice.pick(&["Europe/Berlin", "Asia/Tokyo", "UTC"]))]),
        15 => Op::new("encoding", vec![json!(dice.pick(&["ISO-8859-1", "UTF-8", "SJIS"]))]),
        16 => Op::new("libxml", vec![]),
        17 => Op::new("random", vec![json!(dice.below(1000))]),
        18 => Op::new("context", vec![]),
        19 => Op::new("cycles", vec![json!(dice.pick(&[1, 10, 12_000]))]),
        20 => {
            let kind = dice.pick(&["array", "object", "closure", "exception", "generator"]);
            // Outside a request, in a fiber, plain PHP ends by it too.
            let depth = dice.pick(if place.is_in_fiber { &[10, 300] } else { &[10, 300, 20_000] });
            Op::new("deep", vec![json!(kind), json!(depth)])
        }
        21 => Op::new("tokens", vec![]),
        22 => Op::new("json", vec![]),
        23 => Op::new("loop_driver", vec![json!(dice.pick(&["quiet", "quiet", "park", "print"]))]),
        24 if dice.one_in(20) => Op::new("shell", vec![]),
        24 | 25 => Op::new("check", vec![]),
        26 => Op::new("regex", vec![json!(dice.pick(&["EUC-JP", "UTF-8", "SJIS"]))]),
        27 if dice.one_in(10) => Op::new("http", vec![json!(dice.pick(&["own", "closed"]))]),
        27 => Op::new("umask", vec![json!(0o7)]),
        28 if place.may_suspend => Op::new("suspend", vec![]),
        29 if place.may_throw => Op::new("warn", vec![]),
        30 if place.may_throw && dice.one_in(2) => Op::new("throw", vec![]),
        31 if place.may_exit && dice.one_in(4) => Op::new("exit", vec![]),
        32 if dice.one_in(4) => Op::new("recurse", vec![json!(dice.pick(&["map", "json", "serialize"]))]),
        _ => Op::new("echo", vec![json!(format!("{:x}", dice.below(1 << 20)))]),
    }
}

/// Callbacks from a library's C code, which handles their exceptions in special ways.
const OF_LIBRARIES: [&str; 3] = ["xml", "sqlite", "curl"];
const OF_THE_ENGINE: [&str; 19] = [
    "usort",
    "map",
    "walk",
    "replace",
    "iterate",
    "reflect",
    "json",
    "serialize",
    "wakeup",
    "string",
    "offset",
    "get",
    "count",
    "clone",
    "include",
    "eval",
    "dynamic",
    "generator",
    "filter",
];

fn nested(dice: &mut Dice, place: Place) -> Op {
    let inner = Place { depth: place.depth + 1, ..place };
    let contained = Place { may_throw: false, may_exit: false, ..inner };
    let silent = Place { is_silent: true, may_dispatch: false, is_in_fiber: true, ..contained };
    let silent = Place { may_lock: false, may_suspend: false, ..silent };
    let owner = Place { may_lock: false, may_suspend: inner.may_suspend && !inner.is_abandoned, ..inner };
    if place.is_silent {
        return match dice.below(2) {
            0 => Op::with("call", vec![json!(dice.pick(&OF_THE_ENGINE))], operations(dice, inner, 2)),
            _ => Op::with("call", vec![json!(dice.pick(&OF_LIBRARIES))], operations(dice, contained, 2)),
        };
    }
    if place.may_dispatch && dice.one_in(6) {
        return tasks::operation(dice, place);
    }
    match dice.below(26) {
        0..=2 => {
            let kind = dice.pick(&["plain", "wrap", "false", "sleep"]);
            let chunk = if dice.one_in(4) && kind != "false" { 1 + dice.below(40) + 5 } else { 0 };
            let is_sent = !dice.one_in(4);
            Op::with(
                "buffer",
                vec![json!(kind), json!(chunk), json!(is_sent)],
                operations(dice, Place { is_in_chunks: place.is_in_chunks || chunk > 0, ..inner }, 4),
            )
        }
        3 if place.may_throw && !place.is_in_chunks => Op::with(
            "buffer",
            vec![json!("throw"), json!(0), json!(!dice.one_in(4))],
            operations(dice, inner, 3),
        ),
        4 | 5 => Op::with("generator", vec![json!(dice.below(5))], operations(dice, inner, 4)),
        6 | 7 => {
            let inside = Place { may_suspend: true, is_abandoned: false, is_in_fiber: true, ..inner };
            Op::with("fiber", vec![], operations(dice, inside, 4))
        }
        8 => {
            // Abandoned code never ends, so it must hold nothing that others wait for.
            let inside = Place { may_suspend: true, is_abandoned: true, is_in_fiber: true, ..inner };
            Op::with("abandon", vec![], operations(dice, inside, 4))
        }
        9 | 10 => Op::with("try", vec![], operations(dice, Place { may_throw: true, ..inner }, 5)),
        11 => Op::with(
            "shutdown",
            vec![],
            operations(dice, Place { may_suspend: false, may_lock: false, ..contained }, 4),
        ),
        12 => Op::with("destruct", vec![], operations(dice, inner, 3)),
        13 => Op::with("keep", vec![], operations(dice, silent, 2)),
        14..=17 => Op::with("call", vec![json!(dice.pick(&OF_THE_ENGINE))], operations(dice, inner, 3)),
        18 => {
            let inside = Place { may_suspend: contained.may_suspend && !place.is_abandoned, ..contained };
            Op::with("call", vec![json!(dice.pick(&OF_LIBRARIES))], operations(dice, inside, 3))
        }
        19 => {
            // The fiber cannot be switched here: a lock that another request of the thread holds would never be free.
            let inside = Place {
                may_lock: false,
                may_suspend: false,
                may_dispatch: inner.may_dispatch && !inner.is_in_task,
                ..inner
            };
            Op::with("call", vec![json!(dice.pick(&["autoload", "large"]))], operations(dice, inside, 3))
        }
        20 => Op::with("call", vec![json!("gc")], operations(dice, silent, 3)),
        21 if place.may_lock => session(dice, owner),
        22 if place.may_lock => {
            Op::with("lock", vec![], operations(dice, Place { may_suspend: false, ..owner }, 3))
        }
        23 => Op::with("wrapper", vec![], operations(dice, Place { may_suspend: false, ..contained }, 3)),
        24 => Op::with("filter", vec![], operations(dice, Place { may_suspend: false, ..contained }, 3)),
        _ => Op::with("call", vec![json!("usort")], operations(dice, inner, 3)),
    }
}

fn session(dice: &mut Dice, owner: Place) -> Op {
    let handler = dice.pick(&["files", "user", "shared"]);
    let op = Op::with("session", vec![json!(handler)], operations(dice, owner, 3));
    // A request that waits for a destroyed session gets the lock of a deleted file.
    let ends = if handler == "shared" { 3 } else { 4 };
    Op { last: Some(dice.pick(&["write", "abort", "leave", "destroy"][..ends])), ..op }
}
